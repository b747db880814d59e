//! Words to phones.

use std::sync::{Arc, LazyLock};

use super::heteronyms;
use super::inflections::derived;
use super::lexicon::Lexicon;
use super::phone::{Phone, genitive, phones};
use super::{Clause, TokenKind};
use crate::error::Result;

/// Most letters of a word that the letters-to-phones model takes at once.
const MAX_LETTERS: usize = 40;

/// Letters to phones, for words outside the dictionary.
pub trait GraphemeToPhoneme: Send + Sync {
    /// The phones of words of the letters a to z, 1 to 40 each.
    ///
    /// # Errors
    /// If the model cannot be evaluated.
    fn pronounce(&self, words: &[&str]) -> Result<Vec<Vec<Phone>>>;
}

/// Phones of words: heteronyms, the dictionary with genitives, its words' other forms, then a model.
#[derive(Clone)]
pub struct Pronouncer {
    lexicon: &'static Lexicon,
    g2p: Option<Arc<dyn GraphemeToPhoneme>>,
}

impl Pronouncer {
    /// Without a model, words outside the dictionary are spelled.
    pub fn new(g2p: Option<Arc<dyn GraphemeToPhoneme>>) -> Self {
        Self { lexicon: Lexicon::cmudict(), g2p }
    }

    /// With another dictionary.
    #[must_use]
    pub fn lexicon(self, lexicon: &'static Lexicon) -> Self {
        Self { lexicon, ..self }
    }

    /// The phones of each token of a clause; none for a mark, whose symbol is its text.
    ///
    /// # Errors
    /// As [`GraphemeToPhoneme::pronounce`].
    pub fn phones(&self, clause: &Clause) -> Result<Vec<Vec<Phone>>> {
        let words: Vec<&str> = clause.tokens.iter().map(|token| token.text.as_str()).collect();
        let mut unknown = Vec::new();
        let mut found = Vec::with_capacity(words.len());
        for (at, token) in clause.tokens.iter().enumerate() {
            found.push(match token.kind {
                TokenKind::Mark => Vec::new(),
                TokenKind::Letter => spelled(&token.text),
                TokenKind::Word => {
                    let known = heteronyms::phones_at(&words, at).or_else(|| self.lexicon.phones(&token.text));
                    known.unwrap_or_else(|| {
                        unknown.push(at);
                        Vec::new()
                    })
                }
            });
        }
        let outside: Vec<&str> = unknown.iter().map(|at| words[*at]).collect();
        for (at, phones) in unknown.into_iter().zip(self.outside(&outside)?) {
            found[at] = phones;
        }
        Ok(found)
    }

    /// The phones of words in lower case that the dictionary does not have.
    ///
    /// # Errors
    /// As [`GraphemeToPhoneme::pronounce`].
    pub fn outside(&self, words: &[&str]) -> Result<Vec<Vec<Phone>>> {
        let derive = |word: &&str| prefixed(self.lexicon, word).or_else(|| derived(self.lexicon, word));
        let mut found: Vec<Option<Vec<Phone>>> = words.iter().map(derive).collect();
        let unknown = found.iter().zip(words).filter(|(phones, _)| phones.is_none());
        let stems: Vec<(String, usize)> = unknown.map(|(_, word)| stem(word)).collect();
        let parts: Vec<&str> = stems.iter().flat_map(|(stem, _)| parts(stem)).collect();
        let mut said = match &self.g2p {
            Some(g2p) if !parts.is_empty() => g2p.pronounce(&parts)?,
            _ => Vec::new(),
        }
        .into_iter();
        for (place, (stem, genitives)) in found.iter_mut().filter(|phones| phones.is_none()).zip(&stems) {
            let mut phones: Vec<Phone> = said.by_ref().take(parts_of(stem)).flatten().collect();
            if phones.is_empty() {
                phones = spelled(stem);
            }
            for _ in 0..*genitives {
                phones.extend(phones.last().copied().map(genitive).unwrap_or_default());
            }
            *place = Some(phones);
        }
        Ok(found.into_iter().flatten().collect())
    }
}

/// Prefixes of units and of new words.
const PREFIXES: [(&str, &str); 10] = [
    ("centi", "S EH1 N T AH0"),
    ("giga", "G IH1 G AH0"),
    ("hecto", "HH EH1 K T OW0"),
    ("kilo", "K IH1 L AH0"),
    ("mega", "M EH1 G AH0"),
    ("micro", "M AY1 K R OW0"),
    ("milli", "M IH1 L AH0"),
    ("nano", "N AE1 N OW0"),
    ("peta", "P EH1 T AH0"),
    ("tera", "T EH1 R AH0"),
];

