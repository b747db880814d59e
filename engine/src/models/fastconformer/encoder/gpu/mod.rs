//! The encoder on a GPU: tensors, rows of a batch side by side.

mod arena;
mod attention;
mod subsampling;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use auricle_kernels::activation;
use auricle_kernels::state_cache::BatchSlots;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, TensorData, module};

pub use self::arena::State;
use self::arena::{Arena, BlockTensors, SlotLayout, StateTensor};
use self::attention::{Attention, RelativeKeys, mask};
use self::subsampling::Subsampling;
use super::context::{Context, position_embeddings};
use super::depthwise_weights;
use crate::error::{Error, Result};
use crate::layers::{Bias, LayerNorm, Linear};
use crate::models::fastconformer::config::{Class, EncoderConfig};
use crate::weights::Scope;

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
    /// `[hidden, 1, kernel]`; Parakeet's batch norm is folded in.
    depthwise: Tensor<3>,
    depthwise_bias: Option<Tensor<1>>,
    /// Nemotron normalises over channels instead.
    channel_norm: Option<LayerNorm>,
    output: Linear,
    kernel: usize,
}

impl Encoder {
    /// Reads the encoder under `scope` by the names of `class`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, class: Class, config: &EncoderConfig) -> Result<Self> {
        let blocks = (0..config.num_hidden_layers)
            .map(|at| Block::load(&scope.scope(format!("layers.{at}")), class, config))
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
            };
            Arc::new(Arena::new(context, layout, device))
        });
        arena.open(batch)
    }

    pub fn forward(&self, features: Tensor<3>, lengths: &[usize]) -> (Tensor<3>, Vec<usize>) {
        let (x, lengths) = self.subsampling.forward(features, lengths);
        let valid: Vec<Range<usize>> = lengths.iter().map(|length| 0..*length).collect();
        let x = self.run_blocks(&self.blocks, x, Context::Full, &valid, &vec![0; valid.len()], None);
        (x, lengths)
    }

    pub fn forward_chunk(
        &self,
        features: Tensor<3>,
        valid: &[Range<usize>],
        states: &mut [&mut State],
    ) -> Result<(Tensor<3>, Vec<Range<usize>>)> {
        let none = || Error::InvalidOption("a step has at least one stream".into());
        let arena = states.first().map(|state| state.arena.clone()).ok_or_else(none)?;
        let slots = State::slots(states, &features.device());
        let cached: Vec<usize> = states.iter().flat_map(|state| state.rows.iter().map(|row| row.cached)).collect();
        let mut memory = arena.memory();
        memory.begin(slots.indices());
        let (x, valid) = self.subsampling.forward_chunk(features, valid, &mut memory.subsampling, &slots);
        let frames = x.dims()[1];
        let x = self.run_blocks(&self.blocks, x, arena.context, &valid, &cached, Some((&mut memory.blocks, &slots)));
        for row in states.iter_mut().flat_map(|state| &mut state.rows) {
            row.cached = (row.cached + frames).min(arena.context.kept());
            row.begun = true;
        }
        Ok((x, valid))
    }

    pub fn stages(&self, features: Tensor<3>, lengths: &[usize], look_ahead: Option<usize>) -> [Tensor<3>; 2] {
        let (device, first) = (features.device(), &self.blocks[..1]);
        let none = vec![0; lengths.len()];
        let Some(look_ahead) = look_ahead else {
            let (x, lengths) = self.subsampling.forward(features, lengths);
            let valid: Vec<_> = lengths.iter().map(|n| 0..*n).collect();
            return [x.clone(), self.run_blocks(first, x, Context::Full, &valid, &none, None)];
        };
        let mut state = self.start(lengths.len(), look_ahead, &device);
        let slots = State::slots(&[&mut state], &device);
        let lead = self.config.lead();
        let valid: Vec<_> = lengths.iter().map(|n| lead..lead + n).collect();
        let mut memory = state.arena.memory();
        memory.begin(slots.indices());
        let (x, valid) = self.subsampling.forward_chunk(features, &valid, &mut memory.subsampling, &slots);
        let states = Some((&mut memory.blocks[..1], &slots));
        [x.clone(), self.run_blocks(first, x, state.arena.context, &valid, &none, states)]
    }

    /// Runs a range of the blocks over `x` `[batch, frames, hidden]`; `states` are those of the range.
    fn run_blocks(
        &self,
        blocks: &[Block],
        mut x: Tensor<3>,
        context: Context,
        valid: &[Range<usize>],
        cached: &[usize],
        mut states: Option<(&mut [BlockTensors], &BatchSlots)>,
    ) -> Tensor<3> {
        let device = x.device();
        let [_, frames, size] = x.dims();
        let kept = context.kept();
        let relative_keys = self.relative_keys.get((kept, frames), || {
            let values = position_embeddings(kept + frames - 1, frames - 1, size);
            let positions = TensorData::new(values, [kept + 2 * frames - 1, size]);
            let positions = Tensor::<2>::from_data(positions, &device);
            self.blocks.iter().map(|block| block.attention.relative_keys(positions.clone())).collect()
        });
        let mask = mask(context, frames, cached, valid, &device);
        let silence = frame_mask(valid, frames, &device);
        if self.config.scale_input {
            x = x * (size as f32).sqrt();
        }
        for (at, (block, relative_keys)) in blocks.iter().zip(&relative_keys).enumerate() {
            let mut state = states.as_mut().map(|(states, slots)| (&mut states[at], *slots));
            let x1 = x.clone() + block.feed_forward1.forward(x);
            let past = state.as_mut().map(|(state, slots)| (&mut state.keys, &mut state.values, *slots));
            let attended =
                block.attention.forward(block.attention_norm.forward(x1.clone()), relative_keys, mask.as_ref(), past);
            let x2 = x1 + attended;
            let past = state.map(|(state, slots)| (&mut state.convolution, slots));
            let x3 = x2.clone() + block.convolution.forward(x2, silence.as_ref(), past);
            x = block.norm.forward(x3.clone() + block.feed_forward2.forward(x3));
        }
        x
    }
}

