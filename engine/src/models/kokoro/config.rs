//! `config.json` of a folder of this form.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};

/// Largest width that is accepted: a wrong file is refused before memory is asked for.
const WIDEST: usize = 1 << 14;
/// Most layers of a stack, and most samples of a frame of the prosody.
const DEEPEST: usize = 64;
const LONGEST_FRAME: usize = 1 << 12;

/// The network.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Config {
    /// Width of the prosody and of the encoded symbols.
    #[serde(rename = "hidden_dim")]
    pub hidden: usize,
    /// Half the width of a voice's row: the first half is for the decoder, the second for the prosody.
    #[serde(rename = "style_dim")]
    pub style: usize,
    /// Layers of the two encoders of symbols.
    #[serde(rename = "n_layer")]
    pub layers: usize,
    /// Symbols, the silence at the ends among them.
    #[serde(rename = "n_token")]
    pub symbols: usize,
    /// Longest duration of a symbol, frames.
    #[serde(rename = "max_dur")]
    pub longest: usize,
    /// Taps of the convolutions over symbols.
    #[serde(rename = "text_encoder_kernel_size")]
    pub text_taps: usize,
    /// The encoder of symbols that durations are predicted from.
    #[serde(rename = "plbert")]
    pub albert: AlbertConfig,
    /// The generator.
    #[serde(rename = "istftnet")]
    pub generator: GeneratorConfig,
    /// The number of each symbol.
    pub vocab: BTreeMap<String, usize>,
}

/// ALBERT. What a file leaves out is as the published class has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct AlbertConfig {
    #[serde(rename = "hidden_size")]
    pub size: usize,
    #[serde(rename = "num_attention_heads")]
    pub heads: usize,
    #[serde(rename = "intermediate_size")]
    pub inner: usize,
    #[serde(rename = "max_position_embeddings")]
    pub positions: usize,
    /// All have the same weights.
    #[serde(rename = "num_hidden_layers")]
    pub layers: usize,
    #[serde(rename = "embedding_size", default = "embedding")]
    pub embedding: usize,
}

fn embedding() -> usize {
    128
}

/// The generator of samples.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct GeneratorConfig {
    #[serde(rename = "upsample_rates")]
    pub rates: Vec<usize>,
    #[serde(rename = "upsample_kernel_sizes")]
    pub taps: Vec<usize>,
    /// Channels before the first upsampling; each halves them.
    #[serde(rename = "upsample_initial_channel")]
    pub channels: usize,
    #[serde(rename = "resblock_kernel_sizes")]
    pub block_taps: Vec<usize>,
    #[serde(rename = "resblock_dilation_sizes")]
    pub block_dilations: Vec<Vec<usize>>,
    #[serde(rename = "gen_istft_n_fft")]
    pub window: usize,
    #[serde(rename = "gen_istft_hop_size")]
    pub hop: usize,
}

impl GeneratorConfig {
    /// Samples of a frame of pitch: half a frame of durations.
    pub fn pitch_frame(&self) -> usize {
        self.rates.iter().product::<usize>() * self.hop
    }
}

impl Config {
    /// True for a folder of this form, which has no `model_type`.
    pub fn is_in(dir: &Path) -> bool {
        let text = std::fs::read_to_string(dir.join("config.json")).unwrap_or_default();
        let config: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        config.get("istftnet").is_some() && config.get("plbert").is_some()
    }

    /// Reads `config.json` of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing, malformed, or has settings that are not supported or do not fit each other.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|e| bad(format!("cannot read: {e}")))?;
        let config: Self = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        config.check().map_err(bad)?;
        Ok(config)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let Self { hidden, style, symbols, longest, albert, generator, .. } = self;
        let sizes = [
            ("hidden_dim", *hidden),
            ("style_dim", *style),
            ("n_token", *symbols),
            ("max_dur", *longest),
            ("hidden_size", albert.size),
            ("num_attention_heads", albert.heads),
            ("intermediate_size", albert.inner),
            ("max_position_embeddings", albert.positions),
            ("embedding_size", albert.embedding),
            ("upsample_initial_channel", generator.channels),
            ("gen_istft_n_fft", generator.window),
        ];
        if let Some((name, size)) = sizes.into_iter().find(|(_, size)| !(1..=WIDEST).contains(size)) {
            return Err(format!("{name} is {size}; it must be 1 to {WIDEST}"));
        }
        if albert.positions < 3 {
            return Err("max_position_embeddings has no room for a symbol between two silences".into());
        }
        if !(1..=DEEPEST).contains(&self.layers) || !(1..=DEEPEST).contains(&albert.layers) {
            return Err(format!("n_layer and num_hidden_layers must be 1 to {DEEPEST}"));
        }
        if !albert.size.is_multiple_of(albert.heads) || !hidden.is_multiple_of(2) {
            return Err("hidden_size must be a multiple of num_attention_heads, and hidden_dim even".into());
        }
        if self.text_taps.is_multiple_of(2) || generator.block_taps.iter().any(|taps| taps.is_multiple_of(2)) {
            return Err("text_encoder_kernel_size and resblock_kernel_sizes must be odd".into());
        }
        if let Some((symbol, number)) = self.vocab.iter().find(|(_, number)| *number >= symbols) {
            return Err(format!("symbol {symbol:?} has the number {number} of {symbols}"));
        }
        generator.check()
    }
}

impl GeneratorConfig {
    fn check(&self) -> std::result::Result<(), String> {
        let Self { rates, taps, channels, block_taps, block_dilations, window, hop } = self;
        let is_of_frames = |(rate, taps): (&usize, &usize)| *rate > 0 && rate.is_multiple_of(2) && *taps == 2 * rate;
        if rates.is_empty() || rates.len() != taps.len() || !rates.iter().zip(taps).all(is_of_frames) {
            return Err(format!("upsample_rates {rates:?} must be even, and half of upsample_kernel_sizes {taps:?}"));
        }
        let samples = rates.iter().try_fold(*hop, |samples, rate| samples.checked_mul(*rate));
        if samples.is_none_or(|samples| !(1..=LONGEST_FRAME).contains(&samples)) {
            return Err(format!("upsample_rates times gen_istft_hop_size must be 1 to {LONGEST_FRAME}"));
        }
        if !channels.is_multiple_of(1 << rates.len().min(usize::BITS as usize - 1)) {
            return Err(format!("upsample_initial_channel {channels} cannot be halved {} times", rates.len()));
        }
        if block_taps.is_empty() || block_taps.len() != block_dilations.len() {
            return Err("resblock_kernel_sizes and resblock_dilation_sizes must be as many".into());
        }
        if block_dilations.iter().any(|dilations| dilations.len() != 3 || dilations.contains(&0)) {
            return Err("each of resblock_dilation_sizes must be three numbers above 0".into());
        }
        if !window.is_multiple_of(2) || *window < 2 * hop {
            return Err(format!("gen_istft_n_fft {window} must be even, and twice gen_istft_hop_size {hop} at least"));
        }
        Ok(())
    }
}
