//! Log-mel frames to the frames that the language model reads: convolutions over chunks of a second, blocks over windows, and the
//! projector.

use auricle_kernels::activation::{Activation, gelu};
use auricle_kernels::product::gemv::Precision;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Tensor, TensorData, module};

use super::config::{CHUNK_FRAMES, CHUNK_TOKENS, Config};
use crate::device::is_cpu;
use crate::error::Result;
use crate::layers::{Bias, LayerNorm, Linear};
use crate::models::whisper::{Block, BlockForm};
use crate::weights::Weights;

/// Width of the convolutions, each of which halves frames and bins.
const KERNEL: usize = 3;
const CONVOLUTIONS: usize = 3;

/// The encoder and its projector.
pub struct Encoder {
    convolutions: Vec<Convolution>,
    /// Takes the bins of a channel side by side.
    projection: Linear,
    /// `[13, size]`
    positions: Tensor<2>,
    blocks: Vec<Block>,
    norm: LayerNorm,
    projector: [Linear; 2],
    window: usize,
}

struct Convolution {
    /// `[channels, inputs, 3, 3]`
    weight: Tensor<4>,
    bias: Tensor<1>,
}

impl Convolution {
    /// Applies the convolution and its activation: `[chunks, inputs, bins, frames]` to half the bins and frames.
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let strided = ConvOptions::new([2, 2], [1, 1], [1, 1], 1);
        gelu(module::conv2d(x, self.weight.clone(), Some(self.bias.clone()), strided))
    }
}

impl Encoder {
    /// Reads the encoder and the projector. 8 bits are for the CPU alone, 16 for GPUs.
    ///
    /// # Errors
    /// As [`crate::weights::Scope::values`].
    pub fn load(weights: &Weights, config: &Config, precision: Precision) -> Result<Self> {
        let (tower, channels, size) = (weights.scope("model.audio_tower"), config.channels, config.encoder.size);
        let device = tower.device().clone();
        let precision = match precision {
            Precision::F16 => precision,
            _ if is_cpu(&device) => precision,
            _ => Precision::F32,
        };
        let convolutions = (0..CONVOLUTIONS).map(|at| {
            let scope = tower.scope(format!("conv2d{}", at + 1));
            let inputs = if at == 0 { 1 } else { channels };
            let weight = scope.tensor("weight", [channels, inputs, KERNEL, KERNEL])?;
            Ok(Convolution { weight, bias: scope.tensor("bias", [channels])? })
        });
        let bins = (0..CONVOLUTIONS).fold(config.encoder.mels, |bins, _| bins.div_ceil(2));
        let blocks = (0..config.encoder.layers).map(|at| {
            Block::load(&tower.scope(format!("layers.{at}")), &BlockForm::QWEN3_ASR, &config.encoder, precision)
        });
        let projector = weights.scope("model.multi_modal_projector");
        let projector = |name: &str, outputs: usize| {
            Linear::load_with(&projector.scope(name), [outputs, size], Bias::With, 1.0, precision)
        };
        Ok(Self {
            convolutions: convolutions.collect::<Result<_>>()?,
            projection: Linear::load_with(
                &tower.scope("conv_out"),
                [size, channels * bins],
                Bias::Without,
                1.0,
                precision,
            )?,
            positions: Tensor::from_data(TensorData::new(positions(size), [CHUNK_TOKENS, size]), &device),
            blocks: blocks.collect::<Result<_>>()?,
            norm: LayerNorm::load(&tower.scope("ln_post"), size)?,
            projector: [projector("linear_1", size)?, projector("linear_2", config.decoder.size)?],
            window: config.window,
        })
    }

    /// The first block's input: `features` `[frames, mels]` of one recording to `[tokens, size]`.
    pub fn embed(&self, features: Tensor<2>) -> Tensor<2> {
        let [frames, mels] = features.dims();
        let chunks = frames.div_ceil(CHUNK_FRAMES);
        let missing = chunks * CHUNK_FRAMES - frames;
        // Convolutions reach over the end of a recording into zeros.
        let features = match missing {
            0 => features,
            _ => Tensor::cat(vec![features.clone(), Tensor::zeros([missing, mels], &features.device())], 0),
        };
        let x = features.reshape([chunks, CHUNK_FRAMES, mels]).swap_dims(1, 2).unsqueeze_dim::<4>(1);
        let x = self.convolutions.iter().fold(x, |x, convolution| convolution.forward(x));
        let [_, channels, bins, steps] = x.dims();
        let x = x.permute([0, 3, 1, 2]).reshape([chunks, steps, channels * bins]);
        let x = self.projection.forward(x).cast(burn::tensor::DType::F32) + self.positions.clone().unsqueeze_dim(0);
        let size = x.dims()[2];
        x.reshape([chunks * steps, size]).narrow(0, 0, tokens(frames))
    }

    /// Runs a range of the blocks over `[tokens, size]`, each window of them by itself.
    pub fn run(&self, x: Tensor<2>, blocks: std::ops::Range<usize>) -> Tensor<2> {
        let [count, size] = x.dims();
        let whole = count / self.window * self.window;
        let apply = |x: Tensor<3>| {
            let x = self.blocks[blocks.clone()].iter().fold(x, |x, block| block.forward(x));
            let [rows, count, size] = x.dims();
            x.reshape([rows * count, size])
        };
        let mut parts = Vec::with_capacity(2);
        if whole > 0 {
            parts.push(apply(x.clone().narrow(0, 0, whole).reshape([whole / self.window, self.window, size])));
        }
        if whole < count {
            parts.push(apply(x.narrow(0, whole, count - whole).unsqueeze_dim(0)));
        }
        Tensor::cat(parts, 0)
    }

    /// Encodes `features` `[frames, mels]` of one recording to `[tokens, size]`.
    pub fn forward(&self, features: Tensor<2>) -> Tensor<2> {
        self.norm.forward(self.run(self.embed(features), 0..self.blocks.len()))
    }

    /// Encoder frames to those of the language model: `[tokens, size]` to `[tokens, hidden]`.
    pub fn project(&self, x: Tensor<2>) -> Tensor<2> {
        let [first, second] = &self.projector;
        second.forward(first.forward_activated(x, Activation::Gelu)).cast(burn::tensor::DType::F32)
    }
}

/// Encoder frames of this many mel frames.
pub fn tokens(frames: usize) -> usize {
    let last = frames % CHUNK_FRAMES;
    frames / CHUNK_FRAMES * CHUNK_TOKENS + (0..CONVOLUTIONS).fold(last, |frames, _| frames.div_ceil(2))
}

/// Positions within a chunk, sines and then cosines: `[13, size]`.
fn positions(size: usize) -> Vec<f32> {
    let half = size / 2;
    let step = (10_000f64.ln() / (half as f64 - 1.0)) as f32;
    let waves: Vec<f32> = (0..half).map(|at| (-step * at as f32).exp()).collect();
    (0..CHUNK_TOKENS)
        .flat_map(|position| {
            let angles = waves.iter().map(move |wave| position as f32 * wave);
            angles.clone().map(f32::sin).chain(angles.map(f32::cos)).collect::<Vec<f32>>()
        })
        .collect()
}
