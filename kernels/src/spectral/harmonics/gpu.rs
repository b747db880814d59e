use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::HarmonicsOps;
use crate::elementwise::{sine, tanh};

impl HarmonicsOps for Cube {
    fn harmonics(
        turns: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        levels: FloatTensor<Self>,
        beside: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let turns = crate::cube::contiguous(turns);
        let (client, device, samples) = (beside.client.clone(), beside.device(), beside.shape()[0]);
        let (span, count) = (samples / levels.shape()[0], weights.shape()[0]);
        let out = Self::float_empty([samples].into(), &device, FloatDType::F32);
        let dim = CubeDim::new(&client, samples);
        harmonics_kernel::launch(
            &client,
            cubecl::calculate_cube_count_elemwise(&client, samples, dim),
            dim,
            turns.into_tensor_arg(),
            weights.into_tensor_arg(),
            levels.into_tensor_arg(),
            beside.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            samples as u32,
            span as u32,
            count as u32,
        );
        out
    }
}

/// One unit per sample. All tensors are contiguous.
#[cube(launch)]
fn harmonics_kernel(
    turns: &Tensor<f32>,
    weights: &Tensor<f32>,
    levels: &Tensor<f32>,
    beside: &Tensor<f32>,
    out: &mut Tensor<f32>,
    samples: u32,
    span: u32,
    count: u32,
) {
    let at = ABSOLUTE_POS;
    if at < samples as usize {
        let (span, count) = (span as usize, count as usize);
        // In halves of a sample, counted from the middle of the first value's samples.
        let mut place = 2 * at + 1;
        if place < span {
            place = span;
        }
        let place = place - span;
        let value = place / (2 * span);
        let part = f32::cast_from((place % (2 * span)) as u32) / f32::cast_from((2 * span) as u32);
        let mut sum = f32::new(0.0);
        for harmonic in 0..count {
            let first = 2 * (value * count + harmonic);
            let turn = turns[first] + turns[first + 1] * part;
            sum += weights[harmonic] * sine((turn - turn.floor()) * f32::new(core::f32::consts::TAU));
        }
        let x = sum * levels[at / span] + beside[at];
        // A difference of sigmoids is not accurate near 0.
        let square = x * x;
        let small = x * (f32::new(1.0) - square * (f32::new(1.0 / 3.0) - square * f32::new(2.0 / 15.0)));
        let mut result = tanh(x);
        if square < f32::new(0.01) {
            result = small;
        }
        out[at] = result;
    }
}
