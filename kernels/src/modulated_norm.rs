//! Layer normalisation whose factor and bias each row brings along, with the gated sum before it, in one launch on GPUs: what is between
//! two products of a diffusion head's blocks (adaptive layer normalisation). The CPU body is for tests; models on the CPU have their own.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::Tensor;

use crate::flex::{contiguous, floats, tensor};
use crate::norm::layer_norm_rows_with;

/// The weights of a norm, and the places of what a row brings along among its modulations.
#[derive(Clone, Debug)]
pub struct ModulatedNorm {
    /// Factor and bias that all rows share, `[size]` each.
    pub norm: [Tensor<1>; 2],
    /// Added to the variance.
    pub epsilon: f32,
    /// Column of the first value of a row's bias; its factor, less 1, follows.
    pub first: usize,
    /// Column of the first gate of what is added before.
    pub gate: usize,
}

impl ModulatedNorm {
    /// The norm of `x` `[rows, size]` for the rows' `modulations` `[rows, width]`.
    ///
    /// # Panics
    /// When the shapes do not match.
    pub fn forward(&self, x: Tensor<2>, modulations: &Tensor<2>) -> Tensor<2> {
        let [_, normed] = self.launch(x.clone(), x, modulations, false);
        normed
    }

    /// The sum of `residual` and `x`, which is multiplied by the gates, and the norm of it; all `[rows, size]`.
    ///
    /// # Panics
    /// When the shapes do not match.
    pub fn forward_added(&self, residual: Tensor<2>, x: Tensor<2>, modulations: &Tensor<2>) -> [Tensor<2>; 2] {
        self.launch(residual, x, modulations, true)
    }

    fn launch(&self, residual: Tensor<2>, x: Tensor<2>, modulations: &Tensor<2>, adds: bool) -> [Tensor<2>; 2] {
        let ([rows, size], [of_rows, width]) = (x.dims(), modulations.dims());
        assert!(
            residual.dims() == [rows, size]
                && of_rows == rows
                && self.norm.iter().all(|values| values.dims() == [size])
                && self.first + 2 * size <= width
                && (!adds || self.gate + size <= width),
            "modulated norm: shapes of x, the norm and the modulations"
        );
        let [gamma, beta] = self.norm.clone().map(Tensor::into_dispatch);
        let (residual, x, modulations) =
            (residual.into_dispatch(), x.into_dispatch(), modulations.clone().into_dispatch());
        let form = Form { epsilon: self.epsilon, first: self.first, gate: self.gate, adds };
        let (sum, normed) = Dispatch::modulated_norm(residual, x, modulations, gamma, beta, form);
        [Tensor::from_dispatch(sum), Tensor::from_dispatch(normed)]
    }
}

/// The numbers of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    epsilon: f32,
    first: usize,
    gate: usize,
    adds: bool,
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait ModulatedNormOps: Backend {
    /// The sum of `residual` and the gated `x`, if the form adds them, else `residual`; and its norm.
    fn modulated_norm(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        modulations: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        form: Form,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

impl ModulatedNormOps for Flex {
    fn modulated_norm(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        modulations: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        Form { epsilon, first, gate, adds }: Form,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let [residual, x, modulations, gamma, beta] = [residual, x, modulations, gamma, beta].map(contiguous);
        let (shape, size, width) = (x.shape(), gamma.shape()[0], modulations.shape()[1]);
        let [gamma, beta] = [&gamma, &beta].map(floats);
        let mut sum = floats(&residual).to_vec();
        let x = floats(&x);
        let mut normed = vec![0.0; sum.len()];
        let modulations = floats(&modulations).chunks_exact(width.max(1));
        let rows = sum.chunks_exact_mut(size).zip(normed.chunks_exact_mut(size)).zip(x.chunks_exact(size));
        for (((sum, normed), x), modulations) in rows.zip(modulations) {
            if adds {
                let gates = &modulations[gate..gate + size];
                sum.iter_mut().zip(x).zip(gates).for_each(|((sum, x), gate)| *sum += x * gate);
            }
            layer_norm_rows_with(sum, gamma, beta, epsilon, normed);
            let (shifts, scales) = modulations[first..first + 2 * size].split_at(size);
            let values = normed.iter_mut().zip(shifts).zip(scales);
            values.for_each(|((value, shift), scale)| *value = *value * (1.0 + scale) + shift);
        }
        (tensor(sum, shape.clone()), tensor(normed, shape))
    }
}

#[cfg(feature = "wgpu")]
mod kernel {
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
}
