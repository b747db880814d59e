//! Shallow fusion: adds scores of a language model and of keyterms to a model's own scores in beam search.
//!
//! A language model scores words, a recogniser emits pieces of words. A word is therefore scored letter by letter: a
//! beginning has the summed unigram probability of all words that begin with it, and the end of the word adds the
//! difference to P(word | words before). Case and punctuation do not count. An unknown word costs `<unk>` and each of
//! its letters.

use std::sync::Arc;

use super::keyterms::{Bias, ExpectedTerms, Keyterms};
use crate::error::{Error, Result};
use crate::text::lm::{Context, LanguageModel, Lexicon, Place};
use crate::text::tokens::{Vocabulary, WORD_START};

/// Weights of the scores that fusion adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FusionWeights {
    /// Multiplies ln P of the language model.
    pub lm: f32,
    /// Added for every word: without it, fewer and longer words win.
    pub word: f32,
    /// Multiplies ln P of the transducer's internal language model, which is subtracted: it has learned from little
    /// text, and the external model is better. Not subtracted for punctuation.
    pub internal: f32,
    /// ln P of each letter of an unknown word.
    pub unknown_letter: f32,
}

impl FusionWeights {
    /// Weights in proportion to the language model's weight `lm`; 0 leaves a recogniser's own scores unchanged.
    pub fn new(lm: f32) -> Self {
        Self { lm, word: lm * 1.1, internal: lm * 0.6, unknown_letter: -3.0 }
    }

    /// Checks that the weights are in range.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a weight out of range.
    pub fn check(&self) -> Result<()> {
        let others = [self.word, self.internal, self.unknown_letter];
        if (0.0..=10.0).contains(&self.lm) && others.iter().all(|weight| weight.abs() <= 100.0) {
            Ok(())
        } else {
            Err(Error::InvalidOption("a language model's weight is from 0 to 10".into()))
        }
    }
}

impl Default for FusionWeights {
    /// Weights tuned for few errors and few lost words of the starter on speakers outside its training data.
    fn default() -> Self {
        Self::new(0.45)
    }
}

/// Default beam width with a language model.
pub const BEAM: usize = 16;

/// ln P of a keyterm's word, in place of that of `<unk>` and its letters.
const TERM: f32 = -7.0;

/// Scores that beam search adds to a model's scores.
pub struct Fusion {
    model: Arc<LanguageModel>,
    weights: FusionWeights,
    /// Normalised text of each token: lower-case letters and digits, a space at the boundary of a word.
    spellings: Vec<Box<[u8]>>,
    /// A flag for each token: true for punctuation alone.
    marks: Vec<bool>,
    keyterms: Option<Keyterms>,
    /// The words of the keyterms.
    terms: Lexicon,
}

/// State of a prefix's text on which further scores depend.
#[derive(Clone, Debug)]
pub struct FusionState {
    context: Context,
    /// The word that is being spelled.
    word: Option<Spelling>,
    bias: Bias,
    /// Hash of the text, independent of the tokens that spell it.
    text: u64,
}

/// A word without its end.
#[derive(Clone, Copy, Debug)]
struct Spelling {
    /// Its place in the language model's lexicon, while some word begins with its letters.
    known: Option<Place>,
    /// Its place in the lexicon of the keyterms' words.
    term: Option<Place>,
    letters: u16,
    /// An apostrophe that counts only if letters follow.
    apostrophe: bool,
    /// Its score so far, ln P.
    log_prob: f32,
}

impl Fusion {
    /// Fusion scores for the tokens of `vocabulary`.
    pub fn new(
        model: Arc<LanguageModel>,
        weights: FusionWeights,
        vocabulary: &Vocabulary,
        keyterms: Option<Keyterms>,
        terms: &ExpectedTerms<'_>,
    ) -> Self {
        let spelled: Vec<String> = terms.words().map(spelling).collect();
        let words = spelled.iter().flat_map(|term| term.split_whitespace());
        let terms = Lexicon::new(words.enumerate().map(|(id, word)| (word, id as u32, TERM)));
        let spellings = vocabulary.texts().map(|text| spelling(text).into_bytes().into()).collect();
        let mark = |text: &str| !text.trim_matches(WORD_START).is_empty() && !text.contains(char::is_alphanumeric);
        let marks = vocabulary.texts().map(mark).collect();
        Self { model, weights, spellings, marks, keyterms, terms }
    }

    /// Weights of its scores.
    pub fn weights(&self) -> &FusionWeights {
        &self.weights
    }

    /// The state before the first token.
    pub fn start(&self) -> FusionState {
        FusionState { context: self.model.ngram().start(), word: None, bias: Bias::default(), text: 0 }
    }

    /// Weight of the internal language model for a token; 0 for punctuation, which the external model does not score:
    /// subtracted, the internal score would favour the least likely marks.
    pub fn internal(&self, token: u32) -> f32 {
        if self.marks.get(token as usize) == Some(&true) { 0.0 } else { self.weights.internal }
    }

