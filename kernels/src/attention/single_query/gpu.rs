use std::ops::Range;

use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::{MAX_KEYS, SingleQueryOps, is_one_launch, reference};
use crate::reduce::{cube_max, cube_sum};

/// Units of a cube at most, a power of two.
const UNITS: usize = 1024;
/// Values that a unit loads before it computes with them.
const LOADS: usize = 8;

impl SingleQueryOps for Cube {
    fn single_query_attention(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        ranges: IntTensor<Self>,
        rows: Vec<Range<usize>>,
    ) -> FloatTensor<Self> {
        let most_keys = rows.iter().map(Range::len).max().unwrap_or_default();
        if !is_one_launch(most_keys, query.shape()[3]) {
            let [keys, values] = [keys, values].map(|x| Self::float_cast(x, FloatDType::F32));
            return reference::attend::<Self>(query, keys, values, &rows);
        }
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
    let first = row * values.stride(0) + index * values.stride(1) + from * values.stride(2) + dim * values.stride(3);
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
