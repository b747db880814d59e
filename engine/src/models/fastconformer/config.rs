//! Reads and checks `config.json` of the published classes.

mod attention;

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

pub use self::attention::AttentionConfig;
use crate::error::{Error, Result};

/// The published class of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `ParakeetForCTC`
    ParakeetCtc,
    /// `ParakeetForRNNT`
    ParakeetRnnt,
    /// `ParakeetForTDT`
    ParakeetTdt,
    /// `NemotronAsrStreamingForRNNT`
    NemotronStreaming,
    /// `Nemotron3_5AsrForRNNT`
    Nemotron35,
    /// `CohereAsrForConditionalGeneration`
    CohereAsr,
    /// `CanaryForConditionalGeneration`
    Canary,
}

impl Class {
    /// The class of a `model_type`, if the engine supports it.
    pub fn from_model_type(model_type: &str) -> Option<Self> {
        Some(match model_type {
            "parakeet_ctc" => Self::ParakeetCtc,
            "parakeet_rnnt" => Self::ParakeetRnnt,
            "parakeet_tdt" => Self::ParakeetTdt,
            "nemotron_asr_streaming" => Self::NemotronStreaming,
            "nemotron3_5_asr" => Self::Nemotron35,
            "cohere_asr" => Self::CohereAsr,
            "canary" => Self::Canary,
            _ => return None,
        })
    }

    /// The published name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ParakeetCtc => "ParakeetForCTC",
            Self::ParakeetRnnt => "ParakeetForRNNT",
            Self::ParakeetTdt => "ParakeetForTDT",
            Self::NemotronStreaming => "NemotronAsrStreamingForRNNT",
            Self::Nemotron35 => "Nemotron3_5AsrForRNNT",
            Self::CohereAsr => "CohereAsrForConditionalGeneration",
            Self::Canary => "CanaryForConditionalGeneration",
        }
    }

    /// True if a predictor and a joint write the text.
    fn is_transducer(self) -> bool {
        !self.has_attention() && self != Self::ParakeetCtc
    }

    /// True if a decoder with attention to the audio writes the text.
    pub fn has_attention(self) -> bool {
        matches!(self, Self::CohereAsr | Self::Canary)
    }

    /// The class's encoder settings for those that a configuration leaves out.
    fn encoder_defaults(self) -> Value {
        match self {
            Self::CohereAsr => json!({"hidden_size": 1280, "num_hidden_layers": 48, "intermediate_size": 5120,
                "num_mel_bins": 128, "scale_input": false}),
            _ => json!({}),
        }
    }

    /// True if the encoder is cache-aware: causal convolutions and a chunked look-ahead.
    pub fn is_streaming(self) -> bool {
        matches!(self, Self::NemotronStreaming | Self::Nemotron35)
    }
}

/// The encoder's part of a configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct EncoderConfig {
    /// Width of a frame.
    pub hidden_size: usize,
    /// Conformer blocks.
    pub num_hidden_layers: usize,
    /// Attention heads.
    pub num_attention_heads: usize,
    /// Width inside the feed-forward modules.
    pub intermediate_size: usize,
    /// Activation of the feed-forward and convolution modules; `silu` in every published checkpoint.
    pub hidden_act: String,
    /// Biases in attention and feed-forward modules.
    pub attention_bias: bool,
    /// Biases in the convolution modules.
    pub convolution_bias: bool,
    /// Width of the depthwise convolution, frames.
    pub conv_kernel_size: usize,
    /// Mel frames per encoder frame.
    pub subsampling_factor: usize,
    /// Channels of the subsampling convolutions.
    pub subsampling_conv_channels: usize,
    /// Mel bins.
    pub num_mel_bins: usize,
    /// Kernel width of the subsampling convolutions.
    pub subsampling_conv_kernel_size: usize,
    /// Stride of the subsampling convolutions.
    pub subsampling_conv_stride: usize,
    /// Scales subsampled frames by the square root of the width.
    pub scale_input: bool,
    /// Most frames that attention may cover.
    pub max_position_embeddings: usize,
    /// Streaming: frames of left context plus the current one.
    pub sliding_window: usize,
    /// Streaming: default look-ahead in frames.
    pub default_num_lookahead_tokens: usize,
}

