//! `config.json` and `generation_config.json` of a network of this form.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::transformer::{Activation, Shape};
use crate::error::{Error, Result};

/// Largest width that is accepted: a wrong file is refused before memory is asked for.
pub const WIDEST: usize = 1 << 16;
/// Most layers of a stack.
pub const DEEPEST: usize = 256;
/// Most steps of the flow.
const MOST_STEPS: usize = 64;

/// The network, and how it is sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The backbone.
    pub backbone: Shape,
    /// Tokens of the vocabulary, the placeholders of audio among them.
    pub vocabulary: usize,
    /// Values of a latent.
    pub latent: usize,
    /// Values of a frame of a voice.
    pub voice_width: usize,
    /// The token whose embedding comes before a voice.
    pub before_voice: Option<u32>,
    /// Tokens that stand for audio: none of them is text.
    pub placeholders: Vec<u32>,
    /// Latents a second.
    pub frame_rate: f64,
    /// Positions of a sequence at most.
    pub positions: usize,
    /// The flow head.
    pub flow: FlowConfig,
    /// The condition that is added to every latent.
    pub condition: Option<ConditionConfig>,
    /// How latents are drawn.
    pub sampling: Sampling,
}

/// Widths of the flow head.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FlowConfig {
    #[serde(rename = "hidden_size")]
    pub size: usize,
    #[serde(rename = "num_hidden_layers")]
    pub layers: usize,
    latent_dim: usize,
    condition_dim: usize,
    /// Cosines and sines of a time.
    #[serde(rename = "frequency_embedding_size")]
    pub frequencies: usize,
    /// Epsilon of the layer norms.
    #[serde(rename = "layer_norm_eps")]
    pub epsilon: f32,
    /// Epsilon of the norm of a time.
    #[serde(rename = "rms_norm_eps")]
    pub time_epsilon: f32,
    #[serde(rename = "flow_type")]
    pub form: FlowForm,
    hidden_act: String,
    /// The norm of a time divides by the root of the mean square, and not by the deviation.
    #[serde(skip)]
    pub time_by_mean_square: bool,
}

/// The result of a flow head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowForm {
    /// The velocity from one time to another.
    Lsd,
    /// The latent, from noise, at once.
    Drifting,
}

/// The condition of Phonon.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ConditionConfig {
    /// The row of the table of numbers of speakers.
    #[serde(rename = "num_speakers")]
    pub speakers: usize,
    #[serde(rename = "num_speakers_vocab_size")]
    pub speaker_rows: usize,
    #[serde(rename = "num_speakers_embedding_dim")]
    pub speaker_width: usize,
    /// Its sines and cosines are the other part.
    pub duration_delta: f32,
    #[serde(rename = "duration_delta_embedding_dim")]
    pub duration_width: usize,
    #[serde(rename = "duration_delta_scale")]
    pub duration_scale: f32,
    #[serde(rename = "duration_delta_max_period")]
    pub duration_period: f32,
}

/// How latents are drawn, and speech ends.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct Sampling {
    /// Steps of the flow.
    #[serde(rename = "num_flow_steps")]
    pub steps: usize,
    /// Speech ends where the logit of its end is above this.
    pub eos_threshold: f32,
    /// Frames before speech may end.
    #[serde(rename = "min_frames_before_eos")]
    pub earliest_end: usize,
    /// Variance of the noise.
    pub temperature: f32,
    /// There is noise.
    pub do_sample: bool,
}

impl Default for Sampling {
    /// As the published class samples a folder that does not say.
    fn default() -> Self {
        Self { steps: 1, eos_threshold: -4.0, earliest_end: 6, temperature: 0.7, do_sample: true }
    }
}

/// The positions of a transformer, as published.
#[derive(Deserialize)]
pub struct Rope {
    rope_type: String,
    pub rope_theta: f32,
}

impl Rope {
    /// # Errors
    /// For another form than the plain one.
    pub fn check(&self) -> std::result::Result<(), String> {
        match self.rope_type.as_str() {
            "default" => Ok(()),
            other => Err(format!("rope_type {other} is not supported; it must be default")),
        }
    }
}

/// The published form, as far as it tells what is computed.
#[derive(Deserialize)]
struct Published {
    model_type: String,
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    head_dim: usize,
    intermediate_size: usize,
    hidden_act: Activation,
    layer_norm_eps: f32,
    attention_bias: bool,
    max_position_embeddings: usize,
    rope_parameters: Rope,
    latent_dim: usize,
    audio_prompt_dim: Option<usize>,
    audio_prompt_bos_token_id: Option<u32>,
    audio_prompt_token_id: u32,
    audio_latent_token_id: u32,
    audio_bos_token_id: u32,
    frame_rate: f64,
    flow_head_config: FlowConfig,
    #[serde(flatten)]
    condition: Option<ConditionConfig>,
}

/// Reads a file of settings.
///
/// # Errors
/// [`Error::Checkpoint`] when it is missing or malformed.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
    let text = std::fs::read_to_string(path).map_err(|e| bad(format!("cannot read: {e}")))?;
    serde_json::from_str(&text).map_err(|e| bad(e.to_string()))
}

