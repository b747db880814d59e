//! Blocks of the encoder in 8 bits on the CPU: plain memory, a share of the frames after the other, so that what a share computes stays
//! in a core's cache.

use auricle_kernels::activation::gelu_in_place;
use auricle_kernels::int8_attention::attention;
use auricle_kernels::thread_pool::{self, ThreadPool};
use burn::tensor::{Tensor, TensorData};

use super::config::EncoderConfig;
use crate::error::Result;
use crate::layers::{Bias, PackedNorm, Rounded};
use crate::weights::Scope;

/// Frames of a share.
const SHARE: usize = 96;
/// The threads share the frames, so that a share is the work of one.
const ALONE: &ThreadPool = &ThreadPool::SINGLE_THREADED;

/// A block.
#[derive(Clone, Debug)]
pub struct RoundedBlock {
    attention_norm: PackedNorm,
    /// Scaled by the inverse square root of a head's width.
    query: Rounded,
    key: Rounded,
    value: Rounded,
    output: Rounded,
    norm: PackedNorm,
    up: Rounded,
    down: Rounded,
    heads: usize,
}

/// Queries, keys and values of all frames: `[rows * frames, size]` each.
struct Projected([Vec<f32>; 3]);

impl RoundedBlock {
    /// Reads a block.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &EncoderConfig) -> Result<Self> {
        let (size, inner, heads) = (config.size, config.inner, config.heads);
        let attention = scope.scope("self_attn");
        let square = |name: &str, bias, scale| Rounded::load(&attention.scope(name), [size, size], bias, scale);
        Ok(Self {
            attention_norm: PackedNorm::load(&scope.scope("self_attn_layer_norm"), size)?,
            query: square("q_proj", Bias::With, ((size / heads) as f32).powf(-0.5))?,
            key: square("k_proj", Bias::Without, 1.0)?,
            value: square("v_proj", Bias::With, 1.0)?,
            output: square("out_proj", Bias::With, 1.0)?,
            norm: PackedNorm::load(&scope.scope("final_layer_norm"), size)?,
            up: Rounded::load(&scope.scope("fc1"), [inner, size], Bias::With, 1.0)?,
            down: Rounded::load(&scope.scope("fc2"), [size, inner], Bias::With, 1.0)?,
            heads,
        })
    }

    /// Applies the block to `x`, rows of `frames` frames.
    fn apply(&self, pool: &ThreadPool, x: &mut [f32], frames: usize, Projected([query, key, value]): &mut Projected) {
        let size = self.query.outputs();
        let share = SHARE * size;
        let projected = query.chunks_mut(share).zip(key.chunks_mut(share)).zip(value.chunks_mut(share));
        let mut shares: Vec<_> = x.chunks(share).zip(projected).collect();
        pool.for_each_item(&mut shares, |_, (x, ((query, key), value))| {
            let x = self.query.round(ALONE, &self.attention_norm.forward(ALONE, x));
            for (layer, out) in [(&self.query, query), (&self.key, key), (&self.value, value)] {
                out.fill(0.0);
                layer.add_to(ALONE, &x, out);
            }
        });
        let rows = query.chunks(frames * size).zip(key.chunks(frames * size)).zip(value.chunks(frames * size));
        let rows = rows.map(|((query, key), value)| attention(pool, query, key, value, size, self.heads));
        for (x, attended) in x.chunks_mut(frames * size).zip(rows) {
            let mut shares: Vec<_> = x.chunks_mut(share).zip(attended.chunks(share)).collect();
            pool.for_each_item(&mut shares, |_, (x, attended)| {
                self.output.add_to(ALONE, &self.output.round(ALONE, attended), x);
                let mut inner = self.up.forward(ALONE, &self.up.round(ALONE, &self.norm.forward(ALONE, x)));
                gelu_in_place(&mut inner);
                self.down.add_to(ALONE, &self.down.round(ALONE, &inner), x);
            });
        }
    }
}

/// Applies blocks to `x` `[rows, frames, size]`.
pub fn apply(blocks: &[RoundedBlock], x: Tensor<3>) -> Tensor<3> {
    let (shape, device) = (x.dims(), x.device());
    let mut x: Vec<f32> = x.into_data().try_into_vec_as().unwrap_or_default();
    let mut projected = Projected([(); 3].map(|()| vec![0f32; x.len()]));
    thread_pool::run(|pool| {
        blocks.iter().for_each(|block| block.apply(pool, &mut x, shape[1], &mut projected));
    });
    Tensor::from_data(TensorData::new(x, shape), &device)
}
