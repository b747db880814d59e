//! Conversations at `/v1/realtime`: the voice agent in OpenAI's protocol, by hand and through the official package of PyPI, unchanged.

use std::time::Duration;

use auricle_tests::chat_replies::{COMPLETIONS, calls, delta, end, says, stream_of};
use auricle_tests::{Account, Delivery, Reply, Service, Setup, eventually, spoken};
use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::openai::{node, python, run};
use crate::realtime_openai::{SECRETS, Session, TENTH};
use crate::voice_agent::{mulaw, sentence, upstream, weather};

const LONG: &str = "Once upon a time there was a mill by the lake, and in the mill there lived a man. ";

/// A conversation, which has sent its first event, with these settings.
#[track_caller]
fn talk(service: &Service, account: &Account, session: &Value) -> Session {
    let bearer = format!("Bearer {}", account.key);
    let (mut talk, _) = Session::connect(service, "?model=gpt-realtime", &[("authorization", &bearer)]).unwrap();
    let created = talk.next();
    let kind = (&created["type"], &created["session"]["type"], &created["session"]["object"]);
    assert_eq!(kind, (&json!("session.created"), &json!("realtime"), &json!("realtime.session")), "{created}");
    set(&mut talk, session);
    talk
}

#[track_caller]
fn set(talk: &mut Session, session: &Value) -> Value {
    let mut session = session.clone();
    session["type"] = json!("realtime");
    talk.send(&json!({ "type": "session.update", "session": session }));
    talk.until("session.updated")["session"].clone()
}

#[track_caller]
fn write(talk: &mut Session, text: &str) -> Value {
    let content = json!([{ "type": "input_text", "text": text }]);
    talk.send(&json!({ "type": "conversation.item.create", "item": { "type": "message", "role": "user", "content": content } }));
    talk.until("conversation.item.done")["item"].clone()
}

fn respond(talk: &mut Session, response: &Value) {
    talk.send(&json!({ "type": "response.create", "response": response, "event_id": "respond" }));
}

/// Speaks at the pace of speech, as a microphone does.
fn speak(talk: &mut Session, pcm: &[u8]) {
    for piece in pcm.chunks(TENTH) {
        talk.append(piece);
        std::thread::sleep(Duration::from_millis(90));
    }
}

/// The types of events, each once where it comes several times in a row.
fn order(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    kinds.dedup();
    kinds
}

/// The parts of all events of a type, joined.
fn joined(events: &[Value], kind: &str) -> String {
    events.iter().filter(|event| event["type"] == kind).map(|event| event["delta"].as_str().unwrap()).collect()
}

fn of<'a>(events: &'a [Value], kind: &str) -> &'a Value {
    events.iter().find(|event| event["type"] == kind).unwrap_or_else(|| panic!("no {kind}: {:?}", order(events)))
}

fn messages(delivery: &Delivery) -> Vec<Value> {
    delivery.json()["messages"].as_array().unwrap().clone()
}

/// The end of the next response, and its status.
#[track_caller]
fn done(talk: &mut Session) -> (Value, String) {
    let response = talk.until("response.done")["response"].clone();
    let status = response["status"].as_str().unwrap().to_owned();
    (response, status)
}

