//! The text around the audio, and the beginning of the answer: `language English<asr_text>`.

use std::path::Path;

use super::config::Config;
use crate::error::{Error, Result};
use crate::language::primary_subtag;
use crate::models::decoder::ChatTokenizer;

/// Languages of the class, by the names that it writes.
const LANGUAGES: [(&str, &str); 30] = [
    ("ar", "Arabic"),
    ("cs", "Czech"),
    ("da", "Danish"),
    ("de", "German"),
    ("el", "Greek"),
    ("en", "English"),
    ("es", "Spanish"),
    ("fa", "Persian"),
    ("fi", "Finnish"),
    ("fil", "Filipino"),
    ("fr", "French"),
    ("hi", "Hindi"),
    ("hu", "Hungarian"),
    ("id", "Indonesian"),
    ("it", "Italian"),
    ("ja", "Japanese"),
    ("ko", "Korean"),
    ("mk", "Macedonian"),
    ("ms", "Malay"),
    ("nl", "Dutch"),
    ("pl", "Polish"),
    ("pt", "Portuguese"),
    ("ro", "Romanian"),
    ("ru", "Russian"),
    ("sv", "Swedish"),
    ("th", "Thai"),
    ("tr", "Turkish"),
    ("vi", "Vietnamese"),
    ("yue", "Cantonese"),
    ("zh", "Chinese"),
];

/// Before the language's name in an answer.
const LANGUAGE: &str = "language";
/// Between the language and the text.
const MARK: &str = "<asr_text>";
const BEFORE: &str = "<|im_start|>system\n";
const BEFORE_AUDIO: &str = "<|im_end|>\n<|im_start|>user\n<|audio_start|>";
const AFTER_AUDIO: &str = "<|audio_end|><|im_end|>\n<|im_start|>assistant\n";

/// The tokens around the audio of every window of a recording.
#[derive(Debug)]
pub struct Prompt {
    /// Tokens before the audio.
    pub before: Vec<u32>,
    /// Tokens after the audio.
    pub after: Vec<u32>,
    /// The language that `after` names.
    pub language: Option<&'static str>,
    /// Languages of which one comes next, with the tokens of their names and the mark after them; none where the answer begins freely.
    pub choices: Vec<(&'static str, Vec<u32>)>,
}

/// The prompts of a checkpoint.
#[derive(Debug)]
pub struct Prompts {
    mark: u32,
}

impl Prompts {
    /// Checks that the tokenizer of a folder has the marks.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a mark that is missing or has another number than the configuration.
    pub fn new(config: &Config, tokenizer: &ChatTokenizer, dir: &Path) -> Result<Self> {
        let bad = |reason: String| Error::Checkpoint { path: dir.join("tokenizer.json"), reason };
        let needed = |mark: &str| tokenizer.mark(mark).ok_or_else(|| bad(format!("the vocabulary has no {mark}")));
        for mark in ["<|im_start|>", "<|im_end|>", "<|audio_start|>", "<|audio_end|>"] {
            needed(mark)?;
        }
        let (audio, wanted) = (needed("<|audio_pad|>")?, config.audio_token);
        if audio != wanted {
            return Err(bad(format!("<|audio_pad|> is token {audio}, audio_token_id of config.json is {wanted}")));
        }
        Ok(Self { mark: needed(MARK)? })
    }

    /// The prompt with a context, the words to expect, and the languages that may be spoken: any, where none is named.
    ///
    /// # Errors
    /// [`Error::Language`] for a language that the class lacks; those of the tokenizer.
    pub fn prompt(&self, tokenizer: &ChatTokenizer, context: &str, languages: &[&str]) -> Result<Prompt> {
        let before = tokenizer.encode(&format!("{BEFORE}{}{BEFORE_AUDIO}", tokenizer.shield(context)))?;
        let mut named: Vec<(&'static str, &'static str)> =
            languages.iter().map(|code| find(code)).collect::<Result<_>>()?;
        named.dedup();
        let (after, language, choices) = match named.as_slice() {
            [] => (AFTER_AUDIO.to_owned(), None, Vec::new()),
            [(code, name)] => (format!("{AFTER_AUDIO}{LANGUAGE} {name}{MARK}"), Some(*code), Vec::new()),
            several => {
                let tokens =
                    |(code, name): &(&'static str, &str)| Ok((*code, tokenizer.encode(&format!(" {name}{MARK}"))?));
                (format!("{AFTER_AUDIO}{LANGUAGE}"), None, several.iter().map(tokens).collect::<Result<_>>()?)
            }
        };
        Ok(Prompt { before, after: tokenizer.encode(&after)?, language, choices })
    }

    /// The language that an answer of these tokens begins with, if it names one that the class has, and the number of tokens before its
    /// text.
    pub fn beginning(&self, tokenizer: &ChatTokenizer, tokens: &[u32]) -> (Option<&'static str>, usize) {
        let Some(at) = tokens.iter().position(|token| *token == self.mark) else { return (None, 0) };
        let bytes: Vec<u8> = tokens[..at].iter().flat_map(|token| tokenizer.bytes(*token)).flatten().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let line = text.trim().lines().next().unwrap_or_default().trim();
        // A recording without speech is in the language None.
        let name = match line.get(..LANGUAGE.len()) {
            Some(first) if first.eq_ignore_ascii_case(LANGUAGE) => line[LANGUAGE.len()..].trim(),
            _ => line,
        };
        (LANGUAGES.iter().find(|(_, known)| *known == name).map(|(code, _)| *code), at + 1)
    }
}

/// Code and name of a language.
fn find(code: &str) -> Result<(&'static str, &'static str)> {
    let primary = primary_subtag(code);
    LANGUAGES.into_iter().find(|(known, _)| *known == primary).ok_or_else(|| {
        let all: Vec<&str> = LANGUAGES.iter().map(|(code, _)| *code).collect();
        Error::Language(format!("the checkpoint has no language {code}; it has {}", all.join(", ")))
    })
}
