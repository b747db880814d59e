//! Layers shared by several model families. A layer holds its tensors and has a `forward`; shapes are in the comments.

mod batch_norm;
mod causal;
mod convolution;
mod linear;
mod lstm;
mod matrix;
mod norm;
mod packed;
mod recorded_steps;
mod rounded;

pub(crate) use batch_norm::fold_batch_norm;
pub use causal::CausalConvolution;
pub(crate) use convolution::tap_rows;
pub use convolution::{Convolution, PackedConvolution};
pub(crate) use linear::transpose;
pub use linear::{Bias, Linear};
pub use lstm::Lstm;
pub use matrix::Matrix;
pub use norm::LayerNorm;
pub use packed::{Packed, PackedNorm};
pub(crate) use packed::{apply_in_place, scaled};
pub use recorded_steps::{RecordedSteps, StepInputs};
pub use rounded::Rounded;

use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData};

/// Gathers rows of `tensor` `[n, width]` in the order of `rows`.
pub(crate) fn select_rows(tensor: Tensor<2>, rows: &[usize]) -> Tensor<2> {
    if rows.len() == tensor.dims()[0] && rows.iter().enumerate().all(|(at, row)| at == *row) {
        return tensor;
    }
    let device = tensor.device();
    tensor.select(0, row_indices(rows, &device))
}

pub(crate) fn row_indices(rows: &[usize], device: &Device) -> Tensor<1, Int> {
    let rows: Vec<i32> = rows.iter().map(|row| *row as i32).collect();
    let count = rows.len();
    Tensor::from_data(TensorData::new(rows, [count]), device)
}

/// Copies integers to the device.
pub(crate) fn upload(values: Vec<i32>, device: &Device) -> Tensor<1, Int> {
    let count = values.len();
    Tensor::from_data(TensorData::new(values, [count]), device)
}

/// Several lists of integers one after another, and their places, to be copied to the device at once: each copy ends what the card's queue
/// has collected. Each place is longer than its list: zeros follow up to a multiple of 64.
pub(crate) fn pack_together<const N: usize>(parts: [Vec<i32>; N]) -> (Vec<i32>, [Range<usize>; N]) {
    /// Views begin and end at a multiple of this, which every card allows: others are copies.
    const ALIGNMENT: usize = 64;
    let mut all = Vec::new();
    let places = parts.map(|part| {
        let start = all.len();
        all.extend(part);
        all.resize(all.len().next_multiple_of(ALIGNMENT), 0);
        start..all.len()
    });
    (all, places)
}

/// Views of what [`pack_together`] packed.
pub(crate) fn parts_of<const N: usize>(all: &Tensor<1, Int>, places: &[Range<usize>; N]) -> [Tensor<1, Int>; N] {
    places.clone().map(|place| all.clone().narrow(0, place.start, place.len()))
}
