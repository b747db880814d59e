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
