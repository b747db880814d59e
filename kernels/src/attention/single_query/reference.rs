//! Attention in burn's own operations: what tests compare the GPU with, and what a GPU computes for more keys than one launch has room for.

use std::ops::Range;

use burn::backend::ops::AttentionModuleOptions;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Flex, TensorMetadata};
use burn::tensor::{Shape, TensorData};

use super::SingleQueryOps;

impl SingleQueryOps for Flex {
    fn single_query_attention(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        _ranges: IntTensor<Self>,
        rows: Vec<Range<usize>>,
    ) -> FloatTensor<Self> {
        attend::<Self>(query, keys, values, &rows)
    }
}

/// [`attend`](super::attend) in burn's own operations.
pub(super) fn attend<B: Backend>(
    query: FloatTensor<B>,
    keys: FloatTensor<B>,
    values: FloatTensor<B>,
    rows: &[Range<usize>],
) -> FloatTensor<B> {
    let (shape, columns) = (query.shape(), keys.shape()[2]);
    let [count, heads, head] = [shape[0], shape[1], shape[3]];
    let mask = |row: &Range<usize>, column: usize| if row.contains(&column) { 0.0 } else { MASKED };
    let bias = rows.iter().flat_map(|row| (0..heads * columns).map(|at| mask(row, at % columns)));
    let bias = TensorData::new(bias.collect::<Vec<f32>>(), [count, heads, 1, columns]);
    let bias = B::float_from_data(bias, &query.device());
    let options = AttentionModuleOptions { scale: Some(1.0), softcap: None, is_causal: false };
    let out = B::attention(query, keys, values, None, Some(bias), options);
    B::float_reshape(out, Shape::from([count, 1, heads * head]))
}

/// Added to the score of a key outside the range of its query.
const MASKED: f32 = -1e4;
