//! Text to terms: folded words and their stems. Scripts without spaces give pairs of characters.

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::stop_words::stop_words;
use crate::text::number_words;
use crate::text::sentence_boundaries::is_unspaced_script;

/// A word of a text, as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The stem, or the word itself where the language has no stemmer.
    pub stem: String,
    /// The word in lower case, without marks.
    pub word: String,
    /// True for a function word, which says nothing about a subject.
    pub is_stop: bool,
    /// True for a word with a capital that does not begin a sentence.
    pub is_name: bool,
    pub is_number: bool,
}

/// Makes terms of texts of one language.
pub struct TermReader {
    stemmer: Option<Stemmer>,
    stop_words: &'static [&'static str],
    /// German nouns have capitals.
    nouns_have_capitals: bool,
}

impl TermReader {
    /// `language` is a code such as `en` or `en_us`. None counts as English.
    pub fn new(language: Option<&str>) -> Self {
        let code = language.unwrap_or("en").split(['-', '_']).next().unwrap_or("en").to_lowercase();
        let algorithm = match code.as_str() {
            "ar" => Some(Algorithm::Arabic),
            "da" => Some(Algorithm::Danish),
            "de" => Some(Algorithm::German),
            "el" => Some(Algorithm::Greek),
            "en" => Some(Algorithm::English),
            "es" => Some(Algorithm::Spanish),
            "fi" => Some(Algorithm::Finnish),
            "fr" => Some(Algorithm::French),
            "hu" => Some(Algorithm::Hungarian),
            "it" => Some(Algorithm::Italian),
            "nl" => Some(Algorithm::Dutch),
            "no" | "nb" | "nn" => Some(Algorithm::Norwegian),
            "pt" => Some(Algorithm::Portuguese),
            "ro" => Some(Algorithm::Romanian),
            "ru" => Some(Algorithm::Russian),
            "sv" => Some(Algorithm::Swedish),
            "ta" => Some(Algorithm::Tamil),
            "tr" => Some(Algorithm::Turkish),
            _ => None,
        };
        Self {
            stemmer: algorithm.map(Stemmer::create),
            stop_words: stop_words(&code),
            nouns_have_capitals: code == "de",
        }
    }

    /// The terms of a text, in order.
    pub fn terms(&self, text: &str) -> Vec<Term> {
        let mut terms = Vec::new();
        let mut begins = true;
        for piece in text.split_whitespace() {
            for (original, after) in words(piece) {
                self.push(original, begins, &mut terms);
                begins = after.contains(['.', '!', '?', ':', '¿', '¡']);
            }
        }
        terms
    }

    fn push(&self, original: &str, begins: bool, terms: &mut Vec<Term>) {
        let word = folded(original);
        if word.is_empty() {
            return;
        }
        if word.chars().any(is_unspaced_script) {
            let characters: Vec<char> = word.chars().collect();
            let pairs = characters.windows(characters.len().min(2));
            terms.extend(pairs.map(|pair| {
                let pair: String = pair.iter().collect();
                Term { stem: pair.clone(), word: pair, is_stop: false, is_name: false, is_number: false }
            }));
            return;
        }
        let is_number = word.starts_with(|character: char| character.is_numeric()) || is_spoken_number(&word);
        let capital = original.chars().next().is_some_and(char::is_uppercase);
        let stem = match &self.stemmer {
            Some(stemmer) if !is_number => without_marks(&stemmer.stem(&word)),
            _ => without_marks(&word),
        };
        let is_stop = self.stop_words.contains(&word.as_str());
        let is_name = capital && !begins && !self.nouns_have_capitals && original != "I" && !is_stop;
        terms.push(Term { stem, is_stop, is_name, is_number, word });
    }

    /// The stem of a word in lower case.
    pub fn stem(&self, word: &str) -> String {
        self.stemmer.as_ref().map_or_else(|| without_marks(word), |stemmer| without_marks(&stemmer.stem(word)))
    }
}

/// The words of a piece of text without spaces, each with the marks after it. An apostrophe ends a word where a clitic follows.
fn words(piece: &str) -> Vec<(&str, &str)> {
    let is_part = |character: char| character.is_alphanumeric() || is_combining_mark(character);
    let mut found = Vec::new();
    let mut rest = piece;
    loop {
        let Some(start) = rest.find(is_part) else { return found };
        rest = &rest[start..];
        let mut end = rest.len();
        let characters: Vec<(usize, char)> = rest.char_indices().collect();
        for (at, &(byte, character)) in characters.iter().enumerate() {
            // A point or comma within a number belongs to it.
            let next = characters.get(at + 1).map(|(_, next)| *next);
            let in_number = matches!(character, '.' | ',' | ':')
                && at > 0
                && characters[at - 1].1.is_ascii_digit()
                && next.is_some_and(|next| next.is_ascii_digit());
            if !is_part(character) && !in_number {
                end = byte;
                break;
            }
        }
        let after = rest[end..].split(is_part).next().unwrap_or_default();
        found.push((&rest[..end], after));
        rest = &rest[end..];
        // English clitics: "lamp's", "don't". What stands behind is no word of its own.
        if let Some(tail) = rest.strip_prefix(['\'', '’']) {
            let length = tail.find(|character: char| !character.is_alphanumeric()).unwrap_or(tail.len());
            if matches!(tail[..length].to_lowercase().as_str(), "s" | "t" | "re" | "ve" | "ll" | "d" | "m") {
                rest = &tail[length..];
            }
        }
    }
}

/// The word in lower case and in one form of its letters.
fn folded(word: &str) -> String {
    word.nfkc().flat_map(char::to_lowercase).collect()
}

/// Letters without accents: people leave them out when they type. Marks of other scripts are vowels and stay.
fn without_marks(word: &str) -> String {
    word.nfd().filter(|character| !('\u{300}'..='\u{36f}').contains(character)).nfc().collect()
}

/// English number words, which a recogniser may leave as words.
pub fn is_spoken_number(word: &str) -> bool {
    number_words::value(word).is_some()
        || ["hundred", "thousand", "million", "billion", "half", "dozen"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stems(language: &str, text: &str) -> Vec<String> {
        TermReader::new(Some(language)).terms(text).into_iter().map(|term| term.stem).collect()
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        assert_eq!(stems("en", "buildings"), stems("en_us", "Building's"));
        assert_eq!(stems("de", "Bäckereien"), stems("de", "Bäckerei"));
        assert_eq!(stems("fr", "resume\u{301}"), stems("fr", "résumé"));
        assert_eq!(stems("es", "cuánto"), stems("es", "cuanto"));
        assert_eq!(stems("xx", "plain words"), ["plain", "words"]);
    }

    #[test]
    fn numbers_clitics_and_names_are_seen() {
        let reader = TermReader::new(None);
        let terms = reader.terms("It's $1,200.50 at 10:30. Then Maria didn't pay O'Brien.");
        let words: Vec<&str> = terms.iter().map(|term| term.word.as_str()).collect();
        assert_eq!(words, ["it", "1,200.50", "at", "10:30", "then", "maria", "didn", "pay", "o", "brien"]);
        let names: Vec<&str> = terms.iter().filter(|term| term.is_name).map(|term| term.word.as_str()).collect();
        assert_eq!(names, ["maria", "o", "brien"]);
        assert!(terms[1].is_number && terms[3].is_number && !terms[5].is_number);
    }

    #[test]
    fn scripts_without_spaces_give_pairs() {
        assert_eq!(stems("zh", "我们都是。"), ["我们", "们都", "都是"]);
        assert_eq!(stems("ja", "猫"), ["猫"]);
    }
}
