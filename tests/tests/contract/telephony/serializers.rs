//! Pipecat's serializers for Twilio, Telnyx and Plivo, unchanged, as the other side of a call.

use auricle_tests::chat_replies::{COMPLETIONS, says};
use auricle_tests::{Delivery, eventually, spoken};
use serde_json::json;

use super::phone::address;
use super::{answering, said, transcript};
use crate::openai::printed;
use crate::realtime_frameworks::python;

fn talk(provider: &str) {
    let Some(python) = python() else { return };
    let story = "Once upon a time there was a mill by the lake. ".repeat(8);
    let (receiver, _service, account) = answering([says(&[&story])]);
    let minted = address(&account, &json!({ "provider": provider, "session": { "greeting": "Good morning." } }));
    let folder = tempfile::tempdir().unwrap();
    let speech = folder.path().join("speech.pcm");
    std::fs::write(&speech, &spoken(16_000)[8 * 32_000..]).unwrap();
    let url = minted["websocket_url"].as_str().unwrap();
    let found = printed(python, "telephony.py", &[provider, url, speech.to_str().unwrap()]);
    assert!(found["bytes"].as_u64() > Some(16_000) && found["clears"].as_u64() >= Some(1), "{found}");
    assert!(found["understood"].as_u64() > Some(10) && found["marks"].as_u64() > Some(1), "{found}");
    assert_eq!(found["closed"], 1000);
    let has_key = |asked: &Delivery| asked.json()["messages"].to_string().contains(r#"{\"digits\":\"5\"}"#);
    eventually("the key is answered", || receiver.deliveries(COMPLETIONS).iter().any(has_key).then_some(()));
    let said = said(&transcript(&account, minted["transcript_id"].as_str().unwrap()));
    let has = |speaker: &str, part: &str| said.iter().any(|(by, text)| by == speaker && text.contains(part));
    assert!(has("B", "Good") && has("B", "Once upon") && has("A", "[DTMF 5]"), "{said:?}");
}

#[test]
fn pipecat_calls_as_twilio() {
    talk("twilio");
}

#[test]
fn pipecat_calls_as_telnyx() {
    talk("telnyx");
}

#[test]
fn pipecat_calls_as_plivo() {
    talk("plivo");
}
