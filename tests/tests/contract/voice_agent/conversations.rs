//! Conversations: a caller who speaks, a language model that is a server of OpenAI's shape, tools, interruptions, failures.

use std::time::{Duration, Instant};

use auricle_tests::chat_replies::{COMPLETIONS, calls, delta, says};
use auricle_tests::{Account, Call, Delivery, Receiver, Reply, Said, Service, Setup, Verdict, spoken, turn_detector};
use serde_json::{Value, json};
use tungstenite::Message;

use super::talking;

/// 100 ms at 24 kHz.
const PIECE: usize = 4_800;

/// A service whose language model gives these answers, and an account of it.
pub fn upstream(replies: impl IntoIterator<Item = Reply>) -> (Receiver, Service, Account) {
    let receiver = Receiver::new();
    receiver.answers(COMPLETIONS, replies);
    let service = Setup::local()
        .talking()
        .with("language_upstream", receiver.url("/v1"))
        .with("language_model", "their-model")
        .with("language_timeout_seconds", 2)
        .start();
    let account = service.account();
    (receiver, service, account)
}

#[test]
fn words_are_told_while_the_caller_speaks() {
    let mut call = talking().account().call(&json!({}));
    call.speak(&spoken(24_000)[..4 * 48_000], PIECE);
    let delta = call.until("transcript.user.delta");
    assert!(!delta["text"].as_str().unwrap().is_empty(), "{delta}");
    assert!(call.kinds().contains(&"input.speech.started"));
    call.end();
}

/// The last part of the recording, one turn: "ask what you can do for your country", of which the starter hears "you".
pub fn sentence() -> Vec<u8> {
    let pcm = spoken(24_000);
    pcm[8 * 48_000..].to_vec()
}

fn messages(delivery: &Delivery) -> Vec<Value> {
    delivery.json()["messages"].as_array().unwrap().clone()
}

#[test]
fn speech_is_heard_answered_and_spoken() {
    let (receiver, _service, account) = upstream([says(&["Good ", "morning to the mill."])]);
    let mut call = account.call(&json!({ "system_prompt": "You are a miller." }));
    call.speak(&sentence(), PIECE);
    let heard = call.until("transcript.user")["text"].as_str().unwrap().to_owned();
    assert!(heard.to_lowercase().contains("you"), "{heard}");
    let reply = call.reply();
    assert_eq!((reply.text.as_str(), reply.status.as_str()), ("Good morning to the mill.", "completed"));
    assert!(reply.audio.len() > 20_000, "{} bytes", reply.audio.len());
    let asked = messages(&receiver.wait(COMPLETIONS, 1)[0]);
    assert_eq!(asked[0]["role"], "system");
    assert!(asked[0]["content"].as_str().unwrap().ends_with("\n\nYou are a miller."), "{asked:?}");
    assert_eq!((&asked[1]["role"], &asked[1]["content"]), (&json!("user"), &json!(heard)));
    let kinds = call.kinds();
    let place =
        |kind: &str| kinds.iter().position(|seen| *seen == kind).unwrap_or_else(|| panic!("no {kind}: {kinds:?}"));
    let order = ["input.speech.started", "input.speech.stopped", "transcript.user", "reply.started"];
    assert!(order.map(place).is_sorted(), "{kinds:?}");
    // The next turn has the first one in its history.
    call.speak(&sentence(), PIECE);
    call.reply();
    let asked = messages(&receiver.wait(COMPLETIONS, 2)[1]);
    assert_eq!((&asked[2]["role"], &asked[2]["content"]), (&json!("assistant"), &json!("Good morning to the mill.")));
    call.end();
}

/// A call of an agent with this turn detector, which waits for 2 s where nothing tells and for 10 s where the caller goes on: a sentence
/// and 3 s of silence were said.
fn pausing(turn_detector: &str) -> (Service, Call) {
    let service = Setup::local().talking().with("turn_detector", turn_detector).start();
    let turns = json!({ "min_silence_ms": 2_000, "max_silence_ms": 10_000, "interrupt_response": false });
    let mut call = service.account().call(&json!({ "input": { "turn_detection": turns } }));
    speak_in_time(&mut call, &[&sentence()[..], &[0; 3 * 48_000]].concat());
    (service, call)
}

/// Says something at the pace of speech.
fn speak_in_time(call: &mut Call, pcm: &[u8]) {
    let began = Instant::now();
    for (number, piece) in (1..).zip(pcm.chunks(PIECE)) {
        call.speak(piece, PIECE);
        std::thread::sleep((began + number * Duration::from_millis(100)).saturating_duration_since(Instant::now()));
    }
}

