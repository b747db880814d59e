//! The sentences that stand best for a part of a transcript, and their text as one would write it.
//!
//! A sentence counts by the frequent terms that it has and the chosen ones do not, for its length, as in SumBasic (Nenkova and
//! Vanderwende, 2005); sentences near the start count more.

use std::ops::Range;

use super::phrases::capitalised;
use super::terms::Terms;
use crate::language::primary_subtag;
use crate::text::quote_marks::plain;
use crate::text::segments::Segment;
use crate::text::sentence_boundaries::is_spaced;

/// A summary has at most one in this number of words.
const SHARE: usize = 4;

/// Words of sentences that can stand for others; shorter and longer ones only where there are no such.
const LENGTHS: Range<usize> = 8..41;

/// Terms that such a sentence has at least.
const TERMS: usize = 3;

/// Weight that is left to a term once the summary has it.
const REPEATED: f64 = 0.6;

/// The first sentence counts this much more; those after it less, down to a third at this share of the document.
const START: f64 = 1.0;
const START_SHARE: f64 = 0.05;

/// Weight of a question: few say what a talk was about.
const QUESTION: f64 = 0.6;

/// Exponents of a term's frequency and of its rarity, and of a sentence's length.
const FREQUENCY: f64 = 0.5;
const RARITY: f64 = 0.25;
const LENGTH: f64 = 0.75;

/// English sounds and words that have no meaning: anywhere, and at the start of a sentence.
const FILLERS: [&str; 9] = ["um", "uh", "uhm", "erm", "er", "hmm", "mm", "mhm", "mm-hmm"];
const STARTERS: [&str; 13] =
    ["okay", "ok", "so", "well", "yeah", "yep", "and", "but", "right", "alright", "now", "like", "anyway"];

/// The sentences of `part` that stand best for all of it, in order: up to `words` words and a quarter of the part, at
/// least one if any has a term. A sentence near one of `starts` counts more, as the first does.
pub(super) fn central_sentences(
    sentences: &[Segment<'_>],
    terms: &Terms,
    part: Range<usize>,
    starts: &[usize],
    words: usize,
) -> Vec<usize> {
    let length = |at: usize| sentences[at].words.len();
    let total: usize = part.clone().map(length).sum();
    let budget = words.min(total / SHARE);
    let mut frequency = vec![0.0_f64; terms.stems];
    part.clone().flat_map(|at| &terms.sentences[at]).for_each(|term| frequency[term.stem as usize] += 1.0);
    let weights: Vec<f64> = terms
        .sentence_frequencies()
        .into_iter()
        .zip(frequency)
        .map(|(sentences_with, frequency)| {
            let rarity = (terms.sentences.len() as f64 / f64::from(sentences_with.max(1))).ln();
            frequency.powf(FREQUENCY) * rarity.max(0.0).powf(RARITY)
        })
        .collect();
    let distinct = |at: usize| {
        let mut stems: Vec<usize> = terms.sentences[at].iter().map(|term| term.stem as usize).collect();
        stems.sort_unstable();
        stems.dedup();
        stems
    };
    let all: Vec<(usize, Vec<usize>)> =
        part.clone().map(|at| (at, distinct(at))).filter(|(_, stems)| !stems.is_empty()).collect();
    let fitting = |(at, stems): &&(usize, Vec<usize>)| LENGTHS.contains(&length(*at)) && stems.len() >= TERMS;
    let some_fit = all.iter().any(|candidate| fitting(&candidate));
    let mut left: Vec<&(usize, Vec<usize>)> = all.iter().filter(|candidate| !some_fit || fitting(candidate)).collect();
    let near_start = |at: usize| {
        let start =
            starts.iter().copied().filter(|start| part.contains(start) && *start <= at).max().unwrap_or(part.start);
        START * (-((at - start) as f64) / (START_SHARE * part.len() as f64 + 1.0)).exp()
    };
    let asks = |at: usize| sentences[at].text.ends_with(['?', '\u{ff1f}', '\u{61f}']);
    let kind = |at: usize| if asks(at) { QUESTION } else { 1.0 };
    let place: Vec<f64> =
        part.clone().map(|at| kind(at) * (1.0 + near_start(at)) / (length(at) as f64).powf(LENGTH)).collect();
    let mut worth = weights;
    let mut chosen: Vec<usize> = Vec::new();
    let mut used = 0;
    while chosen.is_empty() || used < budget {
        let value =
            |at: usize, stems: &[usize]| stems.iter().map(|stem| worth[*stem]).sum::<f64>() * place[at - part.start];
        let best = left.iter().enumerate().map(|(index, (at, stems))| (value(*at, stems), index));
        let Some((_, index)) = best.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))) else { break };
        let (at, stems) = left.remove(index);
        stems.iter().for_each(|stem| worth[*stem] *= REPEATED);
        used += length(*at);
        chosen.push(*at);
    }
    chosen.sort_unstable();
    chosen
}

/// The sentence as one would write it: in English without fillers, with a capital.
pub(super) fn readable(sentence: &Segment<'_>, language: &str) -> String {
    if primary_subtag(language) != "en" {
        return capitalised(&sentence.text);
    }
    let mut text = String::new();
    for word in sentence.words {
        let bare = plain(&word.text).trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase();
        if FILLERS.contains(&bare.as_str()) || (text.is_empty() && STARTERS.contains(&bare.as_str())) {
            continue;
        }
        if !text.is_empty() && is_spaced(&text, &word.text) {
            text.push(' ');
        }
        text.push_str(&word.text);
    }
    if text.is_empty() { capitalised(&sentence.text) } else { capitalised(&text) }
}
