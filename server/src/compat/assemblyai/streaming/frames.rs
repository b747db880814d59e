//! The frames of a session.

use auricle_engine::{Caption, Word};
use serde::Serialize;
use serde_json::Value;

/// Codes of errors, and of the closes that follow them.
pub mod code {
    pub const UNAVAILABLE: u16 = 1013;
    pub const SERVER: u16 = 3005;
    pub const INPUT: u16 = 3006;
    pub const EXPIRED: u16 = 3008;
    pub const TOO_MANY: u16 = 3009;
    pub const NOT_AUTHORIZED: u16 = 4001;
    pub const NO_CREDIT: u16 = 4002;
    pub const IDLE: u16 = 4031;

    /// The reason of a close with a code.
    pub fn reason(code: u16) -> &'static str {
        match code {
            UNAVAILABLE => "The service is not available.",
            INPUT => "Input validation error",
            EXPIRED => "Session expired: maximum session duration exceeded",
            TOO_MANY => "Too many concurrent sessions",
            NOT_AUTHORIZED => "Not authorized",
            IDLE => "Session idle for too long",
            _ => "Server error",
        }
    }
}

/// A frame from the service.
#[derive(Serialize)]
#[serde(tag = "type")]
pub enum ServerFrame<'a> {
    Begin {
        id: &'a str,
        /// s since 1970
        expires_at: i64,
    },
    SpeechStarted {
        /// ms from the start of the audio
        timestamp: u64,
        confidence: f32,
    },
    Turn(Turn<'a>),
    Termination {
        audio_duration_seconds: u64,
        session_duration_seconds: u64,
    },
    Error {
        error_code: u16,
        error: &'a str,
    },
}

impl ServerFrame<'_> {
    pub fn to_json(&self) -> String {
        // Serialising strings and numbers does not fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The state of a turn.
#[derive(Serialize)]
pub struct Turn<'a> {
    turn_order: u64,
    turn_is_formatted: bool,
    end_of_turn: bool,
    transcript: &'a str,
    /// The text at the end of the turn; empty before.
    utterance: &'a str,
    end_of_turn_confidence: f32,
    words: Vec<TurnWord<'a>>,
}

#[derive(Serialize)]
struct TurnWord<'a> {
    text: &'a str,
    start: u64,
    end: u64,
    confidence: f32,
    word_is_final: bool,
}

/// The state of a turn's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Every word may change.
    Partial,
    Final,
    Formatted,
}

impl<'a> Turn<'a> {
    /// A turn whose words' times count from `from_ms`.
    pub fn new(caption: &'a Caption, stage: Stage, turn_order: u64, confidence: f32, from_ms: u64) -> Self {
        let is_final = stage != Stage::Partial;
        let word = |word: &'a Word| TurnWord {
            text: &word.text,
            start: from_ms + word.start,
            end: from_ms + word.end,
            confidence: word.confidence,
            word_is_final: is_final,
        };
        Self {
            turn_order,
            turn_is_formatted: stage == Stage::Formatted,
            end_of_turn: is_final,
            transcript: &caption.text,
            utterance: if is_final { &caption.text } else { "" },
            end_of_turn_confidence: confidence,
            words: caption.words.iter().map(word).collect(),
        }
    }
}

/// A frame from the client.
#[derive(Debug, PartialEq)]
pub enum ClientFrame {
    UpdateConfiguration(Value),
    ForceEndpoint,
    KeepAlive,
    Terminate,
}

impl ClientFrame {
    /// # Errors
    /// A reason, for a frame that is not well formed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut value: Value = serde_json::from_str(text)
            .map_err(|error| format!("A text frame must be JSON, and audio is sent in binary frames: {error}."))?;
        let kind = value.as_object_mut().and_then(|fields| fields.remove("type")).unwrap_or_default();
        match kind.as_str() {
            Some("UpdateConfiguration") => Ok(Self::UpdateConfiguration(value)),
            Some("ForceEndpoint") => Ok(Self::ForceEndpoint),
            Some("KeepAlive") => Ok(Self::KeepAlive),
            Some("Terminate") => Ok(Self::Terminate),
            _ => Err("`type` must be UpdateConfiguration, ForceEndpoint, KeepAlive or Terminate.".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_clients_are_parsed() {
        assert_eq!(ClientFrame::parse(r#"{"type":"Terminate"}"#), Ok(ClientFrame::Terminate));
        let update = r#"{"type":"UpdateConfiguration","format_turns":true}"#;
        let left = serde_json::json!({ "format_turns": true });
        assert_eq!(ClientFrame::parse(update), Ok(ClientFrame::UpdateConfiguration(left)));
        for wrong in ["", "hello", "[]", "{}", r#"{"type":"terminate"}"#, r#"{"type":1}"#, "\"Terminate\""] {
            ClientFrame::parse(wrong).unwrap_err();
        }
    }
}
