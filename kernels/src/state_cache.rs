//! What streams keep from step to step, in one tensor for all of them: every stream has a slot of its own, and any of them
//! share a step in two launches, however many they are.
//!
//! A slot keeps the last columns of what went by. [`prepend`] puts those of some slots before new columns, and [`store`] leaves
//! the last of the outcome in the slots again. On GPUs that is done in place, so nobody else may hold the tensor.

use burn::backend::Dispatch;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Device, Int, Slice, Tensor, TensorData};

use crate::vector_math::{contiguous, tensor};

/// The slots of a step's rows.
#[derive(Clone, Debug)]
pub struct BatchSlots {
    /// `[rows, 2]`, flat: the slot, and 1 if something was kept in it before.
    indices: Tensor<1, Int>,
    rows: Vec<(usize, bool)>,
}

impl BatchSlots {
    /// Of each row its slot, and whether anything was kept in it before: what is left of another stream counts as zeros.
    pub fn new(rows: Vec<(usize, bool)>, device: &Device) -> Self {
        let indices: Vec<i32> = rows.iter().flat_map(|(slot, begun)| [*slot as i32, i32::from(*begun)]).collect();
        let indices = Tensor::from_data(TensorData::new(indices, [rows.len() * 2]), device);
        Self { indices, rows }
    }

    /// The tensor that kernels read.
    pub fn indices(&self) -> &Tensor<1, Int> {
        &self.indices
    }
}

/// What the slots `kept` `[slots, outer, columns, inner]` keep, before `new` `[rows, outer, more, inner]`:
/// `[rows, outer, columns + more, inner]`.
pub fn prepend(kept: &Tensor<4>, slots: &BatchSlots, new: Tensor<4>) -> Tensor<4> {
    let (kept, indices) = (kept.clone().into_dispatch(), slots.indices.clone().into_dispatch());
    Tensor::from_dispatch(Dispatch::cache_prepend(kept, indices, new.into_dispatch(), slots.rows.clone()))
}

/// `kept` `[slots, outer, columns, inner]` with the last columns of `window` `[rows, outer, .., inner]` in the rows' slots,
/// each of which is in one row alone.
pub fn store(kept: Tensor<4>, slots: &BatchSlots, window: &Tensor<4>) -> Tensor<4> {
    let (window, indices) = (window.clone().into_dispatch(), slots.indices.clone().into_dispatch());
    Tensor::from_dispatch(Dispatch::cache_store(kept.into_dispatch(), indices, window, slots.rows.clone()))
}

/// `kept` `[rows, outer, columns, inner]` with `new` `[rows, outer, more, inner]` in its columns from `at` on; in place as [`store`].
pub fn write_columns(kept: Tensor<4>, at: usize, new: Tensor<4>) -> Tensor<4> {
    Tensor::from_dispatch(Dispatch::cache_write(kept.into_dispatch(), new.into_dispatch(), at))
}

#[backend_extension(Flex, Cube: cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm")))]
pub(crate) trait StateCacheOps: Backend {
    fn cache_write(kept: FloatTensor<Self>, new: FloatTensor<Self>, at: usize) -> FloatTensor<Self>;

    fn cache_prepend(
        kept: FloatTensor<Self>,
        indices: IntTensor<Self>,
        new: FloatTensor<Self>,
        rows: Vec<(usize, bool)>,
    ) -> FloatTensor<Self>;

    fn cache_store(
        kept: FloatTensor<Self>,
        indices: IntTensor<Self>,
        window: FloatTensor<Self>,
        rows: Vec<(usize, bool)>,
    ) -> FloatTensor<Self>;
}

impl StateCacheOps for Flex {
    fn cache_write(kept: FloatTensor<Self>, new: FloatTensor<Self>, at: usize) -> FloatTensor<Self> {
        let shape = new.shape();
        let place = [0..shape[0], 0..shape[1], at..at + shape[2], 0..shape[3]].map(Slice::from);
        Self::float_slice_assign(kept, &place, new)
    }

    fn cache_prepend(
        kept: FloatTensor<Self>,
        _places: IntTensor<Self>,
        new: FloatTensor<Self>,
        rows: Vec<(usize, bool)>,
    ) -> FloatTensor<Self> {
        let (columns, shape) = (kept.shape()[2], new.shape());
        let (outer, more, inner) = (shape[1], shape[2], shape[3]);
        let (kept, new) = (contiguous(kept), contiguous(new));
        let (kept, new) = (kept.as_slice::<f32>().unwrap_or_default(), new.as_slice::<f32>().unwrap_or_default());
        let (old, young) = (columns * inner, more * inner);
        let mut out = Vec::with_capacity(rows.len() * outer * (old + young));
        for (row, (slot, begun)) in rows.iter().enumerate() {
            for at in 0..outer {
                match begun {
                    true => out.extend_from_slice(&kept[(slot * outer + at) * old..][..old]),
                    false => out.resize(out.len() + old, 0.0),
                }
                out.extend_from_slice(&new[(row * outer + at) * young..][..young]);
            }
        }
        tensor(out, [rows.len(), outer, columns + more, inner].into())
    }

    fn cache_store(
        kept: FloatTensor<Self>,
        _places: IntTensor<Self>,
        window: FloatTensor<Self>,
        rows: Vec<(usize, bool)>,
    ) -> FloatTensor<Self> {
        let (shape, width) = (kept.shape(), window.shape()[2]);
        let (outer, columns, inner) = (shape[1], shape[2], shape[3]);
        let (kept, window) = (contiguous(kept), contiguous(window));
        let mut out = kept.as_slice::<f32>().unwrap_or_default().to_vec();
        let window = window.as_slice::<f32>().unwrap_or_default();
        let (old, all) = (columns * inner, width * inner);
        for (row, (slot, _)) in rows.iter().enumerate() {
            for at in 0..outer {
                let last = &window[(row * outer + at) * all..][all - old..all];
                out[(slot * outer + at) * old..][..old].copy_from_slice(last);
            }
        }
        tensor(out, shape)
    }
}

