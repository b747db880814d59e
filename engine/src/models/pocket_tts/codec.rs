//! The audio decoder: latents to samples, chunk by chunk.

use std::path::Path;

use auricle_kernels::activation;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::ThreadPool;
use burn::tensor::Device;

use super::codec_config::CodecConfig;
use super::transformer::{Cache, Transformer};
use crate::error::Result;
use crate::layers::{Bias, CausalConvolution, Packed, apply_in_place};
use crate::weights::{Scope, Weights};

/// The decoder of an audio tokenizer.
#[derive(Debug)]
pub struct Codec {
    projection: Packed,
    /// The parts that a latent adds to its own positions, and to the next latent's: `[2, stride, size]`.
    spread: [Vec<f32>; 2],
    transformer: Transformer,
    first: CausalConvolution,
    stages: Vec<Stage>,
    last: CausalConvolution,
    config: CodecConfig,
    parameters: usize,
}

/// A transposed convolution, and a residual block.
#[derive(Debug)]
struct Stage {
    up: CausalConvolution,
    narrow: CausalConvolution,
    wide: Packed,
}

/// Speech between its chunks: keys and values of the window, and what each convolution sees again.
#[derive(Clone, Debug)]
pub struct CodecState {
    /// The last latent, projected.
    projected: Vec<f32>,
    cache: Cache,
    first: Vec<f32>,
    /// Of the transposed convolution, and of the residual block.
    stages: Vec<[Vec<f32>; 2]>,
    last: Vec<f32>,
}

/// Values between latents and samples, for the numeric tests.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct CodecStages {
    /// `[positions, size]`
    pub upsampled: Vec<f32>,
    /// `[positions, size]`
    pub transformed: Vec<f32>,
}

