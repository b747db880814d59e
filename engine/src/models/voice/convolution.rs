//! Convolutions over frames as products: the taps of each frame side by side, times one matrix.

use burn::tensor::{Tensor, activation};

use crate::error::Result;
use crate::layers::Linear;
use crate::weights::Scope;

/// A convolution with zeros at both ends, then ReLU.
#[derive(Clone, Debug)]
pub struct Convolution {
    /// `[taps * inputs]` to `[outputs]`, the earliest tap first.
    product: Linear,
    taps: usize,
    dilation: usize,
}

impl Convolution {
    /// Reads `weight` `[outputs, inputs, taps]` and `bias`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, inputs: usize, outputs: usize, taps: usize, dilation: usize) -> Result<Self> {
        let published = scope.values("weight", &[outputs, inputs, taps])?;
        let mut weight = vec![0.0; published.len()];
        for (at, value) in published.into_iter().enumerate() {
            let (output, input, tap) = (at / (taps * inputs), at / taps % inputs, at % taps);
            weight[(tap * inputs + input) * outputs + output] = value;
        }
        let bias = scope.values("bias", &[outputs])?;
        Ok(Self {
            product: Linear::from_values(weight, taps * inputs, outputs, Some(bias), scope.device()),
            taps,
            dilation,
        })
    }

    /// `[rows, frames, inputs]` to `[rows, frames, outputs]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        if self.taps == 1 {
            return activation::relu(self.product.forward(x));
        }
        let [_, frames, _] = x.dims();
        let padded = with_zeros(x, self.dilation * (self.taps / 2));
        let taps = (0..self.taps).map(|tap| padded.clone().narrow(1, tap * self.dilation, frames));
        activation::relu(self.product.forward(Tensor::cat(taps.collect(), 2)))
    }

    /// As [`Convolution::forward`] with a stride of 2, `[rows, frames / 2, outputs]`, rounded up.
    pub fn forward_halving(&self, x: Tensor<3>) -> Tensor<3> {
        let [rows, frames, inputs] = x.dims();
        let halved = frames.div_ceil(2);
        // Frames in pairs: every tap of every second frame is the first or the second of some pair.
        let margin = self.taps / 2;
        let padded = with_zeros(x, margin);
        let missing = (2 * (halved + margin)).saturating_sub(frames + 2 * margin);
        let device = padded.device();
        let padded = match missing {
            0 => padded,
            more => Tensor::cat(vec![padded, Tensor::zeros([rows, more, inputs], &device)], 1),
        };
        let pairs = padded.reshape([rows, halved + margin, 2 * inputs]);
        let taps =
            (0..self.taps).map(|tap| pairs.clone().narrow(1, tap / 2, halved).narrow(2, tap % 2 * inputs, inputs));
        activation::relu(self.product.forward(Tensor::cat(taps.collect(), 2)))
    }
}

/// Puts `count` frames of zeros before and after.
fn with_zeros(x: Tensor<3>, count: usize) -> Tensor<3> {
    let [rows, _, width] = x.dims();
    let zeros = Tensor::zeros([rows, count, width], &x.device());
    Tensor::cat(vec![zeros.clone(), x, zeros], 1)
}
