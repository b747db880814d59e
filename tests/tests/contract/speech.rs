//! `/v1/audio/speech` and `/v2/voices`, with a voice of random weights.

use std::sync::OnceLock;

use auricle_tests::{
    Account, Answer, Service, Setup, block_on, eventually, write_clause_voice, write_frame_voice, write_tiny_voice,
};
use reqwest::Method;
use serde_json::{Value, json};

const SPEECH: &str = "/v1/audio/speech";

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().voice().start())
}

fn say(account: &Account, more: Value) -> Answer {
    let mut body = json!({ "model": "tts-1", "input": "Good morning, everyone.", "voice": "alloy" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    account.post(SPEECH, &body)
}

/// The sound of a successful response.
fn sound(answer: &Answer, content_type: &str) -> Vec<u8> {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(content_type)), "{}", answer.status);
    answer.body.to_vec()
}

#[test]
fn a_text_is_said_in_each_format() {
    let account = service().account();
    let pcm = sound(&say(&account, json!({ "response_format": "pcm" })), "audio/pcm");
    assert!(pcm.len() > 2_000 && pcm.len().is_multiple_of(2) && pcm.iter().any(|byte| *byte != 0));
    let wav = sound(&say(&account, json!({ "response_format": "wav" })), "audio/wav");
    assert_eq!((&wav[..4], &wav[8..12], &wav[44..]), (b"RIFF".as_slice(), b"WAVE".as_slice(), pcm.as_slice()));
    let slow = sound(&say(&account, json!({ "response_format": "pcm", "speed": 0.5 })), "audio/pcm");
    assert!(slow.len() > pcm.len() * 3 / 2);
    let named = sound(&say(&account, json!({ "response_format": "pcm", "voice": "ann" })), "audio/pcm");
    assert_eq!(named, pcm);
    let other = sound(&say(&account, json!({ "response_format": "pcm", "voice": { "id": "bob" } })), "audio/pcm");
    assert_ne!(other, pcm);
    let own =
        sound(&say(&account, json!({ "response_format": "pcm", "model": "voice-tiny", "voice": null })), "audio/pcm");
    assert_eq!(own, pcm);
    assert!(account.usage().is_empty(), "speech has no price");
}

#[test]
fn compressed_formats_come_through_ffmpeg() {
    let account = service().account();
    for (format, content_type, starts) in [
        (None, "audio/mpeg", &[b"ID3".as_slice(), b"\xff\xf3", b"\xff\xfb"][..]),
        (Some("mp3"), "audio/mpeg", &[b"ID3", b"\xff\xf3", b"\xff\xfb"]),
        (Some("opus"), "audio/ogg", &[b"OggS"]),
        (Some("aac"), "audio/aac", &[b"\xff\xf1"]),
        (Some("flac"), "audio/flac", &[b"fLaC"]),
    ] {
        let answer = say(&account, json!({ "response_format": format }));
        if answer.status == 503 && auricle_engine::audio::ffmpeg_program().is_none() {
            return auricle_tests::skip("ffmpeg");
        }
        let bytes = sound(&answer, content_type);
        assert!(bytes.len() > 200 && starts.iter().any(|start| bytes.starts_with(start)), "{format:?}");
    }
    let without = Setup::local().voice().environment([("AURICLE_FFMPEG", "/no/such/ffmpeg".to_owned())]).start();
    let account = without.account();
    let answer = say(&account, json!({ "response_format": "mp3" }));
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("needs ffmpeg") && answer.text().contains("wav"), "{}", answer.text());
    assert_eq!(say(&account, json!({ "response_format": "wav" })).status, 200);
}

#[test]
fn sound_comes_as_it_is_made_and_a_client_that_leaves_makes_room() {
    let account = service().account();
    // Hours of speech, more often than there are places.
    let text = "One old mill stands by the lake and nobody lives there any more. ".repeat(1_500);
    for round in 0..40 {
        let format = ["pcm", "wav", "mp3", "opus"][round % 4];
        if round % 4 > 1 && auricle_engine::audio::ffmpeg_program().is_none() {
            continue;
        }
        let body = json!({ "model": "tts-1", "input": text, "voice": "alloy", "response_format": format }).to_string();
        let mut response = eventually("a place is free", || {
            let request = account.request(Method::POST, SPEECH).header("content-type", "application/json");
            let response = block_on(request.body(body.clone()).send()).unwrap();
            (response.status() != 429).then_some(response)
        });
        assert_eq!(response.status(), 200);
        let mut bytes = 0;
        while bytes < 4_000 {
            bytes += block_on(response.chunk()).unwrap().expect("hours of sound").len();
        }
    }
}

