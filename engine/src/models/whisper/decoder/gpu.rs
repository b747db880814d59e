//! The decoder in tensors, for GPUs: all rows have the same columns, so that a step is the same few kernels for any
//! number of rows.

use std::ops::Range;

use auricle_kernels::attention::KeyRanges;
use auricle_kernels::gemv::Precision;
use auricle_kernels::quantized::QuantizedMatrix;
use auricle_kernels::state_cache;
use burn::tensor::{Bool, Device, Tensor, TensorData};

use super::super::attention::{Attention, KeyValues};
use super::super::config::Config;
use super::super::encoder::FeedForward;
use crate::error::Result;
use crate::layers::{LayerNorm, row_indices};
use crate::weights::Scope;

/// Columns allocated at a time; they are filled in place.
const ROOM: usize = 64;

/// The decoder.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// `[vocabulary, size]`: the token embeddings.
    tokens: Tensor<2>,
    /// The output projection in eight bits, if requested; otherwise the embeddings are used.
    scores: Option<QuantizedMatrix>,
    /// `[positions, size]`
    positions: Tensor<2>,
    blocks: Vec<Block>,
    norm: LayerNorm,
    /// Heads of each block whose attention follows the audio.
    alignment_heads: Vec<Vec<usize>>,
}

#[derive(Clone, Debug)]
struct Block {
    own_norm: LayerNorm,
    own: Attention,
    cross_norm: LayerNorm,
    cross: Attention,
    feed_forward: FeedForward,
}

/// Decoder state of rows, which are windows decoded together. Their tokens end at the same column; rows with fewer
/// tokens begin later, after padding columns.
#[derive(Debug)]
pub struct DecoderState {
    /// For each block: the audio, and the tokens so far with spare columns. These are filled in place, so nothing else
    /// may hold the tensor.
    cross: Vec<KeyValues>,
    own: Vec<Option<KeyValues>>,
    /// Columns before each row's first token.
    pads: Vec<usize>,
    columns: usize,
}

