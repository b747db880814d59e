use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::{Int8Ops, OFFSET, WORD};

/// Units per output and outputs per cube; powers of two.
const LANES: usize = 32;
const OUTPUTS: usize = 8;
/// Largest number of rows that share one read of a weight: their sums fit into 8 KiB of shared memory.
const ROWS: usize = 8;

impl Int8Ops for Cube {
    fn int8_product(x: FloatTensor<Self>, words: IntTensor<Self>, scales: FloatTensor<Self>) -> FloatTensor<Self> {
        let x = crate::cube::contiguous(x);
        let (client, device, rows) = (x.client.clone(), x.device(), x.shape()[0]);
        let outputs = scales.shape()[0];
        let out = Self::float_empty([rows, outputs].into(), &device, FloatDType::F32);
        let cube_rows = rows.next_power_of_two().min(ROWS);
        product_kernel::launch(
            &client,
            CubeCount::Static(outputs.div_ceil(OUTPUTS) as u32, rows.div_ceil(cube_rows) as u32, 1),
            CubeDim::new_2d(LANES as u32, OUTPUTS as u32),
            x.into_tensor_arg(),
            words.into_tensor_arg(),
            scales.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            cube_rows,
        );
        out
    }
}

/// One cube per group of outputs and rows, with a row of units per output. `x`, `words` and `out` are contiguous.
#[cube(launch)]
fn product_kernel(
    x: &Tensor<f32>,
    words: &Tensor<i32>,
    scales: &Tensor<f32>,
    out: &mut Tensor<f32>,
    #[comptime] cube_rows: usize,
) {
    let mut partial = Shared::<[f32]>::new_slice(comptime!(cube_rows * OUTPUTS * LANES));
    let (lane, at) = (UNIT_POS_X as usize, UNIT_POS_Y as usize);
    let (rows, inputs) = (x.shape(0), x.shape(1));
    let (outputs, width) = (words.shape(0), words.shape(1));
    let output = CUBE_POS_X as usize * OUTPUTS + at;
    let first = CUBE_POS_Y as usize * cube_rows;

    let mut sums = Array::<f32>::new(cube_rows);
    #[unroll]
    for row in 0..cube_rows {
        sums[row] = f32::new(0.0);
    }
    if output < outputs {
        let mut word = lane;
        while word < width {
            let four = u32::cast_from(words[output * width + word]);
            let a = f32::cast_from(four & 255u32) - f32::new(comptime!(OFFSET as f32));
            let b = f32::cast_from((four >> 8u32) & 255u32) - f32::new(comptime!(OFFSET as f32));
            let c = f32::cast_from((four >> 16u32) & 255u32) - f32::new(comptime!(OFFSET as f32));
            let d = f32::cast_from(four >> 24u32) - f32::new(comptime!(OFFSET as f32));
            #[unroll]
            for row in 0..cube_rows {
                // Rows past the last repeat the last row; their sums are not written.
                let place = min(first + row, rows - 1) * inputs + word * WORD;
                sums[row] += a * x[place] + b * x[place + 1] + c * x[place + 2] + d * x[place + 3];
            }
            word += LANES;
        }
    }
    #[unroll]
    for row in 0..cube_rows {
        partial[(row * OUTPUTS + at) * LANES + lane] = sums[row];
    }
    sync_cube();
    let mut reach = comptime!(LANES / 2).runtime();
    while reach > 0 {
        if lane < reach {
            #[unroll]
            for row in 0..cube_rows {
                let place = (row * OUTPUTS + at) * LANES + lane;
                partial[place] += partial[place + reach];
            }
        }
        sync_cube();
        reach /= 2;
    }
    if lane == 0 && output < outputs {
        let scale = scales[output];
        #[unroll]
        for row in 0..cube_rows {
            if first + row < rows {
                let place = (first + row) * outputs + output;
                out[place] = partial[(row * OUTPUTS + at) * LANES] * scale;
            }
        }
    }
}
