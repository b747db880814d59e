use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::NormOps;
use crate::reduce::cube_sum;

/// Units of a cube that normalises a row: a power of two.
pub(crate) const UNITS: usize = 128;

impl NormOps for Cube {
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
    ) -> FloatTensor<Self> {
        let x = crate::cube::contiguous(x);
        let (client, device, shape) = (x.client.clone(), x.device(), x.shape());
        let size = shape[shape.num_dims() - 1];
        let rows = shape.num_elements() / size.max(1);
        let out = Self::float_empty(shape, &device, FloatDType::F32);
        norm_kernel::launch(
            &client,
            crate::cube::cubes(rows),
            CubeDim::new_1d(UNITS as u32),
            x.into_tensor_arg(),
            gamma.into_tensor_arg(),
            beta.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            rows as u32,
            size as u32,
            epsilon,
        );
        out
    }

    fn rms_normed_sum(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        epsilon: f32,
        adds: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let [residual, x] = [residual, x].map(crate::cube::contiguous);
        let (client, device, shape) = (residual.client.clone(), residual.device(), residual.shape());
        let size = shape[shape.num_dims() - 1];
        let rows = shape.num_elements() / size.max(1);
        let normed = Self::float_empty(shape.clone(), &device, FloatDType::F32);
        // A kernel has the same tensors in every case; without a sum this one is never written.
        let sum = if adds { Self::float_empty(shape, &device, FloatDType::F32) } else { normed.clone() };
        rms_kernel::launch(
            &client,
            crate::cube::cubes(rows),
            CubeDim::new_1d(UNITS as u32),
            residual.clone().into_tensor_arg(),
            x.into_tensor_arg(),
            gamma.into_tensor_arg(),
            sum.clone().into_tensor_arg(),
            normed.clone().into_tensor_arg(),
            rows as u32,
            size as u32,
            epsilon,
            adds,
        );
        (if adds { sum } else { residual }, normed)
    }
}

/// One cube per row. All tensors are contiguous; without `adds` neither `x` is read nor `sum` written.
#[cube(launch)]
fn rms_kernel(
    residual: &Tensor<f32>,
    x: &Tensor<f32>,
    gamma: &Tensor<f32>,
    sum: &mut Tensor<f32>,
    normed: &mut Tensor<f32>,
    rows: u32,
    size: u32,
    epsilon: f32,
    #[comptime] adds: bool,
) {
    let mut work = Shared::<[f32]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;
    let row = CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X;
    if row < rows {
        let end = size as usize;
        let base = row as usize * end;
        let mut squares = f32::new(0.0);
        let mut at = unit;
        while at < end {
            let mut value = residual[base + at];
            if comptime!(adds) {
                value += x[base + at];
                sum[base + at] = value;
            }
            // A unit reads back only what it has written itself.
            normed[base + at] = value;
            squares += value * value;
            at += UNITS;
        }
        let mean = cube_sum(&mut work, squares, UNITS) / f32::cast_from(size);
        let factor = f32::new(1.0) / (mean + epsilon).sqrt();
        at = unit;
        while at < end {
            normed[base + at] = normed[base + at] * factor * gamma[at];
            at += UNITS;
        }
    }
}

/// One cube per row. `x` and `out` are contiguous.
#[cube(launch)]
fn norm_kernel(
    x: &Tensor<f32>,
    gamma: &Tensor<f32>,
    beta: &Tensor<f32>,
    out: &mut Tensor<f32>,
    rows: u32,
    size: u32,
    epsilon: f32,
) {
    let mut values = Shared::<[f32]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;
    let row = CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X;
    if row < rows {
        let end = size as usize;
        let base = row as usize * end;
        let (mean, deviation) = moments(x.as_slice(), &mut values, base, size, epsilon);
        let mut at = unit;
        while at < end {
            out[base + at] = (x[base + at] - mean) / deviation * gamma[at] + beta[at];
            at += UNITS;
        }
    }
}

/// Mean and deviation of the row of `x` from `base` on. Each unit reads every [`UNITS`]-th value.
#[cube]
pub(crate) fn moments(x: &[f32], work: &mut Shared<[f32]>, base: usize, size: u32, epsilon: f32) -> (f32, f32) {
    let (unit, end) = (UNIT_POS as usize, size as usize);
    let count = f32::cast_from(size);
    let mut total = f32::new(0.0);
    let mut at = unit;
    while at < end {
        total += x[base + at];
        at += UNITS;
    }
    let mean = cube_sum(work, total, UNITS) / count;
    let mut squares = f32::new(0.0);
    at = unit;
    while at < end {
        let difference = x[base + at] - mean;
        squares += difference * difference;
        at += UNITS;
    }
    let deviation = (cube_sum(work, squares, UNITS) / count + epsilon).sqrt();
    (mean, deviation)
}
