//! Attention of few queries over the cached keys and values of one head, on the CPU. Keys and values are stored in the order in
//! which a query reads them, in f32 or in 8 bits: a query over many keys takes as long as they take to read, and up to eight read them once.

use std::sync::Arc;

use crate::product::gemv::{PANEL, Precision, ROWS, Weight, accumulate, accumulate_pair, multiply, multiply_pair};
use crate::vector_math::{Softmax, largest_magnitude};

/// The keys and values of one head.
#[derive(Clone, Debug)]
pub struct KvCache {
    stored: Stored,
    head: usize,
    count: usize,
}

#[derive(Clone, Debug)]
enum Stored {
    F32(Panels<f32>),
    /// In 8 bits, and the scales of each key and value.
    Int8(Panels<i8>, Vec<[f32; 2]>),
}

#[derive(Clone, Debug)]
struct Panels<W> {
    /// Keys in panels of 32 keys: `[panels, head, 32]`.
    keys: Vec<W>,
    /// Values in panels of 32 values of a head: `[panels][count, 32]`.
    values: Vec<Vec<W>>,
}

impl KvCache {
    /// Most queries that read the keys and values together.
    pub const MOST_QUERIES: usize = ROWS;

    /// An empty cache of a head of `head` values with room for `count` keys and values, which are stored with the given precision.
    pub fn with_capacity(head: usize, count: usize, precision: Precision) -> Self {
        let stored = match precision {
            Precision::F32 | Precision::F16 => Stored::F32(Panels::new(head, count)),
            Precision::Int8 | Precision::Int4 => Stored::Int8(Panels::new(head, count), Vec::with_capacity(count)),
        };
        Self { stored, head, count: 0 }
    }

    /// Number of keys.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Appends a key and a value, `[head]` each.
    ///
    /// # Panics
    /// When `key` or `value` has another length.
    pub fn push(&mut self, key: &[f32], value: &[f32]) {
        assert!(key.len() == self.head && value.len() == self.head, "KV cache: lengths of key and value");
        match &mut self.stored {
            Stored::F32(panels) => panels.push(self.count, [key, value], [1.0; 2], |value, _| value),
            Stored::Int8(panels, scales) => {
                let largest = [key, value].map(largest_magnitude);
                let inverse = largest.map(|largest| if largest > 0.0 { 127.0 / largest } else { 0.0 });
                // Adding 1.5 * 2^23 rounds to an integer, whose lowest byte is then the number's.
                let round = |value: f32, inverse: f32| (value * inverse + 12_582_912.0).to_bits() as i8;
                panels.push(self.count, [key, value], inverse, round);
                scales.push(largest.map(|largest| largest / 127.0));
            }
        }
        self.count += 1;
    }

    /// Attends with up to eight `queries` `[queries, head]`, already scaled, over all keys: writes the result to `out`
    /// `[queries, head]` and the attention weight of each key to `weights` `[queries, count]`.
    ///
    /// # Panics
    /// When there are more queries, `queries` or `out` has another length, or the cache is empty.
    pub fn attend(&self, queries: &[f32], out: &mut [f32], weights: &mut Vec<f32>) {
        let rows = queries.len() / self.head;
        assert!(
            (1..=ROWS).contains(&rows) && queries.len() == rows * self.head && out.len() == queries.len(),
            "KV cache: lengths of queries and out"
        );
        assert!(self.count > 0, "KV cache: at least one key");
        weights.clear();
        weights.resize(rows * self.count, 0.0);
        match &self.stored {
            Stored::F32(panels) => panels.score(queries, rows, weights),
            Stored::Int8(panels, scales) => {
                panels.score(queries, rows, weights);
                scale_rows(weights, scales.iter().map(|[key, _]| *key));
            }
        }
        pulp::Arch::new().dispatch(Softmax { logits: weights, width: self.count });
        match &self.stored {
            Stored::F32(panels) => panels.mix(weights, rows, out),
            Stored::Int8(panels, scales) => {
                let mut scaled = weights.clone();
                scale_rows(&mut scaled, scales.iter().map(|[_, value]| *value));
                panels.mix(&scaled, rows, out);
            }
        }
    }
}

/// The keys and values of one head, in f32, that grow by one with each query. Copies share their full pages of 32 keys; the last page is
/// copied when one of those that share it grows.
#[derive(Clone, Debug)]
pub struct PagedKvCache {
    /// A panel of keys `[head, 32]`, then panels of 32 values of a head `[panels][32, 32]`.
    pages: Vec<Arc<[f32]>>,
    head: usize,
    count: usize,
}

impl PagedKvCache {
    /// An empty cache of a head of `head` values.
    pub fn new(head: usize) -> Self {
        Self { pages: Vec::new(), head, count: 0 }
    }

