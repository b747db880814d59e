//! On the CPU a tile of queries at a time: their scores, the softmax and the weighted sum of the values, without a copy into another layout.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};
use rayon::prelude::*;

use super::FullAttentionOps;
use crate::flex::{contiguous, floats, tensor};
use crate::product::slices::{Destination, SharedOutput, product};
use crate::thread_pool::ThreadPool;
use crate::vector_math::Softmax;

/// Queries of a tile: their scores over 1,500 keys fit into a core's cache.
const TILE: usize = 96;

/// Attention of the rows of each sequence to all rows of it, on the CPU. `qkv` `[rows, 3 * size]` has query, already scaled, key and
/// value of each row side by side; `lengths` are the rows of each sequence, one after another. Returns `[rows, size]`.
///
/// # Panics
/// When the lengths do not match.
pub fn self_attention(pool: &ThreadPool, qkv: &[f32], lengths: &[usize], size: usize, heads: usize) -> Vec<f32> {
    let rows: usize = lengths.iter().sum();
    assert!(qkv.len() == rows * 3 * size && size.is_multiple_of(heads), "self-attention: lengths of qkv and heads");
    let (head, stride) = (size / heads, 3 * size);
    let starts = lengths.iter().scan(0, |next, length| {
        *next += length;
        Some(*next - length)
    });
    let sequences: Vec<(usize, usize)> = starts.zip(lengths.iter().copied()).collect();
    let vectors = pulp::Arch::new();
    let write = |output: SharedOutput| {
        pool.for_each_index(sequences.len() * heads, |task| {
            let ((start, length), index) = (sequences[task / heads], task % heads);
            let mut scores = Vec::new();
            for first in (start..start + length).step_by(TILE) {
                let count = TILE.min(start + length - first);
                let q = &qkv[first * stride + index * head..];
                let k = &qkv[start * stride + size + index * head..];
                let v = &qkv[start * stride + 2 * size + index * head..];
                let to = (output.at(first * size + index * head), size);
                // SAFETY: the values of this head of these rows lie within the result, and only this task writes them.
                unsafe { attend(vectors, &mut scores, [count, length, head], [q, k, v], stride, to) };
            }
        });
    };
    let mut out = Vec::new();
    // SAFETY: the tasks write each head of each row.
    unsafe { Destination::New(&mut out).fill(rows * size, write) };
    out
}

/// Attention of one head: `queries` rows of `q`, already scaled, over `count` rows of `k` and `v`, all `stride` values apart. `scores`
/// is memory that is used again. Rows of the result lie `to.1` values apart.
///
/// # Safety
/// As [`product`] of a result `[queries, head]`.
unsafe fn attend(
    vectors: pulp::Arch,
    scores: &mut Vec<f32>,
    [queries, count, head]: [usize; 3],
    [q, k, v]: [&[f32]; 3],
    stride: usize,
    to: (*mut f32, usize),
) {
    if queries == 0 || count == 0 {
        return;
    }
    scores.resize(queries * count, 0.0);
    // SAFETY: `scores` has `queries * count` values.
    unsafe { product([queries, count, head], (scores.as_mut_ptr(), count), (q, [stride, 1]), (k, [1, stride])) };
    vectors.dispatch(Softmax { logits: scores, width: count });
    // SAFETY: the caller guarantees it.
    unsafe { product([queries, head, count], to, (scores, [count, 1]), (v, [stride, 1])) };
}

impl FullAttentionOps for Flex {
    fn full_attention(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        heads: usize,
    ) -> FloatTensor<Self> {
        let [query, keys, values] = [query, keys, values].map(contiguous);
        let (shape, key_shape) = (query.shape(), keys.shape());
        let [rows, queries, size] = [shape[0], shape[1], shape[2]];
        let (count, head) = (key_shape[1], size / heads);
        assert!(
            key_shape[0] == rows && key_shape[2] == size && key_shape == values.shape(),
            "attention: shapes of query, keys and values"
        );
        let [q, k, v] = [&query, &keys, &values].map(floats);
        let mut out = vec![0f32; rows * queries * size];
        let tiles = queries.div_ceil(TILE);
        let output = SharedOutput::new(&mut out);
        let vectors = pulp::Arch::new();
        (0..rows * heads * tiles).into_par_iter().for_each_init(Vec::new, |scores: &mut Vec<f32>, work| {
            let (row, index, tile) = (work / (heads * tiles), work / tiles % heads, work % tiles);
            let first = tile * TILE;
            let tile_queries = TILE.min(queries - first);
            let q = &q[(row * queries + first) * size + index * head..];
            let k = &k[row * count * size + index * head..];
            let v = &v[row * count * size + index * head..];
            let to = (output.at((row * queries + first) * size + index * head), size);
            // SAFETY: the values of this head of these queries lie within `out`, and only this task writes them.
            unsafe { attend(vectors, scores, [tile_queries, count, head], [q, k, v], size, to) };
        });
        tensor(out, shape)
    }
}
