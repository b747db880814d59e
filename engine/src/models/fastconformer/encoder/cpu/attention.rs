//! Multi-head attention with relative positions; each row has its own cache.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

pub use auricle_kernels::attention::relative::cpu::SlidingKvCache;
use auricle_kernels::attention::relative::cpu::{MAX_QUERIES, PositionKeys, RelativeQueries};
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::ThreadPool;

use super::super::context::position_embeddings;
use super::StepLayout;
use crate::error::Result;
use crate::layers::{Bias, Packed, scaled};
use crate::models::fastconformer::config::EncoderConfig;
use crate::weights::Scope;

/// One block's attention.
#[derive(Debug)]
pub struct Attention {
    /// Query (already scaled), key and value, concatenated.
    qkv: Packed,
    output: Packed,
    /// Projects position embeddings; no bias.
    relative_key: Packed,
    /// `[heads * head]`: content and position bias of the query, already scaled.
    biases: [Vec<f32>; 2],
    heads: usize,
}

impl Attention {
    /// Reads `self_attn`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &EncoderConfig, precision: Precision) -> Result<Self> {
        let (size, heads) = (config.hidden_size, config.num_attention_heads);
        let head = size / heads;
        let scale = (head as f32).powf(-0.5);
        let bias = Bias::from(config.attention_bias);
        let part = |name: &str, scale| scaled(&scope.scope(name), &[size, size], bias, scale);
        let parts = [part("q_proj", scale)?, part("k_proj", 1.0)?, part("v_proj", 1.0)?];
        let (weights, biases): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let of_query = |name: &str| {
            let values = scope.values(name, &[heads, head])?;
            Ok(values.into_iter().map(|value| value * scale).collect::<Vec<f32>>())
        };
        Ok(Self {
            qkv: Packed::for_rows(&weights.concat(), biases.concat(), precision),
            output: Packed::load_for_rows(&scope.scope("o_proj"), &[size, size], bias, 1.0, precision)?,
            relative_key: Packed::load_scaled(&scope.scope("relative_k_proj"), &[size, size], Bias::Without, 1.0)?,
            biases: [of_query("bias_u")?, of_query("bias_v")?],
            heads,
        })
    }

    /// The empty cache of a row before its first frame.
    pub fn start(&self) -> SlidingKvCache {
        SlidingKvCache::new(self.heads, self.output.outputs() / self.heads)
    }

    /// Adds the attention output of the normalised frames `x` `[.., hidden]` to `out` and advances the caches `pasts`.
    pub fn add_to(
        &self,
        pool: &ThreadPool,
        x: &[f32],
        positions: &PositionKeys,
        shape: &StepLayout,
        pasts: &mut [&mut SlidingKvCache],
        out: &mut [f32],
    ) {
        let StepLayout { frames, size, valid, context } = *shape;
        let qkv = self.qkv.forward(pool, x);
        let mut work: Vec<_> = qkv.chunks_exact(frames * 3 * size).zip(pasts.iter_mut()).collect();
        pool.for_each_item(&mut work, |_, (qkv, past)| {
            for qkv in qkv.chunks_exact(3 * size) {
                past.push(&qkv[size..2 * size], &qkv[2 * size..]);
            }
        });
        let mut found = vec![0f32; frames * size * valid.len()];
        let mut work: Vec<_> = found
            .chunks_exact_mut(frames * size)
            .enumerate()
            .flat_map(|(row, found)| {
                found.chunks_mut(MAX_QUERIES * size).enumerate().map(move |(at, found)| (row, at, found))
            })
            .collect();
        let [by_content, by_position] = &self.biases;
        pool.for_each_item(&mut work, |_, (row, at, found)| {
            let (past, from) = (&pasts[*row], *at * MAX_QUERIES);
            let start = past.end() - frames;
            let seen: Vec<Range<usize>> = (from..from + found.len() / size)
                .map(|query| context.seen(start + query, start + valid[*row].end.min(frames)))
                .collect();
            let qkv = RelativeQueries {
                queries: &qkv[(*row * frames + from) * 3 * size..],
                stride: 3 * size,
                biases: [by_content, by_position],
                frame: start + from,
                visible: &seen,
            };
            past.attend(positions, qkv, found);
        });
        // Dropped now rather than in the next step, so that an idle stream keeps only what that step reads.
        pasts.iter_mut().for_each(|past| past.drop_before(context.first_seen(past.end())));
        self.output.add_to(pool, &found, out);
    }

    fn distances(&self, pool: &ThreadPool, farthest: usize, nearest: usize) -> PositionKeys {
        let size = self.output.outputs();
        let rows = self.relative_key.forward(pool, &position_embeddings(farthest, nearest, size));
        PositionKeys::new(&rows, farthest, farthest + nearest + 1, self.heads)
    }
}

/// The relative keys of every block, for the largest distances requested so far.
#[derive(Debug, Default)]
pub struct RelativeKeyCache(Mutex<CachedKeys>);

#[derive(Debug, Default)]
struct CachedKeys {
    farthest: usize,
    nearest: usize,
    keys: Arc<Vec<PositionKeys>>,
}

impl RelativeKeyCache {
    /// Relative keys of each block's attention that cover these distances.
    pub fn get<'a>(
        &self,
        (farthest, nearest): (usize, usize),
        attentions: impl Iterator<Item = &'a Attention>,
        pool: &ThreadPool,
    ) -> Arc<Vec<PositionKeys>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.keys.is_empty() || farthest > known.farthest || nearest > known.nearest {
            // The range includes the known one, so that alternating look-aheads reuse it.
            let (farthest, nearest) = (farthest.max(known.farthest), nearest.max(known.nearest));
            let keys = attentions.map(|attention| attention.distances(pool, farthest, nearest)).collect();
            *known = CachedKeys { farthest, nearest, keys: Arc::new(keys) };
        }
        known.keys.clone()
    }
}
