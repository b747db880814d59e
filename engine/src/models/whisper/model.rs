//! A loaded checkpoint: features, encoder, decoder and tokenizer.

use std::path::Path;

use auricle_kernels::product::gemv::Precision;
use auricle_kernels::spectral::logmel::{LogMel, LogMelConfig};
use burn::tensor::{Device, Tensor, TensorData};
use serde_json::Value;

use super::config::{Config, SAMPLES_PER_FRAME};
use super::decoder::Decoder;
use super::encoder::Encoder;
use super::forms::{Form, Parts};
use super::token_mask::TokenRules;
use super::vocabulary::Vocabulary;
use crate::audio::SAMPLE_RATE;
use crate::error::{Error, Result};

/// Samples of a window: 30 s.
const WINDOW: usize = 30 * SAMPLE_RATE as usize;

/// A Whisper checkpoint on a device.
pub struct Whisper {
    config: Config,
    front_end: LogMel,
    encoder: Encoder,
    decoder: Decoder,
    rules: TokenRules,
    vocabulary: Vocabulary,
    device: Device,
    parameters: usize,
    form: String,
}

impl Whisper {
    /// Samples of a window: 30 s.
    pub const WINDOW: usize = WINDOW;

    /// Loads a checkpoint: a published folder, a file of whisper.cpp, or a folder of CTranslate2 ([`Form`]).
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(path: &Path, device: &Device) -> Result<Self> {
        Self::load_with(path, device, Precision::F32)
    }

    /// Loads a checkpoint with weights of the given precision: 8 bits are those of the decoder, and on a CPU that is faster
    /// with 8 bits those of the encoder too; 4 bits are those of its feed-forward layers, the rest is as with 8; 16 bits are those of the
    /// encoder on a GPU.
    ///
    /// # Errors
    /// As [`Whisper::load`].
    pub fn load_with(path: &Path, device: &Device, precision: Precision) -> Result<Self> {
        // A folder of another family lacks what the published form has, which its loader names.
        let form = Form::find(path)?.unwrap_or_else(|| Form::Published(path.to_path_buf()));
        let Parts { tokenizer, config, weights } = form.open(device)?;
        check_front_end(form.path(), &config)?;
        let front_end = LogMel::new(LogMelConfig::whisper(config.mels), device)
            .map_err(|error| Error::Checkpoint { path: form.path().to_path_buf(), reason: error.to_string() })?;
        let (parameters, stored) = (weights.parameters(), weights.form());
        let model = weights.scope("model");
        let encoder = Encoder::load(&model.scope("encoder"), &config.encoder(), precision)?;
        let decoder = Decoder::load(&model.scope("decoder"), &config, precision)?;
        // Some folders store the output projection too, which equals the embeddings.
        weights.scope("proj_out").ignore("weight");
        weights.finish()?;
        let vocabulary = Vocabulary::new(tokenizer, &config.special, config.vocab_size);
        let rules = TokenRules::new(&config, device);
        let device = device.clone();
        Ok(Self { config, front_end, encoder, decoder, rules, vocabulary, device, parameters, form: stored })
    }

    /// The checkpoint's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Rules for the tokens that may be decoded.
    pub fn rules(&self) -> &TokenRules {
        &self.rules
    }

    /// The checkpoint's tokens.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The device that computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Number of values in the checkpoint's tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The form and types of the weights, such as `whisper.cpp, F32 and Q5_0`.
    pub fn form(&self) -> &str {
        &self.form
    }

    /// The encoder, for the numeric tests.
    #[doc(hidden)]
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The decoder.
    #[doc(hidden)]
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Log-mel features of windows of at most 30 s at 16 kHz, padded with silence to [`Config::window_frames`] of the longest:
    /// `[windows, 2 frames, mels]`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] without a window, or for one that is longer than 30 s.
    pub fn features(&self, windows: &[&[f32]]) -> Result<Tensor<3>> {
        let longest = windows.iter().map(|window| window.len()).max().unwrap_or(0);
        if longest > WINDOW {
            return Err(Error::InvalidOption("a window is longer than 30 s".into()));
        }
        let length = self.config.window_frames(longest) * SAMPLES_PER_FRAME;
        let mut samples = vec![0f32; windows.len() * length];
        for (row, window) in samples.chunks_mut(length).zip(windows) {
            row[..window.len()].copy_from_slice(window);
        }
        let audio = Tensor::from_data(TensorData::new(samples, [windows.len(), length]), &self.device);
        let features = self.front_end.forward(audio, &vec![length; windows.len()]);
        features.map(|features| features.mels).map_err(|error| Error::InvalidOption(error.to_string()))
    }

    /// Encoder frames of windows: `[windows, frames, size]`, as many as [`Config::window_frames`] of the longest.
    ///
    /// # Errors
    /// As [`Whisper::features`].
    pub fn encode(&self, windows: &[&[f32]]) -> Result<Tensor<3>> {
        Ok(self.encoder.forward(self.features(windows)?))
    }

    /// Probabilities of the language tokens `among`, normalised to a sum of one, for each window of `frames`
    /// `[windows, frames, size]`.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn languages(&self, frames: &Tensor<3>, among: &[u32]) -> Result<Vec<Vec<f32>>> {
        let windows = frames.dims()[0];
        let mut steps = self.decoder.start(frames)?;
        let output = self.decoder.forward(&mut steps, &vec![vec![self.config.special.start]; windows])?;
        let scores = output.scores.read()?;
        let chances = |scores: &[f32]| {
            let most = among.iter().map(|id| scores[*id as usize]).fold(f32::NEG_INFINITY, f32::max);
            let each: Vec<f32> = among.iter().map(|id| (scores[*id as usize] - most).exp()).collect();
            let sum: f32 = each.iter().sum();
            each.iter().map(|chance| chance / sum).collect()
        };
        Ok(scores.chunks_exact(self.config.vocab_size).map(chances).collect())
    }
}

/// Checks the front end, which is the same for all published checkpoints except for the number of mel bins.
fn check_front_end(checkpoint: &Path, config: &Config) -> Result<()> {
    let frames = || format!("the model's windows have {} frames, not 1500", config.frames);
    // A file of whisper.cpp has no settings beside it.
    if checkpoint.is_file() {
        return match config.frames * 320 == WINDOW {
            true => Ok(()),
            false => Err(Error::Checkpoint { path: checkpoint.to_path_buf(), reason: frames() }),
        };
    }
    let path = checkpoint.join("preprocessor_config.json");
    let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(bad(error.to_string())),
    };
    let file: Value = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    let wanted = [
        ("feature_size", config.mels),
        ("n_fft", 400),
        ("hop_length", 160),
        ("sampling_rate", 16_000),
        ("chunk_length", 30),
    ];
    for (name, wanted) in wanted {
        if let Some(found) = file.get(name).filter(|found| found.as_u64() != Some(wanted as u64)) {
            return Err(bad(format!("{name} is {found}, not {wanted}")));
        }
    }
    if config.frames * SAMPLES_PER_FRAME != WINDOW {
        return Err(bad(frames()));
    }
    Ok(())
}
