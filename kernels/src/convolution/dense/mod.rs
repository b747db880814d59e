//! Convolutions over frames on GPUs as products of one launch: the taps of a frame are read where they lie, and no window is stored.
//!
//! A cube computes a tile of the product; its units share the taps' values and the weights in memory of their own. What precedes a
//! convolution, a slope below 0, is applied as values are read, and what follows it, a sum, as they are written. On the CPU
//! [`cpu`] has the frames of each channel one after another.

pub mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;

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
pub fn convolve(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    windows: Windows,
    residual: Option<(Tensor<2>, f32)>,
) -> Tensor<2> {
    let ([_, inputs], [depth, outputs]) = (x.dims(), weight.dims());
    assert!(
        depth > 0 && depth.is_multiple_of(inputs) && bias.dims() == [outputs],
        "convolution: shapes of x, weight and bias"
    );
    let shape = [windows.frames, outputs];
    assert!(
        residual.as_ref().is_none_or(|(residual, _)| residual.dims() == shape),
        "convolution: shape of the residual"
    );
    if windows.frames == 0 {
        return Tensor::zeros(shape, &x.device());
    }
    let (x, weight, bias) = (x.into_dispatch(), weight.into_dispatch(), bias.into_dispatch());
    // A kernel has the same tensors in every case; without a residual this one is never read.
    let factor = residual.as_ref().map(|(_, factor)| *factor);
    let residual = residual.map_or_else(|| x.clone(), |(residual, _)| residual.into_dispatch());
    Tensor::from_dispatch(Dispatch::dense_convolution(x, weight, bias, residual, windows, factor))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait DenseConvolutionOps: Backend {
    /// A residual is added if it has a factor.
    fn dense_convolution(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        windows: Windows,
        factor: Option<f32>,
    ) -> FloatTensor<Self>;
}
