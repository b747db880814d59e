//! The cached state of many streams in one tensor: each stream has a slot, and any set of streams shares a step in two launches.
//!
//! A slot holds the last columns of a stream's input. [`prepend`] puts the cached columns of some slots before new columns, and
//! [`store`] writes the last columns of the result back. On GPUs both change the cache in place, so no other tensor may share its
//! memory.

use burn::backend::Dispatch;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Device, Int, Slice, Tensor, TensorData};

use crate::flex::{contiguous, floats, tensor};

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

impl StateCacheOps for Flex {
    fn cache_write(cache: FloatTensor<Self>, new: FloatTensor<Self>, at: usize) -> FloatTensor<Self> {
        let shape = new.shape();
        let region = [0..shape[0], 0..shape[1], at..at + shape[2], 0..shape[3]].map(Slice::from);
        Self::float_slice_assign(cache, &region, new)
    }

    fn cache_write_at(cache: FloatTensor<Self>, new: FloatTensor<Self>, at: IntTensor<Self>) -> FloatTensor<Self> {
        let first = contiguous(at).as_slice::<i32>().and_then(|at| at.first().copied()).unwrap_or_default();
        Self::cache_write(cache, new, first as usize)
    }

    fn cache_prepend(
        cache: FloatTensor<Self>,
        _places: IntTensor<Self>,
        new: FloatTensor<Self>,
        rows: Vec<(usize, bool)>,
    ) -> FloatTensor<Self> {
        let (columns, shape) = (cache.shape()[2], new.shape());
        let (outer, more, inner) = (shape[1], shape[2], shape[3]);
        let (cache, new) = (contiguous(cache), contiguous(new));
        let (cache, new) = (floats(&cache), floats(&new));
        let (cached_len, new_len) = (columns * inner, more * inner);
        let mut out = Vec::with_capacity(rows.len() * outer * (cached_len + new_len));
        for (row, (slot, has_state)) in rows.iter().enumerate() {
            for at in 0..outer {
                match has_state {
                    true => out.extend_from_slice(&cache[(slot * outer + at) * cached_len..][..cached_len]),
                    false => out.resize(out.len() + cached_len, 0.0),
                }
                out.extend_from_slice(&new[(row * outer + at) * new_len..][..new_len]);
            }
        }
        tensor(out, [rows.len(), outer, columns + more, inner].into())
    }

