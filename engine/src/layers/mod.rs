//! Layers shared by several model families. A layer holds its tensors and has a `forward`; shapes are in the comments.

mod batch_norm;
mod causal;
mod convolution;
mod linear;
mod lstm;
mod norm;
mod packed;
mod rounded;

pub(crate) use batch_norm::fold_batch_norm;
pub use causal::CausalConvolution;
pub use convolution::{Convolution, PackedConvolution};
pub(crate) use linear::transpose;
pub use linear::{Bias, Linear};
pub use lstm::Lstm;
pub use norm::LayerNorm;
pub use packed::{Packed, PackedNorm};
pub(crate) use packed::{apply_in_place, scaled};
pub use rounded::Rounded;

use burn::tensor::{Int, Tensor, TensorData};

/// Gathers rows of `tensor` `[n, width]` in the order of `rows`.
pub(crate) fn select_rows(tensor: Tensor<2>, rows: &[usize]) -> Tensor<2> {
    if rows.len() == tensor.dims()[0] && rows.iter().enumerate().all(|(at, row)| at == *row) {
        return tensor;
    }
    let device = tensor.device();
    tensor.select(0, row_indices(rows, &device))
}

pub(crate) fn row_indices(rows: &[usize], device: &burn::tensor::Device) -> Tensor<1, Int> {
    let rows: Vec<i32> = rows.iter().map(|row| *row as i32).collect();
    let count = rows.len();
    Tensor::from_data(TensorData::new(rows, [count]), device)
}
