//! Calls that go well.

use std::time::Duration;

use auricle_tests::chat_replies::{COMPLETIONS, says};
use auricle_tests::{Delivery, Receiver, Setup, spoken};
use serde_json::{Value, json};

use super::phone::{Phone, sentence};
use super::{answering, said, starter, transcript};
use crate::postgres;
use crate::voice_agent::mulaw;

const STORY: &str = "Once upon a time there was a mill by the lake, and in the mill there lived a man. ";

fn messages(delivery: &Delivery) -> Vec<Value> {
    delivery.json()["messages"].as_array().unwrap().clone()
}

/// The part of the story that the language model has said, as it is reminded of it.
fn story_of(delivery: &Delivery) -> String {
    let all = messages(delivery);
    let story = all.iter().find_map(|message| message["content"].as_str().filter(|text| text.starts_with("Once")));
    story.unwrap_or_else(|| panic!("no story: {all:?}")).to_owned()
}

fn talk(provider: &'static str) {
    let (receiver, _service, account) =
        answering([says(&[&STORY.repeat(6)]), says(&["Goodbye."]), says(&["Thank you."])]);
    let webhook = receiver.url("/hook");
    let session = json!({ "system_prompt": "You are a miller.", "greeting": "Good morning." });
    let (mut phone, id) =
        Phone::call(&account, provider, &json!({ "session": session, "webhook_url": webhook, "title": "A call" }));
    phone.until("the greeting is played", |phone| phone.bytes > 0 && phone.played > 0 && !phone.is_playing());
    assert_eq!(phone.clears, 0);
    let greeting = phone.bytes;
    // The reply is a long story, over which the caller speaks.
    phone.speak(&sentence());
    phone.until("the story begins", |phone| phone.bytes > greeting);
    phone.wait(Duration::from_secs(3));
    for _ in 0..3 {
        if phone.clears == 0 {
            phone.speak(&mulaw(&spoken(8_000)[..8 * 16_000]));
        }
    }
    phone.until("the story is stopped", |phone| phone.clears > 0);
    phone.until("the caller is answered", |_| receiver.deliveries(COMPLETIONS).len() >= 2);
    let asked = receiver.deliveries(COMPLETIONS);
    let prompt = messages(&asked[0])[0]["content"].as_str().unwrap().to_owned();
    assert!(prompt.contains("You are a miller."), "{prompt}");
    assert!(prompt.contains("\nname: Ann") && prompt.contains("tool dtmf"), "{prompt}");
    // Text that was not played is not in the conversation.
    let played = story_of(asked.last().unwrap());
    let sent_s = phone.bytes as f64 / 8e3;
    assert!(STORY.repeat(6).starts_with(&played) && played.len() > 10, "{played}");
    assert!((played.split(' ').count() as f64) < sent_s * 5.0, "{played}: {sent_s} s");
    // Keys are the result of a tool.
    phone.until("the agent is silent", |phone| !phone.is_playing());
    phone.press("42#");
    let keys = || {
        let all = receiver.deliveries(COMPLETIONS).iter().map(messages).collect::<Vec<_>>();
        all.into_iter().find(|asked| asked.last().is_some_and(|last| last["content"] == r#"{"digits":"42#"}"#))
    };
    phone.until("the keys are answered", |_| keys().is_some());
    let asked = keys().unwrap();
    let [.., call, result] = &asked[..] else { panic!("{asked:?}") };
    let called = &call["tool_calls"][0];
    assert_eq!((&call["role"], &called["function"]["name"]), (&json!("assistant"), &json!("dtmf")), "{call}");
    assert_eq!((&result["role"], &result["tool_call_id"]), (&json!("tool"), &called["id"]));
    phone.wait(Duration::from_secs(1));
    phone.hang_up();
    let (code, reason) = phone.close_code();
    assert!(code == 1000 || provider == "plivo", "{code} {reason}");
    let transcript = transcript(&account, &id);
    let said = said(&transcript);
    let has = |speaker: &str, part: &str| {
        said.iter().any(|(by, text)| by == speaker && text.to_lowercase().contains(&part.to_lowercase()))
    };
    assert!(has("B", "Good morning.") && has("B", "Once upon a time") && has("A", "you"), "{said:?}");
    assert!(said.contains(&("A".into(), "[DTMF 42#]".into())), "{said:?}");
    let starts: Vec<u64> =
        transcript["words"].as_array().unwrap().iter().map(|word| word["start"].as_u64().unwrap()).collect();
    assert!(starts.len() > 10 && transcript["audio_duration_sec"].as_f64() > Some(10.0), "{transcript}");
    assert_eq!((&transcript["title"], &transcript["model"]), (&json!("A call"), &json!("svc-agent")));
    let hook = receiver.wait("/hook", 1)[0].json();
    assert_eq!(hook, json!({ "event": "transcript.completed", "transcript_id": id, "status": "completed" }));
    let usage = account.usage();
    assert!(usage.iter().any(|event| event["sku"] == "svc-agent"), "{usage:?}");
}

#[test]
fn an_agent_takes_a_call_of_twilio() {
    talk("twilio");
}

#[test]
fn an_agent_takes_a_call_of_telnyx() {
    talk("telnyx");
}

#[test]
fn an_agent_takes_a_call_of_plivo() {
    talk("plivo");
}

/// Words of a story that are in the conversation, where a key stops it 4 s after its first audio and marks come back this late.
fn words_played(lag: Duration) -> usize {
    let (receiver, _service, account) = answering([says(&[&STORY.repeat(6)]), says(&["Goodbye."])]);
    let (mut phone, _) = Phone::call(&account, "twilio", &json!({}));
    phone.lag = lag;
    phone.press("1");
    phone.until("the story begins", |phone| phone.bytes > 0);
    phone.wait(Duration::from_secs(4));
    phone.press("2");
    phone.until("the key is answered", |_| receiver.deliveries(COMPLETIONS).len() == 2);
    assert_eq!(phone.clears, 1);
    story_of(&receiver.deliveries(COMPLETIONS)[1]).split(' ').count()
}

#[test]
fn what_the_provider_has_not_played_is_cut_off_the_conversation() {
    let (at_once, late) = (words_played(Duration::ZERO), words_played(Duration::from_millis(1_500)));
    assert!(at_once >= 5 && late + 3 <= at_once, "{at_once} {late}");
}

#[test]
fn a_call_is_transcribed_alone() {
    let account = starter().account();
    let receiver = Receiver::new();
    let body = json!({ "model": "svc-realtime", "language_code": "en_us", "webhook_url": receiver.url("/hook") });
    for provider in ["twilio", "plivo"] {
        let (mut phone, id) = Phone::call(&account, provider, &body);
        phone.speak(&mulaw(&spoken(8_000)));
        phone.press("7");
        phone.wait(Duration::from_millis(300));
        phone.hang_up();
        phone.close_code();
        let transcript = transcript(&account, &id);
        let text = transcript["text"].as_str().unwrap().to_lowercase();
        let words = ["country", "ask", "for", "you", "what", "do"];
        assert!(words.iter().filter(|word| text.contains(*word)).count() >= 3, "{text}");
        assert!(text.contains("[dtmf 7]"), "{text}");
        assert!(phone.frames.is_empty(), "nothing is sent: {:?}", phone.events());
        assert_eq!((&transcript["utterances"], &transcript["language_code"]), (&Value::Null, &json!("en_us")));
        assert!(transcript["title"].as_str().unwrap().starts_with("Call "), "{}", transcript["title"]);
        assert!(account.get(&format!("/v2/transcripts/{id}/srt")).text().contains("-->"));
        assert!(account.usage().iter().any(|event| event["sku"] == "svc-realtime"));
    }
    receiver.wait("/hook", 2);
}

#[test]
fn what_is_to_be_hidden_is_not_in_the_transcript() {
    let account = starter().account();
    let body = json!({ "model": "svc-realtime", "language_code": "en_us", "pii_redaction": true });
    let (mut phone, id) = Phone::call(&account, "telnyx", &body);
    phone.press("4111");
    phone.speak(&sentence());
    phone.hang_up();
    let text = transcript(&account, &id)["text"].as_str().unwrap().to_owned();
    assert!(text.contains("[DTMF ****]") && !text.contains('4') && text.to_lowercase().contains("you"), "{text}");
}

#[test]
fn calls_with_and_without_words_are_kept_on_postgresql() {
    let Some(server) = postgres() else { return };
    let service = Setup::local().starter().with("database_url", server.database()).start();
    let account = service.account();
    let receiver = Receiver::new();
    let body = json!({ "model": "svc-realtime", "webhook_url": receiver.url("/hook") });
    for (speech, has_words) in [(vec![0xff; 8_000], false), (sentence(), true), (vec![0xff; 8_000], false)] {
        let (mut phone, id) = Phone::call(&account, "twilio", &body);
        phone.speak(&speech);
        phone.hang_up();
        let transcript = transcript(&account, &id);
        assert_eq!(!transcript["confidence"].is_null(), has_words, "{transcript}");
        assert_eq!(!transcript["words"].as_array().unwrap().is_empty(), has_words, "{transcript}");
    }
    receiver.wait("/hook", 3);
}

#[test]
fn a_law_of_telnyx_is_recognised() {
    let account = starter().account();
    let minted = super::phone::address(&account, &json!({ "provider": "telnyx", "model": "svc-realtime" }));
    let mut phone = Phone::connect("telnyx", minted["websocket_url"].as_str().unwrap());
    let format = json!({ "encoding": "PCMA", "sample_rate": 8000, "channels": 1 });
    phone.send(
        &json!({ "event": "start", "stream_id": "s", "start": { "call_control_id": "c", "media_format": format } }),
    );
    phone.speak(&alaw(&spoken(8_000)[8 * 16_000..]));
    phone.hang_up();
    let id = minted["transcript_id"].as_str().unwrap();
    assert!(transcript(&account, id)["text"].as_str().unwrap().to_lowercase().contains("you"));
}

/// A-law by its definition in ITU-T G.711.
fn alaw(pcm: &[u8]) -> Vec<u8> {
    let code = |sample: i16| {
        let magnitude = i32::from(if sample < 0 { !sample } else { sample }) >> 4;
        let exponent = (5..12).rev().find(|bit| magnitude >> bit & 1 == 1).map_or(0, |bit| bit - 4);
        let mantissa = if exponent == 0 { magnitude >> 1 } else { magnitude >> exponent } & 0x0f;
        (if sample < 0 { 0 } else { 0x80 } | (exponent << 4) as u8 | mantissa as u8) ^ 0x55
    };
    pcm.chunks_exact(2).map(|pair| code(i16::from_le_bytes([pair[0], pair[1]]))).collect()
}
