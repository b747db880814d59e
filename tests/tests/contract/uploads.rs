//! Uploads: interface sections 2.2, 3 and 4.2.

use std::io::Write as _;
use std::sync::OnceLock;

use auricle_tests::{Answer, Service, Setup, Signed, eventually, http, silence, wire};
use reqwest::Method;
use serde_json::json;

const GIB5: u64 = 5 * 1024 * 1024 * 1024;

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().start())
}

#[test]
fn sign_answers_with_an_id_a_url_and_headers() {
    let account = service().account();
    let signed = account.sign("talk.mp3", "audio/mpeg");
    assert!(signed.id().starts_with("upload_"), "{signed:?}");
    let content_type = signed.headers().into_iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    assert_eq!(content_type.map(|(_, value)| value), Some("audio/mpeg"));
    assert_eq!(signed.0["method"], "PUT");
    assert_eq!(signed.0["max_size_bytes"], GIB5);
    assert!(signed.0["expires_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{signed:?}");
    assert!(!signed.url().starts_with(&account.api), "the signed URL is not under the base address");
    assert!(signed.url().starts_with(&service().storage()));
}

#[test]
fn sign_put_complete_makes_an_upload_ready() {
    let account = service().account();
    let signed = account.sign("talk.wav", "audio/wav");
    assert_eq!(signed.put(silence(1.5)).status, 200, "the PUT carries no key");
    let ready = account.complete(signed.id()).ok();
    let expected = json!({
        "upload_id": signed.id(), "status": "ready", "filename": "talk.wav", "content_type": "audio/wav",
        "size_bytes": silence(1.5).len(),
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&ready[field], value, "{field}");
    }
    assert_eq!(account.complete(signed.id()).ok(), ready, "repeating it is harmless");
    let done = account.finished(&account.create(&json!({"upload_id": signed.id()})));
    assert_eq!((&done["status"], &done["audio_duration_sec"]), (&json!("completed"), &json!(1.5)));
}

#[test]
fn complete_before_the_bytes_is_upload_incomplete_and_can_be_repaired() {
    let account = service().account();
    let signed = account.sign("talk.wav", "audio/wav");
    account.complete(signed.id()).error(409, "upload_incomplete");
    account.post("/v2/transcripts", &json!({"upload_id": signed.id()})).error(409, "upload_incomplete");
    assert_eq!(signed.put(silence(1.0)).status, 200);
    account.post("/v2/transcripts", &json!({"upload_id": signed.id()})).error(409, "upload_incomplete");
    assert_eq!(account.complete(signed.id()).ok()["status"], "ready");
}

#[test]
fn an_unknown_upload_and_anothers_are_404() {
    let (owner, other) = (service().account(), service().account());
    let id = owner.upload("mine.wav", silence(1.0));
    for id in [id.as_str(), "upload_doesnotexist", "tr_1", "x"] {
        other.complete(id).error(404, "not_found");
        other.post("/v2/transcripts", &json!({"upload_id": id})).error(404, "not_found");
    }
}

#[test]
fn audio_and_video_types_are_accepted() {
    let account = service().account();
    for kind in
        ["audio/mpeg", "audio/x-anything", "video/mp4", "video/quicktime", "Audio/WAV", "audio/ogg; codecs=opus"]
    {
        account.sign("recording", kind);
    }
}

#[test]
fn a_known_extension_is_accepted_under_a_generic_type() {
    let account = service().account();
    let audio = "mp3 wav flac aac m4a m4b ogg opus wma aiff amr au alac ac3 caf";
    let video = "mp4 mov mkv webm avi mpeg wmv flv m4v 3gp ts mts m2ts";
    for extension in audio.split(' ').chain(video.split(' ')).chain(["MP3", "Mp4"]) {
        account.sign(&format!("recording.{extension}"), "application/octet-stream");
    }
}

#[test]
fn other_files_are_unsupported_media() {
    let account = service().account();
    let other = [
        ("notes.txt", "text/plain"),
        ("archive.zip", "application/zip"),
        ("page.html", "text/html"),
        ("picture.png", "image/png"),
        ("unnamed", "application/octet-stream"),
        ("report.mp3.pdf", "application/octet-stream"),
        ("mp3", "application/octet-stream"),
        ("x.bin", "notaudio/mpeg"),
    ];
    let no_type =
        |filename: &str| account.post("/v2/uploads/sign", &json!({"filename": filename, "content_type": " "}));
    assert_eq!(no_type("talk.mkv").ok()["headers"]["Content-Type"], "application/octet-stream");
    no_type("notes.txt").error(400, "unsupported_media_type");
    for (filename, kind) in other {
        let body = json!({"filename": filename, "content_type": kind});
        account.post("/v2/uploads/sign", &body).error(400, "unsupported_media_type");
    }
}

#[test]
fn the_sign_request_is_checked() {
    let account = service().account();
    let sign = |body| account.post("/v2/uploads/sign", &body);
    sign(json!({"content_type": "audio/wav"})).error(400, "invalid_request");
    sign(json!({"filename": "a.wav"})).error(400, "invalid_request");
    sign(json!({})).error(400, "invalid_request");
    sign(json!({"filename": null, "content_type": "audio/wav"})).error(422, "validation_error");
    sign(json!({"filename": 5, "content_type": "audio/wav"})).error(422, "validation_error");
    sign(json!({"filename": "a.wav", "content_type": ["audio/wav"]})).error(422, "validation_error");
    for size in [json!("1000"), json!(-1), json!(1.5)] {
        let body = json!({"filename": "a.wav", "content_type": "audio/wav", "size_bytes": size});
        sign(body).error(422, "validation_error");
    }
    sign(json!({"filename": "a.wav", "content_type": "audio/wav", "size_bytes": null})).ok();
}

#[test]
fn a_size_up_to_five_gib_is_signed_and_one_byte_more_is_413() {
    let account = service().account();
    let sign = |size: u64| {
        account.post("/v2/uploads/sign", &json!({"filename": "a.wav", "content_type": "audio/wav", "size_bytes": size}))
    };
    sign(GIB5).ok();
    sign(GIB5 + 1).error(413, "upload_too_large");
    sign(u64::MAX).error(413, "upload_too_large");
}

#[test]
fn a_put_up_to_the_limit_lands_and_one_byte_more_is_413() {
    let limit = silence(1.0).len();
    let service = Setup::new().with("max_upload_bytes", limit).start();
    let account = service.account();
    let signed = account.sign("a.wav", "audio/wav");
    assert_eq!(signed.0["max_size_bytes"], limit);
    let mut file = silence(1.0);
    file.push(0);
    signed.put(file.clone()).error(413, "upload_too_large");
    account.complete(signed.id()).error(409, "upload_incomplete");
    // Chunked, without a Content-Length.
    let mut chunked = head(&signed, "Transfer-Encoding: chunked");
    chunked.extend_from_slice(format!("{:x}\r\n", file.len()).as_bytes());
    chunked.extend_from_slice(&file);
    chunked.extend_from_slice(b"\r\n0\r\n\r\n");
    assert_eq!(wire::status(&wire::exchange(&service.storage(), &chunked)), Some(413));
    account.complete(signed.id()).error(409, "upload_incomplete");
    // Refused at once, before the body is sent.
    let answer = wire::exchange(&service.storage(), &head(&signed, "Content-Length: 99999999999"));
    assert_eq!(wire::status(&answer), Some(413), "{answer}");
    assert_eq!(signed.put(silence(1.0)).status, 200, "the same URL still works");
    assert_eq!(account.complete(signed.id()).ok()["size_bytes"], limit);
    let body = json!({"filename": "a.wav", "content_type": "audio/wav", "size_bytes": limit + 1});
    account.post("/v2/uploads/sign", &body).error(413, "upload_too_large");
}

/// The raw head of a PUT request.
fn head(signed: &Signed, length: &str) -> Vec<u8> {
    let target = signed.url().splitn(4, '/').nth(3).unwrap();
    let headers: String = signed.headers().iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("PUT /{target} HTTP/1.1\r\nHost: storage\r\nConnection: close\r\n{headers}{length}\r\n\r\n").into_bytes()
}

#[test]
fn a_chunked_put_is_stored() {
    let account = service().account();
    let signed = account.sign("a.wav", "audio/wav");
    let mut put = head(&signed, "Transfer-Encoding: chunked");
    let file = silence(0.5);
    for chunk in file.chunks(1000) {
        put.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        put.extend_from_slice(chunk);
        put.extend_from_slice(b"\r\n");
    }
    put.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(wire::status(&wire::exchange(&service().storage(), &put)), Some(200));
    assert_eq!(account.complete(signed.id()).ok()["size_bytes"], file.len());
}

#[test]
fn an_interrupted_put_stores_nothing() {
    let account = service().account();
    let signed = account.sign("a.wav", "audio/wav");
    let file = silence(1.0);
    let mut stream = wire::connect(&service().storage());
    stream.write_all(&head(&signed, &format!("Content-Length: {}", file.len()))).unwrap();
    stream.write_all(&file[..file.len() / 2]).unwrap();
    drop(stream);
    account.complete(signed.id()).error(409, "upload_incomplete");
    assert_eq!(signed.put(file.clone()).status, 200);
    assert_eq!(account.complete(signed.id()).ok()["size_bytes"], file.len());
}

#[test]
fn a_repeated_put_replaces() {
    let account = service().account();
    let signed = account.sign("a.wav", "audio/wav");
    assert_eq!(signed.put(silence(4.0)).status, 200);
    assert_eq!(signed.put(silence(2.0)).status, 200);
    assert_eq!(account.complete(signed.id()).ok()["size_bytes"], silence(2.0).len());
    let done = account.finished(&account.create(&json!({"upload_id": signed.id()})));
    assert_eq!(done["audio_duration_sec"], 2.0);
}

#[test]
fn a_put_during_the_deletion_of_its_upload_leaves_nothing() {
    let service = Setup::local().start();
    let account = service.account();
    let signed = account.sign("a.wav", "audio/wav");
    assert_eq!(signed.put(silence(1.0)).status, 200);
    account.complete(signed.id()).ok();
    let id = account.create(&json!({"upload_id": signed.id()}));
    account.finished(&id);
    let file = silence(2.0);
    let mut stream = wire::connect(&service.storage());
    stream.write_all(&head(&signed, &format!("Content-Length: {}", file.len()))).unwrap();
    stream.write_all(&file[..file.len() / 2]).unwrap();
    let objects = service.data().join("objects");
    // The new object is written beside the old one.
    eventually("the PUT is being written", || (files(&objects) == 2).then_some(()));
    assert_eq!(account.delete(&format!("/v2/transcripts/{id}")).status, 204);
    eventually("the first is gone", || (files(&objects) == 1).then_some(()));
    stream.write_all(&file[file.len() / 2..]).unwrap();
    assert_eq!(wire::status(&wire::read_to_end(&mut stream)), Some(404));
    eventually("the second is gone", || (files(&objects) == 0).then_some(()));
}

/// Number of files in a folder and its subfolders.
pub(crate) fn files(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { 1 }).sum()
}