/// Reads a file of settings that a folder need not have.
///
/// # Errors
/// [`Error::Checkpoint`] when it is malformed.
pub fn read_optional_json<T: DeserializeOwned + Default>(path: &Path) -> Result<T> {
    if path.is_file() { read_json(path) } else { Ok(T::default()) }
}

impl Config {
    /// Reads `config.json` and, if present, `generation_config.json` of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing, of another architecture, or has settings that are not supported or do not fit each
    /// other.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        let published: Published = read_json(&path)?;
        let sampling = read_optional_json(&dir.join("generation_config.json"))?;
        Self::of(published, sampling).map_err(|reason| Error::Checkpoint { path, reason })
    }

    fn of(published: Published, sampling: Sampling) -> std::result::Result<Self, String> {
        let is_phonon = match published.model_type.as_str() {
            "pocket_tts" => false,
            "gradium_phonon_tts" => true,
            other => return Err(format!("model_type {other} is neither pocket_tts nor gradium_phonon_tts")),
        };
        published.rope_parameters.check()?;
        if published.num_key_value_heads != published.num_attention_heads || published.attention_bias {
            return Err("fewer heads of keys than of queries, and attention with biases, are not supported".into());
        }
        let condition = if is_phonon {
            Some(published.condition.ok_or("the settings of Phonon's conditions are missing")?)
        } else {
            None
        };
        let audio = [published.audio_prompt_token_id, published.audio_latent_token_id, published.audio_bos_token_id];
        let before_voice = published.audio_prompt_bos_token_id.filter(|_| !is_phonon);
        let temperature = if sampling.do_sample { sampling.temperature } else { 0.0 };
        let config = Self {
            backbone: Shape {
                size: published.hidden_size,
                layers: published.num_hidden_layers,
                heads: published.num_attention_heads,
                head: published.head_dim,
                inner: published.intermediate_size,
                epsilon: published.layer_norm_eps,
                theta: published.rope_parameters.rope_theta,
                activation: published.hidden_act,
                window: None,
                layer_scale: false,
            },
            vocabulary: published.vocab_size,
            latent: published.latent_dim,
            voice_width: published.audio_prompt_dim.filter(|_| is_phonon).unwrap_or(published.latent_dim),
            before_voice,
            placeholders: audio.into_iter().chain(before_voice).collect(),
            frame_rate: published.frame_rate,
            positions: published.max_position_embeddings,
            flow: FlowConfig { time_by_mean_square: is_phonon, ..published.flow_head_config },
            condition,
            sampling: Sampling { temperature, ..sampling },
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> std::result::Result<(), String> {
        self.backbone.check()?;
        let Self { flow, sampling, .. } = self;
        let mut widths =
            vec![self.vocabulary, self.latent, self.voice_width, self.positions, flow.size, flow.frequencies];
        widths.extend(self.condition.iter().flat_map(|of| [of.speaker_rows, of.speaker_width, of.duration_width]));
        if widths.iter().any(|width| !(1..=WIDEST).contains(width)) {
            return Err(format!("widths are from 1 to {WIDEST}"));
        }
        if !(1..=DEEPEST).contains(&flow.layers) || flow.frequencies % 2 != 0 {
            return Err(format!("the flow head has from 1 to {DEEPEST} layers and an even frequency_embedding_size"));
        }
        if flow.latent_dim != self.latent || flow.condition_dim != self.backbone.size {
            return Err("latent_dim and condition_dim of the flow head must be latent_dim and hidden_size".into());
        }
        if flow.hidden_act != "silu" {
            return Err(format!("hidden_act {} of the flow head is not supported; it must be silu", flow.hidden_act));
        }
        if self.placeholders.iter().any(|id| *id as usize >= self.vocabulary) {
            return Err("the tokens of audio lie outside the vocabulary".into());
        }
        if let Some(condition) = &self.condition
            && (condition.speakers >= condition.speaker_rows
                || condition.duration_width < 4
                || condition.duration_width % 2 != 0)
        {
            return Err("num_speakers lies outside its table, or duration_delta_embedding_dim is odd or below 4".into());
        }
        if !(self.frame_rate > 0.0 && self.frame_rate.is_finite()) {
            return Err("frame_rate must be above 0".into());
        }
        if !(1..=MOST_STEPS).contains(&sampling.steps) || !(0.0..=10.0).contains(&sampling.temperature) {
            return Err(format!("generation_config.json: num_flow_steps is 1 to {MOST_STEPS}, temperature 0 to 10"));
        }
        Ok(())
    }
}

impl Shape {
    /// # Errors
    /// For widths that do not fit each other.
    pub fn check(&self) -> std::result::Result<(), String> {
        let width = self.heads.saturating_mul(self.head);
        let widths = [self.size, self.heads, self.head, self.inner, width, self.window.unwrap_or(1)];
        if widths.iter().any(|width| !(1..=WIDEST).contains(width)) {
            return Err(format!("widths are from 1 to {WIDEST}"));
        }
        if !(1..=DEEPEST).contains(&self.layers) {
            return Err(format!("a stack has from 1 to {DEEPEST} layers"));
        }
        if !self.head.is_multiple_of(2) {
            return Err("head_dim must be even".into());
        }
        Ok(())
    }
}
