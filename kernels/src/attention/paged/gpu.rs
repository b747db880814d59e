use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::cpu::PAGE;
use super::{Form, Heads, PageCacheOps, StoredStep};
use crate::reduce::{cube_max, cube_sum};

/// Units of a cube that stores a head, and of one that attends: powers of two, the latter the largest width of a head.
const STORE_UNITS: usize = 64;
const UNITS: usize = 256;
/// Values that a unit reads at a time.
const VECTOR: usize = 4;
/// Keys between two corrections of the softmax, as many as the units read at a time: their weights are in shared memory.
const KEYS: usize = UNITS * VECTOR;

impl PageCacheOps for Cube {
    fn store_in_pages(step: StoredStep<Self>, form: Form) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let StoredStep { inputs, rotations, norms, tokens, pages, cache, epsilon, scale } = step;
        let inputs = crate::cube::contiguous(inputs);
        let (client, device, count) = (inputs.client.clone(), inputs.device(), inputs.shape()[0]);
        let Heads { queries, keys, width } = form.heads;
        let out = Self::float_empty([count, queries * width].into(), &device, FloatDType::F32);
        let dtype = dtype_to_storage_type(cache.dtype);
        store_kernel::launch(
            &client,
            CubeCount::Static((queries + 2 * keys) as u32, count as u32, 1),
            CubeDim::new_1d(STORE_UNITS as u32),
            inputs.into_tensor_arg(),
            rotations.into_tensor_arg(),
            norms.into_tensor_arg(),
            tokens.into_tensor_arg(),
            pages.into_tensor_arg(),
            cache.clone().into_tensor_arg(),
            out.clone().into_tensor_arg(),
            form.width as u32,
            epsilon,
            scale,
            form.heads,
            form.has_norms,
            form.window.is_some(),
            dtype,
        );
        (out, cache)
    }

    fn attend_to_pages(
        queries: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        pages: IntTensor<Self>,
        cache: FloatTensor<Self>,
        form: Form,
    ) -> FloatTensor<Self> {
        let queries = crate::cube::contiguous(queries);
        let (client, device, shape) = (queries.client.clone(), queries.device(), queries.shape());
        let count = shape[0];
        assert!(form.heads.fit(), "pages: heads of a multiple of 4 values, 256 at most");
        let out = Self::float_empty(shape, &device, FloatDType::F32);
        let dtype = dtype_to_storage_type(cache.dtype);
        attend_kernel::launch(
            &client,
            CubeCount::Static(form.heads.queries as u32, count as u32, 1),
            CubeDim::new_1d(UNITS as u32),
            queries.into_tensor_arg(),
            tokens.into_tensor_arg(),
            pages.into_tensor_arg(),
            cache.binding().into_buffer_arg(),
            out.clone().into_tensor_arg(),
            form.width as u32,
            form.window.unwrap_or(0) as u32,
            form.heads,
            form.window.is_some(),
            dtype,
        );
        out
    }
}

