//! Lexical cohesion: how much the words before a place have in common with those after it.

use std::collections::BTreeMap;

use super::super::terms::Terms;

/// Words of a block: similarities are known at the ends of blocks.
const BLOCK: usize = 50;

/// Blocks on each side that are compared, with the weights of their similarity and of its depth: how far it lies below the
/// highest similarities on both sides.
const WINDOWS: [(usize, f64, f64); 2] = [(4, -1.5, 0.0), (8, -4.4, 2.9)];

/// The score of a new topic at each end of a block, by the document's cohesion.
pub(super) struct Cohesion {
    scores: Vec<f64>,
}

impl Cohesion {
    /// `first_word`: place of each sentence's first word.
    pub(super) fn new(terms: &Terms, first_word: &[usize]) -> Self {
        let mut blocks: Vec<BTreeMap<u32, f64>> = Vec::new();
        for (sentence, first) in terms.sentences.iter().zip(first_word) {
            for term in sentence {
                let block = (first + term.first as usize) / BLOCK;
                if blocks.len() <= block {
                    blocks.resize(block + 1, BTreeMap::new());
                }
                *blocks[block].entry(term.stem).or_insert(0.0) += 1.0;
            }
        }
        let mut blocks_with = vec![0.0_f64; terms.stems];
        blocks.iter().flat_map(BTreeMap::keys).for_each(|stem| blocks_with[*stem as usize] += 1.0);
        let rarity: Vec<f64> =
            blocks_with.iter().map(|with| ((blocks.len() as f64 + 1.0) / with.max(1.0)).ln()).collect();
        let mut scores = vec![0.0; blocks.len() + 1];
        for (width, weight, depth_weight) in WINDOWS {
            let similar = similarities(&blocks, &rarity, width);
            for (at, score) in scores.iter_mut().enumerate() {
                let highest = |side: &[f64]| side.iter().copied().fold(0.0, f64::max);
                let before = highest(&similar[at.saturating_sub(width)..=at]);
                let after = highest(&similar[at..=(at + width).min(blocks.len())]);
                *score += weight * similar[at] + depth_weight * (before + after - 2.0 * similar[at]);
            }
        }
        Self { scores }
    }

    /// The weighted similarities at a word.
    pub(super) fn score(&self, word: usize) -> f64 {
        let last = self.scores.len() - 1;
        self.scores[((word + BLOCK / 2) / BLOCK).min(last)]
    }
}

/// Cosine of the terms of `width` blocks before each end of a block and of those after it, 0 to 1; the document's start
/// and end are ends too.
fn similarities(blocks: &[BTreeMap<u32, f64>], rarity: &[f64], width: usize) -> Vec<f64> {
    let mut before = Window::new(rarity);
    let mut after = Window::new(rarity);
    (0..=blocks.len())
        .map(|at| {
            before.fill(&blocks[at.saturating_sub(width)..at]);
            after.fill(&blocks[at..(at + width).min(blocks.len())]);
            let dot: f64 = before.stems.iter().map(|stem| before.value(*stem) * after.value(*stem)).sum();
            dot / (before.norm() * after.norm()).max(f64::EPSILON)
        })
        .collect()
}

/// The terms of some blocks as a vector.
struct Window<'a> {
    rarity: &'a [f64],
    counts: Vec<f64>,
    /// The stems that it has.
    stems: Vec<u32>,
}

impl<'a> Window<'a> {
    fn new(rarity: &'a [f64]) -> Self {
        Self { rarity, counts: vec![0.0; rarity.len()], stems: Vec::new() }
    }

    fn fill(&mut self, blocks: &[BTreeMap<u32, f64>]) {
        self.stems.drain(..).for_each(|stem| self.counts[stem as usize] = 0.0);
        for (stem, count) in blocks.iter().flatten() {
            if self.counts[*stem as usize] == 0.0 {
                self.stems.push(*stem);
            }
            self.counts[*stem as usize] += count;
        }
    }

    fn value(&self, stem: u32) -> f64 {
        self.counts[stem as usize].sqrt() * self.rarity[stem as usize]
    }

    fn norm(&self) -> f64 {
        self.stems.iter().map(|stem| self.value(*stem).powi(2)).sum::<f64>().sqrt()
    }
}
