//! Configuration of a checkpoint: `config.json`, with the settings of the features.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::models::decoder::{self, generation_ends};
use crate::models::whisper::EncoderConfig;

/// `model_type` of the family.
pub const MODEL_TYPE: &str = "qwen3_asr";
/// Mel frames of a chunk, which the convolutions see by itself: 1 s.
pub const CHUNK_FRAMES: usize = 100;
/// Samples of the shortest recording: a shorter one is filled up with silence.
pub const LEAST_SAMPLES: usize = 8_000;
/// Encoder frames of a whole chunk.
pub const CHUNK_TOKENS: usize = 13;
/// Largest width or depth that is accepted: a wrong file is refused before memory is asked for.
const LARGEST: usize = 1 << 20;

/// Widths and constants of a checkpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// The encoder's blocks.
    pub encoder: EncoderConfig,
    /// Channels of the convolutions.
    pub channels: usize,
    /// Encoder frames that see each other, in a row from the first on.
    pub window: usize,
    /// The language model.
    pub decoder: decoder::Config,
    /// Token that stands for a frame of audio.
    pub audio_token: u32,
}

#[derive(Deserialize)]
struct ConfigFile {
    audio_config: Option<AudioFile>,
    text_config: Option<Value>,
    #[serde(default = "audio_token")]
    audio_token_id: u32,
    eos_token_id: Option<Value>,
    tie_word_embeddings: Option<bool>,
}

fn audio_token() -> u32 {
    151_676
}

#[derive(Deserialize)]
#[serde(default)]
struct AudioFile {
    num_mel_bins: usize,
    encoder_layers: usize,
    encoder_attention_heads: usize,
    encoder_ffn_dim: usize,
    d_model: usize,
    activation_function: String,
    n_window: usize,
    n_window_infer: usize,
    output_dim: usize,
    downsample_hidden_size: usize,
    max_position_embeddings: usize,
}

/// The defaults of the class.
impl Default for AudioFile {
    fn default() -> Self {
        Self {
            num_mel_bins: 128,
            encoder_layers: 24,
            encoder_attention_heads: 16,
            encoder_ffn_dim: 4096,
            d_model: 1024,
            activation_function: "gelu".into(),
            n_window: CHUNK_FRAMES / 2,
            n_window_infer: 800,
            output_dim: 3584,
            downsample_hidden_size: 480,
            max_position_embeddings: CHUNK_TOKENS,
        }
    }
}

impl Config {
    /// True for a folder whose `config.json` names this family.
    pub fn is_at(dir: &Path) -> bool {
        let text = std::fs::read_to_string(dir.join("config.json")).unwrap_or_default();
        serde_json::from_str::<Value>(&text).is_ok_and(|file| file["model_type"] == MODEL_TYPE)
    }

