//! A checkpoint's log-mel front end, as its processor configuration describes it.

use std::path::Path;

use auricle_kernels::spectral::logmel::{LogMel, LogMelConfig, LogMelError, LogMelStream, TablePrecision};
use burn::tensor::{Device, Tensor, TensorData};
use serde::Deserialize;

use super::config::Config;
use crate::error::{Error, Result};

/// Front end and stream settings from `processor_config.json` (or `preprocessor_config.json` in older folders).
pub struct Preprocessor {
    plan: LogMel,
    /// Look-aheads that a streaming checkpoint was trained with, in encoder frames; empty if the file names none.
    pub look_aheads: Vec<usize>,
    /// The checkpoint's default look-ahead.
    pub default_look_ahead: Option<usize>,
    /// Slots of the language prompt by language name.
    pub languages: std::collections::BTreeMap<String, usize>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ProcessorFile {
    feature_extractor: Option<ExtractorFile>,
    supported_num_lookahead_tokens: Vec<usize>,
    default_num_lookahead_tokens: Option<usize>,
    prompt_dictionary: std::collections::BTreeMap<String, usize>,
}

#[derive(Deserialize)]
#[serde(default)]
struct ExtractorFile {
    feature_size: Option<usize>,
    sampling_rate: usize,
    hop_length: usize,
    n_fft: usize,
    win_length: usize,
    preemphasis: Option<f32>,
    mel_filters_dtype: String,
}

impl Default for ExtractorFile {
    fn default() -> Self {
        Self {
            feature_size: None,
            sampling_rate: 16_000,
            hop_length: 160,
            n_fft: 512,
            win_length: 400,
            preemphasis: Some(0.97),
            mel_filters_dtype: "float32".into(),
        }
    }
}

impl ProcessorFile {
    fn read(dir: &Path) -> Result<Self> {
        let processor: Option<Self> = read_json(&dir.join("processor_config.json"))?;
        let mut processor = processor.unwrap_or_default();
        if processor.feature_extractor.is_none() {
            processor.feature_extractor = read_json(&dir.join("preprocessor_config.json"))?;
        }
        Ok(processor)
    }

    /// `base` with what the file says of the front end.
    fn front_end(&self, base: LogMelConfig) -> std::result::Result<LogMelConfig, String> {
        let default = ExtractorFile::default();
        let extractor = self.feature_extractor.as_ref().unwrap_or(&default);
        if extractor.feature_size.is_some_and(|size| size != base.mels) {
            return Err(format!("feature_size differs from the encoder's {} mel bins", base.mels));
        }
        if extractor.sampling_rate != crate::audio::SAMPLE_RATE as usize {
            return Err(format!("sampling_rate {} is not 16000", extractor.sampling_rate));
        }
        Ok(LogMelConfig {
            sample_rate: extractor.sampling_rate,
            n_fft: extractor.n_fft,
            win_length: extractor.win_length,
            hop: extractor.hop_length,
            preemphasis: extractor.preemphasis,
            tables: match extractor.mel_filters_dtype.as_str() {
                "float32" => TablePrecision::F32,
                "bfloat16" => TablePrecision::Bf16,
                other => return Err(format!("mel_filters_dtype {other} is not supported")),
            },
            ..base
        })
    }
}

/// The front end of a folder: `base` with what its processor configuration says.
///
/// # Errors
/// [`Error::Checkpoint`] when that is malformed, or does not fit `base`.
pub fn front_end(dir: &Path, base: LogMelConfig) -> Result<LogMelConfig> {
    let bad = |reason: String| Error::Checkpoint { path: dir.join("processor_config.json"), reason };
    ProcessorFile::read(dir)?.front_end(base).map_err(bad)
}

impl Preprocessor {
    /// Reads the configuration of a FastConformer checkpoint and puts its tables on `device`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is malformed, or does not fit the model.
    pub fn read(dir: &Path, config: &Config, device: &Device) -> Result<Self> {
        let processor = ProcessorFile::read(dir)?;
        let bad = |reason: String| Error::Checkpoint { path: dir.join("processor_config.json"), reason };
        let mels = config.encoder.num_mel_bins;
        if let Some(prompt) = config.prompt
            && let Some((language, slot)) = processor.prompt_dictionary.iter().find(|(_, slot)| **slot >= prompt.slots)
        {
            return Err(bad(format!("prompt slot {slot} of {language} is outside the model's {}", prompt.slots)));
        }
        let base =
            if config.class.is_streaming() { LogMelConfig::nemotron(mels) } else { LogMelConfig::parakeet(mels) };
        let plan = processor.front_end(base).map_err(bad)?;
        Ok(Self {
            plan: LogMel::new(plan, device).map_err(|e| bad(e.to_string()))?,
            look_aheads: processor.supported_num_lookahead_tokens,
            default_look_ahead: processor.default_num_lookahead_tokens,
            languages: processor.prompt_dictionary,
        })
    }

    /// Milliseconds from one mel frame to the next.
    pub fn hop_ms(&self) -> f64 {
        let config = self.plan.config();
        config.hop as f64 * 1000.0 / config.sample_rate as f64
    }

    /// Computes features of whole utterances: `[batch, frames, mels]` and the valid frames of each.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when there is no utterance.
    pub fn utterances(&self, utterances: &[&[f32]], device: &Device) -> Result<(Tensor<3>, Vec<usize>)> {
        let lengths: Vec<usize> = utterances.iter().map(|u| u.len()).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut samples = vec![0f32; longest * lengths.len()];
        for (row, utterance) in samples.chunks_mut(longest.max(1)).zip(utterances) {
            row[..utterance.len()].copy_from_slice(utterance);
        }
        let audio = Tensor::from_data(TensorData::new(samples, [lengths.len(), longest]), device);
        let features = self.plan.forward(audio, &lengths).map_err(invalid)?;
        Ok((features.mels, features.frames))
    }

    /// The front end for streamed audio.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a front end that normalises over the whole utterance.
    pub fn stream(&self) -> Result<LogMelStream> {
        LogMelStream::new(&self.plan).map_err(invalid)
    }
}

fn invalid(error: LogMelError) -> Error {
    Error::InvalidOption(error.to_string())
}

/// Reads a JSON file; none if it does not exist.
fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Option<T>> {
    let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|e| bad(e.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(bad(error.to_string())),
    }
}
