//! `config.json` of an audio tokenizer, as far as it decodes.

use std::path::Path;

use serde::Deserialize;

use super::config::{DEEPEST, Rope, WIDEST, read_json};
use super::transformer::{Activation, Shape};
use crate::error::{Error, Result};

/// Sample rates, hertz.
const RATES: std::ops::RangeInclusive<u32> = 8_000..=48_000;

/// Widths of the decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct CodecConfig {
    /// The transformer layers, several positions a latent.
    pub transformer: Shape,
    /// Values of a latent.
    pub latent: usize,
    /// Positions of a latent.
    pub stride: usize,
    /// Channels of the last transposed convolution; each one before has twice as many.
    pub filters: usize,
    /// Outputs of a frame of each transposed convolution.
    pub ratios: Vec<usize>,
    /// Taps of the first convolution, of those beside the residuals, and of the last.
    pub taps: [usize; 3],
    /// The inner part of a residual block has so many times fewer channels.
    pub compress: usize,
    /// Of the samples, hertz.
    pub sample_rate: u32,
}

/// The published form, as far as it tells what is computed.
#[derive(Deserialize)]
struct Published {
    model_type: String,
    sampling_rate: u32,
    audio_channels: usize,
    hidden_size: usize,
    num_filters: usize,
    num_residual_layers: usize,
    upsampling_ratios: Vec<usize>,
    kernel_size: usize,
    last_kernel_size: usize,
    residual_kernel_size: usize,
    use_causal_conv: bool,
    pad_mode: String,
    compress: usize,
    trim_right_ratio: f64,
    use_conv_shortcut: bool,
    upsample_groups: usize,
    num_hidden_layers: usize,
    intermediate_size: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    head_dim: usize,
    hidden_act: Activation,
    norm_eps: f32,
    rope_parameters: Rope,
    sliding_window: usize,
    attention_bias: bool,
    latent_stride: usize,
    latent_dim: usize,
}

impl Published {
    /// The first setting that this engine does not compute.
    fn unsupported(&self) -> Option<&'static str> {
        let settings = [
            (self.audio_channels != 1, "audio_channels other than 1"),
            (self.num_residual_layers != 1, "num_residual_layers other than 1"),
            (!self.use_causal_conv, "use_causal_conv = false"),
            (self.pad_mode != "constant", "pad_mode other than constant"),
            (self.trim_right_ratio != 1.0, "trim_right_ratio other than 1"),
            (self.use_conv_shortcut, "use_conv_shortcut = true"),
            (self.upsample_groups != self.hidden_size, "upsample_groups other than hidden_size"),
            (
                self.num_key_value_heads != self.num_attention_heads,
                "num_key_value_heads other than num_attention_heads",
            ),
            (self.attention_bias, "attention_bias = true"),
        ];
        settings.into_iter().find_map(|(is_set, name)| is_set.then_some(name))
    }
}

impl CodecConfig {
    /// Reads `config.json` of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing, of another architecture, or has settings that are not supported or do not fit each
    /// other.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        let published: Published = read_json(&path)?;
        Self::of(published).map_err(|reason| Error::Checkpoint { path, reason })
    }

    fn of(published: Published) -> std::result::Result<Self, String> {
        if published.model_type != "pocket_tts_audio_tokenizer" {
            return Err(format!("model_type {} is not pocket_tts_audio_tokenizer", published.model_type));
        }
        if let Some(setting) = published.unsupported() {
            return Err(format!("{setting} is not supported"));
        }
        published.rope_parameters.check()?;
        let config = Self {
            transformer: Shape {
                size: published.hidden_size,
                layers: published.num_hidden_layers,
                heads: published.num_attention_heads,
                head: published.head_dim,
                inner: published.intermediate_size,
                epsilon: published.norm_eps,
                theta: published.rope_parameters.rope_theta,
                activation: published.hidden_act,
                window: Some(published.sliding_window),
                layer_scale: true,
            },
            latent: published.latent_dim,
            stride: published.latent_stride,
            filters: published.num_filters,
            ratios: published.upsampling_ratios,
            taps: [published.kernel_size, published.residual_kernel_size, published.last_kernel_size],
            compress: published.compress,
            sample_rate: published.sampling_rate,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> std::result::Result<(), String> {
        self.transformer.check()?;
        let counts = [self.latent, self.stride, self.filters, self.compress, self.ratios.len()];
        let counts = counts.into_iter().chain(self.taps).chain(self.ratios.iter().copied());
        // A network of more transposed convolutions has more channels than any width.
        if counts.into_iter().any(|count| !(1..=WIDEST).contains(&count)) || self.ratios.len() > 8 {
            return Err(format!("widths, strides and taps are from 1 to {WIDEST}, and upsampling_ratios at most 8"));
        }
        if self.widest() > WIDEST || self.samples() > WIDEST || self.transformer.layers > DEEPEST {
            return Err(format!("channels, and samples of a latent, are at most {WIDEST}"));
        }
        if !self.filters.is_multiple_of(self.compress) {
            return Err("num_filters must be a multiple of compress".into());
        }
        if !RATES.contains(&self.sample_rate) {
            return Err(format!("sampling_rate is from {} to {}", RATES.start(), RATES.end()));
        }
        Ok(())
    }

    /// Channels before the first transposed convolution.
    pub fn widest(&self) -> usize {
        self.filters << self.ratios.len()
    }

    /// Samples of a latent.
    pub fn samples(&self) -> usize {
        self.ratios.iter().fold(self.stride, |samples, ratio| samples.saturating_mul(*ratio))
    }
}
