//! Turns the tokens of a turn into partial, final and formatted captions.

use serde::Serialize;

use crate::decoding::Token;
use crate::models::emission_delay::EmissionDelay;
use crate::models::fastconformer::FastConformer;
use crate::pipeline::executors::live::{OtherTokens, StepOutput};
use crate::text::itn;
use crate::text::{Alternative, Word};

/// Text of a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Caption {
    /// Text of the turn so far, or of the whole turn.
    pub text: String,
    /// Words of the text; times count from the first sample of the session.
    pub words: Vec<Word>,
    /// Other texts that the turn may have, unformatted, the likeliest first: see
    /// [`ListenOptions::alternatives`](crate::ListenOptions::alternatives).
    #[serde(skip)]
    pub alternatives: Vec<Alternative>,
}

/// An event of a live session.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveEvent {
    /// The turn so far. Replaces the partial before it.
    Partial(Caption),
    /// The complete turn, as the model wrote it.
    Final(Caption),
    /// The turn of the last final, formatted: numbers in digits, a capital at the start, a full stop at the end.
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

/// Change of an alternative's gap that is told, nats.
const TOLD_GAP: f32 = 0.25;

/// The current turn.
#[derive(Default)]
pub struct Turns {
    tokens: Vec<Token>,
    /// Open tokens, which may still change.
    open: Vec<Token>,
    /// Other open tokens that are nearly as likely.
    others: Vec<OtherTokens>,
    /// Text of the last partial.
    shown: String,
    /// Alternatives of the last partial.
    alternatives: Vec<Alternative>,
    /// Language of the speech, if it is known.
    language: Option<String>,
    emission_delay: EmissionDelay,
}

impl Turns {
    /// No turn yet; `language` is the requested language, if any.
    pub fn new(language: Option<String>, emission_delay: EmissionDelay) -> Self {
        Self { language, emission_delay, ..Self::default() }
    }

    /// Takes the output of a step; returns the events that follow from it.
    pub fn take(&mut self, output: StepOutput, model: &FastConformer) -> Vec<LiveEvent> {
        // They count from the tokens before this step.
        let open = |other: &OtherTokens| {
            let skipped = output.tokens.len().min(other.tokens.len());
            OtherTokens { tokens: other.tokens[skipped..].to_vec(), gap: other.gap }
        };
        let others: Vec<OtherTokens> = output.alternatives.iter().map(open).collect();
        let others_changed = output.open.is_some() && others != self.others;
        if others_changed {
            self.others = others;
        }
        let new_open = output.open.filter(|open| *open != self.open);
        let changed = !output.tokens.is_empty() || new_open.is_some() || others_changed;
        let others = if changed || output.ended { output.alternatives.as_slice() } else { &[] };
        let texts = self.texts(others, model);
        self.tokens.extend(output.tokens);
        self.open = new_open.unwrap_or(std::mem::take(&mut self.open));
        let mut events = Vec::new();
        if changed || output.ended {
            // The last frame may reach past the last sample.
            let mut caption = self.caption(output.turn_ms, output.until_ms.saturating_sub(output.turn_ms), model);
            let alternatives = alternatives(texts, &caption.text);
            caption.alternatives.clone_from(&alternatives);
            if output.ended && !caption.text.is_empty() {
                let (words, text) = itn::format(&caption.words, self.language.as_deref().unwrap_or("en"));
                events.push(LiveEvent::Final(caption));
                events.push(LiveEvent::Formatted(Caption { text, words, alternatives }));
            } else if caption.text != self.shown || !are_alike(&self.alternatives, &alternatives) {
                // An empty partial too: it takes back a text that gets no final.
                self.shown.clone_from(&caption.text);
                self.alternatives = alternatives;
                events.push(LiveEvent::Partial(caption));
            }
        }
        if output.ended {
            self.tokens.clear();
            self.open.clear();
            self.others.clear();
            self.shown.clear();
            self.alternatives.clear();
        }
        events
    }

    /// Texts of the turn with other last tokens.
    fn texts(&self, others: &[OtherTokens], model: &FastConformer) -> Vec<Alternative> {
        let text = |other: &OtherTokens| {
            let tokens = [self.tokens.as_slice(), &other.tokens].concat();
            let text = model.vocabulary().words(&tokens, model.frame_ms(), 0).text;
            Alternative { text, gap: other.gap }
        };
        others.iter().map(text).collect()
    }

