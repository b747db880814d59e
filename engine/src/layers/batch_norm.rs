//! Batch norms, folded into the convolution before them.

use crate::error::Result;
use crate::weights::Scope;

/// Folds a batch norm after a depthwise convolution into its `weight` `[channels, kernel]` and bias.
///
/// # Errors
/// As [`Scope::values`].
pub fn fold_batch_norm(scope: &Scope, weight: &mut [f32], bias: &mut Option<Vec<f32>>, channels: usize) -> Result<()> {
    const EPSILON: f32 = 1e-5;
    let read = |name: &str| scope.values(name, &[channels]);
    let (gamma, beta) = (read("weight")?, read("bias")?);
    let (mean, variance) = (read("running_mean")?, read("running_var")?);
    scope.ignore("num_batches_tracked");
    let bias = bias.get_or_insert_with(|| vec![0.0; channels]);
    let kernel = weight.len() / channels;
    for channel in 0..channels {
        let scale = gamma[channel] / (variance[channel] + EPSILON).sqrt();
        weight[channel * kernel..][..kernel].iter_mut().for_each(|w| *w *= scale);
        bias[channel] = (bias[channel] - mean[channel]) * scale + beta[channel];
    }
    Ok(())
}
