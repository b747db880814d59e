//! A transcript in one request: the file and the options are a form.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use auricle_tests::{Account, Answer, Service, Setup, eventually, silence, speech, wire};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::uploads::files;

const PATH: &str = "/v2/transcripts";
const BOUNDARY: &str = "an-uncommon-boundary";

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().start())
}

/// The folder of stored files.
fn objects(service: &Service) -> PathBuf {
    service.data().join("objects")
}

pub fn field(name: &str, value: &str) -> Vec<u8> {
    format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").into_bytes()
}

/// The part of a file, as curl sends one whose type it does not know.
fn file(filename: &str, bytes: &[u8]) -> Vec<u8> {
    file_named("file", filename, bytes)
}

/// The same in a field of another name.
pub fn file_named(name: &str, filename: &str, bytes: &[u8]) -> Vec<u8> {
    let disposition = format!("form-data; name=\"{name}\"; filename=\"{filename}\"");
    let head =
        format!("--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\nContent-Type: application/octet-stream\r\n\r\n");
    [head.as_bytes(), bytes, b"\r\n"].concat()
}

pub fn form(parts: &[Vec<u8>]) -> Vec<u8> {
    [parts.concat(), format!("--{BOUNDARY}--\r\n").into_bytes()].concat()
}

pub fn kind() -> String {
    format!("multipart/form-data; boundary={BOUNDARY}")
}

fn send(account: &Account, parts: &[Vec<u8>]) -> Answer {
    account.post_raw(PATH, &kind(), form(parts))
}

