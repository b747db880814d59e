//! `config.json` of a vocoder.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};

/// Largest width that is accepted: a wrong file is refused before memory is asked for.
const WIDEST: usize = 1 << 14;
/// Sample rates, hertz.
const RATES: std::ops::RangeInclusive<u32> = 8_000..=48_000;

/// Widths of the network, and its frames.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Config {
    model_type: String,
    padding: String,
    /// Width of the blocks.
    pub channels: usize,
    /// Inner width of the blocks.
    pub inner: usize,
    /// Blocks.
    pub layers: usize,
    /// Of the samples, hertz.
    pub sample_rate: u32,
    /// Samples of a frame.
    pub n_fft: usize,
    /// Samples from one frame to the next.
    pub hop_length: usize,
    /// Bands of the log-mels.
    pub n_mels: usize,
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
        if config.model_type != "vocos" {
            return Err(bad(format!("model_type {} is not vocos, a vocoder", config.model_type)));
        }
        if config.padding != "center" {
            return Err(bad(format!("padding {} is not supported; it must be center", config.padding)));
        }
        let widths = [config.channels, config.inner, config.layers, config.n_fft, config.hop_length, config.n_mels];
        if widths.iter().any(|width| !(1..=WIDEST).contains(width)) {
            return Err(bad(format!("widths are from 1 to {WIDEST}")));
        }
        if !config.n_fft.is_multiple_of(2) || config.n_fft < 2 * config.hop_length {
            return Err(bad("n_fft must be even and at least twice hop_length".into()));
        }
        if !RATES.contains(&config.sample_rate) {
            return Err(bad(format!("sample_rate is from {} to {}", RATES.start(), RATES.end())));
        }
        Ok(config)
    }
}