#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
mod kernel {
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::{FloatTensor, IntTensor};
    use burn::backend::{Cube, FloatDType, TensorMetadata};
    use cubecl::prelude::*;

    use super::StateCacheOps;

    impl StateCacheOps for Cube {
        fn cache_write(kept: FloatTensor<Self>, new: FloatTensor<Self>, at: usize) -> FloatTensor<Self> {
            let client = kept.client.clone();
            let values = new.shape().num_elements();
            let dim = CubeDim::new(&client, values);
            write_kernel::launch(
                &client,
                cubecl::calculate_cube_count_elemwise(&client, values, dim),
                dim,
                kept.clone().into_tensor_arg(),
                new.into_tensor_arg(),
                at as u32,
            );
            kept
        }

        fn cache_prepend(
            kept: FloatTensor<Self>,
            indices: IntTensor<Self>,
            new: FloatTensor<Self>,
            rows: Vec<(usize, bool)>,
        ) -> FloatTensor<Self> {
            let (client, device, shape) = (new.client.clone(), new.device(), new.shape());
            let shape = [rows.len(), shape[1], kept.shape()[2] + shape[2], shape[3]];
            let values = shape.iter().product();
            let out = Self::float_empty(shape.into(), &device, FloatDType::F32);
            let dim = CubeDim::new(&client, values);
            prepend_kernel::launch(
                &client,
                cubecl::calculate_cube_count_elemwise(&client, values, dim),
                dim,
                kept.into_tensor_arg(),
                indices.into_tensor_arg(),
                new.into_tensor_arg(),
                out.clone().into_tensor_arg(),
            );
            out
        }

        fn cache_store(
            kept: FloatTensor<Self>,
            indices: IntTensor<Self>,
            window: FloatTensor<Self>,
            rows: Vec<(usize, bool)>,
        ) -> FloatTensor<Self> {
            let (client, shape) = (kept.client.clone(), kept.shape());
            let values = rows.len() * shape[1] * shape[2] * shape[3];
            let dim = CubeDim::new(&client, values);
            store_kernel::launch(
                &client,
                cubecl::calculate_cube_count_elemwise(&client, values, dim),
                dim,
                kept.clone().into_tensor_arg(),
                indices.into_tensor_arg(),
                window.into_tensor_arg(),
                rows.len() as u32,
            );
            kept
        }
    }

    /// One new value a unit: see [`super::write_columns`].
    #[cube(launch)]
    fn write_kernel(kept: &mut Tensor<f32>, new: &Tensor<f32>, first: u32) {
        let at = ABSOLUTE_POS;
        let (outer, more, inner) = (new.shape(1), new.shape(2), new.shape(3));
        if at < new.shape(0) * outer * more * inner {
            let (i, column) = (at % inner, (at / inner) % more);
            let (o, row) = ((at / (inner * more)) % outer, at / (inner * more * outer));
            let to = column + first as usize;
            let place = row * kept.stride(0) + o * kept.stride(1) + to * kept.stride(2) + i * kept.stride(3);
            kept[place] = new[row * new.stride(0) + o * new.stride(1) + column * new.stride(2) + i * new.stride(3)];
        }
    }

    /// One value of the window a unit: see [`super::prepend`]. `out` lies in one piece.
    #[cube(launch)]
    fn prepend_kernel(kept: &Tensor<f32>, indices: &Tensor<i32>, new: &Tensor<f32>, out: &mut Tensor<f32>) {
        let at = ABSOLUTE_POS;
        let (outer, width, inner) = (out.shape(1), out.shape(2), out.shape(3));
        let columns = kept.shape(2);
        if at < out.shape(0) * outer * width * inner {
            let (i, column) = (at % inner, (at / inner) % width);
            let (o, row) = ((at / (inner * width)) % outer, at / (inner * width * outer));
            let mut value = f32::new(0.0);
            if column >= columns {
                let place = row * new.stride(0) + o * new.stride(1) + (column - columns) * new.stride(2);
                value = new[place + i * new.stride(3)];
            } else if indices[row * 2 + 1] != 0 {
                let slot = indices[row * 2] as usize;
                let place = slot * kept.stride(0) + o * kept.stride(1) + column * kept.stride(2);
                value = kept[place + i * kept.stride(3)];
            }
            out[at] = value;
        }
    }

    /// One value that is kept a unit: see [`super::store`].
    #[cube(launch)]
    fn store_kernel(kept: &mut Tensor<f32>, indices: &Tensor<i32>, window: &Tensor<f32>, rows: u32) {
        let at = ABSOLUTE_POS;
        let (outer, columns, inner) = (kept.shape(1), kept.shape(2), kept.shape(3));
        if at < rows as usize * outer * columns * inner {
            let (i, column) = (at % inner, (at / inner) % columns);
            let (o, row) = ((at / (inner * columns)) % outer, at / (inner * columns * outer));
            let from = window.shape(2) - columns + column;
            let slot = indices[row * 2] as usize;
            let place = slot * kept.stride(0) + o * kept.stride(1) + column * kept.stride(2) + i * kept.stride(3);
            kept[place] =
                window[row * window.stride(0) + o * window.stride(1) + from * window.stride(2) + i * window.stride(3)];
        }
    }
}