fn id(created: &Answer) -> String {
    created.ok()["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_form_makes_the_transcript_that_json_makes() {
    let account = service().account();
    let bytes = std::fs::read(speech()).unwrap();
    let options = json!({
        "title": "true", "language_code": "en", "model": "svc-fast", "sentiment_analysis": true, "summarization": true,
        "summary_type": "gist", "keyterms_prompt": ["Auricle", "a, b"], "speakers_expected": 2,
        "estimated_duration_sec": 11,
    });
    let mut request = options.clone();
    request["upload_id"] = account.upload("jfk.flac", bytes.clone()).into();
    let by_json = account.finished(&account.create(&request));
    let fields: Vec<Vec<u8>> = options
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| field(name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect();
    let sound = [file("jfk.flac", &bytes)];
    for parts in [[&sound[..], &fields[..]].concat(), [&fields[..], &sound[..]].concat()] {
        let created = send(&account, &parts).ok();
        assert_eq!((&created["status"], &created["title"]), (&json!("processing"), &json!("true")));
        let mut by_form = account.finished(created["id"].as_str().unwrap());
        for own in ["id", "created_at", "completed_at"] {
            by_form[own] = by_json[own].clone();
        }
        assert_eq!(by_form, by_json);
    }
    assert_eq!(by_json["status"], "completed");
    assert_eq!(account.usage().len(), 3);
    // Without options the name of the file is the title.
    assert_eq!(
        send(&account, &[file("Interview – Teil 1.wav", &silence(1.0))]).ok()["title"],
        "Interview – Teil 1.wav"
    );
}

#[test]
fn a_bad_form_is_refused_by_name_and_leaves_nothing() {
    let service = Setup::local().start();
    let account = service.account();
    let sound = silence(1.0);
    let wav = || file("a.wav", &sound);
    let long = "x".repeat(1 << 20);
    let many: Vec<Vec<u8>> = (0..65).map(|at| field(&format!("field{at}"), "x")).collect();
    let cases: [(Vec<Vec<u8>>, u16, &str, &str); 16] = [
        (vec![field("title", "x")], 400, "invalid_request", "`file` is missing"),
        (vec![field("audio_url", "https://example.com/a.mp3")], 400, "invalid_request", "`file` is missing"),
        (vec![wav(), wav()], 400, "invalid_request", "two files"),
        (vec![wav(), field("audio_url", "https://example.com/a.mp3")], 400, "invalid_request", "audio_url"),
        (vec![field("upload_id", "upload_1"), wav()], 400, "invalid_request", "upload_id"),
        (vec![file("notes.txt", &sound)], 400, "unsupported_media_type", "notes.txt"),
        (vec![field("file", "RIFF")], 400, "unsupported_media_type", "neither audio nor video"),
        (vec![wav(), field("model", "gpt-9")], 400, "unknown_model", "model"),
        (vec![wav(), field("sentiment_analysis", "yes")], 422, "validation_error", "sentiment_analysis"),
        (vec![field("sentiment_analysis", "1"), wav()], 422, "validation_error", "sentiment_analysis"),
        (vec![wav(), field("speakers_expected", "21")], 422, "validation_error", "speakers_expected"),
        (vec![wav(), field("keyterms_prompt", "Auricle")], 422, "validation_error", "keyterms_prompt"),
        (vec![wav(), field("title", &"x".repeat(501))], 422, "validation_error", "title"),
        (vec![wav(), field("language_code", "zh")], 400, "unsupported_option", "language_code"),
        (vec![wav(), field("title", &long)], 413, "payload_too_large", "fields"),
        ([vec![wav()], many].concat(), 400, "invalid_request", "64 fields"),
    ];
    for (parts, status, code, words) in cases {
        let message = send(&account, &parts).error(status, code);
        assert!(message.contains(words), "{words}: {message}");
    }
    // The end is missing, within the file and behind it.
    for body in [&file("a.wav", &sound)[..5_000], &[wav(), field("title", "x")].concat()[..]] {
        account.post_raw(PATH, &kind(), body.to_vec()).error(400, "invalid_request");
    }
    account.post_raw(PATH, "multipart/form-data", form(&[wav()])).error(415, "unsupported_media_type");
    let stranger = Account { key: "svc_wrong".into(), ..account.clone() };
    send(&stranger, &[wav()]).error(401, "unauthorized");
    eventually("no file is left", || (files(&objects(&service)) == 0).then_some(()));
    assert_eq!(account.get(PATH).ok()["total"], 0);
    assert_eq!(account.usage(), [] as [Value; 0]);
}

#[test]
fn an_unknown_field_is_ignored_and_named() {
    let account = service().account();
    let unknown = [field("speaker_label", "true"), field("empty", ""), file("a.wav", &silence(1.0))];
    let created = send(&account, &unknown).ok();
    assert_eq!(
        created["warnings"],
        json!(["`speaker_label` is unknown and was ignored; did you mean `speaker_labels`?"])
    );
    let done = account.finished(created["id"].as_str().unwrap());
    assert_eq!((&done["status"], &done["warnings"][0]), (&json!("completed"), &created["warnings"][0]));
}

#[test]
fn a_file_up_to_the_limit_is_taken_and_one_byte_more_is_413() {
    let sound = silence(1.0);
    let service = Setup::local().with("max_upload_bytes", sound.len()).start();
    let account = service.account();
    let larger = [&sound[..], &[0]].concat();
    send(&account, &[field("title", "x"), file("a.wav", &larger)]).error(413, "upload_too_large");
    // One whose length tells is refused before it is sent.
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nHost: api\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Type: {}\r\nContent-Length: 99999999999\r\n\r\n",
        account.key,
        kind()
    );
    let answer = wire::exchange(&service.api(), head.as_bytes());
    assert_eq!(wire::status(&answer), Some(413), "{answer}");
    eventually("no file is left", || (files(&objects(&service)) == 0).then_some(()));
    let done = account.finished(&id(&send(&account, &[field("title", "x"), file("a.wav", &sound)])));
    assert_eq!(done["audio_duration_sec"], 1.0);
    assert_eq!(files(&objects(&service)), 1);
}

#[test]
fn a_form_that_breaks_off_leaves_nothing() {
    let service = Setup::local().start();
    let account = service.account();
    let body = form(&[file("a.wav", &silence(2.0))]);
    let mut stream = wire::connect(&service.api());
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n",
        account.key,
        kind(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body[..body.len() / 2]).unwrap();
    eventually("the file is being written", || (files(&objects(&service)) == 1).then_some(()));
    drop(stream);
    eventually("no file is left", || (files(&objects(&service)) == 0).then_some(()));
    assert_eq!(account.get(PATH).ok()["total"], 0);
}

/// The file of a form that failed does not count as an unused upload.
#[test]
fn a_form_that_failed_takes_no_quota() {
    let sound = silence(2.0);
    let service = Setup::local().with("max_unused_upload_bytes", sound.len() * 3 / 2).start();
    let account = service.account();
    for _ in 0..3 {
        let refused = eventually("room for the file", || {
            let answer = send(&account, &[file("a.wav", &sound), field("model", "gpt-9")]);
            (answer.status != 429).then_some(answer)
        });
        refused.error(400, "unknown_model");
    }
    let taken = eventually("room for the file", || {
        let answer = send(&account, &[file("a.wav", &sound)]);
        (answer.status != 429).then_some(answer)
    });
    assert_eq!(account.finished(&id(&taken))["status"], "completed");
}

#[test]
fn a_repeated_form_gives_the_first_transcript_and_stores_one_file() {
    let service = Setup::local().start();
    let account = service.account();
    let send = |parts: &[Vec<u8>], boundary: &str| {
        let body = String::from_utf8(form(parts)).unwrap().replace(BOUNDARY, boundary);
        let request = account.request(Method::POST, PATH).header("idempotency-key", "once");
        Answer::of(request.header(CONTENT_TYPE, format!("multipart/form-data; boundary={boundary}")).body(body))
    };
    // What is in the file is looked at by the job alone.
    let (sound, other) = (file("a.wav", b"one recording"), file("a.wav", b"another recording"));
    let fast = || field("model", "svc-fast");
    let first = send(&[field("title", "x"), fast(), sound.clone()], "one");
    let again = send(&[sound.clone(), fast(), field("language_code", ""), field("title", "x")], "two");
    assert_eq!(id(&again), id(&first));
    send(&[field("title", "y"), fast(), sound], "one").error(409, "idempotency_conflict");
    send(&[field("title", "x"), fast(), other], "one").error(409, "idempotency_conflict");
    eventually("one file is left", || (files(&objects(&service)) == 1).then_some(()));
    assert_eq!(account.get(PATH).ok()["total"], 1);
}
