//! Attention of all queries to all keys, with heads side by side in the last dimension, as linear layers leave them.

mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;
pub use cpu::self_attention;

/// Attention of `query` `[rows, queries, heads * head]`, already scaled, over `keys` and `values` `[rows, keys, heads * head]`.
/// Returns `[rows, queries, heads * head]`.
pub fn attend(query: Tensor<3>, keys: Tensor<3>, values: Tensor<3>, heads: usize) -> Tensor<3> {
    let (query, keys, values) = (query.into_dispatch(), keys.into_dispatch(), values.into_dispatch());
    Tensor::from_dispatch(Dispatch::full_attention(query, keys, values, heads))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait FullAttentionOps: Backend {
    fn full_attention(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        heads: usize,
    ) -> FloatTensor<Self>;
}
