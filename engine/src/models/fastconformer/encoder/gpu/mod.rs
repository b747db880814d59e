//! The encoder on a GPU: tensors, rows of a batch side by side.
//!
//! In half precision the blocks' products, their inputs, and the keys, values and convolution inputs that streams keep have 16 bits;
//! the subsampling, the residual, norms and sums have 32.

mod arena;
mod attention;
mod subsampling;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use auricle_kernels::activation::Activation;
use auricle_kernels::attention::relative::VisibleKeys;
use auricle_kernels::cache::ring::{RowFrames, StepFrames};
use auricle_kernels::cache::state::BatchSlots;
use auricle_kernels::convolution::depthwise::DepthwiseConv;
use auricle_kernels::product::gemv::Precision;
use burn::tensor::{DType, Device, Tensor, TensorData};

pub use self::arena::State;
use self::arena::{Arena, ArenaTensors, BlockTensors, SlotLayout};
use self::attention::{Attention, RelativeKeys, row_frames, visible_keys, visible_to};
use self::subsampling::Subsampling;
use super::context::{Context, position_embeddings};
use super::depthwise_weights;
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::layers::{Bias, LayerNorm, Linear, RecordedSteps, StepInputs, pack_together, parts_of, transpose};
use crate::models::fastconformer::config::{Class, EncoderConfig};
use crate::weights::Scope;

/// Mel frames of all rows up to which a step is recorded. Larger ones take a card longer than a host needs to launch them, and a recording
/// holds the memory of its step.
const MOST_RECORDED_FRAMES: usize = 4096;
/// Shapes of recorded steps that are remembered.
const MOST_SHAPES: usize = 24;

/// The encoder.
#[derive(Debug)]
pub struct Encoder {
    subsampling: Subsampling,
    blocks: Vec<Block>,
    relative_keys: RelativeKeys,
    /// Arenas of streams by look-ahead.
    arenas: Mutex<BTreeMap<usize, Arc<Arena>>>,
    config: EncoderConfig,
}

/// A conformer block: half a feed-forward, attention, convolution, half a feed-forward; each on a residual, with a norm
/// at the end.
#[derive(Clone, Debug)]
struct Block {
    feed_forward1: FeedForward,
    attention_norm: LayerNorm,
    attention: Attention,
    convolution: Convolution,
    feed_forward2: FeedForward,
    norm: LayerNorm,
}

#[derive(Clone, Debug)]
struct FeedForward {
    norm: LayerNorm,
    up: Linear,
    /// Includes the block's factor of one half.
    down: Linear,
}

#[derive(Clone, Debug)]
struct Convolution {
    norm: LayerNorm,
    gated: Linear,
    /// Parakeet's batch norm is folded in; Nemotron normalises over channels instead.
    depthwise: DepthwiseConv,
    output: Linear,
}

