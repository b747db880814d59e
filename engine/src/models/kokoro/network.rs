//! The network: symbols to durations, pitch and energy, and those to samples.

use std::path::{Path, PathBuf};

use auricle_kernels::channels::Channels;
use auricle_kernels::gemv::Precision;
use auricle_kernels::thread_pool::{self, ThreadPool};
use burn::tensor::Device;

use super::albert::Albert;
use super::config::Config;
use super::decoder::Decoder;
use super::generator::{Advanced, Generator, Unfinished};
use super::prosody::Prosody;
use super::text_encoder::TextEncoder;
use crate::error::{Error, Result};
use crate::layers::Packed;
use crate::weights::Weights;

/// Most frames of an utterance, 100 s: a network that predicts more does not end.
const MOST_FRAMES: usize = 4_000;

/// All parts.
#[derive(Debug)]
pub struct Network {
    config: Config,
    albert: Albert,
    narrow: Packed,
    prosody: Prosody,
    text: TextEncoder,
    decoder: Decoder,
    generator: Generator,
    parameters: usize,
    path: PathBuf,
}

/// An utterance up to the generator: what it will say is known, and no sample is there.
#[derive(Debug)]
pub struct Stages {
    /// Hidden states of the symbols, `[symbols, albert size]`.
    pub hidden: Vec<f32>,
    /// `[symbols, hidden + style]`
    pub features: Vec<f32>,
    /// Of each symbol, before rounding, frames.
    pub exact_durations: Vec<f32>,
    /// Of each symbol, frames.
    pub durations: Vec<usize>,
    /// Of each half frame, hertz.
    pub pitch: Vec<f32>,
    /// Of each half frame.
    pub energy: Vec<f32>,
    /// `[symbols, hidden]`
    pub encoded: Vec<f32>,
    /// `[channels, half frames]`
    pub decoded: Channels,
}

impl Network {
    /// Loads `config.json` and the weights of a folder: `model.safetensors`, or the one file that ends in `.pth`. It computes on the CPU;
    /// the encoder of symbols has weights of the given precision.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, precision: Precision) -> Result<Self> {
        let config = Config::read(dir)?;
        let (weights, path) = open(dir)?;
        // Older files have the tables of another form of the transform among their tensors.
        weights.ignore_all("decoder.generator.stft.");
        let network = Self {
            albert: Albert::load(&weights.scope("bert"), &config.albert, config.symbols, precision)?,
            narrow: Packed::load(&weights.scope("bert_encoder"), config.albert.size, config.hidden, Precision::F32)?,
            prosody: Prosody::load(&weights.scope("predictor"), &config)?,
            text: TextEncoder::load(&weights.scope("text_encoder"), &config)?,
            decoder: Decoder::load(&weights.scope("decoder"), &config)?,
            generator: Generator::load(&weights.scope("decoder.generator"), &config)?,
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
        let Config { hidden, style: width, symbols: known, .. } = self.config;
        let positions = self.config.albert.positions;
        if !(1..=positions).contains(&symbols.len()) || symbols.iter().any(|symbol| *symbol >= known) {
            return Err(Error::internal(format!("{} symbols for {positions} places, or unknown ones", symbols.len())));
        }
        let (for_samples, for_prosody) = style.split_at(width.min(style.len()));
        thread_pool::run(|pool| {
            let hidden_states = self.albert.forward(pool, symbols);
            let features = self.prosody.features(pool, &self.narrow.forward(pool, &hidden_states), for_prosody);
            let exact_durations = self.prosody.durations(pool, &features);
            let durations = self.rounded(&exact_durations, speed)?;
            let [pitch, energy] =
                self.prosody.curves(pool, &repeated(&features, hidden + width, &durations), for_prosody);
            let encoded = self.text.forward(pool, symbols);
            let frames = Channels::from_frames(&repeated(&encoded, hidden, &durations), hidden);
            let decoded = self.decoder.forward(pool, &frames, [&pitch, &energy], for_samples);
            let stages =
                Stages { hidden: hidden_states, features, exact_durations, durations, pitch, energy, encoded, decoded };
            if stages.pitch.iter().chain(&stages.energy).any(|value| !value.is_finite()) {
                return Err(self.no_numbers());
            }
            Ok(stages)
        })
    }

    /// Samples of half frames whose pitch this is.
    pub fn sample_count(&self, pitch: &[f32]) -> usize {
        self.generator.sample_count(pitch.len())
    }

    /// Spectra of the excitation of a pitch: see `Generator::excitation`.
    pub fn excitation(&self, pitch: &[f32], noise: &[f32]) -> Channels {
        thread_pool::run(|pool| self.generator.excitation(pool, pitch, noise))
    }

    /// Begins the samples of stages, with a normal value of `noise` for each of [`Network::sample_count`].
    pub fn start(&self, stages: Stages, noise: &[f32], style: &[f32]) -> Unfinished {
        let excitation = self.excitation(&stages.pitch, noise);
        self.generator.start(stages.decoded, excitation, &style[..self.config.style])
    }

    /// Computes the next part of an utterance's samples.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when the weights give no numbers.
    pub fn advance(&self, utterance: &Unfinished) -> Result<Advanced> {
        let advanced = thread_pool::run(|pool: &ThreadPool| self.generator.advance(pool, utterance));
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

/// Rows of `width` values, each repeated.
fn repeated(rows: &[f32], width: usize, counts: &[usize]) -> Vec<f32> {
    rows.chunks_exact(width).zip(counts).flat_map(|(row, count)| row.repeat(*count)).collect()
}

/// The weights of a folder under the names of the published module, and their file.
fn open(dir: &Path) -> Result<(Weights, PathBuf)> {
    let device = Device::flex();
    let tensors = dir.join("model.safetensors");
    if tensors.is_file() {
        return Ok((Weights::open(dir, &device)?, tensors));
    }
    let bad = |reason: String| Error::Checkpoint { path: dir.to_path_buf(), reason };
    let files = std::fs::read_dir(dir).map_err(|e| bad(format!("cannot read: {e}")))?;
    let paths = files.flatten().map(|file| file.path());
    let mut paths = paths.filter(|path| path.extension().is_some_and(|extension| extension == "pth"));
    match (paths.next(), paths.next()) {
        (Some(path), None) => {
            // A module that was trained on several devices is one level deeper.
            let rename = |name: &str| name.replacen(".module.", ".", 1);
            Ok((Weights::open_pytorch(&path, &device)?.renamed(rename)?, path))
        }
        (None, _) => Err(bad("there are no weights: neither model.safetensors nor a file that ends in .pth".into())),
        _ => Err(bad("there are several files that end in .pth".into())),
    }
}
