//! The CubeCL kernels. A cube computes a tile of queries of one head over all keys that they see: units share a tile of scores,
//! each a few queries times a few keys, and then the sums of the values. Sums are f32 whatever the tensors hold. No subgroup
//! operation is used: software rasterisers have none.

mod by_query;
mod products;
mod visible;

use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::ops::{FloatTensorOps, IntTensorOps};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, TensorMetadata};
use burn::tensor::{Shape, TensorData};
use cubecl::prelude::*;

use super::{AttentionCall, Inputs, RelativeAttentionOps, Way, Window};
use crate::cache::ring::{FACTS, RowFrames};
use visible::{UNSEEN, first_seen, key_range};

/// The most queries of a call that a cube each computes: 14 of 64 streams take 0.20 ms so, and 0.71 ms by tiles (0.6 B, H200).
const FEW_QUERIES: usize = 63;
/// Units of a cube.
const UNITS: usize = 64;

/// How a cube divides its work; powers of two but for `head`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tiling {
    /// Values of a head.
    head: usize,
    /// Queries of a unit.
    unit_queries: usize,
    /// Units along the queries.
    groups: usize,
    /// Units along the keys, and along the values of a head.
    columns: usize,
    /// Keys of a unit.
    unit_keys: usize,
    /// Values of a head that are in shared memory at a time.
    depth: usize,
    has_ring: bool,
    has_positions: bool,
    has_chunks: bool,
}

impl Tiling {
    fn new(queries: usize, head: usize, call: &AttentionCall) -> Self {
        let unit_queries = queries.next_power_of_two().min(4);
        let groups = queries.div_ceil(unit_queries).next_power_of_two().min(8);
        let columns = UNITS / groups;
        Self {
            head,
            unit_queries,
            groups,
            columns,
            unit_keys: (UNITS / columns).min(4),
            // Shared memory stays within the 16 KiB that every device has.
            depth: if call.has_positions { 16 } else { 32 },
            has_ring: call.has_ring,
            has_positions: call.has_positions,
            has_chunks: call.window != Window::Full,
        }
    }

    fn queries(&self) -> usize {
        self.unit_queries * self.groups
    }

    fn keys(&self) -> usize {
        self.unit_keys * self.columns
    }

    /// Distances between the queries and the keys of a tile.
    fn distances(&self) -> usize {
        self.queries() + self.keys() - 1
    }

    /// Values of a head that a unit sums.
    fn unit_values(&self) -> usize {
        self.head.div_ceil(self.columns)
    }
}

/// Attention without positions and masks, of three-dimensional tensors that hold heads side by side.
pub fn full_attention(
    query: FloatTensor<Cube>,
    keys: FloatTensor<Cube>,
    values: FloatTensor<Cube>,
    heads: usize,
) -> FloatTensor<Cube> {
    let (rows, new) = (query.shape()[0], keys.shape()[1]);
    let row = RowFrames { slot: 0, written: 0, new: 0..new };
    let facts = TensorData::new(row.facts().repeat(rows), [rows * FACTS]);
    let packed = Cube::int_from_data(facts, &query.device());
    let call = AttentionCall {
        way: Way::Fastest,
        rows: vec![row; rows],
        window: Window::Full,
        first: 0,
        scale: 1.0,
        has_ring: false,
        has_positions: false,
    };
    let split = |x: FloatTensor<Cube>| {
        let shape = x.shape();
        let apart = Shape::from([shape[0], shape[1], heads, shape[2] / heads]);
        Cube::float_swap_dims(Cube::float_reshape(x, apart), 1, 2)
    };
    let [query, keys, values] = [query, keys, values].map(split);
    let inputs = Inputs {
        ring_keys: keys.clone(),
        ring_values: values.clone(),
        position_keys: query.clone(),
        biases: query.clone(),
        query,
        keys,
        values,
        packed,
    };
    Cube::relative_attention(inputs, call)
}

