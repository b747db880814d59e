//! Weights of 32 bits to 8: runs of 64 inputs of an output, each with a scale.

use half::f16;

use super::{WeightRun, int8_scale};

/// Weights of a run.
const RUN: usize = 64;

/// A run of weights in 8 bits.
#[derive(Clone, Copy, Debug)]
pub struct EightBitRun {
    numbers: [i8; RUN],
    scale: f32,
}

impl EightBitRun {
    /// Weights of a run.
    pub const WEIGHTS: usize = RUN;
    /// The least number.
    pub const LOWEST: i8 = -127;

    /// The runs of one output's weights, whose number is a multiple of [`EightBitRun::WEIGHTS`].
    pub fn row(weights: &[f32]) -> Vec<Self> {
        let (runs, _) = weights.as_chunks::<RUN>();
        runs.iter().map(Self::new).collect()
    }

    fn new(weights: &[f32; RUN]) -> Self {
        let (exact, _) = int8_scale(weights);
        // Numbers are chosen for the scale as it is stored.
        let half = f16::from_f32(exact);
        let scale = if half.is_normal() { half.to_f32() } else { exact };
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        Self { numbers: weights.map(|weight| (weight * inverse).round().max(f32::from(Self::LOWEST)) as i8), scale }
    }

    /// The run as matrices take it.
    pub fn weights(&self) -> WeightRun<'_> {
        WeightRun { numbers: &self.numbers, scale: self.scale, minimum: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each weight is within half a step of its run's scale, also where the scale is too small for 16 bits.
    #[test]
    fn weights_are_within_half_a_step() {
        for size in [1.0, 1e-3, 1e-9, 0.0] {
            let weights: Vec<f32> = (0..2 * RUN).map(|at| size * ((at * 37 % 101) as f32 / 50.0 - 1.0)).collect();
            let runs = EightBitRun::row(&weights);
            assert_eq!(runs.len(), 2);
            for (run, weights) in runs.iter().zip(weights.chunks(RUN)) {
                assert!(run.numbers.iter().all(|number| *number >= EightBitRun::LOWEST));
                for (number, weight) in run.numbers.iter().zip(weights) {
                    let off = (f32::from(*number) * run.scale - weight).abs();
                    assert!(off <= 0.57 * run.scale, "{size}: {off} of {}", run.scale);
                }
            }
        }
    }
}
