//! Causal attention over keys and values in pages on GPUs, as [`crate::paged_attention`] on the CPU: tokens of several sequences in two
//! launches. [`store`] turns queries and keys by their positions and writes keys and values to pages; [`attend`] reads them.
//!
//! A page has 32 consecutive tokens of one layer: keys `[heads, head, 32]`, so that units with a token each read what lies side by side, then
//! values `[heads, 32, head]`. A cache `[pages, 2 * heads * head * 32]` has 32 or 16 bits. Where tokens see a window alone, the pages of a
//! sequence are a ring. On flex are twins for tests.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Device, Int, Shape, Tensor, TensorData};

use crate::flex::{contiguous, floats, integers, tensor};
use crate::norm::rms_norm_rows;
use crate::paged_attention::PAGE;

/// Heads of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heads {
    /// Of queries: a multiple of those of keys and values.
    pub queries: usize,
    /// Of keys and values.
    pub keys: usize,
    /// Values of a head: a multiple of 4, and at most 256.
    pub width: usize,
}

impl Heads {
    /// True if a GPU computes with them.
    pub fn fit(self) -> bool {
        self.width.is_multiple_of(4) && (4..=256).contains(&self.width) && self.queries.is_multiple_of(self.keys.max(1))
    }

    /// Values of a page of one layer.
    pub fn page(self) -> usize {
        2 * self.keys * self.width * PAGE
    }

    /// Values of queries, keys and values of a token.
    fn inputs(self) -> usize {
        (self.queries + 2 * self.keys) * self.width
    }
}

/// A token of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepToken {
    /// Its sequence among those of the step.
    pub sequence: usize,
    /// Tokens of the sequence before it.
    pub position: usize,
}

/// The tokens of a step, and the pages of their sequences, on the device.
#[derive(Clone, Debug)]
pub struct PageTables {
    /// `[tokens, 2]`, flat: sequence and position.
    tokens: Tensor<1, Int>,
    /// `[sequences, width]`, flat: numbers of pages.
    pages: Tensor<1, Int>,
    /// Pages of a sequence's row.
    width: usize,
    count: usize,
    /// Tokens that one sees, itself among them; all before it without one.
    window: Option<usize>,
}

impl PageTables {
    /// The integers of [`PageTables::new`]: those of the tokens, and those of the pages in rows of `width`, the most of a sequence or more.
    ///
    /// # Panics
    /// When a sequence is unknown, has no page for a token, or has more than `width`.
    pub fn pack(tokens: &[StepToken], pages: &[&[usize]], width: usize) -> [Vec<i32>; 2] {
        let has_page = |token: &StepToken| pages[token.sequence].len() * PAGE > token.position;
        assert!(tokens.iter().all(has_page), "page tables: a page for each token");
        assert!(pages.iter().all(|pages| pages.len() <= width), "page tables: rows as long as the most pages");
        let row = |pages: &&[usize]| {
            let spare = width - pages.len();
            pages.iter().map(|page| *page as i32).chain(std::iter::repeat_n(0, spare)).collect::<Vec<i32>>()
        };
        [Self::pack_tokens(tokens), pages.iter().flat_map(row).collect()]
    }

    fn pack_tokens(tokens: &[StepToken]) -> Vec<i32> {
        tokens.iter().flat_map(|token| [token.sequence as i32, token.position as i32]).collect()
    }

    /// As [`PageTables::pack`] for sequences that each have a ring of [`PageTables::ring`] pages or more, equally many: token `n` of one is
    /// in its page `n / 32` modulo their number.
    ///
    /// # Panics
    /// When a sequence is unknown, or has fewer or more pages than the first.
    pub fn pack_rings(tokens: &[StepToken], pages: &[&[usize]]) -> [Vec<i32>; 2] {
        let width = pages.first().map_or(0, |pages| pages.len());
        assert!(pages.iter().all(|pages| pages.len() == width), "page tables: rings of equal length");
        assert!(tokens.iter().all(|token| token.sequence < pages.len()), "page tables: a ring for each token");
        [Self::pack_tokens(tokens), pages.iter().flat_map(|pages| pages.iter()).map(|page| *page as i32).collect()]
    }

    /// Pages of a ring for steps of `tokens` consecutive tokens that see a `window`: none of them is in the place of one that is seen.
    pub fn ring(window: usize, tokens: usize) -> usize {
        (window + tokens).div_ceil(PAGE) + 1
    }

    /// Tables of what [`PageTables::pack`] gives for `count` tokens, which a caller has on the device; both may be longer.
    pub fn with_packed([tokens, pages]: [Tensor<1, Int>; 2], count: usize, width: usize) -> Self {
        Self { tokens, pages, width, count, window: None }
    }

    /// Tables of what [`PageTables::pack_rings`] gives, whose tokens see the last `window` of their sequence, themselves among them.
    #[must_use]
    pub fn with_window(self, window: usize) -> Self {
        Self { window: Some(window), ..self }
    }

