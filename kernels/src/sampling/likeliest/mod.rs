//! The likeliest token of each row of scores, so that a GPU gives numbers of tokens and keeps the scores.

mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;
pub use cpu::likeliest_of;

/// The place of the largest finite score in each row of `scores` `[rows, tokens]`, the first of equal ones: `[rows, 1]`. -1 where none is
/// finite.
///
/// # Panics
/// With more than 2^24 tokens, as places are 32-bit floats.
pub fn likeliest(scores: Tensor<2>) -> Tensor<2> {
    assert!(scores.dims()[1] <= 1 << 24, "likeliest: at most 2^24 tokens");
    Tensor::from_dispatch(Dispatch::likeliest_of_rows(scores.into_dispatch()))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait LikeliestOps: Backend {
    fn likeliest_of_rows(scores: FloatTensor<Self>) -> FloatTensor<Self>;
}
