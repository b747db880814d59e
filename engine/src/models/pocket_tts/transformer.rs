//! Causal transformer layers with rotary positions, on the CPU: those of the backbone, which see all that was before, and those of the
//! audio decoder, which see a window.

use auricle_kernels::activation;
use auricle_kernels::attention::relative::cpu::{MAX_QUERIES, PositionKeys, RelativeQueries, SlidingKvCache};
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::ThreadPool;
use serde::Deserialize;

use crate::error::Result;
use crate::layers::{Packed, PackedNorm, apply_in_place};
use crate::weights::Scope;

/// Names of a layer's norms.
pub const NORM: &str = "input_layernorm";
pub const INNER_NORM: &str = "post_attention_layernorm";

/// Widths of the layers.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Width of the hidden states.
    pub size: usize,
    /// Number of layers.
    pub layers: usize,
    /// Heads of the attention.
    pub heads: usize,
    /// Values of a head.
    pub head: usize,
    /// Inner width of the feed-forward layers.
    pub inner: usize,
    /// Epsilon of the norms.
    pub epsilon: f32,
    /// Base of the rotary positions.
    pub theta: f32,
    /// Activation of the feed-forward layers.
    pub activation: Activation,
    /// Positions that one sees, itself among them; all before it if left out.
    pub window: Option<usize>,
    /// A factor for each value of what a layer adds.
    pub layer_scale: bool,
}

/// Activation of the feed-forward layers, as the published configurations name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Activation {
    #[serde(rename = "gelu")]
    Gelu,
    #[serde(rename = "gelu_pytorch_tanh")]
    GeluTanh,
}

impl Shape {
    /// The angles by which a position turns the values of a head, `[head / 2]`.
    pub fn frequencies(&self) -> Vec<f32> {
        let half = self.head / 2;
        (0..half).map(|at| 1.0 / self.theta.powf(at as f32 / half as f32)).collect()
    }
}

/// The products of a layer, `[outputs, inputs]` each, as every device takes them.
pub struct LayerValues {
    /// Query (already scaled), key and value, concatenated.
    pub qkv: Vec<f32>,
    pub output: Vec<f32>,
    pub up: Vec<f32>,
    pub down: Vec<f32>,
}

/// The layers.
#[derive(Debug)]
pub struct Transformer {
    layers: Vec<Layer>,
    /// `[head / 2]`
    frequencies: Vec<f32>,
    positions: PositionKeys,
    /// `[heads * head]`: queries have no biases.
    zeros: Vec<f32>,
    shape: Shape,
}

/// Keys and values of a sequence. A copy shares what is there already.
#[derive(Clone, Debug)]
pub struct Cache(Vec<SlidingKvCache>);

#[derive(Debug)]
struct Layer {
    norm: PackedNorm,
    /// Query (already scaled), key and value, concatenated.
    qkv: Packed,
    output: Packed,
    inner_norm: PackedNorm,
    up: Packed,
    down: Packed,
}

/// A task of the attention: up to [`MAX_QUERIES`] positions of a sequence.
struct Piece<'a> {
    cache: &'a SlidingKvCache,
    first: usize,
    /// Query, key and value of each position.
    qkv: &'a [f32],
    out: &'a mut [f32],
}

impl Cache {
    /// Positions so far.
    pub fn positions(&self) -> usize {
        self.0.first().map_or(0, SlidingKvCache::end)
    }
}

