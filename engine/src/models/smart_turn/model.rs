//! A loaded network: the last seconds of a turn to the probability that its speaker has finished.

use std::path::{Path, PathBuf};

use auricle_kernels::activation::gelu;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::spectral::logmel::{LogMel, LogMelConfig};
use burn::tensor::{DType, Device, Tensor, TensorData, activation};

use super::config::Config;
use super::onnx;
use crate::device::read;
use crate::error::{Error, Result};
use crate::layers::{Bias, LayerNorm, Linear};
use crate::load_once::Loaded;
use crate::models::whisper::Encoder;
use crate::weights::Weights;

/// Widths inside the pooling and the head.
const POOL: usize = 256;
const HEAD: [usize; 2] = [256, 64];
/// Added to a window's variance, as the feature extractor does.
const LEAST_VARIANCE: f64 = 1e-7;

/// A Smart Turn network on a device.
#[derive(Debug)]
pub struct SmartTurn {
    config: Config,
    front_end: LogMel,
    encoder: Encoder,
    /// Frames to the scores by which they are weighted.
    pooling: [Linear; 2],
    head: [Linear; 3],
    head_norm: LayerNorm,
    device: Device,
    parameters: usize,
}

impl Loaded for SmartTurn {}

impl SmartTurn {
    /// Loads a network: the published `.onnx` file, a folder with one, or a folder with `config.json` and `model.safetensors`. 8 bits are
    /// for the encoder on a CPU that is faster with them, 16 for it on a GPU.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(path: &Path, device: &Device, precision: Precision) -> Result<Self> {
        let (config, weights) = match onnx_file(path)? {
            Some(file) => onnx::read(&file, device)?,
            None => (Config::read(path)?, Weights::open(path, device)?),
        };
        let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
        let front_end = LogMel::new(LogMelConfig::whisper(config.encoder.mels), device);
        let front_end = front_end.map_err(|error| bad(error.to_string()))?;
        let parameters = weights.parameters();
        let encoder = Encoder::load(&weights.scope("encoder"), &config.encoder, precision)?;
        let (pool, classifier) = (weights.scope("pool_attention"), weights.scope("classifier"));
        let linear = |scope: &_, inputs, outputs| Linear::load(scope, inputs, outputs, Bias::With);
        let size = config.encoder.size;
        let loaded = Self {
            pooling: [linear(&pool.scope("0"), size, POOL)?, linear(&pool.scope("2"), POOL, 1)?],
            head: [
                linear(&classifier.scope("0"), size, HEAD[0])?,
                linear(&classifier.scope("4"), HEAD[0], HEAD[1])?,
                linear(&classifier.scope("6"), HEAD[1], 1)?,
            ],
            head_norm: LayerNorm::load(&classifier.scope("1"), HEAD[0])?,
            config,
            front_end,
            encoder,
            device: device.clone(),
            parameters,
        };
        weights.finish()?;
        Ok(loaded)
    }

    /// The network's sizes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The device that computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Number of values in the network's tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Log-mel features of windows at 16 kHz: `[windows, 2 frames, mels]`. Of a longer window the end is taken; a shorter one has
    /// silence before it. Each is brought to a mean of 0 and a variance of 1 first.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] without a window.
    pub fn features(&self, windows: &[&[f32]]) -> Result<Tensor<3>> {
        let length = self.config.window();
        let mut samples = vec![0f32; windows.len() * length];
        for (row, window) in samples.chunks_mut(length).zip(windows) {
            let heard = &window[window.len().saturating_sub(length)..];
            row[length - heard.len()..].copy_from_slice(heard);
            normalize(row);
        }
        let audio = Tensor::from_data(TensorData::new(samples, [windows.len(), length]), &self.device);
        let features = self.front_end.forward(audio, &vec![length; windows.len()]);
        features.map(|features| features.mels).map_err(|error| Error::InvalidOption(error.to_string()))
    }

    /// Encoder frames: `[windows, 2 frames, mels]` to `[windows, frames, size]`.
    pub fn encode(&self, features: Tensor<3>) -> Tensor<3> {
        self.encoder.forward(features)
    }

    /// The mean of encoder frames by their weights: `[windows, frames, size]` to `[windows, size]`.
    pub fn pool(&self, frames: Tensor<3>) -> Tensor<2> {
        let [score, weigh] = &self.pooling;
        let scores = weigh.forward(score.forward(frames.clone()).tanh());
        (frames * activation::softmax(scores, 1)).sum_dim(1).squeeze_dim(1)
    }

    /// Scores of pooled frames, whose sigmoid is the probability: `[windows, size]` to `[windows, 1]`.
    pub fn score(&self, pooled: Tensor<2>) -> Tensor<2> {
        let [first, second, last] = &self.head;
        last.forward(gelu(second.forward(gelu(self.head_norm.forward(first.forward(pooled))))))
    }

    /// The probability, 0 to 1, of each window that its speaker has finished at its end. Windows as [`SmartTurn::features`] takes them.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] without a window, [`Error::Device`] when the device failed.
    pub fn probabilities(&self, windows: &[&[f32]]) -> Result<Vec<f32>> {
        let scores = self.score(self.pool(self.encode(self.features(windows)?)));
        read(activation::sigmoid(scores.cast(DType::F32)))
    }
}

/// The ONNX file that a path names: itself, or the only one of a folder that has no `model.safetensors`.
///
/// # Errors
/// [`Error::Checkpoint`] for a folder with several.
fn onnx_file(path: &Path) -> Result<Option<PathBuf>> {
    let is_onnx = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "onnx");
    if !path.is_dir() {
        return Ok(Some(path.to_path_buf()));
    }
    if path.join("model.safetensors").is_file() {
        return Ok(None);
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(is_onnx).collect();
    match files.len() {
        0 | 1 => Ok(files.pop()),
        count => Err(Error::Checkpoint {
            path: path.to_path_buf(),
            reason: format!("it has {count} .onnx files: name one of them"),
        }),
    }
}

/// Brings a window to a mean of 0 and a variance of 1.
fn normalize(window: &mut [f32]) {
    let count = window.len().max(1) as f64;
    let mean = window.iter().map(|sample| f64::from(*sample)).sum::<f64>() / count;
    let variance = window.iter().map(|sample| (f64::from(*sample) - mean).powi(2)).sum::<f64>() / count;
    let scale = (variance + LEAST_VARIANCE).sqrt().recip();
    window.iter_mut().for_each(|sample| *sample = ((f64::from(*sample) - mean) * scale) as f32);
}
