use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};

use super::{Int8Ops, OFFSET, WORD};
use crate::flex::{integers, tensor, values};

impl Int8Ops for Flex {
    fn int8_product(x: FloatTensor<Self>, words: IntTensor<Self>, scales: FloatTensor<Self>) -> FloatTensor<Self> {
        let [rows, inputs] = [x.shape()[0], x.shape()[1]];
        let [x, scales] = values([x, scales]);
        let words = integers(&words);
        let mut out = Vec::with_capacity(rows * scales.len());
        for x in x.chunks_exact(inputs) {
            for (words, scale) in words.chunks_exact(inputs / WORD).zip(&scales) {
                let weights =
                    words.iter().flat_map(|word| word.to_le_bytes()).map(|byte| (i32::from(byte) - OFFSET) as f32);
                out.push(weights.zip(x).map(|(weight, x)| weight * x).sum::<f32>() * scale);
            }
        }
        tensor(out, [rows, scales.len()].into())
    }
}