    /// Number of keys.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Appends a key and a value, `[head]` each.
    ///
    /// # Panics
    /// When `key` or `value` has another length.
    pub fn push(&mut self, key: &[f32], value: &[f32]) {
        assert!(key.len() == self.head && value.len() == self.head, "KV cache: lengths of key and value");
        let at = self.count % PANEL;
        if at == 0 {
            self.pages.push(vec![0f32; (self.head + self.head.next_multiple_of(PANEL)) * PANEL].into());
        }
        let Some(page) = self.pages.last_mut().map(Arc::make_mut) else { return };
        let (keys, values) = page.split_at_mut(self.head * PANEL);
        keys[at..].iter_mut().step_by(PANEL).zip(key).for_each(|(to, key)| *to = *key);
        for (panel, value) in values.chunks_exact_mut(PANEL * PANEL).zip(value.chunks(PANEL)) {
            panel[at * PANEL..][..value.len()].copy_from_slice(value);
        }
        self.count += 1;
    }

    /// As [`KvCache::attend`] with one query `[head]`.
    ///
    /// # Panics
    /// When `query` or `out` has another length, or the cache is empty.
    pub fn attend(&self, query: &[f32], out: &mut [f32], weights: &mut Vec<f32>) {
        assert!(query.len() == self.head && out.len() == self.head, "KV cache: lengths of query and out");
        assert!(self.count > 0, "KV cache: at least one key");
        weights.clear();
        weights.resize(self.count, 0.0);
        let keys = |page: usize| self.pages.get(page).map(|page| &page[..self.head * PANEL]);
        multiply_all(query, 1, (0..).map_while(keys), weights);
        pulp::Arch::new().dispatch(Softmax { logits: weights, width: self.count });
        let mut sums = [[0f32; PANEL]; ROWS];
        for (pair, out) in out.chunks_mut(2 * PANEL).enumerate() {
            sums[..2].fill([0.0; PANEL]);
            let from = (self.head + pair * 2 * PANEL) * PANEL;
            for (page, weights) in self.pages.iter().zip(weights.chunks(PANEL)) {
                let values = |panel: usize| &page[from + panel * PANEL * PANEL..][..weights.len() * PANEL];
                if out.len() > PANEL {
                    let [one, two, ..] = &mut sums;
                    accumulate_pair(weights, [values(0), values(1)], [one, two]);
                } else {
                    accumulate(1, weights, values(0), &mut sums);
                }
            }
            out.copy_from_slice(&sums.as_flattened()[..out.len()]);
        }
    }
}

impl<W: Weight + Default> Panels<W> {
    fn new(head: usize, count: usize) -> Self {
        let values = (0..head.div_ceil(PANEL)).map(|_| Vec::with_capacity(count * PANEL));
        Self { keys: Vec::with_capacity(count.div_ceil(PANEL) * PANEL * head), values: values.collect() }
    }

    /// Appends a key and a value after `count` others; `convert` gets a number of either and its factor.
    fn push(&mut self, count: usize, [key, value]: [&[f32]; 2], factors: [f32; 2], convert: impl Fn(f32, f32) -> W) {
        let head = key.len();
        if count.is_multiple_of(PANEL) {
            self.keys.resize(self.keys.len() + head * PANEL, W::default());
        }
        let from = count / PANEL * head * PANEL + count % PANEL;
        let to = self.keys[from..].iter_mut().step_by(PANEL);
        to.zip(key).for_each(|(to, key)| *to = convert(*key, factors[0]));
        for (panel, value) in self.values.iter_mut().zip(value.chunks(PANEL)) {
            panel.extend(value.iter().map(|value| convert(*value, factors[1])));
            panel.resize(panel.len() + PANEL - value.len(), W::default());
        }
    }

    /// The products of `queries` with all keys: `[rows, keys]`.
    fn score(&self, queries: &[f32], rows: usize, scores: &mut [f32]) {
        multiply_all(queries, rows, self.keys.chunks_exact(queries.len() / rows * PANEL), scores);
    }

    /// The sums of the values, weighted: `[rows, head]`.
    fn mix(&self, weights: &[f32], rows: usize, out: &mut [f32]) {
        multiply_all(weights, rows, self.values.iter().map(Vec::as_slice), out);
    }
}

/// Multiplies each row by `factors`.
fn scale_rows(rows: &mut [f32], factors: impl ExactSizeIterator<Item = f32> + Clone) {
    for row in rows.chunks_exact_mut(factors.len()) {
        row.iter_mut().zip(factors.clone()).for_each(|(value, factor)| *value *= factor);
    }
}

