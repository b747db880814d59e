//! The encoder in 8 bits on the CPU: plain memory, a share of the frames after the other, so that what a share computes stays in a core's
//! cache.

use auricle_kernels::activation::gelu_in_place;
use auricle_kernels::attention::int8;
use auricle_kernels::thread_pool::{self, ThreadPool};
use burn::tensor::{Tensor, TensorData};

use super::config::EncoderConfig;
use crate::error::Result;
use crate::layers::{Bias, PackedNorm, Rounded};
use crate::weights::Scope;

/// Frames that a convolution sees.
const TAPS: usize = 3;

/// Frames of a share.
const SHARE: usize = 96;
/// The threads share the frames, so that a share is the work of one.
const ALONE: &ThreadPool = &ThreadPool::SINGLE_THREADED;

/// The two convolutions of three frames, and the positions. The second convolution takes every second frame.
#[derive(Clone, Debug)]
pub struct RoundedStem {
    first: Rounded,
    second: Rounded,
    /// `[frames, size]`
    positions: Vec<f32>,
    mels: usize,
}

impl RoundedStem {
    /// Reads `conv1`, `conv2` and `embed_positions`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &EncoderConfig) -> Result<Self> {
        let (size, mels) = (config.size, config.mels);
        let convolution = |name: &str, inputs: usize| {
            let scope = scope.scope(name);
            let published = scope.values("weight", &[size, inputs, TAPS])?;
            // A row of inputs is one frame after another.
            let by_frame = |of: &[f32]| -> Vec<f32> {
                (0..TAPS).flat_map(|tap| of.iter().skip(tap).step_by(TAPS).copied()).collect()
            };
            let weight: Vec<f32> = published.chunks_exact(TAPS * inputs).flat_map(by_frame).collect();
            Ok(Rounded::new(&weight, scope.values("bias", &[size])?))
        };
        let positions = scope.scope("embed_positions").values("weight", &[config.frames, size])?;
        Ok(Self { first: convolution("conv1", mels)?, second: convolution("conv2", size)?, positions, mels })
    }

    /// The first block's input: `features` `[rows, 2 frames, mels]` to `[rows, frames, size]`.
    pub fn forward(&self, features: Tensor<3>) -> Tensor<3> {
        let ([rows, twice, mels], device) = (features.dims(), features.device());
        let (frames, size) = (twice / 2, self.second.outputs());
        let features: Vec<f32> = features.into_data().try_into_vec_as().unwrap_or_default();
        let mut x = vec![0f32; rows * frames * size];
        let of_rows = features.chunks(twice * mels).zip(x.chunks_mut(frames * size));
        let mut shares: Vec<_> = of_rows
            .flat_map(|(row, x)| x.chunks_mut(SHARE * size).enumerate().map(move |(share, x)| (row, share * SHARE, x)))
            .collect();
        thread_pool::run(|pool| {
            pool.for_each_item(&mut shares, |_, (row, from, x)| self.embed(row, *from, x));
        });
        Tensor::from_data(TensorData::new(x, [rows, frames, size]), &device)
    }

    /// Embeds the frames from `from` on that `x` has room for.
    fn embed(&self, features: &[f32], from: usize, x: &mut [f32]) {
        let (mels, size) = (self.mels, self.second.outputs());
        let (frames, count) = (features.len() / mels, x.len() / size);
        // The frames of the first convolution that the second one sees, from `2 * from - 1` on.
        let inner = 2 * count + 1;
        let mut seen = vec![0f32; inner * TAPS * mels];
        for (at, to) in seen.chunks_exact_mut(mels).enumerate() {
            let frame = 2 * from + at / TAPS + at % TAPS;
            if let Some(frame) = frame.checked_sub(2).filter(|frame| *frame < frames) {
                to.copy_from_slice(&features[frame * mels..][..mels]);
            }
        }
        let mut first = self.first.forward(ALONE, &self.first.round(ALONE, &seen));
        gelu_in_place(&mut first);
        if from == 0 {
            // The frame before the first is padding.
            first[..size].fill(0.0);
        }
        let seen: Vec<f32> = (0..count).flat_map(|at| &first[2 * at * size..][..TAPS * size]).copied().collect();
        x.copy_from_slice(&self.second.forward(ALONE, &self.second.round(ALONE, &seen)));
        gelu_in_place(x);
        x.iter_mut().zip(&self.positions[from * size..]).for_each(|(x, position)| *x += position);
    }
}

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
        let rows = rows.map(|((query, key), value)| int8::attend(pool, query, key, value, size, self.heads));
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
