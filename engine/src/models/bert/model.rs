//! Rows of tokens to scores of labels.

use std::path::Path;

use auricle_kernels::activation::gelu;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Device, Int, Tensor, TensorData, module};

use super::config::Config;
use crate::error::{Error, Result};
use crate::layers::{Bias, Linear};
use crate::weights::{Scope, Weights};

/// Added to the score of a padded key. Finite, so that a row without any key stays finite too.
const MASKED: f32 = -1e4;

/// A classifier of tokens.
#[derive(Clone, Debug)]
pub struct TokenClassifier {
    config: Config,
    device: Device,
    /// `[vocabulary, hidden]`
    tokens: Tensor<2>,
    /// `[positions, hidden]`, with the embedding of segment 0 added
    positions: Tensor<2>,
    norm: Norm,
    blocks: Vec<Block>,
    classifier: Linear,
}

#[derive(Clone, Debug)]
struct Block {
    /// Scaled by the inverse square root of a head's width.
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    attention_norm: Norm,
    up: Linear,
    down: Linear,
    norm: Norm,
}

/// Layer normalisation with the checkpoint's own epsilon.
#[derive(Clone, Debug)]
struct Norm {
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f64,
}

impl Norm {
    fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let size = [config.hidden_size];
        Ok(Self {
            gamma: scope.tensor("weight", size)?,
            beta: scope.tensor("bias", size)?,
            epsilon: config.layer_norm_eps,
        })
    }

    /// `[rows, count, hidden]` to the same shape.
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let centred = x.clone() - x.mean_dim(2);
        let variance = (centred.clone() * centred.clone()).mean_dim(2);
        centred / (variance + self.epsilon).sqrt() * self.gamma.clone().unsqueeze() + self.beta.clone().unsqueeze()
    }
}

impl Block {
    fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let (size, inner) = (config.hidden_size, config.intermediate_size);
        let attention = scope.scope("attention");
        let linear = |scope: Scope, inputs, outputs| Linear::load(&scope, inputs, outputs, Bias::With);
        let scale = ((size / config.num_attention_heads) as f32).powf(-0.5);
        Ok(Self {
            query: Linear::load_scaled(&attention.scope("self.query"), &[size, size], Bias::With, scale)?,
            key: linear(attention.scope("self.key"), size, size)?,
            value: linear(attention.scope("self.value"), size, size)?,
            output: linear(attention.scope("output.dense"), size, size)?,
            attention_norm: Norm::load(&attention.scope("output.LayerNorm"), config)?,
            up: linear(scope.scope("intermediate.dense"), size, inner)?,
            down: linear(scope.scope("output.dense"), inner, size)?,
            norm: Norm::load(&scope.scope("output.LayerNorm"), config)?,
        })
    }

    /// `x` `[rows, count, hidden]` to the same shape; `bias` `[rows, heads, count, count]` is added to the scores.
    fn forward(&self, x: Tensor<3>, bias: Option<&Tensor<4>>, heads: usize) -> Tensor<3> {
        let [rows, count, size] = x.dims();
        let split = |x: Tensor<3>| x.reshape([rows, count, heads, size / heads]).swap_dims(1, 2);
        let query = split(self.query.forward(x.clone()));
        let (keys, values) = (split(self.key.forward(x.clone())), split(self.value.forward(x.clone())));
        let options = AttentionModuleOptions { scale: Some(1.0), softcap: None, is_causal: false };
        let attended = module::attention(query, keys, values, None, bias.cloned(), options);
        let attended = self.output.forward(attended.swap_dims(1, 2).reshape([rows, count, size]));
        let x = self.attention_norm.forward(x + attended);
        let inner = self.down.forward(gelu(self.up.forward(x.clone())));
        self.norm.forward(x + inner)
    }
}

impl TokenClassifier {
    /// Loads `config.json` and `model.safetensors` of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device) -> Result<Self> {
        let config = Config::read(dir)?;
        let weights = Weights::open(dir, device)?;
        let bert = weights.scope("bert");
        let embeddings = bert.scope("embeddings");
        // Parts of older files that no token's score depends on.
        embeddings.ignore("position_ids");
        ["weight", "bias"].into_iter().for_each(|name| bert.scope("pooler.dense").ignore(name));
        let size = config.hidden_size;
        let segments: Tensor<2> =
            embeddings.scope("token_type_embeddings").tensor("weight", [config.type_vocab_size, size])?;
        let positions: Tensor<2> =
            embeddings.scope("position_embeddings").tensor("weight", [config.max_position_embeddings, size])?;
        let layers = bert.scope("encoder.layer");
        let model = Self {
            tokens: embeddings.scope("word_embeddings").tensor("weight", [config.vocab_size, size])?,
            positions: positions + segments.narrow(0, 0, 1),
            norm: Norm::load(&embeddings.scope("LayerNorm"), &config)?,
            blocks: (0..config.num_hidden_layers)
                .map(|at| Block::load(&layers.scope(at), &config))
                .collect::<Result<_>>()?,
            classifier: Linear::load(&weights.scope("classifier"), size, config.labels(), Bias::With)?,
            device: device.clone(),
            config,
        };
        weights.finish()?;
        Ok(model)
    }

    /// Widths of the network.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Scores of rows of tokens: `[rows, longest, labels]`. Scores behind a row's end mean nothing.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for no tokens, tokens outside the vocabulary, or more than there are positions.
    pub fn forward(&self, rows: &[Vec<usize>]) -> Result<Tensor<3>> {
        let longest = rows.iter().map(Vec::len).max().unwrap_or_default();
        let Config { vocab_size, hidden_size, max_position_embeddings, num_attention_heads, .. } = self.config;
        if longest == 0 || longest > max_position_embeddings {
            return Err(Error::InvalidOption(format!(
                "rows have 1 to {max_position_embeddings} tokens, not {longest}"
            )));
        }
        if let Some(token) = rows.iter().flatten().find(|token| **token >= vocab_size) {
            return Err(Error::InvalidOption(format!("token {token} is not one of {vocab_size}")));
        }
        let shape = [rows.len(), longest];
        let padded =
            |row: &Vec<usize>| (0..longest).map(|at| row.get(at).copied().unwrap_or_default()).collect::<Vec<_>>();
        let ids: Vec<i32> = rows.iter().flat_map(padded).map(|token| token as i32).collect();
        let ids: Tensor<1, Int> = Tensor::from_data(TensorData::new(ids, [shape[0] * longest]), &self.device);
        let x = self.tokens.clone().select(0, ids).reshape([shape[0], longest, hidden_size]);
        let positions = self.positions.clone().narrow(0, 0, longest).unsqueeze_dim::<3>(0);
        let bias = rows.iter().any(|row| row.len() < longest).then(|| {
            let masked = |row: &Vec<usize>| {
                let one: Vec<f32> = (0..longest).map(|at| if at < row.len() { 0.0 } else { MASKED }).collect();
                one.repeat(num_attention_heads * longest)
            };
            let bias: Vec<f32> = rows.iter().flat_map(masked).collect();
            Tensor::<4>::from_data(
                TensorData::new(bias, [shape[0], num_attention_heads, longest, longest]),
                &self.device,
            )
        });
        let x = self.norm.forward(x + positions);
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x, bias.as_ref(), num_attention_heads));
        Ok(self.classifier.forward(x))
    }
}