/// Multiplies `x` `[rows, inputs]` with panels `[inputs, 32]`, into `out` `[rows, outputs]`; the last panel may be wider.
fn multiply_all<'a, W: Weight + 'a>(
    x: &[f32],
    rows: usize,
    mut panels: impl Iterator<Item = &'a [W]>,
    out: &mut [f32],
) {
    let (inputs, outputs) = (x.len() / rows, out.len() / rows);
    let mut sums = [[0f32; PANEL]; ROWS];
    if rows == 1 {
        for out in out.chunks_mut(2 * PANEL) {
            let [one, two, ..] = &mut sums;
            match (panels.next(), panels.next()) {
                (Some(first), Some(second)) => multiply_pair(x, [first, second], [one, two]),
                (Some(first), None) => multiply(1, x, first, &mut sums),
                (None, _) => {}
            }
            out.copy_from_slice(&sums.as_flattened()[..out.len()]);
        }
        return;
    }
    let width = rows.next_power_of_two();
    let mut transposed = vec![0f32; inputs * width];
    for (input, to) in transposed.chunks_exact_mut(width).enumerate() {
        to.iter_mut().zip(x[input..].iter().step_by(inputs)).for_each(|(to, x)| *to = *x);
    }
    for (number, panel) in panels.enumerate() {
        multiply(width, &transposed, panel, &mut sums);
        let from = number * PANEL;
        for (out, sums) in out.chunks_exact_mut(outputs).zip(&sums) {
            let out = &mut out[from..outputs.min(from + PANEL)];
            out.copy_from_slice(&sums[..out.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache and its copy grow apart, each with what one cache of the same keys gives, to the last bit.
    #[test]
    fn copies_of_a_paged_cache_share_pages_and_not_what_follows() {
        let vector = |head: usize, seed: usize| -> Vec<f32> {
            (0..head).map(|at| ((seed * 31 + at * 17) % 101) as f32 / 50.0 - 1.0).collect()
        };
        for head in [4, 32, 40, 64, 80] {
            let push = |pages: &mut PagedKvCache, seed| pages.push(&vector(head, seed), &vector(head, seed + 7));
            let mut first = PagedKvCache::new(head);
            (0..70).for_each(|seed| push(&mut first, seed));
            let mut second = first.clone();
            (100..130).for_each(|seed| push(&mut first, seed));
            (200..220).for_each(|seed| push(&mut second, seed));
            assert!(Arc::ptr_eq(&first.pages[1], &second.pages[1]) && !Arc::ptr_eq(&first.pages[2], &second.pages[2]));
            for (pages, seeds) in [(first, 100..130), (second, 200..220)] {
                let mut whole = KvCache::with_capacity(head, 0, Precision::F32);
                (0..70).chain(seeds).for_each(|seed| whole.push(&vector(head, seed), &vector(head, seed + 7)));
                assert_eq!(pages.count(), whole.count());
                let query = vector(head, 3);
                let results = [&mut (vec![0f32; head], Vec::new()), &mut (vec![0f32; head], Vec::new())];
                let [(out, weights), (wholes_out, wholes_weights)] = results;
                pages.attend(&query, out, weights);
                whole.attend(&query, wholes_out, wholes_weights);
                assert_eq!((out, weights), (wholes_out, wholes_weights), "{head}");
            }
        }
    }

    /// Attention over 8-bit keys and values is near that over f32, and not equal.
    #[test]
    fn eight_bits_are_close_to_full_precision_for_one_query_and_for_several() {
        let mut state = 1u32;
        let mut draw = |count: usize| {
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 0.9
            };
            (0..count).map(|_| next()).collect::<Vec<f32>>()
        };
        for (head, count) in [(4, 1), (64, 33), (40, 200), (64, 1500)] {
            let mut caches = [Precision::F32, Precision::Int8].map(|p| KvCache::with_capacity(head, count, p));
            for _ in 0..count {
                let (key, value) = (draw(head), draw(head));
                caches.iter_mut().for_each(|cache| cache.push(&key, &value));
            }
            let query = draw(head);
            // Several queries have what each has alone, to the last bit.
            for cache in &caches {
                for rows in 1..=KvCache::MOST_QUERIES {
                    let queries: Vec<f32> = [&query[..], &draw((rows - 1) * head)].concat();
                    let (mut out, mut weights) = (vec![0f32; queries.len()], Vec::new());
                    cache.attend(&queries, &mut out, &mut weights);
                    for (row, query) in queries.chunks_exact(head).enumerate() {
                        let (mut alone, mut its_weights) = (vec![0f32; head], Vec::new());
                        cache.attend(query, &mut alone, &mut its_weights);
                        assert_eq!(out[row * head..][..head], alone, "{head} {count} {rows}");
                        assert_eq!(weights[row * count..][..count], its_weights, "{head} {count} {rows}");
                    }
                }
            }
            let [full, less] = caches.map(|cache| {
                let (mut out, mut weights) = (vec![0f32; head], Vec::new());
                cache.attend(&query, &mut out, &mut weights);
                assert_eq!((weights.len(), cache.count()), (count, count));
                assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-5);
                out
            });
            let square = |values: &mut dyn Iterator<Item = f32>| values.map(|value| value * value).sum::<f32>();
            let apart = square(&mut full.iter().zip(&less).map(|(a, b)| a - b)).sqrt();
            let off = apart / square(&mut full.iter().copied()).sqrt();
            assert!(off > 0.0 && off < 0.02, "{head} {count}: {off}");
        }
    }
}
