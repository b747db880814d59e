//! Protocols of other programs: the server of whisper.cpp, and whisper-asr-webservice.

use std::sync::OnceLock;

use auricle_tests::{Account, Answer, Service, Setup, http, pcm, silence, speech};
use data_encoding::BASE64;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use serde_json::Value;

use crate::forms::{field, file_named, form, kind};

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().starter().start())
}

/// A request with this `Authorization`.
fn post(account: &Account, path: &str, authorization: &str, parts: &[Vec<u8>]) -> Answer {
    let request = http().request(Method::POST, format!("{}{path}", account.api));
    Answer::of(request.header(AUTHORIZATION, authorization).header(CONTENT_TYPE, kind()).body(form(parts)))
}

/// The `Authorization` of an address `http://key:svc_...@host`.
fn basic(account: &Account) -> String {
    format!("Basic {}", BASE64.encode(format!("key:{}", account.key).as_bytes()))
}

fn recording() -> Vec<u8> {
    std::fs::read(speech()).unwrap()
}

#[test]
fn the_server_of_whisper_cpp() {
    let account = service().account();
    let ask = |fields: &[(&str, &str)]| {
        let fields = fields.iter().map(|(name, value)| field(name, value));
        let parts: Vec<_> = std::iter::once(file_named("file", "jfk.flac", &recording())).chain(fields).collect();
        post(&account, "/inference", &basic(&account), &parts)
    };
    let plain = ask(&[("response_format", "json"), ("temperature", "0.0")]);
    let said = plain.ok()["text"].as_str().unwrap().to_owned();
    assert!(said.contains("can do for your country"), "{said}");
    let verbose = ask(&[("response_format", "verbose_json"), ("language", "auto")]).ok();
    assert_eq!((&verbose["language"], &verbose["task"]), (&"english".into(), &"transcribe".into()));
    let words: usize =
        verbose["segments"].as_array().unwrap().iter().map(|one| one["words"].as_array().unwrap().len()).sum();
    assert_eq!(words, said.split_whitespace().count());
    let translated = ask(&[("response_format", "text"), ("language", "en"), ("translate", "true")]);
    assert!(translated.text().contains("country"), "{}", translated.text());
    assert!(ask(&[("response_format", "srt")]).text().starts_with("1\n00:00:"));
    assert_eq!(account.usage().len(), 4, "each is an ordinary job");
    for (parts, wanted) in [
        (vec![field("response_format", "json")], "file is missing"),
        (vec![file_named("file", "a.wav", &silence(0.5)), field("response_format", "xml")], "xml"),
        (vec![file_named("file", "a.wav", b"no sound")], "failed"),
    ] {
        let refused = post(&account, "/inference", &basic(&account), &parts);
        let error = refused.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(refused.status == 400 && error.contains(wanted), "{} {error}", refused.status);
    }
}

#[test]
fn whisper_asr_webservice() {
    let account = service().account();
    let file = || vec![file_named("audio_file", "jfk.flac", &recording())];
    let ask = |query: &str| post(&account, &format!("/asr?{query}"), &format!("Token {}", account.key), &file());
    let plain = ask("output=txt&task=transcribe");
    assert!(plain.text().contains("can do for your country"), "{}", plain.text());
    assert_eq!(plain.header("asr-engine"), Some("auricle"));
    let found = ask("output=json&language=en&word_timestamps=true&encode=true").ok();
    assert!(found["language"] == "en" && found["segments"][0]["words"][0]["start"].is_f64(), "{found}");
    assert!(ask("output=srt").text().contains(" --> ") && ask("output=vtt").text().starts_with("WEBVTT"));
    let rows = ask("output=tsv");
    let rows = rows.text();
    assert!(rows.starts_with("start\tend\ttext\n") && rows.lines().nth(1).unwrap().split('\t').count() == 3, "{rows}");

    // What a client has decoded has no header and no name.
    let samples = auricle_engine::audio::AudioStream::open(speech()).unwrap().read_to_end().unwrap();
    let raw = vec![file_named("audio_file", "audio_file", &pcm(samples))];
    let from_raw = post(&account, "/asr?encode=false&output=txt", &account.key, &raw);
    assert!(from_raw.text().contains("can do for your country"), "{}", from_raw.text());
    let language: Value = post(&account, "/detect-language?encode=false", &account.key, &raw).ok();
    assert_eq!((&language["language_code"], &language["detected_language"]), (&"en".into(), &"english".into()));

    for query in ["output=doc", "task=sing", "encode=perhaps", "language=xx"] {
        let refused = ask(query);
        assert!((400..=422).contains(&refused.status) && refused.json()["detail"].is_string(), "{}", refused.text());
    }
}

#[test]
fn keys_are_wanted_in_any_form() {
    let account = service().account();
    let file = [file_named("file", "a.wav", &silence(0.5))];
    for wrong in
        ["", "Basic !", "Bearer", "Bearer svc_wrong", "Digest svc_x", &format!("Basic {}", BASE64.encode(b"a:b"))]
    {
        post(&account, "/inference", wrong, &file).error(401, "unauthorized");
    }
    // Elsewhere the key is a bearer.
    let elsewhere = http().request(Method::GET, format!("{}/v2/transcripts", account.api));
    Answer::of(elsewhere.header(AUTHORIZATION, basic(&account))).error(401, "unauthorized");
}
