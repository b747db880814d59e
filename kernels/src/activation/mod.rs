//! Activations: ReLU, SiLU (`x * sigmoid(x)`), GELU with the exact error function, and GLU (`a * sigmoid(b)` of the two halves of the
//! last dimension).
//!
//! On the CPU SiLU, GELU and GLU run in one pass over the values, on all cores and in the widest vectors the processor has; burn's own
//! operations take several passes on one core and call the scalar exponential of the C library. On GPUs each is one launch.
//! [`silu_in_place`], [`gelu_in_place`] and [`glu_rows`] work on plain slices.

mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;

pub use cpu::{
    elu_in_place, gelu_in_place, gelu_tanh_in_place, glu_rows, silu_in_place, swiglu_in_place, tanh_in_place,
};
#[cfg(feature = "wgpu")]
pub(crate) use gpu::{apply, gated};

/// An activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// The larger of `x` and 0.
    Relu,
    /// `x * sigmoid(x)`
    Silu,
    /// `x / 2 * (1 + erf(x / sqrt 2))`
    Gelu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`
    GeluTanh,
    /// `a * sigmoid(b)` of the two halves of the last dimension.
    Glu,
    /// `a * sigmoid(a) * b` of the two halves of the last dimension.
    SwiGlu,
}

impl Activation {
    /// True if two inputs give one output.
    pub(crate) fn is_gated(self) -> bool {
        matches!(self, Self::Glu | Self::SwiGlu)
    }
}

/// `x * sigmoid(x)`, of any shape.
pub fn silu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activated(x, Activation::Silu)
}

/// The larger of `x` and 0, of any shape.
pub fn relu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activated(x, Activation::Relu)
}

/// `x / 2 * (1 + erf(x / sqrt 2))`, of any shape.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activated(x, Activation::Gelu)
}

/// `x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, of any shape: the form of GELU that PyTorch calls `tanh`.
pub fn gelu_tanh<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activated(x, Activation::GeluTanh)
}

/// `a * sigmoid(b)`: `[.., 2 n]` to `[.., n]`, with `a` the first half of the last dimension and `b` the second.
pub fn glu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activated(x, Activation::Glu)
}

fn activated<const D: usize>(x: Tensor<D>, activation: Activation) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::activated(x.into_dispatch(), activation))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait ActivationOps: Backend {
    fn activated(x: FloatTensor<Self>, activation: Activation) -> FloatTensor<Self>;
}
