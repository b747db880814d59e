//! Chapters: where a transcript's topic changes, and what each part is about.
//!
//! A sentence begins a chapter by four signs: the words before it and after it have little in common (lexical cohesion, as in
//! TextTiling, Hearst 1997), other people speak, someone begins to speak at length, and what he says at first ("let's move on
//! to"). Chapters grow with the recording, as its topics do, so their number grows with the root of its length.

mod cohesion;
mod cues;

use serde::Serialize;

use super::central_sentences::{central_sentences, readable};
use super::phrases::best_phrases;
use super::terms::Terms;
use crate::language::primary_subtag;
use crate::text::segments::Segment;
use cohesion::Cohesion;
use cues::Cues;

/// A sentence begins a chapter only if its score is at least this.
const THRESHOLD: f64 = -3.0;

/// Chapters for the root of the number of words: 2 for 4,500 words, 4 for 20,000.
const CHAPTERS: f64 = 0.03;

/// Least words of a chapter, for the root of the number of words: 540 of 4,500, 1,100 of 20,000.
const LEAST_WORDS: f64 = 8.0;

/// Weights of the signs, from a logistic regression on meetings with known topics; the pause's by hand.
const BIAS: f64 = -7.1;
const TURN: f64 = 0.66;
const SPEAKERS_NEAR: f64 = 0.64;
const SPEAKERS_FAR: f64 = 0.53;
const PAUSE: f64 = 0.6;

/// Penalty of a sentence that continues a turn: most topics begin with a turn.
const WITHIN_TURN: f64 = 1.5;

/// Words of the turn that is assumed where speakers are not known.
const TYPICAL_TURN: f64 = 26.0;

/// Words on each side that are compared for their speakers.
const NEAR: usize = 150;
const FAR: usize = 400;

/// A pause counts from here on, and no more beyond this, s.
const PAUSES_S: (f64, f64) = (0.8, 5.0);

/// Most words of a chapter's summary.
const SUMMARY_WORDS: usize = 40;

/// A part of a transcript about one topic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chapter {
    /// Its topic in a few words.
    pub gist: String,
    /// Its topics.
    pub headline: String,
    /// The sentences that stand best for it.
    pub summary: String,
    /// First moment, ms.
    pub start: u64,
    /// Last moment, ms.
    pub end: u64,
}

