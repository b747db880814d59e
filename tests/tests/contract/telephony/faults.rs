//! Calls that go wrong: addresses, frames, silence, sudden ends, limits.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use auricle_tests::{Account, Answer, Clock, Setup, eventually, http, spoken};
use serde_json::{Value, json};
use tungstenite::Error;

use super::phone::{Phone, address, sentence};
use super::{said, starter, transcript};
use crate::voice_agent::mulaw;

fn url(answer: &Value) -> String {
    answer["websocket_url"].as_str().unwrap().to_owned()
}

/// The status and the message with which a WebSocket is refused.
#[track_caller]
fn refused(url: &str) -> (u16, String) {
    let place = url.strip_prefix("ws://").unwrap().split('/').next().unwrap();
    match tungstenite::client(url, TcpStream::connect(place).unwrap()) {
        Err(tungstenite::HandshakeError::Failure(Error::Http(response))) => {
            let body: Value =
                serde_json::from_slice(response.body().as_deref().unwrap_or_default()).unwrap_or_default();
            (response.status().as_u16(), body["error"]["message"].as_str().unwrap_or_default().to_owned())
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it is taken"),
    }
}

#[test]
fn an_address_is_good_for_one_call() {
    let account = starter().account();
    let minted = address(&account, &json!({ "provider": "twilio" }));
    assert_eq!((&minted["model"], &minted["max_session_duration_sec"]), (&json!("svc-agent"), &json!(3300)));
    let url = url(&minted);
    let at_home = format!("{}/v2/telephony/twilio/{}", starter().api(), minted["token"].as_str().unwrap());
    assert_eq!(url, at_home.replacen("http", "ws", 1));
    assert!(url.len() < 600, "{} bytes", url.len());
    // A request that is none for a WebSocket does not use it up.
    Answer::of(http().get(at_home)).error(426, "upgrade_required");
    let mut phone = Phone::connect("twilio", &url);
    let (status, message) = refused(&url);
    assert!(status == 401 && message.contains("used before"), "{status} {message}");
    phone.start(&json!({}));
    phone.wait(Duration::from_millis(500));
    phone.hang_up();
    assert_eq!(phone.close_code().0, 1000);
    transcript(&account, minted["transcript_id"].as_str().unwrap());
    assert_eq!(refused(&url).0, 401);
}

#[test]
fn a_wrong_address_is_refused_before_the_call() {
    let account = starter().account();
    let minted = address(&account, &json!({ "provider": "twilio" }));
    let token = minted["token"].as_str().unwrap();
    let at = |provider: &str, token: &str| {
        refused(&format!("{}/v2/telephony/{provider}/{token}", starter().api().replacen("http", "ws", 1)))
    };
    let agent = account.agent_url(&json!({}));
    let agent = agent.query_pairs().next().unwrap().1.into_owned();
    let other = Setup::local().start();
    let foreign = address(&other.account(), &json!({ "provider": "twilio" }))["token"].as_str().unwrap().to_owned();
    for wrong in [&agent, &agent.replacen("va_", "tc_", 1), &foreign, &account.key, "tc_a.b", &token[..token.len() - 1]]
    {
        let (status, message) = at("twilio", wrong);
        assert!(status == 401 && message.contains("/v2/telephony/token"), "{wrong}: {status} {message}");
    }
    assert_eq!(at("vonage", token).0, 404);
    assert_eq!(at("twilio", "").0, 404);
}

#[test]
fn an_address_expires() {
    let Some(clock) = Clock::new() else { return };
    let service = Setup::local().environment(clock.environment()).start();
    let account = service.account();
    let url = url(&address(&account, &json!({ "provider": "plivo", "expires_in": 60 })));
    clock.set("+61s");
    let (status, message) = refused(&url);
    assert!(status == 401 && message.contains("expired"), "{status} {message}");
}

#[test]
fn a_request_for_an_address_names_what_is_wrong() {
    let account = starter().account();
    for (field, value, status, code) in [
        ("provider", json!("vonage"), 422, "validation_error"),
        ("provider", json!(null), 422, "validation_error"),
        ("model", json!("svc-best"), 400, "unknown_model"),
        ("session", json!([]), 422, "validation_error"),
        ("session", json!({ "tools": [] }), 400, "unsupported_option"),
        ("session", json!({ "input": { "format": { "encoding": "audio/pcm" } } }), 400, "unsupported_option"),
        ("session", json!({ "output": { "format": { "encoding": "audio/pcm" } } }), 400, "unsupported_option"),
        ("session", json!({ "output": { "voice": "no_such" } }), 422, "validation_error"),
        ("session", json!({ "greeting": "x".repeat(2_001) }), 422, "validation_error"),
        ("language_code", json!("en"), 422, "validation_error"),
        ("pii_redaction", json!(true), 422, "validation_error"),
        ("webhook_url", json!("ftp://example.com/"), 400, "invalid_webhook_url"),
        ("webhook_url", json!("http://10.0.0.1/"), 400, "invalid_webhook_url"),
        ("title", json!("a\u{202e}b"), 422, "validation_error"),
        ("expires_in", json!(59), 422, "validation_error"),
        ("greeting", json!("Hello."), 422, "validation_error"),
    ] {
        let mut body = json!({ "provider": "twilio" });
        body[field] = value;
        let message = account.post("/v2/telephony/token", &body).error(status, code);
        let name = value_name(field);
        assert!(message.contains(name), "{field}: {message}");
    }
    let message = account.post("/v2/telephony/token", &json!({})).error(400, "invalid_request");
    assert!(message.contains("provider"), "{message}");
    for (field, value) in [("language_code", json!("xx")), ("session", json!({}))] {
        let mut body = json!({ "provider": "twilio", "model": "svc-realtime" });
        body[field] = value;
        let message = account.post("/v2/telephony/token", &body).error(422, "validation_error");
        assert!(message.contains(field), "{message}");
    }
    let request = http().post(format!("{}/v2/telephony/token", starter().api()));
    Answer::of(request.header("content-type", "application/json").body("{}")).error(401, "unauthorized");
}

/// The word of a message that names a field.
fn value_name(field: &str) -> &str {
    match field {
        "session" => "",
        "model" => "svc-agent",
        other => other,
    }
}

/// The close of a call whose stream has started, after a frame.
fn closes(account: &Account, frame: &str) -> (u16, String) {
    let (mut phone, _) = Phone::call(account, "twilio", &json!({}));
    phone.wait(Duration::from_millis(100));
    phone.send_text(frame);
    phone.close_code()
}

#[test]
fn frames_that_cannot_be_used_end_the_call_with_a_reason() {
    let account = starter().account();
    for (frame, reason) in [
        ("hello", "not a JSON object"),
        ("[]", "not a JSON object"),
        (r#"{"event":"media"}"#, "lacks a field"),
        (r#"{"event":"media","media":{"payload":"?"}}"#, "not base64"),
        (r#"{"event":"media","media":{"track":"outbound","payload":"AAAA"}}"#, "inbound track alone"),
        (r#"{"event":"dtmf","dtmf":{"digit":"55"}}"#, "digit"),
    ] {
        let (code, found) = closes(&account, frame);
        assert!(code == 4400 && found.contains(reason), "{frame}: {code} {found}");
    }
    assert_eq!(closes(&account, &" ".repeat((1 << 20) + 1)).0, 1009);
    // Unknown events, a mark that was not sent, a second start and binary frames do no harm.
    let (mut phone, id) = Phone::call(&account, "twilio", &json!({}));
    phone.send_text(r#"{"event":"warning","x":[1]}"#);
    phone.send_text(r#"{"event":"mark","mark":{"name":"9"}}"#);
    phone.start(&json!({}));
    phone.wait(Duration::from_millis(200));
    phone.hang_up();
    assert_eq!(phone.close_code().0, 1000);
    assert_eq!(transcript(&account, &id)["text"], "");
}

#[test]
fn a_stream_begins_with_its_start() {
    let account = starter().account();
    for (frame, reason) in [
        (r#"{"event":"start","start":{}}"#, "lacks a field"),
        (
            r#"{"event":"start","start":{"streamSid":"s","callSid":"c","mediaFormat":{"encoding":"audio/x-l16","sampleRate":16000}}}"#,
            "mu-law",
        ),
        ("x", "not a JSON object"),
    ] {
        let minted = address(&account, &json!({ "provider": "twilio" }));
        let mut phone = Phone::connect("twilio", &url(&minted));
        phone.send_text(frame);
        let (code, found) = phone.close_code();
        assert!(code == 4400 && found.contains(reason), "{frame}: {code} {found}");
        account.get(&format!("/v2/transcripts/{}", minted["transcript_id"].as_str().unwrap())).error(404, "not_found");
    }
    let began = Instant::now();
    let mut phone = Phone::connect("twilio", &url(&address(&account, &json!({ "provider": "twilio" }))));
    // Audio before it does not count.
    phone.media(&[0xff; 160]);
    let (code, reason) = phone.close_code();
    assert!(code == 4400 && reason.contains("No start") && began.elapsed() > Duration::from_secs(9), "{code} {reason}");
}

#[test]
fn a_call_that_breaks_off_has_its_transcript() {
    let account = starter().account();
    for body in [json!({ "model": "svc-realtime" }), json!({ "session": { "greeting": "Good morning to you." } })] {
        let (mut phone, id) = Phone::call(&account, "twilio", &body);
        phone.speak(&mulaw(&spoken(8_000)[..8 * 16_000]));
        phone.press("5");
        phone.wait(Duration::from_millis(300));
        drop(phone);
        let transcript = transcript(&account, &id);
        let text = transcript["text"].as_str().unwrap().to_lowercase();
        assert!(text.contains("[dtmf 5]") && text.contains("you"), "{text}");
        if body["session"].is_object() {
            let said = said(&transcript);
            let speaks = |label: &str| said.iter().any(|(speaker, _)| speaker == label);
            assert!(speaks("A") && speaks("B"), "{said:?}");
            let warnings = transcript["warnings"].to_string();
            assert!(warnings.contains("model_unavailable"), "{warnings}");
        }
    }
}

#[test]
fn a_silent_connection_ends() {
    let service = Setup::local().starter().with("live_idle_seconds", 1).start();
    let account = service.account();
    let speech = sentence();
    for body in [json!({ "model": "svc-realtime" }), json!({})] {
        let (mut phone, id) = Phone::call(&account, "twilio", &body);
        phone.speak(&speech);
        assert_eq!(phone.close_code(), (1000, "No audio came.".into()));
        let text = transcript(&account, &id)["text"].as_str().unwrap().to_lowercase();
        assert!(text.contains("you"), "{body}: {text}");
    }
}

#[test]
fn a_call_needs_a_place_and_keeps_its_address_without_one() {
    let service = Setup::local().starter().with("max_live_sessions", 1).start();
    let account = service.account();
    let waiting = url(&address(&account, &json!({ "provider": "twilio" })));
    let (mut phone, _) = Phone::call(&account, "twilio", &json!({}));
    phone.wait(Duration::from_millis(100));
    let (status, message) = refused(&waiting);
    assert!(status == 503 && message.contains("no room"), "{status} {message}");
    phone.hang_up();
    assert_eq!(phone.close_code().0, 1000);
    eventually("the place is free", || {
        let place = waiting.strip_prefix("ws://").unwrap().split('/').next().unwrap();
        tungstenite::client(&waiting, TcpStream::connect(place).unwrap()).ok()
    });
}

#[test]
fn a_revoked_key_ends_a_call() {
    let service = Setup::local().starter().start();
    let account = service.account();
    let (mut phone, id) = Phone::call(&account, "telnyx", &json!({ "model": "svc-realtime" }));
    phone.speak(&sentence());
    let late = url(&address(&account, &json!({ "provider": "telnyx" })));
    assert_eq!(service.keys("revoke", [&account.key]).status, Some(0));
    assert_eq!(phone.close_code().0, 4401);
    assert!(phone.frames.is_empty(), "providers know no errors: {:?}", phone.events());
    let mut late = Phone::connect("telnyx", &late);
    assert_eq!(late.close_code().0, 4401);
    let key = service.key(&account.email);
    transcript(&Account { key, ..account }, &id);
}

#[test]
fn a_service_that_stops_keeps_the_transcripts_of_its_calls() {
    let service = Setup::local().starter().start();
    let account = service.account();
    let (mut alone, first) = Phone::call(&account, "twilio", &json!({ "model": "svc-realtime" }));
    alone.speak(&sentence());
    let (mut agent, second) = Phone::call(&account, "twilio", &json!({ "session": { "greeting": "Hello there." } }));
    agent.until("the greeting", |phone| phone.bytes > 0);
    service.terminate();
    assert_eq!((alone.close_code().0, agent.close_code().0), (1001, 1001));
    service.wait();
    service.start();
    assert!(transcript(&account, &first)["text"].as_str().unwrap().to_lowercase().contains("you"));
    transcript(&account, &second);
}

#[test]
fn a_call_ends_at_its_longest_time() {
    let service = Setup::local().starter().with("live_session_seconds", 2).start();
    let account = service.account();
    for body in [json!({ "model": "svc-realtime" }), json!({})] {
        let (mut phone, id) = Phone::call(&account, "twilio", &body);
        phone.wait(Duration::from_secs(5));
        let (code, reason) = phone.close_code();
        assert!(code == 1000 && reason.contains("longest"), "{code} {reason}");
        let length = transcript(&account, &id)["audio_duration_sec"].as_f64().unwrap();
        assert!((1.5..4.0).contains(&length), "{length}");
    }
}
