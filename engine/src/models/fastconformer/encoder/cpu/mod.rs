//! The encoder on the CPU: plain memory, frames of all rows concatenated, each weight read once for all of them.

mod attention;
mod subsampling;

use std::ops::Range;

use auricle_kernels::activation;
use auricle_kernels::convolution::depthwise::cpu::DepthwiseConv;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::{self, ThreadPool};
use burn::tensor::{Tensor, TensorData};

use self::attention::{Attention, RelativeKeyCache, SlidingKvCache};
use self::subsampling::{Subsampling, SubsamplingState};
use super::context::Context;
use super::depthwise_weights;
use crate::error::{Error, Result};
use crate::layers::{Bias, Packed, PackedNorm, apply_in_place};
use crate::models::fastconformer::config::{Class, EncoderConfig};
use crate::weights::Scope;

/// The encoder.
#[derive(Debug)]
pub struct Encoder {
    subsampling: Subsampling,
    blocks: Vec<Block>,
    positions: RelativeKeyCache,
    config: EncoderConfig,
}

/// State that the rows of streams carry from chunk to chunk.
#[derive(Clone, Debug)]
pub struct State {
    context: Context,
    rows: Vec<RowState>,
}

#[derive(Clone, Debug)]
struct RowState {
    subsampling: SubsamplingState,
    blocks: Vec<BlockState>,
}

#[derive(Clone, Debug)]
struct BlockState {
    past: SlidingKvCache,
    /// `[kernel - 1, hidden]`: the last inputs of the depthwise convolution.
    convolution: Vec<f32>,
}

/// A conformer block: half a feed-forward, attention, convolution, half a feed-forward; each on a residual, with a norm
/// at the end.
#[derive(Debug)]
struct Block {
    feed_forward1: FeedForward,
    attention_norm: PackedNorm,
    attention: Attention,
    convolution: Convolution,
    feed_forward2: FeedForward,
    norm: PackedNorm,
}

#[derive(Debug)]
struct FeedForward {
    norm: PackedNorm,
    up: Packed,
    /// Includes the block's factor of one half.
    down: Packed,
}

#[derive(Debug)]
struct Convolution {
    norm: PackedNorm,
    gated: Packed,
    /// Parakeet's batch norm is folded in.
    depthwise: DepthwiseConv,
    /// Nemotron normalises over channels instead.
    channel_norm: Option<PackedNorm>,
    output: Packed,
}

/// Layout of a step's frames: `rows` of `frames` each, of which `valid` are real.
struct StepLayout<'a> {
    frames: usize,
    size: usize,
    valid: &'a [Range<usize>],
    context: Context,
}

impl State {
    pub fn bytes(&self) -> usize {
        let block = |block: &BlockState| block.past.bytes() + size_of_val(block.convolution.as_slice());
        let row = |row: &RowState| row.subsampling.bytes() + row.blocks.iter().map(block).sum::<usize>();
        self.rows.iter().map(row).sum()
    }
}

