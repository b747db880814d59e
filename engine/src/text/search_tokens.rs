//! Text as the tokens by which an index of many transcripts finds it.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::sentence_boundaries::is_unspaced_script;

/// The rest of a longer word is not compared, in characters.
const TOKEN_CHARS: usize = 40;

/// The part of a text that a token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A word.
    Word,
    /// A character of a script that is written without spaces.
    Character,
    /// Two such characters that follow each other.
    Pair,
}

/// A token of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Letters, digits and marks, in lower case and without accents.
    pub text: String,
    /// The bytes of the text that it stands for.
    pub range: Range<usize>,
    /// The part of the text that it stands for.
    pub kind: TokenKind,
}

/// The tokens of a text, in order: its words, and of scripts without spaces each character and each pair of neighbours. Punctuation
/// separates words and is in none.
#[must_use]
pub fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut word: Option<Range<usize>> = None;
    let mut before: Option<(Range<usize>, String)> = None;
    for (at, character) in text.char_indices() {
        let range = at..at + character.len_utf8();
        let is_part = character.is_alphanumeric() || is_combining_mark(character);
        if is_part && !is_unspaced_script(character) {
            before = None;
            word.get_or_insert(at..at).end = range.end;
            continue;
        }
        push_word(&mut tokens, text, word.take());
        if !is_part {
            before = None;
            continue;
        }
        let folded: String = character.nfkc().flat_map(char::to_lowercase).collect();
        if let Some((first, text)) = before {
            let range = first.start..range.end;
            tokens.push(Token { text: text + &folded, range, kind: TokenKind::Pair });
        }
        tokens.push(Token { text: folded.clone(), range: range.clone(), kind: TokenKind::Character });
        before = Some((range, folded));
    }
    push_word(&mut tokens, text, word);
    tokens
}

fn push_word(tokens: &mut Vec<Token>, text: &str, word: Option<Range<usize>>) {
    let Some(range) = word else { return };
    let word = &text[range.clone()];
    let folded: String = if word.is_ascii() {
        word.chars().take(TOKEN_CHARS).map(|character| character.to_ascii_lowercase()).collect()
    } else {
        // Conversion to capitals first makes letters with two lower-case forms equal.
        let capitals = word.nfkd().flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfkd();
        let bare = capitals.filter(|&part| part.is_alphanumeric() || (is_combining_mark(part) && !is_accent(part)));
        bare.nfc().take(TOKEN_CHARS).collect()
    };
    if !folded.is_empty() {
        tokens.push(Token { text: folded, range, kind: TokenKind::Word });
    }
}

/// The accents of Latin, Greek and Cyrillic letters. Marks of other scripts are vowels.
fn is_accent(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        tokens(text).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn words_are_equal_in_every_spelling() {
        for (text, expected) in [
            ("Well-known, isn't it?", vec!["well", "known", "isn", "t", "it"]),
            ("L'Été à Malmö", vec!["l", "ete", "a", "malmo"]),
            ("Straße STRASSE", vec!["strasse", "strasse"]),
            ("ΟΔΟΣ οδός", vec!["οδοσ", "οδοσ"]),
            ("ﬁne İstanbul", vec!["fine", "istanbul"]),
            ("हिन्दी", vec!["हिन्दी"]),
            ("\" AND (x* OR NEAR) -y:", vec!["and", "x", "or", "near", "y"]),
            ("…!?", vec![]),
        ] {
            assert_eq!(texts(text), expected, "{text}");
        }
        assert_eq!(texts(&"ä".repeat(1000)), ["a".repeat(TOKEN_CHARS)]);
    }

    #[test]
    fn scripts_without_spaces_have_characters_and_pairs() {
        assert_eq!(texts("東京都 2024年"), ["東", "東京", "京", "京都", "都", "2024", "年"]);
        assert_eq!(texts("你好，世"), ["你", "你好", "好", "世"]);
    }

    #[test]
    fn a_range_holds_what_a_token_stands_for() {
        let text = "«Été», 東京!";
        for token in tokens(text) {
            let part = &text[token.range.clone()];
            let expected = match token.text.as_str() {
                "ete" => "Été",
                other => other,
            };
            assert_eq!(part, expected);
        }
    }
}
