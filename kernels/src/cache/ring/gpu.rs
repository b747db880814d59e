use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::{Cube, TensorMetadata};
use cubecl::prelude::*;

use super::{FACTS, FloatTensor, IntTensor, RingOps, RowFrames};

impl RingOps for Cube {
    fn ring_store(
        one: FloatTensor<Self>,
        two: FloatTensor<Self>,
        packed: IntTensor<Self>,
        new_one: FloatTensor<Self>,
        new_two: FloatTensor<Self>,
        _rows: Vec<RowFrames>,
        both: bool,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (client, columns, shape) = (one.client.clone(), one.shape()[2], new_one.shape());
        let dtype = dtype_to_storage_type(one.dtype);
        let frames = shape[2].min(columns);
        let units = shape[0] * shape[1] * frames * shape[3];
        let dim = CubeDim::new(&client, units);
        store_kernel::launch(
            &client,
            cubecl::calculate_cube_count_elemwise(&client, units, dim),
            dim,
            one.clone().into_tensor_arg(),
            two.clone().into_tensor_arg(),
            packed.into_tensor_arg(),
            new_one.into_tensor_arg(),
            new_two.into_tensor_arg(),
            frames as u32,
            both,
            dtype,
        );
        (one, two)
    }
}

/// One unit per new value of the first ring, which also writes the one of the second.
#[cube(launch)]
fn store_kernel<F: Float>(
    one: &mut Tensor<F>,
    two: &mut Tensor<F>,
    packed: &Tensor<i32>,
    new_one: &Tensor<F>,
    new_two: &Tensor<F>,
    frames: u32,
    #[comptime] both: bool,
    #[define(F)] _dtype: ElemType,
) {
    let at = ABSOLUTE_POS;
    let (outer, more, inner) = (new_one.shape(1), new_one.shape(2), new_one.shape(3));
    let frames = frames as usize;
    if at < new_one.shape(0) * outer * frames * inner {
        let (i, o) = (at % inner, (at / inner) % outer);
        let frame = more - frames + (at / (inner * outer)) % frames;
        let row = at / (inner * outer * frames);
        let slot = packed[row * FACTS] as usize;
        let column = (packed[row * FACTS + 1] as usize + frame) % one.shape(2);
        let to = slot * one.stride(0) + o * one.stride(1) + column * one.stride(2) + i * one.stride(3);
        let from = row * new_one.stride(0) + o * new_one.stride(1) + frame * new_one.stride(2);
        one[to] = new_one[from + i * new_one.stride(3)];
        if comptime!(both) {
            let to = slot * two.stride(0) + o * two.stride(1) + column * two.stride(2) + i * two.stride(3);
            let from = row * new_two.stride(0) + o * new_two.stride(1) + frame * new_two.stride(2);
            two[to] = new_two[from + i * new_two.stride(3)];
        }
    }
}
