//! `config.json` of a diarizer.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};

/// Largest width that is accepted: a wrong file is refused before memory is asked for.
const WIDEST: usize = 1 << 14;
/// Most encoder frames of a part of a step: half an hour would be one step.
const LONGEST: usize = 1 << 14;
/// The `model_type` of the architecture.
pub const MODEL_TYPE: &str = "nemotron3_diarization";

/// A checkpoint's `config.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    model_type: String,
    /// The encoder.
    #[serde(rename = "audio_config")]
    pub encoder: EncoderConfig,
    /// The classifier behind the encoder.
    #[serde(rename = "head_config")]
    pub head: HeadConfig,
    /// The speaker cache, and the queue of live sessions.
    #[serde(rename = "streaming_config")]
    pub cache: CacheConfig,
    #[serde(flatten)]
    offline: OfflineConfig,
}

/// The encoder's part of a configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct EncoderConfig {
    /// Width of a frame.
    pub hidden_size: usize,
    /// Number of blocks.
    pub num_hidden_layers: usize,
    /// Heads of an attention.
    pub num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    /// Width inside a feed-forward module.
    pub intermediate_size: usize,
    hidden_act: String,
    /// Bands of the log-mels.
    pub num_mel_bins: usize,
    /// Mel frames of an encoder frame.
    pub subsampling_factor: usize,
    rope_parameters: RotaryConfig,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
struct RotaryConfig {
    rope_type: String,
    rope_theta: f64,
    partial_rotary_factor: f64,
}

/// The head's part of a configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct HeadConfig {
    /// Width behind the encoder.
    pub hidden_size: usize,
    /// Speakers whose activity is predicted.
    pub num_speakers: usize,
    audio_hidden_size: usize,
    subsampling_factor: usize,
}

/// The cache's part of a configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct CacheConfig {
    fifo_length: usize,
    speaker_cache_update_period: usize,
    /// Most frames of the cache.
    pub speaker_cache_length: usize,
    /// Frames of the learned silence for each speaker in a full cache.
    pub speaker_cache_silence_frames_per_speaker: usize,
    /// Least probability of which the logarithm is taken.
    pub prediction_score_threshold: f32,
    /// Added to the scores of the newest frames.
    pub latest_frames_score_boost: f32,
    /// Part of a speaker's share of the cache whose best frames are boosted strongly.
    pub strong_boost_rate: f64,
    /// Part of a speaker's share whose best frames are boosted weakly.
    pub weak_boost_rate: f64,
    /// Part of a speaker's share: with so many clear frames, frames of overlap are left out.
    pub min_positive_scores_rate: f64,
    num_speakers: usize,
    subsampling_factor: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
struct OfflineConfig {
    chunk_length: usize,
    chunk_right_context: usize,
    chunk_left_context: usize,
    fifo_length: usize,
    speaker_cache_update_period: usize,
}

/// The parts of a step, in encoder frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunking {
    /// Frames that a step scores.
    pub chunk: usize,
    /// Frames after the chunk that a step hears.
    pub look_ahead: usize,
    /// Frames before the chunk that a step hears again.
    pub look_back: usize,
    /// Most frames of the queue.
    pub queue: usize,
    /// Frames that move from a full queue to the speaker cache.
    pub moved: usize,
}

impl Default for EncoderConfig {
    fn default() -> Self {
        Self {
            hidden_size: 512,
            num_hidden_layers: 31,
            num_attention_heads: 8,
            num_key_value_heads: None,
            intermediate_size: 2048,
            hidden_act: "gelu".into(),
            num_mel_bins: 128,
            subsampling_factor: 8,
            rope_parameters: RotaryConfig::default(),
        }
    }
}

impl Default for RotaryConfig {
    fn default() -> Self {
        Self { rope_type: "default".into(), rope_theta: 10_000.0, partial_rotary_factor: 1.0 }
    }
}

impl Default for HeadConfig {
    fn default() -> Self {
        Self { hidden_size: 192, num_speakers: 8, audio_hidden_size: 512, subsampling_factor: 8 }
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            fifo_length: 264,
            speaker_cache_update_period: 222,
            speaker_cache_length: 264,
            speaker_cache_silence_frames_per_speaker: 1,
            prediction_score_threshold: 0.25,
            latest_frames_score_boost: 0.05,
            strong_boost_rate: 0.75,
            weak_boost_rate: 1.5,
            min_positive_scores_rate: 0.5,
            num_speakers: 8,
            subsampling_factor: 8,
        }
    }
}

impl Default for OfflineConfig {
    fn default() -> Self {
        Self {
            chunk_length: 340,
            chunk_right_context: 40,
            chunk_left_context: 0,
            fifo_length: 40,
            speaker_cache_update_period: 300,
        }
    }
}

