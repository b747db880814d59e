//! Log-sum-exp and entropy of logits, in one pass after their maximum.

use crate::vector_math::exp;

/// Sums of the softmax of one row of logits, each logit taken relative to the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SoftmaxStats {
    /// The largest logit.
    pub max: f32,
    /// The sum of `e^(logit - max)`.
    pub sum: f32,
    /// The sum of `e^(logit - max) * (logit - max)`.
    pub weighted_sum: f32,
}

impl SoftmaxStats {
    /// The statistics of `logits`; minus infinity means probability 0. Runs in the widest vectors the processor has.
    pub fn of(logits: &[f32]) -> Self {
        pulp::Arch::new().dispatch(Accumulate(logits))
    }

    /// The logarithm of the sum of all `e^logit`. A logit minus this value is a log probability.
    pub fn log_sum(&self) -> f32 {
        self.max + self.sum.ln()
    }

    /// The entropy of the probabilities, in nats.
    pub fn entropy(&self) -> f32 {
        self.sum.ln() - self.weighted_sum / self.sum
    }
}

const LANES: usize = 16;

struct Accumulate<'a>(&'a [f32]);

impl pulp::NullaryFnOnce for Accumulate<'_> {
    type Output = SoftmaxStats;

    #[inline(always)]
    fn call(self) -> SoftmaxStats {
        let max = crate::vector_math::max(self.0);
        let (lanes, rest) = self.0.as_chunks::<LANES>();
        let (mut sums, mut weighted_sums) = ([0f32; LANES], [0f32; LANES]);
        for chunk in lanes {
            for ((logit, sum), weighted_sum) in chunk.iter().zip(&mut sums).zip(&mut weighted_sums) {
                let (weight, relative) = weight(*logit, max);
                *sum += weight;
                *weighted_sum += weight * relative;
            }
        }
        let (mut sum, mut weighted_sum) = (0f32, 0f32);
        for logit in rest {
            let (weight, relative) = weight(*logit, max);
            sum += weight;
            weighted_sum += weight * relative;
        }
        for (lane_sum, lane_weighted_sum) in sums.iter().zip(&weighted_sums) {
            sum += lane_sum;
            weighted_sum += lane_weighted_sum;
        }
        SoftmaxStats { max, sum, weighted_sum }
    }
}

/// `e^(logit - max)` and `logit - max`. The difference is held at -87, so that masked logits weigh next to nothing.
#[inline(always)]
fn weight(logit: f32, max: f32) -> (f32, f32) {
    let relative = logit - max;
    let relative = if relative > -87.0 { relative } else { -87.0 };
    (exp(relative), relative)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_match_the_definition() {
        for count in [1, 2, 15, 16, 17, 1000] {
            let logits: Vec<f32> = (0..count).map(|n| (n as f32 * 1.7).sin() * 6.0).collect();
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let weights = logits.iter().map(|logit| f64::from(logit - max).exp());
            let sum: f64 = weights.clone().sum();
            let entropy: f64 = weights.map(|weight| -(weight / sum) * (weight / sum).ln()).sum();
            let stats = SoftmaxStats::of(&logits);
            assert_eq!(stats.max, max);
            assert!((f64::from(stats.log_sum()) - (f64::from(max) + sum.ln())).abs() < 1e-5);
            assert!((f64::from(stats.entropy()) - entropy).abs() < 1e-4, "{count}");
        }
        let only = SoftmaxStats::of(&[f32::NEG_INFINITY, 3.0, f32::NEG_INFINITY]);
        assert!(only.log_sum() == 3.0 && only.entropy().abs() < 1e-6);
    }
}
