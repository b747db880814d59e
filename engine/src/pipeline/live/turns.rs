//! A turn's tokens become what is shown of it.

use serde::Serialize;

use super::slot::StepOutput;
use crate::decoding::Token;
use crate::models::fastconformer::FastConformer;
use crate::text::Word;
use crate::text::itn;

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
    /// Those that follow as it looks now.
    open: Vec<Token>,
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
    pub fn take(&mut self, heard: StepOutput, model: &FastConformer) -> Vec<LiveEvent> {
        let reopened = heard.open.filter(|open| *open != self.open);
        let changed = !heard.tokens.is_empty() || reopened.is_some();
        self.tokens.extend(heard.tokens);
        self.open = reopened.unwrap_or(std::mem::take(&mut self.open));
        let mut events = Vec::new();
        if changed || heard.ended {
            // The last frame may reach past the last sample.
            let caption = self.caption(heard.turn_ms, heard.until_ms.saturating_sub(heard.turn_ms), model);
            if heard.ended && !caption.text.is_empty() {
                let (words, text) = itn::written(&caption.words, self.language.as_deref().unwrap_or("en"));
                events.push(LiveEvent::Final(caption));
                events.push(LiveEvent::Formatted(Caption { text, words }));
            } else if caption.text != self.shown {
                // Also where nothing is left of what was shown: there is no final to replace it.
                self.shown.clone_from(&caption.text);
                events.push(LiveEvent::Partial(caption));
            }
        }
        if heard.ended {
            self.tokens.clear();
            self.open.clear();
            self.shown.clear();
        }
        events
    }

    /// The turn as it looks, which begins at `turn_ms` and is `length_ms` long.
    fn caption(&mut self, turn_ms: u64, length_ms: u64, model: &FastConformer) -> Caption {
        let tokens = [self.tokens.as_slice(), &self.open].concat();
        let spoken = model.vocabulary().words(&tokens, model.frame_ms(), length_ms);
        self.language = spoken.language.or(self.language.take());
        let mut caption = Caption { text: spoken.text, words: spoken.words };
        for word in &mut caption.words {
            word.start += turn_ms;
            word.end += turn_ms;
        }
        caption
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use burn::tensor::Device;

    use super::*;

    #[test]
    fn what_is_open_is_shown_until_it_is_taken_back() {
        let starter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/starter/asr-en");
        let model = FastConformer::load(&starter, &Device::flex()).unwrap();
        let mut turns = Turns::new(None);
        let word = |text: &str| {
            let id = model.vocabulary().texts().position(|token| token == format!("\u{2581}{text}")).unwrap();
            Token { id: id as u32, frame: 1, span: 1, confidence: 0.5 }
        };
        let mut take = |tokens: &[&str], open: Option<&[&str]>, ended: bool| -> Vec<(char, String)> {
            let tokens = tokens.iter().map(|text| word(text)).collect();
            let open = open.map(|open| open.iter().map(|text| word(text)).collect());
            let heard = StepOutput { tokens, open, ended, until_ms: 1_000, ..StepOutput::default() };
            let shown = turns.take(heard, &model).into_iter().map(|event| match event {
                LiveEvent::Partial(caption) => ('p', caption.text),
                LiveEvent::Final(caption) => ('f', caption.text),
                LiveEvent::Formatted(caption) => ('w', caption.text),
            });
            shown.collect()
        };
        let partial = |text: &str| vec![('p', text.to_owned())];
        assert_eq!(take(&[], Some(&["the"]), false), partial("the"));
        assert_eq!(take(&[], Some(&["the"]), false), []);
        assert_eq!(take(&[], None, false), [], "nobody looked");
        assert_eq!(take(&[], Some(&["a", "and"]), false), partial("a and"));
        assert_eq!(take(&["a"], Some(&["of"]), false), partial("a of"));
        assert_eq!(take(&["of"], Some(&[]), true), [('f', "a of".into()), ('w', "A of.".into())]);
        assert_eq!(take(&[], Some(&["the"]), false), partial("the"));
        assert_eq!(take(&[], Some(&[]), true), partial(""), "it was nothing, and no final will replace it");
        assert_eq!(take(&[], Some(&[]), true), []);
    }
}
