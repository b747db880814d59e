//! The audio encoder: samples of a clip to the latents of a voice, on the CPU whatever device speaks, as a clip is encoded once.

use std::path::Path;

use auricle_kernels::activation;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::ThreadPool;
use burn::tensor::Device;

use super::codec::conv;
use super::codec_config::CodecConfig;
use super::transformer::{Cache, Transformer};
use crate::error::{Error, Result};
use crate::layers::{Bias, CausalConvolution, Packed, apply_in_place};
use crate::weights::Weights;

/// Latents that are computed at a time.
const LATENTS: usize = 12;
/// A prompt ends with so many seconds of silence, as those of the training do.
const PAUSE_S: f64 = 0.08;
/// Seconds over which its last sound fades out.
const FADE_S: f64 = 0.02;
/// Seconds of the frames by whose level the last sound is found.
const LEVEL_FRAME_S: f64 = 0.02;
/// A frame so many decibels below the loudest is silence.
const FLOOR_DB: f64 = 35.0;

/// The encoder of an audio tokenizer.
#[derive(Debug)]
pub struct Encoder {
    first: CausalConvolution,
    stages: Vec<Stage>,
    last: CausalConvolution,
    transformer: Transformer,
    downsample: CausalConvolution,
    config: CodecConfig,
}

/// A residual block, and a convolution that gives one frame for several.
#[derive(Debug)]
struct Stage {
    narrow: CausalConvolution,
    wide: Packed,
    down: CausalConvolution,
}

/// A clip between its chunks.
struct EncoderState {
    first: Vec<f32>,
    /// Of the residual block, and of the convolution after it.
    stages: Vec<[Vec<f32>; 2]>,
    last: Vec<f32>,
    cache: Cache,
    /// None before the first positions, which stand in for those before them.
    downsample: Option<Vec<f32>>,
}

/// Values between samples and latents, for the numeric tests.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct EncoderStages {
    /// `[positions, size]`
    pub convolved: Vec<f32>,
    /// `[positions, size]`
    pub transformed: Vec<f32>,
}

impl Encoder {
    /// Loads `config.json` and the encoder of `model.safetensors` of an audio tokenizer's folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a folder without an encoder, else as [`super::Codec::load`].
    pub fn load(dir: &Path) -> Result<Self> {
        let config = CodecConfig::read(dir)?;
        let weights = Weights::open(dir, &Device::flex())?;
        weights.ignore_all("decoder.");
        weights.ignore_all("latent_proj.");
        let encoder = weights.scope("encoder");
        let seanet = encoder.scope("encoder_seanet.layers");
        let convolution = |at: usize| seanet.scope(at).scope("conv");
        if !convolution(0).has("weight") {
            let reason =
                "it has no encoder, which makes voices of recordings; the checkpoint is published with one and without";
            return Err(Error::Checkpoint { path: dir.to_path_buf(), reason: reason.into() });
        }
        let (size, count) = (config.transformer.size, config.ratios.len());
        let [first_taps, inner_taps, last_taps] = config.taps;
        let stages = config.ratios.iter().rev().enumerate().map(|(at, ratio)| {
            let channels = config.filters << at;
            let block = seanet.scope(1 + 3 * at).scope("block");
            let inner = channels / config.compress;
            Ok(Stage {
                narrow: CausalConvolution::load(&conv(&block, 1), channels, inner, inner_taps)?,
                wide: Packed::load_scaled(&conv(&block, 3), &[channels, inner, 1], Bias::With, 1.0)?,
                down: CausalConvolution::load_strided(
                    &convolution(3 + 3 * at),
                    [channels, 2 * channels, *ratio],
                    Bias::With,
                )?,
            })
        });
        let loaded = Self {
            first: CausalConvolution::load(&convolution(0), 1, config.filters, first_taps)?,
            stages: stages.collect::<Result<_>>()?,
            last: CausalConvolution::load(&convolution(2 + 3 * count), config.widest(), size, last_taps)?,
            transformer: Transformer::load(
                &encoder.scope("encoder_transformer"),
                config.transformer.clone(),
                Precision::F32,
            )?,
            downsample: CausalConvolution::load_strided(
                &encoder.scope("downsample.conv"),
                [size, config.latent, config.stride],
                Bias::Without,
            )?,
            config,
        };
        weights.finish()?;
        Ok(loaded)
    }

    /// The rate of the samples, hertz.
    pub fn sample_rate(&self) -> u32 {
        self.config.sample_rate
    }

    /// Values of a latent.
    pub fn latent(&self) -> usize {
        self.config.latent
    }