impl Encoder {
    /// Reads the encoder under `scope` by the names of `class`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, class: Class, config: &EncoderConfig, precision: Precision) -> Result<Self> {
        let blocks = (0..config.num_hidden_layers)
            .map(|at| Block::load(&scope.scope(format!("layers.{at}")), class, config, precision))
            .collect::<Result<_>>()?;
        Ok(Self {
            subsampling: Subsampling::load(&scope.scope("subsampling"), class, config)?,
            blocks,
            relative_keys: RelativeKeys::default(),
            arenas: Mutex::default(),
            config: config.clone(),
        })
    }

    pub fn start(&self, batch: usize, look_ahead: usize, device: &Device) -> State {
        let config = &self.config;
        let mut arenas = self.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        let arena = arenas.entry(look_ahead).or_insert_with(|| {
            let context = Context::Chunked { left: config.sliding_window - 1, look_ahead };
            let (size, heads) = (config.hidden_size, config.num_attention_heads);
            let layout = SlotLayout {
                subsampling: self.subsampling.carried(config.num_mel_bins),
                attention: [heads, context.kept(), size / heads],
                convolution: [1, config.conv_kernel_size - 1, size],
                blocks: self.blocks.len(),
                dtype: self.blocks.first().map_or(DType::F32, |block| block.attention.dtype()),
            };
            Arc::new(Arena::new(context, layout, device))
        });
        arena.open(batch)
    }

    pub fn forward(&self, features: Tensor<3>, lengths: &[usize]) -> (Tensor<3>, Vec<usize>) {
        let (x, lengths) = self.subsampling.forward(features, lengths);
        let valid: Vec<Range<usize>> = lengths.iter().map(|length| 0..*length).collect();
        let visible = whole(&valid, &x.device());
        (self.run_blocks(&self.blocks, x, &visible, 0, None), lengths)
    }

    pub fn forward_chunk(
        &self,
        features: Tensor<3>,
        valid: &[Range<usize>],
        states: &mut [&mut State],
    ) -> Result<(Tensor<3>, Vec<Range<usize>>)> {
        let none = || Error::InvalidOption("a step has at least one stream".into());
        let arena = states.first().map(|state| state.arena.clone()).ok_or_else(none)?;
        let mut memory = arena.memory();
        let [rows, chunk, _] = features.dims();
        let is_recorded = memory.is_here()
            && rows * chunk <= MOST_RECORDED_FRAMES
            && !is_cpu(&features.device())
            && valid.iter().all(|valid| *valid == (0..chunk));
        let (slots, written) = (State::slots(states), State::written(states));
        let (x, valid) = match is_recorded {
            true => self.recorded_step(features, slots, written, arena.context, &mut memory)?,
            false => {
                let slots = BatchSlots::new(slots, &features.device());
                memory.begin(slots.indices());
                let (x, valid) = self.subsampling.forward_chunk(features, valid, &mut memory.subsampling, &slots);
                let visible = visible_keys(arena.context, written.into_iter(), &valid, &x.device());
                (self.run_blocks(&self.blocks, x, &visible, arena.context.kept(), Some(&mut memory.blocks)), valid)
            }
        };
        let frames = x.dims()[1];
        for row in states.iter_mut().flat_map(|state| &mut state.rows) {
            row.written += frames;
            row.begun = true;
        }
        Ok((x, valid))
    }

    /// A step whose frames are all real, filled up to a number of rows that comes again.
    fn recorded_step(
        &self,
        features: Tensor<3>,
        mut slots: Vec<(usize, bool)>,
        mut written: Vec<(usize, usize)>,
        context: Context,
        memory: &mut ArenaTensors,
    ) -> Result<(Tensor<3>, Vec<Range<usize>>)> {
        let ([rows, chunk, bins], device) = (features.dims(), features.device());
        let (filled, spare) = (recorded_rows(rows), memory.spare());
        slots.resize(filled, (spare, false));
        written.resize(filled, (spare, 0));
        let frames = chunk / self.config.subsampling_factor;
        let pack = |slots: &[(usize, bool)], rows: &[RowFrames]| {
            pack_together([BatchSlots::pack(slots), StepFrames::pack(rows)])
        };
        let of_rows = row_frames(written.into_iter(), &vec![0..frames; filled]);
        let (integers, places) = pack(&slots, &of_rows);
        // No stream's frames are taken twice.
        let rehearse = |_: &[i32]| {
            let spare_rows = row_frames(std::iter::repeat_n((spare, 0), filled), &vec![0..frames; filled]);
            pack(&vec![(spare, false); filled], &spare_rows).0
        };
        let mut recordings = memory.recordings.take().unwrap_or_else(|| RecordedSteps::new(MOST_SHAPES));
        let inputs = StepInputs { integers, values: Some(features.unsqueeze_dim::<4>(1)) };
        let x = recordings.run([filled, chunk], inputs, &device, rehearse, |integers, features| {
            let [indices, packed] = parts_of(&integers, &places);
            let zeros = |rows: usize| Tensor::zeros([rows, chunk, bins], &device);
            let features = features.map_or_else(|| zeros(0), |features| features.squeeze_dim(1));
            let features = match features.dims()[0] {
                rows if rows < filled => Tensor::cat(vec![features, zeros(filled - rows)], 0),
                _ => features,
            };
            let slots = BatchSlots::with_packed(slots.clone(), indices);
            let whole = vec![0..chunk; filled];
            let (x, _) = self.subsampling.forward_chunk(features, &whole, &mut memory.subsampling, &slots);
            let visible = visible_to(context, StepFrames::with_packed(of_rows.clone(), packed));
            self.run_blocks(&self.blocks, x, &visible, context.kept(), Some(&mut memory.blocks))
        });
        memory.recordings = Some(recordings);
        Ok((x?.narrow(0, 0, rows), vec![0..frames; rows]))
    }

    pub fn stages(&self, features: Tensor<3>, lengths: &[usize], look_ahead: Option<usize>) -> [Tensor<3>; 2] {
        let (device, first) = (features.device(), &self.blocks[..1]);
        let Some(look_ahead) = look_ahead else {
            let (x, lengths) = self.subsampling.forward(features, lengths);
            let valid: Vec<_> = lengths.iter().map(|n| 0..*n).collect();
            return [x.clone(), self.run_blocks(first, x, &whole(&valid, &device), 0, None)];
        };
        let mut state = self.start(lengths.len(), look_ahead, &device);
        let written = State::written(&[&mut state]);
        let slots = BatchSlots::new(State::slots(&[&mut state]), &device);
        let lead = self.config.lead();
        let valid: Vec<_> = lengths.iter().map(|n| lead..lead + n).collect();
        let mut memory = state.arena.memory();
        memory.begin(slots.indices());
        let (x, valid) = self.subsampling.forward_chunk(features, &valid, &mut memory.subsampling, &slots);
        let visible = visible_keys(state.arena.context, written.into_iter(), &valid, &device);
        let kept = state.arena.context.kept();
        [x.clone(), self.run_blocks(first, x, &visible, kept, Some(&mut memory.blocks[..1]))]
    }

    /// Runs a range of the blocks over `x` `[batch, frames, hidden]`; `states` are those of the range, with so many `kept` frames.
    fn run_blocks(
        &self,
        blocks: &[Block],
        mut x: Tensor<3>,
        visible: &VisibleKeys,
        kept: usize,
        mut states: Option<&mut [BlockTensors]>,
    ) -> Tensor<3> {
        let device = x.device();
        let [_, frames, size] = x.dims();
        let relative_keys = self.relative_keys.get((kept, frames), || {
            let values = position_embeddings(kept + frames - 1, frames - 1, size);
            let positions = TensorData::new(values, [kept + 2 * frames - 1, size]);
            let positions = Tensor::<2>::from_data(positions, &device);
            self.blocks.iter().map(|block| block.attention.relative_positions(positions.clone())).collect()
        });
        if self.config.scale_input {
            x = x * (size as f32).sqrt();
        }
        let Some(first) = blocks.first() else { return x };
        let mut normed = first.feed_forward1.norm.forward(x.clone());
        for (at, (block, relative_keys)) in blocks.iter().zip(&relative_keys).enumerate() {
            let mut state = states.as_mut().map(|states| &mut states[at]);
            let inputs = block.feed_forward1.forward([x, normed], &block.attention_norm);
            let past = state.as_deref_mut();
            let inputs = block.attention.forward(inputs, &block.convolution.norm, relative_keys, visible, past);
            let inputs = block.convolution.forward(inputs, &block.feed_forward2.norm, &visible.frames, state);
            [x, normed] = match blocks.get(at + 1) {
                Some(next) => block.feed_forward2.forward_normed_twice(inputs, [&block.norm, &next.feed_forward1.norm]),
                // The norm of the last block is its output.
                None => block.feed_forward2.forward(inputs, &block.norm),
            };
        }
        normed.cast(DType::F32)
    }
}

