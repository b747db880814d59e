//! The encoder of symbols that prosody is predicted from: ALBERT, one layer that is applied several times.

use auricle_kernels::activation::Activation;
use auricle_kernels::attention::relative::{self, VisibleKeys, Window};
use auricle_kernels::cache::ring::StepFrames;
use auricle_kernels::norm::layer_norm_with;
use burn::tensor::Tensor;

use crate::error::Result;
use crate::layers::{Bias, Linear, row_indices};
use crate::models::kokoro::albert::EPSILON;
use crate::models::kokoro::config::AlbertConfig;
use crate::weights::Scope;

/// The encoder.
#[derive(Debug)]
pub struct Albert {
    config: AlbertConfig,
    /// `[symbols, embedding]`, with the embedding of the first type of a segment.
    symbols: Tensor<2>,
    /// `[positions, embedding]`
    positions: Tensor<2>,
    embedding_norm: Norm,
    widen: Linear,
    /// Query, key and value, concatenated.
    qkv: Linear,
    output: Linear,
    attention_norm: Norm,
    up: Linear,
    down: Linear,
    norm: Norm,
}

/// Layer normalisation with the published epsilon.
#[derive(Debug)]
struct Norm {
    gamma: Tensor<1>,
    beta: Tensor<1>,
}

impl Norm {
    fn load(scope: &Scope, size: usize) -> Result<Self> {
        Ok(Self { gamma: scope.tensor("weight", [size])?, beta: scope.tensor("bias", [size])? })
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        layer_norm_with(x, self.gamma.clone(), self.beta.clone(), EPSILON)
    }
}

impl Albert {
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &AlbertConfig, symbols: usize) -> Result<Self> {
        let AlbertConfig { size, inner, positions, embedding, .. } = *config;
        let embeddings = scope.scope("embeddings");
        // Parts that no hidden state depends on.
        embeddings.ignore("position_ids");
        ["pooler.weight", "pooler.bias"].into_iter().for_each(|name| scope.ignore(name));
        let table = |name: &str, count| embeddings.scope(name).tensor("weight", [count, embedding]);
        let types = table("token_type_embeddings", 2)?.narrow(0, 0, 1);
        let layer = scope.scope("encoder.albert_layer_groups.0.albert_layers.0");
        let attention = layer.scope("attention");
        let linear = |scope: &Scope, inputs, outputs| Linear::load(scope, inputs, outputs, Bias::With);
        let parts = ["query", "key", "value"].map(|name| attention.scope(name));
        Ok(Self {
            symbols: table("word_embeddings", symbols)? + types,
            positions: table("position_embeddings", positions)?,
            embedding_norm: Norm::load(&embeddings.scope("LayerNorm"), embedding)?,
            widen: linear(&scope.scope("encoder.embedding_hidden_mapping_in"), embedding, size)?,
            qkv: Linear::load_stacked(&parts, size, size, Bias::With)?,
            output: linear(&attention.scope("dense"), size, size)?,
            attention_norm: Norm::load(&attention.scope("LayerNorm"), size)?,
            up: linear(&layer.scope("ffn"), size, inner)?,
            down: linear(&layer.scope("ffn_output"), inner, size)?,
            norm: Norm::load(&layer.scope("full_layer_layer_norm"), size)?,
            config: config.clone(),
        })
    }

    /// Hidden states of symbols, which are no more than there are positions: `[symbols, size]`.
    pub fn forward(&self, symbols: &[usize]) -> Tensor<2> {
        let AlbertConfig { size, heads, layers, .. } = self.config;
        let (count, head, device) = (symbols.len(), size / heads, self.symbols.device());
        let own = self.symbols.clone().select(0, row_indices(symbols, &device));
        let x = own + self.positions.clone().narrow(0, 0, count);
        let mut x = self.widen.forward(self.embedding_norm.forward(x));
        let frames = StepFrames::alone(1, 0..count, &device);
        let visible = VisibleKeys { frames, window: Window::Full, first: 0 };
        let scale = (head as f32).powf(-0.5);
        for _ in 0..layers {
            // Views of the product: `[1, heads, symbols, head]`.
            let projected = self.qkv.forward(x.clone()).reshape([1, count, 3 * heads, head]);
            let part = |at: usize| projected.clone().narrow(2, at * heads, heads).swap_dims(1, 2);
            let attended = relative::attend([part(0), part(1), part(2)], None, None, &visible, scale);
            x = self.attention_norm.forward(self.output.forward_added(attended.reshape([count, size]), x));
            let inner = self.up.forward_activated(x.clone(), Activation::GeluTanh);
            x = self.norm.forward(self.down.forward_added(inner, x));
        }
        x
    }
}
