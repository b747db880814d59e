//! Frames of the voice agent's protocol.

use serde::Serialize;
use serde_json::Value;

use crate::http::response::shortened;

/// A frame from the service.
#[derive(Serialize)]
#[serde(tag = "type")]
pub enum ServerFrame<'a> {
    /// The agent is live.
    #[serde(rename = "session.ready")]
    Ready { session_id: &'a str },
    /// The settings are changed.
    #[serde(rename = "session.updated")]
    Updated,
    #[serde(rename = "session.error")]
    Error { code: &'a str, message: &'a str },
    #[serde(rename = "input.speech.started")]
    SpeechStarted,
    #[serde(rename = "input.speech.stopped")]
    SpeechStopped,
    /// The words of the turn so far.
    #[serde(rename = "transcript.user.delta")]
    UserDelta { text: &'a str },
    #[serde(rename = "transcript.user")]
    User { text: &'a str },
    #[serde(rename = "reply.started")]
    ReplyStarted { reply_id: &'a str },
    #[serde(rename = "reply.audio")]
    Audio { reply_id: &'a str, data: &'a str },
    #[serde(rename = "reply.done")]
    ReplyDone { reply_id: &'a str, status: ReplyStatus },
    /// The words that were played.
    #[serde(rename = "transcript.agent")]
    Agent { reply_id: &'a str, text: &'a str, interrupted: bool },
    #[serde(rename = "tool.call")]
    Call { call_id: &'a str, name: &'a str, arguments: Value },
    #[serde(rename = "session.ended")]
    Ended { session_duration_seconds: f64, audio_duration_seconds: f64, timestamp: f64 },
}

/// The end of a reply.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplyStatus {
    Completed,
    Interrupted,
}

impl ServerFrame<'_> {
    /// The frame as JSON.
    pub fn to_json(&self) -> String {
        // Serialising strings and numbers does not fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A frame from the client.
#[derive(Debug, PartialEq)]
pub enum ClientFrame {
    /// The `session` object.
    Update(Value),
    /// Base64.
    Audio(String),
    ToolResult {
        call_id: String,
        result: String,
    },
    End,
}

/// A fault of a frame. The session goes on.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    pub code: &'static str,
    pub message: String,
}

impl Fault {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: shortened(message.into()) }
    }
}

impl ClientFrame {
    /// Parses a frame.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let mut frame = match serde_json::from_str(text) {
            Ok(Value::Object(frame)) => frame,
            Ok(_) => return Err(Fault::new("invalid_frame", "A frame is a JSON object with a `type`.")),
            Err(error) => return Err(Fault::new("invalid_frame", format!("The frame is not JSON: {error}."))),
        };
        let kind = match frame.remove("type") {
            Some(Value::String(kind)) => kind,
            _ => return Err(Fault::new("invalid_frame", "The frame has no `type`, which is a string.")),
        };
        let mut string = |name: &str| match frame.remove(name) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(Fault::new("invalid_frame", format!("`{name}` of `{kind}` must be a string."))),
        };
        match kind.as_str() {
            "session.update" => frame
                .remove("session")
                .map(Self::Update)
                .ok_or_else(|| Fault::new("invalid_request", "`session` is missing.")),
            "input.audio" => string("audio").map(Self::Audio),
            "tool.result" => Ok(Self::ToolResult { call_id: string("call_id")?, result: string("result")? }),
            "session.end" => Ok(Self::End),
            _ => Err(Fault::new("unknown_frame", format!("There is no frame {kind:?}."))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frames_have_the_names_of_the_contract() {
        let done = ServerFrame::ReplyDone { reply_id: "reply_1", status: ReplyStatus::Interrupted };
        assert_eq!(done.to_json(), r#"{"type":"reply.done","reply_id":"reply_1","status":"interrupted"}"#);
        assert_eq!(ServerFrame::SpeechStarted.to_json(), r#"{"type":"input.speech.started"}"#);
        let call = ServerFrame::Call { call_id: "c", name: "f", arguments: json!({ "a": 1 }) };
        assert_eq!(call.to_json(), r#"{"type":"tool.call","call_id":"c","name":"f","arguments":{"a":1}}"#);
    }

    #[test]
    fn broken_frames_are_faults() {
        for (text, code) in [
            ("", "invalid_frame"),
            ("[]", "invalid_frame"),
            ("{}", "invalid_frame"),
            (r#"{"type":1}"#, "invalid_frame"),
            (r#"{"type":"input.audio"}"#, "invalid_frame"),
            (r#"{"type":"input.audio","audio":5}"#, "invalid_frame"),
            (r#"{"type":"tool.result","call_id":"a","result":{}}"#, "invalid_frame"),
            (r#"{"type":"session.update"}"#, "invalid_request"),
            (r#"{"type":"stop"}"#, "unknown_frame"),
        ] {
            assert_eq!(ClientFrame::parse(text).map_err(|fault| fault.code), Err(code), "{text}");
        }
        assert_eq!(ClientFrame::parse(r#"{"type":"session.end","x":1}"#), Ok(ClientFrame::End));
    }
}