impl Block {
    fn load(scope: &Scope, class: Class, config: &EncoderConfig, precision: Precision) -> Result<Self> {
        let norm = |name: &str| LayerNorm::load(&scope.scope(name), config.hidden_size);
        let feed_forward = |name: &str, of: &str| FeedForward::load(&scope.scope(name), norm(of)?, config, precision);
        Ok(Self {
            feed_forward1: feed_forward("feed_forward1", "norm_feed_forward1")?,
            attention_norm: norm("norm_self_att")?,
            attention: Attention::load(&scope.scope("self_attn"), config, precision)?,
            convolution: Convolution::load(&scope.scope("conv"), norm("norm_conv")?, class, config, precision)?,
            feed_forward2: feed_forward("feed_forward2", "norm_feed_forward2")?,
            norm: norm("norm_out")?,
        })
    }
}

impl FeedForward {
    fn load(scope: &Scope, norm: LayerNorm, config: &EncoderConfig, precision: Precision) -> Result<Self> {
        let (size, inner) = (config.hidden_size, config.intermediate_size);
        let bias = Bias::from(config.attention_bias);
        Ok(Self {
            norm,
            up: Linear::load(&scope.scope("linear1"), size, inner, bias)?.with_precision(precision),
            down: Linear::load_scaled(&scope.scope("linear2"), &[size, inner], bias, 0.5)?.with_precision(precision),
        })
    }

