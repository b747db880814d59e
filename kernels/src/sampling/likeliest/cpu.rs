//! The body on the CPU: a row at a time.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};

use super::LikeliestOps;
use crate::flex::{contiguous, floats, tensor};

/// As [`likeliest`](super::likeliest) for a row on the CPU.
pub fn likeliest_of(scores: &[f32]) -> Option<usize> {
    let mut best: Option<(usize, f32)> = None;
    for (at, score) in scores.iter().enumerate() {
        if score.is_finite() && best.is_none_or(|(_, best)| *score > best) {
            best = Some((at, *score));
        }
    }
    best.map(|(at, _)| at)
}

impl LikeliestOps for Flex {
    fn likeliest_of_rows(scores: FloatTensor<Self>) -> FloatTensor<Self> {
        let [rows, tokens] = [scores.shape()[0], scores.shape()[1]];
        let scores = contiguous(scores);
        let scores = floats(&scores);
        let places = scores.chunks_exact(tokens.max(1)).map(|row| likeliest_of(row).map_or(-1.0, |at| at as f32));
        tensor(places.collect(), [rows, 1].into())
    }
}
