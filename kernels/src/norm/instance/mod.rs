//! Instance normalisation of frames with the activation that follows it, on GPUs in two launches: moments of parts of the frames, then values.
//! On the CPU it is [`cpu::instance_norm`].

pub mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;

/// The activation that follows.
#[derive(Clone, Debug)]
pub enum Activation {
    /// The values, those below 0 times this.
    LeakyRelu(f32),
    /// `x + sin(a x)^2 / a`, with an `a` for each channel, `[channels]`.
    Snake(Box<Tensor<1>>),
}

/// Each channel of `x` `[frames, channels]` with mean 0 and variance 1 over its frames, times its factor, plus its bias; then an
/// activation. The factors of the channels are values of `style` from `first` on, and the biases follow them.
///
/// # Panics
/// When the shapes do not match.
pub fn instance_norm(x: Tensor<2>, style: Tensor<1>, first: usize, activation: &Activation) -> Tensor<2> {
    let channels = x.dims()[1];
    assert!(
        style.dims()[0] >= first + 2 * channels
            && !matches!(activation, Activation::Snake(factors) if factors.dims() != [channels]),
        "instance norm: numbers of a style and an activation"
    );
    let style = style.into_dispatch();
    // A kernel has the same tensors in every case; those that a case has no use for are never read.
    let (factors, slope) = match activation {
        Activation::LeakyRelu(slope) => (style.clone(), Some(*slope)),
        Activation::Snake(factors) => (factors.as_ref().clone().into_dispatch(), None),
    };
    Tensor::from_dispatch(Dispatch::instance_norm(x.into_dispatch(), style, factors, first, slope))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait InstanceNormOps: Backend {
    /// With a slope the activation is a leaky ReLU, else it is the snake of `factors`.
    fn instance_norm(
        x: FloatTensor<Self>,
        style: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        first: usize,
        slope: Option<f32>,
    ) -> FloatTensor<Self>;
}
