//! The network on the CPU: tokens to the scores of the next one, for pieces of several sequences together.
//!
//! A token's numbers do not depend on the tokens that are computed beside it, nor on how a prompt is cut: every product and every
//! sum of the attention goes over its inputs in one order.

use std::sync::Arc;

use auricle_kernels::activation::swiglu_in_place;
use auricle_kernels::attention::paged::cpu::{PageShape, attend};
use auricle_kernels::norm::rms_norm_rows;
use auricle_kernels::thread_pool::{self, ThreadPool};

use super::config::{Config, Family};
use super::pages::{PageArena, PageList};
use super::source::{RowOrder, TensorSource};
use crate::error::Result;
use crate::layers::Matrix;

/// Tokens of one task of the attention.
const ATTENTION_TOKENS: usize = 16;
/// Values of one task of an elementwise operation.
const CHUNK: usize = 8 * 1024;

/// A decoder-only transformer.
pub struct Network {
    config: Arc<Config>,
    frequencies: Vec<f32>,
    embeddings: Matrix,
    blocks: Vec<Block>,
    norm: Vec<f32>,
    /// The embeddings, where there is none.
    output: Option<Matrix>,
}

struct Block {
    norm: Vec<f32>,
    query: Projection,
    key: Projection,
    value: Projection,
    /// Norms of each head's queries and keys.
    head_norms: Option<[Vec<f32>; 2]>,
    out: Projection,
    inner_norm: Vec<f32>,
    gate: Projection,
    up: Projection,
    down: Projection,
}

struct Projection {
    weight: Matrix,
    bias: Option<Vec<f32>>,
}

impl Projection {
    fn forward(&self, pool: &ThreadPool, x: &[f32]) -> Vec<f32> {
        self.weight.forward(pool, x, self.bias.as_deref())
    }

    fn add_to(&self, pool: &ThreadPool, x: &[f32], out: &mut [f32]) {
        self.weight.add_to(pool, x, self.bias.as_deref(), out);
    }
}

/// The next tokens of a sequence.
pub struct Piece<'a> {
    /// At least one.
    pub tokens: &'a [u32],
    /// Tokens of the sequence before them.
    pub position: usize,
    /// Pages with room for all of them.
    pub pages: &'a PageList,
    /// Vectors in place of the embeddings of some tokens of the sequence.
    pub embedded: Option<&'a Embedded>,
    /// The scores after the last token are wanted.
    pub scores: bool,
}

/// Vectors in place of the embeddings of a run of a sequence's tokens, such as those of audio.
pub struct Embedded {
    /// Position of the first of these tokens.
    pub first: usize,
    /// `[tokens, size]`
    pub vectors: Vec<f32>,
}

impl Piece<'_> {
    /// The vectors in place of embeddings, and the first of the piece's tokens that has one.
    pub fn replaced(&self, size: usize) -> Option<(usize, &[f32])> {
        let Embedded { first, vectors } = self.embedded?;
        let end = self.position + self.tokens.len();
        let [from, to] = [self.position, end].map(|position| position.saturating_sub(*first).min(vectors.len() / size));
        (from < to).then(|| (first + from - self.position, &vectors[from * size..to * size]))
    }
}

impl Network {
    /// Reads the network of a checkpoint.
    ///
    /// # Errors
    /// [`crate::Error::Weights`] for a tensor that is missing, has another shape, or is left over.
    pub fn load(config: Arc<Config>, source: TensorSource) -> Result<Self> {
        let Config { size, heads, kv_heads, head, inner, vocabulary, outputs, .. } = *config;
        let turned = source.turned(&config);
        let projection = |name: &str, shape: [usize; 2], bias: bool, order: RowOrder| -> Result<Projection> {
            let weight = source.matrix(&format!("{name}.weight"), shape, order)?;
            let bias = bias.then(|| source.vector(&format!("{name}.bias"), shape[0], order)).transpose()?;
            Ok(Projection { weight, bias })
        };
        let vector = |name: &str, length: usize| source.vector(name, length, RowOrder::Published);
        let block = |number: usize| -> Result<Block> {
            let layer = |name: &str| format!("model.layers.{number}.{name}");
            let bias = config.input_bias;
            let plain = RowOrder::Published;
            let head_norms = match config.family {
                Family::Qwen3 => Some([
                    vector(&layer("self_attn.q_norm.weight"), head)?,
                    vector(&layer("self_attn.k_norm.weight"), head)?,
                ]),
                Family::Llama | Family::Qwen2 => None,
            };
            source.ignore(&layer("self_attn.rotary_emb.inv_freq"));
            Ok(Block {
                norm: vector(&layer("input_layernorm.weight"), size)?,
                query: projection(&layer("self_attn.q_proj"), [heads * head, size], bias, turned)?,
                key: projection(&layer("self_attn.k_proj"), [kv_heads * head, size], bias, turned)?,
                value: projection(&layer("self_attn.v_proj"), [kv_heads * head, size], bias, plain)?,
                head_norms,
                out: projection(&layer("self_attn.o_proj"), [size, heads * head], config.output_bias, plain)?,
                inner_norm: vector(&layer("post_attention_layernorm.weight"), size)?,
                gate: projection(&layer("mlp.gate_proj"), [inner, size], config.inner_bias, plain)?,
                up: projection(&layer("mlp.up_proj"), [inner, size], config.inner_bias, plain)?,
                down: projection(&layer("mlp.down_proj"), [size, inner], config.inner_bias, plain)?,
            })
        };
        let embeddings = source.matrix("model.embed_tokens.weight", [vocabulary, size], RowOrder::Published)?;
        let blocks = (0..config.layers).map(block).collect::<Result<_>>()?;
        let norm = vector("model.norm.weight", size)?;
        let output = if config.tied {
            // Some folders store it too; it equals the embeddings.
            source.ignore("lm_head.weight");
            None
        } else {
            Some(source.matrix("lm_head.weight", [outputs, size], RowOrder::Published)?)
        };
        let frequencies = source.frequencies(&config)?;
        source.finish()?;
        Ok(Self { config, frequencies, embeddings, blocks, norm, output })
    }

