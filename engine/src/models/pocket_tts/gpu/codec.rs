//! The audio decoder: the latents of a step to their samples, over rings of what streams keep.

use auricle_kernels::attention::paged::PageTables;
use auricle_kernels::cache::ring::{self, StepFrames};
use auricle_kernels::convolution::stream::{StreamConvolution, StreamFrames};
use auricle_kernels::product::gemv::Precision;
use burn::tensor::{Device, Tensor, TensorData};

use super::streams::Ring;
use super::transformer::Transformer;
use crate::error::Result;
use crate::layers::tap_rows;
use crate::models::decoder::CardPages;
use crate::models::pocket_tts::codec::{conv, spread};
use crate::models::pocket_tts::codec_config::CodecConfig;
use crate::weights::{Scope, Weights};

/// The decoder.
#[derive(Debug)]
pub struct Codec {
    /// A latent and the one before it to its positions: the projection, and a transposed convolution of each channel alone.
    upsample: StreamConvolution,
    transformer: Transformer,
    first: StreamConvolution,
    stages: Vec<Stage>,
    last: StreamConvolution,
    config: CodecConfig,
}

/// A transposed convolution, and a residual block.
#[derive(Debug)]
struct Stage {
    up: StreamConvolution,
    narrow: StreamConvolution,
    wide: StreamConvolution,
    ratio: usize,
}

/// The samples of a step, and the stage before its convolutions.
pub struct Decoded {
    /// `[rows, samples]`
    pub samples: Tensor<2>,
    /// `[positions, size]`
    pub transformed: Tensor<2>,
}

impl CodecConfig {
    /// Frames of a step after so many transposed convolutions.
    fn frames(&self, stages: usize) -> usize {
        self.stride * self.ratios[..stages].iter().product::<usize>()
    }

    /// The rings of a stream: the transformer's output, that of the first convolution, and of each stage that of the transposed convolution
    /// and of the residual block.
    pub fn rings(&self) -> Vec<Ring> {
        let [first, inner, last] = self.taps;
        let mut rings =
            vec![Ring::new(self.stride, first, self.transformer.size), Ring::new(self.stride, 2, self.widest())];
        for at in 1..=self.ratios.len() {
            let (frames, channels) = (self.frames(at), self.widest() >> at);
            let next = if at < self.ratios.len() { 2 } else { last };
            rings.extend([Ring::new(frames, inner, channels), Ring::new(frames, next, channels)]);
        }
        rings
    }
}

impl Codec {
    /// For streams of so many latents at most.
    ///
    /// # Errors
    /// As `Scope::values`.
    pub fn load(weights: &Weights, config: CodecConfig, latents: usize) -> Result<Self> {
        weights.ignore_all("encoder.");
        let decoder = weights.scope("decoder");
        let (size, stride, device) = (config.transformer.size, config.stride, decoder.device());
        let projection = weights.scope("latent_proj").values("weight", &[size, config.latent, 1])?;
        let seanet = decoder.scope("decoder_seanet.layers");
        let convolution = |at: usize| seanet.scope(at).scope("conv");
        let [first_taps, inner_taps, last_taps] = config.taps;
        let stages = config.ratios.iter().enumerate().map(|(at, ratio)| {
            let channels = config.widest() >> (at + 1);
            let block = seanet.scope(3 + 3 * at).scope("block");
            let inner = channels / config.compress;
            Ok(Stage {
                up: transposed(&convolution(2 + 3 * at), [2 * channels, channels, *ratio])?,
                narrow: causal(&conv(&block, 1), [channels, inner, inner_taps], true)?,
                wide: causal(&conv(&block, 3), [inner, channels, 1], true)?,
                ratio: *ratio,
            })
        });
        Ok(Self {
            upsample: upsample(&projection, &spread(&decoder, &config)?, stride, device),
            transformer: Transformer::load(
                &decoder.scope("decoder_transformer"),
                &config.transformer,
                latents * stride,
                Precision::F32,
            )?,
            first: causal(&convolution(0), [size, config.widest(), first_taps], false)?,
            stages: stages.collect::<Result<_>>()?,
            last: causal(&convolution(2 + 3 * config.ratios.len()), [config.filters, 1, last_taps], true)?,
            config,
        })
    }

