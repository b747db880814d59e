//! Layer and root-mean-square normalisation.
//!
//! On GPUs it is one launch with a cube per row, on flex burn's own operation or the function of slices. [`layer_norm_rows`] and
//! [`rms_norm_rows`] work on plain slices.

use burn::backend::Dispatch;
use burn::backend::ops::{FloatTensorOps, ModuleOps};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::Tensor;

use crate::flex::{contiguous, floats, tensor};

const LANES: usize = 16;
/// The epsilon of most published model classes.
pub(crate) const EPSILON: f32 = 1e-5;

/// Normalises each row of `x` `[.., size]` to mean 0 and deviation 1, multiplies it by `gamma` `[size]` and adds `beta` `[size]`;
/// epsilon is 1e-5.
pub fn layer_norm<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, beta: Tensor<1>) -> Tensor<D> {
    layer_norm_with(x, gamma, beta, EPSILON)
}

/// [`layer_norm`] with another `epsilon`.
pub fn layer_norm_with<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, beta: Tensor<1>, epsilon: f32) -> Tensor<D> {
    let (x, gamma, beta) = (x.into_dispatch(), gamma.into_dispatch(), beta.into_dispatch());
    Tensor::from_dispatch(Dispatch::fused_layer_norm(x, gamma, beta, epsilon))
}

/// Divides each row of `x` `[.., size]` by the root of its mean square plus `epsilon` and multiplies it by `gamma` `[size]`.
pub fn rms_norm<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, epsilon: f32) -> Tensor<D> {
    let x = x.into_dispatch();
    let (_, normed) = Dispatch::rms_normed_sum(x.clone(), x, gamma.into_dispatch(), epsilon, false);
    Tensor::from_dispatch(normed)
}

