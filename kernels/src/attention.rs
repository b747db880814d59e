//! Attention of all queries to all keys, with heads side by side in the last dimension, as linear layers leave them.
//!
//! On flex a tile of queries at a time: its scores, their softmax in vectors, what they weigh; nothing is copied into another
//! order. Elsewhere burn's own operations.

use burn::backend::Dispatch;
use burn::backend::ops::AttentionModuleOptions;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Shape, Tensor};
use rayon::prelude::*;

use crate::products::{Target, product};
use crate::vectors::{Softmax, tensor};

/// Queries of a tile: their scores over 1,500 keys stay in a core's cache.
const TILE: usize = 96;

/// `query` `[rows, queries, heads * head]`, already scaled, over `keys` and `values` `[rows, keys, heads * head]`, to the
/// shape of the queries.
pub fn attention(query: Tensor<3>, keys: Tensor<3>, values: Tensor<3>, heads: usize) -> Tensor<3> {
    let (query, keys, values) = (query.into_dispatch(), keys.into_dispatch(), values.into_dispatch());
    Tensor::from_dispatch(Dispatch::attention_side_by_side(query, keys, values, heads))
}

#[backend_extension(Flex, Cube: cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm")))]
pub(crate) trait AttentionOps: Backend {
    fn attention_side_by_side(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        heads: usize,
    ) -> FloatTensor<Self> {
        let shape = query.shape();
        let split = |x: FloatTensor<Self>| {
            let [rows, count, size] = [x.shape()[0], x.shape()[1], x.shape()[2]];
            let apart = Self::float_reshape(x, Shape::from([rows, count, heads, size / heads]));
            Self::float_swap_dims(apart, 1, 2)
        };
        let options = AttentionModuleOptions { scale: Some(1.0), softcap: None, is_causal: false };
        let out = Self::attention(split(query), split(keys), split(values), None, None, options);
        Self::float_reshape(Self::float_swap_dims(out, 1, 2), shape)
    }
}

#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
impl AttentionOps for burn::backend::Cube {}

impl AttentionOps for Flex {
    fn attention_side_by_side(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        heads: usize,
    ) -> FloatTensor<Self> {
        let [query, keys, values] =
            [query, keys, values].map(|x| if x.is_contiguous() { x } else { x.to_contiguous() });
        let (shape, seen) = (query.shape(), keys.shape());
        let [rows, queries, size] = [shape[0], shape[1], shape[2]];
        let (count, head) = (seen[1], size / heads);
        assert!(seen[0] == rows && seen[2] == size && seen == values.shape(), "shapes of attention differ");
        let [q, k, v] = [&query, &keys, &values].map(|x| x.as_slice::<f32>().unwrap_or_default());
        let mut out = vec![0f32; rows * queries * size];
        let tiles = queries.div_ceil(TILE);
        let target = Target::new(&mut out);
        let vectors = pulp::Arch::new();
        (0..rows * heads * tiles).into_par_iter().for_each_init(Vec::new, |scores: &mut Vec<f32>, work| {
            let (row, at, tile) = (work / (heads * tiles), work / tiles % heads, work % tiles);
            let first = tile * TILE;
            let taken = TILE.min(queries - first);
            scores.resize(taken * count, 0.0);
            let q = &q[(row * queries + first) * size + at * head..];
            let k = &k[row * count * size + at * head..];
            let v = &v[row * count * size + at * head..];
            if taken == 0 || count == 0 {
                return;
            }
            let shape = [taken, count, head];
            // SAFETY: `scores` has that many values.
            unsafe { product(shape, (scores.as_mut_ptr(), count), (q, [size, 1]), (k, [1, size])) };
            vectors.dispatch(Softmax { scores, count });
            let to = (target.at((row * queries + first) * size + at * head), size);
            // SAFETY: this head's values of these queries are within `out`, and written here alone.
            unsafe { product([taken, head, count], to, (scores, [count, 1]), (v, [size, 1])) };
        });
        tensor(out, shape)
    }
}
