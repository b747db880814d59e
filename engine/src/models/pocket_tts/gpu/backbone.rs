//! The backbone: latents and texts to hidden states, and the logit of the end of speech.

use auricle_kernels::attention::paged::PageTables;
use auricle_kernels::cache::ring::StepFrames;
use auricle_kernels::convolution::stream::{StreamConvolution, StreamFrames};
use auricle_kernels::product::gemv::Precision;
use burn::tensor::{Tensor, TensorData};

use super::latents;
use super::transformer::Transformer;
use crate::error::Result;
use crate::layers::{Bias, LayerNorm, Linear};
use crate::models::decoder::CardPages;
use crate::models::pocket_tts::backbone::condition;
use crate::models::pocket_tts::config::Config;
use crate::weights::Weights;

/// The backbone.
#[derive(Debug)]
pub struct Backbone {
    /// With the condition, where the form has one. It does not see the second half of a latent's row.
    latent: StreamConvolution,
    transformer: Transformer,
    norm: LayerNorm,
    end: Linear,
}

impl Backbone {
    /// # Errors
    /// As `Scope::values`.
    pub fn load(weights: &Weights, config: &Config, precision: Precision) -> Result<Self> {
        let (model, size) = (weights.scope("model"), config.backbone.size);
        let latent = model.scope("audio_latent_proj").values("weight", &[size, config.latent])?;
        let bias = condition(&model, config)?;
        Ok(Self {
            latent: StreamConvolution {
                weight: latents::reader(&latent, size, model.device()),
                bias: Tensor::from_data(TensorData::new(bias, [size]), model.device()),
                has_elu: false,
            },
            transformer: Transformer::load(&model, &config.backbone, config.positions, precision)?,
            norm: LayerNorm::load_with(&model.scope("norm"), size, config.backbone.epsilon)?,
            end: Linear::load(&weights.scope("eos_head"), size, 1, Bias::With)?,
        })
    }

    /// The inputs of the latents that a ring has at `steps`: `[rows, size]`.
    pub fn embed(&self, ring: &StreamFrames, steps: &StepFrames) -> Tensor<2> {
        self.latent.forward(ring, None, steps).squeeze_dim(1)
    }

    /// The hidden states of the next inputs of sequences, `[positions, size]`.
    pub fn forward(&self, inputs: Tensor<2>, tables: &PageTables, pages: &mut CardPages) -> Tensor<2> {
        self.transformer.forward(inputs, tables, pages, Some(&self.norm))
    }

    /// The logit of the end of speech for each hidden state: `[rows, 1]`.
    pub fn end_logits(&self, hidden: Tensor<2>) -> Tensor<2> {
        self.end.forward(hidden)
    }
}
