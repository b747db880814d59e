//! Confidence of a model in its tokens.

use auricle_kernels::sampling::SoftmaxStats;

/// One minus the normalised entropy of the distribution that `scores` (logits) stand for.
pub fn confidence(scores: &[f32]) -> f32 {
    confidence_of(&SoftmaxStats::of(scores), scores.len())
}

/// [`confidence`] from the softmax statistics of `count` scores.
pub fn confidence_of(stats: &SoftmaxStats, count: usize) -> f32 {
    (1.0 - stats.entropy() / (count as f32).ln()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_is_one_for_a_sure_and_zero_for_an_even_distribution() {
        assert!(confidence(&[0.0, 60.0, 0.0, 0.0]) > 0.999);
        assert!(confidence(&[1.5; 8]) < 1e-6);
        assert_eq!(confidence(&[0.0, f32::NEG_INFINITY, f32::NEG_INFINITY]), 1.0);
        let (less, more) = (confidence(&[0.0, 1.0, 0.0]), confidence(&[0.0, 3.0, 0.0]));
        assert!(less < more, "{less} {more}");
    }
}