impl Block {
    fn load(scope: &Scope, class: Class, config: &EncoderConfig) -> Result<Self> {
        let norm = |name: &str| LayerNorm::load(&scope.scope(name), config.hidden_size);
        Ok(Self {
            feed_forward1: FeedForward::load(&scope.scope("feed_forward1"), norm("norm_feed_forward1")?, config)?,
            attention_norm: norm("norm_self_att")?,
            attention: Attention::load(&scope.scope("self_attn"), config)?,
            convolution: Convolution::load(&scope.scope("conv"), norm("norm_conv")?, class, config)?,
            feed_forward2: FeedForward::load(&scope.scope("feed_forward2"), norm("norm_feed_forward2")?, config)?,
            norm: norm("norm_out")?,
        })
    }
}

impl FeedForward {
    fn load(scope: &Scope, norm: LayerNorm, config: &EncoderConfig) -> Result<Self> {
        let (size, inner) = (config.hidden_size, config.intermediate_size);
        let bias = Bias::from(config.attention_bias);
        Ok(Self {
            norm,
            up: Linear::load(&scope.scope("linear1"), size, inner, bias)?,
            down: Linear::load_scaled(&scope.scope("linear2"), &[size, inner], bias, 0.5)?,
        })
    }

    /// Applies the module to `[batch, frames, hidden]`; the output has the same shape and is already halved.
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        self.down.forward(activation::silu(self.up.forward(self.norm.forward(x))))
    }
}

impl Convolution {
    fn load(scope: &Scope, norm: LayerNorm, class: Class, config: &EncoderConfig) -> Result<Self> {
        let (size, kernel) = (config.hidden_size, config.conv_kernel_size);
        let bias = Bias::from(config.convolution_bias);
        let (depthwise, depthwise_bias) = depthwise_weights(scope, class, config)?;
        let channel_norm = class.is_streaming().then(|| LayerNorm::load(&scope.scope("norm"), size)).transpose()?;
        let device = scope.device();
        Ok(Self {
            norm,
            gated: Linear::load_pointwise(&scope.scope("pointwise_conv1"), size, 2 * size, bias)?,
            depthwise: Tensor::from_data(TensorData::new(depthwise, [size, 1, kernel]), device),
            depthwise_bias: depthwise_bias.map(|b| Tensor::from_data(TensorData::new(b, [size]), device)),
            channel_norm,
            output: Linear::load_pointwise(&scope.scope("pointwise_conv2"), size, size, bias)?,
            kernel,
        })
    }

    /// Applies the module to `[batch, frames, hidden]`; the output has the same shape. `silence` `[batch, frames, 1]`
    /// is 0 at frames that are not real; `past` `[slots, 1, kernel - 1, hidden]` makes the convolution causal and is
    /// advanced.
    fn forward(
        &self,
        x: Tensor<3>,
        silence: Option<&Tensor<3>>,
        past: Option<(&mut StateTensor, &BatchSlots)>,
    ) -> Tensor<3> {
        let mut x = activation::glu(self.gated.forward(self.norm.forward(x)));
        if let Some(silence) = silence {
            x = x * silence.clone();
        }
        let size = x.dims()[2];
        let padding = match past {
            Some((past, slots)) => {
                x = past.follow(slots, x.unsqueeze_dim(1)).squeeze_dim(1);
                0
            }
            None => self.kernel / 2,
        };
        let options = ConvOptions::new([1], [padding], [1], size);
        let x = module::conv1d(x.swap_dims(1, 2), self.depthwise.clone(), self.depthwise_bias.clone(), options);
        let x = x.swap_dims(1, 2);
        let x = match &self.channel_norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
        self.output.forward(activation::silu(x))
    }
}

/// Mask of real frames, 1 at those and 0 elsewhere, `[batch, frames, 1]`; none if all are real.
fn frame_mask(valid: &[Range<usize>], frames: usize, device: &Device) -> Option<Tensor<3>> {
    if valid.iter().all(|v| v.start == 0 && v.end >= frames) {
        return None;
    }
    let mask: Vec<f32> =
        valid.iter().flat_map(|v| (0..frames).map(|t| if v.contains(&t) { 1.0 } else { 0.0 })).collect();
    Some(Tensor::from_data(TensorData::new(mask, [valid.len(), frames, 1]), device))
}
