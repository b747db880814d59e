//! Attention of all queries to all keys in 8 bits on the CPU, as in an encoder whose products are in 8 bits. Scores are sums of
//! integers; the softmax is f32; its weights are rounded to 8 bits for the products with the values.
//!
//! A tile of queries meets a block of keys at a time, and the softmax goes along (its maximum and sum are corrected from block to block),
//! so that the scores stay in a core's cache. The weights of a block are rounded by the largest among them, so that many small ones
//! count beside a large one in another block. The mean of the keys is taken off all of them, which changes no weight and makes them
//! smaller.

use crate::product::int8::cpu::{Body, OFFSET, PANEL, QUAD, ROWS, Round, multiply, spread_quads};
use crate::product::slices::{Destination, SharedOutput};
use crate::thread_pool::ThreadPool;
use crate::vector_math::{exp, max};

/// Keys of a block.
const BLOCK: usize = 256;
/// Tiles of queries of a task.
const TASK_TILES: usize = 8;

/// Keys and values of one head.
struct Head {
    /// `[panels, quads, 32, 4]`: a key is an output.
    keys: Vec<i8>,
    /// `[panels, 32]`: what [`OFFSET`] adds to the sums, and the scale.
    excess: Vec<i32>,
    key_scales: Vec<f32>,
    /// `[panels, quads, 32, 4]`: a dimension is an output, a key an input.
    values: Vec<i8>,
    /// `[head]`
    value_scales: Vec<f32>,
    /// Number of keys.
    count: usize,
}

/// Attention of `query` `[queries, heads * head]`, already scaled, over `keys` and `values` `[keys, heads * head]`. Returns
/// `[queries, heads * head]`.
///
/// # Panics
/// When the lengths do not fit, or there is no key.
pub fn attend(pool: &ThreadPool, query: &[f32], keys: &[f32], values: &[f32], size: usize, heads: usize) -> Vec<f32> {
    attend_with(pool, query, keys, values, [size, heads], Body::fastest())
}

fn attend_with(
    pool: &ThreadPool,
    query: &[f32],
    keys: &[f32],
    values: &[f32],
    [size, heads]: [usize; 2],
    body: Body,
) -> Vec<f32> {
    assert!(
        query.len().is_multiple_of(size)
            && keys.len().is_multiple_of(size)
            && keys.len() == values.len()
            && size.is_multiple_of(heads)
            && !keys.is_empty(),
        "8-bit attention: lengths of query, keys and values"
    );
    let (queries, head) = (query.len() / size, size / heads);
    let mut stored: Vec<Option<Head>> = (0..heads).map(|_| None).collect();
    pool.for_each_item(&mut stored, |at, stored| {
        *stored = Some(Head::new(&keys[at * head..], &values[at * head..], [size, head]))
    });
    let stored: Vec<Head> = stored.into_iter().flatten().collect();
    let rows = TASK_TILES * ROWS;
    let blocks = queries.div_ceil(rows);
    let write = |output: SharedOutput| {
        pool.for_each_index(heads * blocks, |task| {
            let (at, first) = (task / blocks, task % blocks * rows);
            let mut work = Work::new(head);
            for first in (first..queries.min(first + rows)).step_by(ROWS) {
                let count = ROWS.min(queries - first);
                work.attend(&stored[at], &query[first * size + at * head..], count, [size, head], body);
                for (row, from) in work.sums.chunks_exact(head).take(count).enumerate() {
                    // SAFETY: the values of this head of this query lie within the result, and only this task asks for them, once.
                    unsafe { output.sums((first + row) * size + at * head, head) }.copy_from_slice(from);
                }
            }
        });
    };
    let mut out = Vec::new();
    // SAFETY: the tasks write each head of each query.
    unsafe { Destination::New(&mut out).fill(query.len(), write) };
    out
}

