//! Causal convolutions over the frames of streams on GPUs, each one launch for all streams of a step: the taps of a frame are read where
//! they lie, in the step or in a ring of the frames before it, and the result is written to the step or to the next ring.
//!
//! A stream has a slot of a ring `[slots, columns, width]` ([`crate::cache::ring`]), frame `n` in column `n` modulo the columns. A ring that has
//! room for a step beside the frames that the step sees is the same after a step that ran twice. A transposed convolution whose taps are
//! twice its stride is a convolution over two frames, whose outputs are as many frames. On the CPU models use
//! [`dense::cpu`](super::dense::cpu).

#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, ExtensionType, backend_extension};
use burn::tensor::Tensor;

use crate::cache::ring::{RowFrames, StepFrames};

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
        let step = Step {
            x: x.values.clone().into_dispatch(),
            weight: self.weight.clone().into_dispatch(),
            bias: self.bias.clone().into_dispatch(),
            residual: residual.into_dispatch(),
            out: out.values.into_dispatch(),
            steps: steps.packed().into_dispatch(),
            steps_of_out: steps_of_out.packed().into_dispatch(),
            rows: steps.rows().to_vec(),
            rows_of_out: steps_of_out.rows().to_vec(),
        };
        let values = Dispatch::stream_convolution(step, form);
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

/// The tensors of a step, and the rows of `steps` and `steps_of_out`.
#[derive(ExtensionType)]
pub(crate) struct Step<B: Backend> {
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: FloatTensor<B>,
    residual: FloatTensor<B>,
    out: FloatTensor<B>,
    steps: IntTensor<B>,
    steps_of_out: IntTensor<B>,
    rows: Vec<RowFrames>,
    rows_of_out: Vec<RowFrames>,
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait StreamConvolutionOps: Backend {
    fn stream_convolution(#[extension_type] step: Step<Self>, form: Form) -> FloatTensor<Self>;
}
