//! Attention of a single query over the cached keys and values of one head, on the CPU. Keys and values are stored in the order in
//! which one query reads them.

use crate::gemv::{PANEL, ROWS, multiply};
use crate::vector_math::Softmax;

/// What one head has seen: keys in panels of 32 keys, `[panels, head, 32]`; values in panels of 32 of a head's values,
/// `[panels][count, 32]`.
#[derive(Clone, Debug)]
pub struct KvCache {
    keys: Vec<f32>,
    values: Vec<Vec<f32>>,
    head: usize,
    count: usize,
}

impl KvCache {
    /// Nothing yet, of heads of this width.
    pub fn new(head: usize) -> Self {
        Self { keys: Vec::new(), values: vec![Vec::new(); head.div_ceil(PANEL)], head, count: 0 }
    }

    /// How many keys it holds.
    pub fn count(&self) -> usize {
        self.count
    }

    /// One more key and value, `[head]` each.
    ///
    /// # Panics
    /// When they are of another length.
    pub fn push(&mut self, key: &[f32], value: &[f32]) {
        assert!(key.len() == self.head && value.len() == self.head, "a head's key and value");
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

    /// `query` `[head]`, already scaled, over all keys: what they give, `[head]`, and how much it looked at each, `[count]`.
    ///
    /// # Panics
    /// When `query` is of another length, or there is no key.
    pub fn attend(&self, query: &[f32], out: &mut [f32], looked: &mut Vec<f32>) {
        assert!(query.len() == self.head && out.len() == self.head && self.count > 0, "a head's query");
        looked.clear();
        looked.resize(self.keys.len() / self.head, 0.0);
        let mut sums = [[0f32; PANEL]; ROWS];
        for (scores, keys) in looked.chunks_exact_mut(PANEL).zip(self.keys.chunks_exact(self.head * PANEL)) {
            multiply(1, query, keys, &mut sums);
            scores.copy_from_slice(&sums[0]);
        }
        looked.truncate(self.count);
        pulp::Arch::new().dispatch(Softmax { logits: looked, width: self.count });
        for (out, values) in out.chunks_mut(PANEL).zip(&self.values) {
            multiply(1, looked, values, &mut sums);
            out.copy_from_slice(&sums[0][..out.len()]);
        }
    }
}
