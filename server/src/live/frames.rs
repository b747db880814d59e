//! What is told of a turn, to sockets and on the command line.

use auricle_engine::{LiveEvent, Word};
use serde::Serialize;

/// A `transcript` frame but for its type.
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

impl TranscriptFrame<'_> {
    /// As one line of JSON.
    pub fn line(&self) -> String {
        written(self)
    }

    /// As a frame of the protocol.
    pub fn message(&self) -> String {
        #[derive(Serialize)]
        struct Message<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            #[serde(flatten)]
            turn: &'a TranscriptFrame<'a>,
        }
        written(&Message { kind: "transcript", turn: self })
    }
}

fn written(frame: &impl Serialize) -> String {
    // Texts and numbers can always be written.
    serde_json::to_string(frame).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use auricle_engine::Caption;

    use super::*;

    #[test]
    fn confidences_have_the_digits_that_they_were_given() {
        let word = Word { text: "so".into(), start: 0, end: 80, confidence: 0.9 };
        let event = LiveEvent::Final(Caption { text: "so".into(), words: vec![word] });
        let line = r#"{"text":"so","end_of_turn":true,"formatted":false,"words":[{"text":"so","start":0,"end":80,"confidence":0.9}]}"#;
        assert_eq!(TranscriptFrame::from(&event).line(), line);
        let message = TranscriptFrame::from(&event).message();
        assert_eq!(message, line.replacen('{', r#"{"type":"transcript","#, 1));
    }
}
