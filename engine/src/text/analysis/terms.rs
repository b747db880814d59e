//! Sentences as terms: the stems of words that have a topic.

use std::collections::HashMap;

use rust_stemmers::{Algorithm, Stemmer};

use super::stop_words::stop_words;
use crate::language::primary_subtag;
use crate::text::segments::Segment;
use crate::text::sentence_boundaries::is_unspaced_script;

/// In a language without a list of stop words, terms in more than this share of sentences have no topic.
const COMMON: f64 = 0.1;

/// A document with fewer sentences is too short to tell which terms are common.
const SENTENCES_FOR_COMMON: usize = 20;

/// A term within a sentence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Term {
    /// Number of its stem.
    pub(super) stem: u32,
    /// Its first word, from the sentence's first.
    pub(super) first: u32,
    /// Its last word: the first, but in scripts without spaces.
    pub(super) last: u32,
}

/// The terms of a document.
#[derive(Debug, Default)]
pub(super) struct Terms {
    /// Terms of each sentence, in order.
    pub(super) sentences: Vec<Vec<Term>>,
    /// Number of different stems.
    pub(super) stems: usize,
}

impl Terms {
    /// Terms of sentences in a language. In scripts without spaces they are pairs of characters.
    pub(super) fn new(sentences: &[Segment<'_>], language: &str) -> Self {
        let language = primary_subtag(language);
        let mut stems = Stems::new(&language);
        let sentences = sentences.iter().map(|sentence| stems.of_sentence(sentence)).collect();
        let mut terms = Self { sentences, stems: stems.numbers.len() };
        if stems.stop_words.is_empty() {
            terms.drop_common();
        }
        terms
    }

    /// Number of sentences with each stem.
    pub(super) fn sentence_frequencies(&self) -> Vec<u32> {
        let mut frequencies = vec![0; self.stems];
        let mut last = vec![usize::MAX; self.stems];
        for (at, sentence) in self.sentences.iter().enumerate() {
            for term in sentence {
                let stem = term.stem as usize;
                if last[stem] != at {
                    last[stem] = at;
                    frequencies[stem] += 1;
                }
            }
        }
        frequencies
    }

    fn drop_common(&mut self) {
        if self.sentences.len() < SENTENCES_FOR_COMMON {
            return;
        }
        let frequencies = self.sentence_frequencies();
        let limit = COMMON * self.sentences.len() as f64;
        for sentence in &mut self.sentences {
            sentence.retain(|term| f64::from(frequencies[term.stem as usize]) <= limit);
        }
    }
}

struct Stems {
    language: String,
    stemmer: Option<Stemmer>,
    stop_words: std::collections::HashSet<&'static str>,
    /// Number of the stem of each word, in lower case; none for a stop word.
    words: HashMap<String, Option<u32>>,
    numbers: HashMap<String, u32>,
}

impl Stems {
    fn new(language: &str) -> Self {
        Self {
            language: language.to_owned(),
            stemmer: algorithm(language).map(Stemmer::create),
            stop_words: stop_words(language),
            words: HashMap::new(),
            numbers: HashMap::new(),
        }
    }

    fn of_sentence(&mut self, sentence: &Segment<'_>) -> Vec<Term> {
        let mut terms = Vec::new();
        // The last character of a script without spaces, and its word.
        let mut before: Option<(char, u32)> = None;
        for (at, word) in (0..).zip(&*sentence.plain_words()) {
            if word.text.contains(is_unspaced_script) {
                for character in word.text.chars() {
                    if !character.is_alphanumeric() {
                        before = None;
                        continue;
                    }
                    if let Some((last, first)) = before {
                        let stem = self.number([last, character].iter().collect());
                        terms.push(Term { stem, first, last: at });
                    }
                    before = Some((character, at));
                }
            } else {
                before = None;
                if let Some(stem) = self.of_word(&word.text) {
                    terms.push(Term { stem, first: at, last: at });
                }
            }
        }
        terms
    }

    fn of_word(&mut self, text: &str) -> Option<u32> {
        // A masked word, "[PERSON_NAME]" or "s***", is no topic.
        if text.contains(['[', '*']) {
            return None;
        }
        let bare = text.trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase();
        if let Some(known) = self.words.get(&bare) {
            return *known;
        }
        let stem = self.stem(&bare).map(|stem| self.number(stem));
        self.words.insert(bare, stem);
        stem
    }

    fn stem(&self, bare: &str) -> Option<String> {
        let mut parts = bare.split('\'');
        // "the team's", but "l'equipe".
        let word = match self.language.as_str() {
            "fr" | "it" | "ca" => parts.next_back(),
            _ => parts.next(),
        }?;
        let is_word = word.chars().any(char::is_alphabetic) && word.chars().nth(2).is_some();
        (is_word && !self.stop_words.contains(bare) && !self.stop_words.contains(word))
            .then(|| self.stemmer.as_ref().map_or_else(|| word.to_owned(), |stemmer| stemmer.stem(word).into_owned()))
    }

    fn number(&mut self, stem: String) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(stem).or_insert(next)
    }
}

fn algorithm(language: &str) -> Option<Algorithm> {
    Some(match language {
        "ar" => Algorithm::Arabic,
        "da" => Algorithm::Danish,
        "de" => Algorithm::German,
        "el" => Algorithm::Greek,
        "en" => Algorithm::English,
        "es" => Algorithm::Spanish,
        "fi" => Algorithm::Finnish,
        "fr" => Algorithm::French,
        "hu" => Algorithm::Hungarian,
        "it" => Algorithm::Italian,
        "nl" => Algorithm::Dutch,
        "no" | "nb" | "nn" => Algorithm::Norwegian,
        "pt" => Algorithm::Portuguese,
        "ro" => Algorithm::Romanian,
        "ru" => Algorithm::Russian,
        "sv" => Algorithm::Swedish,
        "ta" => Algorithm::Tamil,
        "tr" => Algorithm::Turkish,
        _ => return None,
    })
}
