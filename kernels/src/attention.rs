//! Attention of all queries to all keys, with heads side by side in the last dimension, as linear layers leave them.
//!
//! On flex it computes one tile of queries at a time: their scores, the softmax and the weighted sum of the values, without a copy
//! into another layout. On GPUs it is the one launch of [`crate::fused_attention`]. [`self_attention`] is the same on plain memory, for
//! rows of several sequences.
//!
//! [`single_query_attention`] serves decoders that emit one token per step: on GPUs it is one launch with a cube per head.

use std::ops::Range;

use burn::backend::Dispatch;
use burn::backend::ops::AttentionModuleOptions;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Device, Int, Shape, Tensor, TensorData};
use rayon::prelude::*;

use crate::flex::{contiguous, floats, tensor};
use crate::matmul::{Destination, SharedOutput, product};
use crate::thread_pool::ThreadPool;
use crate::vector_math::Softmax;

/// Queries of a tile: their scores over 1,500 keys fit into a core's cache.
const TILE: usize = 96;

/// Attention of `query` `[rows, queries, heads * head]`, already scaled, over `keys` and `values` `[rows, keys, heads * head]`.
/// Returns `[rows, queries, heads * head]`.
pub fn attention(query: Tensor<3>, keys: Tensor<3>, values: Tensor<3>, heads: usize) -> Tensor<3> {
    let (query, keys, values) = (query.into_dispatch(), keys.into_dispatch(), values.into_dispatch());
    Tensor::from_dispatch(Dispatch::multi_head_attention(query, keys, values, heads))
}

/// The range of keys that the query of each row attends to.
#[derive(Clone, Debug)]
pub struct KeyRanges {
    rows: Vec<Range<usize>>,
    /// `[rows, 2]`, flat: start and end.
    packed: Tensor<1, Int>,
}

impl KeyRanges {
    /// `rows` has one range per row; no range is empty.
    pub fn new(rows: Vec<Range<usize>>, device: &Device) -> Self {
        let packed: Vec<i32> = rows.iter().flat_map(|row| [row.start as i32, row.end as i32]).collect();
        let packed = Tensor::from_data(TensorData::new(packed, [rows.len() * 2]), device);
        Self { rows, packed }
    }

    /// As [`KeyRanges::new`] with the tensor of starts and ends, `[rows, 2]`, flat, which a caller has on the device; it may be longer.
    pub fn with_packed(rows: Vec<Range<usize>>, packed: Tensor<1, Int>) -> Self {
        debug_assert!(packed.dims()[0] >= 2 * rows.len(), "key ranges: a start and an end for each row");
        Self { rows, packed }
    }
}

/// Attention of one query per row, `[rows, heads, 1, head]`, already scaled, over the keys and values `[rows, heads, columns, head]`
/// in its range; on GPUs these may have 16 bits. Returns `[rows, 1, heads * head]`.
pub fn single_query_attention(query: Tensor<4>, keys: Tensor<4>, values: Tensor<4>, ranges: &KeyRanges) -> Tensor<3> {
    let (query, keys, values) = (query.into_dispatch(), keys.into_dispatch(), values.into_dispatch());
    let packed = ranges.packed.clone().into_dispatch();
    Tensor::from_dispatch(Dispatch::single_query_attention(query, keys, values, packed, ranges.rows.clone()))
}

/// True if GPUs compute [`single_query_attention`] of this many keys and values of a head in one launch; else it is several of burn's
/// operations, which no recording can hold.
pub fn is_one_launch(keys: usize, head: usize) -> bool {
    keys <= MAX_KEYS && head <= MAX_HEAD
}

/// Largest number of keys of a query: their weights and the other buffers fit into the 16 KiB of shared memory of every device.
const MAX_KEYS: usize = 2048;
/// The largest head.
const MAX_HEAD: usize = 256;

