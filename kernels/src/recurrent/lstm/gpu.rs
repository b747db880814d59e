use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::LstmOps;
use crate::elementwise::{sigmoid, tanh};

impl LstmOps for Cube {
    fn lstm_cell_batch(gates: FloatTensor<Self>, state: FloatTensor<Self>) -> FloatTensor<Self> {
        let (client, device, shape) = (state.client.clone(), state.device(), state.shape());
        let out = Self::float_empty([shape[0], 2 * shape[1]].into(), &device, FloatDType::F32);
        let dim = CubeDim::new(&client, shape.num_elements());
        cell_kernel::launch(
            &client,
            cubecl::calculate_cube_count_elemwise(&client, shape.num_elements(), dim),
            dim,
            gates.into_tensor_arg(),
            state.into_tensor_arg(),
            out.clone().into_tensor_arg(),
        );
        out
    }
}

/// One unit per value of the cell state.
#[cube(launch)]
fn cell_kernel(gates: &Tensor<f32>, state: &Tensor<f32>, out: &mut Tensor<f32>) {
    let at = ABSOLUTE_POS;
    let hidden = state.shape(1);
    if at < state.shape(0) * hidden {
        let (row, unit) = (at / hidden, at % hidden);
        let (first, step) = (row * gates.stride(0), gates.stride(1));
        let input = gates[first + unit * step];
        let forget = gates[first + (hidden + unit) * step];
        let candidate = gates[first + (2 * hidden + unit) * step];
        let output_gate = gates[first + (3 * hidden + unit) * step];
        let before = state[row * state.stride(0) + unit * state.stride(1)];
        let after = sigmoid(forget) * before + sigmoid(input) * tanh(candidate);
        let place = row * out.stride(0) + unit;
        out[place] = sigmoid(output_gate) * tanh(after);
        out[place + hidden] = after;
    }
}
