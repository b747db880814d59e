//! Multi-head attention without positions: over all frames at once, or token by token with a KV cache.

use auricle_kernels::attention::full;
use auricle_kernels::attention::single_query::{self, KeyRanges};
use auricle_kernels::product::gemv::Precision;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Bool, DType, Tensor, activation, module};

use super::block_form::BlockForm;
use crate::error::Result;
use crate::layers::{Bias, LayerNorm, Linear};
use crate::weights::Scope;

/// Added to the score of a masked key. Finite, so that a row without any key stays finite too.
const MASKED: f32 = -1e4;

/// One block's attention.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Scaled by the inverse square root of a head's width.
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    heads: usize,
}

/// Keys and values: `[rows, heads, count, head]` each, of 32 or 16 bits.
#[derive(Clone, Debug)]
pub struct KeyValues {
    pub keys: Tensor<4>,
    pub values: Tensor<4>,
}

impl KeyValues {
    /// In 32 bits.
    fn wide(&self) -> Self {
        let wide = |x: &Tensor<4>| if x.dtype() == DType::F32 { x.clone() } else { x.clone().cast(DType::F32) };
        Self { keys: wide(&self.keys), values: wide(&self.values) }
    }
}

/// Attention of `query` `[rows, heads, count, head]`, already scaled, to `seen`: `[rows, count, heads * head]`; `mask` `[rows, 1, count,
/// keys]` is true where a query may not attend to a key.
pub fn masked_attention(query: Tensor<4>, seen: &KeyValues, mask: Option<&Tensor<4, Bool>>) -> Tensor<3> {
    let [rows, heads, count, head] = query.dims();
    let seen = seen.wide();
    let bias = mask.map(|mask| {
        let shape = [rows, heads, count, seen.keys.dims()[2]];
        Tensor::<4>::zeros(shape, &query.device()).mask_fill(mask.clone().expand(shape), MASKED)
    });
    let options = AttentionModuleOptions { scale: Some(1.0), softcap: None, is_causal: false };
    let attended = module::attention(query, seen.keys, seen.values, None, bias, options);
    attended.swap_dims(1, 2).reshape([rows, count, heads * head])
}

impl Attention {
    /// Reads queries and output with the first precision, keys and values with the second.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(
        scope: &Scope,
        form: &BlockForm,
        size: usize,
        heads: usize,
        [outer, inner]: [Precision; 2],
    ) -> Result<Self> {
        let linear = |name: &str, bias, scale, precision| {
            Linear::load_with(&scope.scope(name), [size, size], bias, scale, precision)
        };
        Ok(Self {
            query: linear("q_proj", Bias::With, ((size / heads) as f32).powf(-0.5), outer)?,
            key: linear("k_proj", form.key_bias, 1.0, inner)?,
            value: linear("v_proj", Bias::With, 1.0, inner)?,
            output: linear(form.output, Bias::With, 1.0, outer)?,
            heads,
        })
    }

    /// As it is, with queries and outputs by [`Linear::with_wide_precision`], and keys and values by [`Linear::with_precision`].
    #[must_use]
    pub fn with_wide_precision(self, precision: Precision) -> Self {
        Self {
            query: self.query.with_wide_precision(precision),
            key: self.key.with_precision(precision),
            value: self.value.with_precision(precision),
            output: self.output.with_wide_precision(precision),
            heads: self.heads,
        }
    }

    /// Splits `[rows, count, size]` into heads: `[rows, heads, count, head]`.
    fn split(&self, x: Tensor<3>) -> Tensor<4> {
        let [rows, count, size] = x.dims();
        x.reshape([rows, count, self.heads, size / self.heads]).swap_dims(1, 2)
    }

    /// Projects `x` `[rows, count, size]` to keys and values.
    pub fn key_values(&self, x: Tensor<3>) -> KeyValues {
        KeyValues { keys: self.split(self.key.forward(x.clone())), values: self.split(self.value.forward(x)) }
    }

    /// Adds the attention of `normed` `[rows, count, size]` to `seen`, without the keys of `mask`, to `x` of the same shape: the sum,
    /// and its `norm`.
    pub fn forward(
        &self,
        [x, normed]: [Tensor<3>; 2],
        norm: &LayerNorm,
        seen: &KeyValues,
        mask: Option<&Tensor<4, Bool>>,
    ) -> [Tensor<3>; 2] {
        let attended = masked_attention(self.split(self.query.forward(normed)), seen, mask);
        self.output.forward_normed(attended, x, norm)
    }

    /// As [`Attention::forward`] with one query per row, `[rows, 1, size]`, which attends to a range of the keys.
    pub fn forward_one(
        &self,
        [x, normed]: [Tensor<3>; 2],
        norm: &LayerNorm,
        seen: &KeyValues,
        spans: &KeyRanges,
    ) -> [Tensor<3>; 2] {
        let query = self.split(self.query.forward(normed));
        let attended = single_query::attend(query, seen.keys.clone(), seen.values.clone(), spans);
        self.output.forward_normed(attended, x, norm)
    }

    /// Adds the self-attention of `normed` `[rows, count, size]` without a mask to `x` of the same shape: the sum, and its `norm`.
    pub fn self_attention(&self, [x, normed]: [Tensor<3>; 2], norm: &LayerNorm) -> [Tensor<3>; 2] {
        let (query, keys) = (self.query.forward(normed.clone()), self.key.forward(normed.clone()));
        let values = self.value.forward(normed);
        self.output.forward_normed(full::attend(query, keys, values, self.heads), x, norm)
    }

    /// As [`Attention::forward`], and the attention weights of each query: `[rows, heads, count, keys]`.
    pub fn forward_with_weights(
        &self,
        [x, normed]: [Tensor<3>; 2],
        norm: &LayerNorm,
        seen: &KeyValues,
    ) -> ([Tensor<3>; 2], Tensor<4>) {
        let [rows, count, size] = x.dims();
        let (query, seen) = (self.split(self.query.forward(normed)), seen.wide());
        let weights = activation::softmax(query.matmul(seen.keys.swap_dims(2, 3)), 3);
        let attended = weights.clone().matmul(seen.values);
        let attended = attended.swap_dims(1, 2).reshape([rows, count, size]);
        (self.output.forward_normed(attended, x, norm), weights)
    }
}