impl Decoder {
    /// Reads the decoder; 16 bits are for the encoder alone.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &Config, precision: Precision) -> Result<Self> {
        let (size, heads) = (config.size, config.decoder_heads);
        let precision = if precision == Precision::F16 { Precision::F32 } else { precision };
        let block = |at: usize| {
            let scope = scope.scope(format!("layers.{at}"));
            Ok(Block {
                own_norm: LayerNorm::load(&scope.scope("self_attn_layer_norm"), size)?,
                own: Attention::load(&scope.scope("self_attn"), size, heads, precision, precision)?,
                cross_norm: LayerNorm::load(&scope.scope("encoder_attn_layer_norm"), size)?,
                // All of a window's frames are projected once: a product with many rows.
                cross: Attention::load(&scope.scope("encoder_attn"), size, heads, precision, Precision::F32)?,
                feed_forward: FeedForward::load(&scope, size, config.decoder_inner, precision)?,
            })
        };
        let mut alignment_heads = vec![Vec::new(); config.decoder_layers];
        for (layer, head) in &config.alignment_heads {
            alignment_heads[*layer].push(*head);
        }
        let tokens = scope.scope("embed_tokens").values("weight", &[config.vocab_size, size])?;
        let less = precision == Precision::Int8 && size.is_multiple_of(4);
        Ok(Self {
            scores: less.then(|| QuantizedMatrix::new(&tokens, size, scope.device())),
            tokens: Tensor::from_data(TensorData::new(tokens, [config.vocab_size, size]), scope.device()),
            positions: scope.scope("embed_positions").tensor("weight", [config.positions, size])?,
            blocks: (0..config.decoder_layers).map(block).collect::<Result<_>>()?,
            norm: LayerNorm::load(&scope.scope("layer_norm"), size)?,
            alignment_heads,
        })
    }

    /// State of rows over encoder frames `[rows, frames, size]`, before their first token.
    pub fn start(&self, frames: &Tensor<3>) -> DecoderState {
        DecoderState {
            cross: self.blocks.iter().map(|block| block.cross.key_values(frames.clone())).collect(),
            own: vec![None; self.blocks.len()],
            pads: vec![0; frames.dims()[0]],
            columns: 0,
        }
    }

    /// Processes the next tokens of every row. Returns the scores of the token after them, `[rows, vocabulary]`, and
    /// the output of the first `blocks` blocks, `[rows, count, size]`; a row with fewer tokens than another has them at
    /// the end, after zeros.
    pub fn forward_through(
        &self,
        steps: &mut DecoderState,
        tokens: &[Vec<u32>],
        blocks: usize,
    ) -> (Tensor<2>, Tensor<3>) {
        let mut x = self.embed(steps, tokens);
        let count = x.dims()[1];
        let seen = steps.seen(count, &x.device());
        let mut middle = x.clone();
        let mut normed = self.next_norm(0).forward(x.clone());
        for (at, block) in self.blocks.iter().enumerate() {
            if at == blocks {
                middle = x.clone();
            }
            let inputs = block.attend_text([x, normed], &mut steps.own[at], &seen);
            let (norm, audio) = (block.feed_forward.norm(), &steps.cross[at]);
            let inputs = match &seen.text {
                TextMask::One(_) => block.cross.forward_one(inputs, norm, audio, &seen.audio),
                TextMask::Several(_) => block.cross.forward(inputs, norm, audio, None),
            };
            [x, normed] = block.feed_forward.forward_normed(inputs, self.next_norm(at + 1));
        }
        if blocks >= self.blocks.len() {
            middle = x;
        }
        let last = normed.narrow(1, count - 1, 1).squeeze_dim::<2>(1);
        let scores = match &self.scores {
            Some(scores) => scores.forward(last),
            None => last.matmul(self.tokens.clone().transpose()),
        };
        (scores, middle)
    }

    /// Attention of the alignment heads for each of `tokens` from index `from` on: `[tokens - from, alignment heads,
    /// frames]`.
    ///
    /// Processes all tokens again in one pass, so that no step has to store or read attention that is needed once per
    /// window.
    pub fn look_back(&self, steps: &DecoderState, row: usize, tokens: &[u32], from: usize) -> Tensor<3> {
        let mut alone = DecoderState {
            cross: steps.cross.iter().map(|kept| kept.row(row)).collect(),
            own: vec![None; self.blocks.len()],
            pads: vec![0],
            columns: 0,
        };
        let mut x = self.embed(&mut alone, &[tokens.to_vec()]);
        let seen = alone.seen(tokens.len(), &x.device());
        let mut weights = Vec::new();
        let mut normed = self.next_norm(0).forward(x.clone());
        for (at, (block, heads)) in self.blocks.iter().zip(&self.alignment_heads).enumerate() {
            let inputs = block.attend_text([x, normed], &mut alone.own[at], &seen);
            let (norm, cross) = (block.feed_forward.norm(), &alone.cross[at]);
            let inputs = if heads.is_empty() {
                block.cross.forward(inputs, norm, cross, None)
            } else {
                let (sums, head_weights) = block.cross.forward_with_weights(inputs, norm, cross);
                let head_weights = head_weights.narrow(2, from, tokens.len() - from).squeeze_dim::<3>(0);
                weights.push(head_weights.select(0, row_indices(heads, &sums[0].device())));
                sums
            };
            [x, normed] = block.feed_forward.forward_normed(inputs, self.next_norm(at + 1));
        }
        Tensor::cat(weights, 0).swap_dims(0, 1)
    }

    /// The norm of what the first `blocks` blocks have computed: that of the next block, or the last one.
    fn next_norm(&self, blocks: usize) -> &LayerNorm {
        self.blocks.get(blocks).map_or(&self.norm, |block| &block.own_norm)
    }

    /// Embeddings of the next tokens of every row, with their positions: `[rows, count, size]`.
    fn embed(&self, steps: &mut DecoderState, tokens: &[Vec<u32>]) -> Tensor<3> {
        let device = self.tokens.device();
        let (rows, count) = (tokens.len(), tokens.iter().map(Vec::len).max().unwrap_or(0));
        if steps.columns == 0 {
            steps.pads = tokens.iter().map(|tokens| count - tokens.len()).collect();
        }
        let before = steps.columns;
        steps.columns += count;
        let padded = tokens.iter().flat_map(|row| std::iter::repeat_n(0, count - row.len()).chain(row.iter().copied()));
        let ids: Vec<usize> = padded.map(|id| id as usize).collect();
        // A finished row continues beside the others, past the last position, without effect.
        let last = self.positions.dims()[0] - 1;
        let at = |pad: usize| (before..before + count).map(move |column| column.saturating_sub(pad).min(last));
        let positions: Vec<usize> = steps.pads.iter().flat_map(|pad| at(*pad)).collect();
        let embedded = self.tokens.clone().select(0, row_indices(&ids, &device))
            + self.positions.clone().select(0, row_indices(&positions, &device));
        let size = embedded.dims()[1];
        embedded.reshape([rows, count, size])
    }
}

impl Block {
    /// Adds the causal self-attention of `normed` `[rows, count, size]` to `x`: the sum, and its norm. Keys and values are appended
    /// to the cache.
    fn attend_text(
        &self,
        [x, normed]: [Tensor<3>; 2],
        own: &mut Option<KeyValues>,
        seen: &VisibleKeys,
    ) -> [Tensor<3>; 2] {
        let new = self.own.key_values(normed.clone());
        let text = match own.take() {
            Some(past) => past.append_columns(new, seen.columns),
            None => new,
        };
        let (inputs, norm) = ([x, normed], &self.cross_norm);
        let sums = match &seen.text {
            TextMask::One(spans) => self.own.forward_one(inputs, norm, &text, spans),
            TextMask::Several(mask) => self.own.forward(inputs, norm, &text.columns(0..seen.columns), Some(mask)),
        };
        *own = Some(text);
        sums
    }
}

/// The keys that the last tokens of every row attend to.
struct VisibleKeys {
    /// Columns of the text, these tokens included.
    columns: usize,
    text: TextMask,
    /// All frames of the audio.
    audio: KeyRanges,
}

