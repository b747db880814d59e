use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, TensorMetadata};
use cubecl::prelude::*;

use super::{Form, Step, StreamConvolutionOps};
use crate::cache::ring::FACTS;
use crate::product::float::Tile;

impl StreamConvolutionOps for Cube {
    fn stream_convolution(step: Step<Self>, form: Form) -> FloatTensor<Self> {
        let Step { x, weight, bias, residual, out, steps, steps_of_out, rows, .. } = step;
        let [x, weight, residual] = [x, weight, residual].map(crate::cube::contiguous);
        let (inputs, outputs, all) = (x.shape()[2], bias.shape()[0], rows.len() * form.frames);
        let tile = Tile::of([all, outputs]);
        let [down, along] = tile.units();
        convolution_kernel::launch(
            &out.client,
            CubeCount::Static(outputs.div_ceil(tile.columns) as u32, all.div_ceil(tile.rows) as u32, 1),
            CubeDim::new_1d((down * along * tile.groups) as u32),
            x.into_tensor_arg(),
            weight.into_tensor_arg(),
            bias.into_tensor_arg(),
            residual.into_tensor_arg(),
            steps.into_tensor_arg(),
            steps_of_out.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            all as u32,
            form.frames as u32,
            inputs as u32,
            outputs as u32,
            form.taps as u32,
            form.x.columns as u32,
            form.residual.map_or(0, |place| place.columns) as u32,
            form.out.columns as u32,
            tile,
            Kind {
                in_ring: form.x.in_ring,
                has_elu: form.has_elu,
                has_residual: form.residual.is_some(),
                residual_in_ring: form.residual.is_some_and(|place| place.in_ring),
                to_ring: form.out.in_ring,
            },
        );
        out
    }
}

/// The parts of a kernel's body that a call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    in_ring: bool,
    has_elu: bool,
    has_residual: bool,
    residual_in_ring: bool,
    to_ring: bool,
}

/// The number of frame `frame` of a step's row, in the step or in the ring.
#[cube]
fn number(
    steps: &Tensor<i32>,
    row: usize,
    frame: usize,
    frames: usize,
    columns: u32,
    #[comptime] in_ring: bool,
) -> usize {
    let mut result = row * frames + frame;
    if comptime!(in_ring) {
        let columns = columns as usize;
        let position = steps[row * FACTS + 1] as usize * frames + frame;
        result = steps[row * FACTS] as usize * columns + position % columns;
    }
    result
}

