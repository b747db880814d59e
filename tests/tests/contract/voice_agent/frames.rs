//! Frames of a voice agent's session: interface section 6.3, and input that is none.

use std::time::Duration;

use auricle_tests::{AgentReply, Call, Said, Setup};
use data_encoding::BASE64;
use serde_json::{Value, json};
use tungstenite::Message;

use super::talking;

const GREETING: &str = "Good morning, this is the lake and the mill.";

#[track_caller]
fn assert_error(frame: &Value, code: &str) {
    assert_eq!((&frame["type"], &frame["code"]), (&json!("session.error"), &json!(code)), "{frame}");
    assert!(frame["message"].as_str().is_some_and(|message| !message.is_empty()), "{frame}");
}

#[test]
fn a_session_greets_at_once_and_ends_when_told() {
    let mut call = talking().account().call(&json!({ "greeting": GREETING }));
    let AgentReply { audio, text, status, .. } = call.reply();
    assert_eq!((text.as_str(), status.as_str()), (GREETING, "completed"));
    assert!(audio.len() > 24_000 && audio.len() % 2 == 0, "{} bytes", audio.len());
    call.speak(&vec![0; 48_000], 4_800);
    let ended = call.end();
    let number = |name: &str| ended[name].as_f64().unwrap_or_else(|| panic!("{name}: {ended}"));
    assert!((number("audio_duration_seconds") - 1.0).abs() < 1e-6, "{ended}");
    assert!(number("session_duration_seconds") > audio.len() as f64 / 48_000.0 - 0.5, "{ended}");
    assert!(number("timestamp") > 1.7e9, "epoch seconds: {ended}");
    let kinds = call.kinds();
    let order = ["session.ready", "reply.started", "reply.audio", "transcript.agent", "reply.done", "session.ended"];
    let places: Vec<usize> = order.iter().map(|kind| kinds.iter().position(|seen| seen == kind).unwrap()).collect();
    assert!(places.is_sorted(), "{kinds:?}");
}

#[test]
fn audio_is_at_most_half_a_second_ahead() {
    let mut call = talking().account().call(&json!({ "greeting": GREETING.repeat(3) }));
    let AgentReply { audio, took, .. } = call.reply();
    let length = Duration::from_secs_f64(audio.len() as f64 / 48_000.0);
    // Audio that a client has not played when the last frame comes is part of the end's delay.
    assert!(took + Duration::from_millis(500) >= length, "{length:?} came within {took:?}");
}

#[test]
fn the_output_has_the_rate_and_coding_that_were_asked_for() {
    let account = talking().account();
    let bytes = |format: Value| {
        let mut call = account.call(&json!({ "greeting": GREETING, "output": { "format": format } }));
        call.reply().audio.len() as f64
    };
    let whole = bytes(json!({ "encoding": "audio/pcm" }));
    for (format, share) in [
        (json!({ "encoding": "audio/pcm", "sample_rate": 8_000 }), 1.0 / 3.0),
        (json!({ "encoding": "audio/pcm", "sample_rate": 48_000 }), 2.0),
        (json!({ "encoding": "audio/pcmu" }), 1.0 / 6.0),
        (json!({ "encoding": "audio/pcma", "sample_rate": 8_000 }), 1.0 / 6.0),
    ] {
        let got = bytes(format.clone());
        assert!((got / (whole * share) - 1.0).abs() < 0.02, "{format}: {got} bytes of {whole}");
    }
}

#[test]
fn the_first_frame_is_a_valid_update() {
    let mut call = Call::open(&talking().account().agent_url(&json!({})));
    for (frame, code) in [
        (json!({ "type": "input.audio", "audio": "" }), "session_not_started"),
        (json!({ "type": "tool.result", "call_id": "a", "result": "1" }), "session_not_started"),
        (json!({ "type": "what" }), "unknown_frame"),
        (json!([1]), "invalid_frame"),
        (json!({ "type": "session.update" }), "invalid_request"),
        (json!({ "type": "session.update", "session": { "greeting": 5 } }), "validation_error"),
        (json!({ "type": "session.update", "session": { "output": { "voice": "nobody" } } }), "validation_error"),
        (
            json!({ "type": "session.update", "session": { "tools": [{ "name": "a", "parameters": { "properties": { "b": { "type": "strange" } } } }] } }),
            "unsupported_schema",
        ),
    ] {
        call.send(&frame);
        assert_error(&call.frame(), code);
    }
    assert!(call.try_send(Message::text("{")) && call.try_send(Message::binary(vec![1, 2, 3])));
    assert_error(&call.frame(), "invalid_frame");
    call.update(&json!({}));
    assert_eq!(call.frame()["type"], "session.ready", "binary frames are ignored");
    call.end();
}

