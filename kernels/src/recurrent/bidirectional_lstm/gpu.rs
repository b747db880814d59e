use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::BidirectionalLstmOps;
use crate::elementwise::{sigmoid, tanh};

/// Units of a cube at most. Each sums some of the gates.
const MOST_UNITS: usize = 1024;
/// Weights of a gate that are on their way at a time.
const LOADS: usize = 8;

impl BidirectionalLstmOps for Cube {
    fn bidirectional_lstm(gates: FloatTensor<Self>, recurrent: FloatTensor<Self>) -> FloatTensor<Self> {
        let [gates, recurrent] = [gates, recurrent].map(crate::cube::contiguous);
        let (client, device) = (gates.client.clone(), gates.device());
        let (positions, hidden) = (gates.shape()[0], recurrent.shape()[1]);
        let units = crate::cube::units(&client, MOST_UNITS);
        let out = Self::float_empty([positions, 2 * hidden].into(), &device, FloatDType::F32);
        sequence_kernel::launch(
            &client,
            CubeCount::Static(2, 1, 1),
            CubeDim::new_1d(units as u32),
            gates.into_tensor_arg(),
            recurrent.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            positions as u32,
            hidden,
            units,
        );
        out
    }
}

/// A cube computes a direction. All tensors are contiguous.
#[cube(launch)]
fn sequence_kernel(
    gates: &Tensor<f32>,
    recurrent: &Tensor<f32>,
    out: &mut Tensor<f32>,
    positions: u32,
    #[comptime] hidden: usize,
    #[comptime] units: usize,
) {
    let mut sums = Shared::<[f32]>::new_slice(comptime!(4 * hidden));
    let mut output = Shared::<[f32]>::new_slice(hidden);
    let mut state = Shared::<[f32]>::new_slice(hidden);
    let unit = UNIT_POS as usize;
    let direction = CUBE_POS_X as usize;
    let weights = direction * comptime!(4 * hidden * hidden);
    let mut own = unit;
    while own < hidden {
        output[own] = f32::new(0.0);
        state[own] = f32::new(0.0);
        own += units;
    }
    sync_cube();
    for step in 0..positions {
        let mut position = step as usize;
        if direction == 1 {
            position = (positions - 1 - step) as usize;
        }
        let place = 2 * position + direction;
        let mut gate = unit;
        while gate < comptime!(4 * hidden) {
            let mut sum = gates[place * comptime!(4 * hidden) + gate];
            let mut at = weights + gate;
            for block in 0..comptime!(hidden / LOADS) {
                let mut values = Array::<f32>::new(LOADS);
                #[unroll]
                for load in 0..LOADS {
                    values[load] = recurrent[at + load * comptime!(4 * hidden)];
                }
                #[unroll]
                for load in 0..LOADS {
                    sum += values[load] * output[block * LOADS + load];
                }
                at += comptime!(LOADS * 4 * hidden);
            }
            #[unroll]
            for rest in 0..comptime!(hidden % LOADS) {
                sum += recurrent[at + rest * comptime!(4 * hidden)] * output[comptime!(hidden / LOADS * LOADS) + rest];
            }
            sums[gate] = sum;
            gate += units;
        }
        sync_cube();
        own = unit;
        while own < hidden {
            let kept = sigmoid(sums[hidden + own]) * state[own];
            let after = kept + sigmoid(sums[own]) * tanh(sums[comptime!(2 * hidden) + own]);
            let value = sigmoid(sums[comptime!(3 * hidden) + own]) * tanh(after);
            state[own] = after;
            output[own] = value;
            out[place * hidden + own] = value;
            own += units;
        }
        sync_cube();
    }
}
