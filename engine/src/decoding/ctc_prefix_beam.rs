//! CTC prefix beam search (Graves, 2012; Hannun and others, 2014): a prefix's probability is that of all its
//! alignments.

use std::collections::BTreeMap;

use super::Token;
use super::confidence::confidence;
use super::fusion::{Fusion, FusionState};
use super::rnnt_beam::{Beam, extend_history, log_add, log_softmax};

/// Pruning margin: a token that puts its prefix this far behind the best one is not expanded.
const MARGIN: f32 = 12.0;

#[derive(Clone)]
struct Prefix {
    /// ln P of the alignments that end in a blank, and of those that end in the last token.
    blank: f32,
    label: f32,
    /// Sum of the fusion scores.
    fusion_score: f32,
    tokens: Vec<Token>,
    /// True while the likeliest alignment repeats the last token.
    label_active: bool,
    fusion_state: Option<FusionState>,
}

impl Prefix {
    fn log_prob(&self) -> f32 {
        log_add(self.blank, self.label)
    }

    fn score(&self) -> f32 {
        self.log_prob() + self.fusion_score
    }
}

/// The tokens of the likeliest prefix over frames of `scores`, blank at `blank`.
pub(super) fn search<'s>(scores: impl Iterator<Item = &'s [f32]>, blank: u32, beam: Beam) -> Vec<Token> {
    let fusion_state = beam.fusion.map(Fusion::start);
    let none = f32::NEG_INFINITY;
    let first =
        Prefix { blank: 0.0, label: none, fusion_score: 0.0, tokens: Vec::new(), label_active: false, fusion_state };
    let mut prefixes = vec![(0u64, first)];
    for (frame, scores) in scores.enumerate() {
        let log_probs = log_softmax(scores);
        let confidence = confidence(scores);
        let best = prefixes.iter().map(|(_, prefix)| prefix.score()).fold(none, f32::max);
        let mut next: BTreeMap<u64, Prefix> = BTreeMap::new();
        for (history, prefix) in &prefixes {
            let last = prefix.tokens.last().map(|token| token.id);
            let mut stays = prefix.clone();
            stays.blank = prefix.log_prob() + log_probs[blank as usize];
            stays.label = last.map_or(none, |last| prefix.label + log_probs[last as usize]);
            stays.label_active = prefix.label_active && stays.label > stays.blank;
            if let Some(token) = stays.tokens.last_mut().filter(|_| stays.label_active) {
                token.span += 1;
                token.confidence = token.confidence.max(confidence);
            }
            merge(&mut next, *history, stays);
            for (id, log_prob) in log_probs.iter().enumerate() {
                let id = id as u32;
                // A token after itself needs a blank between them.
                let before = if last == Some(id) { prefix.blank } else { prefix.log_prob() };
                if id == blank || before + prefix.fusion_score + log_prob < best - MARGIN {
                    continue;
                }
                let fused = beam
                    .fusion
                    .zip(prefix.fusion_state.as_ref())
                    .map(|(fusion, fusion_state)| fusion.score(fusion_state, id));
                let (fusion_score, fusion_state) =
                    fused.map_or((0.0, None), |(fusion_score, fusion_state)| (fusion_score, Some(fusion_state)));
                let mut tokens = prefix.tokens.clone();
                tokens.push(Token { id, frame, span: 1, confidence });
                let fusion_score = prefix.fusion_score + fusion_score;
                let grown = Prefix {
                    blank: none,
                    label: before + log_prob,
                    fusion_score,
                    tokens,
                    label_active: true,
                    fusion_state,
                };
                merge(&mut next, extend_history(*history, id), grown);
            }
        }
        prefixes = next.into_iter().collect();
        prefixes.sort_by(|(_, a), (_, b)| b.score().total_cmp(&a.score()));
        prefixes.truncate(beam.width);
    }
    let whole = |prefix: &Prefix| {
        let end = beam
            .fusion
            .zip(prefix.fusion_state.as_ref())
            .map_or(0.0, |(fusion, fusion_state)| fusion.end(fusion_state));
        prefix.score() + end
    };
    let best = prefixes.into_iter().map(|(_, prefix)| prefix).max_by(|a, b| whole(a).total_cmp(&whole(b)));
    best.map(|prefix| prefix.tokens).unwrap_or_default()
}

/// Adds a prefix after this frame: probabilities of equal prefixes add up, the times of the likelier one stay.
fn merge(prefixes: &mut BTreeMap<u64, Prefix>, history: u64, new: Prefix) {
    match prefixes.entry(history) {
        std::collections::btree_map::Entry::Vacant(place) => drop(place.insert(new)),
        std::collections::btree_map::Entry::Occupied(mut place) => {
            let old = place.get_mut();
            let (blank, label) = (log_add(old.blank, new.blank), log_add(old.label, new.label));
            if new.log_prob() > old.log_prob() {
                *old = new;
            }
            (old.blank, old.label) = (blank, label);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probability of every sequence, summed over all alignments.
    fn exhaustive(frames: &[[f32; 3]]) -> BTreeMap<Vec<u32>, f64> {
        let mut sums = BTreeMap::new();
        for alignment in 0..3usize.pow(frames.len() as u32) {
            let labels: Vec<usize> = (0..frames.len()).map(|t| alignment / 3usize.pow(t as u32) % 3).collect();
            let log_prob: f64 = frames.iter().zip(&labels).map(|(f, l)| f64::from(log_softmax(f)[*l])).sum();
            let mut merged = labels.clone();
            merged.dedup();
            let tokens: Vec<u32> = merged.into_iter().filter(|label| *label != 0).map(|label| label as u32).collect();
            *sums.entry(tokens).or_insert(0.0) += log_prob.exp();
        }
        sums
    }

    #[test]
    fn a_wide_beam_finds_the_sequence_that_all_alignments_together_make_likeliest() {
        let mut seed = 1u32;
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) as f32 / 16384.0
        };
        for _ in 0..50 {
            let frames: Vec<[f32; 3]> = (0..6).map(|_| [random(), random(), random()]).collect();
            let sums = exhaustive(&frames);
            let best = sums.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(tokens, _)| tokens.clone()).unwrap();
            let found = search(frames.iter().map(|f| f.as_slice()), 0, Beam { width: 200, fusion: None });
            assert_eq!(found.iter().map(|token| token.id).collect::<Vec<_>>(), best);
        }
    }

    #[test]
    fn a_token_lasts_from_its_first_to_its_last_frame() {
        let sure = |label: usize| [0, 1, 2].map(|at| if at == label { 9.0 } else { 0.0 });
        let frames: Vec<[f32; 3]> = [0, 1, 1, 1, 0, 2, 0].map(sure).to_vec();
        let found = search(frames.iter().map(|f| f.as_slice()), 0, Beam { width: 4, fusion: None });
        assert_eq!(found.iter().map(|t| (t.id, t.frame, t.span)).collect::<Vec<_>>(), [(1, 1, 3), (2, 5, 1)]);
    }
}
