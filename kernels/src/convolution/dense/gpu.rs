use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::{DenseConvolutionOps, Windows};

/// Units of a cube along the frames and along the outputs of a tile.
const SIDE: usize = 16;
/// Outputs of a unit, and of a tile.
const UNIT_COLUMNS: usize = 4;
const COLUMNS: usize = SIDE * UNIT_COLUMNS;
/// Inputs of a tap in shared memory at a time.
const DEPTH: usize = 16;
/// Cubes that keep a large card busy.
const ENOUGH_CUBES: usize = 264;

impl DenseConvolutionOps for Cube {
    fn dense_convolution(
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
