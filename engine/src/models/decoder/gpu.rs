//! The network on a GPU, as [`super::network`] on the CPU: the tokens of all sequences go through the same nine launches a layer.
//!
//! Weights are unpacked, to 32 bits or, in half precision, to 16; all else has 32 but keys and values, which have 16 in half precision. Sums
//! go over their inputs in an order that depends on how many tokens are computed together, so scores differ in their last bits.

use std::sync::Arc;

use auricle_kernels::activation::Activation;
use auricle_kernels::attention::paged::{self, Heads, PageTables, StepToken, Turn};
use auricle_kernels::norm::{add_and_rms_norm, rms_norm};
use auricle_kernels::product::blocks::BlockMatrix;
use auricle_kernels::product::gemv::Precision;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use half::f16;
use rayon::prelude::*;

use super::config::{Config, Family};
use super::network::Piece;
use super::pages::{CardPages, PageArena};
use super::source::{RowOrder, StoredRuns, TensorSource, as_weights};
use super::step_scores::StepScores;
use crate::device::{has_f16, read};
use crate::error::{Error, Result};
use crate::layers::{Linear, RecordedSteps, StepInputs, pack_together, parts_of, select_rows, upload};

/// Values of one layer's keys and values at most: a GPU limits a tensor's bytes.
const MOST_VALUES: usize = 1 << 28;

/// Shapes of recorded steps that are remembered.
const MOST_SHAPES: usize = 32;

/// A decoder-only transformer on a GPU.
pub struct GpuNetwork {
    config: Arc<Config>,
    device: Device,
    /// `[positions, head]`
    rotations: Tensor<2>,
    /// `[vocabulary, size]`
    embeddings: Tensor<2>,
    blocks: Vec<Block>,
    norm: Tensor<1>,
    output: Linear,
    /// Of weights, keys and values.
    dtype: DType,
}

struct Block {
    norm: Tensor<1>,
    /// Query, key and value, stacked.
    input: Linear,
    /// Norms of each head's queries and keys: `[2, head]`.
    head_norms: Option<Tensor<2>>,
    out: Linear,
    inner_norm: Tensor<1>,
    /// Gate and up, stacked.
    inner: Linear,
    down: Linear,
}

