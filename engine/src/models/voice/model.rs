//! A loaded embedding: windows of log-mels to vectors of unit length.

use std::path::Path;

use auricle_kernels::product::gemv::Precision;
use auricle_kernels::spectral::logmel::{LogMel, LogMelConfig, LogMelStream};
use burn::tensor::{Device, Tensor, TensorData};

use super::config::Config;
use super::fingerprint::fingerprint;
use super::{cpu, gpu};
use crate::device::{is_cpu, read};
use crate::error::{Error, Result};
use crate::load_once::Loaded;
use crate::weights::{Weights, read_only_tensor};

/// A speaker embedding.
#[derive(Clone, Debug)]
pub struct VoiceEmbedder {
    config: Config,
    device: Device,
    mels: LogMel,
    network: Network,
    parameters: usize,
    fingerprint: String,
    cohort: Vec<Vec<f32>>,
}

/// The layers, in the form that the device computes best with.
#[derive(Clone, Debug)]
enum Network {
    Cpu(Box<cpu::Network>),
    Gpu(Box<gpu::Network>),
}

impl Loaded for VoiceEmbedder {}

impl VoiceEmbedder {
    /// Loads `config.json` and `model.safetensors` of a folder, and `cohort.safetensors` where it is. 8 bits are for a CPU that is faster
    /// with them; other devices compute in 32.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device, precision: Precision) -> Result<Self> {
        let config = Config::read(dir)?;
        let weights = Weights::open(dir, device)?;
        let parameters = weights.parameters();
        let bad = |reason: String| Error::Checkpoint { path: dir.join("config.json"), reason };
        let network = match is_cpu(device) {
            true => Network::Cpu(Box::new(cpu::Network::load(&weights, &config, precision)?)),
            false => Network::Gpu(Box::new(gpu::Network::load(&weights, &config)?)),
        };
        let embedder = Self {
            mels: LogMel::new(LogMelConfig::nemotron(config.mels), device).map_err(|e| bad(e.to_string()))?,
            network,
            cohort: read_cohort(&dir.join("cohort.safetensors"), config.embedding)?,
            config,
            device: device.clone(),
            parameters,
            fingerprint: fingerprint(dir)?,
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
        read(features.mels.narrow(1, 0, frames))
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
        match &self.network {
            Network::Cpu(network) => Ok(network.embed(&read(mels)?, frames)),
            Network::Gpu(network) => read(network.embed(mels)),
        }
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
