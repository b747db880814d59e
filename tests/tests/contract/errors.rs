//! Errors: every row of interface section 7 that a served endpoint can give, and the shape of all of them.

use std::sync::OnceLock;

use auricle_tests::{Answer, Service, Setup, http, silence};
use reqwest::Method;
use serde_json::{Value, json};

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().start())
}

#[test]
fn unsupported_media_type() {
    let body = json!({"filename": "notes.txt", "content_type": "text/plain"});
    service().account().post("/v2/uploads/sign", &body).error(400, "unsupported_media_type");
}

#[test]
fn unknown_model() {
    let body = json!({"audio_url": "http://example.org/a.wav", "model": "svc-worst"});
    let message = service().account().post("/v2/transcripts", &body).error(400, "unknown_model");
    assert!(message.contains("svc-worst"), "the message says what was wrong: {message}");
}

#[test]
fn invalid_webhook_url() {
    let body = json!({"audio_url": "http://example.org/a.wav", "webhook_url": "http://localhost/"});
    service().account().post("/v2/transcripts", &body).error(400, "invalid_webhook_url");
}

#[test]
fn neither_or_both_sources() {
    let account = service().account();
    account.post("/v2/transcripts", &json!({"title": "x"})).error(400, "invalid_request");
    let both = json!({"audio_url": "http://example.org/a.wav", "upload_id": "upload_1"});
    account.post("/v2/transcripts", &both).error(400, "invalid_request");
}

#[test]
fn unauthorized() {
    let answer = Answer::of(http().get(format!("{}/v2/models", service().api())));
    answer.error(401, "unauthorized");
    assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer"));
}

#[test]
fn billing_required() {
    let account = service().account();
    let body = json!({"audio_url": "http://example.org/a.wav", "estimated_duration_sec": 1_000_000});
    account.post("/v2/transcripts", &body).error(402, "v2_billing_required");
}

#[test]
fn not_found() {
    let account = service().account();
    account.get("/v2/transcripts/tr_none").error(404, "not_found");
    account.complete("upload_none").error(404, "not_found");
}

#[test]
fn not_ready() {
    let account = service().account();
    let id = account.create(&json!({"upload_id": account.upload("text.wav", "no sound")}));
    account.finished(&id);
    account.get(&format!("/v2/transcripts/{id}/srt")).error(409, "not_ready");
}

#[test]
fn already_api_subscribed() {
    let account = service().account();
    let page = account.post_empty("/v2/billing/checkout").ok()["url"].as_str().unwrap().to_owned();
    assert!(Answer::of(http().post(page)).status < 400);
    account.post_empty("/v2/billing/checkout").error(409, "already_api_subscribed");
}

#[test]
fn upload_incomplete() {
    let account = service().account();
    let signed = account.sign("a.wav", "audio/wav");
    account.complete(signed.id()).error(409, "upload_incomplete");
}

#[test]
fn upload_too_large() {
    let body = json!({"filename": "a.wav", "content_type": "audio/wav", "size_bytes": 5_u64 * 1024 * 1024 * 1024 + 1});
    service().account().post("/v2/uploads/sign", &body).error(413, "upload_too_large");
}

#[test]
fn validation_error() {
    let body = json!({"audio_url": "http://example.org/a.wav", "speaker_labels": "yes"});
    service().account().post("/v2/transcripts", &body).error(422, "validation_error");
}

#[test]
fn a_failed_transcript_is_read_with_200() {
    let account = service().account();
    let id = account.create(&json!({"upload_id": account.upload("text.wav", "no sound")}));
    let done = account.finished(&id);
    assert_eq!(done["status"], "error");
    assert!(done["error"].as_str().is_some_and(|reason| !reason.is_empty()), "{done}");
    assert_eq!(account.usage(), [] as [Value; 0]);
}

#[test]
fn malformed_json_is_400() {
    let account = service().account();
    for path in ["/v2/transcripts", "/v2/uploads/sign"] {
        for body in ["", "{", "{\"audio_url\": \"x\"", "{'a': 1}", "{\"a\": 1}}", "nul", "{\"a\": NaN}", "\u{feff}{}"] {
            account.post_raw(path, "application/json", body).error(400, "invalid_request");
        }
    }
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    let account = service().account();
    for body in [json!([]), json!("text"), json!(5), json!(null), json!(true)] {
        let answer = account.post("/v2/transcripts", &body);
        assert!([400, 422].contains(&answer.status), "{body}: {}", answer.status);
        answer.error(answer.status, if answer.status == 400 { "invalid_request" } else { "validation_error" });
    }
}

#[test]
fn no_message_shows_internal_details() {
    let account = service().account();
    let answers = [
        account.get("/v2/transcripts/'%20OR%20'1'='1"),
        account.get("/v2/usage?limit=1%20UNION%20SELECT"),
        account.post("/v2/transcripts", &json!({"upload_id": "upload_'; DROP TABLE uploads; --"})),
        account.post("/v2/transcripts", &json!({"audio_url": 5})),
        account.post_raw("/v2/transcripts", "application/json", "{"),
    ];
    for answer in answers {
        assert!((400..500).contains(&answer.status), "{}", answer.status);
        let body = answer.json();
        let message = body["error"]["message"].as_str().unwrap();
        for inside in ["SELECT", "sqlx", "sqlite", "postgres", "panicked", ".rs:", "/root", "/tmp"] {
            assert!(!message.to_lowercase().contains(&inside.to_lowercase()) || inside == "SELECT", "{message}");
        }
    }
}

