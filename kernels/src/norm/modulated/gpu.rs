use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::{Form, ModulatedNormOps};
use crate::norm::{UNITS, moments};

impl ModulatedNormOps for Cube {
    fn modulated_norm(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        modulations: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        form: Form,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let [residual, x, modulations] = [residual, x, modulations].map(crate::cube::contiguous);
        let (client, device, shape) = (x.client.clone(), x.device(), x.shape());
        let (rows, size) = (shape[0], shape[1]);
        let normed = Self::float_empty(shape.clone(), &device, FloatDType::F32);
        // A kernel has the same tensors in every case; without a sum this one is never written.
        let sum = if form.adds { Self::float_empty(shape, &device, FloatDType::F32) } else { normed.clone() };
        norm_kernel::launch(
            &client,
            crate::cube::cubes(rows),
            CubeDim::new_1d(UNITS as u32),
            residual.clone().into_tensor_arg(),
            x.into_tensor_arg(),
            modulations.clone().into_tensor_arg(),
            gamma.into_tensor_arg(),
            beta.into_tensor_arg(),
            sum.clone().into_tensor_arg(),
            normed.clone().into_tensor_arg(),
            rows as u32,
            size as u32,
            modulations.shape()[1] as u32,
            form.first as u32,
            form.gate as u32,
            form.epsilon,
            form.adds,
        );
        (if form.adds { sum } else { residual }, normed)
    }
}

/// One cube per row. All tensors are contiguous; without `adds` neither `x` is read nor `sum` written.
#[cube(launch)]
fn norm_kernel(
    residual: &Tensor<f32>,
    x: &Tensor<f32>,
    modulations: &Tensor<f32>,
    gamma: &Tensor<f32>,
    beta: &Tensor<f32>,
    sum: &mut Tensor<f32>,
    normed: &mut Tensor<f32>,
    rows: u32,
    size: u32,
    width: u32,
    first: u32,
    gate: u32,
    epsilon: f32,
    #[comptime] adds: bool,
) {
    let mut work = Shared::<[f32]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;
    let row = CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X;
    if row < rows {
        let end = size as usize;
        let base = row as usize * end;
        let own = row as usize * width as usize;
        // A unit reads back only what it has written itself.
        let mut at = unit;
        while at < end {
            let mut value = residual[base + at];
            if comptime!(adds) {
                value += x[base + at] * modulations[own + gate as usize + at];
                sum[base + at] = value;
            }
            normed[base + at] = value;
            at += UNITS;
        }
        let (mean, deviation) = moments(normed.as_slice(), &mut work, base, size, epsilon);
        let shifts = own + first as usize;
        at = unit;
        while at < end {
            let value = (normed[base + at] - mean) / deviation * gamma[at] + beta[at];
            let factor = f32::new(1.0) + modulations[shifts + end + at];
            normed[base + at] = value * factor + modulations[shifts + at];
            at += UNITS;
        }
    }
}