    /// The samples of a step's latents, which `latents` has at the second of `steps`; what streams keep is at the first, in the `rings` of
    /// [`CodecConfig::rings`]. Rings change in place.
    pub fn forward(
        &self,
        latents: &StreamFrames,
        [steps, steps_of_latents]: [&StepFrames; 2],
        rings: &[Tensor<3>],
        tables: &PageTables,
        pages: &mut CardPages,
    ) -> Decoded {
        let (size, stride) = (self.config.transformer.size, self.config.stride);
        let upsampled = self.upsample.forward(latents, None, steps_of_latents);
        let rows = upsampled.dims()[0];
        let transformed = self.transformer.forward(upsampled.reshape([rows * stride, size]), tables, pages, None);
        let mut frames = stride;
        let kept = rings[0].clone();
        let ([slots, columns, _], width) = (kept.dims(), stride * size);
        let kept = ring::store(
            kept.reshape([slots, 1, columns / stride, width]),
            steps,
            transformed.clone().reshape([rows, 1, 1, width]),
        );
        let kept = StreamFrames::ring(kept.reshape([slots, columns, size]), frames);
        let mut seen = self.first.write(&kept, None, [steps, steps], StreamFrames::ring(rings[1].clone(), frames));
        for (stage, rings) in self.stages.iter().zip(rings[2..].as_chunks::<2>().0) {
            // The frames of a transposed convolution lie side by side as one of it.
            let [slots, columns, channels] = rings[0].dims();
            let of_stage = rings[0].clone().reshape([slots, columns / stage.ratio, stage.ratio * channels]);
            let up = stage.up.write(&seen, None, [steps, steps], StreamFrames::ring(of_stage, frames));
            frames *= stage.ratio;
            let up = StreamFrames::ring(up.into_values().reshape([slots, columns, channels]), frames);
            let inner = StreamFrames::of_step(stage.narrow.forward(&up, None, steps));
            seen = stage.wide.write(&inner, Some(&up), [steps, steps], StreamFrames::ring(rings[1].clone(), frames));
        }
        let samples = self.last.forward(&seen, None, steps).squeeze_dim(2);
        Decoded { samples, transformed }
    }
}

fn of_values(weight: Vec<f32>, bias: Vec<f32>, has_elu: bool, device: &Device) -> StreamConvolution {
    let outputs = bias.len();
    let shape = [weight.len() / outputs, outputs];
    StreamConvolution {
        weight: Tensor::from_data(TensorData::new(weight, shape), device),
        bias: Tensor::from_data(TensorData::new(bias, [outputs]), device),
        has_elu,
    }
}

/// Reads a convolution, `weight` `[outputs, inputs, taps]` and `bias`.
fn causal(scope: &Scope, [inputs, outputs, taps]: [usize; 3], has_elu: bool) -> Result<StreamConvolution> {
    let shape = [outputs, inputs, taps];
    let weight = tap_rows(&scope.values("weight", &shape)?, shape);
    Ok(of_values(weight, scope.values("bias", &[outputs])?, has_elu, scope.device()))
}

/// Reads a transposed convolution whose taps are twice its `stride`, `weight` `[inputs, outputs, 2 * stride]` and `bias`: one over two
/// frames, with the outputs of `stride` frames side by side.
fn transposed(scope: &Scope, [inputs, outputs, stride]: [usize; 3]) -> Result<StreamConvolution> {
    let published = scope.values("weight", &[inputs, outputs, 2 * stride])?;
    let mut weight = vec![0.0; published.len()];
    for (at, value) in published.into_iter().enumerate() {
        let (input, output, tap) = (at / (2 * stride * outputs), at / (2 * stride) % outputs, at % (2 * stride));
        // A frame reaches its own outputs by the first taps, and the next frame's by the others.
        let is_own = usize::from(tap < stride);
        weight[((is_own * inputs + input) * stride + tap % stride) * outputs + output] = value;
    }
    let bias = scope.values("bias", &[outputs])?.repeat(stride);
    Ok(of_values(weight, bias, true, scope.device()))
}

/// The projection `[size, latent]` of the second half of a latent's row, and the parts that it adds to its own positions and to the next
/// latent's, as one convolution over two rows.
fn upsample(projection: &[f32], [own, next]: &[Vec<f32>; 2], stride: usize, device: &Device) -> StreamConvolution {
    let size = own.len() / stride;
    let latent = projection.len() / size;
    let mut weight = Vec::with_capacity(4 * latent * stride * size);
    for part in [next, own] {
        // The first half is not seen.
        weight.resize(weight.len() + latent * stride * size, 0.0);
        for value in 0..latent {
            weight.extend(part.iter().enumerate().map(|(at, part)| part * projection[at % size * latent + value]));
        }
    }
    of_values(weight, vec![0.0; stride * size], false, device)
}
