//! An LSTM in both directions over a whole sequence, on GPUs in one launch: a cube for each direction goes from position to position. The
//! products of the inputs come before, for all positions at once. On the CPU models go step by step with [`lstm`](super::lstm).

#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;

/// Widest output of a direction: the state of a cube stays within the 16 KiB of shared memory that every device has.
pub const MOST_HIDDEN: usize = 640;

/// `gates` `[positions, 2 * 4 * hidden]`, the sums of both directions that come from the inputs, each in the published order (input,
/// forget, candidate, output), and the weights of a direction's own output before, `recurrent` `[2, hidden, 4 * hidden]`, to the outputs
/// `[positions, 2 * hidden]`, the forward direction first. Before the first step, which is the last position of the backward direction,
/// all is 0.
///
/// # Panics
/// When the shapes do not match, or `hidden` is above [`MOST_HIDDEN`].
pub fn bidirectional_lstm(gates: Tensor<2>, recurrent: Tensor<3>) -> Tensor<2> {
    let ([positions, sums], [_, hidden, _]) = (gates.dims(), recurrent.dims());
    assert!(
        recurrent.dims() == [2, hidden, 4 * hidden] && sums == 8 * hidden && hidden <= MOST_HIDDEN,
        "bidirectional LSTM: shapes of gates and weights"
    );
    if positions == 0 {
        return Tensor::zeros([0, 2 * hidden], &gates.device());
    }
    Tensor::from_dispatch(Dispatch::bidirectional_lstm(gates.into_dispatch(), recurrent.into_dispatch()))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait BidirectionalLstmOps: Backend {
    fn bidirectional_lstm(gates: FloatTensor<Self>, recurrent: FloatTensor<Self>) -> FloatTensor<Self>;
}