/// One cube per head of queries, keys or values of a token. `inputs`, `rotations`, `norms`, `cache` and `queries` are contiguous.
#[cube(launch)]
fn store_kernel<F: Float>(
    inputs: &Tensor<f32>,
    rotations: &Tensor<f32>,
    norms: &Tensor<f32>,
    tokens: &Tensor<i32>,
    pages: &Tensor<i32>,
    cache: &mut Tensor<F>,
    queries: &mut Tensor<f32>,
    width: u32,
    epsilon: f32,
    scale: f32,
    #[comptime] heads: Heads,
    #[comptime] has_norms: bool,
    #[comptime] is_ring: bool,
    #[define(F)] _dtype: ElemType,
) {
    let mut work = Shared::<[f32]>::new_slice(STORE_UNITS);
    let (unit, index, row) = (UNIT_POS as usize, CUBE_POS_X as usize, CUBE_POS_Y as usize);
    let head = comptime!(heads.width).runtime();
    let half = comptime!(heads.width / 2).runtime();
    let turns = comptime!(heads.queries + heads.keys).runtime();
    let base = (row * comptime!(heads.queries + 2 * heads.keys) + index) * head;
    let position = tokens[row * 2 + 1] as usize;
    let number = page_number(pages, tokens[row * 2] as usize * width as usize, position, width, is_ring);
    let (page, place) = (number * comptime!(heads.page()), position % PAGE);
    let mut factor = f32::new(1.0);
    if comptime!(has_norms) {
        let mut squares = f32::new(0.0);
        let mut at = unit;
        while at < head {
            squares += inputs[base + at] * inputs[base + at];
            at += STORE_UNITS;
        }
        let mean = cube_sum(&mut work, squares, STORE_UNITS) / f32::cast_from(head as u32);
        factor = f32::new(1.0) / (mean + epsilon).sqrt();
    }
    if index < turns {
        let mut at = unit;
        while at < half {
            let mut a = inputs[base + at];
            let mut b = inputs[base + at + half];
            if comptime!(has_norms) {
                let mut norm = at;
                if index >= comptime!(heads.queries) {
                    norm += head;
                }
                a *= factor * norms[norm];
                b *= factor * norms[norm + half];
            }
            let cosine = rotations[position * head + at];
            let sine = rotations[position * head + half + at];
            let first = a * cosine - b * sine;
            let second = b * cosine + a * sine;
            if index < comptime!(heads.queries) {
                let to = (row * comptime!(heads.queries) + index) * head + at;
                queries[to] = first * scale;
                queries[to + half] = second * scale;
            } else {
                let to = page + ((index - comptime!(heads.queries)) * head + at) * PAGE + place;
                cache[to] = F::cast_from(first);
                cache[to + half * PAGE] = F::cast_from(second);
            }
            at += STORE_UNITS;
        }
    } else {
        let mut at = unit;
        let to = page + ((comptime!(heads.keys).runtime() + index - turns) * PAGE + place) * head;
        while at < head {
            cache[to + at] = F::cast_from(inputs[base + at]);
            at += STORE_UNITS;
        }
    }
}

/// The number of a position's page; the row of its sequence begins at `table` in `pages`.
#[cube]
fn page_number(pages: &Tensor<i32>, table: usize, position: usize, width: u32, #[comptime] is_ring: bool) -> usize {
    let page = position / PAGE;
    let mut place = page;
    if comptime!(is_ring) {
        place = page % width as usize;
    }
    pages[table + place] as usize
}

impl Heads {
    /// Vectors of a head.
    fn vectors(self) -> usize {
        self.width / VECTOR
    }

    /// Tokens of a page whose values are read at the same time: a power of two.
    fn shares(self) -> usize {
        let most = (UNITS / self.vectors()).clamp(1, PAGE);
        if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 }
    }
}