    /// Score that a token adds, and the state after it.
    pub fn score(&self, state: &FusionState, token: u32) -> (f32, FusionState) {
        let mut next = state.clone();
        let mut score = 0.0;
        for byte in self.spellings.get(token as usize).into_iter().flatten() {
            score += match byte {
                b' ' => self.end_word(&mut next),
                letter => self.letter(&mut next, *letter),
            };
        }
        if let Some(keyterms) = &self.keyterms {
            score += keyterms.score(&mut next.bias, token);
        }
        (score, next)
    }

    /// True if a token continues the last word of the text.
    pub fn continues_word(&self, state: &FusionState, token: u32) -> bool {
        state.word.is_some() && self.spellings.get(token as usize).is_some_and(|text| text.first() > Some(&b' '))
    }

    /// Score that the end of the text adds.
    pub fn end(&self, state: &FusionState) -> f32 {
        self.end_word(&mut state.clone())
    }

    fn letter(&self, state: &mut FusionState, letter: u8) -> f32 {
        let root = Some(self.model.lexicon().root());
        let begun =
            Spelling { known: root, term: Some(self.terms.root()), letters: 0, apostrophe: false, log_prob: 0.0 };
        if letter == b'\'' {
            // Before a word it is a quotation mark; after a word it is one too, or does not count in error rates.
            if let Some(word) = &mut state.word {
                word.apostrophe = true;
            }
            return 0.0;
        }
        let word = state.word.get_or_insert(begun);
        let spelled: &[u8] = if std::mem::take(&mut word.apostrophe) { &[b'\'', letter] } else { &[letter] };
        for byte in spelled {
            word.known = word.known.and_then(|place| self.model.lexicon().step(place, *byte));
            word.term = word.term.and_then(|place| self.terms.step(place, *byte));
            word.letters = word.letters.saturating_add(1);
            state.text = hash_byte(state.text, *byte);
        }
        let cost = self.cost(word, word.known.map(|place| self.model.lexicon().log_mass(place)));
        let change = cost - word.log_prob;
        word.log_prob = cost;
        self.weights.lm * change
    }

    fn end_word(&self, state: &mut FusionState) -> f32 {
        let Some(word) = state.word.take() else { return 0.0 };
        state.text = hash_byte(state.text, b' ');
        let id = word.known.and_then(|place| self.model.lexicon().word(place));
        let (score, context) = self.model.score(&state.context, id);
        state.context = context;
        let term = Spelling { term: word.term.filter(|place| self.terms.word(*place).is_some()), ..word };
        // The score of <unk> depends on the context; those of its letters do not.
        let cost = self.cost(&term, id.map(|_| score));
        self.weights.lm * (cost - word.log_prob) + self.weights.word
    }

    /// ln P of a word's letters so far: `known` if the language model has the word, else as a keyterm or letter by
    /// letter.
    fn cost(&self, word: &Spelling, known: Option<f32>) -> f32 {
        let unknown = || self.model.unknown() + self.weights.unknown_letter * f32::from(word.letters);
        let term = word.term.map(|_| TERM);
        known.into_iter().chain(term).reduce(f32::max).unwrap_or_else(unknown)
    }
}

impl FusionState {
    /// Hash of the text: equal texts have equal hashes.
    pub fn text(&self) -> u64 {
        self.text
    }
}

/// Adds a byte to the hash of a text.
fn hash_byte(text: u64, byte: u8) -> u64 {
    // FNV-1a, with the high half folded in so that short texts differ in all bits.
    let text = (text ^ u64::from(byte)).wrapping_add(0xcbf2_9ce4_8422_2325).wrapping_mul(0x0000_0100_0000_01b3);
    text ^ (text >> 29)
}

/// Normalised text of a token: letters, digits and apostrophes; a space for any other character.
fn spelling(text: &str) -> String {
    let mut spelled = String::new();
    for c in text.chars() {
        match c {
            '\'' | '\u{2019}' => spelled.push('\''),
            c if crate::text::tokens::is_unspaced(c) => spelled.extend([' ', c, ' ']),
            c if c.is_alphanumeric() => spelled.extend(c.to_lowercase()),
            _ => spelled.push(' '),
        }
    }
    spelled
}

#[cfg(test)]
mod tests {

    use super::*;
    use std::env;
    use std::path::PathBuf;

    #[test]
    fn the_internal_language_model_is_subtracted_for_letters_and_not_for_punctuation() {
        let repository = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("..");
        let vocabulary = Vocabulary::read(&repository.join("models/starter/asr-en"), 383).unwrap();
        let model = LanguageModel::open(&repository.join("tests/fixtures/lm/small.ngram")).unwrap();
        let fusion =
            Fusion::new(Arc::new(model), FusionWeights::new(0.5), &vocabulary, None, &ExpectedTerms::default());
        let of = |wanted: &str| {
            let token = vocabulary.texts().position(|text| text == wanted).unwrap() as u32;
            fusion.internal(token) / fusion.weights().internal
        };
        assert_eq!([",", ".", "?", "-", "'"].map(of), [0.0; 5]);
        assert_eq!(["\u{2581}the", "t", "A", "\u{2581}"].map(of), [1.0; 4]);
    }
}
