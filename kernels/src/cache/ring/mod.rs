//! The last frames of many streams in one tensor `[slots, outer, columns, inner]`: each stream has a slot, and a frame stays in its
//! column until the frame `columns` later takes it, so that nothing moves from step to step. Frame `n` of a stream is in the column `n`
//! modulo the columns.

#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use std::ops::Range;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// The frames of one row of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFrames {
    /// Slot of the row's stream; 0 without one.
    pub slot: usize,
    /// Frames that the stream had before the step.
    pub written: usize,
    /// The frames of the step that are real.
    pub new: Range<usize>,
}

/// The frames of all rows of a step.
#[derive(Clone, Debug)]
pub struct StepFrames {
    rows: Vec<RowFrames>,
    /// `[rows, FACTS]`, flat: slot, frames written, start and end of the new ones.
    packed: Tensor<1, Int>,
}

/// Numbers of a row in [`StepFrames::packed`].
pub(crate) const FACTS: usize = 4;

impl StepFrames {
    /// `rows` has one entry per row of the step. No two rows that have a stream have the same slot.
    pub fn new(rows: Vec<RowFrames>, device: &Device) -> Self {
        let packed = Tensor::from_data(TensorData::new(Self::pack(&rows), [rows.len() * FACTS]), device);
        Self { rows, packed }
    }

    /// The integers that the device reads for these rows.
    pub fn pack(rows: &[RowFrames]) -> Vec<i32> {
        rows.iter().flat_map(RowFrames::facts).collect()
    }

    /// As [`StepFrames::new`] with what [`StepFrames::pack`] gives, which a caller has on the device; it may be longer.
    pub fn with_packed(rows: Vec<RowFrames>, packed: Tensor<1, Int>) -> Self {
        Self { rows, packed }
    }

    /// Frames without streams: the same `new` ones in all of `rows` rows.
    pub fn alone(rows: usize, new: Range<usize>, device: &Device) -> Self {
        Self::new(vec![RowFrames { slot: 0, written: 0, new }; rows], device)
    }

    pub(crate) fn rows(&self) -> &[RowFrames] {
        &self.rows
    }

    pub(crate) fn packed(&self) -> Tensor<1, Int> {
        self.packed.clone()
    }
}

impl RowFrames {
    pub(crate) fn facts(&self) -> [i32; FACTS] {
        [self.slot, self.written, self.new.start, self.new.end].map(|number| number as i32)
    }
}

/// Writes the last frames of each row of `new` `[rows, outer, more, inner]` to its slot of `ring`, and returns the ring. On GPUs the ring
/// changes in place, so no other tensor may share its memory.
pub fn store(ring: Tensor<4>, frames: &StepFrames, new: Tensor<4>) -> Tensor<4> {
    let [ring, _] = write([ring.clone(), ring], frames, [new.clone(), new], false);
    ring
}

/// As [`store`] for two rings of the same shape, in one launch.
pub fn store_both(rings: [Tensor<4>; 2], frames: &StepFrames, new: [Tensor<4>; 2]) -> [Tensor<4>; 2] {
    write(rings, frames, new, true)
}

fn write(rings: [Tensor<4>; 2], frames: &StepFrames, new: [Tensor<4>; 2], both: bool) -> [Tensor<4>; 2] {
    let ([_, outer, _, inner], rows) = (rings[0].dims(), frames.rows.clone());
    assert!(
        rings[0].dims() == rings[1].dims()
            && new[0].dims() == new[1].dims()
            && new[0].dims() == [rows.len(), outer, new[0].dims()[2], inner],
        "ring: shapes of the rings and the new frames"
    );
    let ([one, two], [new_one, new_two]) = (rings.map(Tensor::into_dispatch), new.map(Tensor::into_dispatch));
    let packed = frames.packed().into_dispatch();
    let (one, two) = Dispatch::ring_store(one, two, packed, new_one, new_two, rows, both);
    [Tensor::from_dispatch(one), Tensor::from_dispatch(two)]
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait RingOps: Backend {
    fn ring_store(
        one: FloatTensor<Self>,
        two: FloatTensor<Self>,
        packed: IntTensor<Self>,
        new_one: FloatTensor<Self>,
        new_two: FloatTensor<Self>,
        rows: Vec<RowFrames>,
        both: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}
