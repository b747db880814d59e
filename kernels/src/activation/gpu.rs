//! The body on GPUs: one unit for each value.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::{Activation, ActivationOps};
use crate::elementwise::sigmoid;
use crate::vector_math::SQRT_2_BY_PI;

impl ActivationOps for Cube {
    fn activated(x: FloatTensor<Self>, activation: Activation) -> FloatTensor<Self> {
        let x = crate::cube::contiguous(x);
        let (client, device, mut shape) = (x.client.clone(), x.device(), x.shape());
        let last = shape.num_dims() - 1;
        if activation.is_gated() {
            shape[last] /= 2;
        }
        let (half, values) = (shape[last], shape.num_elements());
        let out = Cube::float_empty(shape, &device, FloatDType::F32);
        let dim = CubeDim::new(&client, values);
        map_kernel::launch(
            &client,
            cubecl::calculate_cube_count_elemwise(&client, values, dim),
            dim,
            x.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            values as u32,
            half as u32,
            activation,
        );
        out
    }
}

/// One unit per value of `out`. `x` and `out` are contiguous.
#[cube(launch)]
fn map_kernel(x: &Tensor<f32>, out: &mut Tensor<f32>, values: u32, half: u32, #[comptime] activation: Activation) {
    let at = ABSOLUTE_POS;
    if at < values as usize {
        if comptime!(activation.is_gated()) {
            let from = (at / half as usize) * (2 * half as usize) + at % half as usize;
            out[at] = gated(x[from], x[from + half as usize], activation);
        } else {
            out[at] = apply(x[at], activation);
        }
    }
}

/// `activation` of one value, if it is not of two halves.
#[cube]
pub(crate) fn apply(value: f32, #[comptime] activation: Activation) -> f32 {
    if comptime!(activation == Activation::Relu) {
        max(value, f32::new(0.0))
    } else if comptime!(activation == Activation::Silu) {
        value * sigmoid(value)
    } else if comptime!(activation == Activation::GeluTanh) {
        // 1 + tanh y is twice the sigmoid of 2 y.
        let scale = f32::new(comptime!(2.0 * SQRT_2_BY_PI));
        value * sigmoid(scale * (value + f32::new(0.044715) * value * value * value))
    } else {
        let half = Erf::erf(value * f32::new(core::f32::consts::FRAC_1_SQRT_2));
        value * f32::new(0.5) * (f32::new(1.0) + half)
    }
}

/// `activation` of a value of either half.
#[cube]
pub(crate) fn gated(first: f32, second: f32, #[comptime] activation: Activation) -> f32 {
    if comptime!(activation == Activation::Glu) { first * sigmoid(second) } else { first * sigmoid(first) * second }
}
