//! Attention of whole utterances as batched products on matrix units: scores, scores by distance, and the sums of the values; one
//! launch before them lays the heads apart, one between them is the softmax, one after them lays the heads side by side.
//!
//! The scores are in memory, which a card with matrix units reads far faster than its other units compute: 8 windows of Whisper
//! turbo have 360 MB of them in a block. Rows are divided so that [`SCORE_BYTES`] hold them.

use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use burn::tensor::{Shape, Slice};
use cubecl::features::Plane;
use cubecl::prelude::*;

use crate::attention::relative::{AttentionCall, Inputs, Window};
use crate::cache::ring::FACTS;
use crate::product::float::on_matrix_units;
use crate::reduce::{cube_max, cube_sum};

/// Queries from which matrix units are filled.
const MIN_QUERIES: usize = 64;
/// Units of a cube.
const UNITS: usize = 128;
/// Units of a plane, whose values a card adds up without shared memory, where it has planes of this size.
const PLANE: usize = 32;
/// The most bytes of scores at a time.
const SCORE_BYTES: usize = 768 << 20;
/// Keys and distances are padded to a multiple of this, so that rows of scores begin where vectors of 16 bytes do.
const ALIGNMENT: usize = 16;

/// True if products can compute a call: whole rows without a ring.
pub fn can_compute(inputs: &Inputs<Cube>, call: &AttentionCall) -> bool {
    !call.has_ring && call.window == Window::Full && inputs.query.shape()[2] == inputs.keys.shape()[2]
}

/// True if products on matrix units are the faster way: by measurement on an H200.
pub fn is_faster(inputs: &Inputs<Cube>) -> bool {
    let properties = inputs.query.client.properties();
    inputs.query.dtype == FloatDType::F16.into()
        && inputs.query.shape()[2] >= MIN_QUERIES
        && !properties.features.matmul.cmma.is_empty()
}

/// Computes a call that [`can_compute`] allows. None if a product cannot be launched; without matrix units burn multiplies.
pub fn attention(inputs: &Inputs<Cube>, call: &AttentionCall) -> Option<FloatTensor<Cube>> {
    let (shape, device) = (inputs.query.shape(), inputs.query.device());
    let [rows, heads, frames, head] = [shape[0], shape[1], shape[2], shape[3]];
    let padded = frames.next_multiple_of(ALIGNMENT);
    let position_keys = call.has_positions.then(|| {
        let keys = &inputs.position_keys;
        let apart = Shape::from([keys.shape()[0], heads, head]);
        padded_keys(Cube::float_swap_dims(Cube::float_reshape(keys.clone(), apart), 0, 1))
    });
    let distances = position_keys.as_ref().map_or(0, |keys| keys.shape()[1]);
    let row_bytes = heads * frames * (padded + distances) * size_of::<f32>();
    let step = (SCORE_BYTES / row_bytes.max(1)).clamp(1, rows.max(1));
    let out = Cube::float_empty([rows, frames, heads * head].into(), &device, crate::cube::float(&inputs.query));
    for first in (0..rows).step_by(step) {
        let count = step.min(rows - first);
        part(inputs, position_keys.as_ref(), call, first..first + count, &out)?;
    }
    Some(out)
}