    /// The input of the module's second half.
    fn inner(&self, normed: Tensor<3>) -> Tensor<3> {
        self.up.forward_activated(normed, Activation::Silu)
    }

    /// Adds the module's output for `normed` `[batch, frames, hidden]` to `x`: the sum, and its `norm`.
    fn forward(&self, [x, normed]: [Tensor<3>; 2], norm: &LayerNorm) -> [Tensor<3>; 2] {
        self.down.forward_normed(self.inner(normed), x, norm)
    }

    /// As [`FeedForward::forward`]: the first norm of the sum, and the second norm of that.
    fn forward_normed_twice(&self, [x, normed]: [Tensor<3>; 2], norms: [&LayerNorm; 2]) -> [Tensor<3>; 2] {
        self.down.forward_normed_twice(self.inner(normed), x, norms)
    }
}

impl Convolution {
    fn load(
        scope: &Scope,
        norm: LayerNorm,
        class: Class,
        config: &EncoderConfig,
        precision: Precision,
    ) -> Result<Self> {
        let (size, kernel) = (config.hidden_size, config.conv_kernel_size);
        let bias = Bias::from(config.convolution_bias);
        let (depthwise, depthwise_bias) = depthwise_weights(scope, class, config)?;
        let channel_norm = class.is_streaming().then(|| LayerNorm::load(&scope.scope("norm"), size)).transpose()?;
        let device = scope.device();
        let by_tap = TensorData::new(transpose(&depthwise, size, kernel), [kernel, size]);
        let depthwise_bias = TensorData::new(depthwise_bias.unwrap_or_else(|| vec![0.0; size]), [size]);
        Ok(Self {
            norm,
            gated: Linear::load_pointwise(&scope.scope("pointwise_conv1"), size, 2 * size, bias)?
                .with_precision(precision),
            depthwise: DepthwiseConv {
                weight: Tensor::from_data(by_tap, device),
                bias: Tensor::from_data(depthwise_bias, device),
                norm: channel_norm.map(|norm| norm.weights()),
            },
            output: Linear::load_pointwise(&scope.scope("pointwise_conv2"), size, size, bias)?
                .with_precision(precision),
        })
    }

    /// Adds the module's output for `normed` `[batch, frames, hidden]` to `x`: the sum, and its `norm`. `past` makes the
    /// convolution causal, and is advanced.
    fn forward(
        &self,
        [x, normed]: [Tensor<3>; 2],
        norm: &LayerNorm,
        frames: &StepFrames,
        past: Option<&mut BlockTensors>,
    ) -> [Tensor<3>; 2] {
        let gated = self.gated.forward_activated(normed, Activation::Glu);
        let ring = past.as_ref().and_then(|past| past.convolved());
        let convolved = self.depthwise.forward(gated.clone(), ring.as_ref(), frames);
        if let (Some(past), Some(ring)) = (past, ring) {
            past.store_convolved(ring, frames, gated.unsqueeze_dim(1));
        }
        self.output.forward_normed(convolved, x, norm)
    }
}

/// The keys of whole utterances, which have no streams.
fn whole(valid: &[Range<usize>], device: &Device) -> VisibleKeys {
    visible_keys(Context::Full, valid.iter().map(|_| (0, 0)), valid, device)
}

/// Rows of a recorded step for so many: at most an eighth more, so that few numbers occur.
fn recorded_rows(rows: usize) -> usize {
    rows.next_multiple_of((rows.next_power_of_two() / 8).max(1))
}