impl Transformer {
    /// Reads `layers` of a scope.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, shape: Shape, precision: Precision) -> Result<Self> {
        let layers = scope.scope("layers");
        Ok(Self {
            frequencies: shape.frequencies(),
            layers: (0..shape.layers)
                .map(|at| Layer::load(&layers.scope(at), &shape, precision))
                .collect::<Result<_>>()?,
            positions: PositionKeys::absent(shape.heads),
            zeros: vec![0.0; shape.heads * shape.head],
            shape,
        })
    }

    /// The cache of an empty sequence.
    pub fn start(&self) -> Cache {
        Cache(vec![SlidingKvCache::new(self.shape.heads, self.shape.head); self.layers.len()])
    }

    /// Applies the layers to the next positions of sequences, `lengths` each, one sequence after another: `x` `[positions, size]`.
    pub fn forward(&self, pool: &ThreadPool, x: &mut [f32], lengths: &[usize], caches: &mut [&mut Cache]) {
        let positions: Vec<usize> = lengths
            .iter()
            .zip(caches.iter())
            .flat_map(|(length, cache)| cache.positions()..cache.positions() + length)
            .collect();
        let rotations = self.rotations(&positions);
        for (at, layer) in self.layers.iter().enumerate() {
            let mut qkv = layer.qkv.forward(pool, &layer.norm.forward(pool, x));
            self.rotate(pool, &mut qkv, &rotations);
            let mut sequences: Vec<_> = caches.iter_mut().map(|cache| &mut cache.0[at]).collect();
            let attended = self.attend(pool, &qkv, lengths, &mut sequences);
            layer.output.add_to(pool, &attended, x);
            let mut inner = layer.up.forward(pool, &layer.inner_norm.forward(pool, x));
            let activation = match self.shape.activation {
                Activation::Gelu => activation::gelu_in_place,
                Activation::GeluTanh => activation::gelu_tanh_in_place,
            };
            apply_in_place(pool, &mut inner, activation);
            layer.down.add_to(pool, &inner, x);
        }
    }

    /// Cosine and sine of each angle at each position: `[positions, 2, head / 2]`.
    fn rotations(&self, positions: &[usize]) -> Vec<f32> {
        let angles = |position: &usize| {
            let angles = self.frequencies.iter().map(move |frequency| *position as f32 * frequency);
            angles.clone().map(f32::cos).chain(angles.map(f32::sin)).collect::<Vec<_>>()
        };
        positions.iter().flat_map(angles).collect()
    }

    /// Turns queries and keys by their positions: value `i` of a head with value `i + head / 2`.
    fn rotate(&self, pool: &ThreadPool, qkv: &mut [f32], rotations: &[f32]) {
        let (head, width) = (self.shape.head, self.shape.heads * self.shape.head);
        let mut rows: Vec<_> = qkv.chunks_exact_mut(3 * width).zip(rotations.chunks_exact(head)).collect();
        pool.for_each_item(&mut rows, |_, (row, rotations)| {
            let (cosines, sines) = rotations.split_at(head / 2);
            for x in row[..2 * width].chunks_exact_mut(head) {
                let (first, second) = x.split_at_mut(head / 2);
                for ((a, b), (cosine, sine)) in first.iter_mut().zip(second).zip(cosines.iter().zip(sines)) {
                    (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
                }
            }
        });
    }

    /// Appends the keys and values of the next positions, and gives the attention of their queries: `[positions, heads * head]`.
    fn attend(
        &self,
        pool: &ThreadPool,
        qkv: &[f32],
        lengths: &[usize],
        caches: &mut [&mut SlidingKvCache],
    ) -> Vec<f32> {
        let width = self.shape.heads * self.shape.head;
        let mut out = vec![0f32; qkv.len() / 3];
        let (mut qkv, mut rest) = (qkv, out.as_mut_slice());
        let mut pieces = Vec::new();
        for (cache, length) in caches.iter_mut().zip(lengths) {
            let (own, after) = qkv.split_at(length * 3 * width);
            let (own_out, after_out) = rest.split_at_mut(length * width);
            own.chunks_exact(3 * width).for_each(|qkv| cache.push(&qkv[width..2 * width], &qkv[2 * width..]));
            let from = cache.end() - length;
            let cache: &SlidingKvCache = cache;
            let rows = own.chunks(MAX_QUERIES * 3 * width).zip(own_out.chunks_mut(MAX_QUERIES * width)).enumerate();
            pieces.extend(rows.map(|(at, (qkv, out))| Piece { cache, first: from + at * MAX_QUERIES, qkv, out }));
            (qkv, rest) = (after, after_out);
        }
        pool.for_each_item(&mut pieces, |_, Piece { cache, first, qkv, out }| {
            let before = |position: usize| self.shape.window.map_or(0, |window| (position + 1).saturating_sub(window));
            let visible: Vec<_> =
                (*first..*first + out.len() / width).map(|position| before(position)..position + 1).collect();
            let queries = RelativeQueries {
                queries: qkv,
                stride: 3 * width,
                biases: [&self.zeros, &self.zeros],
                frame: *first,
                visible: &visible,
            };
            cache.attend(&self.positions, queries, out);
        });
        if let Some(window) = self.shape.window {
            caches.iter_mut().for_each(|cache| cache.drop_before((cache.end() + 1).saturating_sub(window)));
        }
        out
    }
}

