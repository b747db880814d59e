//! A loaded vocoder: log-mels to samples.

use std::path::{Path, PathBuf};

use auricle_kernels::spectral::istft::{Istft, IstftState};
use burn::tensor::Device;
use realfft::num_complex::Complex;

use super::chunk::MelChunk;
use super::config::Config;
use super::{cpu, gpu};
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::weights::Weights;

/// Magnitudes are limited to this, as published.
const LOUDEST: f32 = 1e2;

/// A vocoder.
#[derive(Debug)]
pub struct Vocos {
    config: Config,
    network: Network,
    istft: Istft,
    dir: PathBuf,
    device: Device,
    parameters: usize,
}

#[derive(Debug)]
enum Network {
    Cpu(Box<cpu::Network>),
    Gpu(Box<gpu::Network>),
}

/// An utterance between its chunks.
#[derive(Clone, Debug)]
pub struct VocosState {
    network: cpu::State,
    istft: IstftState,
}

impl Vocos {
    /// Loads `config.json` and `model.safetensors` of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device) -> Result<Self> {
        let config = Config::read(dir)?;
        let weights = Weights::open(dir, device)?;
        let parameters = weights.parameters();
        let window = weights.scope("head.istft").values("window", &[config.n_fft])?;
        let istft = Istft::new(&window, config.hop_length).ok_or_else(|| Error::internal("a window of odd length"))?;
        let network = if is_cpu(device) {
            Network::Cpu(Box::new(cpu::Network::load(&weights, &config)?))
        } else {
            Network::Gpu(Box::new(gpu::Network::load(&weights, &config)?))
        };
        weights.finish()?;
        Ok(Self { config, network, istft, dir: dir.to_path_buf(), device: device.clone(), parameters })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Number of values in the checkpoint's tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// True if an utterance may come in several chunks.
    pub fn streams(&self) -> bool {
        matches!(self.network, Network::Cpu(_)) && is_cpu(&self.device)
    }

    /// Frames that come out behind their mels.
    pub fn delay(&self) -> usize {
        3 * (self.config.layers + 1)
    }

    /// The state before an utterance.
    pub fn start(&self) -> VocosState {
        VocosState { network: cpu::State::new(&self.config), istft: self.istft.start() }
    }

    /// Computes the samples that chunks of utterances complete, in their order; none depends on the others. In all an utterance has
    /// `(frames - 1) * hop_length` samples.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for mels of another width, and for a part of an utterance where the vocoder does not stream;
    /// [`Error::Checkpoint`] when the weights give no numbers; [`Error::Device`] when the device failed.
    pub fn forward(&self, chunks: &[MelChunk], states: &mut [&mut VocosState]) -> Result<Vec<Vec<f32>>> {
        let Config { n_mels, n_fft, .. } = self.config;
        if chunks.len() != states.len() || chunks.iter().any(|chunk| !chunk.mels.len().is_multiple_of(n_mels)) {
            return Err(Error::InvalidOption(format!("a vocoder takes frames of {n_mels} mels, with a state each")));
        }
        let outputs = match &self.network {
            Network::Cpu(network) => {
                let mut states: Vec<_> = states.iter_mut().map(|state| &mut state.network).collect();
                network.forward(chunks, &mut states)
            }
            Network::Gpu(_) if chunks.iter().any(|chunk| !chunk.is_last) => {
                return Err(Error::InvalidOption("on this device an utterance is one chunk".into()));
            }
            Network::Gpu(network) => network.forward(chunks, &self.device)?,
        };
        let mut samples = Vec::with_capacity(chunks.len());
        for ((chunk, state), output) in chunks.iter().zip(states).zip(outputs) {
            let mut spoken = Vec::with_capacity(output.len() / (n_fft + 2) * self.config.hop_length);
            for frame in output.chunks_exact(n_fft + 2) {
                let (magnitudes, phases) = frame.split_at(self.istft.bins());
                let bin = |(magnitude, phase): (&f32, &f32)| Complex::from_polar(magnitude.exp().min(LOUDEST), *phase);
                let mut spectrum: Vec<_> = magnitudes.iter().zip(phases).map(bin).collect();
                self.istft.push(&mut state.istft, &mut spectrum, &mut spoken);
            }
            if chunk.is_last {
                self.istft.finish(&mut state.istft, &mut spoken);
            }
            // A magnitude that is no number would be the loudest.
            if output.iter().chain(&spoken).any(|value| !value.is_finite()) {
                let reason = "the network's values are no numbers".into();
                return Err(Error::Checkpoint { path: self.dir.clone(), reason });
            }
            samples.push(spoken);
        }
        Ok(samples)
    }

    /// The network's output for one utterance, for the numeric tests: `[frames, n_fft + 2]`.
    ///
    /// # Errors
    /// As [`Vocos::forward`].
    #[doc(hidden)]
    pub fn spectra(&self, mels: &[f32]) -> Result<Vec<f32>> {
        let chunks = [MelChunk { mels, is_last: true }];
        let outputs = match &self.network {
            Network::Cpu(network) => network.forward(&chunks, &mut [&mut cpu::State::new(&self.config)]),
            Network::Gpu(network) => network.forward(&chunks, &self.device)?,
        };
        Ok(outputs.into_iter().next().unwrap_or_default())
    }
}
