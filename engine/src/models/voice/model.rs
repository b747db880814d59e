//! A loaded embedding: windows of log-mels to vectors of unit length.

use std::path::Path;

use auricle_kernels::logmel::{LogMel, LogMelConfig, LogMelStream};
use burn::tensor::{Device, Tensor, TensorData, activation};

use super::config::Config;
use super::convolution::Convolution;
use super::fingerprint::fingerprint;
use crate::error::{Error, Result};
use crate::layers::{Bias, Linear};
use crate::load_once::Loaded;
use crate::weights::{Scope, Weights, read_only_tensor};

/// Taps of the first convolution; it makes one frame of two.
const FRONT_TAPS: usize = 5;
/// Least variance, as in training.
const VARIANCE_FLOOR: f32 = 1e-5;

/// A speaker embedding.
#[derive(Clone, Debug)]
pub struct VoiceEmbedder {
    config: Config,
    device: Device,
    mels: LogMel,
    front: Convolution,
    blocks: Vec<Block>,
    join: Convolution,
    attend: Linear,
    context: Linear,
    weigh: Linear,
    embed: Linear,
    parameters: usize,
    fingerprint: String,
    cohort: Vec<Vec<f32>>,
}

/// An SE-Res2 block.
#[derive(Clone, Debug)]
struct Block {
    first: Convolution,
    parts: Vec<Convolution>,
    last: Convolution,
    squeeze: Linear,
    excite: Linear,
}

impl Loaded for VoiceEmbedder {}

impl VoiceEmbedder {
    /// Loads `config.json` and `model.safetensors` of a folder, and `cohort.safetensors` where it is.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device) -> Result<Self> {
        let config = Config::read(dir)?;
        let weights = Weights::open(dir, device)?;
        let parameters = weights.parameters();
        let Config { mels, channels, bottleneck, pooled, embedding, .. } = config;
        let bad = |reason: String| Error::Checkpoint { path: dir.join("config.json"), reason };
        let blocks = weights.scope("blocks");
        let load_block = |(at, dilation): (usize, &usize)| Block::load(&blocks.scope(at), &config, *dilation);
        let embedder = Self {
            mels: LogMel::new(LogMelConfig::nemotron(mels), device).map_err(|e| bad(e.to_string()))?,
            front: Convolution::load(&weights.scope("front"), mels, channels, FRONT_TAPS, 1)?,
            blocks: config.dilations.iter().enumerate().map(load_block).collect::<Result<_>>()?,
            join: Convolution::load(&weights.scope("join"), channels * config.dilations.len(), pooled, 1, 1)?,
            attend: Linear::load_pointwise(&weights.scope("attend"), pooled, bottleneck, Bias::With)?,
            context: Linear::load(&weights.scope("context"), 2 * pooled, bottleneck, Bias::Without)?,
            weigh: Linear::load_pointwise(&weights.scope("weigh"), bottleneck, pooled, Bias::With)?,
            embed: Linear::load(&weights.scope("embed"), 2 * pooled, embedding, Bias::With)?,
            config: config.clone(),
            device: device.clone(),
            parameters,
            fingerprint: fingerprint(dir)?,
            cohort: read_cohort(&dir.join("cohort.safetensors"), embedding)?,
        };
        weights.finish()?;
        Ok(embedder)
    }

    /// Number of values in the checkpoint's tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Tells its directions from those of other weights.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Directions of other people, `[people][embedding]`, each of unit length; none where the checkpoint has no cohort.
    pub fn cohort(&self) -> &[Vec<f32>] {
        &self.cohort
    }

    /// Bands of the log-mels.
    pub fn mels(&self) -> usize {
        self.config.mels
    }

    /// The device that holds the weights.
    pub fn device(&self) -> Device {
        self.device.clone()
    }

    /// The front end for streamed audio.
    ///
    /// # Errors
    /// [`Error::Internal`] if the front end cannot be streamed.
    pub fn stream(&self) -> Result<LogMelStream> {
        LogMelStream::new(&self.mels).map_err(|e| Error::internal(e.to_string()))
    }

    /// Width of an embedding.
    pub fn width(&self) -> usize {
        self.config.embedding
    }

    /// Log-mels of audio at 16 kHz: `[frames][mels]`, row-major, a frame every 10 ms.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn log_mels(&self, samples: &[f32], device: &Device) -> Result<Vec<f32>> {
        let audio = Tensor::from_data(TensorData::new(samples.to_vec(), [1, samples.len()]), device);
        let features = self.mels.forward(audio, &[samples.len()]).map_err(|e| Error::InvalidOption(e.to_string()))?;
        let frames = features.frames.first().copied().unwrap_or_default();
        read(features.mels.narrow(1, 0, frames), device)
    }

    /// Embeds windows of one length: `[rows, frames, mels]` to `[rows][embedding]`, row-major, each of unit length.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for mels of another width or no frames, [`Error::Device`] when the device failed.
    pub fn embed(&self, mels: Tensor<3>) -> Result<Vec<f32>> {
        let [rows, frames, bands] = mels.dims();
        if bands != self.config.mels || rows == 0 || frames == 0 {
            let (wanted, given) = (self.config.mels, bands);
            return Err(Error::InvalidOption(format!("windows of {wanted} mels are embedded, not {frames} x {given}")));
        }
        let device = mels.device();
        let mut x = self.front.forward_halving(mels.clone() - mels.mean_dim(1));
        let mut outputs = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            x = block.forward(x);
            outputs.push(x.clone());
        }
        let x = self.join.forward(Tensor::cat(outputs, 2));
        let even = Tensor::ones(x.dims(), &device) / x.dims()[1] as f32;
        let context: Tensor<3> = self.context.forward(statistics(&x, even)).unsqueeze_dim(1);
        let weights = activation::softmax(self.weigh.forward((self.attend.forward(x.clone()) + context).tanh()), 1);
        let out = self.embed.forward(statistics(&x, weights));
        let length = (out.clone() * out.clone()).sum_dim(1).sqrt().clamp_min(1e-12);
        read((out / length).unsqueeze_dim::<3>(0), &device)
    }
}

