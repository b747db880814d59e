//! Converts tokens to text and words in any script.

use std::ops::Range;

use tokenizers::Tokenizer;

use super::config::SpecialTokens;
use crate::error::{Error, Result};
use crate::text::byte_level;
use crate::text::tokens::is_wide;

/// Characters that belong to the word after them.
const OPENING: &str = "\"'“¡¿([{-";
/// Characters that belong to the word before them.
const CLOSING: &str = "\"'.。,，!！?？:：”)]}、";

/// A checkpoint's tokens.
pub struct Vocabulary {
    tokenizer: Tokenizer,
    /// The bytes of each token; none for tokens that are not text.
    pieces: Vec<Option<Vec<u8>>>,
    end: u32,
}

/// A word and its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordTokens {
    /// The text with the space before it.
    pub text: String,
    /// Indices in the token sequence, without special tokens.
    pub tokens: Vec<usize>,
    /// Indices from the first token with a letter or a digit to the last one, or those of all tokens: a full stop is written in the silence
    /// after a word, and does not lengthen it.
    pub sounded: Range<usize>,
}

impl Vocabulary {
    /// Reads the tokens of a byte-level tokenizer.
    pub fn new(tokenizer: Tokenizer, special: &SpecialTokens, size: usize) -> Self {
        let bytes = byte_level::bytes_of_chars();
        let piece = |id: u32| {
            let text = tokenizer.id_to_token(id).filter(|_| id < special.end)?;
            text.chars().map(|c| bytes.get(&c).copied()).collect()
        };
        let pieces = (0..size as u32).map(piece).collect();
        Self { tokenizer, pieces, end: special.end }
    }

    /// Encodes a text to tokens.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a text that the tokenizer cannot encode.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoded = self.tokenizer.encode_fast(text, false);
        let encoded = encoded.map_err(|error| Error::InvalidOption(format!("{text:?} cannot be encoded: {error}")))?;
        Ok(encoded.get_ids().iter().copied().filter(|id| *id < self.end).collect())
    }

    fn bytes(&self, token: u32) -> &[u8] {
        self.pieces.get(token as usize).and_then(Option::as_deref).unwrap_or_default()
    }

    /// Decodes tokens to text, without special tokens.
    pub fn text(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| self.bytes(*token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Decodes tokens to words.
    pub fn words(&self, tokens: &[u32]) -> Vec<WordTokens> {
        words_of(tokens.iter().map(|token| (*token < self.end).then(|| self.bytes(*token))))
    }
}

/// Groups the tokens of a text, of which these are the bytes, to words; control tokens have none.
pub fn words_of<'a>(tokens: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<WordTokens> {
    words(characters(tokens))
}

/// Groups tokens to whole characters: tokens that share a character stay together.
fn characters<'a>(tokens: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<WordTokens> {
    let mut found: Vec<WordTokens> = Vec::new();
    let (mut bytes, mut places) = (Vec::new(), Vec::new());
    for (place, token) in tokens.enumerate() {
        let Some(token) = token else { continue };
        bytes.extend_from_slice(token);
        places.push(place);
        // An incomplete character waits for the next token; invalid bytes do not.
        let waits = std::str::from_utf8(&bytes).is_err_and(|error| error.error_len().is_none());
        if !waits {
            let text = String::from_utf8_lossy(&std::mem::take(&mut bytes)).into_owned();
            found.push(WordTokens::new(text, std::mem::take(&mut places)));
        }
    }
    if !places.is_empty() {
        found.push(WordTokens::new(String::from_utf8_lossy(&bytes).into_owned(), places));
    }
    found
}

/// Joins characters to words, which begin at a space; in scripts without spaces each is a word of its own.
fn words(characters: Vec<WordTokens>) -> Vec<WordTokens> {
    let mut words: Vec<WordTokens> = Vec::new();
    for part in characters {
        match words.last_mut() {
            Some(word) if !part.text.starts_with(' ') && !are_apart(&word.text, &part.text) => word.extend(part),
            _ => words.push(part),
        }
    }
    merge_punctuation(&mut words);
    words.retain(|word| !word.text.trim().is_empty());
    words
}

/// True if two pieces of text are words of their own without a space between them.
fn are_apart(before: &str, after: &str) -> bool {
    before.chars().next_back().is_some_and(is_wide) || after.chars().next().is_some_and(is_wide)
}

fn merge_punctuation(words: &mut Vec<WordTokens>) {
    let mut merged: Vec<WordTokens> = Vec::new();
    for word in words.drain(..).rev() {
        match merged.last_mut() {
            Some(next) if word.text.starts_with(' ') && OPENING.contains(word.text.trim()) => {
                let next = std::mem::replace(next, word);
                if let Some(word) = merged.last_mut() {
                    word.extend(next);
                }
            }
            _ => merged.push(word),
        }
    }
    for word in merged.into_iter().rev() {
        match words.last_mut() {
            Some(last) if !last.text.ends_with(' ') && CLOSING.contains(&word.text) => last.extend(word),
            _ => words.push(word),
        }
    }
}

impl WordTokens {
    fn new(text: String, tokens: Vec<usize>) -> Self {
        let (first, last) = (tokens.first().copied().unwrap_or_default(), tokens.last().map_or(0, |last| last + 1));
        Self { text, tokens, sounded: first..last }
    }

    fn extend(&mut self, more: Self) {
        let sounds = |text: &str| text.chars().any(char::is_alphanumeric);
        self.sounded = match (sounds(&self.text), sounds(&more.text)) {
            (true, false) => self.sounded.clone(),
            (false, true) => more.sounded,
            _ => self.sounded.start..more.sounded.end,
        };
        self.text += &more.text;
        self.tokens.extend(more.tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[&str]) -> Vec<WordTokens> {
        words(parts.iter().enumerate().map(|(at, text)| WordTokens::new((*text).into(), vec![at])).collect())
    }

    fn texts(parts: &[&str]) -> Vec<String> {
        of(parts).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_take_their_punctuation() {
        assert_eq!(texts(&[" He", " said", ",", " \"", "No", "!", "\""]), [" He", " said,", " \"No!\""]);
        assert_eq!(texts(&[" to", "-", "day", "."]), [" to-day."]);
        assert_eq!(
            texts(&[" $", "24", ".", "50", " o", "'", "clock", " 3", ".", "5", "%"]),
            [" $24.50", " o'clock", " 3.5%"]
        );
        assert_eq!(texts(&["我", "用", "G", "PT", "-", "4", "。", "好"]), ["我", "用", "GPT-4。", "好"]);
    }

    #[test]
    fn marks_do_not_lengthen_a_word() {
        let sounded =
            |parts: &[&str]| -> Vec<Range<usize>> { of(parts).into_iter().map(|word| word.sounded).collect() };
        assert_eq!(sounded(&[" He", " said", ",", " \"", "No", "!", "\"", " —"]), [0..1, 1..2, 4..5, 7..8]);
        assert_eq!(sounded(&[" $", "24", ".", "50", ".", " more"]), [1..4, 5..6]);
    }
}
