//! Reads `config.json` of a checkpoint.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::models::whisper::EncoderConfig;

/// Mel frames of an encoder frame, and samples of a mel frame.
const SAMPLES: usize = 2 * 160;

/// The sizes of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Those of its encoder; its frames are the network's window.
    pub encoder: EncoderConfig,
}

#[derive(Deserialize)]
struct ConfigFile {
    d_model: usize,
    encoder_layers: usize,
    encoder_attention_heads: usize,
    encoder_ffn_dim: usize,
    num_mel_bins: usize,
    max_source_positions: usize,
    activation_function: Option<String>,
    #[serde(default)]
    scale_embedding: bool,
}

impl Config {
    /// Samples of a window at 16 kHz: 8 s in the published networks.
    pub fn window(&self) -> usize {
        self.encoder.frames * SAMPLES
    }

    /// Reads `config.json` of a folder: that of the Whisper encoder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing, malformed or of another family.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|error| bad(error.to_string()))?;
        let file: ConfigFile = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if file.activation_function.as_deref().is_some_and(|name| name != "gelu") || file.scale_embedding {
            return Err(bad("it is not the configuration of a Whisper encoder as it is published".into()));
        }
        let encoder = EncoderConfig {
            size: file.d_model,
            layers: file.encoder_layers,
            heads: file.encoder_attention_heads,
            inner: file.encoder_ffn_dim,
            mels: file.num_mel_bins,
            frames: file.max_source_positions,
        };
        Self::checked(encoder).map_err(bad)
    }

    /// The sizes of a network with this encoder.
    ///
    /// # Errors
    /// The fault, where they cannot be.
    pub(super) fn checked(encoder: EncoderConfig) -> std::result::Result<Self, String> {
        let EncoderConfig { size, heads, inner, mels, frames, .. } = encoder;
        if heads == 0 || !size.is_multiple_of(heads) {
            return Err(format!("{heads} heads do not divide a width of {size}"));
        }
        if [size, inner, mels, frames].contains(&0) || frames > MOST_FRAMES {
            return Err(format!("an encoder of {frames} frames, {mels} mels and a width of {size} cannot be"));
        }
        Ok(Self { encoder })
    }
}

/// Frames of a window of 30 s, the longest of a Whisper encoder.
const MOST_FRAMES: usize = 1500;