impl Encoder {
    pub fn load(scope: &Scope, class: Class, config: &EncoderConfig, precision: Precision) -> Result<Self> {
        let blocks = (0..config.num_hidden_layers)
            .map(|at| Block::load(&scope.scope(format!("layers.{at}")), class, config, precision))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            subsampling: Subsampling::load(&scope.scope("subsampling"), class, config)?,
            blocks,
            positions: RelativeKeyCache::default(),
            config: config.clone(),
        })
    }

    pub fn start(&self, batch: usize, look_ahead: usize) -> State {
        let context = Context::Chunked { left: self.config.sliding_window - 1, look_ahead };
        State { context, rows: vec![self.row(); batch] }
    }

    /// State of a row before its first frame.
    fn row(&self) -> RowState {
        let block = |block: &Block| BlockState {
            past: block.attention.start(),
            convolution: vec![0.0; (self.config.conv_kernel_size - 1) * self.config.hidden_size],
        };
        RowState { subsampling: self.subsampling.start(), blocks: self.blocks.iter().map(block).collect() }
    }

    pub fn forward(&self, features: Tensor<3>, lengths: &[usize]) -> Result<(Tensor<3>, Vec<usize>)> {
        let lengths: Vec<_> = lengths.iter().map(|length| 0..*length).collect();
        let mut rows = vec![self.row(); lengths.len()];
        let (x, valid) = self.run(features, &lengths, Context::Full, &mut rows.iter_mut().collect::<Vec<_>>())?;
        Ok((x, valid.into_iter().map(|valid| valid.end).collect()))
    }

    pub fn forward_chunk(
        &self,
        features: Tensor<3>,
        valid: &[Range<usize>],
        states: &mut [&mut State],
    ) -> Result<(Tensor<3>, Vec<Range<usize>>)> {
        let none = || Error::InvalidOption("a step has at least one stream".into());
        let context = states.first().ok_or_else(none)?.context;
        let mut rows: Vec<&mut RowState> = states.iter_mut().flat_map(|state| &mut state.rows).collect();
        self.run(features, valid, context, &mut rows)
    }

    pub fn stages(&self, features: Tensor<3>, lengths: &[usize], look_ahead: Option<usize>) -> Result<[Tensor<3>; 2]> {
        let (context, lead) = match look_ahead {
            None => (Context::Full, 0),
            Some(look_ahead) => (self.start(0, look_ahead).context, self.config.lead()),
        };
        let mut rows = vec![self.row(); lengths.len()];
        let mut rows: Vec<&mut RowState> = rows.iter_mut().collect();
        let valid: Vec<_> = lengths.iter().map(|length| lead..lead + length).collect();
        let features = MelFrames::read(features)?;
        thread_pool::run(|pool| {
            let (subsampled, valid) = self.subsampled(pool, features, &valid, &mut rows);
            let mut x = subsampled.clone();
            let shape = StepLayout::of(&x, &valid, self.config.hidden_size, context);
            self.run_blocks(pool, &mut x, &shape, &mut rows, 1);
            Ok([shape.tensor(subsampled), shape.tensor(x)])
        })
    }

    fn run(
        &self,
        features: Tensor<3>,
        valid: &[Range<usize>],
        context: Context,
        rows: &mut [&mut RowState],
    ) -> Result<(Tensor<3>, Vec<Range<usize>>)> {
        let features = MelFrames::read(features)?;
        Ok(thread_pool::run(|pool| {
            let (mut x, valid) = self.subsampled(pool, features, valid, rows);
            let shape = StepLayout::of(&x, &valid, self.config.hidden_size, context);
            self.run_blocks(pool, &mut x, &shape, rows, self.blocks.len());
            (shape.tensor(x), valid)
        }))
    }

    /// Encoder frames before the blocks, and the range of real ones in each row.
    fn subsampled(
        &self,
        pool: &ThreadPool,
        features: MelFrames,
        valid: &[Range<usize>],
        rows: &mut [&mut RowState],
    ) -> (Vec<f32>, Vec<Range<usize>>) {
        let mut carries: Vec<&mut SubsamplingState> = rows.iter_mut().map(|row| &mut row.subsampling).collect();
        self.subsampling.forward(pool, features.values, features.frames, valid, &mut carries)
    }

    fn run_blocks(
        &self,
        pool: &ThreadPool,
        x: &mut Vec<f32>,
        shape: &StepLayout,
        rows: &mut [&mut RowState],
        count: usize,
    ) {
        if self.config.scale_input {
            let scale = (shape.size as f32).sqrt();
            x.iter_mut().for_each(|x| *x *= scale);
        }
        let attentions = self.blocks.iter().map(|block| &block.attention);
        let positions = self.positions.get(shape.context.reach(shape.frames), attentions, pool);
        for (at, (block, positions)) in self.blocks.iter().zip(positions.iter()).take(count).enumerate() {
            let mut states: Vec<&mut BlockState> = rows.iter_mut().map(|row| &mut row.blocks[at]).collect();
            block.feed_forward1.add_to(pool, x);
            let normed = block.attention_norm.forward(pool, x);
            let mut pasts: Vec<&mut SlidingKvCache> = states.iter_mut().map(|state| &mut state.past).collect();
            block.attention.add_to(pool, &normed, positions, shape, &mut pasts, x);
            let mut pasts: Vec<&mut Vec<f32>> = states.iter_mut().map(|state| &mut state.convolution).collect();
            block.convolution.add_to(pool, shape, &mut pasts, x);
            block.feed_forward2.add_to(pool, x);
            *x = block.norm.forward(pool, x);
        }
    }
}

/// Mel frames: `[rows, frames, mels]`.
struct MelFrames {
    values: Vec<f32>,
    frames: usize,
}

impl MelFrames {
    fn read(tensor: Tensor<3>) -> Result<Self> {
        let frames = tensor.dims()[1];
        Ok(Self { values: crate::device::read(tensor)?, frames })
    }
}

impl<'a> StepLayout<'a> {
    fn of(x: &[f32], valid: &'a [Range<usize>], size: usize, context: Context) -> Self {
        Self { frames: x.len() / (valid.len() * size).max(1), size, valid, context }
    }

