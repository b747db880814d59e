//! Causal convolutions over the frames of streams on GPUs, each one launch for all streams of a step: the taps of a frame are read where
//! they lie, in the step or in a ring of the frames before it, and the result is written to the step or to the next ring.
//!
//! A stream has a slot of a ring `[slots, columns, width]` ([`crate::frame_ring`]), frame `n` in column `n` modulo the columns. A ring that has
//! room for a step beside the frames that the step sees is the same after a step that ran twice. A transposed convolution whose taps are
//! twice its stride is a convolution over two frames, whose outputs are as many frames. On the CPU models use [`crate::convolution`]; the body
//! here is for tests.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::Tensor;

use crate::activation::elu_in_place;
use crate::flex::{contiguous, floats, tensor};
use crate::frame_ring::{RowFrames, StepFrames};

/// Frames of the rows of a step.
#[derive(Clone, Debug)]
pub struct StreamFrames {
    /// `[slots, columns, width]`, or `[rows, frames, width]` of the step alone.
    values: Tensor<3>,
    /// Frames that a step has of each row.
    frames: usize,
    in_ring: bool,
}

impl StreamFrames {
    /// Those of a step alone, `[rows, frames, width]`.
    pub fn of_step(values: Tensor<3>) -> Self {
        let [_, frames, _] = values.dims();
        Self { values, frames, in_ring: false }
    }

    /// A ring `[slots, columns, width]` with `frames` new ones a step. On GPUs it changes in place, so no other stream of work may hold it.
    pub fn ring(values: Tensor<3>, frames: usize) -> Self {
        Self { values, frames, in_ring: true }
    }

    /// The tensor.
    pub fn into_values(self) -> Tensor<3> {
        self.values
    }

    fn place(&self) -> Place {
        Place { columns: self.values.dims()[1], in_ring: self.in_ring }
    }
}

/// A convolution.
#[derive(Clone, Debug)]
pub struct StreamConvolution {
    /// `[taps * inputs, outputs]`, the earliest tap first.
    pub weight: Tensor<2>,
    /// `[outputs]`
    pub bias: Tensor<1>,
    /// ELU is applied to the inputs.
    pub has_elu: bool,
}

impl StreamConvolution {
    /// The frames of a step: `x` of `inputs` values to `[rows, frames, outputs]`. What a frame sees before the first of its stream is 0.
    /// Frames that are not in a ring have one tap. `steps` counts, for each row, the steps that its stream had in `x`. A residual of the
    /// output's width is added; in a ring it is at the same steps.
    ///
    /// # Panics
    /// When the shapes do not match.
    pub fn forward(&self, x: &StreamFrames, residual: Option<&StreamFrames>, steps: &StepFrames) -> Tensor<3> {
        let shape = [steps.rows().len(), x.frames, self.bias.dims()[0]];
        let out = StreamFrames::of_step(Tensor::empty(shape, &x.values.device()));
        self.write(x, residual, [steps, steps], out).into_values()
    }

    /// As [`StreamConvolution::forward`], written to a ring whose streams had the steps of the second of `steps`; the first are those of `x`
    /// and the residual.
    ///
    /// # Panics
    /// When the shapes do not match.
    pub fn write(
        &self,
        x: &StreamFrames,
        residual: Option<&StreamFrames>,
        [steps, steps_of_out]: [&StepFrames; 2],
        out: StreamFrames,
    ) -> StreamFrames {
        let ([depth, outputs], [_, columns, inputs]) = (self.weight.dims(), x.values.dims());
        assert!(
            depth > 0 && depth.is_multiple_of(inputs) && self.bias.dims() == [outputs],
            "stream convolution: shapes of x, weight and bias"
        );
        let taps = depth / inputs;
        assert!(
            if x.in_ring { columns >= x.frames + taps - 1 } else { taps == 1 },
            "stream convolution: columns of the ring"
        );
        let fits = |frames: &StreamFrames| frames.frames == x.frames && frames.values.dims()[2] == outputs;
        assert!(fits(&out) && residual.is_none_or(fits), "stream convolution: shapes of the residual and the output");
        let form = Form {
            frames: x.frames,
            taps,
            x: x.place(),
            residual: residual.map(StreamFrames::place),
            out: out.place(),
            has_elu: self.has_elu,
        };
        // A kernel has the same tensors in every case; without a residual this one is never read.
        let residual = residual.map_or_else(|| x.values.clone(), |residual| residual.values.clone());
        let values = Dispatch::stream_convolution(
            x.values.clone().into_dispatch(),
            self.weight.clone().into_dispatch(),
            self.bias.clone().into_dispatch(),
            residual.into_dispatch(),
            out.values.into_dispatch(),
            steps.packed().into_dispatch(),
            steps_of_out.packed().into_dispatch(),
            [steps, steps_of_out].map(|steps| steps.rows().to_vec()),
            form,
        );
        StreamFrames { values: Tensor::from_dispatch(values), ..out }
    }
}