#[test]
fn text_is_answered_by_text() {
    let (receiver, service, account) = upstream([says(&["Good ", "morning."]), says(&["And again."])]);
    let mut talk =
        talk(&service, &account, &json!({ "output_modalities": ["text"], "instructions": "You are a miller." }));
    let item = write(&mut talk, "Hello there.");
    assert_eq!((&item["role"], &item["status"]), (&json!("user"), &json!("completed")));
    respond(&mut talk, &json!({ "metadata": { "topic": "mills" } }));
    let events = talk.all_until("response.done");
    assert_eq!(
        order(&events),
        [
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "conversation.item.done",
            "response.output_item.done",
            "response.done",
        ]
    );
    assert_eq!(joined(&events, "response.output_text.delta"), "Good morning.");
    assert_eq!(of(&events, "conversation.item.added")["previous_item_id"], item["id"]);
    let response = &events.last().unwrap()["response"];
    assert_eq!((&response["status"], &response["metadata"]["topic"]), (&json!("completed"), &json!("mills")));
    let usage = &response["usage"];
    assert_eq!(
        (&usage["input_tokens"], &usage["output_tokens"], &usage["total_tokens"]),
        (&json!(7), &json!(2), &json!(9))
    );
    let output = &response["output"][0];
    assert_eq!(output["content"][0], json!({ "type": "output_text", "text": "Good morning." }));
    assert_eq!(*output, of(&events, "conversation.item.done")["item"]);
    for event in &events {
        let named = event.get("response_id").unwrap_or(&response["id"]);
        assert_eq!(*named, response["id"], "{event}");
    }
    // The instructions of a response are its own.
    write(&mut talk, "Again, please.");
    respond(&mut talk, &json!({ "instructions": "You are a smith." }));
    done(&mut talk);
    let asked = receiver.wait(COMPLETIONS, 2);
    let line =
        |message: &Value| format!("{}: {}", message["role"].as_str().unwrap(), message["content"].as_str().unwrap());
    let lines = |delivery| messages(delivery).iter().map(line).collect::<Vec<_>>();
    assert_eq!(lines(&asked[0]), ["system: You are a miller.", "user: Hello there."]);
    assert_eq!(lines(&asked[1])[0], "system: You are a smith.");
    assert_eq!(lines(&asked[1])[2..], ["assistant: Good morning.", "user: Again, please."]);
}

#[test]
fn a_spoken_turn_is_answered_in_the_order_of_the_protocol() {
    let (receiver, service, account) = upstream([says(&["Good ", "morning to the mill."])]);
    let mut talk =
        talk(&service, &account, &json!({ "audio": { "input": { "transcription": { "model": "whisper-1" } } } }));
    talk.append(&sentence());
    let events = talk.all_until("response.done");
    let kinds: Vec<&str> = order(&events).into_iter().filter(|kind| !kind.ends_with("transcription.delta")).collect();
    let streamed = ["response.output_audio_transcript.delta", "response.output_audio.delta"];
    let first = kinds.iter().position(|kind| streamed.contains(kind)).expect("audio");
    let last = kinds.iter().rposition(|kind| streamed.contains(kind)).unwrap();
    assert!(kinds[first..=last].iter().all(|kind| streamed.contains(kind)), "{kinds:?}");
    assert_eq!(
        [&kinds[..first], &kinds[last + 1..]].concat(),
        [
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            "conversation.item.input_audio_transcription.completed",
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added",
            "response.output_audio.done",
            "response.output_audio_transcript.done",
            "response.content_part.done",
            "conversation.item.done",
            "response.output_item.done",
            "response.done",
        ]
    );
    let turn = &of(&events, "input_audio_buffer.speech_started")["item_id"];
    for kind in ["input_audio_buffer.committed", "conversation.item.input_audio_transcription.completed"] {
        assert_eq!(of(&events, kind)["item_id"], *turn, "{kind}");
    }
    let from = of(&events, "input_audio_buffer.speech_started")["audio_start_ms"].as_u64().unwrap();
    let to = of(&events, "input_audio_buffer.speech_stopped")["audio_end_ms"].as_u64().unwrap();
    assert!(from < 1_500 && from + 500 < to && to < 5_000, "{from} {to}");
    let heard = of(&events, "conversation.item.input_audio_transcription.completed")["transcript"].as_str().unwrap();
    assert!(heard.to_lowercase().contains("you"), "{heard}");
    let said = "Good morning to the mill.";
    assert_eq!(joined(&events, "response.output_audio_transcript.delta"), said);
    assert_eq!(of(&events, "response.output_audio_transcript.done")["transcript"], said);
    let audio: usize = events
        .iter()
        .filter(|event| event["type"] == "response.output_audio.delta")
        .map(|event| BASE64.decode(event["delta"].as_str().unwrap().as_bytes()).unwrap().len())
        .sum();
    assert!(audio > 20_000, "{audio} bytes");
    let asked = messages(&receiver.wait(COMPLETIONS, 1)[0]);
    assert_eq!(asked.last().unwrap()["content"], heard);

    // What the client did not play was not said.
    let response = &events.last().unwrap()["response"];
    assert_eq!(response["output"][0]["content"][0], json!({ "type": "output_audio", "transcript": said }));
    let id = &response["output"][0]["id"];
    let ms = audio as u64 / 48;
    let cut = |ms: u64| json!({ "type": "conversation.item.truncate", "item_id": id, "content_index": 0, "audio_end_ms": ms });
    talk.send(&cut(ms + 200));
    assert_eq!(talk.fault().1, "audio_end_ms", "past its end");
    talk.send(&cut(ms / 2));
    assert_eq!(talk.until("conversation.item.truncated")["audio_end_ms"], ms / 2);
    talk.send(&json!({ "type": "conversation.item.retrieve", "item_id": id }));
    let kept =
        talk.until("conversation.item.retrieved")["item"]["content"][0]["transcript"].as_str().unwrap().to_owned();
    assert!(said.starts_with(&kept) && !kept.is_empty() && kept.len() < said.len(), "{kept}");
    talk.append(&sentence());
    done(&mut talk);
    let asked = messages(receiver.wait(COMPLETIONS, 2).last().unwrap());
    assert_eq!((&asked[2]["role"], &asked[2]["content"]), (&json!("assistant"), &json!(kept)), "{asked:?}");
}