#[test]
fn a_content_type_unfit_for_a_header_is_refused_and_spaces_are_trimmed() {
    let account = service().account();
    let sign = |kind: &str| account.post("/v2/uploads/sign", &json!({"filename": "a.wav", "content_type": kind}));
    for kind in ["audio/wäv", "audio/a\nb", "audio/\u{7f}"] {
        sign(kind).error(422, "validation_error");
    }
    let signed = Signed(sign(" audio/wav ").ok());
    assert_eq!(signed.put(silence(0.5)).status, 200);
    account.complete(signed.id()).ok();
}

#[test]
fn other_headers_than_signed_are_403() {
    let account = service().account();
    let signed = account.sign("a.wav", "audio/wav");
    let put = |kind: Option<&str>| {
        let request = http().put(signed.url()).body(silence(1.0));
        Answer::of(kind.map(|kind| request.try_clone().unwrap().header("content-type", kind)).unwrap_or(request))
    };
    put(Some("audio/mpeg")).error(403, "signature_mismatch");
    put(None).error(403, "signature_mismatch");
    account.complete(signed.id()).error(409, "upload_incomplete");
}

#[test]
fn a_changed_url_is_403() {
    let account = service().account();
    let (signed, other) = (account.sign("a.wav", "audio/wav"), account.sign("b.wav", "audio/wav"));
    let url = signed.url();
    let last = if url.ends_with('0') { '1' } else { '0' };
    let (path, query) = url.split_once('?').expect("a query");
    let urls = [
        format!("{}{last}", &url[..url.len() - 1]),
        url.replace(signed.id(), other.id()),
        url.replace("expires=", "expires=9"),
        path.to_owned(),
        format!("{path}?{}", query.split('&').find(|part| !part.starts_with("signature")).unwrap()),
    ];
    for url in urls {
        let put = http().put(&url).header("content-type", "audio/wav").body(silence(1.0));
        Answer::of(put).error(403, "signature_mismatch");
    }
    account.complete(signed.id()).error(409, "upload_incomplete");
    account.complete(other.id()).error(409, "upload_incomplete");
}