/// [`single_query_attention`] in burn's own operations.
fn single_query_by_burn<B: Backend>(
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

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait AttentionOps: Backend {
    fn single_query_attention(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        ranges: IntTensor<Self>,
        rows: Vec<Range<usize>>,
    ) -> FloatTensor<Self>;

    fn multi_head_attention(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        heads: usize,
    ) -> FloatTensor<Self>;
}

#[cfg(feature = "wgpu")]
impl AttentionOps for burn::backend::Cube {
    fn single_query_attention(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        ranges: IntTensor<Self>,
        rows: Vec<Range<usize>>,
    ) -> FloatTensor<Self> {
        let most_keys = rows.iter().map(Range::len).max().unwrap_or_default();
        match is_one_launch(most_keys, query.shape()[3]) {
            true => kernel::single_query_attention(query, keys, values, ranges),
            false => {
                let [keys, values] = [keys, values].map(kernel::wide);
                single_query_by_burn::<Self>(query, keys, values, &rows)
            }
        }
    }

    fn multi_head_attention(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        heads: usize,
    ) -> FloatTensor<Self> {
        crate::fused_attention::full_attention(query, keys, values, heads)
    }
}

impl AttentionOps for Flex {
    fn single_query_attention(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        _ranges: IntTensor<Self>,
        rows: Vec<Range<usize>>,
    ) -> FloatTensor<Self> {
        single_query_by_burn::<Self>(query, keys, values, &rows)
    }

    fn multi_head_attention(
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

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::cubecl::dtype_to_storage_type;
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::{FloatTensor, IntTensor};
    use burn::backend::{Cube, FloatDType, TensorMetadata};
    use cubecl::prelude::*;

    use super::MAX_KEYS;
    use crate::reduce::{cube_max, cube_sum};

    /// Units of a cube at most, a power of two.
    const UNITS: usize = 1024;
    /// Values that a unit loads before it computes with them.
    const LOADS: usize = 8;

    /// `x` in 32 bits.
    pub fn wide(x: FloatTensor<Cube>) -> FloatTensor<Cube> {
        Cube::float_cast(x, FloatDType::F32)
    }

    /// See [`super::single_query_attention`].
    pub fn single_query_attention(
        query: FloatTensor<Cube>,
        keys: FloatTensor<Cube>,
        values: FloatTensor<Cube>,
        ranges: IntTensor<Cube>,
    ) -> FloatTensor<Cube> {
        let (client, device, shape) = (query.client.clone(), query.device(), query.shape());
        let [rows, heads, head] = [shape[0], shape[1], shape[3]];
        let out = Cube::float_empty([rows, 1, heads * head].into(), &device, FloatDType::F32);
        let dtype = dtype_to_storage_type(keys.dtype);
        let units = crate::cube::units(&client, UNITS);
        one_query_kernel::launch(
            &client,
            CubeCount::Static(heads as u32, rows as u32, 1),
            CubeDim::new_1d(units as u32),
            query.into_tensor_arg(),
            keys.into_tensor_arg(),
            values.into_tensor_arg(),
            ranges.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            head,
            units,
            dtype,
        );
        out
    }

    /// One cube per head of a row: scores with one unit per key, then the weighted sum with one unit per dimension and share of the
    /// keys.
    #[cube(launch)]
    fn one_query_kernel<F: Float>(
        query: &Tensor<f32>,
        keys: &Tensor<F>,
        values: &Tensor<F>,
        ranges: &Tensor<i32>,
        out: &mut Tensor<f32>,
        #[comptime] head: usize,
        #[comptime] units: usize,
        #[define(F)] _dtype: ElemType,
    ) {
        let mut shared_query = Shared::<[f32]>::new_slice(head);
        let mut weights = Shared::<[f32]>::new_slice(MAX_KEYS);
        let mut work = Shared::<[f32]>::new_slice(units);
        let unit = UNIT_POS as usize;
        let (index, row) = (CUBE_POS_X as usize, CUBE_POS_Y as usize);
        let from = ranges[row * 2] as usize;
        let count = ranges[row * 2 + 1] as usize - from;
        if unit < head {
            shared_query[unit] = query[row * query.stride(0) + index * query.stride(1) + unit * query.stride(3)];
        }
        sync_cube();

        let first = row * keys.stride(0) + index * keys.stride(1) + from * keys.stride(2);
        let mut max_score = f32::new(-3.0e38);
        let mut column = unit;
        while column < count {
            let place = first + column * keys.stride(2);
            let mut score = f32::new(0.0);
            // Several loads are under way at a time.
            for part in 0..comptime!(head / LOADS) {
                let mut loaded = Array::<f32>::new(LOADS);
                #[unroll]
                for next in 0..LOADS {
                    loaded[next] = f32::cast_from(keys[place + (part * LOADS + next) * keys.stride(3)]);
                }
                #[unroll]
                for next in 0..LOADS {
                    score += shared_query[part * LOADS + next] * loaded[next];
                }
            }
            for i in comptime!(head / LOADS * LOADS)..head {
                score += shared_query[i] * f32::cast_from(keys[place + i * keys.stride(3)]);
            }
            weights[column] = score;
            max_score = max(max_score, score);
            column += units;
        }
        let max_score = cube_max(&mut work, max_score, units);
        let mut sum = f32::new(0.0);
        column = unit;
        while column < count {
            let weight = (weights[column] - max_score).exp();
            weights[column] = weight;
            sum += weight;
            column += units;
        }
        let sum = cube_sum(&mut work, sum, units);

        let shares = comptime!(units / head);
        let (dim, share) = (unit % head, unit / head);
        let first =
            row * values.stride(0) + index * values.stride(1) + from * values.stride(2) + dim * values.stride(3);
        let mut weighted = f32::new(0.0);
        if share < shares {
            column = share;
            while column + comptime!((LOADS - 1) * (units / head)) < count {
                let mut loaded = Array::<f32>::new(LOADS);
                #[unroll]
                for next in 0..LOADS {
                    loaded[next] = f32::cast_from(values[first + (column + next * shares) * values.stride(2)]);
                }
                #[unroll]
                for next in 0..LOADS {
                    weighted += weights[column + next * shares] * loaded[next];
                }
                column += LOADS * shares;
            }
            while column < count {
                weighted += weights[column] * f32::cast_from(values[first + column * values.stride(2)]);
                column += shares;
            }
        }
        work[unit] = weighted;
        sync_cube();
        if unit < head {
            let mut all = f32::new(0.0);
            for share in 0..shares {
                all += work[share * head + unit];
            }
            let place = row * out.stride(0) + index * head + unit;
            out[place] = all / sum;
        }
    }
}
