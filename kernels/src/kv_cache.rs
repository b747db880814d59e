//! Attention of a single query over the cached keys and values of one head, on the CPU. Keys and values are stored in the order in
//! which one query reads them, in f32 or in 8 bits: a query over many keys takes as long as they take to read.

use crate::gemv::{PANEL, Precision, Weight, multiply_one, multiply_pair};
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
    /// An empty cache of a head of `head` values.
    pub fn new(head: usize) -> Self {
        Self::with_capacity(head, 0, Precision::F32)
    }

    /// An empty cache with room for `count` keys and values, which are stored with the given precision.
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

    /// Attends with `query` `[head]`, already scaled, over all keys: writes the result to `out` `[head]` and the attention weight of
    /// each key to `weights` `[count]`.
    ///
    /// # Panics
    /// When `query` or `out` has another length, or the cache is empty.
    pub fn attend(&self, query: &[f32], out: &mut [f32], weights: &mut Vec<f32>) {
        assert!(
            query.len() == self.head && out.len() == self.head && self.count > 0,
            "KV cache: lengths of query and out, and at least one key"
        );
        match &self.stored {
            Stored::F32(panels) => panels.score(query, weights),
            Stored::Int8(panels, scales) => {
                panels.score(query, weights);
                weights.iter_mut().zip(scales).for_each(|(weight, [scale, _])| *weight *= scale);
            }
        }
        weights.truncate(self.count);
        pulp::Arch::new().dispatch(Softmax { logits: weights, width: self.count });
        match &self.stored {
            Stored::F32(panels) => panels.mix(weights, out),
            Stored::Int8(panels, scales) => {
                let scaled: Vec<f32> = weights.iter().zip(scales).map(|(weight, [_, scale])| weight * scale).collect();
                panels.mix(&scaled, out);
            }
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

    /// The products of `query` with all keys, and with what fills the last panel.
    fn score(&self, query: &[f32], scores: &mut Vec<f32>) {
        scores.clear();
        scores.resize(self.keys.len() / query.len(), 0.0);
        let (scores, _) = scores.as_chunks_mut();
        multiply_all(query, &mut self.keys.chunks_exact(query.len() * PANEL).zip(scores));
    }

    /// The sum of the values, weighted.
    fn mix(&self, weights: &[f32], out: &mut [f32]) {
        let mut sums = vec![[0f32; PANEL]; self.values.len()];
        multiply_all(weights, &mut self.values.iter().map(Vec::as_slice).zip(&mut sums));
        out.copy_from_slice(&sums.as_flattened()[..out.len()]);
    }
}

/// Multiplies `x` with panels into a sum for each.
fn multiply_all<'a, W: Weight + 'a>(x: &[f32], panels: &mut dyn Iterator<Item = (&'a [W], &'a mut [f32; PANEL])>) {
    while let Some((one, out)) = panels.next() {
        match panels.next() {
            Some((two, next)) => multiply_pair(x, [one, two], [out, next]),
            None => multiply_one(x, one, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attention over 8-bit keys and values is near that over f32, and not equal.
    #[test]
    fn eight_bits_are_close_to_full_precision() {
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
