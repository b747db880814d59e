//! How scores are spread: what their chances, and how sure they are, are told from.

use crate::vectors::exp;

/// The spread of scores (logits), as sums over `e^(score - most)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The largest score.
    pub most: f32,
    /// The sum of the weights.
    pub sum: f32,
    /// The sum of each weight times `score - most`.
    pub weighted: f32,
}

impl Spread {
    /// Of these scores; minus infinity is no chance at all. In the widest vectors the processor has.
    pub fn of(scores: &[f32]) -> Self {
        pulp::Arch::new().dispatch(Of(scores))
    }

    /// The logarithm of the sum of all `e^score`: less it, a score is the logarithm of a chance.
    pub fn log_sum(&self) -> f32 {
        self.most + self.sum.ln()
    }

    /// The entropy of the chances, in nats.
    pub fn entropy(&self) -> f32 {
        self.sum.ln() - self.weighted / self.sum
    }
}

const LANES: usize = 16;

struct Of<'a>(&'a [f32]);

impl pulp::NullaryFnOnce for Of<'_> {
    type Output = Spread;

    #[inline(always)]
    fn call(self) -> Spread {
        let (lanes, rest) = self.0.as_chunks::<LANES>();
        let mut mosts = [f32::NEG_INFINITY; LANES];
        for chunk in lanes {
            for (most, score) in mosts.iter_mut().zip(chunk) {
                *most = if *score > *most { *score } else { *most };
            }
        }
        let mut most = f32::NEG_INFINITY;
        for score in mosts.iter().chain(rest) {
            most = if *score > most { *score } else { most };
        }
        let (mut sums, mut weights) = ([0f32; LANES], [0f32; LANES]);
        for chunk in lanes {
            for ((score, sum), weighted) in chunk.iter().zip(&mut sums).zip(&mut weights) {
                let (weight, less) = weigh(*score, most);
                *sum += weight;
                *weighted += weight * less;
            }
        }
        let (mut sum, mut weighted) = (0f32, 0f32);
        for score in rest {
            let (weight, less) = weigh(*score, most);
            sum += weight;
            weighted += weight * less;
        }
        for (part, more) in sums.iter().zip(&weights) {
            sum += part;
            weighted += more;
        }
        Spread { most, sum, weighted }
    }
}

/// The weight of a score, and how much less than the largest it is; what has no chance weighs next to nothing.
#[inline(always)]
fn weigh(score: f32, most: f32) -> (f32, f32) {
    let less = score - most;
    let less = if less > -87.0 { less } else { -87.0 };
    (exp(less), less)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_that_of_the_definition() {
        for count in [1, 2, 15, 16, 17, 1000] {
            let scores: Vec<f32> = (0..count).map(|n| (n as f32 * 1.7).sin() * 6.0).collect();
            let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let weights = scores.iter().map(|score| f64::from(score - most).exp());
            let sum: f64 = weights.clone().sum();
            let entropy: f64 = weights.map(|weight| -(weight / sum) * (weight / sum).ln()).sum();
            let spread = Spread::of(&scores);
            assert_eq!(spread.most, most);
            assert!((f64::from(spread.log_sum()) - (f64::from(most) + sum.ln())).abs() < 1e-5);
            assert!((f64::from(spread.entropy()) - entropy).abs() < 1e-4, "{count}");
        }
        let only = Spread::of(&[f32::NEG_INFINITY, 3.0, f32::NEG_INFINITY]);
        assert!(only.log_sum() == 3.0 && only.entropy().abs() < 1e-6);
    }
}