impl Config {
    /// Reads `config.json` of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing, of another architecture, or has widths that do not fit each other.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|e| bad(format!("cannot read: {e}")))?;
        let config: Self = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        config.check().map_err(bad)?;
        Ok(config)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let Self { model_type, encoder, head, cache, offline } = self;
        if model_type != MODEL_TYPE {
            return Err(format!("model_type {model_type} is not {MODEL_TYPE}, a diarizer"));
        }
        let widths = [
            encoder.hidden_size,
            encoder.num_hidden_layers,
            encoder.num_attention_heads,
            encoder.intermediate_size,
            encoder.num_mel_bins,
            encoder.subsampling_factor,
            head.hidden_size,
            head.num_speakers,
        ];
        if widths.iter().any(|width| !(1..=WIDEST).contains(width)) {
            return Err(format!("widths are from 1 to {WIDEST}"));
        }
        let lengths =
            [cache.fifo_length, cache.speaker_cache_update_period, cache.speaker_cache_length, offline.chunk_length]
                .into_iter()
                .chain([offline.fifo_length, offline.speaker_cache_update_period]);
        if lengths.clone().any(|length| !(1..=LONGEST).contains(&length)) || offline.chunk_left_context > LONGEST {
            return Err(format!("lengths of chunk, queue and cache are from 1 to {LONGEST} frames"));
        }
        let (heads, size) = (encoder.num_attention_heads, encoder.hidden_size);
        if !size.is_multiple_of(heads) || !(size / heads).is_multiple_of(2) {
            return Err(format!("{heads} heads do not divide a width of {size} into even parts"));
        }
        if encoder.num_key_value_heads.is_some_and(|count| count != heads) {
            return Err("fewer heads of keys than of queries are not supported".into());
        }
        if encoder.hidden_act != "gelu" {
            return Err(format!("activation {} is not supported; gelu is", encoder.hidden_act));
        }
        let RotaryConfig { rope_type, rope_theta, partial_rotary_factor } = &encoder.rope_parameters;
        if rope_type != "default" || *rope_theta <= 0.0 || !(0.0..=1.0).contains(partial_rotary_factor) {
            return Err(format!("rotary positions of the type {rope_type} are not supported; default ones are"));
        }
        if offline.chunk_right_context >= offline.chunk_length {
            return Err("chunk_right_context must be smaller than chunk_length".into());
        }
        if head.audio_hidden_size != size {
            return Err(format!("head_config.audio_hidden_size must be audio_config.hidden_size, {size}"));
        }
        let factor = encoder.subsampling_factor;
        if [head.subsampling_factor, cache.subsampling_factor] != [factor; 2] {
            return Err(format!("subsampling_factor of all parts must be that of audio_config, {factor}"));
        }
        if cache.num_speakers != head.num_speakers {
            return Err(format!("streaming_config.num_speakers must be that of head_config, {}", head.num_speakers));
        }
        let least = (1 + cache.speaker_cache_silence_frames_per_speaker.min(LONGEST)) * head.num_speakers;
        if cache.speaker_cache_length < least {
            return Err(format!(
                "speaker_cache_length must be {least} or more, a frame and the silence of each speaker"
            ));
        }
        let rates = [cache.strong_boost_rate, cache.weak_boost_rate, cache.min_positive_scores_rate];
        if rates.iter().any(|rate| !(0.0..=1000.0).contains(rate)) {
            return Err("the cache's rates are from 0 to 1000".into());
        }
        if !(1e-6..1.0).contains(&cache.prediction_score_threshold) {
            return Err("prediction_score_threshold is above 0 and below 1".into());
        }
        Ok(())
    }

    /// Angles of a frame's rotation, for position 1: half as many as numbers of a head are rotated.
    pub(super) fn angles(&self) -> Vec<f64> {
        let RotaryConfig { rope_theta, partial_rotary_factor, .. } = &self.encoder.rope_parameters;
        let head = self.encoder.hidden_size / self.encoder.num_attention_heads;
        let rotated = (head as f64 * partial_rotary_factor) as usize;
        (0..rotated.div_ceil(2)).map(|at| rope_theta.powf(-(2.0 * at as f64) / rotated as f64)).collect()
    }

    /// The steps over a recording.
    #[must_use]
    pub fn offline(&self) -> Chunking {
        let OfflineConfig { chunk_length, chunk_right_context, chunk_left_context, .. } = self.offline;
        Chunking {
            chunk: chunk_length,
            look_ahead: chunk_right_context,
            look_back: chunk_left_context,
            queue: self.offline.fifo_length,
            moved: self.offline.speaker_cache_update_period,
        }
    }

    /// The steps over a live stream. Published are 9 frames and a look-ahead of 4, 6 and 2, 3 and 1.
    #[must_use]
    pub fn live(&self, chunk: usize, look_ahead: usize) -> Chunking {
        let CacheConfig { fifo_length, speaker_cache_update_period, .. } = self.cache;
        Chunking { chunk, look_ahead, look_back: 0, queue: fifo_length, moved: speaker_cache_update_period }
    }
}
