//! A checkpoint of any family: a folder, or a file.

use std::path::Path;
use std::sync::Arc;

use auricle_kernels::product::gemv::Precision;
use burn::tensor::Device;

use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::load_once::Loaded;
use crate::models::fastconformer::FastConformer;
use crate::models::qwen3_asr::{self, Qwen3Asr};
use crate::models::whisper::{Form, Whisper};
use crate::transcript::ModelReport;

/// A checkpoint that transcribes.
pub enum Checkpoint {
    /// Parakeet and Nemotron.
    FastConformer(Arc<FastConformer>),
    /// Whisper.
    Whisper(Arc<Whisper>),
    /// Qwen3-ASR.
    Qwen3Asr(Arc<Qwen3Asr>),
}

impl Loaded for Checkpoint {
    fn has_part_in_use(&self) -> bool {
        match self {
            Self::FastConformer(model) => Arc::strong_count(model) > 1,
            Self::Whisper(model) => Arc::strong_count(model) > 1,
            Self::Qwen3Asr(model) => Arc::strong_count(model) > 1,
        }
    }
}

impl Checkpoint {
    /// Loads a checkpoint: a folder of any family, or Whisper in one of its other forms. Without a precision, Whisper has 8 bits on a CPU
    /// and everything else 32.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(path: &Path, device: &Device, precision: Option<Precision>) -> Result<Self> {
        if !path.exists() {
            return Err(Error::Checkpoint { path: path.to_path_buf(), reason: "no such file or folder".into() });
        }
        match Form::find(path)? {
            Some(_) => {
                let default = if is_cpu(device) { Precision::Int8 } else { Precision::F32 };
                Ok(Self::Whisper(Arc::new(Whisper::load_with(path, device, precision.unwrap_or(default))?)))
            }
            None if qwen3_asr::Config::is_at(path) => {
                Ok(Self::Qwen3Asr(Arc::new(Qwen3Asr::load_with(path, device, precision.unwrap_or_default())?)))
            }
            // Its loader reports the fault of any other folder.
            None => Ok(Self::FastConformer(Arc::new(FastConformer::load_with(
                path,
                device,
                precision.unwrap_or_default(),
            )?))),
        }
    }

    /// Class, size and capabilities of the checkpoint.
    pub fn report(&self) -> ModelReport {
        match self {
            Self::FastConformer(model) => {
                let config = model.config();
                let mut look_aheads = model.preprocessor().look_aheads.clone();
                look_aheads.sort_unstable();
                ModelReport {
                    class: config.class.name().into(),
                    parameters: model.parameters(),
                    layers: config.encoder.num_hidden_layers,
                    hidden_size: config.encoder.hidden_size,
                    vocab_size: config.vocab_size,
                    streaming: config.class.is_streaming(),
                    look_aheads_ms: look_aheads.iter().map(|r| ((r + 1) as f64 * model.frame_ms()) as u32).collect(),
                    form: model.form().into(),
                }
            }
            Self::Whisper(model) => {
                let config = model.config();
                ModelReport {
                    class: "WhisperForConditionalGeneration".into(),
                    parameters: model.parameters(),
                    layers: config.encoder_layers,
                    hidden_size: config.size,
                    vocab_size: config.vocab_size,
                    streaming: false,
                    look_aheads_ms: Vec::new(),
                    form: model.form().into(),
                }
            }
            Self::Qwen3Asr(model) => {
                let config = model.config();
                ModelReport {
                    class: "Qwen3ASRForConditionalGeneration".into(),
                    parameters: model.parameters(),
                    layers: config.encoder.layers,
                    hidden_size: config.encoder.size,
                    vocab_size: config.decoder.vocabulary,
                    streaming: false,
                    look_aheads_ms: Vec::new(),
                    form: model.form().into(),
                }
            }
        }
    }

    /// The checkpoint as a FastConformer, which live sessions need.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a checkpoint that transcribes whole windows only.
    pub fn streaming(&self) -> Result<&Arc<FastConformer>> {
        match self {
            Self::FastConformer(model) => Ok(model),
            Self::Whisper(_) | Self::Qwen3Asr(_) => {
                Err(Error::InvalidOption("the checkpoint transcribes whole recordings only, not live".into()))
            }
        }
    }
}