    /// Copies them to the device.
    ///
    /// # Panics
    /// As [`PageTables::pack`].
    pub fn new(tokens: &[StepToken], pages: &[&[usize]], device: &Device) -> Self {
        let width = pages.iter().map(|pages| pages.len()).max().unwrap_or(0);
        let packed = Self::pack(tokens, pages, width);
        let upload = |values: Vec<i32>| {
            let count = values.len();
            Tensor::from_data(TensorData::new(values, [count]), device)
        };
        Self::with_packed(packed.map(upload), tokens.len(), width)
    }
}

/// How queries and keys are made of a product's results.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Cosines and sines of each position's angles: `[positions, width]`, the cosines first. Value `i` of a head turns with value
    /// `i + width / 2`.
    pub rotations: Tensor<2>,
    /// Factors of the root-mean-square norm of each head's queries, and of its keys, before they turn: `[2, width]`.
    pub norms: Option<Tensor<2>>,
    /// Added to the mean square.
    pub epsilon: f32,
    /// Queries are multiplied by it.
    pub scale: f32,
}

/// Turns the queries and keys of `inputs` `[tokens, (queries + 2 keys) * width]`, which holds queries, keys and values, writes keys and
/// values to their places in `cache`, and returns the queries `[tokens, queries * width]` and the cache. On GPUs the cache is changed in
/// place: nothing else may hold it.
///
/// # Panics
/// When the shapes do not match.
pub fn store(
    inputs: Tensor<2>,
    turn: &Turn,
    tables: &PageTables,
    cache: Tensor<2>,
    heads: Heads,
) -> (Tensor<2>, Tensor<2>) {
    assert!(
        inputs.dims() == [tables.count, heads.inputs()]
            && cache.dims()[1] == heads.page()
            && turn.rotations.dims()[1] == heads.width
            && turn.norms.as_ref().is_none_or(|norms| norms.dims() == [2, heads.width]),
        "pages: shapes of inputs, cache, rotations and norms"
    );
    let form = Form { heads, width: tables.width, has_norms: turn.norms.is_some(), window: tables.window };
    let rotations = turn.rotations.clone().into_dispatch();
    // A kernel has the same tensors in every case; without norms this one is never read.
    let norms = turn.norms.clone().map_or_else(|| rotations.clone(), Tensor::into_dispatch);
    let (queries, cache) = Dispatch::store_in_pages(
        inputs.into_dispatch(),
        rotations,
        norms,
        tables.tokens.clone().into_dispatch(),
        tables.pages.clone().into_dispatch(),
        cache.into_dispatch(),
        form,
        [turn.epsilon, turn.scale],
    );
    (Tensor::from_dispatch(queries), Tensor::from_dispatch(cache))
}

/// Attention of queries `[tokens, queries * width]`, already scaled, to the keys of their sequence up to their own, or to those of them in the
/// tables' window. Returns the same shape.
///
/// # Panics
/// When the shapes do not match.
pub fn attend(queries: Tensor<2>, tables: &PageTables, cache: &Tensor<2>, heads: Heads) -> Tensor<2> {
    assert!(
        queries.dims() == [tables.count, heads.queries * heads.width] && cache.dims()[1] == heads.page(),
        "pages: shapes of queries and cache"
    );
    let form = Form { heads, width: tables.width, has_norms: false, window: tables.window };
    Tensor::from_dispatch(Dispatch::attend_to_pages(
        queries.into_dispatch(),
        tables.tokens.clone().into_dispatch(),
        tables.pages.clone().into_dispatch(),
        cache.clone().into_dispatch(),
        form,
    ))
}

/// The form of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    heads: Heads,
    /// Pages of a row of the table.
    width: usize,
    has_norms: bool,
    window: Option<usize>,
}

impl Form {
    /// The place of a position's page in a row of the table.
    fn page_at(self, position: usize) -> usize {
        let page = position / PAGE;
        if self.window.is_some() { page % self.width } else { page }
    }

