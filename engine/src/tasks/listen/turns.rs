//! A turn's tokens become what is shown of it.

use serde::Serialize;

use super::slot::Heard;
use crate::Word;
use crate::models::fastconformer::{FastConformer, Token};
use crate::text::format;

/// What is shown of a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Caption {
    /// The turn so far, or the whole turn.
    pub text: String,
    /// Its words; times count from the first sample of the session.
    pub words: Vec<Word>,
}

/// What happens in a session.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveEvent {
    /// The turn so far. It replaces the partial before it.
    Partial(Caption),
    /// The turn is complete, as the model wrote it.
    Final(Caption),
    /// The turn just completed, as it is written: numbers in digits, a capital first, an end to the sentence.
    Formatted(Caption),
}

/// The turn that goes on.
#[derive(Default)]
pub struct Turns {
    tokens: Vec<Token>,
    /// What the last partial said.
    shown: String,
    /// The language that is spoken, where it is known.
    language: Option<String>,
}

impl Turns {
    /// Before the first turn; the language, if it was given.
    pub fn new(language: Option<String>) -> Self {
        Self { language, ..Self::default() }
    }

    /// Takes what was heard; gives what there is to show.
    pub fn take(&mut self, heard: Heard, model: &FastConformer) -> Vec<LiveEvent> {
        let more = !heard.tokens.is_empty();
        self.tokens.extend(heard.tokens);
        let mut events = Vec::new();
        if !self.tokens.is_empty() && (more || heard.ended) {
            // The last frame may reach past the last sample.
            let end_ms = heard.until_ms.saturating_sub(heard.turn_ms);
            let spoken = model.vocabulary().words(&self.tokens, model.frame_ms(), end_ms);
            self.language = spoken.language.or(self.language.take());
            let mut caption = Caption { text: spoken.text, words: spoken.words };
            for word in &mut caption.words {
                word.start += heard.turn_ms;
                word.end += heard.turn_ms;
            }
            if heard.ended && !caption.text.is_empty() {
                let (words, text) = format::written(&caption.words, self.language.as_deref().unwrap_or("en"));
                events.push(LiveEvent::Final(caption));
                events.push(LiveEvent::Formatted(Caption { text, words }));
            } else if !heard.ended && caption.text != self.shown {
                self.shown.clone_from(&caption.text);
                events.push(LiveEvent::Partial(caption));
            }
        }
        if heard.ended {
            self.tokens.clear();
            self.shown.clear();
        }
        events
    }
}