#[test]
fn a_turn_that_sounds_open_goes_on_after_a_long_pause() {
    let goes_on = turn_detector(Verdict::Open);
    let (_service, mut call) = pausing(goes_on.path().to_str().unwrap());
    speak_in_time(&mut call, &sentence());
    call.end();
    assert_eq!(call.kinds().iter().filter(|kind| **kind == "transcript.user").count(), 1);
    // Words alone do not tell.
    let (_service, mut call) = pausing("off");
    call.until("transcript.user");
    call.end();
}

/// G.711 by the textbook: sign, exponent and mantissa of the magnitude with a bias of 33 at 14 bits.
pub fn mulaw(pcm: &[u8]) -> Vec<u8> {
    let code = |sample: i16| {
        let magnitude = (i32::from(sample).abs() / 4 + 33).min(0x1fff);
        let exponent = (5..13).rev().find(|bit| magnitude >> bit & 1 == 1).unwrap_or(5) - 5;
        let mantissa = magnitude >> (exponent + 1) & 0x0f;
        !(if sample < 0 { 0x80 } else { 0 } | (exponent << 4) as u8 | mantissa as u8)
    };
    pcm.chunks_exact(2).map(|pair| code(i16::from_le_bytes([pair[0], pair[1]]))).collect()
}

#[test]
fn mulaw_at_8_khz_is_heard() {
    let (_receiver, _service, account) = upstream([says(&["Yes."])]);
    let mut call = account.call(&json!({ "input": { "format": { "encoding": "audio/pcmu" } } }));
    let coded = mulaw(&spoken(8_000));
    call.speak(&coded[8 * 8_000..], 160);
    let heard = call.until("transcript.user");
    assert!(heard["text"].as_str().unwrap().to_lowercase().contains("you"), "{heard}");
    call.end();
}

pub fn weather() -> Value {
    json!({ "type": "function", "name": "weather", "description": "The weather of a place.",
        "parameters": { "type": "object", "properties": { "place": { "type": "string" } }, "required": ["place"] } })
}