/// The phones of a prefix and a known word: "kilohertz".
fn prefixed(lexicon: &Lexicon, word: &str) -> Option<Vec<Phone>> {
    PREFIXES.iter().find_map(|(prefix, said)| {
        let rest = word.strip_prefix(prefix).filter(|rest| rest.len() > 2)?;
        Some([phones(said), lexicon.phones(rest)?].concat())
    })
}

/// An unknown word without its genitive endings and apostrophes, and the number of those endings.
fn stem(word: &str) -> (String, usize) {
    let (mut stem, mut genitives) = (word, 0);
    while let Some(base) = stem.strip_suffix("'s") {
        stem = base;
        genitives += 1;
    }
    (stem.replace('\'', ""), genitives)
}

/// The parts of a word that the model takes one at a time.
fn parts(stem: &str) -> impl Iterator<Item = &str> {
    (0..stem.len()).step_by(MAX_LETTERS).filter_map(|first| stem.get(first..stem.len().min(first + MAX_LETTERS)))
}

fn parts_of(stem: &str) -> usize {
    stem.len().div_ceil(MAX_LETTERS)
}

/// The name of each letter.
static LETTERS: LazyLock<Vec<Vec<Phone>>> = LazyLock::new(|| {
    let name = |letter: u8| match letter {
        b'a' => phones("EY1"),
        letter => Lexicon::cmudict().entry(&char::from(letter).to_string()).unwrap_or_default(),
    };
    (b'a'..=b'z').map(name).collect()
});

/// The names of letters; a genitive's ending is added to the last.
fn spelled(word: &str) -> Vec<Phone> {
    let (letters, ending) = word.strip_suffix("'s").map_or((word, false), |letters| (letters, true));
    let names = letters.bytes().filter_map(|letter| LETTERS.get(usize::from(letter.checked_sub(b'a')?)));
    let mut said: Vec<Phone> = names.flatten().copied().collect();
    if ending {
        said.extend(said.last().copied().map(genitive).unwrap_or_default());
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::speech::ClauseSplitter;

    /// Says B for each letter, so that parts can be distinguished.
    struct Letters;

    impl GraphemeToPhoneme for Letters {
        fn pronounce(&self, words: &[&str]) -> Result<Vec<Vec<Phone>>> {
            assert!(words.iter().all(|word| (1..=40).contains(&word.len())));
            Ok(words.iter().map(|word| word.chars().flat_map(|_| phones("B")).collect()).collect())
        }
    }

    fn said(text: &str, g2p: Option<Arc<dyn GraphemeToPhoneme>>) -> Vec<String> {
        let mut splitter = ClauseSplitter::new();
        let mut clauses = splitter.push(text);
        clauses.extend(splitter.finish());
        let pronouncer = Pronouncer::new(g2p);
        clauses
            .iter()
            .flat_map(|clause| pronouncer.phones(clause).unwrap())
            .map(|phones| phones.into_iter().map(Phone::name).collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn known_words_come_from_the_dictionary_and_others_from_the_model() {
        assert_eq!(said("Hello, blorfs.", Some(Arc::new(Letters))), ["HH AH0 L OW1", "", "B B B B B B", ""]);
        assert_eq!(said("blorf's", Some(Arc::new(Letters))), ["B B B B B Z", ""]);
        assert_eq!(said("o'blorf", Some(Arc::new(Letters))), ["B B B B B B", ""]);
    }

    #[test]
    fn prefixes_join_known_words() {
        assert_eq!(said("kilohertz", None)[0], "K IH1 L AH0 HH EH1 R T S");
        assert_eq!(said("kilometer", None)[0], "K AH0 L AA1 M AH0 T ER0", "the dictionary goes first");
        for (prefix, phones) in PREFIXES {
            assert_eq!(super::phones(phones).len(), phones.split(' ').count(), "{prefix}");
        }
    }

    #[test]
    fn forms_of_known_words_come_before_the_model() {
        let said = said("Hashtags, blorfs.", Some(Arc::new(Letters)));
        assert_eq!(said, ["HH AE1 SH T AE2 G Z", "", "B B B B B B", ""]);
    }

    #[test]
    fn words_of_any_length_are_said_in_parts() {
        let long = "zx".repeat(45);
        assert_eq!(said(&long, Some(Arc::new(Letters)))[0].split(' ').count(), 90);
    }

    #[test]
    fn without_a_model_unknown_words_are_spelled() {
        assert_eq!(said("zqa", None), ["Z IY1 K Y UW1 EY1", ""]);
        assert_eq!(said("zqt's", None), ["Z IY1 K Y UW1 T IY1 Z", ""]);
    }
}
