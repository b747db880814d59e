//! Frames of the realtime protocol. `auricle listen` prints transcript frames as well.

use auricle_engine::{LiveEvent, Word};
use serde::Serialize;
use serde_json::Value;

/// A frame from the service.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ServerFrame<'a> {
    /// The session has started.
    Ready,
    Transcript(TranscriptFrame<'a>),
    /// The client must open another session.
    Reconnect {
        message: &'a str,
    },
    Error {
        message: &'a str,
    },
    /// All results have been sent.
    Done,
}

impl ServerFrame<'_> {
    /// The frame as JSON.
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

/// A frame from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientFrame {
    /// Ends the session after the remaining results.
    Stop,
}

impl ClientFrame {
    /// Parses a frame. None for an unknown frame, which is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let value = serde_json::from_str::<Value>(text).ok()?;
        (value["type"] == "stop").then_some(Self::Stop)
    }
}

/// The state of a turn.
#[derive(Serialize)]
pub struct TranscriptFrame<'a> {
    text: &'a str,
    end_of_turn: bool,
    formatted: bool,
    words: &'a [Word],
}

impl<'a> From<&'a LiveEvent> for TranscriptFrame<'a> {
    fn from(event: &'a LiveEvent) -> Self {
        let (caption, end_of_turn, formatted) = match event {
            LiveEvent::Partial(caption) => (caption, false, false),
            LiveEvent::Final(caption) => (caption, true, false),
            LiveEvent::Formatted(caption) => (caption, true, true),
        };
        Self { text: &caption.text, end_of_turn, formatted, words: &caption.words }
    }
}

fn to_json(frame: &impl Serialize) -> String {
    // Serialising strings and numbers does not fail.
    serde_json::to_string(frame).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use auricle_engine::Caption;

    use super::*;

    #[test]
    fn confidences_keep_their_digits() {
        let word = Word {
            text: "so".into(),
            start: 0,
            end: 80,
            confidence: 0.9,
            speaker: None,
            speaker_name: None,
            channel: None,
        };
        let event = LiveEvent::Final(Caption { text: "so".into(), words: vec![word] });
        let line = r#"{"text":"so","end_of_turn":true,"formatted":false,"words":[{"text":"so","start":0,"end":80,"confidence":0.9}]}"#;
        assert_eq!(to_json(&TranscriptFrame::from(&event)), line);
        let message = ServerFrame::Transcript(TranscriptFrame::from(&event)).to_json();
        assert_eq!(message, line.replacen('{', r#"{"type":"transcript","#, 1));
    }

    #[test]
    fn frames_name_their_type() {
        assert_eq!(ServerFrame::Ready.to_json(), r#"{"type":"ready"}"#);
        assert_eq!(ServerFrame::Error { message: "no" }.to_json(), r#"{"type":"error","message":"no"}"#);
        assert_eq!(ServerFrame::Reconnect { message: "x" }.to_json(), r#"{"type":"reconnect","message":"x"}"#);
        assert_eq!(ServerFrame::Done.to_json(), r#"{"type":"done"}"#);
    }

    #[test]
    fn only_stop_is_stop() {
        for stop in [r#"{"type":"stop"}"#, r#" {"type": "stop", "x": 1} "#] {
            assert_eq!(ClientFrame::parse(stop), Some(ClientFrame::Stop));
        }
        for other in ["stop", "", "{", r#"{"type":"go"}"#, r#"["stop"]"#, r#"{"kind":"stop"}"#, "null", "1"] {
            assert_eq!(ClientFrame::parse(other), None, "{other}");
        }
    }
}