impl GpuNetwork {
    /// Reads the network of a checkpoint. With [`Precision::F16`] weights have 16 bits, where the device computes with them; with
    /// [`Precision::Int8`] those that a file quantises stay as they are, and the others have 16 bits.
    ///
    /// # Errors
    /// As [`super::Network::load`].
    pub fn load(config: Arc<Config>, source: TensorSource, precision: Precision, device: &Device) -> Result<Self> {
        let Config { size, heads, kv_heads, head, inner, vocabulary, outputs, .. } = *config;
        let dtype = weight_type(precision, device);
        let stays_quantised = precision.has_8_bits();
        let precision = if dtype == DType::F16 { Precision::F16 } else { Precision::F32 };
        let (plain, turned) = (RowOrder::Published, source.turned(&config));
        let vector = |name: String, length: usize| -> Result<Tensor<1>> {
            let values = source.vector(&name, length, plain)?;
            Ok(Tensor::from_data(TensorData::new(values, [length]), device))
        };
        // Layers of one input, their outputs one after another.
        let stacked = |parts: &[(String, usize, RowOrder)], inputs: usize, bias: bool| -> Result<Linear> {
            let mut biases = Vec::new();
            for (name, outputs, order) in parts.iter().filter(|_| bias) {
                biases.extend(source.vector(&format!("{name}.bias"), *outputs, *order)?);
            }
            let biases = bias.then_some(biases);
            let names: Vec<String> = parts.iter().map(|(name, ..)| format!("{name}.weight")).collect();
            let parts: Vec<(&str, usize, RowOrder)> =
                names.iter().zip(parts).map(|(name, (_, outputs, order))| (name.as_str(), *outputs, *order)).collect();
            if stays_quantised && let Some(stored) = source.runs(&parts, inputs)? {
                return Ok(Linear::from_blocks(stacked_blocks(&stored, &parts, inputs, device), biases, device));
            }
            let mut weights = Vec::new();
            for (name, outputs, order) in parts {
                weights.extend(source.values(name, [outputs, inputs], order)?);
            }
            Ok(Linear::for_few_rows(&weights, inputs, biases, precision, device))
        };
        let block = |number: usize| -> Result<Block> {
            let layer = |name: &str| format!("model.layers.{number}.{name}");
            let head_norms = match config.family {
                Family::Qwen3 => {
                    let norm = |name: &str| source.vector(&layer(name), head, plain);
                    let norms = [norm("self_attn.q_norm.weight")?, norm("self_attn.k_norm.weight")?].concat();
                    Some(Tensor::from_data(TensorData::new(norms, [2, head]), device))
                }
                Family::Llama | Family::Qwen2 => None,
            };
            source.ignore(&layer("self_attn.rotary_emb.inv_freq"));
            let attention = [
                (layer("self_attn.q_proj"), heads * head, turned),
                (layer("self_attn.k_proj"), kv_heads * head, turned),
                (layer("self_attn.v_proj"), kv_heads * head, plain),
            ];
            let gated = [(layer("mlp.gate_proj"), inner, plain), (layer("mlp.up_proj"), inner, plain)];
            let out = [(layer("self_attn.o_proj"), size, plain)];
            let down = [(layer("mlp.down_proj"), size, plain)];
            Ok(Block {
                norm: vector(layer("input_layernorm.weight"), size)?,
                input: stacked(&attention, size, config.input_bias)?,
                head_norms,
                out: stacked(&out, heads * head, config.output_bias)?,
                inner_norm: vector(layer("post_attention_layernorm.weight"), size)?,
                inner: stacked(&gated, size, config.inner_bias)?,
                down: stacked(&down, inner, config.inner_bias)?,
            })
        };
        let embeddings = source.values("model.embed_tokens.weight", [vocabulary, size], plain)?;
        let blocks = (0..config.layers).map(block).collect::<Result<_>>()?;
        let norm = vector("model.norm.weight".into(), size)?;
        let output = if config.tied {
            // Some folders store it too; it equals the embeddings.
            source.ignore("lm_head.weight");
            let tied = [("model.embed_tokens.weight", vocabulary, plain)];
            match if stays_quantised { source.runs(&tied, size)? } else { None } {
                Some(stored) => Linear::from_blocks(stacked_blocks(&stored, &tied, size, device), None, device),
                None => Linear::for_few_rows(&embeddings, size, None, precision, device),
            }
        } else {
            stacked(&[("lm_head".into(), outputs, plain)], size, false)?
        };
        let frequencies = source.frequencies(&config)?;
        source.finish()?;
        let mut rotations = Vec::with_capacity(config.context * head);
        for position in 0..config.context {
            let angles = || frequencies.iter().map(|frequency| position as f32 * frequency);
            rotations.extend(angles().map(f32::cos));
            rotations.extend(angles().map(f32::sin));
        }
        let shape = [vocabulary, size];
        let embeddings = match dtype {
            DType::F16 => TensorData::new(embeddings.into_par_iter().map(f16::from_f32).collect(), shape),
            _ => TensorData::new(embeddings, shape),
        };
        let embeddings = Tensor::from_data(embeddings, (device, dtype));
        let rotations = Tensor::from_data(TensorData::new(rotations, [config.context, head]), device);
        Ok(Self { device: device.clone(), rotations, embeddings, blocks, norm, output, dtype, config })
    }

    /// True if a device whose tensors have at most this many bytes computes the network.
    pub fn fits(config: &Config, precision: Precision, device: &Device, most_bytes: u64) -> bool {
        let Config { size, heads, kv_heads, head, inner, vocabulary, context, .. } = *config;
        let matrices = [vocabulary, 2 * inner, (heads + 2 * kv_heads) * head].map(|outputs| outputs * size);
        let weights = matrices.into_iter().max().unwrap_or_default().max(heads * head * size);
        let bytes = (weights * weight_type(precision, device).size()).max(context * head * DType::F32.size());
        Heads { queries: heads, keys: kv_heads, width: head }.fit() && bytes as u64 <= most_bytes
    }

