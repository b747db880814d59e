//! Epilogues of matrix products, each one launch on GPUs: the bias with an activation, the bias with a residual, and both with the
//! layer norm of the sum. A product may hold 16 bits: then so do an activation's and a norm's results, which are the inputs of the next
//! product, while residuals, weights and all arithmetic have 32. Models on the CPU have bodies
//! of their own.

#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;

use crate::activation::Activation;
use crate::norm::EPSILON;

/// `activation` of `x` `[.., size]` plus `bias` `[size]`, in the type of `x`.
pub fn activate<const D: usize>(x: Tensor<D>, bias: Tensor<1>, activation: Activation) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::biased_activation(x.into_dispatch(), bias.into_dispatch(), activation))
}

/// `residual` plus `x` plus `bias`: `[.., size]`, with a bias `[size]`, in the type of `residual`, 32 bits.
pub fn add<const D: usize>(residual: Tensor<D>, x: Tensor<D>, bias: Tensor<1>) -> Tensor<D> {
    let (residual, x, bias) = (residual.into_dispatch(), x.into_dispatch(), bias.into_dispatch());
    Tensor::from_dispatch(Dispatch::biased_sum(residual, x, bias))
}

/// As [`add`], and the layer norm of the sum with `gamma` and `beta` `[size]` and an epsilon of 1e-5, in the type of `x`.
pub fn add_and_norm<const D: usize>(
    residual: Tensor<D>,
    x: Tensor<D>,
    bias: Tensor<1>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
) -> [Tensor<D>; 2] {
    add_and_norm_with(residual, x, bias, [gamma, beta], EPSILON)
}

/// As [`add_and_norm`] with a norm's factor and bias, and another `epsilon`.
pub fn add_and_norm_with<const D: usize>(
    residual: Tensor<D>,
    x: Tensor<D>,
    bias: Tensor<1>,
    norm: [Tensor<1>; 2],
    epsilon: f32,
) -> [Tensor<D>; 2] {
    let (residual, x, bias) = (residual.into_dispatch(), x.into_dispatch(), bias.into_dispatch());
    let [gamma, beta] = norm.map(Tensor::into_dispatch);
    let (sum, normed) = Dispatch::normed_sum(residual, x, bias, gamma, beta, epsilon);
    [Tensor::from_dispatch(sum), Tensor::from_dispatch(normed)]
}

/// As [`add_and_norm`] with two norms, one of the other: the sum normalised by the first of `norms`, and that by the second; each is a
/// factor and a bias, `[size]`. The first is in 32 bits, the second in the type of `x`.
pub fn add_and_norm_twice<const D: usize>(
    residual: Tensor<D>,
    x: Tensor<D>,
    bias: Tensor<1>,
    norms: [[Tensor<1>; 2]; 2],
) -> [Tensor<D>; 2] {
    let (residual, x, bias) = (residual.into_dispatch(), x.into_dispatch(), bias.into_dispatch());
    let [[gamma, beta], [next_gamma, next_beta]] = norms.map(|norm| norm.map(Tensor::into_dispatch));
    let (once, twice) = Dispatch::twice_normed_sum(residual, x, bias, gamma, beta, next_gamma, next_beta);
    [Tensor::from_dispatch(once), Tensor::from_dispatch(twice)]
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait EpilogueOps: Backend {
    fn biased_activation(x: FloatTensor<Self>, bias: FloatTensor<Self>, activation: Activation) -> FloatTensor<Self>;

    fn biased_sum(residual: FloatTensor<Self>, x: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self>;

    fn normed_sum(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    fn twice_normed_sum(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        next_gamma: FloatTensor<Self>,
        next_beta: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

#[cfg(feature = "wgpu")]
pub(crate) use gpu::finish;

/// Operations on a product before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum After {
    /// None.
    Nothing,
    /// A bias is added.
    Bias,
    /// A bias is added, and an activation applied that has one input.
    Activation(Activation),
}
