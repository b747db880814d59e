//! The encoder: pre-norm transformer blocks with rotary positions, every frame hears every other.

use std::ops::Range;

use auricle_kernels::activation::Activation;
use auricle_kernels::attention::full;
use burn::tensor::{Device, Tensor, TensorData};

use super::config::Config;
use crate::error::Result;
use crate::layers::{Bias, LayerNorm, Linear, transpose};
use crate::weights::Scope;

/// The encoder.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    input_norm: LayerNorm,
    blocks: Vec<Block>,
    norm: LayerNorm,
    heads: usize,
    /// Angles of a rotation at position 1.
    angles: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Block {
    attention_norm: LayerNorm,
    /// Queries, scaled by the inverse square root of a head's width, keys and values side by side.
    project: Linear,
    output: Linear,
    feed_forward_norm: LayerNorm,
    up: Linear,
    down: Linear,
}

/// Rotations of the frames of a step, `[1, frames, 1, angles]` each.
struct Rotations {
    cosines: Tensor<4>,
    sines: Tensor<4>,
}

impl Encoder {
    /// Reads the norms and blocks of `audio_tower`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let size = config.encoder.hidden_size;
        Ok(Self {
            input_norm: LayerNorm::load(&scope.scope("input_layer_norm"), size)?,
            blocks: (0..config.encoder.num_hidden_layers)
                .map(|at| Block::load(&scope.scope(format!("layers.{at}")), config))
                .collect::<Result<_>>()?,
            norm: LayerNorm::load(&scope.scope("layer_norm"), size)?,
            heads: config.encoder.num_attention_heads,
            angles: config.angles(),
        })
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The first block's input of frames `[rows, frames, size]`, of the same shape.
    pub fn start(&self, frames: Tensor<3>) -> Tensor<3> {
        self.input_norm.forward(frames)
    }

    /// Runs a range of the blocks over `[rows, frames, size]`.
    pub fn run(&self, x: Tensor<3>, blocks: Range<usize>) -> Tensor<3> {
        let rotations = Rotations::new(&self.angles, x.dims()[1], &x.device());
        self.blocks[blocks].iter().fold(x, |x, block| block.forward(x, &rotations, self.heads))
    }

    /// The encoder's output of the last block's, of the same shape.
    pub fn end(&self, x: Tensor<3>) -> Tensor<3> {
        self.norm.forward(x)
    }
}

impl Block {
    fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let (size, inner) = (config.encoder.hidden_size, config.encoder.intermediate_size);
        let attention = scope.scope("self_attn");
        let read = |name: &str| attention.scope(name).values("weight", &[size, size]);
        let scale = ((size / config.encoder.num_attention_heads) as f32).powf(-0.5);
        let mut stacked: Vec<f32> = read("q_proj")?.iter().map(|weight| weight * scale).collect();
        stacked.extend(read("k_proj")?);
        stacked.extend(read("v_proj")?);
        let stacked = transpose(&stacked, 3 * size, size);
        Ok(Self {
            attention_norm: LayerNorm::load(&scope.scope("layer_norm1"), size)?,
            project: Linear::from_values(stacked, size, 3 * size, None, scope.device()),
            output: Linear::load(&attention.scope("o_proj"), size, size, Bias::With)?,
            feed_forward_norm: LayerNorm::load(&scope.scope("layer_norm2"), size)?,
            up: Linear::load(&scope.scope("mlp.fc1"), size, inner, Bias::With)?,
            down: Linear::load(&scope.scope("mlp.fc2"), inner, size, Bias::With)?,
        })
    }

    /// `[rows, frames, size]` to the same shape.
    fn forward(&self, x: Tensor<3>, rotations: &Rotations, heads: usize) -> Tensor<3> {
        let [rows, frames, size] = x.dims();
        let projected = self.project.forward(self.attention_norm.forward(x.clone()));
        let rotated = projected.clone().narrow(2, 0, 2 * size).reshape([rows, frames, 2 * heads, size / heads]);
        let rotated = rotations.apply(rotated).reshape([rows, frames, 2 * size]);
        let (queries, keys) = (rotated.clone().narrow(2, 0, size), rotated.narrow(2, size, size));
        let attended = full::attend(queries, keys, projected.narrow(2, 2 * size, size), heads);
        let [x, normed] = self.output.forward_normed(attended, x, &self.feed_forward_norm);
        self.down.forward_added(self.up.forward_activated(normed, Activation::Gelu), x)
    }
}

impl Rotations {
    fn new(angles: &[f64], frames: usize, device: &Device) -> Self {
        let table = |of: fn(f64) -> f64| {
            let turns = (0..frames).flat_map(|frame| angles.iter().map(move |angle| of(frame as f64 * angle) as f32));
            let turns = TensorData::new(turns.collect::<Vec<_>>(), [1, frames, 1, angles.len()]);
            Tensor::from_data(turns, device)
        };
        Self { cosines: table(f64::cos), sines: table(f64::sin) }
    }

    /// Rotates the first numbers of each head, `[rows, frames, heads, head]`: those of the first half with those of the second.
    fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        let (angles, head) = (self.cosines.dims()[3], x.dims()[3]);
        if angles == 0 {
            return x;
        }
        let (first, second) = (x.clone().narrow(3, 0, angles), x.clone().narrow(3, angles, angles));
        let (cosines, sines) = (self.cosines.clone(), self.sines.clone());
        let turned = first.clone() * cosines.clone() - second.clone() * sines.clone();
        let mut parts = vec![turned, second * cosines + first * sines];
        if 2 * angles < head {
            parts.push(x.narrow(3, 2 * angles, head - 2 * angles));
        }
        Tensor::cat(parts, 3)
    }
}
