//! Attention by one cube for each query, for calls of few queries: all loads of a unit are under way at the same time, where a tile of
//! queries waits for one part of the keys after another. A card of a hundred cores has little else to do meanwhile.

use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, TensorMetadata};
use cubecl::prelude::*;

use super::visible::{UNSEEN, key_range};
use crate::attention::relative::{AttentionCall, Inputs, Window};
use crate::reduce::{cube_max, cube_sum};

/// Units of a cube, and keys between two corrections of the softmax.
const UNITS: usize = 256;
/// Values that a unit reads at a time.
const VECTOR: usize = 4;
/// Units that share a key: what they read at a time is a sector of a card's memory.
const LANES: usize = 4;
/// Values that a unit sums at a time: it reads as many vectors before it uses the first.
const AHEAD: usize = 4;

/// The form of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Form {
    /// Values of a head.
    head: usize,
    has_ring: bool,
    has_positions: bool,
    has_chunks: bool,
}

impl Form {
    fn vectors(self) -> usize {
        self.head / VECTOR
    }

    /// Vectors of a key that a unit reads; the last lanes repeat the last vector, whose queries are zeros there.
    fn lane_vectors(self) -> usize {
        self.vectors().div_ceil(LANES)
    }

    fn padded(self) -> usize {
        self.lane_vectors() * LANES * VECTOR
    }

    /// Keys whose values are read at the same time.
    fn shares(self) -> usize {
        (UNITS / self.vectors()).min(32)
    }
}

/// True if all vectors of keys and values lie where a unit can read them whole.
pub fn can_compute(inputs: &Inputs<Cube>, call: &AttentionCall) -> bool {
    let head = inputs.query.shape()[3];
    let are_whole = |x: &FloatTensor<Cube>| {
        x.meta
            .strides()
            .split_last()
            .is_some_and(|(last, rest)| *last == 1 && rest.iter().all(|stride| stride.is_multiple_of(VECTOR)))
    };
    head.is_multiple_of(VECTOR)
        && (VECTOR..=UNITS).contains(&head)
        && [&inputs.keys, &inputs.values, &inputs.ring_keys, &inputs.ring_values].into_iter().all(are_whole)
        && (!call.has_positions || are_whole(&inputs.position_keys))
}

/// Computes a call that [`can_compute`] allows into `out`, which is contiguous.
pub fn attention(inputs: Inputs<Cube>, out: FloatTensor<Cube>, call: &AttentionCall) {
    let Inputs { query, keys, values, ring_keys, ring_values, position_keys, biases, packed } = inputs;
    let (client, shape, dtype) = (query.client.clone(), query.shape(), query.dtype);
    let (chunk, left) = call.window.numbers();
    let form = Form {
        head: shape[3],
        has_ring: call.has_ring,
        has_positions: call.has_positions,
        has_chunks: call.window != Window::Full,
    };
    query_kernel::launch(
        &client,
        CubeCount::Static(shape[2] as u32, shape[1] as u32, shape[0] as u32),
        CubeDim::new_1d(UNITS as u32),
        query.into_tensor_arg(),
        keys.into_tensor_arg(),
        values.into_tensor_arg(),
        ring_keys.into_tensor_arg(),
        ring_values.into_tensor_arg(),
        position_keys.into_tensor_arg(),
        biases.into_tensor_arg(),
        packed.into_tensor_arg(),
        out.into_tensor_arg(),
        call.first as u32,
        chunk,
        left,
        call.scale,
        form,
        dtype_to_storage_type(dtype),
    );
}

/// The first vector of a head of a row.
#[cube]
fn place_of<F: Float>(x: &Tensor<Vector<F, Const<VECTOR>>>, row: usize, index: usize) -> usize {
    (row * x.stride(0) + index * x.stride(1)) / VECTOR
}

