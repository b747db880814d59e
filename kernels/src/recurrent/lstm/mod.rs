//! The pointwise part of an LSTM step, after the matrix product of its gates. On GPUs it is one launch; [`cell`] works on plain
//! slices, and [`RecurrentGates`] is the product of one row that depends on the step before.

mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;
pub use cpu::{RecurrentGates, cell};

/// One step of one layer for all rows: `gates` `[rows, 4 * hidden]` as in [`cell`] and the cell state `[rows, hidden]` to the output
/// and the new cell state, concatenated: `[rows, 2 * hidden]`.
pub fn cell_batch(gates: Tensor<2>, state: Tensor<2>) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::lstm_cell_batch(gates.into_dispatch(), state.into_dispatch()))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait LstmOps: Backend {
    fn lstm_cell_batch(gates: FloatTensor<Self>, state: FloatTensor<Self>) -> FloatTensor<Self>;
}
