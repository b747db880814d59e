//! Activations on a GPU in one launch.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use crate::vector_math::SQRT_2_BY_PI;

/// An activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// The larger of `x` and 0.
    Relu,
    /// `x * sigmoid(x)`
    Silu,
    /// `x / 2 * (1 + erf(x / sqrt 2))`
    Gelu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`
    GeluTanh,
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
    } else if comptime!(function == Function::GeluTanh) {
        // 1 + tanh y is twice the sigmoid of 2 y.
        let scale = f32::new(comptime!(2.0 * SQRT_2_BY_PI));
        value * sigmoid(scale * (value + f32::new(0.044715) * value * value * value))
    } else {
        let half = Erf::erf(value * f32::new(core::f32::consts::FRAC_1_SQRT_2));
        value * f32::new(0.5) * (f32::new(1.0) + half)
    }
}

#[cube]
pub(crate) fn sigmoid(x: f32) -> f32 {
    f32::new(1.0) / (f32::new(1.0) + (f32::new(0.0) - x).exp())
}

/// Computed from the sigmoid, which does not overflow.
#[cube]
pub(crate) fn tanh(x: f32) -> f32 {
    f32::new(2.0) * sigmoid(f32::new(2.0) * x) - f32::new(1.0)
}

/// `sin x` within 4e-7 for arguments up to 1,000, on every device: the language of shaders promises no more than 5e-4.
#[cube]
pub(crate) fn sine(x: f32) -> f32 {
    let n = (x * f32::new(core::f32::consts::FRAC_1_PI) + f32::new(0.5)).floor();
    // Pi in two parts: the multiples of the first are exact.
    let r = x - n * f32::new(3.140625);
    let r = r - n * f32::new(9.676536e-4);
    let s = r * r;
    let p = f32::new(-2.5052108e-8) * s + f32::new(2.7557319e-6);
    let p = p * s - f32::new(1.984127e-4);
    let p = p * s + f32::new(8.333333e-3);
    let p = p * s - f32::new(1.6666667e-1);
    let value = p * s * r + r;
    // Every second half turn is below 0.
    let odd = n - f32::new(2.0) * (n * f32::new(0.5)).floor();
    value * (f32::new(1.0) - f32::new(2.0) * odd)
}

/// The angle of a point, as `atan2` gives it, within 4e-7: the language of shaders promises no more than 4,096 units in the last place.
#[cube]
pub(crate) fn angle(y: f32, x: f32) -> f32 {
    let (across, along) = (y.abs(), x.abs());
    let high = max(across, along);
    let mut ratio = f32::new(0.0);
    if high > f32::new(0.0) {
        ratio = min(across, along) / high;
    }
    // A polynomial is near up to a sixteenth of a turn; what is beyond lies as far around an eighth.
    let mut around = f32::new(0.0);
    if ratio > f32::new(0.41421356) {
        around = f32::new(core::f32::consts::FRAC_PI_4);
        ratio = (ratio - f32::new(1.0)) / (ratio + f32::new(1.0));
    }
    let s = ratio * ratio;
    let p = f32::new(0.07902595) * s - f32::new(0.13824452);
    let p = p * s + f32::new(0.19971879);
    let p = p * s - f32::new(0.33332756);
    let mut result = around + (p * s * ratio + ratio);
    if across > along {
        result = f32::new(core::f32::consts::FRAC_PI_2) - result;
    }
    if x < f32::new(0.0) {
        result = f32::new(core::f32::consts::PI) - result;
    }
    if y < f32::new(0.0) {
        result = f32::new(0.0) - result;
    }
    result
}