    /// Size of a page of its keys and values.
    pub fn page_shape(&self) -> PageShape {
        PageShape { layers: self.config.layers, heads: self.config.kv_heads, head: self.config.head }
    }

    /// Bytes of weights that a token reads.
    pub fn bytes(&self) -> usize {
        let of = |block: &Block| -> usize {
            let parts = [&block.query, &block.key, &block.value, &block.out, &block.gate, &block.up, &block.down];
            parts.iter().map(|part| part.weight.bytes()).sum()
        };
        let output = self.output.as_ref().unwrap_or(&self.embeddings);
        self.blocks.iter().map(of).sum::<usize>() + output.bytes()
    }

    /// Computes the next tokens of sequences and stores their keys and values. Gives the scores after the last token of each piece
    /// that wants them: `[pieces, outputs]`.
    pub fn forward(&self, arena: &mut PageArena, pieces: &[Piece]) -> Vec<f32> {
        thread_pool::run(|pool| self.run(pool, arena, pieces))
    }

    fn run(&self, pool: &ThreadPool, arena: &mut PageArena, pieces: &[Piece]) -> Vec<f32> {
        let Config { size, heads, kv_heads, head, epsilon, .. } = *self.config;
        let tokens: Vec<u32> = pieces.iter().flat_map(|piece| piece.tokens).copied().collect();
        let mut rows: Vec<(&mut [f32], u32)> = Vec::with_capacity(tokens.len());
        let mut x = vec![0f32; tokens.len() * size];
        rows.extend(x.chunks_exact_mut(size).zip(tokens.iter().copied()));
        pool.for_each_item(&mut rows, |_, (x, token)| x.copy_from_slice(&self.embeddings.output(*token as usize)));
        let mut begin = 0;
        for piece in pieces {
            if let Some((from, vectors)) = piece.replaced(size) {
                x[(begin + from) * size..][..vectors.len()].copy_from_slice(vectors);
            }
            begin += piece.tokens.len();
        }
        let positions: Vec<usize> =
            pieces.iter().flat_map(|piece| piece.position..piece.position + piece.tokens.len()).collect();
        let rotations = self.rotations(pool, &positions);
        let scale = (head as f32).powf(-0.5);
        for (layer, block) in self.blocks.iter().enumerate() {
            let normed = normalize(pool, &x, &block.norm, epsilon);
            let mut query = block.query.forward(pool, &normed);
            let mut key = block.key.forward(pool, &normed);
            let value = block.value.forward(pool, &normed);
            let norms = block.head_norms.as_ref();
            self.rotate(pool, &mut query, heads, &rotations, norms.map(|norms| norms[0].as_slice()), scale);
            self.rotate(pool, &mut key, kv_heads, &rotations, norms.map(|norms| norms[1].as_slice()), 1.0);
            let mut keys = key.chunks_exact(kv_heads * head).zip(value.chunks_exact(kv_heads * head));
            for piece in pieces {
                for (position, (key, value)) in (piece.position..).zip(keys.by_ref().take(piece.tokens.len())) {
                    let of_heads = key.chunks_exact(head).zip(value.chunks_exact(head)).enumerate();
                    of_heads.for_each(|(at, (key, value))| arena.write(piece.pages, position, layer, at, key, value));
                }
            }
            let attended = self.attend(pool, arena, pieces, layer, &query);
            block.out.add_to(pool, &attended, &mut x);
            let normed = normalize(pool, &x, &block.inner_norm, epsilon);
            let mut gate = block.gate.forward(pool, &normed);
            let up = block.up.forward(pool, &normed);
            let mut chunks: Vec<_> = gate.chunks_mut(CHUNK).zip(up.chunks(CHUNK)).collect();
            pool.for_each_item(&mut chunks, |_, (gate, up)| swiglu_in_place(gate, up));
            block.down.add_to(pool, &gate, &mut x);
        }
        let mut end = 0;
        let mut last = Vec::new();
        for piece in pieces {
            end += piece.tokens.len() * size;
            if piece.scores {
                last.extend_from_slice(&x[end - size..end]);
            }
        }
        let output = self.output.as_ref().unwrap_or(&self.embeddings);
        output.forward(pool, &normalize(pool, &last, &self.norm, epsilon), None)
    }