#[test]
fn voices_of_each_form_are_served_side_by_side() {
    let models = tempfile::tempdir().unwrap();
    write_tiny_voice(&models.path().join("phones"));
    write_frame_voice(&models.path().join("frames"));
    write_clause_voice(&models.path().join("clauses"));
    let entry =
        |id: &str, language: &str| format!("[[voice]]\nid = {id:?}\nstarter = {id:?}\nlanguage = {language:?}\n");
    let catalog = [entry("phones", "en"), entry("frames", "de"), entry("clauses", "en")].concat();
    std::fs::write(models.path().join("catalog.toml"), catalog).unwrap();
    let service = Setup::local().on(models.path()).start();
    let account = service.account();
    let list = account.get("/v2/voices").ok();
    let listed: Vec<(&str, &str, &str)> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|voice| {
            let text = |name: &str| voice[name].as_str().unwrap();
            (text("id"), text("language"), text("model"))
        })
        .collect();
    assert!(listed.contains(&("zed", "en", "phones")) && listed.contains(&("af_ann", "en", "clauses")), "{listed:?}");
    assert!(listed.contains(&("bob", "de", "frames")), "{listed:?}");
    let said = |more: Value| {
        let mut body = json!({ "response_format": "pcm" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        sound(&say(&account, body), "audio/pcm")
    };
    let mut all =
        [json!({ "voice": "zed" }), json!({ "voice": "af_ann" }), json!({ "voice": "de" })].map(said).to_vec();
    assert!(all.iter().all(|pcm| pcm.iter().any(|byte| *byte != 0)));
    // Frames of 80 ms.
    assert!(all[2].len().is_multiple_of(2 * 1_920), "{}", all[2].len());
    assert_eq!(said(json!({ "model": "frames", "voice": null })), said(json!({ "voice": "ann", "model": "frames" })));
    all.dedup();
    assert_eq!(all.len(), 3);
    let fast = say(&account, json!({ "voice": "de", "speed": 2, "response_format": "pcm" }));
    assert_eq!((fast.status, fast.json()["error"]["code"].as_str()), (422, Some("validation_error")));
    assert!(fast.text().contains("one speed"), "{}", fast.text());
}

#[test]
fn requests_that_cannot_be_said_are_refused() {
    let account = service().account();
    for (more, status, code) in [
        (json!({ "model": "gpt-9" }), 404, "model_not_found"),
        (json!({ "input": "" }), 422, "validation_error"),
        (json!({ "input": "..." }), 422, "validation_error"),
        (json!({ "input": "\u{1F600}" }), 422, "validation_error"),
        (json!({ "input": "\u{0}" }), 422, "validation_error"),
        (json!({ "input": "<speak><break time=\"1s\"/></speak>" }), 422, "validation_error"),
        (json!({ "input": "\u{5e9}\u{5dc}\u{5d5}\u{5dd}" }), 422, "validation_error"),
        (json!({ "voice": "siri" }), 422, "validation_error"),
        (json!({ "voice": "de" }), 422, "validation_error"),
        (json!({ "speed": 5 }), 422, "validation_error"),
        (json!({ "response_format": "midi" }), 422, "validation_error"),
        (json!({ "input": "x".repeat(1_100_000) }), 413, "payload_too_large"),
        (json!({ "input": "x".repeat(200_000) }), 422, "validation_error"),
    ] {
        let answer = say(&account, more.clone());
        let error = &answer.json()["error"];
        assert_eq!((answer.status, error["code"].as_str()), (status, Some(code)), "{:.80}: {error}", more.to_string());
        assert!(!error["message"].as_str().unwrap().is_empty());
    }
    for text in ["a", "\u{202e}Good\u{202c} morning", "<speak>Good morning</speak>", "Good\u{7}\u{1b} morning"] {
        assert_eq!(say(&account, json!({ "input": text, "response_format": "pcm" })).status, 200, "{text:?}");
    }
    assert_eq!(account.post(SPEECH, &json!({ "model": "tts-1" })).status, 400);
    assert_eq!(account.get(SPEECH).status, 405);
    let anonymous = Account { key: "svc_wrong".into(), ..account.at(&service().api()) };
    assert_eq!(say(&anonymous, json!({})).status, 401);
}

#[test]
fn voices_are_listed() {
    let list = service().account().get("/v2/voices").ok();
    let voice = |id: &str, default: bool| json!({ "id": id, "object": "voice", "language": "en", "model": "voice-tiny", "default": default });
    assert_eq!(
        list,
        json!({ "object": "list", "data": [voice("ann", true), voice("zed", false), voice("bob", false)] })
    );
}

#[test]
fn a_service_without_a_voice_says_so() {
    let service = Setup::local().start();
    let account = service.account();
    assert_eq!(account.get("/v2/voices").ok(), json!({ "object": "list", "data": [] }));
    let answer = say(&account, json!({ "response_format": "wav" }));
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (503, Some("unavailable")));
}

#[test]
fn models_leave_for_others_within_the_memory_that_is_set() {
    let starts =
        |bytes: u64| Setup::local().starter().environment([("AURICLE_MODEL_MEMORY_BYTES", bytes.to_string())]).start();
    let says = |service: &Service| {
        let body = json!({ "model": "tts-1", "input": "Good morning.", "voice": "alloy", "response_format": "pcm" });
        eventually("it speaks", || (service.account().post(SPEECH, &body).status == 200).then_some(()));
    };
    let service = starts(1 << 40);
    says(&service);
    let all = service.metric("auricle_model_bytes");
    assert!(service.metric("auricle_models_loaded") >= 3.0 && service.metric("auricle_models_unloaded_total") == 0.0);
    let service = starts(all as u64 - 1);
    says(&service);
    assert!(service.metric("auricle_models_unloaded_total") >= 1.0);
    assert!(service.metric("auricle_model_bytes") < all);
}