impl RelativeAttentionOps for Cube {
    fn relative_attention(inputs: Inputs<Self>, call: AttentionCall) -> FloatTensor<Self> {
        let by_products = match call.way {
            Way::Fastest => products::is_faster(&inputs),
            Way::Tiles | Way::ByQuery => false,
            Way::Products => true,
        };
        if by_products
            && products::can_compute(&inputs, &call)
            && let Some(attended) = products::attention(&inputs, &call)
        {
            return attended;
        }
        let (client, device, shape, dtype) =
            (inputs.query.client.clone(), inputs.query.device(), inputs.query.shape(), inputs.query.dtype);
        let [rows, heads, queries, head] = [shape[0], shape[1], shape[2], shape[3]];
        let out = Self::float_empty([rows, queries, heads * head].into(), &device, crate::cube::float(&inputs.query));
        let by_query = match call.way {
            Way::Fastest => queries <= FEW_QUERIES,
            Way::ByQuery => true,
            Way::Tiles | Way::Products => false,
        };
        if by_query && by_query::can_compute(&inputs, &call) {
            by_query::attention(inputs, out.clone(), &call);
            return out;
        }
        let Inputs { query, keys, values, ring_keys, ring_values, position_keys, biases, packed } = inputs;
        let tiling = Tiling::new(queries, head, &call);
        let (chunk, left) = call.window.numbers();
        attention_kernel::launch(
            &client,
            CubeCount::Static(queries.div_ceil(tiling.queries()) as u32, heads as u32, rows as u32),
            CubeDim::new_1d(UNITS as u32),
            query.into_tensor_arg(),
            keys.into_tensor_arg(),
            values.into_tensor_arg(),
            ring_keys.into_tensor_arg(),
            ring_values.into_tensor_arg(),
            position_keys.into_tensor_arg(),
            biases.into_tensor_arg(),
            packed.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            call.first as u32,
            chunk,
            left,
            call.scale,
            tiling,
            dtype_to_storage_type(dtype),
        );
        out
    }
}

