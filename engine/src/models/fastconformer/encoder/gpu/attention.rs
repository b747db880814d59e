//! Multi-head attention with relative positions (Transformer-XL form), over whole utterances and over cached chunks.

use std::ops::Range;
use std::sync::Mutex;

use auricle_kernels::attention::relative::{self, RelativePositions, VisibleKeys, Window};
use auricle_kernels::cache::ring::{RowFrames, StepFrames};
use auricle_kernels::product::gemv::Precision;
use burn::tensor::{DType, Device, Tensor, TensorData};

use super::super::context::Context;
use super::arena::BlockTensors;
use crate::error::Result;
use crate::layers::{Bias, LayerNorm, Linear, transpose};
use crate::models::fastconformer::config::EncoderConfig;
use crate::weights::Scope;

/// One block's attention.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Queries, keys and values in one product, which is one launch where three would each fill less of a card. Their biases
    /// are elsewhere.
    input: Linear,
    /// Its bias has that of the values: the weights of a query's keys sum to 1.
    output: Linear,
    /// Projects position embeddings; no bias.
    relative_key: Linear,
    /// `[2, hidden]`: content and position bias of the query, each with the bias of the query's product. A bias of the keys is
    /// left out: it moves all scores of a query alike, which the softmax does not see.
    biases: Tensor<2>,
    heads: usize,
    head: usize,
}

impl Attention {
    /// Reads `self_attn`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &EncoderConfig, precision: Precision) -> Result<Self> {
        let (size, heads) = (config.hidden_size, config.num_attention_heads);
        let head = size / heads;
        let bias = Bias::from(config.attention_bias);
        let input = ["q_proj", "k_proj", "v_proj"].map(|name| scope.scope(name));
        let mut biases = [scope.values("bias_u", &[heads, head])?, scope.values("bias_v", &[heads, head])?].concat();
        let output = scope.scope("o_proj");
        let weight = output.values("weight", &[size, size])?;
        let output_bias = match bias {
            Bias::Without => None,
            Bias::With => {
                let of_query = input[0].values("bias", &[size])?;
                biases.iter_mut().zip(of_query.iter().cycle()).for_each(|(bias, more)| *bias += more);
                input[1].ignore("bias");
                let (of_values, mut bias) = (input[2].values("bias", &[size])?, output.values("bias", &[size])?);
                for (bias, weights) in bias.iter_mut().zip(weight.chunks_exact(size)) {
                    let terms = weights.iter().zip(&of_values);
                    *bias += terms.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32;
                }
                Some(bias)
            }
        };
        let input = Linear::load_stacked(&input, size, size, Bias::Without)?.with_precision(precision);
        let output = Linear::from_values(transpose(&weight, size, size), size, size, output_bias, scope.device());
        let relative_key = Linear::load(&scope.scope("relative_k_proj"), size, size, Bias::Without)?;
        let biases = Tensor::<2>::from_data(TensorData::new(biases, [2, size]), scope.device());
        Ok(Self {
            output: output.with_precision(precision),
            relative_key: relative_key.with_precision(precision),
            biases: biases.cast(input.dtype()),
            input,
            heads,
            head,
        })
    }

    /// The type of queries, keys and values.
    pub fn dtype(&self) -> DType {
        self.input.dtype()
    }

    /// Projects `positions` `[count, hidden]` to keys of distances.
    pub fn relative_positions(&self, positions: Tensor<2>) -> RelativePositions {
        RelativePositions { keys: self.relative_key.forward(positions), biases: self.biases.clone() }
    }

    /// Applies attention to `normed` `[batch, frames, hidden]` and adds it to `x`: the sum, and its `norm`.
    ///
    /// `positions` are those of [`Attention::relative_positions`] for `kept + 2 frames - 1` distances; `past` holds the keys and
    /// values of the frames before, and is advanced.
    pub fn forward(
        &self,
        [x, normed]: [Tensor<3>; 2],
        norm: &LayerNorm,
        positions: &RelativePositions,
        visible: &VisibleKeys,
        past: Option<&mut BlockTensors>,
    ) -> [Tensor<3>; 2] {
        let [batch, frames, _] = x.dims();
        // Views of the product: `[batch, heads, frames, head]`.
        let projected = self.input.forward(normed).reshape([batch, frames, 3 * self.heads, self.head]);
        let part = |at: usize| projected.clone().narrow(2, at * self.heads, self.heads).swap_dims(1, 2);
        let [query, keys, values] = [part(0), part(1), part(2)];
        let ring = past.as_ref().and_then(|past| past.ring());
        let inputs = [query, keys.clone(), values.clone()];
        let scale = (self.head as f32).powf(-0.5);
        let attended = relative::attend(inputs, ring.as_ref(), Some(positions), visible, scale);
        if let (Some(past), Some(ring)) = (past, ring) {
            past.store(ring, &visible.frames, [keys, values]);
        }
        self.output.forward_normed(attended, x, norm)
    }
}

/// The keys that each frame of a step attends to. `rows` are the slot of each row's stream and the frames that it has had, and
/// `valid` are its real frames.
pub fn visible_keys(
    context: Context,
    rows: impl Iterator<Item = (usize, usize)>,
    valid: &[Range<usize>],
    device: &Device,
) -> VisibleKeys {
    visible_to(context, StepFrames::new(row_frames(rows, valid), device))
}

/// As [`visible_keys`] for frames that are on the device.
pub fn visible_to(context: Context, frames: StepFrames) -> VisibleKeys {
    let window = match context {
        Context::Full => Window::Full,
        // Chunks are counted from the oldest key, which is the first of a chunk.
        Context::Chunked { .. } => Window::Chunks { size: context.chunk(), left: context.kept() / context.chunk() },
    };
    VisibleKeys { frames, window, first: 0 }
}

/// The frames of each row of a step, as [`visible_keys`] takes them.
pub fn row_frames(rows: impl Iterator<Item = (usize, usize)>, valid: &[Range<usize>]) -> Vec<RowFrames> {
    rows.zip(valid).map(|((slot, written), valid)| RowFrames { slot, written, new: valid.clone() }).collect()
}

/// The relative keys of every block for the step shapes in use, so that a steady stream computes them once.
#[derive(Debug, Default)]
pub struct RelativeKeys {
    recent: Mutex<Vec<(StepShape, Vec<RelativePositions>)>>,
}

/// Kept frames and frames of a step.
type StepShape = (usize, usize);

/// Number of step shapes in the cache: those of a file's steps, and of each size of a live stream's steps.
const REMEMBERED: usize = 12;

impl RelativeKeys {
    /// Returns the relative keys for `shape`; calls `compute` on first use.
    pub fn get(&self, shape: StepShape, compute: impl FnOnce() -> Vec<RelativePositions>) -> Vec<RelativePositions> {
        let mut recent = self.recent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let found = match recent.iter().position(|(known, _)| *known == shape) {
            Some(at) => recent.remove(at),
            None => (shape, compute()),
        };
        let keys = found.1.clone();
        recent.insert(0, found);
        recent.truncate(REMEMBERED);
        keys
    }
}
