//! What tests compare the GPU with: a query at a time, with all its scores.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};

use super::{AttentionCall, RelativeAttentionOps, Window};
use crate::flex::{contiguous, floats, tensor};

impl RelativeAttentionOps for Flex {
    fn relative_attention(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        ring_keys: FloatTensor<Self>,
        ring_values: FloatTensor<Self>,
        position_keys: FloatTensor<Self>,
        biases: FloatTensor<Self>,
        _packed: IntTensor<Self>,
        call: AttentionCall,
    ) -> FloatTensor<Self> {
        let [query, keys, values] = [query, keys, values].map(contiguous);
        let [ring_keys, ring_values] = [ring_keys, ring_values].map(contiguous);
        let [position_keys, biases] = [position_keys, biases].map(contiguous);
        let (shape, new) = (query.shape(), keys.shape()[2]);
        let [rows, heads, queries, head] = [shape[0], shape[1], shape[2], shape[3]];
        let columns = if call.has_ring { ring_keys.shape()[2] } else { 0 };
        let size = heads * head;
        let mut out = vec![0f32; rows * queries * size];
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        for at in 0..rows * heads * queries {
            let (row, index, number) = (at / (heads * queries), at / queries % heads, at % queries);
            let facts = &call.rows[row];
            let place = |key: usize| match key.checked_sub(columns) {
                Some(key) => (false, ((row * heads + index) * new + key) * head),
                None => (true, ((facts.slot * heads + index) * columns + (facts.written + key) % columns) * head),
            };
            let of = |key: usize, ring: &FloatTensor<Flex>, fresh: &FloatTensor<Flex>| {
                let (in_ring, at) = place(key);
                floats(if in_ring { ring } else { fresh })[at..at + head].to_vec()
            };
            let query = &floats(&query)[at * head..][..head];
            let biased = |which: usize| {
                let bias = &floats(&biases)[which * size + index * head..][..head];
                query.iter().zip(bias).map(|(query, bias)| query + bias).collect::<Vec<f32>>()
            };
            let by = call.has_positions.then(|| [biased(0), biased(1)]);
            let own = columns + call.first + number;
            let seen: Vec<usize> = (columns.saturating_sub(facts.written)..columns)
                .chain(columns + facts.new.start..columns + facts.new.end)
                .filter(|key| match call.window {
                    Window::Full => true,
                    Window::Chunks { size, left } => key / size <= own / size && own / size - key / size <= left,
                })
                .collect();
            let scores = seen.iter().map(|key| {
                let key_values = of(*key, &ring_keys, &keys);
                let score = match &by {
                    Some([content, position]) => {
                        let place = (queries - 1 + key - number) * size + index * head;
                        dot(content, &key_values) + dot(position, &floats(&position_keys)[place..][..head])
                    }
                    None => dot(query, &key_values),
                };
                score * call.scale
            });
            let scores: Vec<f32> = scores.collect();
            let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let weights: Vec<f32> = scores.iter().map(|score| (score - largest).exp()).collect();
            let sum: f32 = weights.iter().sum();
            let out = &mut out[(row * queries + number) * size + index * head..][..head];
            for (key, weight) in seen.iter().zip(weights) {
                let value = of(*key, &ring_values, &values);
                out.iter_mut().zip(value).for_each(|(out, value)| *out += weight / sum * value);
            }
        }
        tensor(out, [rows, queries, size].into())
    }
}
