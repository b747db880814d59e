//! The encoder of symbols that prosody is predicted from: ALBERT, one layer that is applied several times.

use auricle_kernels::activation::gelu_tanh_in_place;
use auricle_kernels::attention::full::self_attention;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::ThreadPool;

use super::config::AlbertConfig;
use crate::error::Result;
use crate::layers::{Bias, Packed, PackedNorm, apply_in_place, scaled};
use crate::weights::Scope;

/// Epsilon of the norms, as published.
pub const EPSILON: f32 = 1e-12;

/// The encoder.
#[derive(Debug)]
pub struct Albert {
    config: AlbertConfig,
    /// `[symbols, embedding]`
    symbols: Vec<f32>,
    /// `[positions, embedding]`, with the embedding of the first type of a segment.
    positions: Vec<f32>,
    embedding_norm: PackedNorm,
    widen: Packed,
    /// Query (scaled by the inverse square root of a head's width), key and value, concatenated.
    qkv: Packed,
    output: Packed,
    attention_norm: PackedNorm,
    up: Packed,
    down: Packed,
    norm: PackedNorm,
}

impl Albert {
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &AlbertConfig, symbols: usize, precision: Precision) -> Result<Self> {
        let AlbertConfig { size, heads, inner, positions, embedding, .. } = *config;
        // Parts that no hidden state depends on.
        scope.scope("embeddings").ignore("position_ids");
        ["pooler.weight", "pooler.bias"].into_iter().for_each(|name| scope.ignore(name));
        let embeddings = scope.scope("embeddings");
        let table = |name: &str, count| embeddings.scope(name).values("weight", &[count, embedding]);
        let mut places = table("position_embeddings", positions)?;
        let types = table("token_type_embeddings", 2)?;
        for place in places.chunks_exact_mut(embedding) {
            place.iter_mut().zip(&types).for_each(|(value, first)| *value += first);
        }
        let layer = scope.scope("encoder.albert_layer_groups.0.albert_layers.0");
        let attention = layer.scope("attention");
        let part = |name: &str, scale| scaled(&attention.scope(name), &[size, size], Bias::With, scale);
        let parts = [part("query", ((size / heads) as f32).powf(-0.5))?, part("key", 1.0)?, part("value", 1.0)?];
        let (weights, biases): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let linear = |scope: Scope, inputs, outputs| {
            Packed::load_for_rows(&scope, &[outputs, inputs], Bias::With, 1.0, precision)
        };
        let norm = |scope: Scope, size| PackedNorm::load_with(&scope, size, EPSILON);
        Ok(Self {
            symbols: table("word_embeddings", symbols)?,
            positions: places,
            embedding_norm: norm(embeddings.scope("LayerNorm"), embedding)?,
            widen: linear(scope.scope("encoder.embedding_hidden_mapping_in"), embedding, size)?,
            qkv: Packed::for_rows(&weights.concat(), biases.concat(), precision),
            output: linear(attention.scope("dense"), size, size)?,
            attention_norm: norm(attention.scope("LayerNorm"), size)?,
            up: linear(layer.scope("ffn"), size, inner)?,
            down: linear(layer.scope("ffn_output"), inner, size)?,
            norm: norm(layer.scope("full_layer_layer_norm"), size)?,
            config: config.clone(),
        })
    }

    /// Hidden states of symbols, which are no more than there are positions: `[symbols, size]`.
    pub fn forward(&self, pool: &ThreadPool, symbols: &[usize]) -> Vec<f32> {
        let AlbertConfig { size, heads, layers, embedding, .. } = self.config;
        let mut x = Vec::with_capacity(symbols.len() * embedding);
        for (symbol, place) in symbols.iter().zip(self.positions.chunks_exact(embedding)) {
            let own = &self.symbols[symbol * embedding..][..embedding];
            x.extend(own.iter().zip(place).map(|(own, place)| own + place));
        }
        let mut x = self.widen.forward(pool, &self.embedding_norm.forward(pool, &x));
        for _ in 0..layers {
            let qkv = self.qkv.forward(pool, &x);
            let attended = self_attention(pool, &qkv, &[symbols.len()], size, heads);
            self.output.add_to(pool, &attended, &mut x);
            x = self.attention_norm.forward(pool, &x);
            let mut inner = self.up.forward(pool, &x);
            apply_in_place(pool, &mut inner, gelu_tanh_in_place);
            self.down.add_to(pool, &inner, &mut x);
            x = self.norm.forward(pool, &x);
        }
        x
    }
}
