//! Converts tokens to text and words in any script.

use std::ops::Range;

use tokenizers::Tokenizer;

use super::config::SpecialTokens;
use crate::error::{Error, Result};
use crate::text::byte_level;

/// Languages that are written without spaces between words.
const UNSPACED: [&str; 6] = ["zh", "ja", "th", "lo", "my", "yue"];
/// Characters that belong to the word after them.
const OPENING: &str = "\"'“¡¿([{-";
/// Characters that belong to the word before them.
const CLOSING: &str = "\"'.。,，!！?？:：”)]}、";
const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

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

    /// Decodes tokens to words of a language, given by its code.
    pub fn words(&self, tokens: &[u32], language: &str) -> Vec<WordTokens> {
        let mut words = self.characters(tokens);
        if !UNSPACED.contains(&language) {
            words = by_spaces(words);
        }
        merge_punctuation(&mut words);
        words.retain(|word| !word.text.trim().is_empty());
        words
    }

    /// Groups tokens to whole characters: tokens that share a character stay together.
    fn characters(&self, tokens: &[u32]) -> Vec<WordTokens> {
        let mut found: Vec<WordTokens> = Vec::new();
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for (place, token) in tokens.iter().enumerate().filter(|(_, token)| **token < self.end) {
            bytes.extend_from_slice(self.bytes(*token));
            places.push(place);
            // An incomplete character waits for the next token; invalid bytes do not.
            let waits = std::str::from_utf8(&bytes).is_err_and(|error| error.error_len().is_none());
            if !waits {
                let text = String::from_utf8_lossy(&std::mem::take(&mut bytes)).into_owned();
                found.push(WordTokens { text, tokens: std::mem::take(&mut places) });
            }
        }
        if !places.is_empty() {
            found.push(WordTokens { text: String::from_utf8_lossy(&bytes).into_owned(), tokens: places });
        }
        found
    }
}

/// Joins characters to words, which begin at a space or punctuation.
fn by_spaces(characters: Vec<WordTokens>) -> Vec<WordTokens> {
    let mut words: Vec<WordTokens> = Vec::new();
    for part in characters {
        let begins = part.text.starts_with(' ') || PUNCTUATION.contains(part.text.trim());
        match words.last_mut() {
            Some(word) if !begins => word.extend(part),
            _ => words.push(part),
        }
    }
    words
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
    fn extend(&mut self, more: Self) {
        self.text += &more.text;
        self.tokens.extend(more.tokens);
    }

    /// Range from the word's first token to its last.
    pub fn span(&self) -> Range<usize> {
        self.tokens.first().map_or(0..0, |first| *first..self.tokens.last().map_or(*first, |last| *last) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(parts: &[&str]) -> Vec<String> {
        let parts = parts.iter().enumerate();
        let mut words =
            by_spaces(parts.map(|(at, text)| WordTokens { text: (*text).into(), tokens: vec![at] }).collect());
        merge_punctuation(&mut words);
        words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_take_their_punctuation() {
        assert_eq!(words(&[" He", " said", ",", " \"", "No", "!", "\""]), [" He", " said,", " \"No!\""]);
        assert_eq!(words(&[" to", "-", "day", "."]), [" to", "-day."]);
    }
}