    /// Cosine and sine of each angle at each position: `[positions, 2, head / 2]`.
    fn rotations(&self, pool: &ThreadPool, positions: &[usize]) -> Vec<f32> {
        let half = self.frequencies.len();
        let mut rotations = vec![0f32; positions.len() * 2 * half];
        let mut rows: Vec<_> = rotations.chunks_exact_mut(2 * half).zip(positions).collect();
        pool.for_each_item(&mut rows, |_, (rotations, position)| {
            let (cosines, sines) = rotations.split_at_mut(half);
            for ((cosine, sine), frequency) in cosines.iter_mut().zip(sines).zip(&self.frequencies) {
                (*sine, *cosine) = (**position as f32 * frequency).sin_cos();
            }
        });
        rotations
    }

    /// Normalises, turns and scales every head of `x` `[tokens, heads * head]`: value `i` with value `i + head / 2`.
    fn rotate(
        &self,
        pool: &ThreadPool,
        x: &mut [f32],
        heads: usize,
        rotations: &[f32],
        norm: Option<&[f32]>,
        scale: f32,
    ) {
        let (head, epsilon) = (self.config.head, self.config.epsilon);
        let mut rows: Vec<_> = x.chunks_exact_mut(heads * head).zip(rotations.chunks_exact(head)).collect();
        pool.for_each_item(&mut rows, |_, (row, rotations)| {
            let (cosines, sines) = rotations.split_at(head / 2);
            let mut normed = vec![0f32; if norm.is_some() { head } else { 0 }];
            for x in row.chunks_exact_mut(head) {
                if let Some(norm) = norm {
                    rms_norm_rows(x, norm, epsilon, &mut normed);
                    x.copy_from_slice(&normed);
                }
                let (first, second) = x.split_at_mut(head / 2);
                for ((a, b), (cosine, sine)) in first.iter_mut().zip(second).zip(cosines.iter().zip(sines)) {
                    (*a, *b) = ((*a * cosine - *b * sine) * scale, (*b * cosine + *a * sine) * scale);
                }
            }
        });
    }

    /// Attention of the pieces' tokens to all tokens before them and themselves. `query` `[tokens, heads * head]`.
    fn attend(&self, pool: &ThreadPool, arena: &PageArena, pieces: &[Piece], layer: usize, query: &[f32]) -> Vec<f32> {
        let Config { heads, kv_heads, head, .. } = *self.config;
        // The heads of queries that share a head of keys, side by side.
        let group = heads / kv_heads * head;
        struct Task<'a> {
            pages: &'a [&'a auricle_kernels::attention::paged::cpu::Page],
            first: usize,
            count: usize,
            position: usize,
            kv_head: usize,
            out: Vec<f32>,
        }
        let of_pieces: Vec<_> = pieces.iter().map(|piece| arena.pages(piece.pages)).collect();
        let mut tasks = Vec::new();
        let mut begin = 0;
        for (piece, pages) in pieces.iter().zip(&of_pieces) {
            for from in (0..piece.tokens.len()).step_by(ATTENTION_TOKENS) {
                let count = ATTENTION_TOKENS.min(piece.tokens.len() - from);
                let (first, position) = (begin + from, piece.position + from);
                let of_head = |kv_head| Task { pages, first, count, position, kv_head, out: Vec::new() };
                tasks.extend((0..kv_heads).map(of_head));
            }
            begin += piece.tokens.len();
        }
        pool.for_each_item(&mut tasks, |_, task| {
            let rows = task.first..task.first + task.count;
            let of = |row: usize| &query[row * heads * head + task.kv_head * group..][..group];
            let queries: Vec<f32> = rows.flat_map(of).copied().collect();
            let visible: Vec<usize> =
                (0..task.count).flat_map(|at| std::iter::repeat_n(task.position + at + 1, group / head)).collect();
            task.out = vec![0f32; queries.len()];
            attend(task.pages, layer, task.kv_head, &queries, &visible, &mut task.out);
        });
        let mut out = vec![0f32; query.len()];
        for task in tasks {
            for (at, attended) in task.out.chunks_exact(group).enumerate() {
                out[(task.first + at) * heads * head + task.kv_head * group..][..group].copy_from_slice(attended);
            }
        }
        out
    }
}

fn normalize(pool: &ThreadPool, x: &[f32], gamma: &[f32], epsilon: f32) -> Vec<f32> {
    let mut out = vec![0f32; x.len()];
    let rows = (CHUNK / gamma.len()).max(1) * gamma.len();
    let mut work: Vec<_> = x.chunks(rows).zip(out.chunks_mut(rows)).collect();
    pool.for_each_item(&mut work, |_, (x, out)| rms_norm_rows(x, gamma, epsilon, out));
    out
}
