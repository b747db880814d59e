//! Analysis of transcripts: what words tell, found in the words alone.
//!
//! All passes share one coordinate, the index of a word. Redaction comes first, then the profanity filter; everything that
//! is shown afterwards is cut from the words that they leave.

mod central_sentences;
pub mod chapters;
mod cues;
mod eponyms;
mod find;
mod firms;
mod forms;
mod label;
mod lists;
mod mask;
pub mod moderation;
mod numbers;
mod passes;
mod phrases;
pub mod profanity;
mod reading;
pub mod sentiment;
mod stop_words;
pub mod summary;
mod tagger;
mod terms;
#[cfg(test)]
mod tests;
mod titles;
mod written;

use std::ops::Range;

use serde::Serialize;

pub use label::Label;
pub use mask::{Redacted, Redaction, Substitution};
pub use passes::{Analysis, Analyzed, Passes, analyze};
pub use tagger::Tagger;
pub use written::{Span, WrittenText, redact_text};

use super::Word;
use super::quote_marks::plain;
use super::segments::text_of;
use crate::error::{Error, Result};
use crate::language::primary_subtag;
use reading::Reading;

/// Findings below this confidence are dropped.
const MIN_ENTITY_CONFIDENCE: f32 = 0.3;

/// The languages in which the finders work.
const LANGUAGES: [&str; 1] = ["en"];

/// The way in which something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// By its form, its check or the words around it.
    Pattern,
    /// In a list.
    List,
    /// By a trained tagger.
    Tagger,
}

/// Something that was found in the words.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The words, by index.
    pub words: Range<usize>,
    /// The kind of the finding.
    pub label: Label,
    /// 0 to 1. Redaction hides findings from 0.5 on.
    pub confidence: f32,
    /// The way in which it was found.
    pub source: Source,
}

/// A word, and true if a turn of a speaker ends with it.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The word.
    pub text: &'a str,
    /// A turn ends with it.
    pub ends: bool,
}

/// An entity of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entity {
    /// The words, or the mask in their place.
    pub text: String,
    /// The kind of the entity.
    pub label: Label,
    /// First moment, ms.
    pub start: u64,
    /// Last moment, ms.
    pub end: u64,
    /// The label again.
    pub entity_type: Label,
}

/// True if the finders work in a language.
#[must_use]
pub fn has_language(language: &str) -> bool {
    LANGUAGES.contains(&primary_subtag(language).as_str())
}

/// Checks that redaction can be done in a language.
///
/// # Errors
/// [`Error::InvalidOption`] if it cannot, or if the language is not known.
pub fn check_redaction(language: Option<&str>) -> Result<()> {
    match language {
        Some(language) if has_language(language) => Ok(()),
        Some(language) => Err(Error::InvalidOption(format!(
            "redaction cannot be done in {language}: it has the languages {}",
            LANGUAGES.join(", ")
        ))),
        None => Err(Error::InvalidOption("redaction cannot be done: the language is not known".into())),
    }
}

fn turns(words: &[Word]) -> Vec<Turn<'_>> {
    let next = words.iter().skip(1).map(Some).chain([None]);
    let ends = |word: &Word, next: Option<&Word>| next.is_some_and(|next| next.speaker != word.speaker);
    words.iter().zip(next).map(|(word, next)| Turn { text: &word.text, ends: ends(word, next) }).collect()
}

/// Everything that the finders find and what a tagger has found in the same words, overlaps included.
fn find_in(reading: &Reading<'_>, tagged: &[Finding]) -> Vec<Finding> {
    let codes = numbers::codes(reading);
    let cues = cues::find(reading);
    let mut found = Vec::new();
    for (at, token) in reading.tokens.iter().enumerate() {
        if let Some(label) = token.form {
            found.push(Finding { words: at..at + 1, label, confidence: 1.0, source: Source::Pattern });
        }
    }
    find::codes::find(reading, &codes, &cues, &mut found);
    find::contact::find(reading, &cues, &mut found);
    find::dates::find(reading, &codes, &cues, &mut found);
    find::secrets::find(reading, &cues, &mut found);
    find::places::find(reading, &codes, &cues, &mut found);
    find::terms::find(reading, &codes, &mut found);
    find::names::find(reading, &codes, &cues, tagged, &mut found);
    tagger::join(reading, &cues, tagged, &mut found);
    find::widen(reading, &mut found);
    titles::cut(reading, &mut found);
    eponyms::drop(reading, &mut found);
    firms::drop(reading, &mut found);
    found
}

