//! Text as a network of this form was trained on: SentencePiece tokens of a sentence.

use std::path::Path;

use serde::Deserialize;
use tokenizers::Tokenizer;

use super::config::read_optional_json;
use crate::error::{Error, Result};

/// A checkpoint's tokenizer.
#[derive(Debug)]
pub struct TextReader {
    tokenizer: Tokenizer,
    tail: Tail,
    /// Tokens of the vocabulary that are no text.
    placeholders: Vec<u32>,
    vocabulary: usize,
}

/// Frames that follow the end of speech, as `processor_config.json` has them: short texts end in a longer silence.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default)]
struct Tail {
    short_text_max_words: usize,
    frames_after_eos_short_text: usize,
    frames_after_eos: usize,
}

impl Default for Tail {
    /// As the published class has them.
    fn default() -> Self {
        Self { short_text_max_words: 4, frames_after_eos_short_text: 4, frames_after_eos: 2 }
    }
}

/// A sentence in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedText {
    /// At least one.
    pub tokens: Vec<u32>,
    /// Frames that follow the end of speech.
    pub frames_after_end: usize,
}

impl TextReader {
    /// Reads `tokenizer.json` and, if present, `processor_config.json` of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when one is missing or malformed.
    pub fn read(dir: &Path, placeholders: Vec<u32>, vocabulary: usize) -> Result<Self> {
        let path = dir.join("tokenizer.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read(&path).map_err(|error| bad(format!("cannot read: {error}")))?;
        let tokenizer = Tokenizer::from_bytes(text).map_err(|error| bad(error.to_string()))?;
        let tail = read_optional_json(&dir.join("processor_config.json"))?;
        Ok(Self { tokenizer, tail, placeholders, vocabulary })
    }

    /// The tokens of a text; none where nothing of it is text.
    ///
    /// # Errors
    /// [`Error::Internal`] when the tokenizer fails, or gives a token that the vocabulary has not.
    pub fn tokens(&self, text: &str) -> Result<Option<PreparedText>> {
        let sentence = sentence(text);
        let encoding = self.tokenizer.encode(sentence.as_str(), false);
        let encoding = encoding.map_err(|error| Error::internal(format!("the tokenizer failed: {error}")))?;
        // The name of a placeholder in a text is no audio.
        let tokens = encoding.get_ids().iter().copied().filter(|id| !self.placeholders.contains(id));
        let tokens: Vec<u32> = tokens.collect();
        if let Some(outside) = tokens.iter().find(|id| **id as usize >= self.vocabulary) {
            return Err(Error::internal(format!("the tokenizer gives token {outside} of {}", self.vocabulary)));
        }
        let is_short = sentence.split_whitespace().count() <= self.tail.short_text_max_words;
        let Tail { frames_after_eos_short_text, frames_after_eos, .. } = self.tail;
        let frames_after_end = if is_short { frames_after_eos_short_text } else { frames_after_eos };
        Ok((!tokens.is_empty()).then_some(PreparedText { tokens, frames_after_end }))
    }
}

/// A text in one line that begins with a capital and ends with a mark, as the sentences of the training do.
fn sentence(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let mut letters = line.chars();
    let mut sentence: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    sentence.push_str(letters.as_str());
    if sentence.ends_with(char::is_alphanumeric) {
        sentence.push('.');
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_a_sentence() {
        assert_eq!(sentence("  hello\n there "), "Hello there.");
        assert_eq!(sentence("élan, really?"), "Élan, really?");
        assert_eq!(sentence("so, "), "So,");
        assert_eq!(sentence(""), "");
    }
}