#[test]
fn functions_are_called_and_their_outputs_answered() {
    let (receiver, service, account) =
        upstream([calls("weather", r#"{"place":"Rome"}"#), says(&["One moment."]), says(&["It is sunny."])]);
    let mut talk = talk(&service, &account, &json!({ "tools": [weather()], "output_modalities": ["text"] }));
    write(&mut talk, "What is the weather in Rome?");
    respond(&mut talk, &json!({ "tool_choice": "required" }));
    let events = talk.all_until("response.done");
    assert_eq!(
        order(&events),
        [
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "conversation.item.done",
            "response.output_item.done",
            "response.done",
        ]
    );
    let call = &of(&events, "response.function_call_arguments.done");
    assert_eq!((&call["name"], &call["arguments"]), (&json!("weather"), &json!(r#"{"place":"Rome"}"#)));
    let item = &events.last().unwrap()["response"]["output"][0];
    assert_eq!(
        (&item["type"], &item["call_id"], &item["status"]),
        (&json!("function_call"), &call["call_id"], &json!("completed"))
    );
    // A function that gives no output holds nothing up.
    write(&mut talk, "Are you there?");
    respond(&mut talk, &json!({}));
    done(&mut talk);
    let output = |id: &Value| json!({ "type": "conversation.item.create", "event_id": "output", "item": { "type": "function_call_output", "call_id": id, "output": "clear sky" } });
    talk.send(&output(&json!("another")));
    assert_eq!(talk.fault(), ("unknown_call".into(), json!("item"), json!("output")));
    talk.send(&output(&call["call_id"]));
    talk.until("conversation.item.done");
    respond(&mut talk, &json!({}));
    let (response, _) = done(&mut talk);
    assert_eq!(response["output"][0]["content"][0]["text"], "It is sunny.");
    let asked = receiver.wait(COMPLETIONS, 3);
    assert_eq!(asked[0].json()["tool_choice"], "required");
    assert_eq!(asked[0].json()["tools"][0]["function"]["name"], "weather");
    let result = |delivery| messages(delivery).into_iter().find(|message| message["role"] == "tool").unwrap();
    assert!(result(&asked[1])["content"].as_str().unwrap().contains("no result yet"));
    let (found, call) = (result(&asked[2]), &messages(&asked[2])[1]["tool_calls"][0]["id"]);
    assert_eq!((&found["content"], &found["tool_call_id"]), (&json!("clear sky"), call));
}

#[test]
fn a_call_comes_while_the_words_before_it_are_spoken() {
    let call = json!({ "index": 0, "id": "call_0", "type": "function", "function": { "name": "weather", "arguments": "{\"place\":\"Rome\"}" } });
    let mut answer = vec![delta(json!({ "content": LONG })), delta(json!({ "tool_calls": [call] }))];
    answer.extend(end("tool_calls"));
    let (receiver, service, account) = upstream([stream_of(&answer), says(&["It is sunny."])]);
    let mut talk = talk(&service, &account, &json!({ "tools": [weather()] }));
    write(&mut talk, "What is the weather in Rome?");
    respond(&mut talk, &json!({}));
    let before = talk.all_until("response.function_call_arguments.done");
    let after = talk.all_until("response.done");
    assert!(after.iter().any(|event| event["type"] == "response.output_audio.delta"), "{:?}", order(&after));
    let response = &after.last().unwrap()["response"];
    let kinds: Vec<&str> =
        response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!((kinds, &response["status"]), (vec!["message", "function_call"], &json!("completed")));
    let called = before.last().unwrap();
    assert_eq!((&called["output_index"], &called["item_id"]), (&json!(1), &response["output"][1]["id"]));
    talk.send(&json!({ "type": "conversation.item.create", "item": { "type": "function_call_output", "call_id": called["call_id"], "output": "clear sky" } }));
    talk.until("conversation.item.done");
    respond(&mut talk, &json!({}));
    done(&mut talk);
    let roles: Vec<Value> =
        messages(&receiver.wait(COMPLETIONS, 2)[1]).iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles[1..], ["user", "assistant", "tool"], "{roles:?}");
}

#[test]
fn a_caller_interrupts_and_a_client_cancels() {
    let (receiver, service, account) = upstream([says(&[&LONG.repeat(8)])]);
    let mut talk = talk(&service, &account, &json!({}));
    write(&mut talk, "Tell me a story.");
    respond(&mut talk, &json!({}));
    let mut events = talk.all_until("response.output_audio.delta");
    respond(&mut talk, &json!({}));
    loop {
        let event = talk.next();
        if event["type"] == "error" {
            assert_eq!(event["error"]["code"], "conversation_already_has_active_response", "{event}");
            assert_eq!(event["error"]["event_id"], "respond");
            break;
        }
        events.push(event);
    }
    speak(&mut talk, &sentence());
    events.extend(talk.all_until("response.done"));
    let response = events.last().unwrap()["response"].clone();
    let details = json!({ "type": "cancelled", "reason": "turn_detected" });
    assert_eq!((&response["status"], &response["status_details"]), (&json!("cancelled"), &details));
    let item = &response["output"][0];
    let said = item["content"][0]["transcript"].as_str().unwrap();
    assert!(item["status"] == "incomplete" && LONG.repeat(8).starts_with(said) && said.len() < 400, "{item}");
    assert!(joined(&events, "response.output_audio_transcript.delta").starts_with(said), "{said}");
    // The turn is answered, and that answer is cancelled by the client.
    let committed = talk.until("input_audio_buffer.committed");
    assert_eq!(committed["previous_item_id"], item["id"]);
    talk.until("response.output_audio.delta");
    talk.send(&json!({ "type": "response.cancel" }));
    let (response, status) = done(&mut talk);
    assert_eq!((status.as_str(), &response["status_details"]["reason"]), ("cancelled", &json!("client_cancelled")));
    talk.send(&json!({ "type": "response.cancel" }));
    assert_eq!(talk.fault().0, "response_cancel_not_active");
    // A reply is cut while it is spoken.
    respond(&mut talk, &json!({}));
    let id = talk.until("response.output_audio.delta")["item_id"].clone();
    talk.send(&json!({ "type": "conversation.item.truncate", "item_id": id, "content_index": 0, "audio_end_ms": 0 }));
    let (response, status) = done(&mut talk);
    assert_eq!((status.as_str(), &response["status_details"]["reason"]), ("cancelled", &json!("client_cancelled")));
    assert_eq!(talk.until("conversation.item.truncated")["item_id"], id);
    let asked = messages(receiver.wait(COMPLETIONS, 2).last().unwrap());
    assert!(asked.iter().any(|message| message["role"] == "assistant" && message["content"] == said), "{asked:?}");
}

#[test]
fn the_client_ends_turns_where_none_is_detected() {
    let (receiver, service, account) = upstream([says(&["Yes."])]);
    let input = json!({ "turn_detection": null, "transcription": { "model": "whisper-1" }, "format": { "type": "audio/pcmu" } });
    let mut talk = talk(&service, &account, &json!({ "audio": { "input": input }, "output_modalities": ["text"] }));
    talk.commit();
    assert_eq!(talk.fault(), ("input_audio_buffer_commit_empty".into(), Value::Null, json!("commit")));
    let pcm = spoken(8_000);
    let coded = mulaw(&pcm[8 * 16_000..]);
    talk.append(&coded);
    talk.send(&json!({ "type": "input_audio_buffer.clear" }));
    talk.until("input_audio_buffer.cleared");
    talk.commit();
    assert_eq!(talk.fault().0, "input_audio_buffer_commit_empty");
    talk.append(&coded);
    talk.commit();
    // It waits for the words of the turn.
    respond(&mut talk, &json!({}));
    let events = talk.all_until("response.done");
    assert_eq!(
        order(&events)[..5],
        [
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            "conversation.item.input_audio_transcription.completed",
            "response.created",
        ]
    );
    let completed = of(&events, "conversation.item.input_audio_transcription.completed");
    let heard = completed["transcript"].as_str().unwrap();
    assert!(heard.to_lowercase().contains("you"), "{heard}");
    let seconds = coded.len() as f64 / 8_000.0;
    assert!((completed["usage"]["seconds"].as_f64().unwrap() - seconds).abs() < 0.05, "{completed}");
    assert_eq!(messages(&receiver.wait(COMPLETIONS, 1)[0]).last().unwrap()["content"], heard);
}

#[test]
fn a_detected_turn_waits_for_response_create_where_the_client_wants_it() {
    let (receiver, service, account) = upstream([says(&["Yes."])]);
    let turns = json!({ "type": "server_vad", "create_response": false });
    let session = json!({ "audio": { "input": { "turn_detection": turns } }, "output_modalities": ["text"] });
    let mut talk = talk(&service, &account, &session);
    talk.append(&sentence());
    let committed = talk.until("input_audio_buffer.committed");
    let added = talk.until("conversation.item.done");
    assert_eq!(added["item"]["id"], committed["item_id"]);
    talk.append(&vec![0; 10 * TENTH]);
    write(&mut talk, "Well?");
    assert_eq!(receiver.deliveries(COMPLETIONS).len(), 0);
    respond(&mut talk, &json!({}));
    assert_eq!(done(&mut talk).1, "completed");
    // A caller who says nothing more is asked.
    set(
        &mut talk,
        &json!({ "audio": { "input": { "turn_detection": { "type": "server_vad", "idle_timeout_ms": 5_000 } } } }),
    );
    let events = talk.all_until("response.done");
    assert_eq!(
        order(&events)[..5],
        [
            "input_audio_buffer.timeout_triggered",
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            "response.created",
        ]
    );
}

#[test]
fn a_response_outside_of_the_conversation_leaves_it_as_it_is() {
    let (receiver, service, account) = upstream([says(&["Mills."]), says(&["Yes."])]);
    let mut talk = talk(&service, &account, &json!({}));
    let item = write(&mut talk, "Tell me of mills.");
    let input = json!([{ "type": "item_reference", "id": item["id"] }, { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "The topic?" }] }]);
    respond(&mut talk, &json!({ "conversation": "none", "input": input, "instructions": "Classify." }));
    assert_eq!(talk.fault(), ("invalid_value".into(), json!("response"), json!("respond")), "it would speak");
    respond(
        &mut talk,
        &json!({ "conversation": "none", "input": input, "instructions": "Classify.", "output_modalities": ["text"] }),
    );
    let events = talk.all_until("response.done");
    assert!(order(&events).iter().all(|kind| kind.starts_with("response.")), "{:?}", order(&events));
    let response = &events.last().unwrap()["response"];
    assert_eq!((&response["conversation_id"], &response["status"]), (&Value::Null, &json!("completed")));
    assert_eq!(joined(&events, "response.output_text.delta"), "Mills.");
    respond(&mut talk, &json!({ "output_modalities": ["text"] }));
    done(&mut talk);
    let asked = receiver.wait(COMPLETIONS, 2);
    assert_eq!(messages(&asked[0])[0]["content"], "Classify.");
    assert_eq!(messages(&asked[0])[1]["content"], "Tell me of mills.\nThe topic?");
    assert!(!messages(&asked[1]).iter().any(|message| message["role"] == "assistant"));
}

#[test]
fn faults_name_their_event_and_the_conversation_lives() {
    let (_receiver, service, account) = upstream([Reply::Status(400), says(&["Yes."])]);
    let mut talk = talk(&service, &account, &json!({ "output_modalities": ["text"] }));
    talk.0.send(tungstenite::Message::text("{")).unwrap();
    assert_eq!(talk.fault(), ("invalid_json".into(), Value::Null, Value::Null));
    talk.0.send(tungstenite::Message::binary(vec![0; 10])).unwrap();
    assert_eq!(talk.fault().0, "invalid_event");
    let update = |session: Value| json!({ "type": "session.update", "session": session });
    let create = |item: Value| json!({ "type": "conversation.item.create", "item": item });
    let response = |response: Value| json!({ "type": "response.create", "response": response });
    let picture = json!([{ "type": "input_image", "image_url": "data:image/png;base64,AA==" }]);
    for (mut event, code, param) in [
        (json!({ "type": "response.stop" }), "invalid_value", json!("type")),
        (json!({ "type": "output_audio_buffer.clear" }), "invalid_value", json!("type")),
        (json!({ "type": "input_audio_buffer.append", "audio": "no base64!" }), "invalid_value", json!("audio")),
        (json!({ "type": "input_audio_buffer.commit" }), "input_audio_buffer_commit_empty", Value::Null),
        (json!({ "type": "response.cancel" }), "response_cancel_not_active", Value::Null),
        (
            json!({ "type": "conversation.item.retrieve", "item_id": "x" }),
            "item_retrieve_invalid_item_id",
            json!("item_id"),
        ),
        (
            json!({ "type": "conversation.item.delete", "item_id": "x" }),
            "item_delete_invalid_item_id",
            json!("item_id"),
        ),
        (create(json!({ "type": "message", "role": "user", "content": picture })), "invalid_value", json!("item")),
        (create(json!({ "type": "mcp_approval_response" })), "invalid_value", json!("item")),
        (response(json!({ "prompt": { "id": "p" } })), "invalid_value", json!("response")),
        (response(json!({ "tools": [{ "type": "mcp", "server_label": "x" }] })), "invalid_value", json!("response")),
        (response(json!({ "input": [{ "type": "item_reference", "id": "x" }] })), "invalid_value", json!("response")),
        (update(json!({ "type": "transcription" })), "invalid_value", json!("session")),
        (update(json!({ "model": "gpt-9" })), "model_not_found", json!("session")),
        (update(json!({ "output_modalities": ["text", "audio"] })), "invalid_value", json!("session")),
        (update(json!({ "tracing": 5 })), "invalid_value", json!("session")),
        (update(json!({ "truncation": "disabled" })), "invalid_value", json!("session")),
        (update(json!({ "audio": { "output": { "voice": "siri" } } })), "invalid_value", json!("session")),
        (update(json!({ "audio": { "output": { "speed": 9 } } })), "invalid_value", json!("session")),
        (update(json!({ "max_output_tokens": 0 })), "invalid_value", json!("session")),
        (update(json!({ "tool_choice": "sometimes" })), "invalid_value", json!("session")),
    ] {
        event["event_id"] = json!("mine");
        talk.send(&event);
        assert_eq!(talk.fault(), (code.to_owned(), param, json!("mine")), "{event}");
    }
    let item = write(&mut talk, "Hello.");
    talk.send(
        &json!({ "type": "conversation.item.truncate", "item_id": item["id"], "content_index": 0, "audio_end_ms": 0 }),
    );
    assert_eq!(talk.fault().1, "item_id", "it is no spoken reply");
    // A language model that fails ends the response alone.
    respond(&mut talk, &json!({}));
    let (failed, status) = done(&mut talk);
    assert_eq!((status.as_str(), &failed["status_details"]["error"]["code"]), ("failed", &json!("upstream_error")));
    talk.send(&json!({ "type": "conversation.item.delete", "item_id": item["id"] }));
    assert_eq!(talk.until("conversation.item.deleted")["item_id"], item["id"]);
    write(&mut talk, "Hello again.");
    respond(&mut talk, &json!({}));
    assert_eq!(done(&mut talk).1, "completed");
}

#[test]
fn ten_thousand_items_are_too_many_and_a_client_that_reads_nothing_holds_nothing_up() {
    let (_receiver, service, account) = upstream([says(&[&LONG.repeat(8)])]);
    let mut deaf = talk(&service, &account, &json!({}));
    write(&mut deaf, "Tell me a story.");
    respond(&mut deaf, &json!({}));
    let mut talk = talk(&service, &account, &json!({ "output_modalities": ["text"] }));
    let item = json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "x" }] });
    let mut added = 0;
    let refused = (0..10_000).find_map(|_| {
        talk.send(&json!({ "type": "conversation.item.create", "item": item }));
        let event = talk.next();
        if event["type"] == "error" {
            return Some(event["error"]["code"].clone());
        }
        added += 1;
        assert_eq!(talk.next()["type"], "conversation.item.done");
        None
    });
    assert_eq!((refused, added), (Some(json!("conversation_full")), 5_000));
    drop(deaf);
}

