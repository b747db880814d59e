//! `config.json` of an acoustic model.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};

/// Largest width that is accepted: a wrong file is refused before memory is asked for.
const WIDEST: usize = 1 << 14;
/// Most layers of a stack.
const DEEPEST: usize = 256;

/// Widths of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Width of the hidden states.
    pub hidden: usize,
    /// Symbols of the vocabulary.
    pub symbols: usize,
    /// Bands of the mels.
    pub mels: usize,
    /// Voices with an embedding; 0 for a model of one voice, without embeddings.
    pub voices: usize,
    /// Taps of the feed-forward layers.
    pub feed_forward_taps: usize,
    /// The layers over symbols.
    pub encoder: StackConfig,
    /// The layers over frames.
    pub decoder: StackConfig,
    /// The predictor of durations.
    pub duration: PredictorConfig,
    /// The predictor of pitch.
    pub pitch: PredictorConfig,
    /// The predictor of energy.
    pub energy: PredictorConfig,
    /// Taps of the embedding of pitch.
    pub pitch_taps: usize,
    /// Taps of the embedding of energy.
    pub energy_taps: usize,
    /// Durations are multiplied by this.
    pub duration_scale: f32,
}

/// Conformer layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackConfig {
    /// Their number.
    pub layers: usize,
    /// Heads of the attention.
    pub heads: usize,
    /// Inner width of the feed-forward layers.
    pub inner: usize,
    /// Taps of the convolution.
    pub taps: usize,
}

/// Convolutions that predict one value a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictorConfig {
    /// Their number.
    pub layers: usize,
    /// Their width.
    pub channels: usize,
    /// Their taps.
    pub taps: usize,
}

/// The published form, as far as it tells what is computed.
#[derive(Deserialize)]
struct Published {
    model_type: String,
    hidden_size: usize,
    vocab_size: usize,
    num_mel_bins: usize,
    num_speakers: Option<usize>,
    num_languages: Option<usize>,
    speaker_embed_dim: Option<usize>,
    encoder_layers: usize,
    encoder_num_attention_heads: usize,
    encoder_linear_units: usize,
    encoder_kernel_size: usize,
    encoder_normalize_before: bool,
    encoder_concat_after: bool,
    decoder_layers: usize,
    decoder_num_attention_heads: usize,
    decoder_linear_units: usize,
    decoder_kernel_size: usize,
    decoder_normalize_before: bool,
    decoder_concat_after: bool,
    positionwise_conv_kernel_size: usize,
    use_macaron_style_in_conformer: bool,
    use_cnn_in_conformer: bool,
    convolution_bias: bool,
    speech_decoder_postnet_layers: usize,
    reduction_factor: usize,
    speaking_speed: f32,
    duration_predictor_layers: usize,
    duration_predictor_channels: usize,
    duration_predictor_kernel_size: usize,
    pitch_predictor_layers: usize,
    pitch_predictor_channels: usize,
    pitch_predictor_kernel_size: usize,
    pitch_embed_kernel_size: usize,
    energy_predictor_layers: usize,
    energy_predictor_channels: usize,
    energy_predictor_kernel_size: usize,
    energy_embed_kernel_size: usize,
}

impl Published {
    /// The first setting that this engine does not compute.
    fn unsupported(&self) -> Option<&'static str> {
        let settings = [
            (!self.encoder_normalize_before, "encoder_normalize_before = false"),
            (!self.decoder_normalize_before, "decoder_normalize_before = false"),
            (self.encoder_concat_after, "encoder_concat_after = true"),
            (self.decoder_concat_after, "decoder_concat_after = true"),
            (!self.use_macaron_style_in_conformer, "use_macaron_style_in_conformer = false"),
            (!self.use_cnn_in_conformer, "use_cnn_in_conformer = false"),
            (!self.convolution_bias, "convolution_bias = false"),
            (self.speech_decoder_postnet_layers != 0, "speech_decoder_postnet_layers other than 0"),
            (self.reduction_factor != 1, "reduction_factor other than 1"),
            (self.num_languages.is_some_and(|count| count > 1), "num_languages above 1"),
            (self.speaker_embed_dim.is_some_and(|width| width > 0), "speaker_embed_dim"),
        ];
        settings.into_iter().find_map(|(is_set, name)| is_set.then_some(name))
    }
}

