//! The decoder on the CPU: plain memory, separate caches for each row, each weight read once per step for all rows.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use auricle_kernels::activation::{Activation, gelu_in_place};
use auricle_kernels::attention::single_query::cpu::{KvCache, PagedKvCache};
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::product::int8::cpu::Int8Matrix;
use auricle_kernels::thread_pool::{self, ThreadPool};
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::super::block_form::{DecoderConfig, TokenTables};
use super::{DecoderOutput, Scores};
use crate::error::Result;
use crate::layers::{Bias, Linear, Matrix, Packed, PackedNorm, Rounded, apply_in_place, scaled};
use crate::weights::Scope;

/// The decoder.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// The output projection: 8 bits are the fewest that it has.
    tokens: Matrix,
    output_bias: Option<Vec<f32>>,
    /// Token embeddings, `[vocabulary, size]`, where they are not the output projection.
    embeddings: Option<Vec<f32>>,
    embedding_norm: Option<PackedNorm>,
    activation: Activation,
    /// `[positions, size]`
    positions: Vec<f32>,
    blocks: Vec<Block>,
    cross_in: CrossIn,
    norm: PackedNorm,
    /// Heads of each block whose attention follows the audio.
    alignment_heads: Vec<Vec<usize>>,
    heads: usize,
    /// Of the audio's keys and values: a step reads all of them.
    precision: Precision,
}

#[derive(Clone, Debug)]
struct Block {
    own_norm: PackedNorm,
    /// Query, key and value, concatenated.
    own_in: Packed,
    own_out: Packed,
    cross_norm: PackedNorm,
    cross_query: Packed,
    cross_out: Packed,
    norm: PackedNorm,
    up: Packed,
    down: Packed,
}

/// The layers of each block for the audio's keys and values, applied to all frames at once.
#[derive(Clone, Debug)]
enum CrossIn {
    Full(Vec<[Linear; 2]>),
    /// On a CPU that is faster with 8 bits.
    Rounded(Vec<[Rounded; 2]>),
}

/// The layers for keys and values of each block.
fn of_each<T>(config: &DecoderConfig, load: impl Fn(usize, &str, Bias) -> Result<T>) -> Result<Vec<[T; 2]>> {
    let both = |at| Ok([load(at, "k_proj", config.form.key_bias)?, load(at, "v_proj", Bias::With)?]);
    (0..config.layers).map(both).collect()
}

/// Decoder state of rows.
#[derive(Clone, Debug, Default)]
pub struct DecoderState {
    rows: Vec<RowCaches>,
}

#[derive(Clone, Debug)]
struct RowCaches {
    /// Cache of the audio, for each block and head: `[blocks * heads]`.
    cross: Arc<Vec<KvCache>>,
    /// Cache of the tokens so far, for each block and head.
    own: Vec<PagedKvCache>,
    position: usize,
}

