//! Attention of many queries in one launch on GPUs: scores, relative positions, mask, softmax and values, without a tensor of scores.
//!
//! A query sees keys of its row: those that its stream keeps in a ring ([`crate::cache::ring`]), then new ones. The kernel goes over the keys in
//! blocks with an online softmax. Queries, keys and values are read by their strides, so that views of one product need no copy.
//! Whole utterances in 16 bits are batched products instead where a card has matrix units.
//! On the CPU [`cpu`] keeps the keys and values of a stream in panels.

pub mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, ExtensionType, backend_extension};
use burn::tensor::Tensor;

use crate::cache::ring::{RowFrames, StepFrames};

/// The keys that a query attends to among the real ones of its row. Keys are numbered from the ring's oldest column on, new ones
/// after its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// All.
    Full,
    /// Those of its own chunk of `size` keys and of `left` chunks before it. With `size` 1 that is causal attention.
    Chunks {
        /// Keys of a chunk.
        size: usize,
        /// Chunks before that of the query.
        left: usize,
    },
}

#[cfg(feature = "wgpu")]
impl Window {
    /// Keys of a chunk and chunks before a query's own, as a kernel takes them.
    fn numbers(self) -> (u32, u32) {
        match self {
            Self::Full => (1, 0),
            Self::Chunks { size, left } => (size as u32, left.min(i32::MAX as usize) as u32),
        }
    }
}

/// The keys that every query of a step attends to.
#[derive(Clone, Debug)]
pub struct VisibleKeys {
    /// The keys of each row: those that the ring has of its stream, then the real ones of the step.
    pub frames: StepFrames,
    /// The window of each query.
    pub window: Window,
    /// Number of the first query's own key among the new ones.
    pub first: usize,
}

/// The rings of keys and values: `[slots, heads, columns, head]` each.
#[derive(Clone, Debug)]
pub struct KeyValueRing {
    /// Keys.
    pub keys: Tensor<4>,
    /// Values.
    pub values: Tensor<4>,
}

/// Scores by distance in the form of Transformer-XL.
#[derive(Clone, Debug)]
pub struct RelativePositions {
    /// Keys of the distances, `[distances, heads * head]`, from the farthest past to the farthest future: with `n` queries and `k`
    /// columns of a ring the first is for the distance `k + n - 1`, each next one for a distance one smaller.
    pub keys: Tensor<2>,
    /// Biases of the query for the product with a key, and for that with the key of a distance: `[2, heads * head]`.
    pub biases: Tensor<2>,
}

/// Attention of `query` over `keys` and `values`, `[rows, heads, count, head]` each and views of any order, after those of `ring`.
/// Scores are multiplied by `scale`. Returns `[rows, queries, heads * head]`; a query that sees no key gives 0.
///
/// # Panics
/// When the shapes do not match.
pub fn attend(
    inputs: [Tensor<4>; 3],
    ring: Option<&KeyValueRing>,
    positions: Option<&RelativePositions>,
    visible: &VisibleKeys,
    scale: f32,
) -> Tensor<3> {
    attend_by(Way::Fastest, inputs, ring, positions, visible, scale)
}

/// How a GPU computes attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the way that is fastest for the call.
    Fastest,
    /// In one launch, a cube for each tile of queries.
    Tiles,
    /// In one launch, a cube for each query; by tiles where keys cannot be read in vectors.
    ByQuery,
    /// By batched products where they can compute the call: on matrix units, without those by burn's.
    Products,
}

/// As [`attend`], computed as given: for measurements and tests.
///
/// # Panics
/// As [`attend`].
pub fn attend_by(
    way: Way,
    [query, keys, values]: [Tensor<4>; 3],
    ring: Option<&KeyValueRing>,
    positions: Option<&RelativePositions>,
    visible: &VisibleKeys,
    scale: f32,
) -> Tensor<3> {
    let ([rows, heads, queries, head], [_, _, new, _]) = (query.dims(), keys.dims());
    let columns = ring.map_or(0, |ring| ring.keys.dims()[2]);
    assert!(
        keys.dims() == [rows, heads, new, head] && values.dims() == keys.dims() && visible.frames.rows().len() == rows,
        "attention: shapes of query, keys and values"
    );
    assert!(visible.frames.rows().iter().all(|row| row.new.end <= new), "attention: visible keys beyond the last");
    if let Some(ring) = ring {
        assert!(
            columns > 0 && ring.keys.dims()[1..] == [heads, columns, head] && ring.values.dims() == ring.keys.dims(),
            "attention: shape of the ring"
        );
    }
    if let Some(positions) = positions {
        assert!(
            positions.keys.dims() == [columns + 2 * queries - 1, heads * head]
                && positions.biases.dims() == [2, heads * head]
                && visible.first == 0,
            "attention: shapes of the positions"
        );
    }
    let call = AttentionCall {
        way,
        rows: visible.frames.rows().to_vec(),
        window: visible.window,
        first: visible.first,
        scale,
        has_ring: ring.is_some(),
        has_positions: positions.is_some(),
    };
    let [query, keys, values] = [query, keys, values].map(Tensor::into_dispatch);
    // A kernel has the same tensors in every case; those that a case has no use for are never read.
    let ring = ring.map(|ring| [&ring.keys, &ring.values].map(|tensor| tensor.clone().into_dispatch()));
    let [ring_keys, ring_values] = ring.unwrap_or_else(|| [keys.clone(), values.clone()]);
    let positions = positions.map(|positions| [&positions.keys, &positions.biases].map(|x| x.clone().into_dispatch()));
    let [position_keys, biases] = positions.unwrap_or_else(|| [query.clone(), query.clone()]);
    let packed = visible.frames.packed().into_dispatch();
    let inputs = Inputs { query, keys, values, ring_keys, ring_values, position_keys, biases, packed };
    Tensor::from_dispatch(Dispatch::relative_attention(inputs, call))
}

/// The tensors of a call.
#[derive(ExtensionType)]
pub(crate) struct Inputs<B: Backend> {
    query: FloatTensor<B>,
    keys: FloatTensor<B>,
    values: FloatTensor<B>,
    ring_keys: FloatTensor<B>,
    ring_values: FloatTensor<B>,
    position_keys: FloatTensor<B>,
    biases: FloatTensor<B>,
    packed: IntTensor<B>,
}

/// The facts of a call that are not tensors.
#[derive(Clone, Debug)]
pub(crate) struct AttentionCall {
    way: Way,
    rows: Vec<RowFrames>,
    window: Window,
    first: usize,
    scale: f32,
    has_ring: bool,
    has_positions: bool,
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait RelativeAttentionOps: Backend {
    fn relative_attention(#[extension_type] inputs: Inputs<Self>, call: AttentionCall) -> FloatTensor<Self>;
}

#[cfg(feature = "wgpu")]
pub(crate) use gpu::full_attention;