    /// The latents of samples, `[frames, latent]`, with zeros up to a whole latent. Memory beside samples and latents is that of a second.
    pub fn forward(&self, pool: &ThreadPool, samples: &[f32]) -> Vec<f32> {
        let mut state = self.start();
        let chunks = samples.chunks(LATENTS * self.config.samples());
        chunks.flat_map(|chunk| self.chunk(pool, chunk, &mut state).0).collect()
    }

    /// As [`Encoder::forward`], all at once, with the stages.
    #[doc(hidden)]
    pub fn forward_in_stages(&self, pool: &ThreadPool, samples: &[f32]) -> (Vec<f32>, EncoderStages) {
        self.chunk(pool, samples, &mut self.start())
    }

    fn start(&self) -> EncoderState {
        EncoderState {
            first: self.first.start(),
            stages: self.stages.iter().map(|stage| [stage.narrow.start(), stage.down.start()]).collect(),
            last: self.last.start(),
            cache: self.transformer.start(),
            downsample: None,
        }
    }

    fn chunk(&self, pool: &ThreadPool, samples: &[f32], state: &mut EncoderState) -> (Vec<f32>, EncoderStages) {
        let mut length = samples.len().next_multiple_of(self.config.samples());
        let mut x = samples.to_vec();
        x.resize(length, 0.0);
        x = self.first.forward(pool, &x, &[length], &mut [&mut state.first]);
        let ratios = self.config.ratios.iter().rev();
        for ((stage, [seen, of_down]), ratio) in self.stages.iter().zip(&mut state.stages).zip(ratios) {
            let mut inner = x.clone();
            apply_in_place(pool, &mut inner, activation::elu_in_place);
            inner = stage.narrow.forward(pool, &inner, &[length], &mut [seen]);
            apply_in_place(pool, &mut inner, activation::elu_in_place);
            stage.wide.add_to(pool, &inner, &mut x);
            apply_in_place(pool, &mut x, activation::elu_in_place);
            length /= ratio;
            x = stage.down.forward(pool, &x, &[length], &mut [of_down]);
        }
        apply_in_place(pool, &mut x, activation::elu_in_place);
        x = self.last.forward(pool, &x, &[length], &mut [&mut state.last]);
        let convolved = x.clone();
        self.transformer.forward(pool, &mut x, &[length], &mut [&mut state.cache]);
        let (size, stride) = (self.config.transformer.size, self.config.stride);
        let first = || x.get(..size).unwrap_or_default().repeat(stride);
        let seen = state.downsample.get_or_insert_with(first);
        let latents = self.downsample.forward(pool, &x, &[length / stride], &mut [seen]);
        (latents, EncoderStages { convolved, transformed: x })
    }
}

/// Samples of a clip as the network takes them for a voice: without silence at their end, faded out, and a pause. One that ends in a word
/// is continued by the network, and a long silence delays what follows.
pub fn ending_on_pause(samples: &[f32], rate: u32) -> Vec<f32> {
    let count = |seconds: f64| (seconds * f64::from(rate)) as usize;
    let frame = count(LEVEL_FRAME_S).max(1);
    let level = |frame: &[f32]| frame.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>() / frame.len() as f64;
    let levels: Vec<f64> = samples.chunks_exact(frame).map(level).collect();
    let floor = levels.iter().copied().fold(0.0, f64::max) * 10f64.powf(-FLOOR_DB / 10.0);
    let Some(last) = levels.iter().rposition(|level| *level > floor) else { return samples.to_vec() };
    let mut prompt = samples[..(last + 1) * frame].to_vec();
    let fade = count(FADE_S).min(prompt.len());
    let from = prompt.len() - fade;
    for (at, sample) in prompt[from..].iter_mut().enumerate() {
        *sample *= 1.0 - at as f32 / (fade - 1).max(1) as f32;
    }
    prompt.resize(prompt.len() + count(PAUSE_S), 0.0);
    prompt
}

/// The fingerprint of an audio tokenizer, as 16 hexadecimal digits of its projection of latents. Latents of another one mean
/// something else.
///
/// # Errors
/// As [`super::Codec::load`].
pub fn fingerprint(dir: &Path) -> Result<String> {
    let config = CodecConfig::read(dir)?;
    let shape = [config.transformer.size, config.latent, 1];
    let projection = Weights::open(dir, &Device::flex())?.scope("latent_proj").values("weight", &shape)?;
    let hash = |hash: u64, value: &f32| (hash ^ u64::from(value.to_bits())).wrapping_mul(0x0100_0000_01b3);
    Ok(format!("{:016x}", projection.iter().fold(0xcbf2_9ce4_8422_2325, hash)))
}
