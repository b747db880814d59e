//! Causal transformer layers with rotary positions over keys and values in pages: eight launches a layer for the positions of all sequences.

use auricle_kernels::activation::Activation as Function;
use auricle_kernels::attention::paged::{self, Heads, PageTables, Turn};
use auricle_kernels::product::gemv::Precision;
use burn::tensor::{Tensor, TensorData};

use crate::error::Result;
use crate::layers::{LayerNorm, Linear};
use crate::models::decoder::CardPages;
use crate::models::pocket_tts::transformer::{Activation, INNER_NORM, LayerValues, NORM, Shape};
use crate::weights::Scope;

/// The layers.
#[derive(Debug)]
pub struct Transformer {
    layers: Vec<Layer>,
    turn: Turn,
    heads: Heads,
    activation: Function,
}

#[derive(Debug)]
struct Layer {
    norm: LayerNorm,
    /// Query (already scaled), key and value, concatenated.
    qkv: Linear,
    output: Linear,
    inner_norm: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Shape {
    /// The heads of its layers.
    pub fn heads(&self) -> Heads {
        Heads { queries: self.heads, keys: self.heads, width: self.head }
    }
}

impl Transformer {
    /// Reads `layers` of a scope, for sequences of so many positions at most.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, shape: &Shape, positions: usize, precision: Precision) -> Result<Self> {
        let (device, frequencies) = (scope.device(), shape.frequencies());
        let mut rotations = Vec::with_capacity(positions * shape.head);
        for position in 0..positions {
            let angles = || frequencies.iter().map(|frequency| position as f32 * frequency);
            rotations.extend(angles().map(f32::cos));
            rotations.extend(angles().map(f32::sin));
        }
        let rotations = Tensor::from_data(TensorData::new(rotations, [positions, shape.head]), device);
        let layers = scope.scope("layers");
        Ok(Self {
            layers: (0..shape.layers)
                .map(|at| Layer::load(&layers.scope(at), shape, precision))
                .collect::<Result<_>>()?,
            turn: Turn { rotations, norms: None, epsilon: shape.epsilon, scale: 1.0 },
            heads: shape.heads(),
            activation: match shape.activation {
                Activation::Gelu => Function::Gelu,
                Activation::GeluTanh => Function::GeluTanh,
            },
        })
    }

    /// Applies the layers to positions of sequences, `[positions, size]`, and the `last` norm if there is one. Keys and values are appended
    /// to the pages.
    pub fn forward(
        &self,
        mut x: Tensor<2>,
        tables: &PageTables,
        pages: &mut CardPages,
        last: Option<&LayerNorm>,
    ) -> Tensor<2> {
        let mut normed: Option<Tensor<2>> = None;
        for (at, layer) in self.layers.iter().enumerate() {
            let input = normed.take().unwrap_or_else(|| layer.norm.forward(x.clone()));
            let (queries, cache) =
                paged::store(layer.qkv.forward(input), &self.turn, tables, pages.take(at), self.heads);
            let attended = paged::attend(queries, tables, &cache, self.heads);
            pages.put(at, cache);
            let [sum, inner] = layer.output.forward_normed(attended, x, &layer.inner_norm);
            let inner = layer.up.forward_activated(inner, self.activation);
            match self.layers.get(at + 1).map(|next| &next.norm).or(last) {
                Some(norm) => {
                    let [sum, next] = layer.down.forward_normed(inner, sum, norm);
                    (x, normed) = (sum, Some(next));
                }
                None => x = layer.down.forward_added(inner, sum),
            }
        }
        normed.unwrap_or(x)
    }
}

impl Layer {
    fn load(scope: &Scope, shape: &Shape, precision: Precision) -> Result<Self> {
        let LayerValues { qkv, output, up, down } = LayerValues::read(scope, shape)?;
        let norm = |name: &str| LayerNorm::load_with(&scope.scope(name), shape.size, shape.epsilon);
        let linear =
            |weight: &[f32], inputs: usize| Linear::for_few_rows(weight, inputs, None, precision, scope.device());
        Ok(Self {
            norm: norm(NORM)?,
            qkv: linear(&qkv, shape.size),
            output: linear(&output, shape.heads * shape.head),
            inner_norm: norm(INNER_NORM)?,
            up: linear(&up, shape.size),
            down: linear(&down, shape.inner),
        })
    }
}