/// Computes a range of the rows and writes them to `out`.
fn part(
    inputs: &Inputs<Cube>,
    position_keys: Option<&FloatTensor<Cube>>,
    call: &AttentionCall,
    rows: std::ops::Range<usize>,
    out: &FloatTensor<Cube>,
) -> Option<()> {
    let slice = |x: &FloatTensor<Cube>| match rows.len() == x.shape()[0] {
        true => x.clone(),
        false => Cube::float_slice(x.clone(), &[Slice::from(rows.clone())]),
    };
    let [query, keys, values] = [&inputs.query, &inputs.keys, &inputs.values].map(slice);
    let (client, device, shape, float) =
        (query.client.clone(), query.device(), query.shape(), crate::cube::float(&query));
    let [count, heads, frames, head] = [shape[0], shape[1], shape[2], shape[3]];
    let padded = frames.next_multiple_of(ALIGNMENT);
    let dtype = dtype_to_storage_type(query.dtype);
    let empty = |shape: [usize; 3]| Cube::float_empty(shape.into(), &device, float);
    let content = empty([count * heads, frames, head]);
    let placed = empty(if call.has_positions { [heads, count * frames, head] } else { [1, 1, 1] });
    let (split_keys, split_values) = (empty([count * heads, padded, head]), empty([count * heads, padded, head]));
    split_kernel::launch(
        &client,
        crate::cube::cubes((count * heads * padded * head).div_ceil(UNITS)),
        CubeDim::new_1d(UNITS as u32),
        query.into_tensor_arg(),
        keys.into_tensor_arg(),
        values.into_tensor_arg(),
        inputs.biases.clone().into_tensor_arg(),
        content.clone().into_tensor_arg(),
        placed.clone().into_tensor_arg(),
        split_keys.clone().into_tensor_arg(),
        split_values.clone().into_tensor_arg(),
        padded as u32,
        head,
        call.has_positions,
        dtype,
    );
    let scores = multiply(content, Cube::float_swap_dims(split_keys, 1, 2), FloatDType::F32)?;
    let by_distance = match position_keys {
        Some(keys) => multiply(placed, Cube::float_swap_dims(keys.clone(), 1, 2), FloatDType::F32)?,
        None => scores.clone(),
    };
    let weights = empty([count * heads, frames, padded]);
    let hardware = &client.properties().hardware;
    let has_planes = client.properties().features.plane.contains(Plane::Ops)
        && [hardware.plane_size_min, hardware.plane_size_max] == [PLANE as u32; 2];
    let width = if has_planes { PLANE } else { UNITS };
    softmax_kernel::launch(
        &client,
        crate::cube::cubes((count * heads * frames).div_ceil(UNITS / width)),
        CubeDim::new_2d(width as u32, (UNITS / width) as u32),
        scores.into_tensor_arg(),
        by_distance.into_tensor_arg(),
        inputs.packed.clone().into_tensor_arg(),
        weights.clone().into_tensor_arg(),
        rows.start as u32,
        heads as u32,
        call.scale,
        call.has_positions,
        has_planes,
        dtype,
    );
    let attended = multiply(weights, split_values, float)?;
    merge_kernel::launch(
        &client,
        crate::cube::cubes((count * heads * frames * head).div_ceil(UNITS)),
        CubeDim::new_1d(UNITS as u32),
        attended.into_tensor_arg(),
        out.clone().into_tensor_arg(),
        rows.start as u32,
        heads as u32,
        head,
        dtype,
    );
    Some(())
}

/// Keys `[heads, distances, head]` with rows of zeros after them, in order.
fn padded_keys(keys: FloatTensor<Cube>) -> FloatTensor<Cube> {
    let shape = keys.shape();
    let [heads, distances, head] = [shape[0], shape[1], shape[2]];
    let padded = Shape::from([heads, distances.next_multiple_of(ALIGNMENT), head]);
    let zeros = Cube::float_zeros(padded, &keys.device(), crate::cube::float(&keys));
    Cube::float_slice_assign(zeros, &[Slice::from(0..heads), Slice::from(0..distances), Slice::from(0..head)], keys)
}

/// The batched product of `left` `[batch, rows, depth]` and `right` `[batch, depth, columns]`.
fn multiply(left: FloatTensor<Cube>, right: FloatTensor<Cube>, dtype: FloatDType) -> Option<FloatTensor<Cube>> {
    let shape = Shape::from([left.shape()[0], left.shape()[1], right.shape()[2]]);
    if left.client.properties().features.matmul.cmma.is_empty() {
        return Some(Cube::float_cast(Cube::float_matmul(left, right), dtype));
    }
    let out = Cube::float_empty(shape, &left.device(), dtype);
    on_matrix_units(&left, &right, &out).then_some(out)
}

/// One unit per value of the keys, which are `[rows * heads, padded, head]` then, as are the values; queries become `[rows * heads,
/// frames, head]` plus the first of `biases` and, as `placed`, `[heads, rows * frames, head]` plus the second. Outputs are contiguous.
#[cube(launch)]
fn split_kernel<F: Float>(
    query: &Tensor<F>,
    keys: &Tensor<F>,
    values: &Tensor<F>,
    biases: &Tensor<F>,
    content: &mut Tensor<F>,
    placed: &mut Tensor<F>,
    split_keys: &mut Tensor<F>,
    split_values: &mut Tensor<F>,
    padded: u32,
    #[comptime] head: usize,
    #[comptime] has_positions: bool,
    #[define(F)] _dtype: ElemType,
) {
    let at = ABSOLUTE_POS;
    let padded = padded as usize;
    let (rows, heads, frames) = (query.shape(0), query.shape(1), query.shape(2));
    if at < rows * heads * padded * head {
        let dim = at % head;
        let frame = at / head % padded;
        let batch = at / head / padded;
        let (row, index) = (batch / heads, batch % heads);
        let mut key = F::new(0.0);
        let mut value = F::new(0.0);
        if frame < frames {
            let from = row * keys.stride(0) + index * keys.stride(1) + frame * keys.stride(2);
            key = keys[from + dim * keys.stride(3)];
            let from = row * values.stride(0) + index * values.stride(1) + frame * values.stride(2);
            value = values[from + dim * values.stride(3)];
            let from = row * query.stride(0) + index * query.stride(1) + frame * query.stride(2);
            let asked = f32::cast_from(query[from + dim * query.stride(3)]);
            let to = (batch * frames + frame) * head + dim;
            if comptime!(has_positions) {
                let bias = (index * head + dim) * biases.stride(1);
                content[to] = F::cast_from(asked + f32::cast_from(biases[bias]));
                let to = ((index * rows + row) * frames + frame) * head + dim;
                placed[to] = F::cast_from(asked + f32::cast_from(biases[bias + biases.stride(0)]));
            } else {
                content[to] = F::cast_from(asked);
            }
        }
        split_keys[at] = key;
        split_values[at] = value;
    }
}

