//! Factors and biases of normalisations that come from a style: those of many layers are one product.

use burn::tensor::{Device, Tensor, TensorData};

use crate::error::Result;
use crate::layers::{Linear, transpose};
use crate::weights::Scope;

/// The layers that are read so far.
#[derive(Debug)]
pub struct StyleLayers {
    /// `[values, style]`
    weight: Vec<f32>,
    bias: Vec<f32>,
    style: usize,
}

/// The layers as one.
#[derive(Debug)]
pub struct StyleProduct(Linear);

impl StyleLayers {
    pub fn new(style: usize) -> Self {
        Self { weight: Vec::new(), bias: Vec::new(), style }
    }

    /// Reads the layer `fc` of a normalisation of so many channels: the place of its factors among the product's values. Its biases follow
    /// them.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(&mut self, scope: &Scope, channels: usize) -> Result<usize> {
        let (fc, norm) = (scope.scope("fc"), scope.scope("norm"));
        let mut weight = fc.values("weight", &[2 * channels, self.style])?;
        let mut bias = fc.values("bias", &[2 * channels])?;
        // A factor is 1 and what the layer gives.
        bias[..channels].iter_mut().for_each(|factor| *factor += 1.0);
        // The published class has factors and biases beside the style's; most checkpoints leave them at 1 and 0.
        if norm.has("weight") || norm.has("bias") {
            let [factors, biases] = [norm.values("weight", &[channels])?, norm.values("bias", &[channels])?];
            for (channel, (factor, own)) in factors.into_iter().zip(biases).enumerate() {
                let mix = |values: &mut [f32], width: usize| {
                    for at in 0..width {
                        let scale = values[channel * width + at];
                        values[(channels + channel) * width + at] += scale * own;
                        values[channel * width + at] = scale * factor;
                    }
                };
                mix(&mut weight, self.style);
                mix(&mut bias, 1);
            }
        }
        let first = self.bias.len();
        self.weight.extend(weight);
        self.bias.extend(bias);
        Ok(first)
    }

    /// All that were read.
    pub fn finish(self, device: &Device) -> StyleProduct {
        let values = self.bias.len();
        let weight = transpose(&self.weight, values, self.style);
        StyleProduct(Linear::from_values(weight, self.style, values, Some(self.bias), device))
    }
}

impl StyleProduct {
    /// The factors and biases of all layers for a style.
    pub fn forward(&self, style: Tensor<2>) -> Tensor<1> {
        self.0.forward(style).flatten(0, 1)
    }
}

/// A style, `[1, values]`.
pub fn row(style: &[f32], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(style.to_vec(), [1, style.len()]), device)
}
