//! The decoder in tensors, for GPUs: all rows have the same columns, so that a step is the same few kernels for any
//! number of rows.
//!
//! In half precision weights, and keys and values of the audio, have 16 bits, as a step takes as long as they are read; all else has 32.

use std::ops::Range;

use auricle_kernels::attention::single_query::{self, KeyRanges, is_one_launch};
use auricle_kernels::cache::state;
use auricle_kernels::product::gemv::Precision;
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

use super::super::attention::{Attention, KeyValues, masked_attention};
use super::super::block_form::{BlockForm, DecoderConfig, TokenTables};
use super::super::encoder::FeedForward;
use crate::error::Result;
use crate::layers::{
    Bias, LayerNorm, Linear, RecordedSteps, StepInputs, pack_together, parts_of, row_indices, scaled, upload,
};
use crate::weights::Scope;

/// Columns allocated at a time; they are filled in place.
const ROOM: usize = 64;

/// The results of a step: the scores of the next token, and the output of the first blocks.
type StepOutput = (Tensor<2>, Tensor<3>);

/// The decoder.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// `[vocabulary, size]`: the token embeddings.
    tokens: Tensor<2>,
    embedding_norm: Option<LayerNorm>,
    /// The output projection, whose weights are mostly the token embeddings, in the order in which a product reads them.
    scores: Linear,
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
    own: OwnAttention,
    cross_norm: LayerNorm,
    cross: Attention,
    feed_forward: FeedForward,
}

/// Attention to the tokens so far.
#[derive(Clone, Debug)]
struct OwnAttention {
    /// Queries, scaled by the inverse square root of a head's width, keys and values in one product.
    input: Linear,
    output: Linear,
    heads: usize,
}

/// Keys and values of the audio.
#[derive(Debug)]
struct AudioKeyValues {
    /// `[rows, heads, head, frames]`, so that the units of a kernel, each with a frame, read what lies side by side.
    keys: Tensor<4>,
    /// `[rows, heads, frames, head]`
    values: Tensor<4>,
}

/// Decoder state of rows, which are windows decoded together. Their tokens end at the same column; rows with fewer
/// tokens begin later, after padding columns.
#[derive(Debug)]
pub struct DecoderState {
    /// For each block: keys and values of the audio.
    cross: Vec<AudioKeyValues>,
    /// Frames of each row's audio; those behind them are padding.
    frames: Vec<usize>,
    /// For each block: keys, then values, of the tokens so far with spare columns, `[rows, 2 heads, columns, head]`. They are filled in
    /// place, so nothing else may hold the tensor.
    own: Vec<Option<Tensor<4>>>,
    /// Columns before each row's first token.
    pads: Vec<usize>,
    columns: usize,
    /// Steps of one token a row over these tensors, which the host repeats in less time than it takes to launch them.
    recorded: RecordedSteps<StepOutput>,
}

/// A batch has one shape of step at a time: another comes with other tensors, or asks for another block.
fn no_records() -> RecordedSteps<StepOutput> {
    RecordedSteps::new(1)
}