/// One cube per query, head and row: scores by [`LANES`] units for each key, then the weighted sum by one unit for four values of the
/// head and a share of the keys.
#[cube(launch)]
fn query_kernel<F: Float>(
    query: &Tensor<F>,
    keys: &Tensor<Vector<F, Const<VECTOR>>>,
    values: &Tensor<Vector<F, Const<VECTOR>>>,
    ring_keys: &Tensor<Vector<F, Const<VECTOR>>>,
    ring_values: &Tensor<Vector<F, Const<VECTOR>>>,
    position_keys: &Tensor<Vector<F, Const<VECTOR>>>,
    biases: &Tensor<F>,
    packed: &Tensor<i32>,
    out: &mut Tensor<F>,
    first: u32,
    chunk: u32,
    left: u32,
    scale: f32,
    #[comptime] form: Form,
    #[define(F)] _dtype: ElemType,
) {
    let mut content = Shared::<[f32]>::new_slice(comptime!(form.padded()));
    let mut placed = Shared::<[f32]>::new_slice(comptime!(form.padded()));
    let mut parts = Shared::<[f32]>::new_slice(comptime!(UNITS * VECTOR));
    let mut weights = Shared::<[f32]>::new_slice(UNITS);
    let mut work = Shared::<[f32]>::new_slice(UNITS);

    let unit = UNIT_POS as usize;
    let (number, index, row) = (CUBE_POS_X as usize, CUBE_POS_Y as usize, CUBE_POS_Z as usize);
    let (heads, queries) = (query.shape(1), query.shape(2));
    let mut columns = 0usize.runtime();
    if comptime!(form.has_ring) {
        columns = ring_keys.shape(2);
    }
    let own = columns + first as usize + number;
    let range =
        key_range(packed, row, columns, own, own, chunk as usize, left as usize, form.has_ring, form.has_chunks);
    let (from, to) = (range.from, range.to);

    if unit < comptime!(form.padded()) {
        let mut asked = f32::new(0.0);
        let mut by_place = f32::new(0.0);
        if unit < form.head {
            let place = row * query.stride(0) + index * query.stride(1) + number * query.stride(2);
            asked = f32::cast_from(query[place + unit * query.stride(3)]);
            if comptime!(form.has_positions) {
                let place = (index * form.head + unit) * biases.stride(1);
                by_place = asked + f32::cast_from(biases[place + biases.stride(0)]);
                asked += f32::cast_from(biases[place]);
            }
        }
        content[unit] = asked;
        placed[unit] = by_place;
    }
    sync_cube();

    let vectors = comptime!(form.vectors());
    let lane_vectors = comptime!(form.lane_vectors());
    let (lane, place_in_round) = (unit % LANES, unit / LANES);
    let shares = comptime!(form.shares());
    let (vector, share) = (unit % vectors, unit / vectors);
    let new_keys = place_of(keys, row, index);
    let kept_keys = place_of(ring_keys, range.slot, index);
    let new_values = place_of(values, row, index) + vector;
    let kept_values = place_of(ring_values, range.slot, index) + vector;
    let mut most = f32::new(UNSEEN);
    let mut sum = f32::new(0.0);
    let mut weighted = Vector::<f32, Const<VECTOR>>::new(f32::new(0.0));
    let mut block = from;
    while block < to {
        let count = min(to - block, UNITS);
        let mut k = place_in_round;
        while k < count {
            let key = block + k;
            let mut score = Vector::<f32, Const<VECTOR>>::new(f32::new(0.0));
            let mut of_place = Array::<Vector<F, Const<VECTOR>>>::new(lane_vectors);
            if comptime!(form.has_positions) {
                // The key of a distance has the number `queries - 1 + key - query`.
                let distance = queries - 1 + key - number;
                let place = (distance * position_keys.stride(0) + index * form.head) / VECTOR;
                #[unroll]
                for at in 0..lane_vectors {
                    of_place[at] = position_keys[place + min(at * LANES + lane, vectors - 1)];
                }
            }
            let mut of_key = Array::<Vector<F, Const<VECTOR>>>::new(lane_vectors);
            if key >= columns {
                let place = new_keys + (key - columns) * keys.stride(2) / VECTOR;
                #[unroll]
                for at in 0..lane_vectors {
                    of_key[at] = keys[place + min(at * LANES + lane, vectors - 1)];
                }
            } else if comptime!(form.has_ring) {
                let place = kept_keys + (range.written + key) % columns * ring_keys.stride(2) / VECTOR;
                #[unroll]
                for at in 0..lane_vectors {
                    of_key[at] = ring_keys[place + min(at * LANES + lane, vectors - 1)];
                }
            }
            #[unroll]
            for at in 0..lane_vectors {
                let dim = (at * LANES + lane) * VECTOR;
                let key_vector = Vector::<f32, Const<VECTOR>>::cast_from(of_key[at]);
                score += key_vector * four(&content, dim);
                if comptime!(form.has_positions) {
                    let place_vector = Vector::<f32, Const<VECTOR>>::cast_from(of_place[at]);
                    score += place_vector * four(&placed, dim);
                }
            }
            let mut part = f32::new(0.0);
            #[unroll]
            for at in 0..VECTOR {
                part += score.extract(at);
            }
            parts[k * LANES + lane] = part;
            k += comptime!(UNITS / LANES);
        }
        sync_cube();
        let key = block + unit;
        let mut score = f32::new(UNSEEN);
        if unit < count && (key < columns || key >= range.new_from) {
            let mut total = f32::new(0.0);
            #[unroll]
            for at in 0..LANES {
                total += parts[unit * LANES + at];
            }
            score = total * scale;
        }
        let next = max(most, cube_max(&mut work, score, UNITS));
        let weight = select(score > f32::new(UNSEEN / 2.0), (score - next).exp(), f32::new(0.0));
        weights[unit] = weight;
        let correction = (most - next).exp();
        sum = sum * correction + cube_sum(&mut work, weight, UNITS);
        weighted *= Vector::new(correction);
        most = next;
        if share < shares {
            let mut k = share;
            while k < count {
                let mut loaded = Array::<Vector<F, Const<VECTOR>>>::new(AHEAD);
                #[unroll]
                for at in 0..AHEAD {
                    // Keys after the last one are read as that one, and weigh nothing.
                    let key = block + min(k + at * shares, count - 1);
                    if key >= columns {
                        loaded[at] = values[new_values + (key - columns) * values.stride(2) / VECTOR];
                    } else if comptime!(form.has_ring) {
                        let column = (range.written + key) % columns;
                        loaded[at] = ring_values[kept_values + column * ring_values.stride(2) / VECTOR];
                    }
                }
                #[unroll]
                for at in 0..AHEAD {
                    let weight =
                        select(k + at * shares < count, weights[min(k + at * shares, UNITS - 1)], f32::new(0.0));
                    weighted += Vector::<f32, Const<VECTOR>>::cast_from(loaded[at]) * Vector::new(weight);
                }
                k += AHEAD * shares;
            }
        }
        // All units have read the weights before the next ones are written.
        sync_cube();
        block += UNITS;
    }
    #[unroll]
    for at in 0..VECTOR {
        parts[unit * VECTOR + at] = weighted.extract(at);
    }
    sync_cube();
    if unit < form.head {
        let mut all = f32::new(0.0);
        for share in 0..shares {
            all += parts[share * form.head + unit];
        }
        // No key gives 0.
        let factor = select(sum > f32::new(0.0), f32::new(1.0) / sum, f32::new(0.0));
        out[((row * queries + number) * heads + index) * form.head + unit] = F::cast_from(all * factor);
    }
}

#[cube]
fn four(values: &Shared<[f32]>, at: usize) -> Vector<f32, Const<VECTOR>> {
    let mut four = Vector::<f32, Const<VECTOR>>::new(values[at]);
    #[unroll]
    for next in 1..VECTOR {
        four.insert(next, values[at + next]);
    }
    four
}
