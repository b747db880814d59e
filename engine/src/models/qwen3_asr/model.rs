//! A loaded checkpoint: features, encoder, language model, prompts, and the aligner beside it.

use std::path::Path;

use auricle_kernels::product::gemv::Precision;
use auricle_kernels::spectral::logmel::{LogMel, LogMelConfig};
use burn::tensor::{Device, Tensor, TensorData};

use super::aligner::{self, Aligner};
use super::config::Config;
use super::decoding::Written;
use super::encoder::Encoder;
use super::prompt::Prompts;
use crate::device::read;
use crate::error::{Error, Result};
use crate::models::decoder::{ChatModel, ChatTokenizer};
use crate::models::whisper::{WordTokens, words_of};
use crate::weights::Weights;

/// Samples of the shortest recording: a shorter one is filled up with silence.
pub const LEAST_SAMPLES: usize = 8_000;

/// Names of the language model's tensors, and of a language model by itself.
const DECODER: &str = "model.language_model.";
const BY_ITSELF: &str = "model.";
/// The scores of classes, and those of a language model's tokens.
const CLASSES: &str = "score.";
const TOKENS: &str = "lm_head.";

/// A Qwen3-ASR checkpoint on a device.
pub struct Qwen3Asr {
    audio: AudioModel,
    prompts: Prompts,
    aligner: Option<Aligner>,
}

/// An encoder of audio, and a decoder that reads its frames.
pub struct AudioModel {
    /// The configuration.
    pub config: Config,
    front_end: LogMel,
    encoder: Encoder,
    /// The decoder.
    pub decoder: ChatModel,
    device: Device,
    parameters: usize,
    form: String,
}

/// The scores that a decoder gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// Of the tokens of the vocabulary.
    Tokens,
    /// Of classes.
    Classes,
}

impl Qwen3Asr {
    /// Loads a published folder, with weights of 32 bits, and the aligner in its folder `aligner`, if there is one.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
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

    /// The words of a text.
    pub fn words(&self, written: &Written) -> Vec<WordTokens> {
        words_of(written.tokens.iter().map(|token| self.decoder().tokenizer().bytes(*token)))
    }

    /// The device that computes.
    pub fn device(&self) -> &Device {
        &self.audio.device
    }

    /// Number of values in the tensors of the checkpoint and its aligner.
    pub fn parameters(&self) -> usize {
        self.audio.parameters + self.aligner.as_ref().map_or(0, |aligner| aligner.model().parameters)
    }

    /// The format and types of the weights, such as `safetensors, BF16`.
    pub fn form(&self) -> &str {
        &self.audio.form
    }

    /// The encoder, for the numeric tests.
    #[doc(hidden)]
    pub fn encoder(&self) -> &Encoder {
        &self.audio.encoder
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

impl AudioModel {
    /// Loads a published folder with a decoder of this head.
    ///
    /// # Errors
    /// As [`Qwen3Asr::load`].
    pub fn load(dir: &Path, device: &Device, precision: Precision, head: Head) -> Result<Self> {
        let mut config = Config::read(dir)?;
        let tokenizer = ChatTokenizer::read(dir, config.decoder.vocabulary)?;
        let front_end = LogMel::new(LogMelConfig::whisper(config.encoder.mels), device)
            .map_err(|error| Error::Checkpoint { path: dir.join("config.json"), reason: error.to_string() })?;
        let weights = Weights::open(dir, device)?;
        let (parameters, form) = (weights.parameters(), weights.form());
        let encoder = Encoder::load(&weights, &config, precision)?;
        let own_head = match head {
            Head::Tokens => TOKENS,
            Head::Classes => CLASSES,
        };
        if head == Head::Classes {
            let outputs = weights.root().shape("score.weight").and_then(|shape| shape.first().copied());
            let missing =
                || Error::Weights { tensor: "score.weight".into(), reason: format!("missing from {}", dir.display()) };
            config.decoder.outputs = outputs.ok_or_else(missing)?;
            config.decoder.tied = false;
        }
        weights.ignore_all(DECODER);
        weights.ignore_all(own_head);
        weights.finish()?;
        let weights = Weights::open(dir, &Device::flex())?;
        weights.ignore_all("model.audio_tower.");
        weights.ignore_all("model.multi_modal_projector.");
        let own = |name: &str| match (name.strip_prefix(DECODER), name.strip_prefix(own_head)) {
            (Some(own), _) => format!("{BY_ITSELF}{own}"),
            (None, Some(own)) => format!("{TOKENS}{own}"),
            (None, None) => name.to_owned(),
        };
        let parts = (config.decoder.clone(), tokenizer, weights.renamed(own)?);
        let decoder = ChatModel::of_part(dir, parts, precision, device)?;
        Ok(Self { config, front_end, encoder, decoder, device: device.clone(), parameters, form })
    }

    /// Log-mel features of a window at 16 kHz: `[frames, mels]`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a window that the front end refuses.
    pub fn features(&self, samples: &[f32]) -> Result<Tensor<2>> {
        let mut samples = samples.to_vec();
        samples.resize(samples.len().max(LEAST_SAMPLES), 0.0);
        let length = samples.len();
        let audio = Tensor::from_data(TensorData::new(samples, [1, length]), &self.device);
        let features = self.front_end.forward(audio, &[length]);
        let features = features.map_err(|error| Error::InvalidOption(error.to_string()))?.mels;
        let [_, frames, mels] = features.dims();
        Ok(features.reshape([frames, mels]))
    }

    /// Frames of a window at 16 kHz as the decoder reads them: `[tokens, hidden]`.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn encode(&self, samples: &[f32]) -> Result<Vec<f32>> {
        read(self.encoder.project(self.encoder.forward(self.features(samples)?)))
    }
}
