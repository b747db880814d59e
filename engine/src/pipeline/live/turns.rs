//! Turns the tokens of a turn into partial, final and formatted captions.

use serde::Serialize;

use crate::decoding::Token;
use crate::language::ENGLISH;
use crate::models::emission_delay::EmissionDelay;
use crate::models::fastconformer::FastConformer;
use crate::options::ListenOptions;
use crate::pipeline::executors::live::StepOutput;
use crate::text::{Word, itn};

/// Text of a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Caption {
    /// Text of the turn so far, or of the whole turn.
    pub text: String,
    /// Words of the text; times count from the first sample of the session.
    pub words: Vec<Word>,
}

/// An event of a live session.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveEvent {
    /// The turn so far. Replaces the partial before it.
    Partial(Caption),
    /// The complete turn, as the model wrote it.
    Final(Caption),
    /// The turn of the last final, formatted: a capital at the start, a full stop at the end, and numbers in digits unless
    /// [`format_numbers`](crate::ListenOptions#structfield.format_numbers) is false.
    Formatted(Caption),
}

/// An event of a live session, or a mark between events.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveOutput {
    /// An event.
    Event(LiveEvent),
    /// The answer to [`LiveInput::end_turn`](crate::LiveInput::end_turn): the events of everything that was pushed before it are out.
    Settled,
    /// The answer to [`LiveInput::judge_turn`](crate::LiveInput::judge_turn): the probability, 0 to 1, that the speaker has finished.
    Judged(f32),
}

/// The current turn.
#[derive(Default)]
pub struct Turns {
    tokens: Vec<Token>,
    /// Open tokens, which may still change.
    open: Vec<Token>,
    /// Text of the last partial.
    shown: String,
    /// Language of the speech, if it is known.
    language: Option<String>,
    emission_delay: EmissionDelay,
    format_numbers: bool,
}

impl Turns {
    /// No turn yet; `language` is the requested language, if any.
    pub fn new(language: Option<String>, emission_delay: EmissionDelay, options: &ListenOptions) -> Self {
        Self { language, emission_delay, format_numbers: options.format_numbers, ..Self::default() }
    }

    /// Takes the output of a step; returns the events that follow from it.
    pub fn take(&mut self, output: StepOutput, model: &FastConformer) -> Vec<LiveEvent> {
        let new_open = output.open.filter(|open| *open != self.open);
        let changed = !output.tokens.is_empty() || new_open.is_some();
        self.tokens.extend(output.tokens);
        self.open = new_open.unwrap_or(std::mem::take(&mut self.open));
        let mut events = Vec::new();
        if changed || output.ended {
            // The last frame may reach past the last sample.
            let caption = self.caption(output.turn_ms, output.until_ms.saturating_sub(output.turn_ms), model);
            if output.ended && !caption.text.is_empty() {
                let language = self.language.as_deref().unwrap_or(ENGLISH);
                let (words, text) = itn::format(caption.words.clone(), self.format_numbers.then_some(language));
                events.push(LiveEvent::Final(caption));
                events.push(LiveEvent::Formatted(Caption { text, words }));
            } else if caption.text != self.shown {
                // An empty partial too: it takes back a text that gets no final.
                self.shown.clone_from(&caption.text);
                events.push(LiveEvent::Partial(caption));
            }
        }
        if output.ended {
            self.tokens.clear();
            self.open.clear();
            self.shown.clear();
        }
        events
    }

    /// Caption of the turn, which begins at `turn_ms` and is `length_ms` long.
    fn caption(&mut self, turn_ms: u64, length_ms: u64, model: &FastConformer) -> Caption {
        let tokens = [self.tokens.as_slice(), &self.open].concat();
        let spoken = model.vocabulary().words(&tokens, model.frame_ms(), length_ms);
        self.language = spoken.language.or(self.language.take());
        let mut caption = Caption { text: spoken.text, words: spoken.words };
        self.emission_delay.correct(&mut caption.words);
        model.calibration().apply(&mut caption.words);
        for word in &mut caption.words {
            word.start += turn_ms;
            word.end += turn_ms;
        }
        caption
    }
}

#[cfg(test)]
mod tests {

    use burn::tensor::Device;
    use std::env;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn open_tokens_are_shown_until_they_change() {
        let starter = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../models/starter/asr-en");
        let model = FastConformer::load(&starter, &Device::flex()).unwrap();
        let mut turns = Turns::new(None, EmissionDelay::default(), &ListenOptions::default());
        let word = |text: &str| {
            let id = model.vocabulary().texts().position(|token| token == format!("\u{2581}{text}")).unwrap();
            Token { id: id as u32, frame: 1, span: 1, confidence: 0.5 }
        };
        let mut take = |tokens: &[&str], open: Option<&[&str]>, ended: bool| -> Vec<(char, String)> {
            let tokens = tokens.iter().map(|text| word(text)).collect();
            let open = open.map(|open| open.iter().map(|text| word(text)).collect());
            let output = StepOutput { tokens, open, ended, until_ms: 1_000, ..StepOutput::default() };
            let shown = turns.take(output, &model).into_iter().map(|event| match event {
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
