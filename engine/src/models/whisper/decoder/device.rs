//! The decoder in tensors, for GPUs: the same columns for all rows, so that a step is the same few kernels for any of them.

use burn::tensor::{Bool, Device, Tensor, TensorData};

use super::super::attention::{Attention, KeyValues};
use super::super::config::Config;
use super::super::encoder::FeedForward;
use crate::error::Result;
use crate::layers::{LayerNorm, row_indices};
use crate::weights::Scope;

/// The decoder.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// `[vocabulary, size]`: what tokens are, and how they are told apart.
    tokens: Tensor<2>,
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

/// What the decoder keeps of rows: windows that are decoded side by side. Their tokens end together; those of a row that has
/// fewer begin later, after columns that are not real.
#[derive(Clone, Debug)]
pub struct Steps {
    /// Of each block: the audio, and the tokens so far.
    cross: Vec<KeyValues>,
    own: Vec<Option<KeyValues>>,
    /// Columns before each row's first token.
    pads: Vec<usize>,
    columns: usize,
}

/// What a pass gives of each row's last token.
pub struct Looked {
    /// `[rows, vocabulary]`
    pub scores: Tensor<2>,
    /// `[rows, alignment heads, frames]`: where it looked.
    pub weights: Tensor<3>,
}

impl Decoder {
    /// Reads the decoder.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let (size, heads) = (config.size, config.decoder_heads);
        let block = |at: usize| {
            let scope = scope.scope(format!("layers.{at}"));
            Ok(Block {
                own_norm: LayerNorm::load(&scope.scope("self_attn_layer_norm"), size)?,
                own: Attention::load(&scope.scope("self_attn"), size, heads)?,
                cross_norm: LayerNorm::load(&scope.scope("encoder_attn_layer_norm"), size)?,
                cross: Attention::load(&scope.scope("encoder_attn"), size, heads)?,
                feed_forward: FeedForward::load(&scope, size, config.decoder_inner)?,
            })
        };
        let mut alignment_heads = vec![Vec::new(); config.decoder_layers];
        for (layer, head) in &config.alignment_heads {
            alignment_heads[*layer].push(*head);
        }
        Ok(Self {
            tokens: scope.scope("embed_tokens").tensor("weight", [config.vocab_size, size])?,
            positions: scope.scope("embed_positions").tensor("weight", [config.positions, size])?,
            blocks: (0..config.decoder_layers).map(block).collect::<Result<_>>()?,
            norm: LayerNorm::load(&scope.scope("layer_norm"), size)?,
            alignment_heads,
        })
    }

    /// Rows over encoder frames `[rows, frames, size]`, before their first token.
    pub fn start(&self, frames: &Tensor<3>) -> Steps {
        Steps {
            cross: self.blocks.iter().map(|block| block.cross.key_values(frames.clone())).collect(),
            own: vec![None; self.blocks.len()],
            pads: vec![0; frames.dims()[0]],
            columns: 0,
        }
    }

    /// The next tokens of every row, and what came out of the first `blocks` blocks: `[rows, count, size]`; a row with fewer
    /// tokens than another has its last ones at the end, and `0` before them.
    pub fn forward_through(&self, steps: &mut Steps, tokens: &[Vec<u32>], blocks: usize) -> (Looked, Tensor<3>) {
        let device = self.tokens.device();
        let (rows, count) = (tokens.len(), tokens.iter().map(Vec::len).max().unwrap_or(0));
        if steps.columns == 0 {
            steps.pads = tokens.iter().map(|tokens| count - tokens.len()).collect();
        }
        let before = steps.columns;
        steps.columns += count;
        let padded = tokens.iter().flat_map(|row| std::iter::repeat_n(0, count - row.len()).chain(row.iter().copied()));
        let ids: Vec<usize> = padded.map(|id| id as usize).collect();
        // A row that is over goes on beside the others, past the last position, to no effect.
        let last = self.positions.dims()[0] - 1;
        let at = |pad: usize| (before..before + count).map(move |column| column.saturating_sub(pad).min(last));
        let positions: Vec<usize> = steps.pads.iter().flat_map(|pad| at(*pad)).collect();
        let embedded = self.tokens.clone().select(0, row_indices(&ids, &device))
            + self.positions.clone().select(0, row_indices(&positions, &device));
        let size = embedded.dims()[1];
        let mut x = embedded.reshape([rows, count, size]);
        let mask = steps.mask(before, count, &device);
        let mut weights = Vec::new();
        let mut middle = x.clone();
        for (at, block) in self.blocks.iter().enumerate() {
            if at == blocks {
                middle = x.clone();
            }
            let normed = block.own_norm.forward(x.clone());
            let new = block.own.key_values(normed.clone());
            let own = match steps.own[at].take() {
                Some(past) => past.and(new),
                None => new,
            };
            x = x + block.own.forward(normed, &own, mask.as_ref());
            steps.own[at] = Some(own);
            let normed = block.cross_norm.forward(x.clone());
            let heads = &self.alignment_heads[at];
            let attended = if heads.is_empty() {
                block.cross.forward(normed, &steps.cross[at], None)
            } else {
                let (attended, looked) = block.cross.forward_with_weights(normed, &steps.cross[at]);
                let last = looked.narrow(2, count - 1, 1).squeeze_dim::<3>(2);
                weights.push(last.select(1, row_indices(heads, &device)));
                attended
            };
            x = block.feed_forward.forward(x + attended);
        }
        if blocks == self.blocks.len() {
            middle = x.clone();
        }
        let last = self.norm.forward(x.narrow(1, count - 1, 1)).squeeze_dim::<2>(1);
        let scores = last.matmul(self.tokens.clone().transpose());
        let weights = if weights.is_empty() { Tensor::zeros([rows, 0, 0], &device) } else { Tensor::cat(weights, 1) };
        (Looked { scores, weights }, middle)
    }
}

