//! Activations on a GPU in one launch.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

/// An activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// The larger of `x` and 0.
    Relu,
    /// `x * sigmoid(x)`
    Silu,
    /// `x / 2 * (1 + erf(x / sqrt 2))`
    Gelu,
    /// `a * sigmoid(b)` of the two halves of the last dimension.
    Glu,
    /// `a * sigmoid(a) * b` of the two halves of the last dimension; only in epilogues.
    SwiGlu,
}

/// Applies `function` to `x`, of any shape.
pub(crate) fn map(x: FloatTensor<Cube>, function: Function) -> FloatTensor<Cube> {
    let x = crate::cube::contiguous(x);
    let (client, device, mut shape) = (x.client.clone(), x.device(), x.shape());
    let last = shape.num_dims() - 1;
    if function == Function::Glu {
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
        function,
    );
    out
}

/// One unit per value of `out`. `x` and `out` are contiguous.
#[cube(launch)]
fn map_kernel(x: &Tensor<f32>, out: &mut Tensor<f32>, values: u32, half: u32, #[comptime] function: Function) {
    let at = ABSOLUTE_POS;
    if at < values as usize {
        if comptime!(function == Function::Glu) {
            let from = (at / half as usize) * (2 * half as usize) + at % half as usize;
            out[at] = x[from] * sigmoid(x[from + half as usize]);
        } else {
            out[at] = apply(x[at], function);
        }
    }
}

/// `function` of one value, if it is not of two halves.
#[cube]
pub(crate) fn apply(value: f32, #[comptime] function: Function) -> f32 {
    if comptime!(function == Function::Relu) {
        max(value, f32::new(0.0))
    } else if comptime!(function == Function::Silu) {
        value * sigmoid(value)
    } else {
        let half = Erf::erf(value * f32::new(core::f32::consts::FRAC_1_SQRT_2));
        value * f32::new(0.5) * (f32::new(1.0) + half)
    }
}

#[cube]
pub(crate) fn sigmoid(x: f32) -> f32 {
    f32::new(1.0) / (f32::new(1.0) + (f32::new(0.0) - x).exp())
}