/// The findings of a tagger; none without one.
fn tag(words: &[Turn<'_>], tagger: Option<&dyn Tagger>) -> Result<Vec<Finding>> {
    let Some(tagger) = tagger else { return Ok(Vec::new()) };
    let texts: Vec<_> = words.iter().map(|word| plain(word.text)).collect();
    let words: Vec<Turn<'_>> = words.iter().zip(&texts).map(|(word, text)| Turn { text, ends: word.ends }).collect();
    tagger.tag(&words)
}

/// Findings without overlaps, in order: of two the more certain one, then the longer one. The rest of the other one
/// is kept. No finding holds the mark of an earlier redaction.
fn resolve(reading: &Reading<'_>, mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_by(|a, b| b.confidence.total_cmp(&a.confidence).then(b.words.len().cmp(&a.words.len())));
    let mut taken: Vec<bool> = reading.tokens.iter().map(|token| token.masked).collect();
    let mut kept: Vec<Finding> = Vec::new();
    for finding in found {
        let mut at = finding.words.start;
        while at < finding.words.end {
            let start = (at..finding.words.end).find(|at| !taken[*at]).unwrap_or(finding.words.end);
            let end = (start..finding.words.end).find(|at| taken[*at]).unwrap_or(finding.words.end);
            if start < end {
                taken[start..end].fill(true);
                kept.push(Finding { words: start..end, ..finding.clone() });
            }
            at = end.max(start + 1);
        }
    }
    kept.sort_by_key(|finding| finding.words.start);
    kept
}

/// The findings without overlaps that are certain enough to be shown.
fn entities_in(reading: &Reading<'_>, tagged: &[Finding]) -> Vec<Finding> {
    let found = find_in(reading, tagged).into_iter();
    resolve(reading, found.filter(|finding| finding.confidence >= MIN_ENTITY_CONFIDENCE).collect())
}

/// The findings of a transcript without overlaps.
///
/// # Errors
/// As [`Tagger::tag`].
pub fn find(words: &[Word], tagger: Option<&dyn Tagger>) -> Result<Vec<Finding>> {
    let turns = turns(words);
    Ok(entities_in(&Reading::new(&turns), &tag(&turns, tagger)?))
}

/// Hides personal words.
///
/// # Errors
/// As [`Tagger::tag`].
pub fn redact(words: &[Word], redaction: &Redaction, tagger: Option<&dyn Tagger>) -> Result<Redacted> {
    let turns = turns(words);
    Ok(mask::redact(words, &turns, redaction, &tag(&turns, tagger)?))
}

/// The entities of words that may hold masks.
#[must_use]
pub fn entities(redacted: &Redacted) -> Vec<Entity> {
    let words = &redacted.words;
    let turns = turns(words);
    let reading = Reading::new(&turns);
    let mut entities: Vec<Entity> = Vec::new();
    for finding in entities_in(&reading, &redacted.tagged) {
        let covered = &words[finding.words.clone()];
        let (Some(first), Some(last)) = (covered.first(), covered.last()) else { continue };
        let (start, end) = reading.bounds(&finding.words, finding.label);
        let mut text = text_of(covered);
        text.truncate(text.len() - (last.text.len() - end));
        text.drain(..start);
        let label = finding.label;
        entities.push(Entity { text, label, start: first.start, end: last.end, entity_type: label });
    }
    for &(at, label) in &redacted.hidden {
        let word = &words[at];
        let text = word.text.trim_matches(|mark: char| !matches!(mark, '[' | ']' | '#')).to_owned();
        entities.push(Entity { text, label, start: word.start, end: word.end, entity_type: label });
    }
    entities.sort_by_key(|entity| (entity.start, entity.end));
    entities
}
