//! The cached state of many streams in one tensor: each stream has a slot, and any set of streams shares a step in two launches.
//!
//! A slot holds the last columns of a stream's input. [`prepend`] puts the cached columns of some slots before new columns, and
//! [`store`] writes the last columns of the result back. On GPUs both change the cache in place, so no other tensor may share its
//! memory.

#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// The slot of each row of a batch.
#[derive(Clone, Debug)]
pub struct BatchSlots {
    /// `[rows, 2]`, flat: the slot, and 1 if the slot has state.
    indices: Tensor<1, Int>,
    rows: Vec<(usize, bool)>,
}

impl BatchSlots {
    /// `rows` are the slot of each row and whether the slot has state of this stream; without state its columns count as zeros.
    pub fn new(rows: Vec<(usize, bool)>, device: &Device) -> Self {
        let indices = Tensor::from_data(TensorData::new(Self::pack(&rows), [rows.len() * 2]), device);
        Self { indices, rows }
    }

    /// The integers of [`BatchSlots::indices`] for these rows.
    pub fn pack(rows: &[(usize, bool)]) -> Vec<i32> {
        rows.iter().flat_map(|(slot, has_state)| [*slot as i32, i32::from(*has_state)]).collect()
    }

    /// As [`BatchSlots::new`] with what [`BatchSlots::pack`] gives, which a caller has on the device; it may be longer.
    pub fn with_packed(rows: Vec<(usize, bool)>, indices: Tensor<1, Int>) -> Self {
        Self { indices, rows }
    }

    /// The tensor that kernels read: `[rows, 2]`, flat.
    pub fn indices(&self) -> &Tensor<1, Int> {
        &self.indices
    }
}

/// Returns the cached columns of each row's slot followed by `new` `[rows, outer, more, inner]`:
/// `[rows, outer, columns + more, inner]`; `cache` is `[slots, outer, columns, inner]`.
pub fn prepend(cache: &Tensor<4>, slots: &BatchSlots, new: Tensor<4>) -> Tensor<4> {
    let (cache, indices) = (cache.clone().into_dispatch(), slots.indices.clone().into_dispatch());
    Tensor::from_dispatch(Dispatch::cache_prepend(cache, indices, new.into_dispatch(), slots.rows.clone()))
}

/// Writes the last columns of each row of `window` `[rows, outer, .., inner]` to its slot of `cache`
/// `[slots, outer, columns, inner]`, and returns the cache. No two rows have the same slot.
pub fn store(cache: Tensor<4>, slots: &BatchSlots, window: &Tensor<4>) -> Tensor<4> {
    let (window, indices) = (window.clone().into_dispatch(), slots.indices.clone().into_dispatch());
    Tensor::from_dispatch(Dispatch::cache_store(cache.into_dispatch(), indices, window, slots.rows.clone()))
}

/// Writes `new` `[rows, outer, more, inner]` to the columns of `cache` `[rows, outer, columns, inner]` from `at` on, in place as
/// [`store`], and returns the cache.
pub fn write_columns(cache: Tensor<4>, at: usize, new: Tensor<4>) -> Tensor<4> {
    Tensor::from_dispatch(Dispatch::cache_write(cache.into_dispatch(), new.into_dispatch(), at))
}

/// As [`write_columns`] from the column on that is the first number of `at`, on the device, so that a recorded step writes to another
/// one each time.
pub fn write_columns_at(cache: Tensor<4>, at: Tensor<1, Int>, new: Tensor<4>) -> Tensor<4> {
    let [cache, new] = [cache, new].map(Tensor::into_dispatch);
    Tensor::from_dispatch(Dispatch::cache_write_at(cache, new, at.into_dispatch()))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait StateCacheOps: Backend {
    fn cache_write(cache: FloatTensor<Self>, new: FloatTensor<Self>, at: usize) -> FloatTensor<Self>;

    fn cache_write_at(cache: FloatTensor<Self>, new: FloatTensor<Self>, at: IntTensor<Self>) -> FloatTensor<Self>;

    fn cache_prepend(
        cache: FloatTensor<Self>,
        indices: IntTensor<Self>,
        new: FloatTensor<Self>,
        rows: Vec<(usize, bool)>,
    ) -> FloatTensor<Self>;

    fn cache_store(
        cache: FloatTensor<Self>,
        indices: IntTensor<Self>,
        window: FloatTensor<Self>,
        rows: Vec<(usize, bool)>,
    ) -> FloatTensor<Self>;
}