/// One cube per tile of queries, head and row: see [`super::attend`]. `out` is contiguous.
#[cube(launch)]
fn attention_kernel<F: Float>(
    query: &Tensor<F>,
    keys: &Tensor<F>,
    values: &Tensor<F>,
    ring_keys: &Tensor<F>,
    ring_values: &Tensor<F>,
    position_keys: &Tensor<F>,
    biases: &Tensor<F>,
    packed: &Tensor<i32>,
    out: &mut Tensor<F>,
    first: u32,
    chunk: u32,
    left: u32,
    scale: f32,
    #[comptime] tiling: Tiling,
    #[define(F)] _dtype: ElemType,
) {
    // A row of shared memory is one value longer than its use, so that the units of a tile read from different banks.
    let stride = comptime!(tiling.depth + 1);
    let score_stride = comptime!(tiling.keys() + 1);
    let unit_queries = comptime!(tiling.unit_queries);
    let unit_keys = comptime!(tiling.unit_keys);
    let unit_values = comptime!(tiling.unit_values());
    let mut shared_queries = Shared::<[f32]>::new_slice(comptime!(tiling.queries() * (tiling.depth + 1)));
    let mut shared_placed = Shared::<[f32]>::new_slice(comptime!(match tiling.has_positions {
        true => tiling.queries() * (tiling.depth + 1),
        false => 1,
    }));
    let mut shared_keys = Shared::<[f32]>::new_slice(comptime!(tiling.keys() * (tiling.depth + 1)));
    let mut shared_distances = Shared::<[f32]>::new_slice(comptime!(match tiling.has_positions {
        true => tiling.distances() * (tiling.depth + 1),
        false => 1,
    }));
    let mut weights = Shared::<[f32]>::new_slice(comptime!(tiling.queries() * (tiling.keys() + 1)));

    let unit = UNIT_POS as usize;
    let (column, group) = (unit % comptime!(tiling.columns), unit / comptime!(tiling.columns));
    let (index, row) = (CUBE_POS_Y as usize, CUBE_POS_Z as usize);
    let first_query = CUBE_POS_X as usize * comptime!(tiling.queries());
    let (heads, queries) = (query.shape(1), query.shape(2));
    let mut columns = 0usize.runtime();
    if comptime!(tiling.has_ring) {
        columns = ring_keys.shape(2);
    }
    let own = columns + first as usize;
    let (chunk, left) = (chunk as usize, left as usize);
    let last_query = min(first_query + comptime!(tiling.queries()), queries) - 1;
    let range = key_range(
        packed,
        row,
        columns,
        own + first_query,
        own + last_query,
        chunk,
        left,
        tiling.has_ring,
        tiling.has_chunks,
    );
    let (from, to, slot, written, new_from) = (range.from, range.to, range.slot, range.written, range.new_from);

    let mut sums = Array::<f32>::new(unit_queries);
    let mut largest = Array::<f32>::new(unit_queries);
    let mut results = Array::<f32>::new(comptime!(unit_queries * unit_values));
    #[unroll]
    for q in 0..unit_queries {
        sums[q] = f32::new(0.0);
        largest[q] = f32::new(comptime!(UNSEEN));
    }
    #[unroll]
    for at in 0..comptime!(unit_queries * unit_values) {
        results[at] = f32::new(0.0);
    }

    let mut block = from;
    while block < to {
        let mut scores = Array::<f32>::new(comptime!(unit_queries * unit_keys));
        #[unroll]
        for at in 0..comptime!(unit_queries * unit_keys) {
            scores[at] = f32::new(0.0);
        }
        for part in 0..comptime!(tiling.head.div_ceil(tiling.depth)) {
            let first_value = part * comptime!(tiling.depth);
            let mut at = unit;
            while at < comptime!(tiling.queries() * tiling.depth) {
                let (q, d) = (at / comptime!(tiling.depth), at % comptime!(tiling.depth));
                let (number, dim) = (first_query + q, first_value + d);
                let mut content = f32::new(0.0);
                let mut placed = f32::new(0.0);
                if number < queries && dim < comptime!(tiling.head) {
                    let place = row * query.stride(0) + index * query.stride(1) + number * query.stride(2);
                    content = f32::cast_from(query[place + dim * query.stride(3)]);
                    if comptime!(tiling.has_positions) {
                        let place = (index * comptime!(tiling.head) + dim) * biases.stride(1);
                        placed = content + f32::cast_from(biases[place + biases.stride(0)]);
                        content += f32::cast_from(biases[place]);
                    }
                }
                shared_queries[q * stride + d] = content;
                if comptime!(tiling.has_positions) {
                    shared_placed[q * stride + d] = placed;
                }
                at += UNITS;
            }
            at = unit;
            while at < comptime!(tiling.keys() * tiling.depth) {
                let (k, d) = (at / comptime!(tiling.depth), at % comptime!(tiling.depth));
                let (key, dim) = (block + k, first_value + d);
                let mut value = f32::new(0.0);
                if key < to && dim < comptime!(tiling.head) {
                    if key >= columns {
                        let place = row * keys.stride(0) + index * keys.stride(1) + (key - columns) * keys.stride(2);
                        value = f32::cast_from(keys[place + dim * keys.stride(3)]);
                    } else if comptime!(tiling.has_ring) {
                        let place = slot * ring_keys.stride(0)
                            + index * ring_keys.stride(1)
                            + ((written + key) % columns) * ring_keys.stride(2);
                        value = f32::cast_from(ring_keys[place + dim * ring_keys.stride(3)]);
                    }
                }
                shared_keys[k * stride + d] = value;
                at += UNITS;
            }
            if comptime!(tiling.has_positions) {
                at = unit;
                while at < comptime!(tiling.distances() * tiling.depth) {
                    let (distance, d) = (at / comptime!(tiling.depth), at % comptime!(tiling.depth));
                    let dim = first_value + d;
                    // The key of a distance has the number `queries - 1 + key - query`; those of pairs beyond the tile's may not exist.
                    let place = queries + block + distance;
                    let least = first_query + comptime!(tiling.queries());
                    let mut value = f32::new(0.0);
                    if place >= least && place - least < position_keys.shape(0) && dim < comptime!(tiling.head) {
                        let of = (index * comptime!(tiling.head) + dim) * position_keys.stride(1);
                        value = f32::cast_from(position_keys[(place - least) * position_keys.stride(0) + of]);
                    }
                    shared_distances[distance * stride + d] = value;
                    at += UNITS;
                }
            }
            sync_cube();
            let query_row = group * unit_queries * stride;
            let key_row = column * unit_keys * stride;
            for d in 0..comptime!(tiling.depth) {
                let mut key_values = Array::<f32>::new(unit_keys);
                #[unroll]
                for k in 0..unit_keys {
                    key_values[k] = shared_keys[key_row + k * stride + d];
                }
                #[unroll]
                for q in 0..unit_queries {
                    let content = shared_queries[query_row + q * stride + d];
                    #[unroll]
                    for k in 0..unit_keys {
                        scores[q * unit_keys + k] += content * key_values[k];
                    }
                }
                if comptime!(tiling.has_positions) {
                    let lowest =
                        (column * unit_keys + comptime!(tiling.queries()) - (group + 1) * unit_queries) * stride;
                    let mut distance_values = Array::<f32>::new(comptime!(unit_keys + unit_queries - 1));
                    #[unroll]
                    for distance in 0..comptime!(unit_keys + unit_queries - 1) {
                        distance_values[distance] = shared_distances[lowest + distance * stride + d];
                    }
                    #[unroll]
                    for q in 0..unit_queries {
                        let placed = shared_placed[query_row + q * stride + d];
                        #[unroll]
                        for k in 0..unit_keys {
                            scores[q * unit_keys + k] += placed * distance_values[comptime!(unit_queries - 1 + k - q)];
                        }
                    }
                }
            }
            sync_cube();
        }

        #[unroll]
        for q in 0..unit_queries {
            let number = first_query + group * unit_queries + q;
            let mut low = from;
            let mut high = to;
            if comptime!(tiling.has_chunks) {
                low = max(from, first_seen(own + number, chunk, left));
                high = min(to, ((own + number) / chunk + 1) * chunk);
            }
            #[unroll]
            for k in 0..unit_keys {
                let key = block + column * unit_keys + k;
                let is_seen = number < queries && key >= low && key < high && (key < columns || key >= new_from);
                let score = select(is_seen, scores[q * unit_keys + k] * scale, f32::new(comptime!(UNSEEN)));
                scores[q * unit_keys + k] = score;
                weights[(group * unit_queries + q) * score_stride + column * unit_keys + k] = score;
            }
        }
        sync_cube();
        let mut block_largest = Array::<f32>::new(unit_queries);
        #[unroll]
        for q in 0..unit_queries {
            let mut most = largest[q];
            for k in 0..comptime!(tiling.keys()) {
                most = max(most, weights[(group * unit_queries + q) * score_stride + k]);
            }
            block_largest[q] = most;
        }
        // All units have read the scores before weights take their place.
        sync_cube();
        #[unroll]
        for q in 0..unit_queries {
            let most = block_largest[q];
            let correction = (largest[q] - most).exp();
            largest[q] = most;
            sums[q] *= correction;
            #[unroll]
            for at in 0..unit_values {
                results[q * unit_values + at] *= correction;
            }
            #[unroll]
            for k in 0..unit_keys {
                let score = scores[q * unit_keys + k];
                let weight = select(score > f32::new(comptime!(UNSEEN / 2.0)), (score - most).exp(), f32::new(0.0));
                weights[(group * unit_queries + q) * score_stride + column * unit_keys + k] = weight;
            }
        }
        sync_cube();
        let count = min(to - block, comptime!(tiling.keys()));
        for k in 0..count {
            let key = block + k;
            let mut key_values = Array::<f32>::new(unit_values);
            #[unroll]
            for at in 0..unit_values {
                let dim = column + at * comptime!(tiling.columns);
                let mut value = f32::new(0.0);
                if dim < comptime!(tiling.head) {
                    if key >= columns {
                        let place =
                            row * values.stride(0) + index * values.stride(1) + (key - columns) * values.stride(2);
                        value = f32::cast_from(values[place + dim * values.stride(3)]);
                    } else if comptime!(tiling.has_ring) {
                        let place = slot * ring_values.stride(0)
                            + index * ring_values.stride(1)
                            + ((written + key) % columns) * ring_values.stride(2);
                        value = f32::cast_from(ring_values[place + dim * ring_values.stride(3)]);
                    }
                }
                key_values[at] = value;
            }
            #[unroll]
            for q in 0..unit_queries {
                let weight = weights[(group * unit_queries + q) * score_stride + k];
                sums[q] += weight;
                #[unroll]
                for at in 0..unit_values {
                    results[q * unit_values + at] += weight * key_values[at];
                }
            }
        }
        block += comptime!(tiling.keys());
    }

    #[unroll]
    for q in 0..unit_queries {
        let number = first_query + group * unit_queries + q;
        // No key gives 0.
        let share = select(sums[q] > f32::new(0.0), f32::new(1.0) / sums[q], f32::new(0.0));
        #[unroll]
        for at in 0..unit_values {
            let dim = column + at * comptime!(tiling.columns);
            if number < queries && dim < comptime!(tiling.head) {
                let place = (row * queries + number) * heads * comptime!(tiling.head) + index * comptime!(tiling.head);
                out[place + dim] = F::cast_from(results[q * unit_values + at] * share);
            }
        }
    }
}