    fn tensor(&self, x: Vec<f32>) -> Tensor<3> {
        let shape = [self.valid.len(), self.frames, self.size];
        Tensor::from_data(TensorData::new(x, shape), &burn::tensor::Device::flex())
    }
}

impl Block {
    fn load(scope: &Scope, class: Class, config: &EncoderConfig, precision: Precision) -> Result<Self> {
        let norm = |name: &str| PackedNorm::load(&scope.scope(name), config.hidden_size);
        Ok(Self {
            feed_forward1: FeedForward::load(
                &scope.scope("feed_forward1"),
                norm("norm_feed_forward1")?,
                config,
                precision,
            )?,
            attention_norm: norm("norm_self_att")?,
            attention: Attention::load(&scope.scope("self_attn"), config, precision)?,
            convolution: Convolution::load(&scope.scope("conv"), norm("norm_conv")?, class, config, precision)?,
            feed_forward2: FeedForward::load(
                &scope.scope("feed_forward2"),
                norm("norm_feed_forward2")?,
                config,
                precision,
            )?,
            norm: norm("norm_out")?,
        })
    }
}

impl FeedForward {
    fn load(scope: &Scope, norm: PackedNorm, config: &EncoderConfig, precision: Precision) -> Result<Self> {
        let (size, inner) = (config.hidden_size, config.intermediate_size);
        let bias = Bias::from(config.attention_bias);
        Ok(Self {
            norm,
            up: Packed::load_for_rows(&scope.scope("linear1"), &[inner, size], bias, 1.0, precision)?,
            down: Packed::load_for_rows(&scope.scope("linear2"), &[size, inner], bias, 0.5, precision)?,
        })
    }

    /// Adds its output, already halved, to frames `[.., hidden]`.
    fn add_to(&self, pool: &ThreadPool, x: &mut [f32]) {
        let mut inner = self.up.forward(pool, &self.norm.forward(pool, x));
        apply_in_place(pool, &mut inner, activation::silu_in_place);
        self.down.add_to(pool, &inner, x);
    }
}

impl Convolution {
    fn load(
        scope: &Scope,
        norm: PackedNorm,
        class: Class,
        config: &EncoderConfig,
        precision: Precision,
    ) -> Result<Self> {
        let size = config.hidden_size;
        let bias = Bias::from(config.convolution_bias);
        let (weight, depthwise_bias) = depthwise_weights(scope, class, config)?;
        let channel_norm = class.is_streaming().then(|| PackedNorm::load(&scope.scope("norm"), size)).transpose()?;
        Ok(Self {
            norm,
            gated: Packed::load_for_rows(&scope.scope("pointwise_conv1"), &[2 * size, size, 1], bias, 1.0, precision)?,
            depthwise: DepthwiseConv::new(&weight, depthwise_bias.unwrap_or_else(|| vec![0.0; size])),
            channel_norm,
            output: Packed::load_for_rows(&scope.scope("pointwise_conv2"), &[size, size, 1], bias, 1.0, precision)?,
        })
    }

    /// Adds its output to frames. Frames that are not real count as zero. In a stream the convolution is causal and
    /// `pasts` are advanced; otherwise it covers as many frames after a frame as before it.
    fn add_to(&self, pool: &ThreadPool, shape: &StepLayout, pasts: &mut [&mut Vec<f32>], x: &mut [f32]) {
        let StepLayout { frames, size, valid, context } = *shape;
        let gated = self.gated.forward(pool, &self.norm.forward(pool, x));
        let around = (self.depthwise.taps() - 1) * size;
        let mut out = vec![0f32; x.len()];
        let mut work: Vec<_> = gated
            .chunks_exact(2 * frames * size)
            .zip(out.chunks_exact_mut(frames * size))
            .zip(valid.iter().zip(pasts))
            .collect();
        pool.for_each_item(&mut work, |_, ((gated, out), (valid, past))| {
            let before = if context == Context::Full { around / 2 } else { around };
            let mut seen = vec![0f32; around + frames * size];
            let real = valid.start * size..valid.end.min(frames) * size;
            if !real.is_empty() {
                let to = &mut seen[before + real.start..before + real.end];
                activation::glu_rows(&gated[2 * real.start..2 * real.end], size, to);
            }
            if context != Context::Full {
                seen[..around].copy_from_slice(past);
                past.copy_from_slice(&seen[frames * size..]);
            }
            self.depthwise.forward(&seen, out);
        });
        let mut out = match &self.channel_norm {
            Some(norm) => norm.forward(pool, &out),
            None => out,
        };
        apply_in_place(pool, &mut out, activation::silu_in_place);
        self.output.add_to(pool, &out, x);
    }
}
