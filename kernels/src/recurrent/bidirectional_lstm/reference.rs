use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};

use super::BidirectionalLstmOps;
use crate::flex::{tensor, values};
use crate::recurrent::lstm;
use crate::reference::add_product;

impl BidirectionalLstmOps for Flex {
    fn bidirectional_lstm(gates: FloatTensor<Self>, recurrent: FloatTensor<Self>) -> FloatTensor<Self> {
        let (positions, hidden) = (gates.shape()[0], recurrent.shape()[1]);
        let [gates, recurrent] = values([gates, recurrent]);
        let mut out = vec![0.0; positions * 2 * hidden];
        for (direction, recurrent) in recurrent.chunks_exact(4 * hidden * hidden).enumerate() {
            let (mut state, mut output) = (vec![0.0; hidden], vec![0.0; hidden]);
            for step in 0..positions {
                let position = if direction == 0 { step } else { positions - 1 - step };
                let mut sums = gates[(2 * position + direction) * 4 * hidden..][..4 * hidden].to_vec();
                add_product(&mut sums, output.iter().copied(), recurrent);
                lstm::cell(&sums, &mut state, &mut output);
                out[(2 * position + direction) * hidden..][..hidden].copy_from_slice(&output);
            }
        }
        tensor(out, [positions, 2 * hidden].into())
    }
}
