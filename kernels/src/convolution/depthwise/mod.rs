//! The middle of a conformer's convolution module in one launch on GPUs: a depthwise convolution over frames, the layer norm over its
//! channels if there is one, and SiLU.
//!
//! A stream keeps its last frames in a ring, as it keeps keys and values ([`crate::cache::ring`]). On the CPU
//! [`cpu`] is the convolution alone.

pub mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, ExtensionType, backend_extension};
use burn::tensor::Tensor;

use crate::cache::ring::{RowFrames, StepFrames};

/// The weights of the module's middle.
#[derive(Clone, Debug)]
pub struct DepthwiseConv {
    /// `[taps, channels]`, the earliest tap first.
    pub weight: Tensor<2>,
    /// `[channels]`
    pub bias: Tensor<1>,
    /// Factor and bias of the layer norm, `[channels]` each; none without one.
    pub norm: Option<[Tensor<1>; 2]>,
}

impl DepthwiseConv {
    /// Convolves `x` `[rows, frames, channels]` to the same shape. Frames that are not real count as 0. With a `ring`
    /// `[slots, 1, taps - 1, channels]` the taps are the frame's own and those before it, else it has as many before as after, and
    /// all frames outside `x` are 0.
    ///
    /// # Panics
    /// When the shapes do not match.
    pub fn forward(&self, x: Tensor<3>, ring: Option<&Tensor<4>>, frames: &StepFrames) -> Tensor<3> {
        let ([rows, _, channels], [taps, _]) = (x.dims(), self.weight.dims());
        assert!(
            self.weight.dims() == [taps, channels] && self.bias.dims() == [channels] && frames.rows().len() == rows,
            "depthwise convolution: shapes of x and the weights"
        );
        if let Some(ring) = ring {
            assert!(
                taps > 1 && ring.dims()[1..] == [1, taps - 1, channels],
                "depthwise convolution: shape of the ring"
            );
        }
        let x = x.into_dispatch();
        let (has_ring, has_norm) = (ring.is_some(), self.norm.is_some());
        // A kernel has the same tensors in every case; those that a case has no use for are never read.
        let ring = ring.map_or_else(|| x.clone(), |ring| ring.clone().into_dispatch());
        let (weight, bias) = (self.weight.clone().into_dispatch(), self.bias.clone().into_dispatch());
        let norm = self.norm.as_ref().map(|norm| norm.clone().map(Tensor::into_dispatch));
        let [gamma, beta] = norm.unwrap_or_else(|| [bias.clone(), bias.clone()]);
        let packed = frames.packed().into_dispatch();
        let inputs = Inputs { x, ring, weight, bias, gamma, beta, packed, has_ring, has_norm };
        Tensor::from_dispatch(Dispatch::depthwise_convolution(inputs, frames.rows().to_vec()))
    }
}

/// The tensors of a call, and which of them are used.
#[derive(ExtensionType)]
pub(crate) struct Inputs<B: Backend> {
    x: FloatTensor<B>,
    ring: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: FloatTensor<B>,
    gamma: FloatTensor<B>,
    beta: FloatTensor<B>,
    packed: IntTensor<B>,
    has_ring: bool,
    has_norm: bool,
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait DepthwiseConvOps: Backend {
    fn depthwise_convolution(#[extension_type] inputs: Inputs<Self>, rows: Vec<RowFrames>) -> FloatTensor<Self>;
}
