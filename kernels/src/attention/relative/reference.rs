//! A query at a time, with all its scores.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};

use super::{AttentionCall, Inputs, RelativeAttentionOps, Window};
use crate::flex::{tensor, values};
use crate::reference::{attend, dot};

impl RelativeAttentionOps for Flex {
    fn relative_attention(inputs: Inputs<Self>, call: AttentionCall) -> FloatTensor<Self> {
        let (shape, new) = (inputs.query.shape(), inputs.keys.shape()[2]);
        let [rows, heads, queries, head] = [shape[0], shape[1], shape[2], shape[3]];
        let columns = if call.has_ring { inputs.ring_keys.shape()[2] } else { 0 };
        let size = heads * head;
        let [query, keys, of_keys] = values([inputs.query, inputs.keys, inputs.values]);
        let [ring_keys, of_ring_keys] = values([inputs.ring_keys, inputs.ring_values]);
        let [position_keys, biases] = values([inputs.position_keys, inputs.biases]);
        let mut out = vec![0f32; rows * queries * size];
        for at in 0..rows * heads * queries {
            let (row, index, number) = (at / (heads * queries), at / queries % heads, at % queries);
            let facts = &call.rows[row];
            let of = |key: usize, ring: &[f32], fresh: &[f32]| match key.checked_sub(columns) {
                Some(key) => fresh[((row * heads + index) * new + key) * head..][..head].to_vec(),
                None => {
                    let column = (facts.written + key) % columns;
                    ring[((facts.slot * heads + index) * columns + column) * head..][..head].to_vec()
                }
            };
            let query = &query[at * head..][..head];
            let biased = |which: usize| {
                let bias = &biases[which * size + index * head..][..head];
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
            let score = |key: &usize| {
                let key_values = of(*key, &ring_keys, &keys);
                let score = match &by {
                    Some([content, position]) => {
                        let place = (queries - 1 + key - number) * size + index * head;
                        dot(content, &key_values) + dot(position, &position_keys[place..][..head])
                    }
                    None => dot(query, &key_values),
                };
                score * call.scale
            };
            let scores: Vec<f32> = seen.iter().map(score).collect();
            let out = &mut out[(row * queries + number) * size + index * head..][..head];
            attend(&scores, seen.iter().map(|key| of(*key, &of_ring_keys, &of_keys)), out);
        }
        tensor(out, [rows, queries, size].into())
    }
}