/// The sum of `residual` and `x` `[.., size]`, and [`rms_norm`] of it.
pub fn add_and_rms_norm<const D: usize>(
    residual: Tensor<D>,
    x: Tensor<D>,
    gamma: Tensor<1>,
    epsilon: f32,
) -> [Tensor<D>; 2] {
    let (residual, x, gamma) = (residual.into_dispatch(), x.into_dispatch(), gamma.into_dispatch());
    let (sum, normed) = Dispatch::rms_normed_sum(residual, x, gamma, epsilon, true);
    [Tensor::from_dispatch(sum), Tensor::from_dispatch(normed)]
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait NormOps: Backend {
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
    ) -> FloatTensor<Self>;

    /// The sum of `residual` and `x`, if `adds` is set, else `residual`; and its norm.
    fn rms_normed_sum(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        epsilon: f32,
        adds: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

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

#[cfg(feature = "wgpu")]
pub(crate) use kernel::{UNITS, moments};

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Cube, FloatDType, TensorMetadata};
    use cubecl::prelude::*;

    use super::NormOps;
    use crate::reduce::cube_sum;

    /// Units of a cube that normalises a row: a power of two.
    pub(crate) const UNITS: usize = 128;

    impl NormOps for Cube {
        fn fused_layer_norm(
            x: FloatTensor<Self>,
            gamma: FloatTensor<Self>,
            beta: FloatTensor<Self>,
            epsilon: f32,
        ) -> FloatTensor<Self> {
            let x = crate::cube::contiguous(x);
            let (client, device, shape) = (x.client.clone(), x.device(), x.shape());
            let size = shape[shape.num_dims() - 1];
            let rows = shape.num_elements() / size.max(1);
            let out = Self::float_empty(shape, &device, FloatDType::F32);
            norm_kernel::launch(
                &client,
                crate::cube::cubes(rows),
                CubeDim::new_1d(UNITS as u32),
                x.into_tensor_arg(),
                gamma.into_tensor_arg(),
                beta.into_tensor_arg(),
                out.clone().into_tensor_arg(),
                rows as u32,
                size as u32,
                epsilon,
            );
            out
        }

        fn rms_normed_sum(
            residual: FloatTensor<Self>,
            x: FloatTensor<Self>,
            gamma: FloatTensor<Self>,
            epsilon: f32,
            adds: bool,
        ) -> (FloatTensor<Self>, FloatTensor<Self>) {
            let [residual, x] = [residual, x].map(crate::cube::contiguous);
            let (client, device, shape) = (residual.client.clone(), residual.device(), residual.shape());
            let size = shape[shape.num_dims() - 1];
            let rows = shape.num_elements() / size.max(1);
            let normed = Self::float_empty(shape.clone(), &device, FloatDType::F32);
            // A kernel has the same tensors in every case; without a sum this one is never written.
            let sum = if adds { Self::float_empty(shape, &device, FloatDType::F32) } else { normed.clone() };
            rms_kernel::launch(
                &client,
                crate::cube::cubes(rows),
                CubeDim::new_1d(UNITS as u32),
                residual.clone().into_tensor_arg(),
                x.into_tensor_arg(),
                gamma.into_tensor_arg(),
                sum.clone().into_tensor_arg(),
                normed.clone().into_tensor_arg(),
                rows as u32,
                size as u32,
                epsilon,
                adds,
            );
            (if adds { sum } else { residual }, normed)
        }
    }

    /// One cube per row. All tensors are contiguous; without `adds` neither `x` is read nor `sum` written.
    #[cube(launch)]
    fn rms_kernel(
        residual: &Tensor<f32>,
        x: &Tensor<f32>,
        gamma: &Tensor<f32>,
        sum: &mut Tensor<f32>,
        normed: &mut Tensor<f32>,
        rows: u32,
        size: u32,
        epsilon: f32,
        #[comptime] adds: bool,
    ) {
        let mut work = Shared::<[f32]>::new_slice(UNITS);
        let unit = UNIT_POS as usize;
        let row = CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X;
        if row < rows {
            let end = size as usize;
            let base = row as usize * end;
            let mut squares = f32::new(0.0);
            let mut at = unit;
            while at < end {
                let mut value = residual[base + at];
                if comptime!(adds) {
                    value += x[base + at];
                    sum[base + at] = value;
                }
                // A unit reads back only what it has written itself.
                normed[base + at] = value;
                squares += value * value;
                at += UNITS;
            }
            let mean = cube_sum(&mut work, squares, UNITS) / f32::cast_from(size);
            let factor = f32::new(1.0) / (mean + epsilon).sqrt();
            at = unit;
            while at < end {
                normed[base + at] = normed[base + at] * factor * gamma[at];
                at += UNITS;
            }
        }
    }

    /// One cube per row. `x` and `out` are contiguous.
    #[cube(launch)]
    fn norm_kernel(
        x: &Tensor<f32>,
        gamma: &Tensor<f32>,
        beta: &Tensor<f32>,
        out: &mut Tensor<f32>,
        rows: u32,
        size: u32,
        epsilon: f32,
    ) {
        let mut values = Shared::<[f32]>::new_slice(UNITS);
        let unit = UNIT_POS as usize;
        let row = CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X;
        if row < rows {
            let end = size as usize;
            let base = row as usize * end;
            let (mean, deviation) = moments(x.as_slice(), &mut values, base, size, epsilon);
            let mut at = unit;
            while at < end {
                out[base + at] = (x[base + at] - mean) / deviation * gamma[at] + beta[at];
                at += UNITS;
            }
        }
    }

    /// Mean and deviation of the row of `x` from `base` on. Each unit reads every [`UNITS`]-th value.
    #[cube]
    pub(crate) fn moments(x: &[f32], work: &mut Shared<[f32]>, base: usize, size: u32, epsilon: f32) -> (f32, f32) {
        let (unit, end) = (UNIT_POS as usize, size as usize);
        let count = f32::cast_from(size);
        let mut total = f32::new(0.0);
        let mut at = unit;
        while at < end {
            total += x[base + at];
            at += UNITS;
        }
        let mean = cube_sum(work, total, UNITS) / count;
        let mut squares = f32::new(0.0);
        at = unit;
        while at < end {
            let difference = x[base + at] - mean;
            squares += difference * difference;
            at += UNITS;
        }
        let deviation = (cube_sum(work, squares, UNITS) / count + epsilon).sqrt();
        (mean, deviation)
    }
}

/// [`layer_norm`] of slices: `x` `[rows, size]` to `out` of the same shape. Runs in the widest vectors the processor has.
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
