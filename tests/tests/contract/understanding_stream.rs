//! Answers about a transcript that come as they are written (section 4.3).

use auricle_tests::chat_replies::{COMPLETIONS, delta, says};
use auricle_tests::{Reply, speech};
use serde_json::{Value, json};

use crate::language::{UNDERSTANDING, events, spoken, upstream};

/// The events of a stream before `[DONE]`, which must be there.
fn parts(events: &[String]) -> Vec<Value> {
    let (done, parts) = events.split_last().expect("events");
    assert_eq!(done, "[DONE]");
    parts.iter().map(|part| serde_json::from_str(part).expect("JSON")).collect()
}

#[test]
fn a_streamed_answer_ends_with_the_whole_result() {
    let (receiver, _service, account) = upstream([says(&[" He asks", " for", " service. "])]);
    let done = account.transcribe("jfk.flac", std::fs::read(speech()).unwrap());
    let body = json!({ "transcript_id": done["id"], "prompt": "What does he ask for?", "stream": true });
    let parts = parts(&events(&account.post(UNDERSTANDING, &body)));
    let (whole, pieces) = parts.split_last().unwrap();
    let draft: String = pieces.iter().map(|piece| piece["delta"].as_str().unwrap()).collect();
    assert_eq!((pieces.len(), draft.as_str()), (3, " He asks for service. "));
    assert!(whole["id"].as_str().unwrap().starts_with("su_") && whole["created_at"].is_string(), "{whole}");
    assert_eq!((&whole["response"], &whole["model"]), (&json!("He asks for service."), &json!("their-model")));
    assert_eq!(whole["transcript_id"], done["id"]);
    assert!(receiver.deliveries(COMPLETIONS)[0].json()["messages"].to_string().contains("country"));
    let without = json!({ "transcript_id": done["id"], "prompt": "What does he ask for?", "stream": null });
    assert_eq!(account.post(UNDERSTANDING, &without).ok()["response"], "He asks for service.");
}

#[test]
fn without_a_model_the_result_comes_at_once() {
    let (account, id) = spoken();
    let ask = |stream: Value| {
        let body = json!({ "transcript_id": id, "prompt": "What does he say about the country?", "stream": stream });
        account.post(UNDERSTANDING, &body)
    };
    let parts = parts(&events(&ask(json!(true))));
    assert_eq!((parts.len(), &parts[0]["model"]), (1, &json!("extractive")));
    assert_eq!(parts[0]["response"], ask(json!(false)).ok()["response"]);
    ask(json!("yes")).error(422, "validation_error");
}

#[test]
fn a_failure_has_a_status_before_the_first_piece_and_an_event_after_it() {
    let cut = Reply::Body(200, "text/event-stream", format!("data: {}\n\n", delta(json!({ "content": "Hal" }))).into());
    let (_receiver, _service, account) = upstream([Reply::Body(401, "application/json", "{}".into()), cut]);
    let done = account.transcribe("jfk.flac", std::fs::read(speech()).unwrap());
    let body = json!({ "transcript_id": done["id"], "prompt": "Who?", "stream": true });
    account.post(UNDERSTANDING, &body).error(502, "upstream_error");
    let events = events(&account.post(UNDERSTANDING, &body));
    let parts: Vec<Value> = events.iter().map(|part| serde_json::from_str(part).expect("no [DONE]")).collect();
    assert_eq!((parts.len(), &parts[0]["delta"]), (2, &json!("Hal")), "{parts:?}");
    assert_eq!(parts[1]["error"]["code"], "upstream_error");
}
