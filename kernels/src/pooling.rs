//! Means and deviations of channels over frames, even or weighted, on the CPU.

use crate::vector_math::exp_or_zero;

/// The mean of each channel over frames and, behind the means, its deviation: `x` `[frames, channels]` to `[2 channels]`. A frame's weight in
/// a channel is the softmax over frames of its score `[frames, channels]`, and without scores all are equal. No variance is below `floor`.
///
/// # Panics
/// When `x` has no frame or no whole number of them, or `scores` another shape.
pub fn mean_and_deviation(x: &[f32], scores: Option<&[f32]>, channels: usize, floor: f32) -> Vec<f32> {
    assert!(!x.is_empty() && x.len().is_multiple_of(channels), "pooling: a whole number of frames");
    assert!(scores.is_none_or(|scores| scores.len() == x.len()), "pooling: a score for each value");
    let mut sums = vec![0.0; 2 * channels];
    let (means, squares) = sums.split_at_mut(channels);
    pulp::Arch::new().dispatch(Accumulate { x, scores, means, squares });
    for (mean, square) in means.iter().zip(squares) {
        *square = (*square - mean * mean).max(floor).sqrt();
    }
    sums
}

struct Accumulate<'a> {
    x: &'a [f32],
    scores: Option<&'a [f32]>,
    /// The weighted means of the values, and of their squares: 0 before.
    means: &'a mut [f32],
    squares: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let channels = self.means.len();
        let mut weights = vec![0f32; channels];
        match self.scores {
            None => {
                weights.fill((self.x.len() / channels) as f32);
                for x in self.x.chunks_exact(channels) {
                    for ((mean, square), x) in self.means.iter_mut().zip(self.squares.iter_mut()).zip(x) {
                        *mean += x;
                        *square += x * x;
                    }
                }
            }
            Some(scores) => {
                let mut largest = vec![f32::NEG_INFINITY; channels];
                for scores in scores.chunks_exact(channels) {
                    for (largest, score) in largest.iter_mut().zip(scores) {
                        *largest = if *score > *largest { *score } else { *largest };
                    }
                }
                for (x, scores) in self.x.chunks_exact(channels).zip(scores.chunks_exact(channels)) {
                    let sums = self.means.iter_mut().zip(self.squares.iter_mut()).zip(&mut weights);
                    for (((mean, square), sum), ((x, score), largest)) in sums.zip(x.iter().zip(scores).zip(&largest)) {
                        let weight = exp_or_zero(score - largest);
                        *sum += weight;
                        *mean += weight * x;
                        *square += weight * x * x;
                    }
                }
            }
        }
        for ((mean, square), weight) in self.means.iter_mut().zip(self.squares.iter_mut()).zip(&weights) {
            *mean /= weight;
            *square /= weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_their_definition() {
        let (frames, channels) = (9, 21);
        let value = |at: usize| ((at * 7919) % 101) as f32 / 10.0 - 5.0;
        let x: Vec<f32> = (0..frames * channels).map(value).collect();
        let scores: Vec<f32> = (0..frames * channels).map(|at| value(3 * at + 1)).collect();
        for given in [None, Some(&scores[..])] {
            let found = mean_and_deviation(&x, given, channels, 1e-5);
            for channel in 0..channels {
                let of = |values: &[f32], frame: usize| f64::from(values[frame * channels + channel]);
                let weight = |frame: usize| given.map_or(1.0, |scores| of(scores, frame).exp());
                let all: f64 = (0..frames).map(weight).sum();
                let mean = (0..frames).map(|frame| weight(frame) / all * of(&x, frame)).sum::<f64>();
                let variance =
                    (0..frames).map(|frame| weight(frame) / all * (of(&x, frame) - mean).powi(2)).sum::<f64>();
                assert!((f64::from(found[channel]) - mean).abs() < 1e-4, "channel {channel}");
                assert!((f64::from(found[channels + channel]) - variance.sqrt()).abs() < 1e-3, "channel {channel}");
            }
        }
        assert_eq!(mean_and_deviation(&[2.0, 2.0], None, 1, 1e-4), [2.0, 1e-2]);
    }
}