impl EncoderConfig {
    /// Number of missing mel frames before an utterance's first chunk of whole encoder frames.
    pub fn lead(&self) -> usize {
        self.subsampling_factor - 1
    }
}

impl Default for EncoderConfig {
    fn default() -> Self {
        Self {
            hidden_size: 1024,
            num_hidden_layers: 24,
            num_attention_heads: 8,
            intermediate_size: 4096,
            hidden_act: "silu".into(),
            attention_bias: true,
            convolution_bias: true,
            conv_kernel_size: 9,
            subsampling_factor: 8,
            subsampling_conv_channels: 256,
            num_mel_bins: 80,
            subsampling_conv_kernel_size: 3,
            subsampling_conv_stride: 2,
            scale_input: true,
            max_position_embeddings: 5000,
            sliding_window: 71,
            default_num_lookahead_tokens: 13,
        }
    }
}

/// A checkpoint's `config.json`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The published class.
    pub class: Class,
    /// The encoder.
    pub encoder: EncoderConfig,
    /// Outputs of the token classifier, including the blank.
    pub vocab_size: usize,
    /// The blank token.
    pub blank: u32,
    /// Width of predictor and joint (transducers).
    pub decoder_hidden_size: usize,
    /// LSTM layers of the predictor (transducers).
    pub num_decoder_layers: usize,
    /// Most tokens that one frame may emit (transducers).
    pub max_symbols_per_step: usize,
    /// Frames that a token may span (TDT), in the order of the duration outputs.
    pub durations: Vec<usize>,
    /// Activation of the joint (transducers); `relu` in every published checkpoint.
    pub joint_activation: String,
    /// Language slots, the width they are fused through, and the slot of automatic detection (Nemotron 3.5).
    pub prompt: Option<PromptConfig>,
    /// The decoder of the classes that have one with attention.
    pub attention: Option<AttentionConfig>,
}

/// The language prompt of Nemotron 3.5.
#[derive(Clone, Copy, Debug)]
pub struct PromptConfig {
    /// Number of one-hot language slots.
    pub slots: usize,
    /// Width of the fusing layer.
    pub intermediate_size: usize,
    /// The slot for automatic language detection.
    pub automatic: usize,
}

#[derive(Deserialize)]
struct File {
    encoder_config: EncoderConfig,
    vocab_size: Option<usize>,
    blank_token_id: Option<u32>,
    pad_token_id: Option<u32>,
    decoder_hidden_size: Option<usize>,
    num_decoder_layers: Option<usize>,
    hidden_act: Option<String>,
    max_symbols_per_step: Option<usize>,
    durations: Option<Vec<usize>>,
    num_prompts: Option<usize>,
    prompt_intermediate_size: Option<usize>,
    default_prompt_id: Option<usize>,
}

