//! The tokens before the text: languages, punctuation, and what is off.

use std::path::Path;

use crate::error::{Error, Result};
use crate::language::{ENGLISH, primary_subtag};
use crate::models::fastconformer::config::{AttentionConfig, Class};
use crate::text::tokens::{Vocabulary, WORD_START};

/// Languages that Cohere Transcribe is trained for; its vocabulary has tokens of more.
const COHERE: [&str; 14] = ["ar", "de", "el", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "vi", "zh"];
/// Languages that Canary is trained for.
const CANARY: [&str; 25] = [
    "bg", "cs", "da", "de", "el", "en", "es", "et", "fi", "fr", "hr", "hu", "it", "lt", "lv", "mt", "nl", "pl", "pt",
    "ro", "ru", "sk", "sl", "sv", "uk",
];

/// Tokens before the languages, and after them.
const BEFORE: [&str; 3] = ["<|startofcontext|>", "<|startoftranscript|>", "<|emo:undefined|>"];
const AFTER: [&str; 4] = ["<|pnc|>", "<|noitn|>", "<|notimestamp|>", "<|nodiarize|>"];

/// The prompts of a checkpoint.
///
/// A slot is a language's number for its transcript; that plus the number of languages is for its translation to English.
#[derive(Debug)]
pub struct Prompts {
    before: Vec<u32>,
    /// The languages whose tokens the vocabulary has, in order.
    languages: Vec<(&'static str, u32)>,
    after: Vec<u32>,
    /// Number of English, if the class translates.
    english: Option<usize>,
}

impl Prompts {
    /// Finds the tokens in the vocabulary of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a token that is missing, and without a language.
    pub fn new(config: &AttentionConfig, vocab_size: usize, vocabulary: &Vocabulary, dir: &Path) -> Result<Self> {
        let bad = |reason: String| Error::Checkpoint { path: dir.join("tokenizer.json"), reason };
        let id = |token: &str| vocabulary.id(token).filter(|id| (*id as usize) < vocab_size);
        let needed = |token: &str| id(token).ok_or_else(|| bad(format!("the vocabulary has no {token}")));
        let (mut before, all) = match config.class {
            Class::Canary => (Vec::new(), CANARY.as_slice()),
            // Its prompt is the text of an empty context, which a piece of a space begins.
            _ => (vec![needed(&WORD_START.to_string())?], COHERE.as_slice()),
        };
        for token in BEFORE {
            before.push(needed(token)?);
        }
        if let Some(start) = config.start.filter(|start| before.first() != Some(start)) {
            before.insert(0, start);
        }
        let languages: Vec<_> =
            all.iter().filter_map(|language| Some((*language, id(&format!("<|{language}|>"))?))).collect();
        if languages.is_empty() {
            return Err(bad("the vocabulary has no language of its class, such as <|en|>".into()));
        }
        let english = languages.iter().position(|(language, _)| *language == ENGLISH);
        Ok(Self {
            before,
            after: AFTER.into_iter().map(needed).collect::<Result<_>>()?,
            english: english.filter(|_| config.class == Class::Canary),
            languages,
        })
    }

    /// The codes of the languages.
    pub fn languages(&self) -> impl Iterator<Item = &'static str> {
        self.languages.iter().map(|(language, _)| *language)
    }

    /// The slot of a language, to write it or to translate it to English.
    ///
    /// # Errors
    /// [`Error::Language`] without a language, and for one that the checkpoint lacks; [`Error::InvalidOption`] if it does not translate.
    pub fn slot(&self, language: Option<&str>, translate: bool) -> Result<usize> {
        let all = || self.languages().collect::<Vec<_>>().join(", ");
        let Some(language) = language else {
            return Err(Error::Language(format!("the checkpoint does not find the language; name one of {}", all())));
        };
        let primary = primary_subtag(language);
        let number = self.languages().position(|known| known == primary);
        let number = number
            .ok_or_else(|| Error::Language(format!("the checkpoint has no language {language}; it has {}", all())))?;
        match (translate, self.english) {
            (false, _) => Ok(number),
            (true, Some(_)) => Ok(self.languages.len() + number),
            (true, None) => Err(Error::InvalidOption("the checkpoint does not translate".into())),
        }
    }

    /// The tokens of a slot.
    pub fn tokens(&self, slot: usize) -> Vec<u32> {
        let (source, translated) = (slot % self.languages.len(), slot >= self.languages.len());
        let target = self.english.filter(|_| translated).unwrap_or(source);
        let languages = [source, target].map(|number| self.languages[number].1);
        [self.before.as_slice(), &languages, &self.after].concat()
    }
}