#[test]
fn a_put_past_the_urls_time_is_403() {
    let service = Setup::new().with("upload_url_seconds", 1).start();
    let signed = service.account().sign("a.wav", "audio/wav");
    let late = eventually("the URL expires", || Some(signed.put(silence(0.1))).filter(|put| put.status != 200));
    late.error(403, "upload_expired");
}

#[test]
fn the_storage_listener_takes_nothing_but_signed_puts() {
    let account = service().account();
    let signed = account.sign("a.wav", "audio/wav");
    assert_eq!(signed.put(silence(1.0)).status, 200);
    for method in [Method::GET, Method::HEAD, Method::POST, Method::DELETE] {
        let answer = Answer::of(http().request(method.clone(), signed.url()));
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.header("allow").is_some_and(|allow| allow.contains("PUT")), "{method}: {:?}", answer.headers);
    }
    let storage = service().storage();
    for path in ["/", "/uploads", "/v2/models", "/objects/", "/../auricle.db"] {
        assert_eq!(Answer::of(http().put(format!("{storage}{path}"))).status, 404, "{path}");
    }
}

#[test]
fn a_file_name_is_kept_and_is_never_a_path() {
    let account = service().account();
    for name in ["../../../../etc/passwd.mp3", "a/b\\c.mp3", "–ü ß 語.mp3", "quote\"'.mp3", "..", " .mp3"] {
        let signed = account.sign(name, "audio/mpeg");
        assert_eq!(signed.put(silence(0.5)).status, 200, "{name}");
        assert_eq!(account.complete(signed.id()).ok()["filename"], name);
    }
}

#[test]
fn memory_stays_flat_while_a_large_file_comes_in() {
    const SIZE: usize = 160 << 20;
    let service = Setup::new().start();
    let account = service.account();
    // One upload beforehand, so that one-time allocations do not count.
    account.upload("first.wav", silence(1.0));
    let peak = || -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", service.process_id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10)
    };
    let before = peak();
    let signed = account.sign("large.wav", "audio/wav");
    assert_eq!(signed.put(vec![0; SIZE]).status, 200);
    assert_eq!(account.complete(signed.id()).ok()["size_bytes"], SIZE);
    let grown = peak() - before;
    assert!(grown < SIZE / 4, "{} MiB more for a file of {} MiB", grown >> 20, SIZE >> 20);
}
