//! Moderation: sentences about sensitive topics, by word lists. English only.
//!
//! A word counts for a label unless its context makes it harmless: "kill the process" is no crime. Confidence grows with
//! what was found, severity with its density.

mod lists;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::language::primary_subtag;
use crate::text::segments::Segment;
use lists::{ENGLISH, Hit, Lists};

/// Evidence from which a label is given.
const FLAGGED: f64 = 2.0;

/// Weight of the evidence of a neighbouring sentence, for a sentence with evidence of its own.
const NEIGHBOUR: f64 = 0.5;

/// Evidence at which the confidence is one half.
const HALF_SURE: f64 = 1.25;

/// Words of the shortest sentence in which density counts: a single word is not all there is.
const SHORT: f64 = 6.0;

/// Evidence a word at which the severity is 1.
const FULL_DENSITY: f64 = 0.5;

/// Severities below these are low and medium.
const MEDIUM: f64 = 0.33;
const HIGH: f64 = 0.66;

/// A report about a transcript.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SafetyReport {
    /// `success`.
    pub status: &'static str,
    /// The sentences with labels, in order.
    pub results: Vec<FlaggedSentence>,
    /// For each label the highest confidence, 0 to 1.
    pub summary: BTreeMap<&'static str, f64>,
    /// For each label how its sentences are spread over low, medium and high severity.
    pub severity_score_summary: BTreeMap<&'static str, SeverityShares>,
}

/// A sentence with labels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlaggedSentence {
    /// The sentence.
    pub text: String,
    /// Its labels, the surest first.
    pub labels: Vec<SafetyLabel>,
    /// Its place in the audio.
    pub timestamp: Timestamp,
}

/// A label of a sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SafetyLabel {
    /// Name of the topic.
    pub label: &'static str,
    /// 0 to 1.
    pub confidence: f64,
    /// 0 to 1: how dense the topic's words are.
    pub severity: f64,
}

/// A place in the audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Timestamp {
    /// First moment, ms.
    pub start: u64,
    /// Last moment, ms.
    pub end: u64,
}

/// Shares of sentences by severity; their sum is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SeverityShares {
    /// Below a third.
    pub low: f64,
    /// Up to two thirds.
    pub medium: f64,
    /// Above.
    pub high: f64,
}

/// True if there are lists for the language, `en` or `en_us` say.
#[must_use]
pub fn has_lists(language: &str) -> bool {
    primary_subtag(language) == "en"
}

