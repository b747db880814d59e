//! The words of a text as far as they may be in a name.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use super::super::Source;
use super::super::lists::{Lists, PhraseKind};
use super::super::numbers::small_number;
use super::super::reading::Reading;
use crate::text::word_list::words;

/// Small words within names.
pub(super) const PARTICLES: &[&str] = words!(
    "de van von der den bin al el la del los della dal dalla degli dei delle da do dos das di ibn ben bint st o mac mc \
     ten ter te le les du des abu binti zu zum zur vom op ni nic av af"
);

/// Words that are in no name.
const STOPS: &str = include_str!("../lists/name-stops.txt");

static STOP_WORDS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| STOPS.split_whitespace().collect());

/// True for a word that is in no name.
pub fn is_stop(word: &str) -> bool {
    STOP_WORDS.contains(word)
}

/// The words of a text and what the lists say of them.
pub(super) struct Names<'r, 'a> {
    pub(super) reading: &'r Reading<'a>,
    pub(super) lists: &'static Lists,
}

/// The words of a name, the confidence, the way in which it was found.
pub(super) type Hit = (Range<usize>, f32, Source);

impl Names<'_, '_> {
    pub(super) fn is_stop(&self, at: usize) -> bool {
        is_stop(self.reading.lower(at))
    }

    /// A word of letters that could be a name.
    pub(super) fn is_wordlike(&self, at: usize) -> bool {
        self.reading.tokens.get(at).is_some_and(|token| {
            !token.masked
                && token.lower.chars().all(|letter| letter.is_alphabetic() || matches!(letter, '\'' | '-' | '.'))
                && token.lower.chars().next().is_some_and(char::is_alphabetic)
                && token.lower.len() > 1
                && !["n't", "'ll", "'ve", "'re", "'d"].iter().any(|ending| token.lower.ends_with(ending))
                // Short words in capitals are abbreviations.
                && (token.lower.len() > 5 || !self.reading.cased || token.core().chars().any(|letter| !letter.is_uppercase()))
                && small_number(&token.lower).is_none()
        })
    }

    /// A term or a country begins here, with a capital of its own.
    pub(super) fn is_other_phrase(&self, at: usize) -> bool {
        self.lists.phrases(self.reading.lower(at)).iter().any(|phrase| {
            let whole =
                phrase.rest.iter().enumerate().all(|(offset, word)| self.reading.lower(at + 1 + offset) == *word);
            whole && (!phrase.rest.is_empty() || !matches!(phrase.kind, PhraseKind::Place))
        })
    }
}
