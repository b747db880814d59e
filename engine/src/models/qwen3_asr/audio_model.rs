//! An encoder of audio and a decoder that reads its frames, as a recogniser and an aligner have them.

use std::path::Path;

use auricle_kernels::product::gemv::Precision;
use auricle_kernels::spectral::logmel::{LogMel, LogMelConfig};
use burn::tensor::{Device, Tensor, TensorData};

use super::config::{Config, LEAST_SAMPLES};
use super::encoder::Encoder;
use crate::device::read;
use crate::error::{Error, Result};
use crate::models::decoder::{ChatModel, ChatTokenizer};
use crate::weights::Weights;

/// Names of the decoder's tensors, and of a language model by itself.
const DECODER: &str = "model.language_model.";
const BY_ITSELF: &str = "model.";
/// The scores of classes, and those of a language model's tokens.
const CLASSES: &str = "score.";
const TOKENS: &str = "lm_head.";

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

impl AudioModel {
    /// Loads a published folder with a decoder of this head.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
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

    /// The device that computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The encoder.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// Number of values in its tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The format and types of the weights, such as `safetensors, BF16`.
    pub fn form(&self) -> &str {
        &self.form
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
