//! Language models: n-grams of words, read from ARPA text or from the compact form that ships with the starter.

mod arpa;
mod compact;
mod lexicon;
mod ngram;

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use crate::error::{Error, Result};
use crate::load_once::Loaded;

pub use lexicon::{Lexicon, Place};
pub use ngram::{Context, MAX_NGRAMS, MAX_ORDER, Ngram};

/// ln P of an unknown word in a model without `<unk>`.
const UNKNOWN: f32 = -16.0;

/// An n-gram model of words, and a trie of their spellings.
#[derive(Debug)]
pub struct LanguageModel {
    ngram: Ngram,
    lexicon: Lexicon,
    /// The word `<unk>`.
    unknown: Option<u32>,
    /// The word `</s>`.
    end: Option<u32>,
}

/// Contents of a file.
#[derive(Debug, Default)]
struct Parsed {
    /// Words by number.
    words: Vec<String>,
    ngram: Ngram,
}

impl Loaded for LanguageModel {}

impl LanguageModel {
    /// Reads a file: ARPA text or the compact form. Words lose their case.
    ///
    /// # Errors
    /// [`Error::LanguageModel`] when it cannot be read or is malformed, then with the line at fault.
    pub fn open(path: &Path) -> Result<Self> {
        let read = || {
            let mut input = BufReader::with_capacity(1 << 16, File::open(path).map_err(|e| e.to_string())?);
            let is_compact = input.fill_buf().map_err(|e| e.to_string())?.starts_with(compact::MAGIC);
            if is_compact { compact::read(input) } else { arpa::read(input) }
        };
        read().map(Self::new).map_err(|reason: String| Error::LanguageModel { path: path.into(), reason })
    }

    fn new(parsed: Parsed) -> Self {
        let Parsed { words, ngram } = parsed;
        let special = |name: &str| words.iter().position(|word| word == name).map(|at| at as u32);
        let spelled = words.iter().enumerate().filter(|(_, word)| !matches!(word.as_str(), "<s>" | "</s>" | "<unk>"));
        let lexicon = Lexicon::new(spelled.map(|(id, word)| (word.as_str(), id as u32, ngram.unigram(id as u32))));
        Self { unknown: special("<unk>"), end: special("</s>"), lexicon, ngram }
    }

    /// The n-grams.
    pub fn ngram(&self) -> &Ngram {
        &self.ngram
    }

    /// The words.
    pub fn lexicon(&self) -> &Lexicon {
        &self.lexicon
    }

    /// ln P(word | context) and the context after it; for an unknown word, those of `<unk>`.
    pub fn score(&self, context: &Context, word: Option<u32>) -> (f32, Context) {
        match word.or(self.unknown) {
            Some(word) => self.ngram.score(context, word),
            None => (UNKNOWN, self.ngram.empty()),
        }
    }

    /// ln P of an unknown word without context.
    pub fn unknown(&self) -> f32 {
        self.unknown.map_or(UNKNOWN, |unknown| self.ngram.unigram(unknown))
    }

    /// ln P(end of the text | context); 0 for a model without `</s>`.
    pub fn end(&self, context: &Context) -> f32 {
        self.end.map_or(0.0, |end| self.ngram.score(context, end).0)
    }

    /// ln P of every word of a text given the words before it, and of the end of the text, as other programs compute
    /// them from the file.
    pub fn scores(&self, text: &str) -> Vec<f32> {
        let mut context = self.ngram.start();
        let mut scores = Vec::new();
        for word in text.split_whitespace() {
            let (score, next) = self.score(&context, self.lexicon.find(&normalised(word)));
            scores.push(score);
            context = next;
        }
        scores.push(self.end(&context));
        scores
    }
}

/// The form in which models have a word: lower case, one kind of apostrophe.
fn normalised(word: &str) -> String {
    word.to_lowercase().replace('\u{2019}', "'")
}