#[test]
fn a_conversation_is_billed_limited_and_ended_as_an_agent() {
    let (_receiver, service, account) = upstream([says(&[&LONG.repeat(8)])]);
    let mut one = talk(&service, &account, &json!({}));
    one.0.close(None).unwrap();
    eventually("it is billed", || (account.usage().len() == 1).then_some(()));
    assert_eq!(
        (&account.usage()[0]["sku"], &account.usage()[0]["unit_type"]),
        (&json!("svc-agent"), &json!("session_hour"))
    );
    // A service that stops ends the response first.
    let mut last = talk(&service, &account, &json!({}));
    write(&mut last, "Tell me a story.");
    respond(&mut last, &json!({}));
    last.until("response.output_audio.delta");
    service.terminate();
    let mut events = Vec::new();
    let code = loop {
        match last.read() {
            Ok(event) => events.push(event),
            Err(code) => break code,
        }
    };
    assert_eq!((code, &of(&events, "error")["error"]["code"]), (1001, &json!("service_stopping")));
    assert_eq!(events.last().unwrap()["response"]["status"], "cancelled", "{:?}", order(&events));

    let service = Setup::local().talking().with("max_live_sessions", 1).with("live_idle_seconds", 2).start();
    let account = service.account();
    let mut first = talk(&service, &account, &json!({}));
    let bearer = format!("Bearer {}", account.key);
    let (mut second, _) = Session::connect(&service, "?model=svc-agent", &[("authorization", &bearer)]).unwrap();
    assert_eq!((second.fault().0.as_str(), second.read()), ("unavailable", Err(1013)));
    assert_eq!((first.fault().0.as_str(), first.read()), ("session_idle", Err(1000)));
}

