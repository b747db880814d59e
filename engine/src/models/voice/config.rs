//! `config.json` of an embedding.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};

/// Largest width that is accepted: a wrong file is refused before memory is asked for.
const WIDEST: usize = 1 << 14;

/// Taps of the first convolution; it makes one frame of two.
pub(super) const FRONT_TAPS: usize = 5;
/// Least variance, as in training.
pub(super) const VARIANCE_FLOOR: f32 = 1e-5;

/// The `model_type` of the architecture.
pub const MODEL_TYPE: &str = "ecapa_tdnn";

/// Widths of the network.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Config {
    model_type: String,
    /// Bands of the log-mels.
    pub mels: usize,
    /// Channels of the blocks.
    pub channels: usize,
    /// Parts of a Res2 layer's channels.
    pub parts: usize,
    /// Dilation of each block.
    pub dilations: Vec<usize>,
    /// Width of squeeze-excitation and attention.
    pub bottleneck: usize,
    /// Channels that are pooled.
    pub pooled: usize,
    /// Width of the embedding.
    pub embedding: usize,
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
        if config.model_type != MODEL_TYPE {
            return Err(bad(format!("model_type {} is not {MODEL_TYPE}, a speaker embedding", config.model_type)));
        }
        let widths = [config.mels, config.channels, config.parts, config.bottleneck, config.pooled, config.embedding];
        if widths.iter().chain(&config.dilations).any(|width| !(1..=WIDEST).contains(width)) {
            return Err(bad(format!("widths and dilations are from 1 to {WIDEST}")));
        }
        if config.parts < 2 || !config.channels.is_multiple_of(config.parts) || config.dilations.is_empty() {
            return Err(bad("channels must be a multiple of two parts or more, with one dilation at least".into()));
        }
        Ok(config)
    }
}
