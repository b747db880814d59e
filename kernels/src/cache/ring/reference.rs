use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};

use super::{RingOps, RowFrames};
use crate::flex::{tensor, values};

impl RingOps for Flex {
    fn ring_store(
        one: FloatTensor<Self>,
        two: FloatTensor<Self>,
        _packed: IntTensor<Self>,
        new_one: FloatTensor<Self>,
        new_two: FloatTensor<Self>,
        rows: Vec<RowFrames>,
        _both: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let write = |ring: FloatTensor<Self>, new: FloatTensor<Self>| {
            let (shape, more) = (ring.shape(), new.shape()[2]);
            let [outer, columns, inner] = [shape[1], shape[2], shape[3]];
            let [mut out, new] = values([ring, new]);
            for (row, facts) in rows.iter().enumerate() {
                for at in (0..outer * more).filter(|at| at % more + columns >= more) {
                    let (index, frame) = (at / more, at % more);
                    let from = ((row * outer + index) * more + frame) * inner;
                    let to = ((facts.slot * outer + index) * columns + (facts.written + frame) % columns) * inner;
                    out[to..to + inner].copy_from_slice(&new[from..from + inner]);
                }
            }
            tensor(out, shape)
        };
        (write(one, new_one), write(two, new_two))
    }
}