    fn cache_store(
        cache: FloatTensor<Self>,
        _places: IntTensor<Self>,
        window: FloatTensor<Self>,
        rows: Vec<(usize, bool)>,
    ) -> FloatTensor<Self> {
        let (shape, width) = (cache.shape(), window.shape()[2]);
        let (outer, columns, inner) = (shape[1], shape[2], shape[3]);
        let (cache, window) = (contiguous(cache), contiguous(window));
        let mut out = floats(&cache).to_vec();
        let window = floats(&window);
        let (cached_len, window_len) = (columns * inner, width * inner);
        for (row, (slot, _)) in rows.iter().enumerate() {
            for at in 0..outer {
                let last = &window[(row * outer + at) * window_len..][window_len - cached_len..window_len];
                out[(slot * outer + at) * cached_len..][..cached_len].copy_from_slice(last);
            }
        }
        tensor(out, shape)
    }
}

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::{FloatTensor, IntTensor};
    use burn::backend::{Cube, FloatDType, TensorMetadata};
    use cubecl::prelude::*;

    use super::StateCacheOps;

    impl StateCacheOps for Cube {
        fn cache_write(cache: FloatTensor<Self>, new: FloatTensor<Self>, at: usize) -> FloatTensor<Self> {
            let client = cache.client.clone();
            let values = new.shape().num_elements();
            let dim = CubeDim::new(&client, values);
            write_kernel::launch(
                &client,
                cubecl::calculate_cube_count_elemwise(&client, values, dim),
                dim,
                cache.clone().into_tensor_arg(),
                new.into_tensor_arg(),
                at as u32,
            );
            cache
        }

        fn cache_write_at(cache: FloatTensor<Self>, new: FloatTensor<Self>, at: IntTensor<Self>) -> FloatTensor<Self> {
            let client = cache.client.clone();
            let values = new.shape().num_elements();
            let dim = CubeDim::new(&client, values);
            write_at_kernel::launch(
                &client,
                cubecl::calculate_cube_count_elemwise(&client, values, dim),
                dim,
                cache.clone().into_tensor_arg(),
                new.into_tensor_arg(),
                at.into_tensor_arg(),
            );
            cache
        }

        fn cache_prepend(
            cache: FloatTensor<Self>,
            indices: IntTensor<Self>,
            new: FloatTensor<Self>,
            rows: Vec<(usize, bool)>,
        ) -> FloatTensor<Self> {
            let (client, device, shape) = (new.client.clone(), new.device(), new.shape());
            let shape = [rows.len(), shape[1], cache.shape()[2] + shape[2], shape[3]];
            let values = shape.iter().product();
            let out = Self::float_empty(shape.into(), &device, FloatDType::F32);
            let dim = CubeDim::new(&client, values);
            prepend_kernel::launch(
                &client,
                cubecl::calculate_cube_count_elemwise(&client, values, dim),
                dim,
                cache.into_tensor_arg(),
                indices.into_tensor_arg(),
                new.into_tensor_arg(),
                out.clone().into_tensor_arg(),
            );
            out
        }

        fn cache_store(
            cache: FloatTensor<Self>,
            indices: IntTensor<Self>,
            window: FloatTensor<Self>,
            rows: Vec<(usize, bool)>,
        ) -> FloatTensor<Self> {
            let (client, shape) = (cache.client.clone(), cache.shape());
            let values = rows.len() * shape[1] * shape[2] * shape[3];
            let dim = CubeDim::new(&client, values);
            store_kernel::launch(
                &client,
                cubecl::calculate_cube_count_elemwise(&client, values, dim),
                dim,
                cache.clone().into_tensor_arg(),
                indices.into_tensor_arg(),
                window.into_tensor_arg(),
                rows.len() as u32,
            );
            cache
        }
    }

    /// One unit per new value: see [`super::write_columns`].
    #[cube(launch)]
    fn write_kernel(cache: &mut Tensor<f32>, new: &Tensor<f32>, first: u32) {
        write_value(cache, new, first as usize);
    }

    /// As [`write_kernel`]: see [`super::write_columns_at`].
    #[cube(launch)]
    fn write_at_kernel(cache: &mut Tensor<f32>, new: &Tensor<f32>, first: &Tensor<i32>) {
        write_value(cache, new, first[0] as usize);
    }

    #[cube]
    fn write_value(cache: &mut Tensor<f32>, new: &Tensor<f32>, first: usize) {
        let at = ABSOLUTE_POS;
        let (outer, more, inner) = (new.shape(1), new.shape(2), new.shape(3));
        if at < new.shape(0) * outer * more * inner {
            let (i, column) = (at % inner, (at / inner) % more);
            let (o, row) = ((at / (inner * more)) % outer, at / (inner * more * outer));
            let to = column + first;
            let place = row * cache.stride(0) + o * cache.stride(1) + to * cache.stride(2) + i * cache.stride(3);
            cache[place] = new[row * new.stride(0) + o * new.stride(1) + column * new.stride(2) + i * new.stride(3)];
        }
    }

    /// One unit per value of `out`, which is contiguous: see [`super::prepend`].
    #[cube(launch)]
    fn prepend_kernel(cache: &Tensor<f32>, indices: &Tensor<i32>, new: &Tensor<f32>, out: &mut Tensor<f32>) {
        let at = ABSOLUTE_POS;
        let (outer, width, inner) = (out.shape(1), out.shape(2), out.shape(3));
        let columns = cache.shape(2);
        if at < out.shape(0) * outer * width * inner {
            let (i, column) = (at % inner, (at / inner) % width);
            let (o, row) = ((at / (inner * width)) % outer, at / (inner * width * outer));
            let mut value = f32::new(0.0);
            if column >= columns {
                let place = row * new.stride(0) + o * new.stride(1) + (column - columns) * new.stride(2);
                value = new[place + i * new.stride(3)];
            } else if indices[row * 2 + 1] != 0 {
                let slot = indices[row * 2] as usize;
                let place = slot * cache.stride(0) + o * cache.stride(1) + column * cache.stride(2);
                value = cache[place + i * cache.stride(3)];
            }
            out[at] = value;
        }
    }

    /// One unit per cached value: see [`super::store`].
    #[cube(launch)]
    fn store_kernel(cache: &mut Tensor<f32>, indices: &Tensor<i32>, window: &Tensor<f32>, rows: u32) {
        let at = ABSOLUTE_POS;
        let (outer, columns, inner) = (cache.shape(1), cache.shape(2), cache.shape(3));
        if at < rows as usize * outer * columns * inner {
            let (i, column) = (at % inner, (at / inner) % columns);
            let (o, row) = ((at / (inner * columns)) % outer, at / (inner * columns * outer));
            let from = window.shape(2) - columns + column;
            let slot = indices[row * 2] as usize;
            let place = slot * cache.stride(0) + o * cache.stride(1) + column * cache.stride(2) + i * cache.stride(3);
            cache[place] =
                window[row * window.stride(0) + o * window.stride(1) + from * window.stride(2) + i * window.stride(3)];
        }
    }
}
