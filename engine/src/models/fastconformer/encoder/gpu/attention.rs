//! Multi-head attention with relative positions (Transformer-XL form), over whole utterances and over cached chunks.

use std::ops::Range;
use std::sync::Mutex;

use auricle_kernels::state_cache::BatchSlots;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Bool, Device, Tensor, TensorData, module};

use super::super::context::Context;
use super::arena::StateTensor;
use crate::error::Result;
use crate::layers::{Bias, Linear};
use crate::models::fastconformer::config::EncoderConfig;
use crate::weights::Scope;

/// Added to the score of a masked key. Finite, so that a row without any key stays finite too.
const MASKED: f32 = -1e4;

/// One block's attention.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Queries, keys and values in one product, which is one launch where three would each fill less of a card.
    input: Linear,
    output: Linear,
    /// Projects position embeddings; no bias.
    relative_key: Linear,
    /// `[1, heads, 1, head]`: content and position bias of the query.
    bias_u: Tensor<4>,
    bias_v: Tensor<4>,
    heads: usize,
    head: usize,
}

impl Attention {
    /// Reads `self_attn`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &EncoderConfig) -> Result<Self> {
        let (size, heads) = (config.hidden_size, config.num_attention_heads);
        let head = size / heads;
        let bias = Bias::from(config.attention_bias);
        let linear = |name: &str, bias| Linear::load(&scope.scope(name), size, size, bias);
        let input = ["q_proj", "k_proj", "v_proj"].map(|name| scope.scope(name));
        let per_head = |name: &str| Ok(scope.tensor(name, [heads, head])?.reshape([1, heads, 1, head]));
        Ok(Self {
            input: Linear::load_stacked(&input, size, size, bias)?,
            output: linear("o_proj", bias)?,
            relative_key: linear("relative_k_proj", Bias::Without)?,
            bias_u: per_head("bias_u")?,
            bias_v: per_head("bias_v")?,
            heads,
            head,
        })
    }

    /// Projects `positions` `[count, hidden]` to keys `[1, heads, head, count]`, scaled as scores are.
    pub fn relative_keys(&self, positions: Tensor<2>) -> Tensor<4> {
        let [count, _] = positions.dims();
        let keys = self.relative_key.forward(positions).reshape([1, count, self.heads, self.head]);
        keys.permute([0, 2, 3, 1]) * self.scale()
    }

    fn scale(&self) -> f32 {
        (self.head as f32).powf(-0.5)
    }

    /// Applies attention to `x` `[batch, frames, hidden]`, normalised; the output has the same shape.
    ///
    /// `relative_keys` are those of [`Attention::relative_keys`] for `kept + 2 frames - 1` distances; `mask` `[batch or
    /// 1, 1, frames, kept + frames]` is true where a query may not attend to a key; `past` holds the keys and values of
    /// the frames before, `[slots, heads, kept, head]`, and is advanced.
    pub fn forward(
        &self,
        x: Tensor<3>,
        relative_keys: &Tensor<4>,
        mask: Option<&Tensor<4, Bool>>,
        past: Option<(&mut StateTensor, &mut StateTensor, &BatchSlots)>,
    ) -> Tensor<3> {
        let [batch, frames, size] = x.dims();
        // Views of the product: `[batch, heads, frames, head]`.
        let projected = self.input.forward(x).reshape([batch, frames, 3, self.heads, self.head]);
        let part = |at: usize| projected.clone().narrow(2, at, 1).squeeze_dim::<4>(2).swap_dims(1, 2);
        let (query, mut keys, mut values) = (part(0), part(1), part(2));
        if let Some((past_keys, past_values, slots)) = past {
            keys = past_keys.follow(slots, keys);
            values = past_values.follow(slots, values);
        }
        let seen = keys.dims()[2];
        let by_position = (query.clone() + self.bias_v.clone()).matmul(relative_keys.clone());
        let mut bias = shift(by_position, seen);
        if let Some(mask) = mask {
            bias = bias.mask_fill(mask.clone().expand([batch, self.heads, frames, seen]), MASKED);
        }
        let options = AttentionModuleOptions { scale: Some(f64::from(self.scale())), softcap: None, is_causal: false };
        let attended = module::attention(query + self.bias_u.clone(), keys, values, None, Some(bias), options);
        self.output.forward(attended.swap_dims(1, 2).reshape([batch, frames, size]))
    }
}

/// Converts scores by distance, `[batch, heads, frames, distances]` from the farthest past to the farthest future, to
/// scores by key, `[batch, heads, frames, keys]`: row `i` moves left by `frames - 1 - i`.
fn shift(scores: Tensor<4>, keys: usize) -> Tensor<4> {
    let [batch, heads, frames, distances] = scores.dims();
    if frames == 1 {
        return scores.narrow(3, 0, keys);
    }
    // Without the first `frames - 1` values, rows that are shorter by one each begin one value further left than the row above.
    scores
        .reshape([batch, heads, frames * distances])
        .narrow(2, frames - 1, frames * (distances - 1))
        .reshape([batch, heads, frames, distances - 1])
        .narrow(3, 0, keys)
}

/// The attention mask of one step, true at masked keys; none if no key is masked.
///
/// Keys are `kept` cached frames of which the last `cached[row]` are real, then the `frames` of the step of which
/// `valid[row]` are real. `[batch, 1, frames, kept + frames]`.
pub fn mask(
    context: Context,
    frames: usize,
    cached: &[usize],
    valid: &[Range<usize>],
    device: &Device,
) -> Option<Tensor<4, Bool>> {
    let (kept, chunk) = (context.kept(), context.chunk());
    let left_chunks = kept / chunk;
    let keys = kept + frames;
    let mut hidden = Vec::with_capacity(valid.len() * frames * keys);
    for (cached, valid) in cached.iter().zip(valid) {
        for query in 0..frames {
            for key in 0..keys {
                let real = if key < kept { key + cached >= kept } else { valid.contains(&(key - kept)) };
                let seen = match context {
                    Context::Full => true,
                    Context::Chunked { .. } => {
                        // Chunks are counted from the start of the cache, which begins at a chunk's boundary.
                        let (query, key) = ((kept + query) / chunk, key / chunk);
                        key <= query && query <= key + left_chunks
                    }
                };
                hidden.push(!(real && seen));
            }
        }
    }
    let batch = valid.len();
    hidden.contains(&true).then(|| Tensor::from_data(TensorData::new(hidden, [batch, 1, frames, keys]), device))
}

/// The relative keys of every block for the step shapes in use, so that a steady stream computes them once.
#[derive(Debug, Default)]
pub struct RelativeKeys {
    recent: Mutex<Vec<(StepShape, Vec<Tensor<4>>)>>,
}

/// Kept frames and frames of a step.
type StepShape = (usize, usize);

/// Number of step shapes in the cache: those of a file's steps, and of each size of a live stream's steps.
const REMEMBERED: usize = 12;

impl RelativeKeys {
    /// Returns the relative keys for `shape`; calls `compute` on first use.
    pub fn get(&self, shape: StepShape, compute: impl FnOnce() -> Vec<Tensor<4>>) -> Vec<Tensor<4>> {
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