impl Config {
    /// Reads `config.json` of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing, of another architecture, or has settings that are not supported or do not fit each
    /// other.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|e| bad(format!("cannot read: {e}")))?;
        let published: Published = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        if published.model_type != "fastspeech2_conformer" {
            let found = &published.model_type;
            return Err(bad(format!("model_type {found} is not fastspeech2_conformer, an acoustic model")));
        }
        if let Some(setting) = published.unsupported() {
            return Err(bad(format!("{setting} is not supported")));
        }
        let config = Self::of(&published);
        config.check().map_err(bad)?;
        Ok(config)
    }

    fn of(published: &Published) -> Self {
        Self {
            hidden: published.hidden_size,
            symbols: published.vocab_size,
            mels: published.num_mel_bins,
            // The published class has embeddings for two voices or more.
            voices: published.num_speakers.filter(|count| *count > 1).unwrap_or(0),
            feed_forward_taps: published.positionwise_conv_kernel_size,
            encoder: StackConfig {
                layers: published.encoder_layers,
                heads: published.encoder_num_attention_heads,
                inner: published.encoder_linear_units,
                taps: published.encoder_kernel_size,
            },
            decoder: StackConfig {
                layers: published.decoder_layers,
                heads: published.decoder_num_attention_heads,
                inner: published.decoder_linear_units,
                taps: published.decoder_kernel_size,
            },
            duration: PredictorConfig {
                layers: published.duration_predictor_layers,
                channels: published.duration_predictor_channels,
                taps: published.duration_predictor_kernel_size,
            },
            pitch: PredictorConfig {
                layers: published.pitch_predictor_layers,
                channels: published.pitch_predictor_channels,
                taps: published.pitch_predictor_kernel_size,
            },
            energy: PredictorConfig {
                layers: published.energy_predictor_layers,
                channels: published.energy_predictor_channels,
                taps: published.energy_predictor_kernel_size,
            },
            pitch_taps: published.pitch_embed_kernel_size,
            energy_taps: published.energy_embed_kernel_size,
            duration_scale: published.speaking_speed,
        }
    }

    fn check(&self) -> std::result::Result<(), String> {
        let (stacks, predictors) = ([self.encoder, self.decoder], [self.duration, self.pitch, self.energy]);
        let mut widths = vec![self.hidden, self.symbols, self.mels];
        widths.extend(stacks.iter().flat_map(|stack| [stack.heads, stack.inner, stack.taps]));
        widths.extend(predictors.iter().flat_map(|predictor| [predictor.channels, predictor.taps]));
        if widths.iter().any(|width| !(1..=WIDEST).contains(width)) || self.voices > WIDEST {
            return Err(format!("widths are from 1 to {WIDEST}"));
        }
        let depths = stacks.iter().map(|stack| stack.layers).chain(predictors.iter().map(|predictor| predictor.layers));
        if depths.into_iter().any(|layers| !(1..=DEEPEST).contains(&layers)) {
            return Err(format!("a stack has from 1 to {DEEPEST} layers"));
        }
        if stacks.iter().any(|stack| !self.hidden.is_multiple_of(stack.heads)) || !self.hidden.is_multiple_of(2) {
            return Err("hidden_size must be even and a multiple of the heads".into());
        }
        let taps = [self.feed_forward_taps, self.pitch_taps, self.energy_taps].into_iter();
        let taps = taps.chain(stacks.iter().map(|stack| stack.taps)).chain(predictors.iter().map(|of| of.taps));
        if taps.into_iter().any(|taps| taps.is_multiple_of(2) || taps > WIDEST) {
            return Err("kernel sizes must be odd".into());
        }
        if !(self.duration_scale > 0.0 && self.duration_scale.is_finite()) {
            return Err("speaking_speed must be above 0".into());
        }
        Ok(())
    }
}