impl Layer {
    fn load(scope: &Scope, shape: &Shape, precision: Precision) -> Result<Self> {
        let Shape { size, epsilon, .. } = *shape;
        let LayerValues { qkv, output, up, down } = LayerValues::read(scope, shape)?;
        let packed =
            |weight: Vec<f32>, inputs: usize| Packed::new(&weight, vec![0.0; weight.len() / inputs], precision);
        Ok(Self {
            norm: PackedNorm::load_with(&scope.scope(NORM), size, epsilon)?,
            qkv: packed(qkv, size),
            output: packed(output, shape.heads * shape.head),
            inner_norm: PackedNorm::load_with(&scope.scope(INNER_NORM), size, epsilon)?,
            up: packed(up, size),
            down: packed(down, shape.inner),
        })
    }
}

impl LayerValues {
    /// # Errors
    /// As [`Scope::values`].
    pub fn read(scope: &Scope, shape: &Shape) -> Result<Self> {
        let Shape { size, heads, head, inner, .. } = *shape;
        let attention = scope.scope("self_attn");
        // The last product scales the part that a layer adds.
        let added = |product: &Scope, inputs: usize, scale: &str| -> Result<Vec<f32>> {
            let mut weight = product.values("weight", &[size, inputs])?;
            if shape.layer_scale {
                let scales = scope.scope(scale).values("scale", &[size])?;
                for (row, scale) in weight.chunks_exact_mut(inputs).zip(scales) {
                    row.iter_mut().for_each(|value| *value *= scale);
                }
            }
            Ok(weight)
        };
        let mlp = scope.scope("mlp");
        Ok(Self {
            qkv: query_key_value(&attention, shape)?,
            output: added(&attention.scope("o_proj"), heads * head, "self_attn_layer_scale")?,
            up: mlp.scope("fc1").values("weight", &[inner, size])?,
            down: added(&mlp.scope("fc2"), inner, "mlp_layer_scale")?,
        })
    }
}

/// The weights of query (scaled), key and value, `[3 * heads * head, size]`.
fn query_key_value(attention: &Scope, shape: &Shape) -> Result<Vec<f32>> {
    let Shape { size, head, .. } = *shape;
    let width = shape.heads * head;
    let mut weights = if attention.has("in_proj.weight") {
        // The runtime's form: the three in one, the values that a rotation turns side by side.
        let published = attention.scope("in_proj").values("weight", &[3 * width, size])?;
        let row = |at: usize| {
            let (of, value) = (at / head * head, at % head);
            let pair = if at < 2 * width { 2 * (value % (head / 2)) + value / (head / 2) } else { value };
            &published[(of + pair) * size..][..size]
        };
        (0..3 * width).flat_map(row).copied().collect()
    } else {
        let part = |name: &str| attention.scope(name).values("weight", &[width, size]);
        [part("q_proj")?, part("k_proj")?, part("v_proj")?].concat()
    };
    let scale = (head as f32).powf(-0.5);
    weights[..width * size].iter_mut().for_each(|value| *value *= scale);
    Ok(weights)
}
