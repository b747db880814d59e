//! The phrases that tell best what a part of a document is about.

use std::collections::HashMap;
use std::ops::Range;

use super::terms::{Term, Terms};
use crate::text::quote_marks::is_typographic;
use crate::text::segments::Segment;
use crate::text::sentence_boundaries::is_spaced;

/// Most terms of a phrase.
const TERMS: usize = 3;

/// Weight of a phrase of one, two or three terms: longer ones say more.
const LENGTHS: [f64; TERMS] = [1.0, 2.0, 2.4];

struct Candidate {
    count: u32,
    /// Its first place: sentence, first word, last word.
    place: (usize, u32, u32),
}

/// Up to `count` phrases of the sentences in `part`, the best first; no two share a term.
///
/// A phrase counts by how often it occurs, and by how much oftener its terms occur in the part than in the document.
pub(super) fn best_phrases(sentences: &[Segment<'_>], terms: &Terms, part: Range<usize>, count: usize) -> Vec<String> {
    let weights = weights(terms, &part);
    let mut candidates: HashMap<[u32; TERMS], Candidate> = HashMap::new();
    for at in part {
        let sentence = &terms.sentences[at];
        for (first, term) in sentence.iter().enumerate() {
            let mut stems = [u32::MAX; TERMS];
            let mut last: Option<&Term> = None;
            for (place, next) in sentence[first..].iter().take(TERMS).enumerate() {
                if last.is_some_and(|last| !follows(&sentences[at], last, next) || stems[..place].contains(&next.stem))
                {
                    break;
                }
                stems[place] = next.stem;
                let new = Candidate { count: 0, place: (at, term.first, next.last) };
                candidates.entry(stems).or_insert(new).count += 1;
                last = Some(next);
            }
        }
    }
    let mut scored: Vec<(f64, [u32; TERMS], Candidate)> = candidates
        .into_iter()
        // Two words side by side once may be chance.
        .filter(|(stems, candidate)| stems[1] == u32::MAX || candidate.count > 1)
        .map(|(stems, candidate)| {
            let known = stems.iter().filter(|stem| **stem != u32::MAX);
            let length = known.clone().count();
            let mean = known.map(|stem| weights[*stem as usize]).sum::<f64>() / length as f64;
            let score = (f64::from(candidate.count) * mean).sqrt() * LENGTHS[length - 1];
            (score, stems, candidate)
        })
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.place.cmp(&b.2.place)));
    let mut used = Vec::new();
    let mut phrases = Vec::new();
    for (_, stems, candidate) in scored {
        if phrases.len() == count {
            break;
        }
        if stems.iter().any(|stem| *stem != u32::MAX && used.contains(stem)) {
            continue;
        }
        used.extend(stems.iter().filter(|stem| **stem != u32::MAX));
        let (sentence, first, last) = candidate.place;
        phrases.push(written(&sentences[sentence], first..last + 1));
    }
    phrases
}

/// Weight of each stem in a part: its frequency there, times how much oftener it is there than in the document.
fn weights(terms: &Terms, part: &Range<usize>) -> Vec<f64> {
    let count = |sentences: &[Vec<Term>]| {
        let mut counts = vec![0.0_f64; terms.stems];
        sentences.iter().flatten().for_each(|term| counts[term.stem as usize] += 1.0);
        counts
    };
    let total = |counts: &[f64]| counts.iter().sum::<f64>().max(1.0);
    let inside = count(&terms.sentences[part.clone()]);
    let everywhere = count(&terms.sentences);
    let (all_inside, all) = (total(&inside), total(&everywhere));
    inside
        .iter()
        .zip(&everywhere)
        .map(|(inside, everywhere)| inside * (1.0 + (inside / all_inside) / (everywhere / all).max(f64::EPSILON)).ln())
        .collect()
}

/// True if no word and no mark stands between two terms.
fn follows(sentence: &Segment<'_>, last: &Term, next: &Term) -> bool {
    let marked = || sentence.words[last.last as usize].text.ends_with(is_mark);
    next.first <= last.last || (next.first == last.last + 1 && !marked())
}

/// The words without the marks around them, with a capital.
fn written(sentence: &Segment<'_>, words: Range<u32>) -> String {
    let mut text = String::new();
    for word in &sentence.words[words.start as usize..words.end as usize] {
        if !text.is_empty() && is_spaced(&text, &word.text) {
            text.push(' ');
        }
        text.push_str(&word.text);
    }
    capitalised(text.trim_matches(is_mark))
}

fn is_mark(character: char) -> bool {
    !character.is_alphanumeric() || is_typographic(character)
}

/// The text with a capital at its start.
pub(super) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
