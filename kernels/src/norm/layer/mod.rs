//! Layer and root-mean-square normalisation.
//!
//! On GPUs it is one launch with a cube per row, on flex burn's own operation or the function of slices. [`layer_norm_rows`] and
//! [`rms_norm_rows`] work on plain slices.

mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;
pub(crate) use cpu::EPSILON;
pub use cpu::{layer_norm_rows, layer_norm_rows_with, rms_norm_rows};

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

#[cfg(feature = "wgpu")]
pub(crate) use gpu::{UNITS, moments};