/// A cube computes a tile of the product of windows and weights; its units are in groups that share the depth. Units of a group have
/// every so many rows and columns of the tile, so that neighbours read neighbouring values. All tensors are contiguous.
#[cube(launch)]
fn convolution_kernel(
    x: &Tensor<f32>,
    weight: &Tensor<f32>,
    bias: &Tensor<f32>,
    residual: &Tensor<f32>,
    steps: &Tensor<i32>,
    steps_of_out: &Tensor<i32>,
    out: &mut Tensor<f32>,
    rows: u32,
    frames: u32,
    inputs: u32,
    outputs: u32,
    taps: u32,
    x_columns: u32,
    residual_columns: u32,
    out_columns: u32,
    #[comptime] tile: Tile,
    #[comptime] kind: Kind,
) {
    let mut shared = Shared::<[f32]>::new_slice(comptime!(tile.shared()));
    let down = comptime!(tile.units()[0]);
    let along = comptime!(tile.units()[1]);
    let group_units = comptime!(tile.units()[0] * tile.units()[1]);
    let (unit_rows, unit_columns) = comptime!((tile.unit_rows, tile.unit_columns));
    let pitch = comptime!(tile.rows + 1);
    let loads_x = comptime!((tile.depth * tile.rows).div_ceil(tile.units()[0] * tile.units()[1]));
    let loads_w = comptime!((tile.depth * tile.columns).div_ceil(tile.units()[0] * tile.units()[1]));

    let unit = UNIT_POS as usize;
    let (group, own) = (unit / group_units, unit % group_units);
    let (row, column) = (own / along, own % along);
    let first_row = CUBE_POS_Y as usize * comptime!(tile.rows);
    let first_column = CUBE_POS_X as usize * comptime!(tile.columns);
    let (rows, frames, inputs, outputs) = (rows as usize, frames as usize, inputs as usize, outputs as usize);
    let (depth, before) = (taps as usize * inputs, taps as usize - 1);
    let seen = group * comptime!(tile.inputs());
    let weights = comptime!(tile.groups * tile.inputs()) + group * comptime!(tile.depth * tile.columns);

    let mut sums = Array::<f32>::new(comptime!(tile.unit_rows * tile.unit_columns));
    #[unroll]
    for at in 0..comptime!(tile.unit_rows * tile.unit_columns) {
        sums[at] = f32::new(0.0);
    }
    let stride = comptime!(tile.groups * tile.depth);
    let all = depth.div_ceil(stride);
    for step in 0..all {
        let from = step * stride + group * comptime!(tile.depth);
        #[unroll]
        for load in 0..loads_x {
            let at = load * group_units + own;
            if at < comptime!(tile.depth * tile.rows) {
                let (of_depth, of_row) = (at % comptime!(tile.depth), at / comptime!(tile.depth));
                let (k, r) = (from + of_depth, first_row + of_row);
                let mut value = f32::new(0.0);
                if k < depth && r < rows {
                    let (stream, frame) = (r / frames, r % frames);
                    let (tap, input) = (k / inputs, k % inputs);
                    if comptime!(kind.in_ring) {
                        let columns = x_columns as usize;
                        let position = steps[stream * FACTS + 1] as usize * frames + frame + tap;
                        // Frames before the stream's first are zeros.
                        if position >= before {
                            let place = steps[stream * FACTS] as usize * columns + (position - before) % columns;
                            value = x[place * inputs + input];
                        }
                    } else {
                        value = x[r * inputs + input];
                    }
                    if comptime!(kind.has_elu) {
                        value = select(value < f32::new(0.0), value.exp() - f32::new(1.0), value);
                    }
                }
                shared[seen + of_depth * pitch + of_row] = value;
            }
        }
        #[unroll]
        for load in 0..loads_w {
            let at = load * group_units + own;
            if at < comptime!(tile.depth * tile.columns) {
                let (k, c) = (from + at / comptime!(tile.columns), first_column + at % comptime!(tile.columns));
                let mut value = f32::new(0.0);
                if k < depth && c < outputs {
                    value = weight[k * outputs + c];
                }
                shared[weights + at] = value;
            }
        }
        sync_cube();
        for k in 0..comptime!(tile.depth) {
            let mut of_columns = Array::<f32>::new(unit_columns);
            #[unroll]
            for c in 0..unit_columns {
                of_columns[c] = shared[weights + k * comptime!(tile.columns) + column + c * along];
            }
            #[unroll]
            for r in 0..unit_rows {
                let value = shared[seen + k * pitch + row + r * down];
                #[unroll]
                for c in 0..unit_columns {
                    sums[r * unit_columns + c] += value * of_columns[c];
                }
            }
        }
        sync_cube();
    }
    if comptime!(tile.groups > 1) {
        if group > 0 {
            let base = (group - 1) * comptime!(tile.rows * tile.columns);
            #[unroll]
            for r in 0..unit_rows {
                #[unroll]
                for c in 0..unit_columns {
                    let place = (row + r * down) * comptime!(tile.columns) + column + c * along;
                    shared[base + place] = sums[r * unit_columns + c];
                }
            }
        }
        sync_cube();
    }
    if group == 0 {
        #[unroll]
        for r in 0..unit_rows {
            let of_row = row + r * down;
            if first_row + of_row < rows {
                let (stream, frame) = ((first_row + of_row) / frames, (first_row + of_row) % frames);
                let to = number(steps_of_out, stream, frame, frames, out_columns, comptime!(kind.to_ring));
                #[unroll]
                for c in 0..unit_columns {
                    let of_column = column + c * along;
                    let output = first_column + of_column;
                    if output < outputs {
                        let mut sum = sums[r * unit_columns + c] + bias[output];
                        #[unroll]
                        for other in 0..comptime!(tile.groups - 1) {
                            let base = comptime!(other * tile.rows * tile.columns);
                            sum += shared[base + of_row * comptime!(tile.columns) + of_column];
                        }
                        if comptime!(kind.has_residual) {
                            let in_ring = comptime!(kind.residual_in_ring);
                            let from = number(steps, stream, frame, frames, residual_columns, in_ring);
                            sum += residual[from * outputs + output];
                        }
                        out[to * outputs + output] = sum;
                    }
                }
            }
        }
    }
}