    /// Caption of the turn, which begins at `turn_ms` and is `length_ms` long.
    fn caption(&mut self, turn_ms: u64, length_ms: u64, model: &FastConformer) -> Caption {
        let tokens = [self.tokens.as_slice(), &self.open].concat();
        let spoken = model.vocabulary().words(&tokens, model.frame_ms(), length_ms);
        self.language = spoken.language.or(self.language.take());
        let mut caption = Caption { text: spoken.text, words: spoken.words, alternatives: Vec::new() };
        self.emission_delay.correct(&mut caption.words);
        for word in &mut caption.words {
            word.start += turn_ms;
            word.end += turn_ms;
        }
        caption
    }
}

/// The texts beside `likeliest`, each once: the search has several ways to a text, whose probabilities add up.
fn alternatives(texts: Vec<Alternative>, likeliest: &str) -> Vec<Alternative> {
    let (mut own, mut others) = (1.0, Vec::<(String, f32)>::new());
    for Alternative { text, gap } in texts {
        let share = (-gap).exp();
        match others.iter_mut().find(|(other, _)| *other == text) {
            _ if text == likeliest => own += share,
            Some((_, known)) => *known += share,
            None => others.push((text, share)),
        }
    }
    others.into_iter().map(|(text, share): (String, f32)| Alternative { text, gap: (own / share).ln() }).collect()
}

/// True if both have the same texts with nearly the same gaps.
fn are_alike(a: &[Alternative], b: &[Alternative]) -> bool {
    let alike = |(a, b): (&Alternative, &Alternative)| a.text == b.text && (a.gap - b.gap).abs() <= TOLD_GAP;
    a.len() == b.len() && a.iter().zip(b).all(alike)
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
        let mut turns = Turns::new(None, EmissionDelay::default());
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

    #[test]
    fn alternatives_are_told_when_they_change() {
        let starter = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../models/starter/asr-en");
        let model = FastConformer::load(&starter, &Device::flex()).unwrap();
        let mut turns = Turns::new(None, EmissionDelay::default());
        let word = |text: &&str| {
            let id = model.vocabulary().texts().position(|token| token == format!("\u{2581}{text}")).unwrap();
            Token { id: id as u32, frame: 1, span: 1, confidence: 0.5 }
        };
        // Alternatives of a step stand behind the tokens that it emits.
        let mut take = |tokens: &[&str], open: Option<&[&str]>, others: &[(&[&str], f32)]| -> Vec<Vec<String>> {
            let words = |texts: &[&str]| texts.iter().map(word).collect::<Vec<Token>>();
            let output = StepOutput {
                tokens: words(tokens),
                open: open.map(words),
                alternatives: others
                    .iter()
                    .map(|(other, gap)| OtherTokens { tokens: words(other), gap: *gap })
                    .collect(),
                until_ms: 1_000,
                ..StepOutput::default()
            };
            let told = turns.take(output, &model).into_iter().map(|event| match event {
                LiveEvent::Partial(caption) => caption.alternatives.into_iter().map(|other| other.text).collect(),
                other => panic!("{other:?}"),
            });
            told.collect()
        };
        let none: [Vec<String>; 0] = [];
        assert_eq!(take(&[], Some(&["the"]), &[(&["a"], 0.5)]), [["a"]]);
        assert_eq!(take(&[], Some(&["the"]), &[(&["a"], 0.7)]), none, "it is nearly as likely as before");
        assert_eq!(take(&[], Some(&["the"]), &[(&["a"], 1.0)]), [["a"]], "it is less likely");
        assert_eq!(
            take(&[], Some(&["the"]), &[(&["of"], 0.1), (&["a"], 1.0)]),
            [["of", "a"]],
            "the likeliest text is the same"
        );
        assert_eq!(take(&[], None, &[]), none, "nobody looked");
        assert_eq!(take(&["the"], Some(&["a"]), &[(&["the", "of"], 0.1)]), [["the of"]]);
        assert_eq!(take(&[], Some(&["a"]), &[(&["of"], 0.1)]), none);
        assert_eq!(take(&[], Some(&["a"]), &[]), [[""; 0]]);
    }

    #[test]
    fn the_probabilities_of_one_text_add_up() {
        let texts = [("wait", 0.5), ("when", 1.0), ("wait", 0.5), ("one", 0.0)];
        let found = alternatives(texts.map(|(text, gap)| Alternative { text: text.to_owned(), gap }).into(), "one");
        let texts: Vec<&str> = found.iter().map(|other| other.text.as_str()).collect();
        assert_eq!(texts, ["wait", "when"]);
        // Both texts are told against the two ways to the likeliest one.
        let expected = [0.5, 1.0 + 2_f32.ln()];
        assert!(found.iter().zip(expected).all(|(other, gap)| (other.gap - gap).abs() < 1e-6), "{found:?}");
    }
}