enum TextMask {
    /// For one token per row.
    One(KeyRanges),
    /// For several tokens: true at masked columns, which are padding or later tokens, `[rows, 1, count, columns]`.
    Several(Tensor<4, Bool>),
}

impl DecoderState {
    /// The keys that the last `count` tokens attend to.
    fn seen(&self, count: usize, device: &Device) -> VisibleKeys {
        let columns = self.columns;
        let frames = self.cross.first().map_or(0, |kept| kept.keys.dims()[2]);
        let audio = KeyRanges::new(vec![0..frames; self.pads.len()], device);
        let text = if count == 1 {
            TextMask::One(KeyRanges::new(self.pads.iter().map(|pad| *pad..columns).collect(), device))
        } else {
            let hidden: Vec<bool> = self
                .pads
                .iter()
                .flat_map(|pad| (columns - count..columns).map(move |query| (*pad, query)))
                .flat_map(|(pad, query)| (0..columns).map(move |column| column < pad || column > query))
                .collect();
            let shape = [self.pads.len(), 1, count, columns];
            TextMask::Several(Tensor::from_data(TensorData::new(hidden, shape), device))
        };
        VisibleKeys { columns, text, audio }
    }

    /// Joins these rows and others to one batch: shorter rows get padding columns at their start.
    pub fn join(self, other: Self) -> Self {
        let columns = self.columns.max(other.columns);
        let (one, two) = (self.widen(columns), other.widen(columns));
        let own = |(one, two): (Option<KeyValues>, Option<KeyValues>)| Some(one?.append_rows(two?));
        Self {
            cross: one.cross.into_iter().zip(two.cross).map(|(one, two)| one.append_rows(two)).collect(),
            own: one.own.into_iter().zip(two.own).map(own).collect(),
            pads: one.pads.into_iter().chain(two.pads).collect(),
            columns,
        }
    }

    fn widen(mut self, columns: usize) -> Self {
        let more = columns - self.columns;
        let pad = |tensor: Tensor<4>| {
            let [rows, heads, _, head] = tensor.dims();
            Tensor::cat(vec![Tensor::zeros([rows, heads, more, head], &tensor.device()), tensor], 2)
        };
        for own in self.own.iter_mut().flatten() {
            let text = own.columns(0..self.columns);
            *own = if more == 0 { text } else { KeyValues { keys: pad(text.keys), values: pad(text.values) } };
        }
        self.pads.iter_mut().for_each(|pad| *pad += more);
        self.columns = columns;
        self
    }

    /// Keeps these rows, in this order, and drops the columns that none of them needs.
    pub fn keep(self, rows: &[usize]) -> Self {
        let pads: Vec<usize> = rows.iter().map(|row| self.pads[*row]).collect();
        let spare = pads.iter().copied().min().unwrap_or(0);
        let pick = |tensor: Tensor<4>| {
            let device = tensor.device();
            tensor.select(0, row_indices(rows, &device))
        };
        let cut = |tensor: Tensor<4>| pick(tensor.narrow(2, spare, self.columns - spare));
        let both = |change: &dyn Fn(Tensor<4>) -> Tensor<4>, kept: KeyValues| KeyValues {
            keys: change(kept.keys),
            values: change(kept.values),
        };
        Self {
            cross: self.cross.into_iter().map(|kept| both(&pick, kept)).collect(),
            own: self.own.into_iter().map(|kept| kept.map(|kept| both(&cut, kept))).collect(),
            pads: pads.into_iter().map(|pad| pad - spare).collect(),
            columns: self.columns - spare,
        }
    }
}

impl KeyValues {
    /// Keys and values of one row.
    fn row(&self, row: usize) -> Self {
        Self { keys: self.keys.clone().narrow(0, row, 1), values: self.values.clone().narrow(0, row, 1) }
    }

    /// Keys and values of a range of columns.
    fn columns(&self, which: Range<usize>) -> Self {
        let part = |tensor: &Tensor<4>| tensor.clone().narrow(2, which.start, which.len());
        Self { keys: part(&self.keys), values: part(&self.values) }
    }

    /// Appends columns, which are the last of `columns`: in the spare columns, or in a larger new tensor.
    fn append_columns(self, more: Self, columns: usize) -> Self {
        let count = more.keys.dims()[2];
        let add = |kept: Tensor<4>, new: Tensor<4>| {
            let [rows, heads, room, head] = kept.dims();
            if room >= columns {
                return state_cache::write_columns(kept, columns - count, new);
            }
            let spare = Tensor::zeros([rows, heads, ROOM, head], &kept.device());
            Tensor::cat(vec![kept.narrow(2, 0, columns - count), new, spare], 2)
        };
        Self { keys: add(self.keys, more.keys), values: add(self.values, more.values) }
    }

    /// Appends rows.
    fn append_rows(self, more: Self) -> Self {
        Self {
            keys: Tensor::cat(vec![self.keys, more.keys], 0),
            values: Tensor::cat(vec![self.values, more.values], 0),
        }
    }
}