impl Decoder {
    /// Reads the decoder.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &DecoderConfig, tables: TokenTables, precision: Precision) -> Result<Self> {
        let (size, heads, form) = (config.size, config.heads, config.form);
        let scale = ((size / heads) as f32).powf(-0.5);
        // 4 bits are those of the feed-forward layers, which are most of a block.
        let of_attention = precision.at_least_8_bits();
        let layer = |scope: &Scope, inputs, outputs, precision| {
            let values = scaled(scope, &[outputs, inputs], Bias::With, 1.0);
            values.map(|(weight, bias)| Packed::for_few_rows(&weight, bias, precision))
        };
        let norm = |scope: &Scope| PackedNorm::load(scope, size);
        let query = |scope: &Scope| scaled(scope, &[size, size], Bias::With, scale);
        let block = |at: usize| {
            let scope = scope.scope(format!("layers.{at}"));
            let (own, cross) = (scope.scope("self_attn"), scope.scope("encoder_attn"));
            let (mut weight, mut bias) = query(&own.scope("q_proj"))?;
            for (name, with) in [("k_proj", form.key_bias), ("v_proj", Bias::With)] {
                let (more, biases) = scaled(&own.scope(name), &[size, size], with, 1.0)?;
                weight.extend(more);
                bias.extend(biases);
            }
            let own_in = Packed::for_few_rows(&weight, bias, of_attention);
            let (weight, bias) = query(&cross.scope("q_proj"))?;
            Ok(Block {
                own_norm: norm(&scope.scope(form.own_norm))?,
                own_in,
                own_out: layer(&own.scope(form.output), size, size, of_attention)?,
                cross_norm: norm(&scope.scope(form.cross_norm))?,
                cross_query: Packed::for_few_rows(&weight, bias, of_attention),
                cross_out: layer(&cross.scope(form.output), size, size, of_attention)?,
                norm: norm(&scope.scope(form.norm))?,
                up: layer(&scope.scope(form.up), size, config.inner, precision)?,
                down: layer(&scope.scope(form.down), config.inner, size, precision)?,
            })
        };
        let square = [size, size];
        let cross = |at: usize, name: &str| scope.scope(format!("layers.{at}.encoder_attn.{name}"));
        let cross_in = if precision.has_8_bits() && Int8Matrix::is_fast() {
            CrossIn::Rounded(of_each(config, |at, name, bias| Rounded::load(&cross(at, name), square, bias, 1.0))?)
        } else {
            CrossIn::Full(of_each(config, |at, name, bias| Linear::load(&cross(at, name), size, size, bias))?)
        };
        let embedded = scope.scope("embed_tokens").values("weight", &[config.vocab_size, size])?;
        let (output, embeddings) = match tables.output {
            Some(output) => (output, Some(embedded)),
            None => (embedded, None),
        };
        let tokens = Matrix::new(&output, size, config.vocab_size, of_attention);
        // Before the blocks are read: in 32 bits it is larger than all else.
        drop(output);
        Ok(Self {
            tokens,
            output_bias: tables.output_bias,
            embeddings,
            embedding_norm: form.embedding_norm.map(|name| norm(&scope.scope(name))).transpose()?,
            activation: form.activation,
            positions: tables.positions,
            blocks: (0..config.layers).map(block).collect::<Result<_>>()?,
            cross_in,
            norm: norm(&scope.scope(form.last_norm))?,
            alignment_heads: config.heads_of_blocks(),
            heads,
            precision,
        })
    }

    /// Width of a token.
    pub fn size(&self) -> usize {
        self.tokens.inputs()
    }

    fn embedding(&self, token: usize) -> Cow<'_, [f32]> {
        let size = self.size();
        match &self.embeddings {
            Some(embeddings) => Cow::Borrowed(&embeddings[token * size..][..size]),
            None => Cow::Owned(self.tokens.output(token)),
        }
    }

    /// State of rows over encoder frames `[rows, frames, size]`, before their first token.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn start(&self, frames: &Tensor<3>) -> Result<DecoderState> {
        let [rows, count, size] = frames.dims();
        let head = size / self.heads;
        let mut cross: Vec<Vec<KvCache>> =
            (0..rows).map(|_| Vec::with_capacity(self.blocks.len() * self.heads)).collect();
        let mut fill = |keys: &[f32], values: &[f32]| {
            for (row, cross) in cross.iter_mut().enumerate() {
                let part = row * count * size..(row + 1) * count * size;
                let seen = (0..self.heads).into_par_iter().map(|at| {
                    let mut seen = KvCache::with_capacity(head, count, self.precision);
                    let (keys, values) = (&keys[part.clone()], &values[part.clone()]);
                    for (key, value) in keys.chunks_exact(size).zip(values.chunks_exact(size)) {
                        seen.push(&key[at * head..][..head], &value[at * head..][..head]);
                    }
                    seen
                });
                cross.par_extend(seen);
            }
        };
        match &self.cross_in {
            CrossIn::Full(blocks) => {
                for layers in blocks {
                    let both = layers.each_ref().map(|layer| layer.forward(frames.clone()));
                    let [keys, values] = crate::device::read_both(both)?;
                    fill(&keys, &values);
                }
            }
            CrossIn::Rounded(blocks) => {
                let x = crate::device::read(frames.clone())?;
                let x = blocks.first().map(|[first, _]| thread_pool::run(|pool| first.round(pool, &x)));
                for (layers, x) in blocks.iter().zip(x.iter().cycle()) {
                    let [keys, values] = thread_pool::run(|pool| layers.each_ref().map(|layer| layer.forward(pool, x)));
                    fill(&keys, &values);
                }
            }
        }
        let own = vec![PagedKvCache::new(head); self.blocks.len() * self.heads];
        let row = |cross| RowCaches { cross: Arc::new(cross), own: own.clone(), position: 0 };
        Ok(DecoderState { rows: cross.into_iter().map(row).collect() })
    }

    /// Processes the next tokens of every row; also returns the output of the first `blocks` blocks, `[size]` for each
    /// token.
    pub fn forward_through(
        &self,
        steps: &mut DecoderState,
        tokens: &[Vec<u32>],
        blocks: usize,
    ) -> (DecoderOutput, Vec<f32>) {
        thread_pool::run(|pool| self.run(pool, steps, tokens, blocks))
    }

    fn run(
        &self,
        pool: &ThreadPool,
        steps: &mut DecoderState,
        tokens: &[Vec<u32>],
        blocks: usize,
    ) -> (DecoderOutput, Vec<f32>) {
        let size = self.size();
        let last_position = self.positions.len() / size - 1;
        let mut x = Vec::with_capacity(tokens.iter().map(Vec::len).sum::<usize>() * size);
        for (row, tokens) in steps.rows.iter_mut().zip(tokens) {
            for token in tokens {
                // A finished row continues beside the others, past the last position, without effect.
                let position = &self.positions[row.position.min(last_position) * size..][..size];
                x.extend(
                    self.embedding(*token as usize).iter().zip(position).map(|(token, position)| token + position),
                );
                row.position += 1;
            }
        }
        if let Some(norm) = &self.embedding_norm {
            x = norm.forward(pool, &x);
        }
        let mut weights = vec![Vec::new(); steps.rows.len()];
        let mut middle = Vec::new();
        for (number, block) in self.blocks.iter().enumerate() {
            if number == blocks {
                middle.clone_from(&x);
            }
            let qkv = block.own_in.forward(pool, &block.own_norm.forward(pool, &x));
            let attended = self.attend_own(pool, steps, tokens, number, &qkv);
            block.own_out.add_to(pool, &attended, &mut x);
            let query = block.cross_query.forward(pool, &block.cross_norm.forward(pool, &x));
            let attended = self.attend_cross(pool, steps, tokens, number, &query, &mut weights);
            block.cross_out.add_to(pool, &attended, &mut x);
            let mut inner = block.up.forward(pool, &block.norm.forward(pool, &x));
            apply_in_place(pool, &mut inner, |inner| match self.activation {
                Activation::Relu => inner.iter_mut().for_each(|value| *value = value.max(0.0)),
                _ => gelu_in_place(inner),
            });
            block.down.add_to(pool, &inner, &mut x);
        }
        if blocks >= self.blocks.len() {
            middle.clone_from(&x);
        }
        let mut end = 0;
        let last: Vec<f32> = tokens
            .iter()
            .flat_map(|tokens| {
                end += tokens.len() * size;
                &x[end - size..end]
            })
            .copied()
            .collect();
        let scores = self.tokens.forward(pool, &self.norm.forward(pool, &last), self.output_bias.as_deref());
        (DecoderOutput { scores: Scores::Cpu(scores), weights }, middle)
    }

    /// Causal self-attention of tokens. `qkv` `[tokens, 3 * size]`: queries, keys, values.
    fn attend_own(
        &self,
        pool: &ThreadPool,
        steps: &mut DecoderState,
        tokens: &[Vec<u32>],
        block: usize,
        qkv: &[f32],
    ) -> Vec<f32> {
        let (size, heads) = (self.size(), self.heads);
        let head = size / heads;
        let mut out = vec![0f32; qkv.len() / 3];
        let mut work = Vec::with_capacity(steps.rows.len());
        let (mut rest, mut qkv) = (out.as_mut_slice(), qkv);
        for (row, tokens) in steps.rows.iter_mut().zip(tokens) {
            let (mine, others) = rest.split_at_mut(tokens.len() * size);
            let (row_qkv, more) = qkv.split_at(tokens.len() * 3 * size);
            work.push((&mut row.own[block * heads..][..heads], mine, row_qkv));
            (rest, qkv) = (others, more);
        }
        pool.for_each_item(&mut work, |_, (seen, out, qkv)| {
            let mut scores = Vec::new();
            for (out, qkv) in out.chunks_exact_mut(size).zip(qkv.chunks_exact(3 * size)) {
                let (query, key_value) = qkv.split_at(size);
                let (key, value) = key_value.split_at(size);
                for (at, (seen, out)) in seen.iter_mut().zip(out.chunks_exact_mut(head)).enumerate() {
                    let part = at * head..(at + 1) * head;
                    seen.push(&key[part.clone()], &value[part.clone()]);
                    seen.attend(&query[part], out, &mut scores);
                }
            }
        });
        out
    }

    /// Cross-attention of tokens to the audio. `query` `[tokens, size]`. The alignment heads' attention of each row's
    /// last token is written to `weights`.
    fn attend_cross(
        &self,
        pool: &ThreadPool,
        steps: &DecoderState,
        tokens: &[Vec<u32>],
        block: usize,
        query: &[f32],
        weights: &mut [Vec<f32>],
    ) -> Vec<f32> {
        let (size, heads) = (self.size(), self.heads);
        let head = size / heads;
        let rows = steps.rows.iter().zip(tokens);
        let row_of: Vec<&RowCaches> = rows.flat_map(|(row, tokens)| std::iter::repeat_n(row, tokens.len())).collect();
        // Tokens that read the same audio do so together: those of a prompt, and those of a window's paths.
        let mut groups: Vec<Range<usize>> = Vec::new();
        for (token, row) in row_of.iter().enumerate() {
            match groups.last_mut() {
                Some(group)
                    if group.len() < KvCache::MOST_QUERIES && Arc::ptr_eq(&row_of[group.start].cross, &row.cross) =>
                {
                    group.end += 1;
                }
                _ => groups.push(token..token + 1),
            }
        }
        let mut work = vec![(Vec::new(), Vec::new()); groups.len() * heads];
        pool.for_each_item(&mut work, |number, (out, weights)| {
            let (group, at) = (&groups[number / heads], number % heads);
            let of_group = query[group.start * size..group.end * size].chunks_exact(size);
            let queries: Vec<f32> = of_group.flat_map(|query| &query[at * head..][..head]).copied().collect();
            *out = vec![0f32; queries.len()];
            row_of[group.start].cross[block * heads + at].attend(&queries, out, weights);
        });
        let mut out = vec![0f32; query.len()];
        for (group, work) in groups.iter().zip(work.chunks_exact(heads)) {
            let rows = out[group.start * size..group.end * size].chunks_exact_mut(size);
            for (number, row) in rows.enumerate() {
                let of_heads = row.chunks_exact_mut(head).zip(work);
                of_heads.for_each(|(out, (found, _))| out.copy_from_slice(&found[number * head..][..head]));
            }
        }
        let mut end = 0;
        for (tokens, weights) in tokens.iter().zip(weights).filter(|(tokens, _)| !tokens.is_empty()) {
            end += tokens.len();
            let group = groups.partition_point(|group| group.end < end);
            for head in &self.alignment_heads[block] {
                let of_group = &work[group * heads + head].1;
                let count = of_group.len() / groups[group].len();
                weights.extend_from_slice(&of_group[(end - 1 - groups[group].start) * count..][..count]);
            }
        }
        out
    }
}

impl DecoderState {
    /// Each row by itself.
    pub fn rows(&self) -> impl Iterator<Item = Self> {
        self.rows.iter().map(|row| Self { rows: vec![row.clone()] })
    }

    pub fn join(mut self, other: Self) -> Self {
        self.rows.extend(other.rows);
        self
    }

    pub fn keep(self, rows: &[usize]) -> Self {
        let mut left: Vec<Option<RowCaches>> = self.rows.into_iter().map(Some).collect();
        // A row's last place takes its caches, the others copies.
        let take = |(at, row): (usize, &usize)| match rows[at + 1..].contains(row) {
            true => left[*row].clone(),
            false => left[*row].take(),
        };
        Self { rows: rows.iter().enumerate().filter_map(take).collect() }
    }
}
