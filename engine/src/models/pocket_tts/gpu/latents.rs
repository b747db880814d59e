//! Rows of latents: the latent as the network draws it, then as the audio decoder takes it, `[2 latent]`. Both are one product of the flow
//! head, so that a latent stays on the device from step to step.

use burn::tensor::{Device, Tensor, TensorData};

use crate::error::Result;
use crate::layers::transpose;
use crate::models::pocket_tts::config::Config;
use crate::weights::Weights;

/// The scale of the audio decoder.
#[derive(Debug)]
pub struct LatentScale {
    mean: Vec<f32>,
    deviation: Vec<f32>,
}

impl LatentScale {
    /// # Errors
    /// As `Scope::values`.
    pub fn load(weights: &Weights, config: &Config) -> Result<Self> {
        Ok(Self {
            mean: weights.root().values("latent_mean", &[config.latent])?,
            deviation: weights.root().values("latent_std", &[config.latent])?,
        })
    }

    /// The row of a latent.
    pub fn row(&self, latent: &[f32]) -> Vec<f32> {
        let scales = self.deviation.iter().zip(&self.mean);
        let scaled = latent.iter().zip(scales).map(|(value, (deviation, mean))| value * deviation + mean);
        latent.iter().copied().chain(scaled).collect()
    }

    /// A layer that writes rows: the layer of a latent, `weight` `[latent, inputs]` with its `bias`, as `[inputs, 2 latent]`. It has the mean
    /// if what it is added to has none.
    pub fn writer(&self, weight: &[f32], bias: &[f32], has_mean: bool, device: &Device) -> (Tensor<2>, Tensor<1>) {
        let (latent, inputs) = (bias.len(), weight.len() / bias.len());
        let mut rows = weight.to_vec();
        for (row, deviation) in weight.chunks_exact(inputs).zip(&self.deviation) {
            rows.extend(row.iter().map(|value| value * deviation));
        }
        let mean = |at: usize| if has_mean { self.mean[at] } else { 0.0 };
        let scaled = bias.iter().zip(&self.deviation).enumerate();
        let scaled = scaled.map(|(at, (value, deviation))| value * deviation + mean(at));
        let bias: Vec<f32> = bias.iter().copied().chain(scaled).collect();
        let weight = TensorData::new(transpose(&rows, 2 * latent, inputs), [inputs, 2 * latent]);
        (Tensor::from_data(weight, device), Tensor::from_data(TensorData::new(bias, [2 * latent]), device))
    }
}

/// A layer that reads the first half of rows: the layer of a latent, `[outputs, latent]`, as `[2 latent, outputs]`.
pub fn reader(weight: &[f32], outputs: usize, device: &Device) -> Tensor<2> {
    let latent = weight.len() / outputs;
    let mut rows = transpose(weight, outputs, latent);
    rows.resize(2 * latent * outputs, 0.0);
    Tensor::from_data(TensorData::new(rows, [2 * latent, outputs]), device)
}