#[test]
fn a_client_secret_opens_conversations_with_its_settings() {
    let (_receiver, service, account) = upstream([says(&["Yes."])]);
    let session = json!({ "type": "realtime", "model": "gpt-realtime", "instructions": "You are a miller.", "output_modalities": ["text"] });
    let made = account.post(SECRETS, &json!({ "session": session })).ok();
    assert_eq!(
        (&made["session"]["object"], &made["session"]["audio"]["output"]["voice"]),
        (&json!("realtime.session"), &json!("alloy"))
    );
    let bearer = format!("Bearer {}", made["value"].as_str().unwrap());
    for query in ["", "?model=gpt-realtime"] {
        let (mut talk, _) = Session::connect(&service, query, &[("authorization", &bearer)]).unwrap();
        let created = talk.next();
        assert_eq!(created["session"]["instructions"], "You are a miller.", "{created}");
        write(&mut talk, "Hello?");
        respond(&mut talk, &json!({}));
        assert_eq!(done(&mut talk).1, "completed");
    }
    let (mut refused, _) = Session::connect(&service, "?model=whisper-1", &[("authorization", &bearer)]).unwrap();
    assert_eq!((refused.fault().0.as_str(), refused.read()), ("model_not_found", Err(4400)));
    account
        .post(SECRETS, &json!({ "session": { "type": "realtime", "model": "gpt-9" } }))
        .error(404, "model_not_found");
}