/// The report about the sentences of a transcript, or none if no sentence gets a label. For languages without lists
/// ([`has_lists`]) it has no meaning.
#[must_use]
pub fn moderate(sentences: &[Segment<'_>]) -> Option<SafetyReport> {
    let lists: &Lists = &ENGLISH;
    let read: Vec<_> = sentences.iter().map(Segment::plain_words).collect();
    let mut stems_of: HashMap<&str, String> = HashMap::new();
    let hits: Vec<Vec<Hit>> = read
        .iter()
        .map(|words| {
            let words = words.iter().flat_map(|word| word.text.split([' ', '-']));
            let stems = words.map(|word| stems_of.entry(word).or_insert_with(|| lists.stem(word)).clone());
            let stems: Vec<String> = stems.filter(|stem| !stem.is_empty()).collect();
            lists.hits(&stems)
        })
        .collect();
    let results: Vec<FlaggedSentence> = sentences
        .iter()
        .enumerate()
        .filter_map(|(at, sentence)| {
            let labels = labels(&hits, at, sentence.words.len());
            (!labels.is_empty()).then(|| FlaggedSentence {
                text: sentence.text.clone(),
                labels,
                timestamp: Timestamp { start: sentence.start, end: sentence.end },
            })
        })
        .collect();
    (!results.is_empty()).then(|| report(results))
}

/// The labels of the sentence at `at` of `words` words.
fn labels(hits: &[Vec<Hit>], at: usize, words: usize) -> Vec<SafetyLabel> {
    let sum =
        |hits: &[Hit], label: &str| -> f64 { hits.iter().filter(|hit| hit.label == label).map(|hit| hit.weight).sum() };
    let mut labels: Vec<SafetyLabel> = Vec::new();
    for hit in &hits[at] {
        if labels.iter().any(|known| known.label == hit.label) {
            continue;
        }
        let own = sum(&hits[at], hit.label);
        let neighbours = [at.checked_sub(1), Some(at + 1)].into_iter().flatten().filter_map(|place| hits.get(place));
        let beside = neighbours.map(|hits| sum(hits, hit.label)).fold(0.0, f64::max);
        let evidence = own + NEIGHBOUR * beside;
        if evidence >= FLAGGED {
            let density = own / (words as f64).max(SHORT);
            labels.push(SafetyLabel {
                label: hit.label,
                confidence: rounded(1.0 - 0.5_f64.powf(evidence / HALF_SURE)),
                severity: rounded((density / FULL_DENSITY).min(1.0)),
            });
        }
    }
    labels.sort_by(|a, b| b.confidence.total_cmp(&a.confidence).then(a.label.cmp(b.label)));
    labels
}

/// Three decimals, enough for a score.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn report(results: Vec<FlaggedSentence>) -> SafetyReport {
    let mut summary: BTreeMap<&'static str, f64> = BTreeMap::new();
    let mut counts: BTreeMap<&'static str, [usize; 3]> = BTreeMap::new();
    for label in results.iter().flat_map(|result| &result.labels) {
        let surest = summary.entry(label.label).or_insert(0.0);
        *surest = surest.max(label.confidence);
        let level = usize::from(label.severity >= MEDIUM) + usize::from(label.severity >= HIGH);
        counts.entry(label.label).or_default()[level] += 1;
    }
    let severity_score_summary = counts
        .into_iter()
        .map(|(label, counts)| {
            let total = counts.iter().sum::<usize>() as f64;
            let [low, medium, high] = counts.map(|count| rounded(count as f64 / total));
            (label, SeverityShares { low, medium, high })
        })
        .collect();
    SafetyReport { status: "success", results, summary, severity_score_summary }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Word;
    use crate::text::segments::sentences;

    fn report_of(text: &str) -> Option<SafetyReport> {
        let words: Vec<Word> = text
            .split_whitespace()
            .enumerate()
            .map(|(at, text)| Word {
                text: text.into(),
                start: at as u64 * 300,
                end: at as u64 * 300 + 250,
                confidence: 0.9,
                speaker: None,
                speaker_name: None,
                channel: None,
            })
            .collect();
        moderate(&sentences(&words))
    }

    #[test]
    fn harmless_sentences_stay_clean() {
        let text = include_str!("../../../../../tests/fixtures/moderation/harmless.txt");
        let flagged: Vec<_> = text.lines().filter_map(|line| Some((line, report_of(line)?.summary))).collect();
        assert!(flagged.is_empty(), "{flagged:#?}");
    }

    #[test]
    fn flagged_sentences_get_their_labels() {
        let text = include_str!("../../../../../tests/fixtures/moderation/flagged.tsv");
        let rows = text.lines().filter_map(|line| line.split_once('\t'));
        let has = |label: &str, line: &str| report_of(line).is_some_and(|report| report.summary.contains_key(label));
        let missed: Vec<_> = rows.filter(|(label, line)| !has(label, line)).collect();
        assert!(missed.is_empty(), "{missed:#?}");
    }

    #[test]
    fn the_report_has_the_fields_of_the_contract() {
        let report = report_of("We met at nine. The suspect stabbed a man.").unwrap();
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["status"], "success");
        assert_eq!(json["results"][0]["text"], "The suspect stabbed a man.");
        assert_eq!(json["results"][0]["labels"][0]["label"], "crime_violence");
        assert_eq!(json["results"][0]["timestamp"], serde_json::json!({"start": 1200, "end": 2650}));
        let shares = &json["severity_score_summary"]["crime_violence"];
        let sum: f64 = ["low", "medium", "high"].iter().map(|level| shares[level].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 0.01 && json["summary"]["crime_violence"].as_f64().unwrap() > 0.5);
    }

    #[test]
    fn density_makes_severity() {
        let severity = |text: &str| report_of(text).unwrap().results[0].labels[0].severity;
        assert!(severity("Rifles and pistols.") > severity("Somewhere behind the old wooden barn they found a rifle."));
    }

    #[test]
    fn nothing_and_scripts_without_spaces_have_no_report() {
        assert_eq!(report_of(""), None);
        assert_eq!(report_of("今日はとても良い天気です。"), None);
    }
}