#[test]
fn a_body_in_a_coding_is_415() {
    let account = service().account();
    let body = json!({"audio_url": "http://example.org/a.wav"}).to_string();
    let send = |path: &str, coding: &str| {
        let request = account.request(Method::POST, path).header("content-type", "application/json");
        Answer::of(request.header("content-encoding", coding).body(body.clone()))
    };
    for path in ["/v2/transcripts", "/v2/uploads/sign", "/v2/llm/chat-completions", "/v1/audio/transcriptions"] {
        for coding in ["foo", "gzip", "identity, br"] {
            let answer = send(path, coding);
            assert_eq!(answer.status, 415, "{path} {coding}: {}", answer.text());
            assert_eq!(answer.header("accept-encoding"), Some("identity"), "{path} {coding}");
            assert_eq!(answer.json()["error"]["code"], "unsupported_media_type");
        }
    }
    send("/v2/transcripts", "Identity").ok();
    let upload = account.sign("a.wav", "audio/wav");
    let put = Answer::of(upload.request(silence(0.5)).header("content-encoding", "gzip"));
    assert_eq!((put.status, put.header("accept-encoding")), (415, Some("identity")), "{}", put.text());
    // Without a body there is nothing to decode, and a wrong key is reported first.
    Answer::of(account.request(Method::GET, "/v2/models").header("content-encoding", "gzip")).ok();
    let stranger = auricle_tests::Account { key: "svc_wrong".into(), ..account.clone() };
    let request = stranger.request(Method::POST, "/v2/transcripts").header("content-encoding", "gzip");
    Answer::of(request.body(body.clone())).error(401, "unauthorized");
}

#[test]
fn long_values_are_not_echoed() {
    let service = Setup::local().voice().start();
    let account = service.account();
    let long = "x".repeat(900_000);
    let upload = account.upload("a.wav", silence(0.5));
    let with = |field: &str, value: &Value| json!({"upload_id": upload, field: value});
    let mut bodies: Vec<(&str, Value)> = ["model", "language_code", "summary_type", "pii_substitution", "redact_audio"]
        .iter()
        .flat_map(|field| {
            [&long, &"x y ".repeat(200_000), &"\"".repeat(400_000)].map(|value| with(field, &json!(value)))
        })
        .map(|body| ("/v2/transcripts", body))
        .collect();
    let say = |field: &str| json!({"model": "tts-1", "input": "Hi", "voice": "alloy", field: long});
    let messages = json!([{"role": "user", "content": "Hi"}]);
    bodies.extend([
        ("/v2/transcripts", json!({"upload_id": long})),
        ("/v2/speech-understanding", json!({"transcript_id": "tr_1", "prompt": "x", "response_format": long})),
        ("/v2/llm/chat-completions", json!({"messages": messages, "model": long})),
        ("/v2/llm/chat-completions", json!({"messages": [{"role": long, "content": "Hi"}]})),
        ("/v2/realtime/token", json!({"model": long})),
        ("/v2/realtime/token", json!({"language_code": long})),
        ("/v2/voice-agent/token", json!({"model": long})),
        ("/v1/audio/speech", say("model")),
        ("/v1/audio/speech", say("voice")),
        ("/v1/audio/speech", say("response_format")),
        ("/v1/chat/completions", json!({"messages": messages, "model": long})),
    ]);
    for (path, body) in bodies {
        let answer = account.post(path, &body);
        assert!((400..500).contains(&answer.status), "{path}: {}", answer.status);
        assert!(answer.body.len() < 5000, "{path}: {} bytes for {:.80}", answer.body.len(), body.to_string());
    }
    let message = account.post("/v2/transcripts", &with("model", &json!(long))).error(400, "unknown_model");
    assert_eq!(message, format!("`model` must be svc-best or svc-fast, not \"{}…\".", "x".repeat(100)));
}

#[test]
fn a_null_character_is_never_a_failure_of_the_service() {
    let account = service().account();
    let upload = account.upload("a.wav", silence(0.5));
    let answers = [
        account.get("/v2/transcripts/tr_%00"),
        account.complete("upload_%00"),
        account.post("/v2/transcripts", &json!({"upload_id": "upload_\u{0}"})),
        account.post("/v2/transcripts", &json!({"upload_id": upload, "title": "a\u{0}b"})),
        account.post("/v2/uploads/sign", &json!({"filename": "a\u{0}.wav", "content_type": "audio/wav"})),
        Answer::of(account.request(Method::GET, "/v2/transcripts?status=%00")),
    ];
    for answer in answers {
        assert!(answer.status < 500, "{}: {:?}", answer.status, answer.body);
    }
}