/// One row of a cube's units per query: the weights of its keys from their `scores` `[rows * heads, frames, padded]` and those by
/// distance, `[heads, rows * frames, distances]`, of which the key of a distance has the number `frames - 1 + key - query`. Weights of
/// other keys are 0. Scores are read twice: first for their largest and the sum, then for the weights.
#[cube(launch)]
fn softmax_kernel<F: Float>(
    scores: &Tensor<f32>,
    by_distance: &Tensor<f32>,
    packed: &Tensor<i32>,
    out: &mut Tensor<F>,
    first_row: u32,
    heads: u32,
    scale: f32,
    #[comptime] has_positions: bool,
    #[comptime] has_planes: bool,
    #[define(F)] _dtype: ElemType,
) {
    let width = comptime!(if has_planes { PLANE } else { UNITS });
    let mut work = Shared::<[f32]>::new_slice(comptime!(if has_planes { 1 } else { UNITS }));
    let unit = UNIT_POS_X as usize;
    let cube = (CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X) as usize;
    let number = cube * comptime!(UNITS / if has_planes { PLANE } else { UNITS }) + UNIT_POS_Y as usize;
    let (batches, frames, padded) = (scores.shape(0), scores.shape(1), scores.shape(2));
    if number < batches * frames {
        let heads = heads as usize;
        let (query, batch) = (number % frames, number / frames);
        let (row, index) = (batch / heads, batch % heads);
        let facts = (first_row as usize + row) * FACTS;
        let (from, to) = (packed[facts + 2] as usize, packed[facts + 3] as usize);
        let base = number * padded;
        let of_distance =
            ((index * (batches / heads) + row) * frames + query) * by_distance.shape(2) + frames - 1 - query;
        let mut most = f32::new(-3.0e38);
        let mut sum = f32::new(0.0);
        let mut column = from + unit;
        while column < to {
            let mut score = scores[base + column];
            if comptime!(has_positions) {
                score += by_distance[of_distance + column];
            }
            score *= scale;
            let larger = max(most, score);
            sum = sum * (most - larger).exp() + (score - larger).exp();
            most = larger;
            column += width;
        }
        let of_all = largest(&mut work, most, has_planes);
        let total = total(&mut work, sum * (most - of_all).exp(), has_planes);
        // No key gives 0.
        let share = select(total > f32::new(0.0), f32::new(1.0) / total, f32::new(0.0));
        column = unit;
        while column < padded {
            let mut weight = f32::new(0.0);
            if column >= from && column < to {
                let mut score = scores[base + column];
                if comptime!(has_positions) {
                    score += by_distance[of_distance + column];
                }
                weight = (score * scale - of_all).exp() * share;
            }
            out[base + column] = F::cast_from(weight);
            column += width;
        }
    }
}

/// The largest `value` of a plane or, without planes, of a cube.
#[cube]
fn largest(work: &mut Shared<[f32]>, value: f32, #[comptime] has_planes: bool) -> f32 {
    if comptime!(has_planes) { plane_max(value) } else { cube_max(work, value, UNITS) }
}

/// The sum of `value`, as [`largest`].
#[cube]
fn total(work: &mut Shared<[f32]>, value: f32, #[comptime] has_planes: bool) -> f32 {
    if comptime!(has_planes) { plane_sum(value) } else { cube_sum(work, value, UNITS) }
}

/// One unit per value: `[rows * heads, frames, head]` to `[_, frames, heads * head]` from the row `first_row` on.
#[cube(launch)]
fn merge_kernel<F: Float>(
    attended: &Tensor<F>,
    out: &mut Tensor<F>,
    first_row: u32,
    heads: u32,
    #[comptime] head: usize,
    #[define(F)] _dtype: ElemType,
) {
    let at = ABSOLUTE_POS;
    let (batches, frames, heads) = (attended.shape(0), attended.shape(1), heads as usize);
    if at < batches * frames * head {
        let dim = at % head;
        let index = at / head % heads;
        let frame = at / head / heads % frames;
        let row = at / head / heads / frames;
        let value = attended[((row * heads + index) * frames + frame) * head + dim];
        out[first_row as usize * frames * heads * head + at] = value;
    }
}
