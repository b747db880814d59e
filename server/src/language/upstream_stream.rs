//! The answer of a server of OpenAI's chat shape: server-sent events, or one JSON body from servers that do not stream.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;

use super::{FinishReason, ToolCall, Usage};

/// The largest event, and the largest answer.
const MAX_EVENT_BYTES: usize = 1 << 20;
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// The most tool calls of an answer.
const MAX_TOOL_CALLS: usize = 128;

/// What an answer has brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Text(String),
    End { tool_calls: Vec<ToolCall>, reason: FinishReason, usage: Option<Usage> },
}

/// Reads events.
pub struct EventReader {
    response: Response,
    /// The longest wait for the next bytes.
    timeout: Duration,
    parser: Parser,
    is_stream: bool,
}

impl EventReader {
    pub fn new(response: Response, timeout: Duration) -> Self {
        let content_type =
            response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_stream = !content_type.starts_with("application/json");
        Self { response, timeout, parser: Parser::default(), is_stream }
    }

    /// The next event.
    ///
    /// # Errors
    /// A message, if the server hangs, breaks off, or sends what is no answer.
    pub async fn next(&mut self) -> Result<Event, String> {
        loop {
            if self.is_stream
                && let Some(event) = self.parser.event()?
            {
                return Ok(event);
            }
            match tokio::time::timeout(self.timeout, self.response.chunk()).await {
                Err(_) => return Err(format!("it sent nothing for {} s", self.timeout.as_secs())),
                Ok(Err(_)) => return Err("the connection broke midway".into()),
                Ok(Ok(Some(bytes))) => self.parser.push(&bytes)?,
                Ok(Ok(None)) if !self.is_stream => return self.parser.whole(),
                Ok(Ok(None)) => return self.parser.end(),
            }
        }
    }
}

/// The state of an answer that has been read in part.
#[derive(Default)]
struct Parser {
    buffer: Vec<u8>,
    received: usize,
    /// Calls by their index.
    calls: Vec<ToolCall>,
    reason: Option<FinishReason>,
    usage: Option<Usage>,
    done: bool,
    /// The text of a body that was not streamed has been passed on.
    passed_on: bool,
}