/// The chapters of a transcript, in order; none if it has nothing to say.
#[must_use]
pub fn chapters(sentences: &[Segment<'_>], language: &str) -> Vec<Chapter> {
    let terms = Terms::new(sentences, language);
    if terms.sentences.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let mut starts = chapter_starts(sentences, &terms, language);
    starts.push(sentences.len());
    let mut first = 0;
    starts
        .into_iter()
        .map(|end| {
            let part = first..end;
            first = end;
            let phrases = best_phrases(sentences, &terms, part.clone(), 3);
            let central = central_sentences(sentences, &terms, part.clone(), &[], SUMMARY_WORDS);
            let texts: Vec<String> = central.into_iter().map(|at| readable(&sentences[at], language)).collect();
            Chapter {
                gist: phrases.first().cloned().unwrap_or_default(),
                headline: phrases.join(", "),
                summary: texts.join(" "),
                start: sentences[part.start].start,
                end: sentences[part].iter().map(|sentence| sentence.end).max().unwrap_or(0),
            }
        })
        .collect()
}

/// The sentences with which chapters begin, but for the first, in order.
fn chapter_starts(sentences: &[Segment<'_>], terms: &Terms, language: &str) -> Vec<usize> {
    let words: usize = sentences.iter().map(|sentence| sentence.words.len()).sum();
    let most = (CHAPTERS * (words as f64).sqrt()).round() as usize;
    if most < 2 {
        return Vec::new();
    }
    let least = (LEAST_WORDS * (words as f64).sqrt()) as usize;
    let signs = Signs::new(sentences, terms, language);
    let mut scored: Vec<(f64, usize)> = (1..sentences.len())
        .filter(|at| signs.first_word[*at] >= least && signs.first_word[*at] + least <= words)
        .map(|at| (signs.score(at), at))
        .filter(|(score, _)| *score >= THRESHOLD)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut chosen: Vec<usize> = Vec::new();
    for (_, at) in scored {
        if chosen.len() + 1 == most {
            break;
        }
        if chosen.iter().all(|other| signs.first_word[*other].abs_diff(signs.first_word[at]) >= least) {
            chosen.push(at);
        }
    }
    chosen.sort_unstable();
    chosen
}

/// The signs of a new chapter in a transcript.
struct Signs<'a, 'b> {
    sentences: &'a [Segment<'b>],
    /// Only in English.
    cues: Option<Cues>,
    /// Place of each sentence's first word.
    first_word: Vec<usize>,
    /// Number of each sentence's speaker; empty where speakers are not known.
    speakers: Vec<usize>,
    /// Words of each sentence's speaker from it on, to the end of the turn.
    turn: Vec<usize>,
    cohesion: Cohesion,
}

impl<'a, 'b> Signs<'a, 'b> {
    fn new(sentences: &'a [Segment<'b>], terms: &Terms, language: &str) -> Self {
        let first_word: Vec<usize> = sentences
            .iter()
            .scan(0, |words, sentence| {
                *words += sentence.words.len();
                Some(*words - sentence.words.len())
            })
            .collect();
        let speakers = speaker_numbers(sentences);
        let mut turn: Vec<usize> = sentences.iter().map(|sentence| sentence.words.len()).collect();
        for at in (1..sentences.len()).rev() {
            // Without speakers all is one turn.
            if speakers.is_empty() || speakers[at] == speakers[at - 1] {
                turn[at - 1] += turn[at];
            }
        }
        Self {
            cohesion: Cohesion::new(terms, &first_word),
            cues: (primary_subtag(language) == "en").then(|| Cues::new(sentences)),
            sentences,
            first_word,
            speakers,
            turn,
        }
    }

    /// Log-odds that a sentence, not the first, begins a chapter.
    fn score(&self, at: usize) -> f64 {
        let mut score = BIAS + self.cohesion.score(self.first_word[at]);
        let pause = self.sentences[at].start.saturating_sub(self.sentences[at - 1].end) as f64 / 1000.0;
        score += PAUSE * (pause.clamp(PAUSES_S.0, PAUSES_S.1) / PAUSES_S.0).ln();
        if self.speakers.is_empty() {
            score += TURN * (1.0 + TYPICAL_TURN).ln();
        } else {
            score += TURN * (1.0 + self.turn[at] as f64).ln();
            score += SPEAKERS_NEAR * self.speaker_change(at, NEAR) + SPEAKERS_FAR * self.speaker_change(at, FAR);
            if self.speakers[at] == self.speakers[at - 1] {
                score -= WITHIN_TURN;
            }
        }
        if let Some(cues) = &self.cues {
            let first = self.first_word[at];
            score += cues.score(first, first + self.turn[at]);
        }
        score
    }

    /// 0 if the same people speak as much in `words` words before a sentence as after it, 1 if none does.
    fn speaker_change(&self, at: usize, words: usize) -> f64 {
        let mut shares: Vec<[f64; 2]> = Vec::new();
        let mut add = |sentence: usize, side: usize, count: usize| {
            let speaker = self.speakers[sentence];
            if shares.len() <= speaker {
                shares.resize(speaker + 1, [0.0; 2]);
            }
            shares[speaker][side] += count as f64;
        };
        for (side, order) in
            [(0, &mut (0..at).rev() as &mut dyn Iterator<Item = usize>), (1, &mut (at..self.speakers.len()))]
        {
            let mut left = words;
            for sentence in order {
                let count = self.sentences[sentence].words.len().min(left);
                add(sentence, side, count);
                left -= count;
                if left == 0 {
                    break;
                }
            }
        }
        let dot: f64 = shares.iter().map(|[before, after]| before * after).sum();
        let norm = |side: usize| shares.iter().map(|share| share[side].powi(2)).sum::<f64>().sqrt();
        1.0 - dot / (norm(0) * norm(1)).max(f64::EPSILON)
    }
}

/// Number of each sentence's speaker in order of appearance; empty if not all are known or there is one.
fn speaker_numbers(sentences: &[Segment<'_>]) -> Vec<usize> {
    let mut labels: Vec<&str> = Vec::new();
    let mut numbers = Vec::with_capacity(sentences.len());
    for sentence in sentences {
        let Some(label) = sentence.speaker() else { return Vec::new() };
        numbers.push(labels.iter().position(|known| *known == label).unwrap_or_else(|| {
            labels.push(label);
            labels.len() - 1
        }));
    }
    if labels.len() > 1 { numbers } else { Vec::new() }
}

#[cfg(test)]
mod tests;
