//! The passes over a transcript, in their order: redaction, the profanity filter, then whatever is cut from the words that
//! they leave.

use serde::Serialize;

use super::{Entity, Redacted, Redaction, check_redaction, entities, has_language, profanity, redact};
use crate::error::Result;
use crate::text::Word;
use crate::text::tokens::joined;

/// What is asked of a transcript's words.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Passes {
    /// Hide personal words.
    pub redaction: Option<Redaction>,
    /// Mask profanity.
    pub profanity_filter: bool,
    /// Find entities.
    pub entities: bool,
}

impl Passes {
    /// True if nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that the passes can be done in a language.
    ///
    /// # Errors
    /// [`crate::Error::InvalidOption`] if redaction is asked and cannot be done.
    pub fn check_language(&self, language: Option<&str>) -> Result<()> {
        if self.redaction.is_some() { check_redaction(language) } else { Ok(()) }
    }
}

/// What the passes found. A field is none if it was not asked or if nothing was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Analysis {
    /// The entities.
    pub entities: Option<Vec<Entity>>,
}

/// Words after the passes, and what was found in them.
#[derive(Clone, Debug, PartialEq)]
pub struct Analyzed {
    /// The words; personal words and profanity are masked if that was asked.
    pub words: Vec<Word>,
    /// The text of the words, if a pass has changed them.
    pub text: Option<String>,
    /// First and last moment of each run that redaction has hidden, in ms.
    pub hidden_ms: Vec<(u64, u64)>,
    /// What was found.
    pub analysis: Analysis,
}

/// Does the passes over the words of a transcript.
///
/// # Errors
/// [`crate::Error::InvalidOption`] if redaction is asked and cannot be done in the language. Words without any are fine in
/// every language.
pub fn analyze(words: Vec<Word>, language: Option<&str>, passes: &Passes) -> Result<Analyzed> {
    if !words.is_empty() {
        passes.check_language(language)?;
    }
    let mut changed = false;
    let mut redacted = match &passes.redaction {
        Some(redaction) => {
            let redacted = redact(&words, redaction);
            changed = !redacted.hidden.is_empty();
            redacted
        }
        None => Redacted { words, ..Redacted::default() },
    };
    if passes.profanity_filter
        && let Some(language) = language
    {
        for word in &mut redacted.words {
            if let Some(masked) = profanity::masked(&word.text, language) {
                word.text = masked;
                changed = true;
            }
        }
    }
    let found = if passes.entities && language.is_some_and(has_language) { entities(&redacted) } else { Vec::new() };
    let text = changed.then(|| joined(&redacted.words));
    Ok(Analyzed {
        text,
        hidden_ms: redacted.spans_ms,
        analysis: Analysis { entities: (!found.is_empty()).then_some(found) },
        words: redacted.words,
    })
}