impl Parser {
    fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.received += bytes.len();
        self.buffer.extend_from_slice(bytes);
        if self.received > MAX_ANSWER_BYTES {
            return Err(format!("its answer has more than {MAX_ANSWER_BYTES} bytes"));
        }
        Ok(())
    }

    /// The next event of the buffer, if it holds one.
    fn event(&mut self) -> Result<Option<Event>, String> {
        while !self.done {
            let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') else {
                if self.buffer.len() > MAX_EVENT_BYTES {
                    return Err("one of its events has no end".into());
                }
                return Ok(None);
            };
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            let line = String::from_utf8(line).map_err(|_| "its answer is not UTF-8")?;
            // Comments and other fields of an event have no meaning here.
            let Some(data) = line.trim().strip_prefix("data:") else { continue };
            let data = data.trim();
            if data == "[DONE]" {
                self.done = true;
                break;
            }
            if let Some(text) = self.chunk(data)? {
                return Ok(Some(Event::Text(text)));
            }
        }
        if self.done { self.finish().map(Some) } else { Ok(None) }
    }

    /// Reads a chunk, and returns its text if it has some.
    fn chunk(&mut self, data: &str) -> Result<Option<String>, String> {
        let chunk: Value =
            serde_json::from_str(data).map_err(|error| format!("one of its events is no JSON: {error}"))?;
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            let message = error["message"].as_str().or(error.as_str()).unwrap_or("an error without a message");
            return Err(format!("it failed midway: {}", message.chars().take(300).collect::<String>()));
        }
        self.read_usage(&chunk)?;
        let Some(choice) = chunk["choices"].as_array().ok_or("one of its events has no choices")?.first() else {
            return Ok(None);
        };
        self.read_reason(choice)?;
        let delta = &choice["delta"];
        self.read_calls(&delta["tool_calls"])?;
        match &delta["content"] {
            Value::String(text) if !text.is_empty() => Ok(Some(text.clone())),
            Value::String(_) | Value::Null => Ok(None),
            _ => Err("its text is no string".into()),
        }
    }

    fn read_usage(&mut self, chunk: &Value) -> Result<(), String> {
        let Some(usage) = chunk.get("usage").filter(|usage| !usage.is_null()) else { return Ok(()) };
        let tokens = |name: &str| usage[name].as_u64().ok_or_else(|| format!("its usage has no count of {name}"));
        self.usage =
            Some(Usage { prompt_tokens: tokens("prompt_tokens")?, completion_tokens: tokens("completion_tokens")? });
        Ok(())
    }

    fn read_reason(&mut self, choice: &Value) -> Result<(), String> {
        match &choice["finish_reason"] {
            Value::Null => {}
            Value::String(reason) => {
                self.reason = Some(match reason.as_str() {
                    "length" => FinishReason::Length,
                    "tool_calls" | "function_call" => FinishReason::ToolCalls,
                    _ => FinishReason::Stop,
                });
            }
            _ => return Err("its finish_reason is no string".into()),
        }
        Ok(())
    }

    /// Calls come in parts: a name, then pieces of arguments.
    fn read_calls(&mut self, calls: &Value) -> Result<(), String> {
        let Some(calls) = calls.as_array() else { return Ok(()) };
        for (position, part) in calls.iter().enumerate() {
            let index = part["index"].as_u64().map_or(position, |index| index as usize);
            if index > self.calls.len() || index >= MAX_TOOL_CALLS {
                return Err("its tool calls are out of order".into());
            }
            if index == self.calls.len() {
                self.calls.push(ToolCall { id: String::new(), name: String::new(), arguments: String::new() });
            }
            let call = &mut self.calls[index];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            if call.id.is_empty() {
                call.id = text(&part["id"]);
            }
            call.name.push_str(&text(&part["function"]["name"]));
            call.arguments.push_str(&text(&part["function"]["arguments"]));
        }
        Ok(())
    }

    /// The end of the connection: the answer is whole only if it said so.
    fn end(&mut self) -> Result<Event, String> {
        if self.reason.is_none() {
            return Err("its answer ended midway".into());
        }
        self.finish()
    }

    fn finish(&mut self) -> Result<Event, String> {
        let reason = self.reason.ok_or("its answer has no finish_reason")?;
        let mut tool_calls = std::mem::take(&mut self.calls);
        for (index, call) in tool_calls.iter_mut().enumerate() {
            if call.name.is_empty() {
                return Err("one of its tool calls has no name".into());
            }
            if call.id.is_empty() {
                call.id = format!("call_{index}");
            }
            if call.arguments.trim().is_empty() {
                call.arguments = "{}".into();
            }
        }
        // Some servers say `stop` after tool calls.
        let reason = if tool_calls.is_empty() { reason } else { FinishReason::ToolCalls };
        Ok(Event::End { tool_calls, reason, usage: self.usage })
    }

    /// A body that was not streamed: its text first, then its end.
    fn whole(&mut self) -> Result<Event, String> {
        let body: Value =
            serde_json::from_slice(&self.buffer).map_err(|error| format!("its answer is no JSON: {error}"))?;
        let choice =
            body["choices"].as_array().and_then(|choices| choices.first()).ok_or("its answer has no choices")?;
        if !self.passed_on {
            self.passed_on = true;
            self.read_usage(&body)?;
            self.read_reason(choice)?;
            self.read_calls(&choice["message"]["tool_calls"])?;
            match &choice["message"]["content"] {
                Value::String(text) if !text.is_empty() => return Ok(Event::Text(text.clone())),
                Value::String(_) | Value::Null => {}
                _ => return Err("its text is no string".into()),
            }
        }
        self.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All events of a stream that arrives in parts of this size.
    fn events(stream: &str, size: usize) -> Result<Vec<Event>, String> {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for part in stream.as_bytes().chunks(size) {
            parser.push(part)?;
            while let Some(event) = parser.event()? {
                let ended = matches!(event, Event::End { .. });
                events.push(event);
                if ended {
                    return Ok(events);
                }
            }
        }
        events.push(parser.end()?);
        Ok(events)
    }

    const STREAM: &str = concat!(
        ": a comment\n\n",
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\r\n\r\n",
        "event: x\ndata:{\"choices\":[{\"delta\":{\"content\":\"Grüß\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\" dich\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
        "data: [DONE]\n\n",
    );

    #[test]
    fn a_stream_is_read_however_it_is_cut() {
        let expected = [
            Event::Text("Grüß".into()),
            Event::Text(" dich".into()),
            Event::End {
                tool_calls: Vec::new(),
                reason: FinishReason::Stop,
                usage: Some(Usage { prompt_tokens: 3, completion_tokens: 2 }),
            },
        ];
        for size in [1, 2, 7, 64, 10_000] {
            assert_eq!(events(STREAM, size).unwrap(), expected, "{size}");
        }
    }

    #[test]
    fn tool_calls_are_put_together() {
        let stream = concat!(
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"x\\\":\"}}]}}]}\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"1}\"}},{\"index\":1,\"function\":{\"name\":\"g\"}}]}}]}\n",
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n",
        );
        let events = events(stream, 9).unwrap();
        let [Event::End { tool_calls, reason, .. }] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(*reason, FinishReason::ToolCalls);
        assert_eq!((tool_calls[0].id.as_str(), tool_calls[0].arguments.as_str()), ("a", "{\"x\":1}"));
        assert_eq!((tool_calls[1].id.as_str(), tool_calls[1].arguments.as_str()), ("call_1", "{}"));
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for (stream, what) in [
            ("", "midway"),
            ("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n", "midway"),
            ("data: [DONE]\n", "finish_reason"),
            ("data: {\n", "no JSON"),
            ("data: {\"choices\":1}\n", "no choices"),
            ("data: {\"choices\":[{\"delta\":{\"content\":1}}]}\n", "no string"),
            ("data: {\"choices\":[{\"delta\":{},\"finish_reason\":7}]}\n", "finish_reason"),
            ("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":-1}}\n", "usage"),
            ("data: {\"error\":{\"message\":\"out of memory\"}}\n", "out of memory"),
            ("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":5}]}}]}\n", "order"),
        ] {
            let error = events(stream, 16).unwrap_err();
            assert!(error.contains(what), "{stream}: {error}");
        }
        let mut parser = Parser::default();
        parser.push(&vec![b'x'; MAX_EVENT_BYTES + 1]).unwrap();
        assert!(parser.event().unwrap_err().contains("no end"));
        assert!(parser.push(&vec![b'x'; MAX_ANSWER_BYTES]).is_err());
    }
}
