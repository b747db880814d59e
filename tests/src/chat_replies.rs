//! Replies of a server of OpenAI's chat shape.

use serde_json::{Value, json};

use crate::receiver::Reply;

/// The path of the requests.
pub const COMPLETIONS: &str = "/v1/chat/completions";

/// A stream of these events.
pub fn stream_of(events: &[Value]) -> Reply {
    let mut text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    text.push_str("data: [DONE]\n\n");
    Reply::Body(200, "text/event-stream", text.into())
}

/// An event with a piece of an answer.
pub fn delta(delta: Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

/// The last events of an answer.
pub fn end(reason: &str) -> [Value; 2] {
    [
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }),
        json!({ "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": 2 } }),
    ]
}

/// An answer of these pieces.
pub fn says(pieces: &[&str]) -> Reply {
    let mut all: Vec<Value> = pieces.iter().map(|piece| delta(json!({ "content": piece }))).collect();
    all.extend(end("stop"));
    stream_of(&all)
}

/// An answer that calls a tool.
pub fn calls(name: &str, arguments: &str) -> Reply {
    let call =
        json!({ "index": 0, "id": "call_0", "type": "function", "function": { "name": name, "arguments": arguments } });
    let mut events = vec![delta(json!({ "tool_calls": [call] }))];
    events.extend(end("tool_calls"));
    stream_of(&events)
}