impl Head {
    /// `keys` and `values` have rows of `head` values, `size` apart.
    fn new(keys: &[f32], values: &[f32], [size, head]: [usize; 2]) -> Self {
        let count = keys.len().div_ceil(size);
        let (quads, key_quads) = (head.div_ceil(QUAD), count.div_ceil(QUAD));
        let panels = count.div_ceil(PANEL);
        let mut mean = vec![0f32; head];
        let mut largest = vec![0f32; head];
        for (keys, values) in keys.chunks(size).zip(values.chunks(size)) {
            mean.iter_mut().zip(keys).for_each(|(mean, key)| *mean += key);
            for (largest, value) in largest.iter_mut().zip(values) {
                *largest = if value.abs() > *largest { value.abs() } else { *largest };
            }
        }
        mean.iter_mut().for_each(|mean| *mean /= count as f32);
        let mut stored = Self {
            keys: vec![0; panels * quads * PANEL * QUAD],
            excess: vec![0; panels * PANEL],
            key_scales: vec![0.0; panels * PANEL],
            values: vec![0; head.div_ceil(PANEL) * key_quads * PANEL * QUAD],
            value_scales: largest.iter().map(|largest| largest / 127.0).collect(),
            count,
        };
        let mut centred = vec![0f32; head];
        let mut numbers = vec![OFFSET as u8; quads * QUAD];
        for (at, keys) in keys.chunks(size).enumerate() {
            centred.iter_mut().zip(keys.iter().zip(&mean)).for_each(|(to, (key, mean))| *to = key - mean);
            stored.key_scales[at] = pulp::Arch::new().dispatch(Round { x: &centred, numbers: &mut numbers });
            let (panel, lane) = (at / PANEL, at % PANEL);
            let (to, _) = stored.keys[panel * quads * PANEL * QUAD..].as_chunks_mut::<QUAD>();
            let (from, _) = numbers.as_chunks::<QUAD>();
            for (to, from) in to.iter_mut().skip(lane).step_by(PANEL).zip(from) {
                *to = from.map(|number| (i32::from(number) - OFFSET) as i8);
            }
            stored.excess[at] = OFFSET * numbers.iter().map(|number| i32::from(*number) - OFFSET).sum::<i32>();
        }
        let inverse: Vec<f32> = largest.iter().map(|max| if *max > 0.0 { 127.0 / max } else { 0.0 }).collect();
        for (at, values) in values.chunks(size).enumerate() {
            for (panel, (values, inverse)) in values[..head].chunks(PANEL).zip(inverse.chunks(PANEL)).enumerate() {
                let to = stored.values[((panel * key_quads + at / QUAD) * PANEL) * QUAD + at % QUAD..].iter_mut();
                for (to, (value, inverse)) in to.step_by(QUAD).zip(values.iter().zip(inverse)) {
                    // Adding 1.5 * 2^23 rounds to an integer, as in `Round`.
                    *to = (value * inverse + 12_582_912.0).to_bits() as i8;
                }
            }
        }
        stored
    }
}

/// A tile of queries.
struct Work {
    /// `[quads, 12, 4]`
    query: Vec<u8>,
    query_scales: [f32; ROWS],
    row_numbers: Vec<u8>,
    /// `[12, BLOCK]`
    scores: Vec<f32>,
    /// `[BLOCK / 4, 12, 4]`
    weights: Vec<u8>,
    /// `[12, head]`: the weighted sums of the values.
    sums: Vec<f32>,
    /// Largest score and sum of the weights so far.
    maxima: [f32; ROWS],
    totals: [f32; ROWS],
}

impl Work {
    fn new(head: usize) -> Self {
        let quads = head.div_ceil(QUAD);
        Self {
            query: vec![OFFSET as u8; quads * ROWS * QUAD],
            query_scales: [0.0; ROWS],
            row_numbers: vec![OFFSET as u8; quads.max(BLOCK / QUAD) * QUAD],
            scores: vec![0.0; ROWS * BLOCK],
            weights: vec![0; ROWS * BLOCK],
            sums: vec![0.0; ROWS * head],
            maxima: [f32::NEG_INFINITY; ROWS],
            totals: [0.0; ROWS],
        }
    }

