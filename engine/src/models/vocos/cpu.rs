//! The network on the CPU: plain memory, the frames of all chunks concatenated, each weight read once for all of them.

use auricle_kernels::activation;
use auricle_kernels::convolution::depthwise::cpu::DepthwiseConv;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::{self, ThreadPool};

use super::chunk::MelChunk;
use super::config::Config;
use crate::error::Result;
use crate::layers::{Packed, PackedConvolution, PackedNorm, apply_in_place};
use crate::weights::{Scope, Weights};

/// Taps of every convolution.
pub const TAPS: usize = 7;
/// Frames that a convolution sees to either side.
const MARGIN: usize = TAPS / 2;
/// Epsilon of every norm, as published.
pub const EPSILON: f32 = 1e-6;

/// The network.
#[derive(Debug)]
pub struct Network {
    embed: PackedConvolution,
    norm: PackedNorm,
    blocks: Vec<Block>,
    last_norm: PackedNorm,
    out: Packed,
    channels: usize,
    mels: usize,
}

/// A ConvNeXt block.
#[derive(Debug)]
struct Block {
    depthwise: DepthwiseConv,
    norm: PackedNorm,
    up: Packed,
    /// Includes the scale of the residual.
    down: Packed,
}

/// The state of an utterance's convolutions between chunks: the frames before the next output of each.
#[derive(Clone, Debug)]
pub struct State {
    mels: Kept,
    blocks: Vec<Kept>,
}

/// Frames that a convolution has not finished with, at first the zeros before an utterance.
#[derive(Clone, Debug)]
struct Kept {
    values: Vec<f32>,
    width: usize,
}

impl State {
    /// Before an utterance.
    pub fn new(config: &Config) -> Self {
        let kept = |width| Kept { values: vec![0.0; MARGIN * width], width };
        Self { mels: kept(config.n_mels), blocks: vec![kept(config.channels); config.layers] }
    }
}

impl Kept {
    /// Takes new frames in, and the zeros after the last ones. Gives the frames that the outputs which are complete see, `[outputs + 6,
    /// width]` or fewer than seven.
    fn extend(&mut self, new: &[f32], is_last: bool) -> Vec<f32> {
        let mut seen = std::mem::take(&mut self.values);
        seen.extend_from_slice(new);
        if is_last {
            seen.resize(seen.len() + MARGIN * self.width, 0.0);
        }
        let complete = (seen.len() / self.width).saturating_sub(TAPS - 1);
        self.values = seen[complete * self.width..].to_vec();
        seen
    }
}

impl Network {
    pub fn load(weights: &Weights, config: &Config) -> Result<Self> {
        let Config { channels, n_mels, .. } = *config;
        let backbone = weights.scope("backbone");
        let norm = |name: &str| PackedNorm::load_with(&backbone.scope(name), channels, EPSILON);
        let blocks = backbone.scope("convnext");
        Ok(Self {
            embed: PackedConvolution::load(&backbone.scope("embed"), n_mels, channels, TAPS)?,
            norm: norm("norm")?,
            blocks: (0..config.layers).map(|at| Block::load(&blocks.scope(at), config)).collect::<Result<_>>()?,
            last_norm: norm("final_layer_norm")?,
            out: Packed::load(&weights.scope("head").scope("out"), channels, config.n_fft + 2, Precision::F32)?,
            channels,
            mels: n_mels,
        })
    }

    /// The outputs, `[frames, n_fft + 2]`, that each chunk completes.
    pub fn forward(&self, chunks: &[MelChunk], states: &mut [&mut State]) -> Vec<Vec<f32>> {
        thread_pool::run(|pool| self.forward_on(pool, chunks, states))
    }

    fn forward_on(&self, pool: &ThreadPool, chunks: &[MelChunk], states: &mut [&mut State]) -> Vec<Vec<f32>> {
        let width = self.channels;
        let seen = states.iter_mut().zip(chunks).map(|(state, chunk)| state.mels.extend(chunk.mels, chunk.is_last));
        let seen: Vec<Vec<f32>> = seen.collect();
        let outputs = |seen: &Vec<f32>, width: usize| (seen.len() / width).saturating_sub(TAPS - 1);
        let mut lengths: Vec<usize> = seen.iter().map(|seen| outputs(seen, self.mels)).collect();
        let mut x = self.norm.forward(pool, &self.embed.forward_padded(pool, &seen));
        for (at, block) in self.blocks.iter().enumerate() {
            let mut rest = x.as_slice();
            let mut rows = Vec::with_capacity(chunks.len());
            for ((state, chunk), length) in states.iter_mut().zip(chunks).zip(&lengths) {
                let (own, after) = rest.split_at(length * width);
                rows.push(state.blocks[at].extend(own, chunk.is_last));
                rest = after;
            }
            lengths = rows.iter().map(|seen| outputs(seen, width)).collect();
            x = block.forward(pool, &rows, &lengths);
        }
        let out = self.out.forward(pool, &self.last_norm.forward(pool, &x));
        let mut values = out.into_iter();
        lengths.iter().map(|length| values.by_ref().take(length * self.out.outputs()).collect()).collect()
    }
}

impl Block {
    fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let Config { channels, inner, .. } = *config;
        let depthwise = scope.scope("dwconv");
        let weight = depthwise.values("weight", &[channels, 1, TAPS])?;
        let gamma = scope.values("gamma", &[channels])?;
        let down = scope.scope("pwconv2");
        let mut down_weight = down.values("weight", &[channels, inner])?;
        let mut down_bias = down.values("bias", &[channels])?;
        for ((row, bias), gamma) in down_weight.chunks_exact_mut(inner).zip(&mut down_bias).zip(gamma) {
            row.iter_mut().for_each(|weight| *weight *= gamma);
            *bias *= gamma;
        }
        Ok(Self {
            depthwise: DepthwiseConv::new(&weight, depthwise.values("bias", &[channels])?),
            norm: PackedNorm::load_with(&scope.scope("norm"), channels, EPSILON)?,
            up: Packed::load(&scope.scope("pwconv1"), channels, inner, Precision::F32)?,
            down: Packed::new(&down_weight, down_bias, Precision::F32),
        })
    }

    /// `rows` are the frames seen, `[length + 6, channels]`; the outputs of all are concatenated.
    fn forward(&self, pool: &ThreadPool, rows: &[Vec<f32>], lengths: &[usize]) -> Vec<f32> {
        let width = self.down.outputs();
        let mut x = Vec::with_capacity(lengths.iter().sum::<usize>() * width);
        for (seen, length) in rows.iter().zip(lengths).filter(|(_, length)| **length > 0) {
            x.extend_from_slice(&seen[MARGIN * width..(MARGIN + length) * width]);
        }
        let mut convolved = vec![0f32; x.len()];
        let mut rest = convolved.as_mut_slice();
        let mut work = Vec::with_capacity(rows.len());
        for (seen, length) in rows.iter().zip(lengths).filter(|(_, length)| **length > 0) {
            let (own, after) = rest.split_at_mut(length * width);
            work.push((seen, own));
            rest = after;
        }
        pool.for_each_item(&mut work, |_, (seen, out)| self.depthwise.forward(seen, out));
        let mut inner = self.up.forward(pool, &self.norm.forward(pool, &convolved));
        apply_in_place(pool, &mut inner, activation::gelu_in_place);
        self.down.add_to(pool, &inner, &mut x);
        x
    }
}