impl Decoder {
    /// Reads the decoder.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &DecoderConfig, tables: TokenTables, precision: Precision) -> Result<Self> {
        let (size, heads, form) = (config.size, config.heads, config.form);
        // 16 bits are stored ones: inputs and outputs stay as they are.
        let stored = if precision == Precision::F16 { Precision::F32 } else { precision };
        // 4 bits are those of the feed-forward layers, as on the CPU.
        let of_attention = precision.at_least_8_bits();
        let block = |at: usize| {
            let scope = scope.scope(format!("layers.{at}"));
            // All of a window's frames are projected once: a product with many rows.
            let precisions = [stored.at_least_8_bits(), Precision::F32];
            let cross = Attention::load(&scope.scope("encoder_attn"), form, size, heads, precisions)?;
            Ok(Block {
                own_norm: LayerNorm::load(&scope.scope(form.own_norm), size)?,
                own: OwnAttention::load(&scope.scope("self_attn"), form, size, heads, of_attention)?,
                cross_norm: LayerNorm::load(&scope.scope(form.cross_norm), size)?,
                cross: cross.with_wide_precision(of_attention),
                feed_forward: FeedForward::load(&scope, form, [size, config.inner], stored)?
                    .with_wide_precision(precision),
            })
        };
        let tokens = scope.scope("embed_tokens").values("weight", &[config.vocab_size, size])?;
        Ok(Self {
            scores: Linear::for_few_rows(
                tables.output.as_ref().unwrap_or(&tokens),
                size,
                tables.output_bias,
                of_attention,
                scope.device(),
            ),
            embedding_norm: match form.embedding_norm {
                Some(name) => Some(LayerNorm::load(&scope.scope(name), size)?),
                None => None,
            },
            tokens: Tensor::from_data(TensorData::new(tokens, [config.vocab_size, size]), scope.device()),
            positions: Tensor::from_data(
                TensorData::new(tables.positions.clone(), [tables.positions.len() / size, size]),
                scope.device(),
            ),
            blocks: (0..config.layers).map(block).collect::<Result<_>>()?,
            norm: LayerNorm::load(&scope.scope(form.last_norm), size)?,
            alignment_heads: config.heads_of_blocks(),
        })
    }

    /// State of rows over encoder frames `[rows, frames, size]`, before their first token.
    pub fn start(&self, frames: &Tensor<3>) -> DecoderState {
        DecoderState {
            cross: self
                .blocks
                .iter()
                .map(|block| AudioKeyValues::new(block.cross.key_values(frames.clone())))
                .collect(),
            frames: vec![frames.dims()[1]; frames.dims()[0]],
            own: vec![None; self.blocks.len()],
            pads: vec![0; frames.dims()[0]],
            columns: 0,
            recorded: no_records(),
        }
    }

    /// Processes the next tokens of every row. Returns the scores of the token after them, `[rows, vocabulary]`, and
    /// the output of the first `blocks` blocks, `[rows, count, size]`; a row with fewer tokens than another has them at
    /// the end, after zeros. The next step of one token a row may overwrite both.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) when the device failed.
    pub fn forward_through(&self, steps: &mut DecoderState, tokens: &[Vec<u32>], blocks: usize) -> Result<StepOutput> {
        let count = tokens.iter().map(Vec::len).max().unwrap_or(0);
        if count == 1 {
            return self.next_token(steps, tokens, blocks);
        }
        let (integers, places) = pack_together(self.integers(steps, tokens, count));
        let [_, _, positions, ids, _] = parts_of(&upload(integers, &self.tokens.device()), &places);
        let device = self.tokens.device();
        let (x, mask) = (self.embed([positions, ids], tokens.len(), count), steps.mask(count, &device));
        let beyond = steps.beyond(count, &device);
        let columns = steps.columns;
        // The caches may become other tensors.
        steps.recorded = no_records();
        Ok(self.through_blocks(x, steps, blocks, |block, text, audio, inputs| {
            let inputs = block.attend_text(inputs, text, columns, &mask);
            block.cross.forward(inputs, block.feed_forward.norm(), audio, beyond.as_ref())
        }))
    }

    /// As [`Decoder::forward_through`] for one token a row: a step that is recorded when it comes again.
    fn next_token(&self, steps: &mut DecoderState, tokens: &[Vec<u32>], blocks: usize) -> Result<StepOutput> {
        let device = self.tokens.device();
        let (rows, frames, integers) = (tokens.len(), steps.most_frames(), self.integers(steps, tokens, 1));
        let heard: Vec<Range<usize>> = steps.frames.iter().map(|frames| 0..*frames).collect();
        self.make_room(steps, rows);
        let (integers, places) = pack_together(integers);
        let (columns, shape) = (steps.columns, [rows, blocks]);
        let mut recorded = std::mem::replace(&mut steps.recorded, no_records());
        let mut step = |integers: Tensor<1, Int>| {
            let [text, audio, positions, ids, column] = parts_of(&integers, &places);
            let text = KeyRanges::with_packed(vec![0..columns; rows], text);
            let audio = KeyRanges::with_packed(heard.clone(), audio);
            let x = self.embed([positions, ids], rows, 1);
            self.through_blocks(x, steps, blocks, |block, own, kept, inputs| {
                let inputs = block.attend_one(inputs, own, &column, &text);
                block.cross.forward_one(inputs, block.feed_forward.norm(), kept, &audio)
            })
        };
        let head = self.tokens.dims()[1] / self.blocks.first().map_or(1, |block| block.own.heads);
        let done = match is_one_launch(frames.max(columns), head) {
            // A step may run twice: it writes the same to the same column.
            true => {
                let inputs = StepInputs { integers, values: None };
                recorded.run(shape, inputs, &device, <[i32]>::to_vec, |integers, _| step(integers))
            }
            false => Ok(step(upload(integers, &device))),
        };
        steps.recorded = recorded;
        done
    }

    /// Takes embeddings `[rows, count, size]` through the blocks, whose two attentions `attend` adds.
    fn through_blocks(
        &self,
        mut x: Tensor<3>,
        steps: &mut DecoderState,
        blocks: usize,
        attend: impl Fn(&Block, &mut Option<Tensor<4>>, &KeyValues, [Tensor<3>; 2]) -> [Tensor<3>; 2],
    ) -> StepOutput {
        let count = x.dims()[1];
        let mut middle = x.clone();
        let mut normed = self.next_norm(0).forward(x.clone());
        for (at, block) in self.blocks.iter().enumerate() {
            if at == blocks {
                middle = x.clone();
            }
            let inputs = attend(block, &mut steps.own[at], &steps.cross[at].view(), [x, normed]);
            [x, normed] = block.feed_forward.forward_normed(inputs, self.next_norm(at + 1));
        }
        if blocks >= self.blocks.len() {
            middle = x;
        }
        let last = normed.narrow(1, count - 1, 1).squeeze_dim::<2>(1);
        (self.scores.forward(last), middle)
    }

    /// Makes room for one more column in every cache. Larger caches are other tensors, which no record knows.
    fn make_room(&self, steps: &mut DecoderState, rows: usize) {
        let (before, device) = (steps.columns - 1, self.tokens.device());
        for (own, block) in steps.own.iter_mut().zip(&self.blocks) {
            let heads = block.own.heads;
            let spare = || Tensor::zeros([rows, 2 * heads, ROOM, self.tokens.dims()[1] / heads], &device);
            let full = match own {
                Some(cache) if cache.dims()[2] >= steps.columns => continue,
                Some(cache) => Tensor::cat(vec![columns(cache, 0..before), spare()], 2),
                None => spare(),
            };
            *own = Some(full);
            steps.recorded = no_records();
        }
    }

    /// Attention of the alignment heads for each of `tokens` from index `from` on: `[tokens - from, alignment heads,
    /// frames]`.
    ///
    /// Processes all tokens again in one pass, so that no step has to store or read attention that is needed once per
    /// window.
    pub fn look_back(&self, steps: &DecoderState, row: usize, tokens: &[u32], from: usize) -> Tensor<3> {
        let mut alone = DecoderState {
            cross: steps.cross.iter().map(|kept| kept.row(row, steps.frames[row])).collect(),
            frames: vec![steps.frames[row]],
            own: vec![None; self.blocks.len()],
            pads: vec![0],
            columns: 0,
            recorded: no_records(),
        };
        let device = self.tokens.device();
        let (integers, places) = pack_together(self.integers(&mut alone, &[tokens.to_vec()], tokens.len()));
        let [_, _, positions, ids, _] = parts_of(&upload(integers, &device), &places);
        let mut x = self.embed([positions, ids], 1, tokens.len());
        let mask = alone.mask(tokens.len(), &device);
        let mut weights = Vec::new();
        let mut normed = self.next_norm(0).forward(x.clone());
        for (at, (block, heads)) in self.blocks.iter().zip(&self.alignment_heads).enumerate() {
            let inputs = block.attend_text([x, normed], &mut alone.own[at], tokens.len(), &mask);
            let (norm, cross) = (block.feed_forward.norm(), alone.cross[at].view());
            let inputs = if heads.is_empty() {
                block.cross.forward(inputs, norm, &cross, None)
            } else {
                let (sums, head_weights) = block.cross.forward_with_weights(inputs, norm, &cross);
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

    /// The integers of a step of `count` tokens a row, which it appends to the columns: start and end of each row's text and audio, the
    /// tokens' positions, the tokens, and the first of their columns.
    fn integers(&self, steps: &mut DecoderState, tokens: &[Vec<u32>], count: usize) -> [Vec<i32>; 5] {
        if steps.columns == 0 {
            steps.pads = tokens.iter().map(|tokens| count - tokens.len()).collect();
        }
        let before = steps.columns;
        steps.columns += count;
        let padded = tokens.iter().flat_map(|row| std::iter::repeat_n(0, count - row.len()).chain(row.iter().copied()));
        // A finished row continues beside the others, past the last position, without effect.
        let last = self.positions.dims()[0] - 1;
        let at = |pad: usize| (before..before + count).map(move |column| column.saturating_sub(pad).min(last));
        let positions = steps.pads.iter().flat_map(|pad| at(*pad));
        let columns = steps.columns;
        [
            steps.pads.iter().flat_map(|pad| [*pad as i32, columns as i32]).collect(),
            steps.frames.iter().flat_map(|frames| [0, *frames as i32]).collect(),
            positions.map(|position| position as i32).collect(),
            padded.map(|id| id as i32).collect(),
            vec![before as i32],
        ]
    }

    /// Embeddings of tokens at their positions, `[rows, count, size]`.
    fn embed(&self, places: [Tensor<1, Int>; 2], rows: usize, count: usize) -> Tensor<3> {
        let [positions, ids] = places.map(|part| part.narrow(0, 0, rows * count));
        let embedded = self.tokens.clone().select(0, ids) + self.positions.clone().select(0, positions);
        let size = embedded.dims()[1];
        let embedded = match &self.embedding_norm {
            Some(norm) => norm.forward(embedded),
            None => embedded,
        };
        embedded.reshape([rows, count, size])
    }
}

impl Block {
    /// Adds the causal self-attention of `normed` `[rows, count, size]` to `x`: the sum, and its norm. Keys and values are appended
    /// to the cache, which has `all` columns then; the mask is true at those that a token does not attend to.
    fn attend_text(
        &self,
        [x, normed]: [Tensor<3>; 2],
        own: &mut Option<Tensor<4>>,
        all: usize,
        mask: &Tensor<4, Bool>,
    ) -> [Tensor<3>; 2] {
        let [query, new] = self.project(normed);
        let text = match own.take() {
            Some(past) => append_columns(past, new, all),
            None => new,
        };
        let seen = self.keys_of(columns(&text, 0..all));
        *own = Some(text);
        self.own.output.forward_normed(masked_attention(query, &seen, Some(mask)), x, &self.cross_norm)
    }

    /// As [`Block::attend_text`] for one token a row, in a column that the cache has.
    fn attend_one(
        &self,
        [x, normed]: [Tensor<3>; 2],
        own: &mut Option<Tensor<4>>,
        column: &Tensor<1, Int>,
        seen: &KeyRanges,
    ) -> [Tensor<3>; 2] {
        let [query, new] = self.project(normed);
        let text = match own.take() {
            Some(cache) => state::write_columns_at(cache, column.clone(), new),
            None => new,
        };
        let KeyValues { keys, values } = self.keys_of(text.clone());
        *own = Some(text);
        let attended = single_query::attend(query, keys, values, seen);
        self.own.output.forward_normed(attended, x, &self.cross_norm)
    }

    /// Queries, and keys with values, of `normed` `[rows, count, size]`: views of a product, `[rows, .., count, head]`.
    fn project(&self, normed: Tensor<3>) -> [Tensor<4>; 2] {
        let OwnAttention { input, heads, .. } = &self.own;
        let [rows, count, size] = normed.dims();
        let projected = input.forward(normed).reshape([rows, count, 3 * heads, size / heads]).swap_dims(1, 2);
        [projected.clone().narrow(1, 0, *heads), projected.narrow(1, *heads, 2 * heads)]
    }

    fn keys_of(&self, text: Tensor<4>) -> KeyValues {
        let heads = self.own.heads;
        KeyValues { keys: text.clone().narrow(1, 0, heads), values: text.narrow(1, heads, heads) }
    }
}

impl OwnAttention {
    /// Reads `self_attn`.
    fn load(scope: &Scope, form: &BlockForm, size: usize, heads: usize, precision: Precision) -> Result<Self> {
        let part = |name: &str, bias, scale| scaled(&scope.scope(name), &[size, size], bias, scale);
        let (mut weights, mut biases) = part("q_proj", Bias::With, ((size / heads) as f32).powf(-0.5))?;
        for (weight, bias) in [part("k_proj", form.key_bias, 1.0)?, part("v_proj", Bias::With, 1.0)?] {
            weights.extend(weight);
            biases.extend(bias);
        }
        let output = scope.scope(form.output);
        let (weight, bias) = scaled(&output, &[size, size], Bias::With, 1.0)?;
        Ok(Self {
            input: Linear::for_few_rows(&weights, size, Some(biases), precision, scope.device()),
            output: Linear::for_few_rows(&weight, size, Some(bias), precision, output.device()),
            heads,
        })
    }
}

impl DecoderState {
    /// Frames of the longest audio, which all rows have room for.
    fn most_frames(&self) -> usize {
        self.cross.first().map_or(0, |audio| audio.keys.dims()[3])
    }

    /// The frames behind each row's audio for `count` tokens, `[rows, 1, count, frames]`; none where all rows are equally long.
    fn beyond(&self, count: usize, device: &Device) -> Option<Tensor<4, Bool>> {
        let most = self.most_frames();
        let beyond = |frames: &usize| (0..count * most).map(|at| at % most >= *frames).collect::<Vec<bool>>();
        let is_padded = self.frames.iter().any(|frames| *frames < most);
        let shape = [self.frames.len(), 1, count, most];
        is_padded.then(|| {
            let hidden: Vec<bool> = self.frames.iter().flat_map(beyond).collect();
            Tensor::from_data(TensorData::new(hidden, shape), device)
        })
    }

    /// The columns of the text that the last `count` tokens do not attend to: `[rows, 1, count, columns]`.
    fn mask(&self, count: usize, device: &Device) -> Tensor<4, Bool> {
        let columns = self.columns;
        let hidden: Vec<bool> = self
            .pads
            .iter()
            .flat_map(|pad| (columns - count..columns).map(move |query| (*pad, query)))
            .flat_map(|(pad, query)| (0..columns).map(move |column| column < pad || column > query))
            .collect();
        Tensor::from_data(TensorData::new(hidden, [self.pads.len(), 1, count, columns]), device)
    }

    /// Joins these rows and others to one batch: shorter rows get padding columns at their start.
    pub fn join(self, other: Self) -> Self {
        let columns = self.columns.max(other.columns);
        let most = self.most_frames().max(other.most_frames());
        let (one, two) = (self.widen(columns), other.widen(columns));
        let own = |(one, two): (Option<Tensor<4>>, Option<Tensor<4>>)| Some(Tensor::cat(vec![one?, two?], 0));
        Self {
            cross: one
                .cross
                .into_iter()
                .zip(two.cross)
                .map(|(one, two)| one.padded(most).append_rows(two.padded(most)))
                .collect(),
            frames: one.frames.into_iter().chain(two.frames).collect(),
            own: one.own.into_iter().zip(two.own).map(own).collect(),
            pads: one.pads.into_iter().chain(two.pads).collect(),
            columns,
            recorded: no_records(),
        }
    }

    fn widen(mut self, all: usize) -> Self {
        let more = all - self.columns;
        let pad = |tensor: Tensor<4>| {
            let [rows, heads, _, head] = tensor.dims();
            Tensor::cat(vec![Tensor::zeros([rows, heads, more, head], &tensor.device()), tensor], 2)
        };
        for own in self.own.iter_mut().flatten() {
            let text = columns(own, 0..self.columns);
            *own = if more == 0 { text } else { pad(text) };
        }
        self.pads.iter_mut().for_each(|pad| *pad += more);
        self.columns = all;
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
        let cut = |tensor: Tensor<4>| pick(columns(&tensor, spare..self.columns));
        let both = |kept: AudioKeyValues| AudioKeyValues { keys: pick(kept.keys), values: pick(kept.values) };
        Self {
            cross: self.cross.into_iter().map(both).collect(),
            frames: rows.iter().map(|row| self.frames[*row]).collect(),
            own: self.own.into_iter().map(|kept| kept.map(cut)).collect(),
            pads: pads.into_iter().map(|pad| pad - spare).collect(),
            columns: self.columns - spare,
            recorded: no_records(),
        }
    }
}

impl AudioKeyValues {
    fn new(KeyValues { keys, values }: KeyValues) -> Self {
        let [rows, heads, frames, head] = keys.dims();
        // A change of the shape copies values into the order of the dimensions.
        let in_order = |x: Tensor<4>, shape: [usize; 4]| x.reshape([shape.iter().product::<usize>()]).reshape(shape);
        Self {
            keys: in_order(keys.swap_dims(2, 3), [rows, heads, head, frames]),
            values: in_order(values, [rows, heads, frames, head]),
        }
    }

    fn view(&self) -> KeyValues {
        KeyValues { keys: self.keys.clone().swap_dims(2, 3), values: self.values.clone() }
    }

    /// Keys and values of one row, which has so many frames.
    fn row(&self, row: usize, frames: usize) -> Self {
        Self {
            keys: self.keys.clone().narrow(0, row, 1).narrow(3, 0, frames),
            values: self.values.clone().narrow(0, row, 1).narrow(2, 0, frames),
        }
    }

    /// With zeros behind the last frame, up to `all` frames.
    fn padded(self, all: usize) -> Self {
        let [rows, heads, head, frames] = self.keys.dims();
        if frames == all {
            return self;
        }
        let (device, dtype) = (self.keys.device(), self.keys.dtype());
        let zeros = |shape: [usize; 4]| Tensor::<4>::zeros(shape, (&device, dtype));
        Self {
            keys: Tensor::cat(vec![self.keys, zeros([rows, heads, head, all - frames])], 3),
            values: Tensor::cat(vec![self.values, zeros([rows, heads, all - frames, head])], 2),
        }
    }

    /// Appends rows.
    fn append_rows(self, more: Self) -> Self {
        Self {
            keys: Tensor::cat(vec![self.keys, more.keys], 0),
            values: Tensor::cat(vec![self.values, more.values], 0),
        }
    }
}

/// A range of the columns of a cache `[rows, 2 heads, columns, head]`.
fn columns(cache: &Tensor<4>, which: Range<usize>) -> Tensor<4> {
    cache.clone().narrow(2, which.start, which.len())
}

/// Appends columns to a cache, which are the last of `all`: in the spare columns, or in a larger new tensor.
fn append_columns(cache: Tensor<4>, new: Tensor<4>, all: usize) -> Tensor<4> {
    let [rows, heads, room, head] = cache.dims();
    let before = all - new.dims()[2];
    if room >= all {
        return state::write_columns(cache, before, new);
    }
    let spare = Tensor::zeros([rows, heads, ROOM, head], &cache.device());
    Tensor::cat(vec![columns(&cache, 0..before), new, spare], 2)
}
