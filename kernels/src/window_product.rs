//! Convolutions over frames on GPUs as products of one launch: the taps of a frame are read where they lie, and no window is stored.
//!
//! A cube computes a tile of the product; its units share the taps' values and the weights in memory of their own. What precedes a
//! convolution, a slope below 0, is applied as values are read, and what follows it, a sum, as they are written. On the CPU models use
//! [`crate::convolution`]; the body here is for tests.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::Tensor;

use crate::flex::{contiguous, floats, tensor};

/// The frames that each output sees, and how it sees them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Windows {
    /// Frames of the output.
    pub frames: usize,
    /// Frames from one output's window to the next one's.
    pub stride: usize,
    /// Frames from one tap to the next.
    pub dilation: usize,
    /// Frames of the first tap before the frame of an output's own number, times the stride.
    pub before: usize,
    /// Values below 0 are multiplied by this.
    pub slope: f32,
}

impl Windows {
    /// Windows of `taps` around each of `frames` frames.
    pub fn around(frames: usize, taps: usize, dilation: usize) -> Self {
        Self { frames, stride: 1, dilation, before: taps / 2 * dilation, slope: 1.0 }
    }
}

/// Convolves `x` `[frames, inputs]` with `weight` `[taps * inputs, outputs]`, the earliest tap first, and adds `bias` `[outputs]` and, if there
/// is one, a `residual` of the output's shape times its factor. Frames outside `x` are 0. Returns `[windows.frames, outputs]`.
///
/// # Panics
/// When the shapes do not match.
pub fn window_product(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    windows: Windows,
    residual: Option<(Tensor<2>, f32)>,
) -> Tensor<2> {
    let ([_, inputs], [depth, outputs]) = (x.dims(), weight.dims());
    assert!(
        depth > 0 && depth.is_multiple_of(inputs) && bias.dims() == [outputs],
        "window product: shapes of x, weight and bias"
    );
    let shape = [windows.frames, outputs];
    assert!(
        residual.as_ref().is_none_or(|(residual, _)| residual.dims() == shape),
        "window product: shape of the residual"
    );
    if windows.frames == 0 {
        return Tensor::zeros(shape, &x.device());
    }
    let (x, weight, bias) = (x.into_dispatch(), weight.into_dispatch(), bias.into_dispatch());
    // A kernel has the same tensors in every case; without a residual this one is never read.
    let factor = residual.as_ref().map(|(_, factor)| *factor);
    let residual = residual.map_or_else(|| x.clone(), |(residual, _)| residual.into_dispatch());
    Tensor::from_dispatch(Dispatch::window_product(x, weight, bias, residual, windows, factor))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait WindowProductOps: Backend {
    /// A residual is added if it has a factor.
    fn window_product(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        windows: Windows,
        factor: Option<f32>,
    ) -> FloatTensor<Self>;
}

impl WindowProductOps for Flex {
    fn window_product(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        windows: Windows,
        factor: Option<f32>,
    ) -> FloatTensor<Self> {
        let [x, weight, bias, residual] = [x, weight, bias, residual].map(contiguous);
        let (inputs, outputs) = (x.shape()[1], bias.shape()[0]);
        let [x, weight, bias, residual] = [&x, &weight, &bias, &residual].map(floats);
        let Windows { frames, stride, dilation, before, slope } = windows;
        let mut out = Vec::with_capacity(frames * outputs);
        for frame in 0..frames {
            let mut sums = bias.to_vec();
            for (tap, weight) in weight.chunks_exact(inputs * outputs).enumerate() {
                let place = (frame * stride + tap * dilation).checked_sub(before);
                let Some(seen) = place.and_then(|place| x.get(place * inputs..(place + 1) * inputs)) else { continue };
                for (value, weight) in seen.iter().zip(weight.chunks_exact(outputs)) {
                    let value = if *value < 0.0 { value * slope } else { *value };
                    sums.iter_mut().zip(weight).for_each(|(sum, weight)| *sum += value * weight);
                }
            }
            if let Some(factor) = factor {
                let residual = &residual[frame * outputs..][..outputs];
                sums.iter_mut().zip(residual).for_each(|(sum, value)| *sum += value * factor);
            }
            out.extend(sums);
        }
        tensor(out, [frames, outputs].into())
    }
}

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Cube, FloatDType, TensorMetadata};
    use cubecl::prelude::*;

    use super::{WindowProductOps, Windows};

    /// Units of a cube along the frames and along the outputs of a tile.
    const SIDE: usize = 16;
    /// Outputs of a unit, and of a tile.
    const UNIT_COLUMNS: usize = 4;
    const COLUMNS: usize = SIDE * UNIT_COLUMNS;
    /// Inputs of a tap in shared memory at a time.
    const DEPTH: usize = 16;
    /// Cubes that keep a large card busy.
    const ENOUGH_CUBES: usize = 264;

    impl WindowProductOps for Cube {
        fn window_product(
            x: FloatTensor<Self>,
            weight: FloatTensor<Self>,
            bias: FloatTensor<Self>,
            residual: FloatTensor<Self>,
            windows: Windows,
            factor: Option<f32>,
        ) -> FloatTensor<Self> {
            let [x, weight, residual] = [x, weight, residual].map(crate::cube::contiguous);
            let (client, device) = (x.client.clone(), x.device());
            let (inputs, outputs) = (x.shape()[1], bias.shape()[0]);
            let Windows { frames, stride, dilation, before, slope } = windows;
            let along = outputs.div_ceil(COLUMNS);
            let is_large = frames.div_ceil(8 * SIDE) * along >= ENOUGH_CUBES;
            let unit_rows = if is_large { 8 } else { 4 };
            let out = Self::float_empty([frames, outputs].into(), &device, FloatDType::F32);
            product_kernel::launch(
                &client,
                CubeCount::Static(along as u32, frames.div_ceil(unit_rows * SIDE) as u32, 1),
                CubeDim::new_1d((SIDE * SIDE) as u32),
                x.clone().into_tensor_arg(),
                weight.clone().into_tensor_arg(),
                bias.into_tensor_arg(),
                residual.into_tensor_arg(),
                out.clone().into_tensor_arg(),
                x.shape()[0] as u32,
                inputs as u32,
                frames as u32,
                outputs as u32,
                (weight.shape()[0] / inputs) as u32,
                stride as u32,
                dilation as u32,
                before as u32,
                slope,
                factor.unwrap_or_default(),
                unit_rows,
                factor.is_some(),
            );
            out
        }
    }

    /// A cube computes `unit_rows * SIDE` frames of `COLUMNS` outputs. Units have every so many frames and outputs of the tile, so that
    /// neighbours read neighbouring values. All tensors are contiguous.
    #[cube(launch)]
    fn product_kernel(
        x: &Tensor<f32>,
        weight: &Tensor<f32>,
        bias: &Tensor<f32>,
        residual: &Tensor<f32>,
        out: &mut Tensor<f32>,
        frames: u32,
        inputs: u32,
        rows: u32,
        outputs: u32,
        taps: u32,
        stride: u32,
        dilation: u32,
        before: u32,
        slope: f32,
        factor: f32,
        #[comptime] unit_rows: usize,
        #[comptime] has_residual: bool,
    ) {
        let pitch = comptime!(unit_rows * SIDE + 1);
        let mut seen = Shared::<[f32]>::new_slice(comptime!(DEPTH * (unit_rows * SIDE + 1)));
        let mut weights = Shared::<[f32]>::new_slice(comptime!(DEPTH * COLUMNS));
        let unit = UNIT_POS as usize;
        let (row, column) = (unit / SIDE, unit % SIDE);
        let first_row = CUBE_POS_Y as usize * comptime!(unit_rows * SIDE);
        let first_column = CUBE_POS_X as usize * COLUMNS;
        let (frames, inputs, outputs) = (frames as usize, inputs as usize, outputs as usize);
        let (stride, before) = (stride as usize, before as usize);
        let mut sums = Array::<f32>::new(comptime!(unit_rows * UNIT_COLUMNS));
        #[unroll]
        for at in 0..comptime!(unit_rows * UNIT_COLUMNS) {
            sums[at] = f32::new(0.0);
        }
        for tap in 0..taps {
            let shift = tap as usize * dilation as usize;
            let mut first = 0usize.runtime();
            while first < inputs {
                #[unroll]
                for load in 0..unit_rows {
                    let at = load * comptime!(SIDE * SIDE) + unit;
                    let (k, r) = (at % DEPTH, at / DEPTH);
                    let place = (first_row + r) * stride + shift;
                    let mut value = f32::new(0.0);
                    if first + k < inputs && place >= before && place - before < frames {
                        value = x[(place - before) * inputs + first + k];
                        if value < f32::new(0.0) {
                            value *= slope;
                        }
                    }
                    seen[k * pitch + r] = value;
                }
                #[unroll]
                for load in 0..UNIT_COLUMNS {
                    let at = load * comptime!(SIDE * SIDE) + unit;
                    let (k, c) = (at / COLUMNS, at % COLUMNS);
                    let mut value = f32::new(0.0);
                    if first + k < inputs && first_column + c < outputs {
                        value = weight[(tap as usize * inputs + first + k) * outputs + first_column + c];
                    }
                    weights[at] = value;
                }
                sync_cube();
                for k in 0..DEPTH {
                    let mut of_columns = Array::<f32>::new(UNIT_COLUMNS);
                    #[unroll]
                    for c in 0..UNIT_COLUMNS {
                        of_columns[c] = weights[k * COLUMNS + column + c * SIDE];
                    }
                    #[unroll]
                    for r in 0..unit_rows {
                        let value = seen[k * pitch + row + r * SIDE];
                        #[unroll]
                        for c in 0..UNIT_COLUMNS {
                            sums[r * UNIT_COLUMNS + c] += value * of_columns[c];
                        }
                    }
                }
                sync_cube();
                first += DEPTH;
            }
        }
        #[unroll]
        for r in 0..unit_rows {
            #[unroll]
            for c in 0..UNIT_COLUMNS {
                let (frame, output) = (first_row + row + r * SIDE, first_column + column + c * SIDE);
                if frame < rows as usize && output < outputs {
                    let mut sum = sums[r * UNIT_COLUMNS + c] + bias[output];
                    if comptime!(has_residual) {
                        sum += residual[frame * outputs + output] * factor;
                    }
                    out[frame * outputs + output] = sum;
                }
            }
        }
    }
}
