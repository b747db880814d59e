use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::ops::FloatTensorOps;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::{After, EpilogueOps, FloatTensor};
use crate::activation::{Activation, apply, gated};
use crate::norm::{EPSILON, UNITS, moments};

/// The output for the `sum` of a column.
#[cube]
pub(crate) fn finish(sum: f32, bias: &Tensor<f32>, column: usize, #[comptime] after: After) -> f32 {
    if comptime!(after == After::Nothing) {
        sum
    } else if comptime!(after == After::Bias) {
        sum + bias[column]
    } else {
        apply(sum + bias[column], comptime!(after.activation()))
    }
}

impl After {
    fn activation(self) -> Activation {
        match self {
            Self::Activation(activation) => activation,
            Self::Nothing | Self::Bias => Activation::Relu,
        }
    }
}

impl EpilogueOps for Cube {
    fn biased_activation(x: FloatTensor<Self>, bias: FloatTensor<Self>, activation: Activation) -> FloatTensor<Self> {
        let x = crate::cube::contiguous(x);
        let (client, device, mut shape) = (x.client.clone(), x.device(), x.shape());
        let last = shape.num_dims() - 1;
        if activation.is_gated() {
            shape[last] /= 2;
        }
        let (size, values) = (shape[last], shape.num_elements());
        let dtype = dtype_to_storage_type(x.dtype);
        let out = Self::float_empty(shape, &device, crate::cube::float(&x));
        let dim = CubeDim::new(&client, values);
        activation_kernel::launch(
            &client,
            cubecl::calculate_cube_count_elemwise(&client, values, dim),
            dim,
            x.into_tensor_arg(),
            bias.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            values as u32,
            size as u32,
            activation,
            dtype,
        );
        out
    }

    fn biased_sum(residual: FloatTensor<Self>, x: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self> {
        let [residual, x] = [residual, x].map(crate::cube::contiguous);
        let (client, device, shape) = (x.client.clone(), x.device(), x.shape());
        let (size, values) = (bias.shape()[0], shape.num_elements());
        let dtype = dtype_to_storage_type(x.dtype);
        let out = Self::float_empty(shape, &device, FloatDType::F32);
        let dim = CubeDim::new(&client, values);
        sum_kernel::launch(
            &client,
            cubecl::calculate_cube_count_elemwise(&client, values, dim),
            dim,
            residual.into_tensor_arg(),
            x.into_tensor_arg(),
            bias.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            values as u32,
            size as u32,
            dtype,
        );
        out
    }

    fn normed_sum(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let norms = [[gamma.clone(), beta.clone()], [gamma, beta]];
        launch_normed_sum([residual, x], bias, norms, epsilon, false)
    }

    fn twice_normed_sum(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        next_gamma: FloatTensor<Self>,
        next_beta: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        launch_normed_sum([residual, x], bias, [[gamma, beta], [next_gamma, next_beta]], EPSILON, true)
    }
}

/// The second norm is used if `twice` is set.
fn launch_normed_sum(
    terms: [FloatTensor<Cube>; 2],
    bias: FloatTensor<Cube>,
    [[gamma, beta], [next_gamma, next_beta]]: [[FloatTensor<Cube>; 2]; 2],
    epsilon: f32,
    twice: bool,
) -> (FloatTensor<Cube>, FloatTensor<Cube>) {
    let [residual, x] = terms.map(crate::cube::contiguous);
    let (client, device, shape) = (x.client.clone(), x.device(), x.shape());
    let size = bias.shape()[0];
    let rows = shape.num_elements() / size.max(1);
    let dtype = dtype_to_storage_type(x.dtype);
    let first = Cube::float_empty(shape.clone(), &device, FloatDType::F32);
    let second = Cube::float_empty(shape, &device, crate::cube::float(&x));
    normed_sum_kernel::launch(
        &client,
        crate::cube::cubes(rows),
        CubeDim::new_1d(UNITS as u32),
        residual.into_tensor_arg(),
        x.into_tensor_arg(),
        bias.into_tensor_arg(),
        gamma.into_tensor_arg(),
        beta.into_tensor_arg(),
        next_gamma.into_tensor_arg(),
        next_beta.into_tensor_arg(),
        first.clone().into_tensor_arg(),
        second.clone().into_tensor_arg(),
        rows as u32,
        size as u32,
        epsilon,
        twice,
        dtype,
    );
    (first, second)
}

/// One unit per value of `out`. `x` and `out` are contiguous.
#[cube(launch)]
fn activation_kernel<F: Float>(
    x: &Tensor<F>,
    bias: &Tensor<f32>,
    out: &mut Tensor<F>,
    values: u32,
    size: u32,
    #[comptime] activation: Activation,
    #[define(F)] _dtype: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < values as usize {
        let size = size as usize;
        let dim = at % size;
        if comptime!(activation.is_gated()) {
            let from = (at / size) * (2 * size) + dim;
            let first = f32::cast_from(x[from]) + bias[dim];
            let second = f32::cast_from(x[from + size]) + bias[dim + size];
            out[at] = F::cast_from(gated(first, second, activation));
        } else {
            out[at] = F::cast_from(apply(f32::cast_from(x[at]) + bias[dim], activation));
        }
    }
}

/// One unit per value. All tensors are contiguous.
#[cube(launch)]
fn sum_kernel<F: Float>(
    residual: &Tensor<f32>,
    x: &Tensor<F>,
    bias: &Tensor<f32>,
    out: &mut Tensor<f32>,
    values: u32,
    size: u32,
    #[define(F)] _dtype: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < values as usize {
        out[at] = residual[at] + (f32::cast_from(x[at]) + bias[at % size as usize]);
    }
}

/// One cube per row. All tensors are contiguous. `first` becomes the sum and `second` its norm; with two norms `first` becomes the
/// first norm and `second` the second.
#[cube(launch)]
fn normed_sum_kernel<F: Float>(
    residual: &Tensor<f32>,
    x: &Tensor<F>,
    bias: &Tensor<f32>,
    gamma: &Tensor<f32>,
    beta: &Tensor<f32>,
    next_gamma: &Tensor<f32>,
    next_beta: &Tensor<f32>,
    first: &mut Tensor<f32>,
    second: &mut Tensor<F>,
    rows: u32,
    size: u32,
    epsilon: f32,
    #[comptime] twice: bool,
    #[define(F)] _dtype: ElemType,
) {
    let mut work = Shared::<[f32]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;
    let row = CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X;
    if row < rows {
        let end = size as usize;
        let base = row as usize * end;
        // A unit reads back only what it has written itself.
        let mut at = unit;
        while at < end {
            first[base + at] = residual[base + at] + (f32::cast_from(x[base + at]) + bias[at]);
            at += UNITS;
        }
        let (mean, deviation) = moments(first.as_slice(), &mut work, base, size, epsilon);
        if comptime!(twice) {
            at = unit;
            while at < end {
                first[base + at] = (first[base + at] - mean) / deviation * gamma[at] + beta[at];
                at += UNITS;
            }
            let (mean, deviation) = moments(first.as_slice(), &mut work, base, size, epsilon);
            at = unit;
            while at < end {
                let value = (first[base + at] - mean) / deviation * next_gamma[at] + next_beta[at];
                second[base + at] = F::cast_from(value);
                at += UNITS;
            }
        } else {
            at = unit;
            while at < end {
                let value = (first[base + at] - mean) / deviation * gamma[at] + beta[at];
                second[base + at] = F::cast_from(value);
                at += UNITS;
            }
        }
    }
}
