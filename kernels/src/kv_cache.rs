//! Attention of a single query over the cached keys and values of one head, on the CPU. Keys and values are stored in the order in
//! which one query reads them.

use crate::gemv::{PANEL, ROWS, multiply};
use crate::vector_math::Softmax;

/// The keys and values of one head.
#[derive(Clone, Debug)]
pub struct KvCache {
    /// Keys in panels of 32 keys: `[panels, head, 32]`.
    keys: Vec<f32>,
    /// Values in panels of 32 values of a head: `[panels][count, 32]`.
    values: Vec<Vec<f32>>,
    head: usize,
    count: usize,
}

impl KvCache {
    /// An empty cache of a head of `head` values.
    pub fn new(head: usize) -> Self {
        Self { keys: Vec::new(), values: vec![Vec::new(); head.div_ceil(PANEL)], head, count: 0 }
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
        if self.count.is_multiple_of(PANEL) {
            self.keys.resize(self.keys.len() + self.head * PANEL, 0.0);
        }
        let from = self.count / PANEL * self.head * PANEL + self.count % PANEL;
        self.keys[from..].iter_mut().step_by(PANEL).zip(key).for_each(|(to, key)| *to = *key);
        for (panel, value) in self.values.iter_mut().zip(value.chunks(PANEL)) {
            panel.extend_from_slice(value);
            panel.resize(panel.len() + PANEL - value.len(), 0.0);
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
        weights.clear();
        weights.resize(self.keys.len() / self.head, 0.0);
        let mut sums = [[0f32; PANEL]; ROWS];
        for (scores, keys) in weights.chunks_exact_mut(PANEL).zip(self.keys.chunks_exact(self.head * PANEL)) {
            multiply(1, query, keys, &mut sums);
            scores.copy_from_slice(&sums[0]);
        }
        weights.truncate(self.count);
        pulp::Arch::new().dispatch(Softmax { logits: weights, width: self.count });
        for (out, values) in out.chunks_mut(PANEL).zip(&self.values) {
            multiply(1, weights, values, &mut sums);
            out.copy_from_slice(&sums[0][..out.len()]);
        }
    }
}