impl Codec {
    /// Loads `config.json` and the decoder of `model.safetensors` of a folder.
    ///
    /// # Errors
    /// [`crate::Error::Checkpoint`] and [`crate::Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path) -> Result<Self> {
        let config = CodecConfig::read(dir)?;
        let weights = Weights::open(dir, &Device::flex())?;
        weights.ignore_all("encoder.");
        let (size, latent) = (config.transformer.size, config.latent);
        let decoder = weights.scope("decoder");
        let seanet = decoder.scope("decoder_seanet.layers");
        let convolution = |at: usize| seanet.scope(at).scope("conv");
        let [first_taps, inner_taps, last_taps] = config.taps;
        let stages = config.ratios.iter().enumerate().map(|(at, ratio)| {
            let channels = config.widest() >> (at + 1);
            let block = seanet.scope(3 + 3 * at).scope("block");
            let inner = channels / config.compress;
            Ok(Stage {
                up: CausalConvolution::load_transposed(&convolution(2 + 3 * at), 2 * channels, channels, *ratio)?,
                narrow: CausalConvolution::load(&conv(&block, 1), channels, inner, inner_taps)?,
                wide: Packed::load_scaled(&conv(&block, 3), &[channels, inner, 1], Bias::With, 1.0)?,
            })
        });
        let codec = Self {
            projection: Packed::load_scaled(&weights.scope("latent_proj"), &[size, latent, 1], Bias::Without, 1.0)?,
            spread: spread(&decoder, &config)?,
            transformer: Transformer::load(
                &decoder.scope("decoder_transformer"),
                config.transformer.clone(),
                Precision::F32,
            )?,
            first: CausalConvolution::load(&convolution(0), size, config.widest(), first_taps)?,
            stages: stages.collect::<Result<_>>()?,
            last: CausalConvolution::load(&convolution(2 + 3 * config.ratios.len()), config.filters, 1, last_taps)?,
            parameters: weights.parameters(),
            config,
        };
        weights.finish()?;
        Ok(codec)
    }

    /// The configuration.
    pub fn config(&self) -> &CodecConfig {
        &self.config
    }

    /// Number of values in the checkpoint's tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The state before speech.
    pub fn start(&self) -> CodecState {
        CodecState {
            projected: vec![0.0; self.config.transformer.size],
            cache: self.transformer.start(),
            first: self.first.start(),
            stages: self.stages.iter().map(|stage| [stage.up.start(), stage.narrow.start()]).collect(),
            last: self.last.start(),
        }
    }

    /// Samples of the next latents of several streams, `[count, latent]` each; none depends on the others.
    pub fn forward(&self, pool: &ThreadPool, latents: &[&[f32]], states: &mut [&mut CodecState]) -> Vec<Vec<f32>> {
        self.forward_in_stages(pool, latents, states).0
    }

    /// As [`Codec::forward`], with the stages of all streams, one after another.
    #[doc(hidden)]
    pub fn forward_in_stages(
        &self,
        pool: &ThreadPool,
        latents: &[&[f32]],
        states: &mut [&mut CodecState],
    ) -> (Vec<Vec<f32>>, CodecStages) {
        let projected = self.projection.forward(pool, &latents.concat());
        let mut lengths: Vec<usize> = latents.iter().map(|latents| latents.len() / self.config.latent).collect();
        let upsampled = self.upsample(&projected, &lengths, states);
        lengths.iter_mut().for_each(|length| *length *= self.config.stride);
        let mut x = upsampled.clone();
        let mut caches: Vec<_> = states.iter_mut().map(|state| &mut state.cache).collect();
        self.transformer.forward(pool, &mut x, &lengths, &mut caches);
        let stages = CodecStages { upsampled, transformed: x.clone() };
        x = self.first.forward(pool, &x, &lengths, &mut kept(states, |state| &mut state.first));
        for (at, stage) in self.stages.iter().enumerate() {
            apply_in_place(pool, &mut x, activation::elu_in_place);
            x = stage.up.forward(pool, &x, &lengths, &mut kept(states, |state| &mut state.stages[at][0]));
            lengths.iter_mut().for_each(|length| *length *= self.config.ratios[at]);
            let mut inner = x.clone();
            apply_in_place(pool, &mut inner, activation::elu_in_place);
            let mut seen = kept(states, |state| &mut state.stages[at][1]);
            inner = stage.narrow.forward(pool, &inner, &lengths, &mut seen);
            apply_in_place(pool, &mut inner, activation::elu_in_place);
            stage.wide.add_to(pool, &inner, &mut x);
        }
        apply_in_place(pool, &mut x, activation::elu_in_place);
        let mut samples = self.last.forward(pool, &x, &lengths, &mut kept(states, |state| &mut state.last)).into_iter();
        (lengths.iter().map(|length| samples.by_ref().take(*length).collect()).collect(), stages)
    }

    /// The positions of latents: a transposed convolution of each channel alone.
    fn upsample(&self, projected: &[f32], lengths: &[usize], states: &mut [&mut CodecState]) -> Vec<f32> {
        let size = self.config.transformer.size;
        let [own, next] = &self.spread;
        let mut out = Vec::with_capacity(projected.len() * self.config.stride);
        let mut frames = projected.chunks_exact(size);
        for (length, state) in lengths.iter().zip(states) {
            for frame in frames.by_ref().take(*length) {
                for (own, next) in own.chunks_exact(size).zip(next.chunks_exact(size)) {
                    let values = frame.iter().zip(own).zip(state.projected.iter().zip(next));
                    out.extend(values.map(|((x, own), (before, next))| x * own + before * next));
                }
                state.projected.copy_from_slice(frame);
            }
        }
        out
    }
}

/// The parts that a latent adds to its own positions, and to the next latent's: `[2, stride, size]`.
pub fn spread(decoder: &Scope, config: &CodecConfig) -> Result<[Vec<f32>; 2]> {
    let (size, stride) = (config.transformer.size, config.stride);
    let published = decoder.scope("upsample.conv").values("weight", &[size, 1, 2 * stride])?;
    let part = |first: usize| {
        let taps = (first..first + stride).flat_map(|tap| (0..size).map(move |at| (at, tap)));
        taps.map(|(at, tap)| published[at * 2 * stride + tap]).collect()
    };
    Ok([part(0), part(stride)])
}

/// A convolution of a residual block.
pub fn conv<'a>(block: &Scope<'a>, at: usize) -> Scope<'a> {
    block.scope(at).scope("conv")
}

/// A part of each state.
fn kept<'a>(
    states: &'a mut [&mut CodecState],
    part: impl Fn(&mut CodecState) -> &mut Vec<f32>,
) -> Vec<&'a mut Vec<f32>> {
    states.iter_mut().map(|state| part(state)).collect()
}