/// One cube per head of a token: scores with one unit per four keys, then the weighted sum with one unit per four values of the head
/// and share of the keys. Loads do not wait for one another: a card takes long for one. All tensors are contiguous.
#[cube(launch)]
fn attend_kernel<F: Float>(
    queries: &Tensor<f32>,
    tokens: &Tensor<i32>,
    pages: &Tensor<i32>,
    cache: &[Vector<F, Const<VECTOR>>],
    out: &mut Tensor<f32>,
    width: u32,
    window: u32,
    #[comptime] heads: Heads,
    #[comptime] is_ring: bool,
    #[define(F)] _dtype: ElemType,
) {
    let mut query = Shared::<[f32]>::new_slice(heads.width);
    let mut weights = Shared::<[f32]>::new_slice(KEYS);
    let mut work = Shared::<[f32]>::new_slice(comptime!(UNITS * VECTOR));
    let (unit, index, row) = (UNIT_POS as usize, CUBE_POS_X as usize, CUBE_POS_Y as usize);
    let head = comptime!(heads.width).runtime();
    let of = index * comptime!(heads.keys) / comptime!(heads.queries);
    let base = (row * comptime!(heads.queries) + index) * head;
    let table = tokens[row * 2] as usize * width as usize;
    let visible = tokens[row * 2 + 1] as usize + 1;
    let page_vectors = comptime!(heads.page() / VECTOR);
    if unit < head {
        query[unit] = queries[base + unit];
    }
    sync_cube();

    let vectors = comptime!(heads.vectors()).runtime();
    let shares = comptime!(heads.shares()).runtime();
    let steps = comptime!(PAGE / heads.shares());
    let (lane, share) = (unit % vectors, unit / vectors);
    let mut most = f32::new(-3.0e38);
    let mut sum = f32::new(0.0);
    let mut weighted = Vector::<f32, Const<VECTOR>>::new(f32::new(0.0));
    let mut from = 0usize.runtime();
    let mut first_seen = 0usize.runtime();
    if comptime!(is_ring) {
        first_seen = visible - min(visible, window as usize);
        // Blocks of keys begin with a page.
        from = first_seen / PAGE * PAGE;
    }
    while from < visible {
        let count = min(visible - from, KEYS);
        let whole_pages = (count + comptime!(PAGE - 1)) / PAGE;
        let first = unit * VECTOR;
        let mut score_max = f32::new(-3.0e38);
        if first < whole_pages * PAGE {
            let mut scores = Vector::<f32, Const<VECTOR>>::new(f32::new(0.0));
            if first < count {
                let at = from + first;
                let page = page_number(pages, table, at, width, is_ring) * page_vectors;
                let place = page + (of * head * PAGE + at % PAGE) / VECTOR;
                for i in 0..vectors {
                    let mut keys = Array::<Vector<F, Const<VECTOR>>>::new(VECTOR);
                    #[unroll]
                    for j in 0..VECTOR {
                        keys[j] = cache[place + (i * VECTOR + j) * comptime!(PAGE / VECTOR)];
                    }
                    #[unroll]
                    for j in 0..VECTOR {
                        let key = Vector::<f32, Const<VECTOR>>::cast_from(keys[j]);
                        scores += key * Vector::new(query[i * VECTOR + j]);
                    }
                }
            }
            // Keys after the last and before the first weigh nothing, whatever the rest of their page holds.
            #[unroll]
            for j in 0..VECTOR {
                let mut score = f32::new(-3.0e38);
                if first + j < count && from + first + j >= first_seen {
                    score = scores.extract(j);
                }
                weights[first + j] = score;
                score_max = max(score_max, score);
            }
        }
        let next = max(most, cube_max(&mut work, score_max, UNITS));
        let correction = (most - next).exp();
        let mut part = f32::new(0.0);
        if first < whole_pages * PAGE {
            #[unroll]
            for j in 0..VECTOR {
                let weight = (weights[first + j] - next).exp();
                weights[first + j] = weight;
                part += weight;
            }
        }
        sum = sum * correction + cube_sum(&mut work, part, UNITS);
        weighted *= Vector::new(correction);
        if share < shares {
            for page in 0..whole_pages {
                let number = page_number(pages, table, from + page * PAGE, width, is_ring);
                let place = number * page_vectors + (comptime!(heads.keys).runtime() + of) * vectors * PAGE + lane;
                let last = min(visible - from - page * PAGE, PAGE) - 1;
                let mut values = Array::<Vector<F, Const<VECTOR>>>::new(steps);
                #[unroll]
                for step in 0..steps {
                    // The rest of the page may be no numbers.
                    values[step] = cache[place + min(share + step * shares, last) * vectors];
                }
                #[unroll]
                for step in 0..steps {
                    let weight = weights[page * PAGE + share + step * shares];
                    weighted += Vector::<f32, Const<VECTOR>>::cast_from(values[step]) * Vector::new(weight);
                }
            }
        }
        // All units have read the weights before the next ones are written.
        sync_cube();
        most = next;
        from += KEYS;
    }
    #[unroll]
    for j in 0..VECTOR {
        work[unit * VECTOR + j] = weighted.extract(j);
    }
    sync_cube();
    if unit < head {
        let mut all = f32::new(0.0);
        for share in 0..shares {
            all += work[share * head + unit];
        }
        out[base + unit] = all / sum;
    }
}