    /// The first position that one sees.
    fn first_seen(self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait PageCacheOps: Backend {
    #[allow(clippy::too_many_arguments, reason = "the tensors of one launch")]
    fn store_in_pages(
        inputs: FloatTensor<Self>,
        rotations: FloatTensor<Self>,
        norms: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        pages: IntTensor<Self>,
        cache: FloatTensor<Self>,
        form: Form,
        numbers: [f32; 2],
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    fn attend_to_pages(
        queries: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        pages: IntTensor<Self>,
        cache: FloatTensor<Self>,
        form: Form,
    ) -> FloatTensor<Self>;
}

impl PageCacheOps for Flex {
    fn store_in_pages(
        inputs: FloatTensor<Self>,
        rotations: FloatTensor<Self>,
        norms: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        pages: IntTensor<Self>,
        cache: FloatTensor<Self>,
        form: Form,
        [epsilon, scale]: [f32; 2],
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let shape = cache.shape();
        let [inputs, rotations, norms, cache] = [inputs, rotations, norms, cache].map(contiguous);
        let [inputs, rotations, norms] = [&inputs, &rotations, &norms].map(floats);
        let [tokens, pages] = [&tokens, &pages].map(integers);
        let mut cache = floats(&cache).to_vec();
        let Form { heads: Heads { queries, keys, width: head }, width, has_norms, .. } = form;
        let half = head / 2;
        let count = inputs.len() / form.heads.inputs();
        let mut out = Vec::with_capacity(count * queries * head);
        for (row, token) in inputs.chunks_exact(form.heads.inputs()).zip(tokens.as_chunks::<2>().0) {
            let [sequence, position] = token.map(|value| value as usize);
            let page = pages[sequence * width + form.page_at(position)] as usize * form.heads.page();
            let (cosines, sines) = rotations[position * head..][..head].split_at(half);
            for (index, x) in row.chunks_exact(head).enumerate() {
                if index >= queries + keys {
                    let at = (keys + index - queries - keys) * head * PAGE + position % PAGE * head;
                    cache[page + at..][..head].copy_from_slice(x);
                    continue;
                }
                let mut x = x.to_vec();
                if has_norms {
                    let norm = &norms[if index < queries { 0 } else { head }..][..head];
                    rms_norm_rows(&x.clone(), norm, epsilon, &mut x);
                }
                let turned = |at: usize| match at < half {
                    true => x[at] * cosines[at] - x[at + half] * sines[at],
                    false => x[at] * cosines[at - half] + x[at - half] * sines[at - half],
                };
                if index < queries {
                    out.extend((0..head).map(|at| turned(at) * scale));
                } else {
                    let to = page + (index - queries) * head * PAGE + position % PAGE;
                    (0..head).for_each(|at| cache[to + at * PAGE] = turned(at));
                }
            }
        }
        (tensor(out, [count, queries * head].into()), tensor(cache, shape))
    }

    fn attend_to_pages(
        queries: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        pages: IntTensor<Self>,
        cache: FloatTensor<Self>,
        form: Form,
    ) -> FloatTensor<Self> {
        let shape: Shape = queries.shape();
        let [queries, cache] = [queries, cache].map(contiguous);
        let [queries, cache] = [&queries, &cache].map(floats);
        let [tokens, pages] = [&tokens, &pages].map(integers);
        let Form { heads: Heads { queries: of_queries, keys, width: head }, width, .. } = form;
        let mut out = Vec::with_capacity(queries.len());
        for (row, token) in queries.chunks_exact(of_queries * head).zip(tokens.as_chunks::<2>().0) {
            let [sequence, position] = token.map(|value| value as usize);
            let page = |at: usize| pages[sequence * width + form.page_at(at)] as usize * form.heads.page();
            let first = form.first_seen(position);
            for (index, query) in row.chunks_exact(head).enumerate() {
                let of = index * keys / of_queries;
                let key = |at: usize, i: usize| cache[page(at) + (of * head + i) * PAGE + at % PAGE];
                let value = |at: usize, i: usize| cache[page(at) + ((keys + of) * PAGE + at % PAGE) * head + i];
                let score = |at: usize| query.iter().enumerate().map(|(i, query)| query * key(at, i)).sum::<f32>();
                let mut weights: Vec<f32> = (first..=position).map(score).collect();
                let most = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                weights.iter_mut().for_each(|weight| *weight = (*weight - most).exp());
                let sum: f32 = weights.iter().sum();
                let weighted =
                    |i: usize| weights.iter().zip(first..).map(|(weight, at)| weight * value(at, i)).sum::<f32>();
                out.extend((0..head).map(|i| weighted(i) / sum));
            }
        }
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

    use super::{Form, Heads, PAGE, PageCacheOps};
    use crate::reduce::{cube_max, cube_sum};

    /// Units of a cube that stores a head, and of one that attends: powers of two, the latter the largest width of a head.
    const STORE_UNITS: usize = 64;
    const UNITS: usize = 256;
    /// Values that a unit reads at a time.
    const VECTOR: usize = 4;
    /// Keys between two corrections of the softmax, as many as the units read at a time: their weights are in shared memory.
    const KEYS: usize = UNITS * VECTOR;

    impl PageCacheOps for Cube {
        fn store_in_pages(
            inputs: FloatTensor<Self>,
            rotations: FloatTensor<Self>,
            norms: FloatTensor<Self>,
            tokens: IntTensor<Self>,
            pages: IntTensor<Self>,
            cache: FloatTensor<Self>,
            form: Form,
            [epsilon, scale]: [f32; 2],
        ) -> (FloatTensor<Self>, FloatTensor<Self>) {
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
}
