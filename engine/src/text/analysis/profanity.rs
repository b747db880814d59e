//! The profanity filter: whole words of a list with stems, so that no part of a harmless word is a hit.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::reading::is_mask;
use crate::language::primary_subtag;
use crate::text::quote_marks::plain;

/// The words of a language.
#[derive(Default)]
struct Words {
    whole: HashSet<&'static str>,
    /// By their first three letters.
    stems: HashMap<&'static str, Vec<&'static str>>,
}

static LANGUAGES: LazyLock<HashMap<&'static str, Words>> = LazyLock::new(|| {
    let mut languages: HashMap<&'static str, Words> = HashMap::new();
    for line in include_str!("lists/profanity.txt").lines() {
        let Some((language, word)) = line.split_once(' ') else { continue };
        let words = languages.entry(language).or_default();
        match word.strip_suffix('*') {
            Some(stem) => words.stems.entry(three_letters(stem)).or_default().push(stem),
            None => {
                words.whole.insert(word);
            }
        }
    }
    languages
});

fn three_letters(text: &str) -> &str {
    text.char_indices().nth(3).map_or(text, |(at, _)| &text[..at])
}

/// True if the language has a list.
#[must_use]
pub fn has_language(language: &str) -> bool {
    LANGUAGES.contains_key(primary_subtag(language).as_str())
}

/// The word with its profanity masked but for the first letter; none if it has none.
#[must_use]
pub fn masked(text: &str, language: &str) -> Option<String> {
    let words = LANGUAGES.get(primary_subtag(language).as_str())?;
    if is_mask(text) {
        return None;
    }
    let plain = plain(text);
    let masked = masked_plain(&plain, words)?;
    let shown = masked.chars().zip(plain.chars()).zip(text.chars());
    Some(shown.map(|((masked, plain), original)| if masked == plain { original } else { masked }).collect())
}

/// The same, a character for a character, of a text with plain marks.
fn masked_plain(text: &str, words: &Words) -> Option<String> {
    let mut masked = String::with_capacity(text.len());
    let mut found = false;
    // A hyphen joins words: "shit-faced".
    for part in text.split_inclusive(|mark: char| !mark.is_alphanumeric() && mark != '\'') {
        let core = part.trim_matches(|mark: char| !mark.is_alphanumeric());
        let own = core.strip_suffix("'s").unwrap_or(core);
        if own.is_empty() || !is_profane(words, &own.to_lowercase()) {
            masked.push_str(part);
            continue;
        }
        found = true;
        let (before, after) = part.split_once(own).unwrap_or((part, ""));
        masked.push_str(before);
        masked.extend(own.chars().take(1));
        masked.extend(own.chars().skip(1).map(|_| '*'));
        masked.push_str(after);
    }
    found.then_some(masked)
}

/// The text with its profanity masked; spaces and marks stay.
#[must_use]
pub fn mask_text(text: &str, language: &str) -> String {
    let pieces = text.split_inclusive(char::is_whitespace);
    pieces.map(|piece| masked(piece, language).unwrap_or_else(|| piece.to_owned())).collect()
}

fn is_profane(words: &Words, lower: &str) -> bool {
    words.whole.contains(lower)
        || words.stems.get(three_letters(lower)).is_some_and(|stems| stems.iter().any(|stem| lower.starts_with(stem)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profanity_keeps_its_first_letter_and_its_punctuation() {
        assert_eq!(masked("Fucking,", "en").as_deref(), Some("F******,"));
        assert_eq!(masked("\"Bullshit!\"", "en-US").as_deref(), Some("\"B*******!\""));
        assert_eq!(masked("Scheiße", "de").as_deref(), Some("S******"));
        assert_eq!(masked("merde.", "fr").as_deref(), Some("m****."));
        assert_eq!(masked("gilipollas", "es").as_deref(), Some("g*********"));
    }

    #[test]
    fn harmless_words_that_hold_one_stay() {
        for word in [
            "Scunthorpe",
            "Penistone",
            "assistant",
            "class",
            "shiitake",
            "Dick",
            "cockpit",
            "Hancock",
            "circumstance",
            "therapist",
            "Essex",
            "document",
            "analysis",
            "Uranus",
            "grape",
            "Cumberland",
        ] {
            assert_eq!(masked(word, "en"), None, "{word}");
        }
        assert_eq!(masked("con", "es"), None);
        assert_eq!(masked("fuck", "xx"), None);
        assert_eq!(masked("[PERSON_NAME]", "en"), None);
    }
}
