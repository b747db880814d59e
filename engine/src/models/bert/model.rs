//! Rows of tokens to scores of labels, on the CPU.

use std::path::Path;

use auricle_kernels::activation::gelu_in_place;
use auricle_kernels::attention::full::self_attention;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::{self, ThreadPool};
use burn::tensor::Device;

use super::config::Config;
use crate::error::{Error, Result};
use crate::layers::{Bias, Packed, PackedNorm, apply_in_place, scaled};
use crate::weights::{Scope, Weights};

/// A token of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its number in the vocabulary.
    pub id: usize,
    /// Its type: the segment in the published class.
    pub kind: usize,
}

/// A classifier of tokens.
#[derive(Clone, Debug)]
pub struct TokenClassifier {
    config: Config,
    /// `[vocabulary, hidden]`
    tokens: Vec<f32>,
    /// `[positions, hidden]`
    positions: Vec<f32>,
    /// `[types, hidden]`
    types: Vec<f32>,
    norm: PackedNorm,
    blocks: Vec<Block>,
    classifier: Packed,
    parameters: usize,
}

#[derive(Clone, Debug)]
struct Block {
    /// Query (scaled by the inverse square root of a head's width), key and value, concatenated.
    qkv: Packed,
    output: Packed,
    attention_norm: PackedNorm,
    up: Packed,
    down: Packed,
    norm: PackedNorm,
}

impl Block {
    fn load(scope: &Scope, config: &Config, precision: Precision) -> Result<Self> {
        let (size, inner) = (config.hidden_size, config.intermediate_size);
        let attention = scope.scope("attention");
        let scale = ((size / config.num_attention_heads) as f32).powf(-0.5);
        let part = |name: &str, scale| scaled(&attention.scope("self").scope(name), &[size, size], Bias::With, scale);
        let parts = [part("query", scale)?, part("key", 1.0)?, part("value", 1.0)?];
        let (weights, biases): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let linear = |scope: Scope, inputs, outputs| {
            Packed::load_for_rows(&scope, &[outputs, inputs], Bias::With, 1.0, precision)
        };
        let norm = |scope: Scope| PackedNorm::load_with(&scope.scope("LayerNorm"), size, config.layer_norm_eps as f32);
        Ok(Self {
            qkv: Packed::for_rows(&weights.concat(), biases.concat(), precision),
            output: linear(attention.scope("output.dense"), size, size)?,
            attention_norm: norm(attention.scope("output"))?,
            up: linear(scope.scope("intermediate.dense"), size, inner)?,
            down: linear(scope.scope("output.dense"), inner, size)?,
            norm: norm(scope.scope("output"))?,
        })
    }

    /// `x` `[tokens, hidden]` to the same shape, the tokens of rows of these lengths one after another.
    fn forward(&self, pool: &ThreadPool, mut x: Vec<f32>, lengths: &[usize], config: &Config) -> Vec<f32> {
        let qkv = self.qkv.forward(pool, &x);
        let attended = self_attention(pool, &qkv, lengths, config.hidden_size, config.num_attention_heads);
        self.output.add_to(pool, &attended, &mut x);
        let mut x = self.attention_norm.forward(pool, &x);
        let mut inner = self.up.forward(pool, &x);
        apply_in_place(pool, &mut inner, gelu_in_place);
        self.down.add_to(pool, &inner, &mut x);
        self.norm.forward(pool, &x)
    }
}

impl TokenClassifier {
    /// Loads `config.json` and `model.safetensors` of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, precision: Precision) -> Result<Self> {
        let config = Config::read(dir)?;
        let weights = Weights::open(dir, &Device::flex())?;
        let bert = weights.scope("bert");
        let embeddings = bert.scope("embeddings");
        // Parts of older files that no token's score depends on.
        embeddings.ignore("position_ids");
        ["weight", "bias"].into_iter().for_each(|name| bert.scope("pooler.dense").ignore(name));
        let size = config.hidden_size;
        let table = |name: &str, count| embeddings.scope(name).values("weight", &[count, size]);
        let layers = bert.scope("encoder.layer");
        let model = Self {
            tokens: table("word_embeddings", config.vocab_size)?,
            positions: table("position_embeddings", config.max_position_embeddings)?,
            types: table("token_type_embeddings", config.type_vocab_size)?,
            norm: PackedNorm::load_with(&embeddings.scope("LayerNorm"), size, config.layer_norm_eps as f32)?,
            blocks: (0..config.num_hidden_layers)
                .map(|at| Block::load(&layers.scope(at), &config, precision))
                .collect::<Result<_>>()?,
            classifier: Packed::load(&weights.scope("classifier"), size, config.labels(), Precision::F32)?,
            parameters: weights.parameters(),
            config,
        };
        weights.finish()?;
        Ok(model)
    }

    /// Widths of the network.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Values in the checkpoint's tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Scores of rows of tokens: `[tokens, labels]`, the tokens of all rows one after another.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a row without tokens, tokens or types outside the vocabulary, or more than there are positions.
    pub fn forward(&self, rows: &[Vec<Token>]) -> Result<Vec<f32>> {
        let Config { vocab_size, type_vocab_size, hidden_size: size, max_position_embeddings: most, .. } = self.config;
        if let Some(row) = rows.iter().find(|row| !(1..=most).contains(&row.len())) {
            return Err(Error::InvalidOption(format!("rows have 1 to {most} tokens, not {}", row.len())));
        }
        let is_unknown = |token: &&Token| token.id >= vocab_size || token.kind >= type_vocab_size;
        if let Some(Token { id, kind }) = rows.iter().flatten().find(is_unknown) {
            return Err(Error::InvalidOption(format!(
                "token {id} of type {kind} is not one of {vocab_size} of {type_vocab_size} types"
            )));
        }
        let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        let mut x = Vec::with_capacity(lengths.iter().sum::<usize>() * size);
        let row = |at: usize| at * size..(at + 1) * size;
        for (position, token) in rows.iter().flat_map(|row| row.iter().enumerate()) {
            let parts = self.tokens[row(token.id)].iter().zip(&self.types[row(token.kind)]);
            x.extend(
                parts.zip(&self.positions[row(position)]).map(|((token, kind), position)| token + kind + position),
            );
        }
        Ok(thread_pool::run(|pool| {
            let x = self.norm.forward(pool, &x);
            let x = self.blocks.iter().fold(x, |x, block| block.forward(pool, x, &lengths, &self.config));
            self.classifier.forward(pool, &x)
        }))
    }
}
