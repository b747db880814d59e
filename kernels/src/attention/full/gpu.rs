//! The body on GPUs: the launch of [`crate::attention::relative`] without a ring and positions.

use burn::backend::Cube;
use burn::backend::tensor::FloatTensor;

use super::FullAttentionOps;
use crate::attention::relative;

impl FullAttentionOps for Cube {
    fn full_attention(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        heads: usize,
    ) -> FloatTensor<Self> {
        relative::full_attention(query, keys, values, heads)
    }
}
