//! Redaction: which runs of words are hidden, and what stands in their place.

use std::ops::Range;

use super::label::Label;
use super::reading::Reading;
use super::{Finding, Turn, find_in, resolve};
use crate::text::Word;

/// Findings below this confidence are shown as entities and never hidden.
pub const MIN_CONFIDENCE: f32 = 0.5;

/// Masking ends with the round that finds nothing more; more rounds than this were never seen.
const MAX_ROUNDS: usize = 8;

/// The replacement of hidden words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Substitution {
    /// The label: `[PERSON_NAME]`.
    #[default]
    EntityName,
    /// A `#` for each character.
    Hash,
}

impl Substitution {
    /// The substitution with this name in the API.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "entity_name" => Some(Self::EntityName),
            "hash" => Some(Self::Hash),
            _ => None,
        }
    }
}

/// The labels that redaction hides, and their replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redaction {
    /// The labels to hide; none for all but plain dates, organisations, countries, amounts, events and languages.
    pub labels: Option<Vec<Label>>,
    /// Their replacement.
    pub substitution: Substitution,
}

impl Redaction {
    /// True if words of this label are hidden.
    pub fn covers(&self, label: Label) -> bool {
        self.labels.as_ref().map_or_else(|| label.is_hidden_by_default(), |labels| labels.contains(&label))
    }

    fn hides(&self, finding: &Finding) -> bool {
        self.covers(finding.label) && finding.confidence >= MIN_CONFIDENCE
    }

    fn mask(&self, label: Label, hidden: &str) -> String {
        match self.substitution {
            Substitution::EntityName => format!("[{}]", label.name()),
            // Two at least: a single one is a mark that speakers use.
            Substitution::Hash => "#".repeat(hidden.chars().filter(|letter| !letter.is_whitespace()).count().max(2)),
        }
    }
}

/// A run of words that redaction hides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// The words.
    pub words: Range<usize>,
    /// Their label.
    pub label: Label,
    /// The hidden part of the first word begins at this byte.
    pub start: usize,
    /// The hidden part of the last word ends at this byte.
    pub end: usize,
}

/// The runs that redaction hides, in order; `forms` has the words that are identifiers as a whole, `tagged` the findings of a
/// tagger in the words.
pub fn hidden_runs(
    words: &[Turn<'_>],
    forms: &[(usize, Label)],
    redaction: &Redaction,
    tagged: &[Finding],
) -> Vec<Hidden> {
    let mut hidden: Vec<Hidden> = Vec::new();
    for _ in 0..MAX_ROUNDS {
        // The words as they are by now, each with the words that it stands for.
        let mut places: Vec<Range<usize>> = Vec::with_capacity(words.len());
        let mut texts: Vec<(String, bool)> = Vec::new();
        let first_round = hidden.is_empty();
        if !first_round {
            let mut at = 0;
            let mut runs = hidden.iter().peekable();
            while at < words.len() {
                match runs.next_if(|run| run.words.start == at) {
                    Some(run) => {
                        texts.push((masked_text(words, run, redaction), words[run.words.end - 1].ends));
                        places.push(run.words.clone());
                        at = run.words.end;
                    }
                    None => {
                        texts.push((words[at].text.to_owned(), words[at].ends));
                        places.push(at..at + 1);
                        at += 1;
                    }
                }
            }
        }
        let turns: Vec<Turn<'_>> = if first_round {
            words.to_vec()
        } else {
            texts.iter().map(|(text, ends)| Turn { text, ends: *ends }).collect()
        };
        let mut reading = Reading::new(&turns);
        if first_round {
            reading.mark(forms);
        }
        let tagged = if first_round { tagged } else { &[] };
        let found = find_in(&reading, tagged).into_iter().filter(|finding| redaction.hides(finding)).collect();
        let mut more: Vec<Hidden> = Vec::new();
        for finding in resolve(&reading, found) {
            let (start, end) = reading.bounds(&finding.words, finding.label);
            let place = if first_round {
                finding.words
            } else {
                places[finding.words.start].start..places[finding.words.end - 1].end
            };
            more.push(Hidden { words: place, label: finding.label, start, end });
        }
        if more.is_empty() {
            break;
        }
        hidden.extend(more);
        hidden.sort_by_key(|run| run.words.start);
        hidden = joined(hidden, words);
    }
    hidden
}

