//! What an account may store, how long it stays, and what remains after its deletion.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use auricle_tests::{Answer, Clock, Service, Setup, eventually, http, noise, silence, wire};
use serde_json::json;

use crate::postgres;

/// All files and folders below a folder.
fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(tree(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

/// The files below the data folder that hold these bytes.
fn files_with(service: &Service, bytes: &[u8]) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| {
        path.is_file() && fs::read(path).is_ok_and(|content| content.windows(bytes.len()).any(|window| window == bytes))
    };
    tree(&service.data()).into_iter().filter(holds).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_data_is_for_the_services_user_alone() {
    let service = Setup::local().prepare();
    fs::set_permissions(service.data(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(service.data().join("auricle.db"), "").unwrap();
    service.start();
    let account = service.account();
    account.transcribe("a.wav", silence(0.5));
    account.upload("b.wav", silence(0.5));
    let found = tree(&service.data());
    assert!(found.iter().any(|path| path.ends_with("auricle.db")));
    for path in found {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    // A folder of `keys create`, too.
    let service = Setup::new().prepare();
    service.key("first@example.org");
    assert_eq!((mode(&service.data()), mode(&service.data().join("auricle.db"))), (0o700, 0o600));
}

#[test]
fn nothing_is_left_of_a_deleted_transcript() {
    let service = Setup::local().start();
    let account = service.account();
    let (title, audio) = ("the-title-of-a-secret-talk", noise(2.0));
    let upload = account.upload("a.wav", audio.clone());
    let id = account.create(&json!({"upload_id": upload, "title": title}));
    assert_eq!(account.finished(&id)["status"], "completed");
    let marks = [title.as_bytes(), &audio[20_000..20_064]];
    assert!(marks.iter().all(|mark| !files_with(&service, mark).is_empty()), "the marks are found before");
    assert_eq!(Answer::of(account.request(reqwest::Method::DELETE, &format!("/v2/transcripts/{id}"))).status, 204);
    for mark in marks {
        eventually("it is gone", || files_with(&service, mark).is_empty().then_some(()));
    }
}

#[test]
fn nothing_is_left_of_the_file_of_a_refused_form() {
    let service = Setup::local().start();
    let account = service.account();
    let audio = noise(1.0);
    let part = |name: &str| format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"");
    for (rest, status) in [
        (format!("{}\r\n\r\ngpt-9\r\n--x--\r\n", part("model")), 404),
        ("--x--\r\n".to_owned(), 400),
        // The form ends within a field.
        (format!("{}\r\n\r\nwhis", part("model")), 400),
    ] {
        let mut form = format!("{}; filename=\"a.wav\"\r\n\r\n", part("file")).into_bytes();
        form.extend_from_slice(&audio);
        form.extend_from_slice(format!("\r\n{rest}").as_bytes());
        let answer = account.post_raw("/v1/audio/transcriptions", "multipart/form-data; boundary=x", form);
        assert_eq!(answer.status, status, "{}", answer.text());
        eventually("it is gone", || files_with(&service, &audio[10_000..10_064]).is_empty().then_some(()));
    }
}

#[test]
fn uploads_without_a_transcript_have_a_quota() {
    let service = Setup::local().with("max_unused_upload_bytes", 100_000).with("job_workers", 1).start();
    let (account, other) = (service.account(), service.account());
    let file = silence(5.0);
    assert_eq!(file.len(), 40_044);
    let first = account.upload("a.wav", file.clone());
    let pending = account.sign("b.wav", "audio/wav");
    assert_eq!(pending.put(file.clone()).status, 200);
    let third = account.sign("c.wav", "audio/wav");
    third.put(file.clone()).error(429, "quota_exceeded");
    // Without a length the body is broken off where the quota ends.
    let target = third.url().splitn(4, '/').nth(3).unwrap();
    let mut put = format!(
        "PUT /{target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: audio/wav\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n",
        file.len()
    )
    .into_bytes();
    put.extend_from_slice(&file);
    put.extend_from_slice(b"\r\n0\r\n\r\n");
    let answer = wire::exchange(&service.storage(), &put);
    assert!(wire::status(&answer) == Some(429) && answer.contains("quota_exceeded"), "{answer}");
    let declared = json!({"filename": "d.wav", "content_type": "audio/wav", "size_bytes": 30_000});
    account.post("/v2/uploads/sign", &declared).error(429, "quota_exceeded");
    // Sending a file again replaces it, and others have quotas of their own.
    assert_eq!(pending.put(file.clone()).status, 200);
    other.upload("a.wav", file.clone());
    // A transcript uses its upload.
    account.finished(&account.create(&json!({"upload_id": first})));
    assert_eq!(third.put(file.clone()).status, 200);
    account.complete(third.id()).ok();
    // One that failed does not.
    let broken = account.upload("broken.wav", vec![7; 10_000]);
    assert_eq!(account.finished(&account.create(&json!({"upload_id": broken})))["status"], "error");
    account.sign("e.wav", "audio/wav").put(vec![7; 12_000]).error(429, "quota_exceeded");
}

#[test]
fn waiting_transcripts_have_a_quota() {
    let service = Setup::local().with("role", "api").with("max_queued_transcripts", 3).start();
    let (account, other) = (service.account(), service.account());
    let body = json!({"upload_id": account.upload("a.wav", silence(0.5))});
    let ids: Vec<String> = (0..3).map(|_| account.create(&body)).collect();
    let refused = account.post("/v2/transcripts", &body);
    refused.error(429, "quota_exceeded");
    assert!(refused.header("retry-after").is_some());
    other.create(&json!({"upload_id": other.upload("a.wav", silence(0.5))}));
    Answer::of(account.request(reqwest::Method::DELETE, &format!("/v2/transcripts/{}", ids[0])));
    account.create(&body);
}

#[test]
fn transcripts_are_kept_for_the_days_that_are_set() {
    let Some(clock) = Clock::new() else { return };
    let kept = Setup::local().environment(clock.environment()).start();
    let service = Setup::local().with("transcript_retention_days", 30).environment(clock.environment()).start();
    let before: Vec<_> = [&kept, &service]
        .iter()
        .map(|service| {
            let account = service.account();
            let id = account.transcribe("a.wav", silence(0.5))["id"].as_str().unwrap().to_owned();
            (account, id)
        })
        .collect();
    for (days, left) in [("+29d", true), ("+31d", false)] {
        [&kept, &service].iter().for_each(|service| service.kill());
        clock.set(days);
        [&kept, &service].iter().for_each(|service| service.start());
        let status = |at: usize| before[at].0.get(&format!("/v2/transcripts/{}", before[at].1)).status;
        if left {
            assert_eq!(status(1), 200, "{days}");
        } else {
            eventually("it is deleted", || (status(1) == 404).then_some(()));
            assert_eq!(before[1].0.usage().len(), 1, "what was billed stays");
        }
        assert_eq!(status(0), 200, "{days}");
    }
}

#[test]
fn an_empty_secret_of_stripe_is_refused() {
    let service = Setup::new()
        .with("billing_provider", "stripe")
        .with("stripe_secret_key", "sk_test")
        .with("stripe_price_id", "price_1")
        .with("stripe_webhook_secret", "")
        .prepare();
    service.spawn();
    assert!(!service.wait().success());
    assert!(service.log().contains("stripe_webhook_secret"), "{}", service.log());
}

/// The most memory that a process has had, in bytes.
fn peak_memory(service: &Service) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", service.process_id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_list_of_long_transcripts_is_not_held_in_memory() {
    let Some(server) = postgres() else { return };
    const COUNT: usize = 20;
    const WORDS: usize = 200_000;
    let url = server.database();
    let service = Setup::local().with("database_url", &url).start();
    let account = service.account();
    let body = json!({"upload_id": account.upload("a.wav", silence(0.5))});
    let ids: Vec<String> = (0..COUNT).map(|_| account.create(&body)).collect();
    ids.iter().for_each(|id| drop(account.finished(id)));
    let word = "{\"text\":\"äb\",\"start\":0,\"end\":1,\"confidence\":1.0}";
    server.sql(
        &url,
        &format!("UPDATE transcripts SET text = 'äb', words = '[' || repeat('{word},', {}) || '{word}]'", WORDS - 1),
    );
    // The words are indexed, too, which is not measured here.
    eventually("the index", || {
        let found = account.get("/v2/transcripts/search?query=%C3%A4b&limit=100").ok();
        (found["data"].as_array().unwrap().len() == COUNT).then_some(())
    });
    let before = peak_memory(&service);
    let list = account.get("/v2/transcripts?limit=100");
    let grown = peak_memory(&service).saturating_sub(before);
    assert_eq!(list.text().matches("äb").count(), COUNT * (WORDS + 1));
    let whole = list.body.len() as u64;
    assert!(whole > 150 << 20 && grown < whole / 2, "{grown} bytes for {whole}");
    let list = list.ok();
    assert_eq!((list["data"].as_array().unwrap().len(), &list["total"]), (COUNT, &json!(COUNT)));
    let one = account.get(&format!("/v2/transcripts/{}", ids[0])).ok();
    assert_eq!(one["words"].as_array().unwrap().len(), WORDS);
    assert_eq!(one, list["data"][COUNT - 1]);
    let path = |part: &str| format!("/v2/transcripts/{}{part}", ids[0]);
    let paragraphs = account.get(&path("/paragraphs")).ok();
    let words = |part: &serde_json::Value| part["words"].as_array().unwrap().len();
    assert_eq!(paragraphs["paragraphs"].as_array().unwrap().iter().map(words).sum::<usize>(), WORDS);
    assert_eq!(account.get(&path("/word-search?words=äb")).ok()["total_count"], WORDS);
    let head = Answer::of(http().head(format!("{}{}", account.api, path(""))).bearer_auth(&account.key));
    assert_eq!((head.status, head.body.len()), (200, 0));
}