impl Steps {
    /// True where one of the next `count` tokens may not see a column: those that are not real, those that come later.
    /// `[rows, 1, count, columns]`; none if all may be seen.
    fn mask(&self, before: usize, count: usize, device: &Device) -> Option<Tensor<4, Bool>> {
        if count == 1 && self.pads.iter().all(|pad| *pad == 0) {
            return None;
        }
        let hidden: Vec<bool> = self
            .pads
            .iter()
            .flat_map(|pad| (before..before + count).map(move |query| (*pad, query)))
            .flat_map(|(pad, query)| (0..before + count).map(move |column| column < pad || column > query))
            .collect();
        Some(Tensor::from_data(TensorData::new(hidden, [self.pads.len(), 1, count, before + count]), device))
    }

    /// These rows and others, as one batch: columns that are not real are put before the shorter ones.
    pub fn join(self, other: Self) -> Self {
        let columns = self.columns.max(other.columns);
        let (one, two) = (self.widen(columns), other.widen(columns));
        let own = |(one, two): (Option<KeyValues>, Option<KeyValues>)| Some(one?.beside(two?));
        Self {
            cross: one.cross.into_iter().zip(two.cross).map(|(one, two)| one.beside(two)).collect(),
            own: one.own.into_iter().zip(two.own).map(own).collect(),
            pads: one.pads.into_iter().chain(two.pads).collect(),
            columns,
        }
    }

    fn widen(mut self, columns: usize) -> Self {
        let more = columns - self.columns;
        if more > 0 {
            let pad = |tensor: Tensor<4>| {
                let [rows, heads, _, head] = tensor.dims();
                Tensor::cat(vec![Tensor::zeros([rows, heads, more, head], &tensor.device()), tensor], 2)
            };
            for own in self.own.iter_mut().flatten() {
                *own = KeyValues { keys: pad(own.keys.clone()), values: pad(own.values.clone()) };
            }
            self.pads.iter_mut().for_each(|pad| *pad += more);
            self.columns = columns;
        }
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
        let cut = |tensor: Tensor<4>| {
            let left = tensor.dims()[2] - spare;
            pick(tensor).narrow(2, spare, left)
        };
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
    /// With more columns after these.
    fn and(self, more: Self) -> Self {
        Self {
            keys: Tensor::cat(vec![self.keys, more.keys], 2),
            values: Tensor::cat(vec![self.values, more.values], 2),
        }
    }

    /// With more rows after these.
    fn beside(self, more: Self) -> Self {
        Self {
            keys: Tensor::cat(vec![self.keys, more.keys], 0),
            values: Tensor::cat(vec![self.values, more.values], 0),
        }
    }
}
