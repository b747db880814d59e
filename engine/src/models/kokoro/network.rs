//! The network: symbols to durations, pitch and energy, and those to samples.

use std::path::{Path, PathBuf};

use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::{self, ThreadPool};
use burn::tensor::Device;

use super::config::{Config, GeneratorConfig};
use super::source::Source;
use super::stages::{Advanced, Decoded, Read, Stages, Values};
use super::{cpu, generator, gpu};
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::weights::Weights;

/// Most frames of an utterance, 100 s: a network that predicts more does not end.
const MOST_FRAMES: usize = 4_000;

/// All parts.
#[derive(Debug)]
pub struct Network {
    config: Config,
    parts: Parts,
    source: Source,
    parameters: usize,
    path: PathBuf,
}

#[derive(Debug)]
enum Parts {
    Cpu(Box<cpu::Network>),
    Gpu(Box<gpu::Network>),
}

/// Samples that are being made.
#[derive(Clone, Debug)]
pub enum Unfinished {
    /// On the CPU.
    Cpu(generator::Unfinished),
    /// On a GPU.
    Gpu(Box<gpu::Unfinished>),
}

impl Network {
    /// Loads `config.json` and the weights of a folder: `model.safetensors`, or the one file that ends in `.pth`. On the CPU the encoder of
    /// symbols has weights of the given precision; other devices compute in 32 bits.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device, precision: Precision) -> Result<Self> {
        let config = Config::read(dir)?;
        let (weights, path) = open(dir, device)?;
        // Older files have the tables of another form of the transform among their tensors.
        weights.ignore_all("decoder.generator.stft.");
        let GeneratorConfig { window, hop, .. } = config.generator;
        let parts = match is_cpu(device) {
            true => Parts::Cpu(Box::new(cpu::Network::load(&weights, &config, precision)?)),
            false => Parts::Gpu(Box::new(gpu::Network::load(&weights, &config)?)),
        };
        let network = Self {
            parts,
            source: Source::load(&weights.scope("decoder.generator.m_source"), window, hop)?,
            parameters: weights.parameters(),
            config,
            path,
        };
        weights.finish()?;
        Ok(network)
    }

    /// Its widths and vocabulary.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Number of values in the checkpoint's tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Samples of a frame of durations.
    pub fn frame(&self) -> usize {
        2 * self.config.generator.pitch_frame()
    }

    /// Everything but the samples of symbols, with the silences at both ends, in a style `[2 style]`; twice the `speed` takes half the time.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when the weights give no numbers, or an utterance without end; [`Error::Internal`] for symbols that are not in
    /// the vocabulary or more than there are positions.
    pub fn stages(&self, symbols: &[usize], style: &[f32], speed: f32) -> Result<Stages> {
        let Config { style: width, symbols: known, .. } = self.config;
        let positions = self.config.albert.positions;
        if !(1..=positions).contains(&symbols.len()) || symbols.iter().any(|symbol| *symbol >= known) {
            return Err(Error::internal(format!("{} symbols for {positions} places, or unknown ones", symbols.len())));
        }
        let styles = style.split_at(width.min(style.len())).into();
        let [_, for_prosody] = styles;
        let Read { hidden, features, exact_durations } = match &self.parts {
            Parts::Cpu(network) => network.read(symbols, for_prosody),
            Parts::Gpu(network) => network.read(symbols, for_prosody)?,
        };
        let durations = self.rounded(&exact_durations, speed)?;
        let Decoded { pitch, energy, encoded, decoded } = match (&self.parts, &features) {
            (Parts::Cpu(network), Values::Rows(features)) => network.decode(symbols, features, &durations, styles),
            (Parts::Gpu(network), Values::Tensor(features)) => network.decode(symbols, features, &durations, styles)?,
            _ => return Err(other_device()),
        };
        if pitch.iter().chain(&energy).any(|value| !value.is_finite()) {
            return Err(self.no_numbers());
        }
        Ok(Stages { hidden, features, exact_durations, durations, pitch, energy, encoded, decoded })
    }

    /// Samples of half frames whose pitch this is.
    pub fn sample_count(&self, pitch: &[f32]) -> usize {
        pitch.len() * self.config.generator.pitch_frame()
    }

    /// The spectra of the excitation of a pitch, `[samples / hop + 1, 2 bins]`; `noise` has a normal value for each of
    /// [`Network::sample_count`].
    pub fn excitation(&self, pitch: &[f32], noise: &[f32]) -> Values {
        let frame = self.config.generator.pitch_frame();
        match &self.parts {
            Parts::Cpu(_) => {
                let samples = self.source.samples(pitch, frame, noise);
                Values::Channels(thread_pool::run(|pool| self.source.spectra(pool, &samples)))
            }
            Parts::Gpu(network) => Values::Tensor(Box::new(network.excitation(&self.source, pitch, frame, noise))),
        }
    }

    /// Begins the samples of stages, with a normal value of `noise` for each of [`Network::sample_count`].
    ///
    /// # Errors
    /// [`Error::Internal`] for stages of another device.
    pub fn start(&self, stages: Stages, noise: &[f32], style: &[f32]) -> Result<Unfinished> {
        let excitation = self.excitation(&stages.pitch, noise);
        let style = &style[..self.config.style];
        match (&self.parts, stages.decoded, excitation) {
            (Parts::Cpu(network), Values::Channels(decoded), Values::Channels(excitation)) => {
                Ok(Unfinished::Cpu(network.generator.start(decoded, excitation, style)))
            }
            (Parts::Gpu(network), Values::Tensor(decoded), Values::Tensor(excitation)) => {
                Ok(Unfinished::Gpu(Box::new(network.start(*decoded, *excitation, style))))
            }
            _ => Err(other_device()),
        }
    }

    /// Computes the next part of an utterance's samples.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when the weights give no numbers; [`Error::Device`] when the device failed; [`Error::Internal`] for an
    /// utterance of another device.
    pub fn advance(&self, utterance: &Unfinished) -> Result<Advanced<Unfinished>> {
        let advanced = match (&self.parts, utterance) {
            (Parts::Cpu(network), Unfinished::Cpu(utterance)) => {
                let advance = |pool: &ThreadPool| network.generator.advance(pool, utterance);
                thread_pool::run(advance).map(Unfinished::Cpu)
            }
            (Parts::Gpu(network), Unfinished::Gpu(utterance)) => {
                network.advance(utterance)?.map(|next| Unfinished::Gpu(Box::new(next)))
            }
            _ => return Err(other_device()),
        };
        match &advanced {
            Advanced::Samples(samples) if samples.iter().any(|sample| !sample.is_finite()) => Err(self.no_numbers()),
            _ => Ok(advanced),
        }
    }

    fn rounded(&self, exact: &[f32], speed: f32) -> Result<Vec<usize>> {
        if exact.iter().any(|duration| !duration.is_finite()) {
            return Err(self.no_numbers());
        }
        // Halves go to the even number, as in the published class.
        let rounded = exact.iter().map(|duration| (duration / speed).round_ties_even().max(1.0) as usize);
        let durations: Vec<usize> = rounded.collect();
        let frames: usize = durations.iter().sum();
        if frames > MOST_FRAMES {
            let reason = format!("{} symbols would take {frames} frames; its durations are wrong", exact.len());
            return Err(Error::Checkpoint { path: self.path.clone(), reason });
        }
        Ok(durations)
    }

    fn no_numbers(&self) -> Error {
        Error::Checkpoint { path: self.path.clone(), reason: "the weights give no numbers".into() }
    }
}

fn other_device() -> Error {
    Error::internal("an utterance of another device")
}

/// The weights of a folder under the names of the published module, and their file.
fn open(dir: &Path, device: &Device) -> Result<(Weights, PathBuf)> {
    let tensors = dir.join("model.safetensors");
    if tensors.is_file() {
        return Ok((Weights::open(dir, device)?, tensors));
    }
    let bad = |reason: String| Error::Checkpoint { path: dir.to_path_buf(), reason };
    let files = std::fs::read_dir(dir).map_err(|e| bad(format!("cannot read: {e}")))?;
    let paths = files.flatten().map(|file| file.path());
    let mut paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "pth"));
    match (paths.next(), paths.next()) {
        (Some(path), None) => {
            // A module that was trained on several devices is one level deeper.
            let rename = |name: &str| name.replacen(".module.", ".", 1);
            Ok((Weights::open_pytorch(&path, device)?.renamed(rename)?, path))
        }
        (None, _) => Err(bad("there are no weights: neither model.safetensors nor a file that ends in .pth".into())),
        _ => Err(bad("there are several files that end in .pth".into())),
    }
}