    /// Reads the files of a folder that configure it.
    ///
    /// # Errors
    /// [`Error::Checkpoint`], which names the file and the setting at fault.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|error| bad(format!("cannot read: {error}")))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if value.get("thinker_config").is_some() {
            let reason = "the folder is in the form of the package qwen-asr; the one of transformers is read, whose name ends in -hf";
            return Err(bad(reason.into()));
        }
        let file: ConfigFile = serde_json::from_value(value).map_err(|error| bad(error.to_string()))?;
        let config = Self::of_file(file, generation_ends(dir)?).map_err(bad)?;
        check_features(dir, config.encoder.mels)?;
        Ok(config)
    }

    fn of_file(file: ConfigFile, mut ends: Vec<u32>) -> std::result::Result<Self, String> {
        let audio = file.audio_config.unwrap_or_default();
        let widths = [
            ("num_mel_bins", audio.num_mel_bins),
            ("encoder_layers", audio.encoder_layers),
            ("encoder_attention_heads", audio.encoder_attention_heads),
            ("encoder_ffn_dim", audio.encoder_ffn_dim),
            ("d_model", audio.d_model),
            ("downsample_hidden_size", audio.downsample_hidden_size),
        ];
        if let Some((name, value)) = widths.iter().find(|(_, value)| !(1..=LARGEST).contains(value)) {
            return Err(format!("audio_config: {name} is {value}; 1 to {LARGEST} are supported"));
        }
        if audio.activation_function != "gelu" {
            return Err(format!("activation_function {:?} is not supported; gelu is", audio.activation_function));
        }
        if 2 * audio.n_window != CHUNK_FRAMES || audio.max_position_embeddings < CHUNK_TOKENS {
            let found = (audio.n_window, audio.max_position_embeddings);
            return Err(format!(
                "n_window and max_position_embeddings are {found:?}; the class has {} and {CHUNK_TOKENS}",
                CHUNK_FRAMES / 2
            ));
        }
        let chunks = audio.n_window_infer / CHUNK_FRAMES;
        if chunks == 0 || !audio.n_window_infer.is_multiple_of(CHUNK_FRAMES) {
            return Err(format!("n_window_infer is {}, no multiple of {CHUNK_FRAMES}", audio.n_window_infer));
        }
        let (size, heads) = (audio.d_model, audio.encoder_attention_heads);
        if !size.is_multiple_of(heads) || !size.is_multiple_of(2) || size < 4 {
            return Err(format!("d_model {size} is no even multiple of {heads} encoder_attention_heads"));
        }
        let mut text = file.text_config.ok_or("text_config is missing")?;
        if let Some(kind) = text.get("model_type").filter(|kind| *kind != "qwen3") {
            return Err(format!("text_config: model_type {kind} is not supported; qwen3 is"));
        }
        if let Some(tied) = file.tie_word_embeddings {
            text["tie_word_embeddings"] = tied.into();
        }
        let of_file: Vec<u32> = match file.eos_token_id {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(all)) => all.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect(),
            Some(one) => one.as_u64().and_then(|id| u32::try_from(id).ok()).into_iter().collect(),
        };
        ends.extend(of_file);
        let decoder = decoder::Config::of_part(text, ends).map_err(|reason| format!("text_config: {reason}"))?;
        if audio.output_dim != decoder.size {
            return Err(format!("output_dim {} is not hidden_size {}", audio.output_dim, decoder.size));
        }
        if file.audio_token_id as usize >= decoder.vocabulary {
            let (token, size) = (file.audio_token_id, decoder.vocabulary);
            return Err(format!("audio_token_id {token} lies outside the vocabulary of {size}"));
        }
        Ok(Self {
            encoder: EncoderConfig {
                size,
                heads,
                layers: audio.encoder_layers,
                inner: audio.encoder_ffn_dim,
                mels: audio.num_mel_bins,
                frames: CHUNK_TOKENS,
            },
            channels: audio.downsample_hidden_size,
            window: chunks * CHUNK_TOKENS,
            decoder,
            audio_token: file.audio_token_id,
        })
    }
}

/// Checks the settings of the features, which are those of all published checkpoints.
fn check_features(dir: &Path, mels: usize) -> Result<()> {
    let read = |name: &str| -> Result<Option<Value>> {
        let path = dir.join(name);
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| bad(error.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(bad(format!("cannot read: {error}"))),
        }
    };
    let (name, settings) = match read("processor_config.json")? {
        Some(file) => ("processor_config.json", Some(file["feature_extractor"].clone())),
        None => ("preprocessor_config.json", read("preprocessor_config.json")?),
    };
    let Some(settings) = settings else { return Ok(()) };
    let wanted = [
        ("feature_size", mels),
        ("n_fft", 400),
        ("hop_length", 160),
        ("sampling_rate", 16_000),
        ("n_window", CHUNK_FRAMES / 2),
        ("min_length", LEAST_SAMPLES),
        ("dither", 0),
    ];
    for (key, wanted) in wanted {
        if let Some(found) = settings.get(key).filter(|found| found.as_f64() != Some(wanted as f64)) {
            let reason = format!("{key} is {found}, not {wanted}");
            return Err(Error::Checkpoint { path: dir.join(name), reason });
        }
    }
    Ok(())
}