/// Runs of one label that nothing separates are one.
fn joined(hidden: Vec<Hidden>, words: &[Turn<'_>]) -> Vec<Hidden> {
    let mut joined: Vec<Hidden> = Vec::with_capacity(hidden.len());
    for run in hidden {
        match joined.last_mut() {
            Some(last)
                if last.label == run.label
                    && last.words.end == run.words.start
                    && last.end == words[last.words.end - 1].text.len()
                    && run.start == 0
                    && !words[last.words.end - 1].ends =>
            {
                last.words.end = run.words.end;
                last.end = run.end;
            }
            _ => joined.push(run),
        }
    }
    joined
}

/// The mask of a run with the punctuation around it.
fn masked_text(words: &[Turn<'_>], run: &Hidden, redaction: &Redaction) -> String {
    let (first, last) = (words[run.words.start].text, words[run.words.end - 1].text);
    let mut hidden = String::new();
    if run.words.len() == 1 {
        hidden.push_str(&first[run.start..run.end]);
    } else {
        hidden.push_str(&first[run.start..]);
        words[run.words.start + 1..run.words.end - 1].iter().for_each(|word| hidden.push_str(word.text));
        hidden.push_str(&last[..run.end]);
    }
    format!("{}{}{}", &first[..run.start], redaction.mask(run.label, &hidden), &last[run.end..])
}

/// The text of a mask alone.
pub fn mask_of(text: &str, label: Label, redaction: &Redaction) -> String {
    redaction.mask(label, text)
}

/// Words after redaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Redacted {
    /// The words; a hidden run is one word with the run's times and the least of its confidences.
    pub words: Vec<Word>,
    /// The places of hidden runs in `words`, with their labels.
    pub hidden: Vec<(usize, Label)>,
    /// First and last moment of each hidden run, in ms.
    pub spans_ms: Vec<(u64, u64)>,
    /// The findings of a tagger beside the hidden runs, by the indices of `words`.
    pub tagged: Vec<Finding>,
}

/// Hides words; `tagged` has the findings of a tagger in them.
pub fn redact(words: &[Word], turns: &[Turn<'_>], redaction: &Redaction, tagged: &[Finding]) -> Redacted {
    let runs = hidden_runs(turns, &[], redaction, tagged);
    let mut redacted = Redacted { tagged: beside(&runs, tagged), ..Redacted::default() };
    let mut at = 0;
    for run in runs {
        redacted.words.extend_from_slice(&words[at..run.words.start]);
        let covered = &words[run.words.clone()];
        let Some(first) = covered.first() else { continue };
        let word = Word {
            text: masked_text(turns, &run, redaction),
            end: covered.iter().map(|word| word.end).max().unwrap_or(first.end),
            confidence: covered.iter().map(|word| word.confidence).fold(1.0, f32::min),
            ..first.clone()
        };
        redacted.hidden.push((redacted.words.len(), run.label));
        redacted.spans_ms.push((word.start, word.end));
        redacted.words.push(word);
        at = run.words.end;
    }
    redacted.words.extend_from_slice(&words[at..]);
    redacted
}

/// The findings that no hidden run touches, by the indices of words of which each run is one.
fn beside(runs: &[Hidden], tagged: &[Finding]) -> Vec<Finding> {
    let mut runs = runs.iter().peekable();
    let mut gone = 0;
    let mut kept = Vec::new();
    for finding in tagged {
        while let Some(run) = runs.next_if(|run| run.words.end <= finding.words.start) {
            gone += run.words.len() - 1;
        }
        if runs.peek().is_none_or(|run| finding.words.end <= run.words.start) {
            let words = finding.words.start - gone..finding.words.end - gone;
            kept.push(Finding { words, ..finding.clone() });
        }
    }
    kept
}
