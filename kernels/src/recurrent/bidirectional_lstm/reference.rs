use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};

use super::BidirectionalLstmOps;
use crate::flex::{contiguous, floats, tensor};
use crate::recurrent::lstm;

impl BidirectionalLstmOps for Flex {
    fn bidirectional_lstm(gates: FloatTensor<Self>, recurrent: FloatTensor<Self>) -> FloatTensor<Self> {
        let (positions, hidden) = (gates.shape()[0], recurrent.shape()[1]);
        let [gates, recurrent] = [gates, recurrent].map(contiguous);
        let [gates, recurrent] = [&gates, &recurrent].map(floats);
        let mut out = vec![0.0; positions * 2 * hidden];
        for (direction, recurrent) in recurrent.chunks_exact(4 * hidden * hidden).enumerate() {
            let (mut state, mut output) = (vec![0.0; hidden], vec![0.0; hidden]);
            for step in 0..positions {
                let position = if direction == 0 { step } else { positions - 1 - step };
                let mut sums = gates[(2 * position + direction) * 4 * hidden..][..4 * hidden].to_vec();
                for (value, weights) in output.iter().zip(recurrent.chunks_exact(4 * hidden)) {
                    sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += value * weight);
                }
                lstm::cell(&sums, &mut state, &mut output);
                out[(2 * position + direction) * hidden..][..hidden].copy_from_slice(&output);
            }
        }
        tensor(out, [positions, 2 * hidden].into())
    }
}