#[test]
fn tools_are_called_and_their_results_answered() {
    let (receiver, _service, account) = upstream([calls("weather", r#"{"place":"Rome"}"#), says(&["It is sunny."])]);
    let mut call = account.call(&json!({ "tools": [weather()] }));
    call.speak(&sentence(), PIECE);
    let tool = call.until("tool.call");
    assert_eq!((&tool["name"], &tool["arguments"]), (&json!("weather"), &json!({ "place": "Rome" })));
    let id = tool["call_id"].as_str().unwrap().to_owned();
    call.send(&json!({ "type": "tool.result", "call_id": "another", "result": "{}" }));
    assert_eq!(call.until("session.error")["code"], "unknown_call");
    call.send(&json!({ "type": "tool.result", "call_id": id, "result": "{\"sky\":\"clear\"}" }));
    let reply = call.reply();
    assert!(reply.text.ends_with("It is sunny."), "{}", reply.text);
    call.send(&json!({ "type": "tool.result", "call_id": id, "result": "{}" }));
    assert_eq!(call.until("session.error")["code"], "unknown_call", "twice");
    let asked = receiver.wait(COMPLETIONS, 2)[1].json();
    assert_eq!(asked["tools"][0]["function"]["name"], "weather");
    let last = asked["messages"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["role"], &last["content"]), (&json!("tool"), &json!("{\"sky\":\"clear\"}")));
    assert_eq!(last["tool_call_id"], id);
    call.end();
}

#[test]
fn results_that_cannot_be_used_are_told_in_a_sentence() {
    let (receiver, _service, account) = upstream([
        calls("weather", r#"{"place":"Rome"}"#),
        calls("weather", r#"{"place":"Paris"}"#),
        says(&["I do not know."]),
    ]);
    let mut call = account.call(&json!({ "tools": [weather()] }));
    call.speak(&sentence(), PIECE);
    for result in ["no json".to_owned(), format!("\"{}\"", "x".repeat(70_000))] {
        let id = call.until("tool.call")["call_id"].clone();
        call.send(&json!({ "type": "tool.result", "call_id": id, "result": result }));
    }
    call.reply();
    let asked = receiver.wait(COMPLETIONS, 3);
    for (delivery, part) in asked[1..].iter().zip(["no JSON", "64 KiB"]) {
        let last = messages(delivery).last().unwrap().clone();
        assert!(last["role"] == "tool" && last["content"].as_str().unwrap().contains(part), "{last}");
    }
    call.end();
}

/// A caller with a headset, no louder than people speak, talks over the agent's first words.
#[test]
fn a_quiet_caller_without_echo_interrupts_the_greeting() {
    let long = "Once upon a time there was a mill by the lake, and in the mill there lived a man. ".repeat(8);
    let (_receiver, _service, account) = upstream([says(&["Yes."])]);
    let mut call = account.call(&json!({ "greeting": long }));
    call.until("reply.audio");
    let quiet: Vec<u8> = sentence()
        .as_chunks::<2>()
        .0
        .iter()
        .flat_map(|sample| (i16::from_le_bytes(*sample) / 8).to_le_bytes())
        .collect();
    for piece in vec![0; 15 * PIECE].chunks(PIECE).chain(quiet.chunks(PIECE)) {
        call.speak(piece, PIECE);
        std::thread::sleep(Duration::from_millis(100));
    }
    let done = call.until("reply.done");
    assert_eq!(done["status"], "interrupted");
    call.end();
}

#[test]
fn a_caller_interrupts() {
    let long = "Once upon a time there was a mill by the lake, and in the mill there lived a man. ".repeat(8);
    let (receiver, _service, account) = upstream([says(&["Yes."])]);
    let mut call = account.call(&json!({ "greeting": long }));
    call.until("reply.audio");
    // In real time: the voice goes on meanwhile.
    for piece in sentence().chunks(PIECE) {
        call.speak(piece, PIECE);
        std::thread::sleep(Duration::from_millis(80));
    }
    let done = call.until("reply.done");
    assert_eq!(done["status"], "interrupted");
    let said = call.frames.iter().rfind(|frame| frame["type"] == "transcript.agent").unwrap()["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(long.starts_with(&said) && said.len() < long.len() / 2, "{said}");
    let heard = call.until("transcript.user");
    assert!(heard["text"].as_str().unwrap().to_lowercase().contains("you"), "{heard}");
    call.reply();
    let ids: Vec<&Value> =
        call.frames.iter().filter(|frame| frame["type"] == "reply.done").map(|frame| &frame["reply_id"]).collect();
    for id in ids {
        let of = |kind: &str| call.frames.iter().rposition(|frame| frame["type"] == kind && frame["reply_id"] == *id);
        assert!(of("reply.audio") < of("reply.done"), "no audio after the end");
    }
    let asked = messages(&receiver.wait(COMPLETIONS, 1)[0]);
    assert!(asked.iter().any(|message| message["role"] == "assistant" && message["content"] == said), "{asked:?}");
    call.end();
}

#[test]
fn without_a_language_model_the_agent_says_what_is_missing() {
    let mut call = talking().account().call(&json!({ "greeting": "Good morning." }));
    assert_eq!(call.reply().text, "Good morning.");
    call.speak(&sentence(), PIECE);
    assert!(call.until("transcript.user")["text"].as_str().unwrap().to_lowercase().contains("you"));
    let error = call.until("session.error");
    assert_eq!(error["code"], "model_unavailable");
    assert!(error["message"].as_str().unwrap().contains("auricle models pull chat"), "{error}");
    assert!(call.reply().text.contains("auricle models pull chat"));
    call.end();
}

#[test]
fn a_mind_that_fails_is_apologised_for_and_the_session_lives() {
    let cut = Reply::Body(200, "text/event-stream", format!("data: {}\n\n", delta(json!({ "content": "Hal" }))).into());
    let (_receiver, _service, account) = upstream([Reply::Status(400), cut, says(&["Here I am again."])]);
    let mut call = account.call(&json!({}));
    for _ in 0..2 {
        call.speak(&sentence(), PIECE);
        assert_eq!(call.until("session.error")["code"], "upstream_error");
        assert!(call.reply().text.to_lowercase().contains("sorry"));
    }
    call.speak(&sentence(), PIECE);
    assert_eq!(call.reply().text, "Here I am again.");
    call.end();
}

#[test]
fn audio_faster_than_real_time_is_heard_to_its_end() {
    let (_receiver, _service, account) = upstream([says(&["Yes."])]);
    let mut call = account.call(&json!({}));
    for _ in 0..3 {
        call.speak(&spoken(24_000), 48_000);
    }
    let heard = call.until("transcript.user");
    assert!(heard["text"].as_str().unwrap().to_lowercase().contains("you"), "{heard}");
    call.end();
}

#[test]
fn clients_that_leave_or_do_not_read_hold_nothing_up() {
    let (_receiver, service, account) = upstream([calls("weather", r#"{"place":"Rome"}"#), says(&["Yes."])]);
    let mut leaves = account.call(&json!({ "tools": [weather()] }));
    leaves.speak(&sentence(), PIECE);
    leaves.until("tool.call");
    drop(leaves);
    // It is greeted and reads nothing.
    let deaf = account.call(&json!({ "greeting": "Good morning. ".repeat(100) }));
    let mut call = account.call(&json!({}));
    call.speak(&sentence(), PIECE);
    assert_eq!(call.reply().text, "Yes.");
    call.end();
    drop(deaf);
    let mut after = service.account().call(&json!({}));
    assert!(after.try_send(Message::Ping(Default::default())));
    assert_ne!(after.read_within(Duration::from_millis(200)), Some(Said::Closed(1006)));
    after.end();
}