#[test]
fn without_an_update_the_session_is_closed() {
    let mut call = Call::open(&talking().account().agent_url(&json!({})));
    assert_error(&call.frame(), "session_not_started");
    assert_eq!(call.read(), Said::Closed(4400));
    assert!(call.asked.elapsed() >= Duration::from_secs(10), "not before its time");
}

#[test]
fn bad_frames_are_told_and_change_nothing() {
    let mut call = talking().account().call(&json!({ "system_prompt": "Be kind." }));
    for (frame, code) in [
        (json!({ "type": "input.audio", "audio": "no base64!" }), "invalid_audio"),
        (json!({ "type": "input.audio", "audio": 5 }), "invalid_frame"),
        (json!({ "type": "input.audio" }), "invalid_frame"),
        (json!({ "type": "tool.result", "call_id": "nobody", "result": "{}" }), "unknown_call"),
        (json!({ "type": "tool.result", "call_id": "nobody", "result": {} }), "invalid_frame"),
        (json!({ "type": "reply.audio" }), "unknown_frame"),
        (
            json!({ "type": "session.update", "session": { "input": { "format": { "sample_rate": 7_999 } } } }),
            "validation_error",
        ),
    ] {
        call.send(&frame);
        assert_error(&call.frame(), code);
    }
    call.update(&json!({ "input": { "format": { "encoding": "audio/pcmu" } }, "output": { "format": { "sample_rate": 16_000 } } }));
    assert_eq!(call.frame()["type"], "session.updated");
    call.speak(&[0xff; 8_000], 160);
    let ended = call.end();
    assert!((ended["audio_duration_seconds"].as_f64().unwrap() - 1.0).abs() < 1e-6, "at 8 kHz: {ended}");
}

#[test]
fn a_large_frame_is_taken_and_one_over_a_mebibyte_is_not() {
    let mut call = talking().account().call(&json!({}));
    call.speak(&vec![0; 750_000], 750_000);
    call.send(&json!({ "type": "tool.result", "call_id": "x", "result": "x".repeat(1_000_000) }));
    assert_error(&call.frame(), "unknown_call");
    let _ = call.try_send(Message::text(
        json!({ "type": "input.audio", "audio": BASE64.encode(&vec![0; 900_000]) }).to_string(),
    ));
    assert_eq!(call.rest(), 1009);
}

#[test]
fn sessions_beyond_the_limit_are_refused() {
    let service = Setup::local().talking().with("max_live_sessions", 1).start();
    let account = service.account();
    let mut first = account.call(&json!({}));
    let mut second = Call::open(&account.agent_url(&json!({})));
    assert_error(&second.frame(), "unavailable");
    assert_eq!(second.read(), Said::Closed(1013));
    first.end();
}

#[test]
fn a_session_ends_at_its_longest_time_without_audio_and_with_the_service() {
    let service = Setup::local().talking().with("live_session_seconds", 3).start();
    let mut call = service.account().call(&json!({ "greeting": GREETING.repeat(3) }));
    assert_eq!(call.rest(), 1000);
    assert!(call.asked.elapsed() >= Duration::from_secs(3), "not before its time");
    assert_eq!(call.kinds().last(), Some(&"session.ended"));
    drop(service);

    let service = Setup::local().talking().with("live_idle_seconds", 2).start();
    let mut call = service.account().call(&json!({}));
    assert_error(&call.frame(), "session_timeout");
    assert_eq!(call.rest(), 1000);
    assert_eq!(call.kinds().last(), Some(&"session.ended"));

    let mut call = service.account().call(&json!({ "greeting": GREETING.repeat(3) }));
    call.until("reply.audio");
    service.terminate();
    assert_eq!(call.rest(), 1001);
    let kinds = call.kinds();
    assert!(kinds.ends_with(&["reply.done", "session.ended"]), "{kinds:?}");
    assert!(service.wait().success());
}