    /// Attends with `count` queries, whose values lie `size` apart, to all keys; the result is in `sums`.
    fn attend(&mut self, seen: &Head, query: &[f32], count: usize, [size, head]: [usize; 2], body: Body) {
        let (quads, key_quads, keys) = (head.div_ceil(QUAD), seen.count.div_ceil(QUAD), seen.key_scales.len());
        for (row, query) in query.chunks(size).take(count).enumerate() {
            let numbers = &mut self.row_numbers[..quads * QUAD];
            numbers.fill(OFFSET as u8);
            self.query_scales[row] = pulp::Arch::new().dispatch(Round { x: &query[..head], numbers });
            spread_quads(numbers, row, &mut self.query);
        }
        (self.maxima, self.totals) = ([f32::NEG_INFINITY; ROWS], [0.0; ROWS]);
        self.sums.fill(0.0);
        for first in (0..keys).step_by(BLOCK) {
            let width = BLOCK.min(keys - first);
            for panel in 0..width / PANEL {
                let from = (first / PANEL + panel) * quads * PANEL * QUAD;
                let mut sums = [[0i32; PANEL]; ROWS];
                multiply(&self.query, &seen.keys[from..from + quads * PANEL * QUAD], &mut sums, body);
                let lanes = first + panel * PANEL..first + (panel + 1) * PANEL;
                let (excess, scales) = (&seen.excess[lanes.clone()], &seen.key_scales[lanes]);
                let scores = &mut self.scores[panel * PANEL..];
                pulp::Arch::new().dispatch(Scores {
                    sums: &sums,
                    excess,
                    scales,
                    query_scales: &self.query_scales,
                    scores,
                });
            }
            let used = (key_quads * QUAD - first).min(BLOCK);
            let mut factors = [0f32; ROWS];
            for (row, block_factor) in factors.iter_mut().enumerate().take(count) {
                let scores = &mut self.scores[row * BLOCK..][..width];
                let numbers = &mut self.row_numbers[..used];
                let weigh = Weigh { scores, numbers, count: width.min(seen.count - first), before: self.maxima[row] };
                let weighed = pulp::Arch::new().dispatch(weigh);
                spread_quads(numbers, row, &mut self.weights);
                self.totals[row] = self.totals[row] * weighed.correction + weighed.total * weighed.factor;
                self.sums[row * head..][..head].iter_mut().for_each(|sum| *sum *= weighed.correction);
                (self.maxima[row], *block_factor) = (weighed.max, weighed.factor);
            }
            for panel in 0..head.div_ceil(PANEL) {
                let from = (panel * key_quads + first / QUAD) * PANEL * QUAD;
                let mut sums = [[0i32; PANEL]; ROWS];
                let weights = &self.weights[..used * ROWS];
                multiply(weights, &seen.values[from..from + used * PANEL], &mut sums, body);
                for (row, (sums, factor)) in sums.iter().zip(factors).enumerate().take(count) {
                    let to = &mut self.sums[row * head..][..head][panel * PANEL..];
                    to.iter_mut().zip(sums).for_each(|(to, sum)| *to += *sum as f32 * factor);
                }
            }
        }
        for (sums, total) in self.sums.chunks_exact_mut(head).zip(self.totals) {
            let scale = 1.0 / total;
            sums.iter_mut().zip(&seen.value_scales).for_each(|(sum, value)| *sum *= value * scale);
        }
    }
}

/// Scales the integer sums of a panel of keys to scores.
struct Scores<'a> {
    sums: &'a [[i32; PANEL]; ROWS],
    excess: &'a [i32],
    scales: &'a [f32],
    query_scales: &'a [f32; ROWS],
    /// Rows of 32, `BLOCK` apart.
    scores: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Scores<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for ((sums, query_scale), scores) in self.sums.iter().zip(self.query_scales).zip(self.scores.chunks_mut(BLOCK))
        {
            let products = sums.iter().zip(self.excess).zip(self.scales);
            for (score, ((sum, excess), scale)) in scores.iter_mut().zip(products) {
                *score = (sum - excess) as f32 * (scale * query_scale);
            }
        }
    }
}

/// Weights of the keys of a block for one query, the largest of them 255.
struct Weigh<'a> {
    scores: &'a mut [f32],
    /// Numbers beyond `count` become 0.
    numbers: &'a mut [u8],
    count: usize,
    /// The largest score of the blocks before.
    before: f32,
}

