//! The bodies on the CPU: of slices, and of tensors by them.

use burn::backend::ops::{FloatTensorOps, ModuleOps};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};

use super::NormOps;
use crate::flex::{contiguous, floats, tensor};

const LANES: usize = 16;
/// The epsilon of most published model classes.
pub(crate) const EPSILON: f32 = 1e-5;

impl NormOps for Flex {
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
    ) -> FloatTensor<Self> {
        Self::layer_norm(x, gamma, Some(beta), f64::from(epsilon))
    }

    fn rms_normed_sum(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        epsilon: f32,
        adds: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let sum = contiguous(if adds { Self::float_add(residual, x) } else { residual });
        let gamma = contiguous(gamma);
        let values = floats(&sum);
        let mut normed = vec![0.0; values.len()];
        rms_norm_rows(values, floats(&gamma), epsilon, &mut normed);
        let shape = sum.shape();
        (sum, tensor(normed, shape))
    }
}

/// [`layer_norm`](super::layer_norm) of slices: `x` `[rows, size]` to `out` of the same shape. Runs in the widest vectors the processor has.
///
/// # Panics
/// When the lengths do not match.
pub fn layer_norm_rows(x: &[f32], gamma: &[f32], beta: &[f32], out: &mut [f32]) {
    layer_norm_rows_with(x, gamma, beta, EPSILON, out);
}

/// [`layer_norm_rows`] with another `epsilon`.
///
/// # Panics
/// When the lengths do not match.
pub fn layer_norm_rows_with(x: &[f32], gamma: &[f32], beta: &[f32], epsilon: f32, out: &mut [f32]) {
    let size = gamma.len();
    assert!(
        beta.len() == size && out.len() == x.len() && x.len().is_multiple_of(size),
        "layer norm: lengths of x, gamma, beta and out"
    );
    pulp::Arch::new().dispatch(LayerNorm { x, gamma, beta, epsilon, out });
}

struct LayerNorm<'a> {
    x: &'a [f32],
    gamma: &'a [f32],
    beta: &'a [f32],
    epsilon: f32,
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for LayerNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let size = self.gamma.len();
        for (x, out) in self.x.chunks_exact(size).zip(self.out.chunks_exact_mut(size)) {
            let mean = sum(x, |value| value) / size as f32;
            let variance = sum(x, |value| (value - mean) * (value - mean)) / size as f32;
            let scale = 1.0 / (variance + self.epsilon).sqrt();
            let weights = self.gamma.iter().zip(self.beta);
            for ((out, value), (gamma, beta)) in out.iter_mut().zip(x).zip(weights) {
                *out = (value - mean) * scale * gamma + beta;
            }
        }
    }
}

/// Root-mean-square normalisation of slices: each row of `x` `[rows, size]`, divided by the root of its mean square plus `epsilon`
/// and multiplied by `gamma` `[size]`, goes to `out` of the same shape.
///
/// # Panics
/// When the lengths do not match.
pub fn rms_norm_rows(x: &[f32], gamma: &[f32], epsilon: f32, out: &mut [f32]) {
    assert!(out.len() == x.len() && x.len().is_multiple_of(gamma.len()), "RMS norm: lengths of x, gamma and out");
    pulp::Arch::new().dispatch(RmsNorm { x, gamma, epsilon, out });
}

struct RmsNorm<'a> {
    x: &'a [f32],
    gamma: &'a [f32],
    epsilon: f32,
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for RmsNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let size = self.gamma.len();
        for (x, out) in self.x.chunks_exact(size).zip(self.out.chunks_exact_mut(size)) {
            let scale = 1.0 / (sum(x, |value| value * value) / size as f32 + self.epsilon).sqrt();
            for ((out, value), gamma) in out.iter_mut().zip(x).zip(self.gamma) {
                *out = value * scale * gamma;
            }
        }
    }
}

/// The sum of `of` over all values, in sixteen lanes.
#[inline(always)]
fn sum(x: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0f32; LANES];
    let (lanes, rest) = x.as_chunks::<LANES>();
    for lane in lanes {
        for (sum, value) in sums.iter_mut().zip(lane) {
            *sum += of(*value);
        }
    }
    let mut total = 0.0;
    for value in rest {
        total += of(*value);
    }
    for sum in sums {
        total += sum;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rms_norm_matches_the_definition() {
        for size in [1, 15, 16, 37, 256] {
            let x: Vec<f32> = (0..3 * size).map(|n| (n as f32 * 0.7).sin() * 9.0 + 4.0).collect();
            let gamma: Vec<f32> = (0..size).map(|n| (n as f32 * 1.3).cos()).collect();
            let mut out = vec![0.0; 3 * size];
            rms_norm_rows(&x, &gamma, 1e-3, &mut out);
            for (x, out) in x.chunks_exact(size).zip(out.chunks_exact(size)) {
                let square = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / size as f64;
                for at in 0..size {
                    let exact = f64::from(x[at]) / (square + 1e-3).sqrt() * f64::from(gamma[at]);
                    assert!((f64::from(out[at]) - exact).abs() < 5e-6, "{size}, {at}");
                }
            }
        }
    }

    #[test]
    fn layer_norm_matches_the_definition() {
        for size in [1, 15, 16, 37, 256] {
            let x: Vec<f32> = (0..3 * size).map(|n| (n as f32 * 0.7).sin() * 9.0 + 4.0).collect();
            let gamma: Vec<f32> = (0..size).map(|n| (n as f32 * 1.3).cos()).collect();
            let beta: Vec<f32> = (0..size).map(|n| n as f32 * 0.01).collect();
            let mut out = vec![0.0; 3 * size];
            layer_norm_rows(&x, &gamma, &beta, &mut out);
            for (row, (x, out)) in x.chunks_exact(size).zip(out.chunks_exact(size)).enumerate() {
                let mean = x.iter().copied().map(f64::from).sum::<f64>() / size as f64;
                let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / size as f64;
                for at in 0..size {
                    let exact = (f64::from(x[at]) - mean) / (variance + 1e-5).sqrt() * f64::from(gamma[at]);
                    let error = (f64::from(out[at]) - exact - f64::from(beta[at])).abs();
                    assert!(error < 5e-6, "{size}, row {row}, {at}: {error}");
                }
            }
        }
    }
}
