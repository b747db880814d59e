//! A loaded checkpoint: the audio model, its prompts, and the aligner beside it.

use std::path::Path;

use auricle_kernels::product::gemv::Precision;
use burn::tensor::{Device, Tensor};

use super::aligner::{self, Aligner};
use super::audio_model::{AudioModel, Head};
use super::config::Config;
use super::encoder::Encoder;
use super::prompt::Prompts;
use crate::error::Result;
use crate::models::decoder::ChatModel;

/// A Qwen3-ASR checkpoint on a device.
pub struct Qwen3Asr {
    audio: AudioModel,
    prompts: Prompts,
    aligner: Option<Aligner>,
}

impl Qwen3Asr {
    /// Loads a published folder, with weights of 32 bits, and the aligner in its folder `aligner`, if there is one.
    ///
    /// # Errors
    /// A file or tensor at fault is named.
    pub fn load(dir: &Path, device: &Device) -> Result<Self> {
        Self::load_with(dir, device, Precision::F32)
    }

    /// As [`Qwen3Asr::load`] with weights of this precision: 8 and 4 bits are those of matrices on a CPU, 16 those of a GPU. A GPU that is
    /// asked for 8 bits has 16 in the language model.
    ///
    /// # Errors
    /// As [`Qwen3Asr::load`].
    pub fn load_with(dir: &Path, device: &Device, precision: Precision) -> Result<Self> {
        let audio = AudioModel::load(dir, device, precision, Head::Tokens)?;
        let prompts = Prompts::new(&audio.config, audio.decoder.tokenizer(), dir)?;
        let beside = dir.join(aligner::FOLDER);
        let aligner = beside.is_dir().then(|| Aligner::load(&beside, device, precision)).transpose()?;
        Ok(Self { audio, prompts, aligner })
    }

    /// The checkpoint's configuration.
    pub fn config(&self) -> &Config {
        &self.audio.config
    }

    /// The language model.
    pub fn decoder(&self) -> &ChatModel {
        &self.audio.decoder
    }

    /// The text around the audio.
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// The aligner, which gives words their times.
    pub fn aligner(&self) -> Option<&Aligner> {
        self.aligner.as_ref()
    }

    /// The device that computes.
    pub fn device(&self) -> &Device {
        self.audio.device()
    }

    /// Number of values in the tensors of the checkpoint and its aligner.
    pub fn parameters(&self) -> usize {
        self.audio.parameters() + self.aligner.as_ref().map_or(0, |aligner| aligner.model().parameters())
    }

    /// The format and types of the weights, such as `safetensors, BF16`.
    pub fn form(&self) -> &str {
        self.audio.form()
    }

    /// The encoder, for the numeric tests.
    #[doc(hidden)]
    pub fn encoder(&self) -> &Encoder {
        self.audio.encoder()
    }

    /// As [`AudioModel::features`].
    ///
    /// # Errors
    /// As [`AudioModel::features`].
    pub fn features(&self, samples: &[f32]) -> Result<Tensor<2>> {
        self.audio.features(samples)
    }

    /// As [`AudioModel::encode`].
    ///
    /// # Errors
    /// As [`AudioModel::encode`].
    pub fn encode(&self, samples: &[f32]) -> Result<Vec<f32>> {
        self.audio.encode(samples)
    }
}