#[test]
fn the_python_package_talks() {
    let Some(python) = python("openai, websockets") else { return };
    let long = LONG.repeat(8);
    let (_receiver, service, _) =
        upstream([calls("weather", r#"{"place":"Rome"}"#), says(&["It is sunny in Rome."]), says(&[&long])]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("speech.pcm");
    std::fs::write(&path, sentence()).unwrap();
    let found = run(python, "openai_client.py", &service, &["talk", path.to_str().unwrap()]);
    assert_eq!(
        (&found["session"], &found["call"]),
        (&json!("realtime"), &json!(["weather", { "place": "Rome" }])),
        "{found}"
    );
    assert_eq!((&found["answer"], &found["status"]), (&json!("It is sunny in Rome."), &json!("completed")));
    assert!(found["audio"].as_u64() > Some(20_000), "{found}");
    assert_eq!(found["interrupted"], json!(["cancelled", "turn_detected"]));
    let said = found["said"].as_str().unwrap();
    assert!(long.starts_with(said) && said.len() < 400, "{said}");
    assert_eq!(found["error"], "item_retrieve_invalid_item_id");
}

#[test]
fn the_npm_package_talks() {
    let Some(node) = node("openai") else { return };
    let long = LONG.repeat(8);
    let (_receiver, service, _) = upstream([says(&["Good morning."]), says(&[&long]), says(&["Goodbye."])]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("speech.pcm");
    std::fs::write(&path, sentence()).unwrap();
    let found = run(node, "openai_client.mjs", &service, &["talk", path.to_str().unwrap()]);
    assert_eq!((&found["detection"], &found["errors"]), (&json!("semantic_vad"), &json!([])), "{found}");
    assert_eq!(
        (&found["answer"], &found["interrupted"]),
        (&json!("Good morning."), &json!(["cancelled", "turn_detected"]))
    );
    let said = found["said"].as_str().unwrap();
    assert!(long.starts_with(said) && said.len() < 400, "{said}");
    let heard = found["heard"].as_array().unwrap();
    assert!(
        heard.len() >= 2 && heard.iter().all(|text| text.as_str().unwrap().to_lowercase().contains("you")),
        "{found}"
    );
}