impl Config {
    /// Reads `config.json` of a checkpoint folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing, malformed, of an unsupported class, or has settings that no published
    /// checkpoint has.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|e| bad(e.to_string()))?;
        let mut json: Value = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        let model_type = json["model_type"].as_str().ok_or_else(|| bad("it has no model_type".into()))?;
        let class = Class::from_model_type(model_type)
            .ok_or_else(|| bad(format!("model_type {model_type} is not supported")))?;
        let mut encoder = class.encoder_defaults();
        match (json.get("encoder_config"), encoder.as_object_mut()) {
            (Some(Value::Object(stated)), Some(encoder)) => encoder.extend(stated.clone()),
            (None | Some(Value::Null), _) if class == Class::Canary => {
                encoder = json!({"num_hidden_layers": 32, "num_mel_bins": 128, "scale_input": false});
            }
            (None | Some(Value::Null), _) => {}
            _ => return Err(bad("encoder_config is no object".into())),
        }
        json["encoder_config"] = encoder;
        let attention = match class.has_attention() {
            true => Some(AttentionConfig::read(dir, class, &json).map_err(bad)?),
            false => None,
        };
        let file: File = serde_json::from_value(json).map_err(|e| bad(e.to_string()))?;
        let config = Self::from_file(class, file, attention);
        config.check().map_err(bad)?;
        Ok(config)
    }

    /// Fills missing values with the class's defaults.
    fn from_file(class: Class, file: File, attention: Option<AttentionConfig>) -> Self {
        let vocab_size = file.vocab_size.unwrap_or(match class {
            Class::ParakeetCtc | Class::NemotronStreaming => 1025,
            Class::ParakeetRnnt | Class::ParakeetTdt => 8193,
            Class::Nemotron35 => 13088,
            Class::CohereAsr | Class::Canary => 16384,
        });
        let last = vocab_size.saturating_sub(1) as u32;
        Self {
            class,
            encoder: file.encoder_config,
            vocab_size,
            blank: match &attention {
                // As a blank, the end of the text is never shown.
                Some(attention) => attention.end,
                // The CTC class calls its blank "pad".
                None if class == Class::ParakeetCtc => file.pad_token_id.unwrap_or(last),
                None => file.blank_token_id.unwrap_or(last),
            },
            decoder_hidden_size: file.decoder_hidden_size.unwrap_or(640),
            num_decoder_layers: file.num_decoder_layers.unwrap_or(2),
            max_symbols_per_step: file.max_symbols_per_step.unwrap_or(10),
            durations: match class {
                Class::ParakeetTdt => file.durations.unwrap_or_else(|| (0..=4).collect()),
                _ => Vec::new(),
            },
            prompt: (class == Class::Nemotron35).then(|| PromptConfig {
                slots: file.num_prompts.unwrap_or(128),
                intermediate_size: file.prompt_intermediate_size.unwrap_or(2048),
                automatic: file.default_prompt_id.unwrap_or(101),
            }),
            joint_activation: file.hidden_act.unwrap_or_else(|| "relu".into()),
            attention,
        }
    }

    fn check(&self) -> std::result::Result<(), String> {
        let encoder = &self.encoder;
        let rules = [
            (self.vocab_size > 1, "vocab_size must be at least 2".to_string()),
            (
                (self.blank as usize) < self.vocab_size,
                format!("blank token {} is outside the vocabulary of {}", self.blank, self.vocab_size),
            ),
            (encoder.hidden_act == "silu", format!("hidden_act {} is not supported", encoder.hidden_act)),
            (
                encoder.num_attention_heads > 0 && encoder.hidden_size.is_multiple_of(encoder.num_attention_heads),
                "hidden_size must be a multiple of num_attention_heads".into(),
            ),
            (encoder.hidden_size.is_multiple_of(2), "hidden_size must be even".into()),
            (encoder.num_hidden_layers > 0, "num_hidden_layers must be at least 1".into()),
            (encoder.conv_kernel_size % 2 == 1, "conv_kernel_size must be odd".into()),
            (
                encoder.subsampling_conv_kernel_size == 3 && encoder.subsampling_conv_stride == 2,
                "only subsampling convolutions of width 3 and stride 2 are supported".into(),
            ),
            (
                encoder.subsampling_factor.is_power_of_two() && encoder.subsampling_factor >= 2,
                "subsampling_factor must be a power of two".into(),
            ),
            (
                encoder.num_mel_bins >= encoder.subsampling_factor,
                "num_mel_bins must be at least subsampling_factor".into(),
            ),
            (encoder.sliding_window >= 1, "sliding_window must be at least 1".into()),
            (
                !self.class.is_transducer() || (self.decoder_hidden_size > 0 && self.num_decoder_layers > 0),
                "the predictor needs a width and a layer".into(),
            ),
            (
                !self.class.is_transducer() || self.joint_activation == "relu",
                format!("joint activation {} is not supported", self.joint_activation),
            ),
            (self.max_symbols_per_step > 0, "max_symbols_per_step must be at least 1".into()),
            (
                self.class != Class::ParakeetTdt || self.durations.iter().any(|d| *d > 0),
                "durations needs a value above 0".into(),
            ),
            (self.prompt.is_none_or(|p| p.automatic < p.slots), "default_prompt_id is outside num_prompts".into()),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, why)) => Err(why),
            None => Ok(()),
        }
    }
}
