//! The passes over a transcript, in their order: redaction, the profanity filter, then whatever is cut from the words that
//! they leave.

use serde::Serialize;

use super::chapters::{Chapter, chapters};
use super::moderation::{SafetyReport, has_lists, moderate};
use super::sentiment::{SentenceSentiment, has_lexicon, sentiment};
use super::summary::{SummaryForm, summarise};
use super::{
    Entity, Redacted, Redaction, Tagger, check_redaction, entities, has_language, profanity, redact, tag, turns,
};
use crate::error::Result;
use crate::text::Word;
use crate::text::segments;
use crate::text::tokens::joined;

/// The passes over a transcript's words.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Passes {
    /// Hide personal words.
    pub redaction: Option<Redaction>,
    /// Mask profanity.
    pub profanity_filter: bool,
    /// Find entities.
    pub entities: bool,
    /// Tell the sentiment of each sentence.
    pub sentiment: bool,
    /// Flag sentences about sensitive topics.
    pub moderation: bool,
    /// Cut the transcript into chapters.
    pub chapters: bool,
    /// Summarise it.
    pub summary: Option<SummaryForm>,
}

impl Passes {
    /// True if nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True if a pass asks which words are names, places and the like, so that a [`Tagger`] is of use.
    #[must_use]
    pub fn ask_for_entities(&self) -> bool {
        self.redaction.is_some() || self.entities
    }

    /// Checks that the passes can be done in a language.
    ///
    /// # Errors
    /// [`crate::Error::InvalidOption`] if redaction is asked and cannot be done.
    pub fn check_language(&self, language: Option<&str>) -> Result<()> {
        if self.redaction.is_some() { check_redaction(language) } else { Ok(()) }
    }
}

/// A pass that needs a language: its name, true if it is asked, and the languages that it has.
type Needs = (&'static str, bool, fn(&str) -> bool);

impl Passes {
    /// A warning for each pass that is asked and left out, as it lacks the language or the language is not known.
    #[must_use]
    pub fn left_out(&self, language: Option<&str>) -> Vec<String> {
        let needs: [Needs; 4] = [
            ("entity detection", self.entities, has_language),
            ("sentiment analysis", self.sentiment, has_lexicon),
            ("content moderation", self.moderation, has_lists),
            ("the profanity filter", self.profanity_filter, profanity::has_language),
        ];
        let reason = |has: fn(&str) -> bool| match language {
            Some(language) if has(language) => None,
            Some(language) => Some(format!("it cannot be done in {language}")),
            None => Some("the language is not known".to_owned()),
        };
        let asked = needs.into_iter().filter(|(_, asked, _)| *asked);
        asked.filter_map(|(name, _, has)| Some(format!("{name} was left out: {}", reason(has)?))).collect()
    }
}

/// The findings of the passes. A field is none if it was not asked or if nothing was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Analysis {
    /// The summary.
    pub summary: Option<String>,
    /// The chapters.
    pub chapters: Option<Vec<Chapter>>,
    /// The entities.
    pub entities: Option<Vec<Entity>>,
    /// The sentiment of each sentence.
    pub sentiment_results: Option<Vec<SentenceSentiment>>,
    /// The sentences about sensitive topics.
    pub content_safety: Option<SafetyReport>,
    /// First and last moment of each run that redaction has hidden, in ms. It stays with those who hide the sound, too.
    #[serde(skip)]
    pub hidden_ms: Vec<(u64, u64)>,
}

impl Analysis {
    fn mask_profanity(&mut self, language: &str) {
        let chapters = self.chapters.iter_mut().flatten();
        let texts = chapters
            .flat_map(|chapter| [&mut chapter.gist, &mut chapter.headline, &mut chapter.summary])
            .chain(self.entities.iter_mut().flatten().map(|entity| &mut entity.text))
            .chain(self.sentiment_results.iter_mut().flatten().map(|sentence| &mut sentence.text))
            .chain(
                self.content_safety
                    .iter_mut()
                    .flat_map(|report| &mut report.results)
                    .map(|sentence| &mut sentence.text),
            )
            .chain(&mut self.summary);
        for text in texts {
            *text = profanity::mask_text(text, language);
        }
    }
}

/// Words after the passes, and what was found in them.
#[derive(Clone, Debug, PartialEq)]
pub struct Analyzed {
    /// The words; personal words and profanity are masked if that was asked.
    pub words: Vec<Word>,
    /// The text of the words, if a pass has changed them.
    pub text: Option<String>,
    /// The findings.
    pub analysis: Analysis,
}

/// Does the passes over the words of a transcript, with what a tagger finds in them, if there is one.
///
/// # Errors
/// [`crate::Error::InvalidOption`] if redaction is asked and cannot be done in the language. Words without any are fine in
/// every language. As [`Tagger::tag`].
pub fn analyze(
    words: Vec<Word>,
    language: Option<&str>,
    passes: &Passes,
    tagger: Option<&dyn Tagger>,
) -> Result<Analyzed> {
    if !words.is_empty() {
        passes.check_language(language)?;
    }
    let mut changed = false;
    let mut redacted = match &passes.redaction {
        Some(redaction) => {
            let redacted = redact(&words, redaction, tagger)?;
            changed = !redacted.hidden.is_empty();
            redacted
        }
        None => {
            let is_asked = passes.entities && has_language(language.unwrap_or_default());
            let tagged = if is_asked { tag(&turns(&words), tagger)? } else { Vec::new() };
            Redacted { words, tagged, ..Redacted::default() }
        }
    };
    // Profanity is masked afterwards: it tells of sentiment and of topics.
    let mut analysis = found(&redacted, language.unwrap_or_default(), passes);
    if passes.profanity_filter
        && let Some(language) = language.filter(|language| profanity::has_language(language))
    {
        for word in &mut redacted.words {
            if let Some(masked) = profanity::masked(&word.text, language) {
                word.text = masked;
                changed = true;
            }
        }
        analysis.mask_profanity(language);
    }
    let text = changed.then(|| joined(&redacted.words));
    analysis.hidden_ms = redacted.spans_ms;
    Ok(Analyzed { text, analysis, words: redacted.words })
}

/// What was asked beside redaction and the profanity filter. A language that a pass lacks leaves its field empty.
fn found(redacted: &Redacted, language: &str, passes: &Passes) -> Analysis {
    let mut analysis = Analysis::default();
    if passes.entities && has_language(language) {
        analysis.entities = some(entities(redacted));
    }
    if !(passes.sentiment || passes.chapters || passes.moderation || passes.summary.is_some()) {
        return analysis;
    }
    let sentences = segments::sentences(&redacted.words);
    if passes.sentiment && has_lexicon(language) {
        analysis.sentiment_results = some(sentiment(&sentences));
    }
    if passes.moderation && has_lists(language) {
        analysis.content_safety = moderate(&sentences);
    }
    if passes.chapters || passes.summary.is_some() {
        let chapters = chapters(&sentences, language);
        analysis.summary = passes.summary.and_then(|form| summarise(&sentences, &chapters, language, form));
        analysis.chapters = if passes.chapters { some(chapters) } else { None };
    }
    analysis
}

/// None for an empty list.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