struct Weighed {
    /// The largest score so far.
    max: f32,
    /// Factor of the sums of the blocks before.
    correction: f32,
    /// Factor of the sums of this block, and the sum of its weights.
    factor: f32,
    total: f32,
}

impl pulp::NullaryFnOnce for Weigh<'_> {
    type Output = Weighed;

    #[inline(always)]
    fn call(self) -> Weighed {
        const LANES: usize = 16;
        // Adding 2^23 rounds to an integer, whose lowest byte is then the number's.
        const ROUND: f32 = 8_388_608.0;
        let max = max(&self.scores[..self.count]);
        self.scores[self.count..].fill(f32::NEG_INFINITY);
        let mut totals = [0f32; LANES];
        for scores in self.scores.as_chunks_mut::<LANES>().0 {
            for (score, total) in scores.iter_mut().zip(&mut totals) {
                *score = exp(*score - max).mul_add(255.0, ROUND);
                *total += *score - ROUND;
            }
        }
        for (number, score) in self.numbers.iter_mut().zip(self.scores.iter()) {
            *number = score.to_bits() as u8;
        }
        let newer = if max > self.before { max } else { self.before };
        let total = totals.iter().sum();
        Weighed { max: newer, correction: exp(self.before - newer), factor: exp(max - newer), total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(query: &[f32], keys: &[f32], values: &[f32], size: usize, heads: usize) -> Vec<f64> {
        let head = size / heads;
        let mut out = Vec::new();
        for query in query.chunks_exact(size) {
            for at in 0..heads {
                let part = at * head..(at + 1) * head;
                let dot = |key: &[f32]| {
                    query[part.clone()].iter().zip(&key[part.clone()]).map(|(a, b)| f64::from(a * b)).sum::<f64>()
                };
                let scores: Vec<f64> = keys.chunks_exact(size).map(dot).collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
                let total: f64 = weights.iter().sum();
                for dim in part {
                    let sum: f64 =
                        weights.iter().zip(values.chunks_exact(size)).map(|(w, v)| w * f64::from(v[dim])).sum();
                    out.push(sum / total);
                }
            }
        }
        out
    }

    /// All bodies are equal to the last bit and near attention in f64: flat and peaked weights, one key that most look at, keys
    /// around another mean, numbers of keys that fill no block.
    #[test]
    fn all_bodies_are_equal_and_near_the_exact_attention() {
        let mut state = 1u32;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        let pool = &ThreadPool::SINGLE_THREADED;
        for [queries, count, heads, head] in
            [[1, 1, 1, 4], [13, 5, 2, 6], [30, 33, 2, 64], [25, 257, 1, 40], [14, 1500, 2, 64]]
        {
            for [sharpness, mean, sink] in [[0.3, 0.0, 0.0], [3.0, 2.0, 0.0], [0.5, 0.0, 6.0]] {
                let size = heads * head;
                let mut draws = |count: usize, around: f32| (0..count).map(|_| draw() + around).collect::<Vec<f32>>();
                let mut query = draws(queries * size, 0.0);
                query.iter_mut().for_each(|value| *value *= sharpness);
                let (mut keys, values) = (draws(count * size, mean), draws(count * size, 0.2));
                // One key that every query scores by `sink` more than the rest.
                if sink > 0.0 {
                    for (key, query) in keys[..size].iter_mut().zip(&query) {
                        *key = sink * query / (sharpness * sharpness * head as f32 / 3.0);
                    }
                    let same: Vec<f32> = query[..size].to_vec();
                    query.chunks_exact_mut(size).for_each(|query| query.copy_from_slice(&same));
                }
                let with = |body| attend_with(pool, &query, &keys, &values, [size, heads], body);
                let out = with(Body::Portable);
                Body::all().for_each(|body| assert_eq!(out, with(body), "{queries} {count} {body:?}"));
                let exact = exact(&query, &keys, &values, size, heads);
                let apart: f64 = out.iter().zip(&exact).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum();
                let whole: f64 = exact.iter().map(|b| b * b).sum();
                let off = (apart / whole).sqrt();
                assert!(off < 0.03, "{queries} {count} {sharpness} {mean} {sink}: {off}");
            }
        }
    }
}
