//! A loaded acoustic model: symbols to log-mels.

use std::path::{Path, PathBuf};

use burn::tensor::Device;

use super::config::Config;
use super::utterance::{MelFrames, Stages, Utterance};
use super::{cpu, gpu};
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::weights::Weights;

/// An acoustic model.
#[derive(Debug)]
pub struct FastSpeech2 {
    config: Config,
    network: Network,
    dir: PathBuf,
    device: Device,
    parameters: usize,
}

#[derive(Debug)]
enum Network {
    Cpu(Box<cpu::Network>),
    Gpu(Box<gpu::Network>),
}

impl FastSpeech2 {
    /// Loads `config.json` and `model.safetensors` of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device) -> Result<Self> {
        let config = Config::read(dir)?;
        let weights = Weights::open(dir, device)?;
        let parameters = weights.parameters();
        let network = if is_cpu(device) {
            Network::Cpu(Box::new(cpu::Network::load(&weights, &config)?))
        } else {
            Network::Gpu(Box::new(gpu::Network::load(&weights, &config)?))
        };
        weights.finish()?;
        Ok(Self { config, network, dir: dir.to_path_buf(), device: device.clone(), parameters })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Number of values in the checkpoint's tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The device that holds the weights.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Computes how utterances sound, in their order; none depends on the others.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for an utterance without symbols, or with numbers that the model has not; [`Error::Checkpoint`] when
    /// the weights give no numbers, or an utterance without end; [`Error::Device`] when the device failed.
    pub fn speak(&self, utterances: &[Utterance]) -> Result<Vec<MelFrames>> {
        self.speak_in_stages(utterances).map(|(frames, _)| frames)
    }

    /// As [`FastSpeech2::speak`], with the stages of each utterance.
    ///
    /// # Errors
    /// As [`FastSpeech2::speak`].
    #[doc(hidden)]
    pub fn speak_in_stages(&self, utterances: &[Utterance]) -> Result<(Vec<MelFrames>, Vec<Stages>)> {
        let Config { symbols, voices, .. } = self.config;
        for utterance in utterances {
            if utterance.symbols.is_empty() || utterance.symbols.iter().any(|symbol| *symbol >= symbols) {
                return Err(Error::InvalidOption(format!("an utterance has symbols from 0 to {}", symbols - 1)));
            }
            if utterance.voice >= voices.max(1) {
                return Err(Error::InvalidOption(format!("voice {} of {}", utterance.voice, voices.max(1))));
            }
            if !(utterance.speed > 0.0 && utterance.speed.is_finite()) {
                return Err(Error::InvalidOption(format!("speed {} is not above 0", utterance.speed)));
            }
        }
        if utterances.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let computed = match &self.network {
            Network::Cpu(network) => network.speak(utterances),
            Network::Gpu(network) => network.speak(utterances, &self.device)?,
        };
        let bad = || Error::Checkpoint {
            path: self.dir.clone(),
            reason: "the network's values are no numbers, or an utterance has no end".into(),
        };
        let (frames, stages) = computed.ok_or_else(bad)?;
        if frames.iter().any(|frames| frames.mels.iter().any(|value| !value.is_finite())) {
            return Err(bad());
        }
        Ok((frames, stages))
    }
}