/// Reads the only tensor, `[people, embedding]`.
fn read_cohort(path: &Path, width: usize) -> Result<Vec<Vec<f32>>> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let (shape, values) = read_only_tensor(path)?;
    if !matches!(shape[..], [people, of] if people > 0 && of == width) {
        let reason = format!("its shape is {shape:?}, and embeddings have {width} values");
        return Err(Error::Checkpoint { path: path.to_path_buf(), reason });
    }
    let unit = |row: &[f32]| {
        let length = row.iter().map(|value| value * value).sum::<f32>().sqrt().max(1e-12);
        row.iter().map(|value| value / length).collect()
    };
    Ok(values.chunks_exact(width).map(unit).collect())
}

impl Block {
    fn load(scope: &Scope, config: &Config, dilation: usize) -> Result<Self> {
        let channels = config.channels;
        let part = channels / config.parts;
        let parts = scope.scope("parts");
        Ok(Self {
            first: Convolution::load(&scope.scope("first"), channels, channels, 1, 1)?,
            parts: (0..config.parts - 1)
                .map(|at| Convolution::load(&parts.scope(at), part, part, 3, dilation))
                .collect::<Result<_>>()?,
            last: Convolution::load(&scope.scope("last"), channels, channels, 1, 1)?,
            squeeze: Linear::load(&scope.scope("squeeze"), channels, config.bottleneck, Bias::With)?,
            excite: Linear::load(&scope.scope("excite"), config.bottleneck, channels, Bias::With)?,
        })
    }

    /// `[rows, frames, channels]` to the same.
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let y = self.first.forward(x.clone());
        let mut parts = y.chunk(self.parts.len() + 1, 2).into_iter();
        let mut done: Vec<Tensor<3>> = parts.next().into_iter().collect();
        for (at, (layer, part)) in self.parts.iter().zip(parts).enumerate() {
            // The first layer hears its own part alone; the others hear the result before theirs as well.
            let heard = if at == 0 { part } else { part + done[at].clone() };
            done.push(layer.forward(heard));
        }
        let y = self.last.forward(Tensor::cat(done, 2));
        let gate = activation::relu(self.squeeze.forward(y.clone().mean_dim(1)));
        x + y * activation::sigmoid(self.excite.forward(gate))
    }
}

/// Mean and deviation over frames, `[rows, 2 channels]`, of `[rows, frames, channels]`; the weights sum to 1 over frames.
fn statistics(x: &Tensor<3>, weights: Tensor<3>) -> Tensor<2> {
    let [rows, _, channels] = x.dims();
    let weighted = x.clone() * weights;
    let mean = weighted.clone().sum_dim(1).reshape([rows, channels]);
    let square = (weighted * x.clone()).sum_dim(1).reshape([rows, channels]);
    let deviation = (square - mean.clone() * mean.clone()).clamp_min(VARIANCE_FLOOR).sqrt();
    Tensor::cat(vec![mean, deviation], 1)
}

fn read(tensor: Tensor<3>, device: &Device) -> Result<Vec<f32>> {
    tensor
        .try_into_vec_as::<f32>()
        .map_err(|e| Error::Device { device: format!("{device:?}"), reason: format!("{e:?}") })
}