/// The place of a step's frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    columns: usize,
    in_ring: bool,
}

/// The numbers of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    frames: usize,
    taps: usize,
    x: Place,
    residual: Option<Place>,
    out: Place,
    has_elu: bool,
}

impl Place {
    /// The number of a frame: `frame` frames after the row's first new one, which may lie before the stream's first.
    fn number(self, row: usize, facts: &RowFrames, frames: usize, frame: isize) -> Option<usize> {
        if !self.in_ring {
            return Some(row * self.columns + usize::try_from(frame).ok()?);
        }
        let position = ((facts.written * frames) as isize).checked_add(frame)?;
        Some(facts.slot * self.columns + usize::try_from(position).ok()? % self.columns)
    }
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait StreamConvolutionOps: Backend {
    #[allow(clippy::too_many_arguments, reason = "burn's backend extensions take tensors one by one")]
    fn stream_convolution(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        out: FloatTensor<Self>,
        steps: IntTensor<Self>,
        steps_of_out: IntTensor<Self>,
        rows: [Vec<RowFrames>; 2],
        form: Form,
    ) -> FloatTensor<Self>;
}

impl StreamConvolutionOps for Flex {
    fn stream_convolution(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        out: FloatTensor<Self>,
        _steps: IntTensor<Self>,
        _steps_of_out: IntTensor<Self>,
        [rows, rows_of_out]: [Vec<RowFrames>; 2],
        form: Form,
    ) -> FloatTensor<Self> {
        let [x, weight, bias, residual, out] = [x, weight, bias, residual, out].map(contiguous);
        let (shape, inputs, outputs) = (out.shape(), x.shape()[2], bias.shape()[0]);
        let mut values = floats(&out).to_vec();
        let [x, weight, bias, residual] = [&x, &weight, &bias, &residual].map(floats);
        for (row, (facts, of_out)) in rows.iter().zip(&rows_of_out).enumerate() {
            for frame in 0..form.frames as isize {
                let mut sums = bias.to_vec();
                for (tap, weight) in weight.chunks_exact(inputs * outputs).enumerate() {
                    let seen = frame + tap as isize - (form.taps - 1) as isize;
                    let Some(number) = form.x.number(row, facts, form.frames, seen) else { continue };
                    let mut seen = x[number * inputs..][..inputs].to_vec();
                    if form.has_elu {
                        elu_in_place(&mut seen);
                    }
                    for (value, weight) in seen.iter().zip(weight.chunks_exact(outputs)) {
                        sums.iter_mut().zip(weight).for_each(|(sum, weight)| *sum += value * weight);
                    }
                }
                if let Some(number) = form.residual.and_then(|place| place.number(row, facts, form.frames, frame)) {
                    sums.iter_mut().zip(&residual[number * outputs..]).for_each(|(sum, value)| *sum += value);
                }
                if let Some(number) = form.out.number(row, of_out, form.frames, frame) {
                    values[number * outputs..][..outputs].copy_from_slice(&sums);
                }
            }
        }
        tensor(values, shape)
    }
}

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::tensor::{FloatTensor, IntTensor};
    use burn::backend::{Cube, TensorMetadata};
    use cubecl::prelude::*;

    use super::{Form, RowFrames, StreamConvolutionOps};
    use crate::frame_ring::FACTS;
    use crate::product::Tile;

    impl StreamConvolutionOps for Cube {
        fn stream_convolution(
            x: FloatTensor<Self>,
            weight: FloatTensor<Self>,
            bias: FloatTensor<Self>,
            residual: FloatTensor<Self>,
            out: FloatTensor<Self>,
            steps: IntTensor<Self>,
            steps_of_out: IntTensor<Self>,
            [rows, _]: [Vec<RowFrames>; 2],
            form: Form,
        ) -> FloatTensor<Self> {
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
}
