use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};

use super::HarmonicsOps;
use crate::flex::{tensor, values};

impl HarmonicsOps for Flex {
    fn harmonics(
        turns: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        levels: FloatTensor<Self>,
        beside: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let shape = beside.shape();
        let [turns, weights, levels, beside] = values([turns, weights, levels, beside]);
        let span = beside.len() / levels.len();
        let sample = |(at, beside): (usize, &f32)| {
            let place = (2 * at + 1).saturating_sub(span);
            let (value, part) = (place / (2 * span), (place % (2 * span)) as f64 / (2 * span) as f64);
            let turns = turns[value * 2 * weights.len()..].as_chunks::<2>().0;
            let waves = turns.iter().zip(&weights).map(|([start, growth], weight)| {
                let turn = f64::from(*start) + f64::from(*growth) * part;
                weight * (std::f64::consts::TAU * turn.fract()).sin() as f32
            });
            (levels[at / span] * waves.sum::<f32>() + beside).tanh()
        };
        tensor(beside.iter().enumerate().map(sample).collect(), shape)
    }
}