    fn heads(&self) -> Heads {
        Heads { queries: self.config.heads, keys: self.config.kv_heads, width: self.config.head }
    }

    /// An arena for keys and values of at most `bytes`; at least one page.
    pub fn arena(&self, bytes: usize) -> PageArena {
        let values = self.heads().page();
        let most = bytes / (values * self.config.layers * self.dtype.size());
        let capacity = most.min(MOST_VALUES / values).max(1);
        PageArena::on_card(self.config.layers, self.heads(), self.dtype, capacity, &self.device)
    }

    /// Bytes of weights that a token reads.
    pub fn bytes(&self) -> usize {
        let of = |block: &Block| {
            [&block.input, &block.out, &block.inner, &block.down].map(Linear::bytes).iter().sum::<usize>()
        };
        self.blocks.iter().map(of).sum::<usize>() + self.output.bytes()
    }

    /// As [`super::Network::forward`]. Steps of one token a sequence are recorded when their shape comes again: launches cost the host more
    /// than the card takes for them.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn forward(&self, arena: &mut PageArena, pieces: &[Piece]) -> Result<Vec<f32>> {
        self.step(arena, pieces)?.map_or(Ok(Vec::new()), |step| read(step.scores))
    }

    /// As [`super::ChatModel::likeliest`].
    ///
    /// # Errors
    /// As [`GpuNetwork::forward`].
    pub fn likeliest(&self, arena: &mut PageArena, pieces: &[Piece]) -> Result<Vec<Option<u32>>> {
        let places = self.step(arena, pieces)?.map_or(Ok(Vec::new()), |step| read(step.likeliest))?;
        Ok(places.into_iter().map(|place| (place >= 0.0).then_some(place as u32)).collect())
    }

    /// The scores of the pieces that want some, if any does.
    fn step(&self, arena: &mut PageArena, pieces: &[Piece]) -> Result<Option<StepScores>> {
        let mut tokens = Vec::new();
        // Rows whose scores are wanted.
        let mut last = Vec::new();
        for (sequence, piece) in pieces.iter().enumerate() {
            let positions = piece.position..piece.position + piece.tokens.len();
            tokens.extend(positions.map(|position| StepToken { sequence, position }));
            last.extend(piece.scores.then(|| tokens.len() - 1));
        }
        let pages: Vec<&[usize]> = pieces.iter().map(|piece| piece.pages.numbers()).collect();
        let Some(card) = arena.card() else {
            return Err(Error::internal("an arena of the CPU for a network on a GPU"));
        };
        let ids = pieces.iter().flat_map(|piece| piece.tokens).map(|token| *token as i32).collect();
        let mut width = pages.iter().map(|pages| pages.len()).max().unwrap_or(0);
        let mut replaced = Vec::new();
        let mut begin = 0;
        for piece in pieces {
            replaced.extend(piece.replaced(self.config.size).map(|(from, vectors)| (begin + from, vectors)));
            begin += piece.tokens.len();
        }
        let recorded = replaced.is_empty() && pieces.iter().all(|piece| piece.tokens.len() == 1 && piece.scores);
        if recorded {
            width = recorded_width(width);
        }
        let [of_tokens, of_pages] = PageTables::pack(&tokens, &pages, width);
        let (input, places) = pack_together([of_tokens, of_pages, ids]);
        let count = tokens.len();
        let hidden = |card: &mut CardPages, input: Tensor<1, Int>, replaced: &[(usize, &[f32])]| {
            let [of_tokens, of_pages, ids] = parts_of(&input, &places);
            let tables = PageTables::with_packed([of_tokens, of_pages], count, width);
            self.hidden(card, &tables, self.embed(ids.narrow(0, 0, count), replaced))
        };
        if recorded {
            let mut recordings = card.recordings.take().unwrap_or_else(|| RecordedSteps::new(MOST_SHAPES));
            let inputs = StepInputs { integers: input, values: None };
            // A token's keys and values may be stored twice.
            let step = recordings.run([count, width], inputs, &self.device, <[i32]>::to_vec, |input, _| {
                StepScores::of(self.output.forward(hidden(card, input, &[])))
            });
            card.recordings = Some(recordings);
            return step.map(Some);
        }
        let normed = hidden(card, upload(input, &self.device), &replaced);
        if last.is_empty() {
            // The step ends when the card has computed it.
            return read(normed.narrow(0, 0, 1)).map(|_| None);
        }
        Ok(Some(StepScores::of(self.output.forward(select_rows(normed, &last)))))
    }

    /// The embeddings of tokens, with vectors in place of those from some tokens on: `[tokens, size]`.
    fn embed(&self, ids: Tensor<1, Int>, replaced: &[(usize, &[f32])]) -> Tensor<2> {
        let size = self.config.size;
        let embeddings = self.embeddings.clone().select(0, ids).cast(DType::F32);
        replaced.iter().fold(embeddings, |x, (from, vectors)| {
            let rows = vectors.len() / size;
            let vectors = Tensor::from_data(TensorData::new(vectors.to_vec(), [rows, size]), &self.device);
            x.slice_assign([*from..from + rows, 0..size], vectors)
        })
    }

    /// The normed output of the last block for each embedded token.
    fn hidden(&self, card: &mut CardPages, tables: &PageTables, mut x: Tensor<2>) -> Tensor<2> {
        let (heads, epsilon) = (self.heads(), self.config.epsilon);
        let mut turn = Turn {
            rotations: self.rotations.clone(),
            norms: None,
            epsilon,
            scale: (self.config.head as f32).powf(-0.5),
        };
        let mut normed: Option<Tensor<2>> = None;
        for (layer, block) in self.blocks.iter().enumerate() {
            let input = normed.take().unwrap_or_else(|| rms_norm(x.clone(), block.norm.clone(), epsilon));
            turn.norms.clone_from(&block.head_norms);
            let (queries, cache) = paged::store(block.input.forward(input), &turn, tables, card.take(layer), heads);
            let attended = paged::attend(queries, tables, &cache, heads);
            card.put(layer, cache);
            let [sum, inner] = add_and_rms_norm(x, block.out.forward(attended), block.inner_norm.clone(), epsilon);
            let gated = block.inner.forward_activated(inner, Activation::SwiGlu);
            let next = self.blocks.get(layer + 1).map_or(&self.norm, |next| &next.norm);
            let [sum, next] = add_and_rms_norm(sum, block.down.forward(gated), next.clone(), epsilon);
            (x, normed) = (sum, Some(next));
        }
        normed.unwrap_or(x)
    }
}

/// The matrices of a layer, their outputs one after another.
fn stacked_blocks(
    stored: &[StoredRuns],
    parts: &[(&str, usize, RowOrder)],
    inputs: usize,
    device: &Device,
) -> BlockMatrix {
    let outputs = parts.iter().map(|(_, outputs, _)| outputs).sum();
    let run = stored.iter().map(StoredRuns::run).min().unwrap_or(1);
    let row = |output: usize| {
        let mut first = 0;
        for (stored, (_, outputs, _)) in stored.iter().zip(parts) {
            if output < first + outputs {
                return stored.row(output - first);
            }
            first += outputs;
        }
        Vec::new()
    };
    BlockMatrix::new([outputs, inputs], run, row, as_weights, device)
}

/// Pages of a row of the table for sequences of at most so many, so that few shapes occur.
fn recorded_width(pages: usize) -> usize {
    pages.next_power_of_two().max(4)
}

/// The type of the weights on a device.
fn weight_type(precision: Precision, device: &Device) -> DType {
    if precision != Precision::F32 && has_f16(device) { DType::F16 } else { DType::F32 }
}
