use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::{BlockForm, BlocksOps, VECTOR};
use crate::product::epilogue::After;
use crate::product::few_rows::{ROWS, SUMMED, WIDTH, write_sums};

/// Units of a cube at most: a power of two.
const UNITS: usize = 256;

impl BlockForm {
    fn words_per_run(self) -> usize {
        self.run / self.per_word()
    }
}

impl BlocksOps for Cube {
    fn blocks_product(
        x: FloatTensor<Self>,
        words: IntTensor<Self>,
        scales: FloatTensor<Self>,
        offsets: FloatTensor<Self>,
        form: BlockForm,
    ) -> FloatTensor<Self> {
        let x = crate::cube::contiguous(x);
        let (client, device, rows) = (x.client.clone(), x.device(), x.shape()[0]);
        let out = Self::float_empty([rows, form.outputs].into(), &device, FloatDType::F32);
        if rows == 0 {
            return out;
        }
        let blocks = rows.div_ceil(ROWS);
        // As many as there are runs to share, for each vector of the cube's columns.
        let units = (form.inputs / form.run).next_power_of_two() * (WIDTH / VECTOR);
        let units = crate::cube::units(&client, units.clamp(32, UNITS));
        blocks_kernel::launch(
            &client,
            CubeCount::Static(form.outputs.div_ceil(WIDTH) as u32, blocks as u32, 1),
            CubeDim::new_1d(units as u32),
            x.clone().binding().into_buffer_arg(),
            words.binding().into_buffer_arg(),
            scales.binding().into_buffer_arg(),
            offsets.binding().into_buffer_arg(),
            x.into_tensor_arg(),
            out.clone().binding().into_buffer_arg(),
            rows as u32,
            rows.div_ceil(blocks),
            units,
            form,
        );
        out
    }

    fn blocks_unpack(
        words: IntTensor<Self>,
        scales: FloatTensor<Self>,
        offsets: FloatTensor<Self>,
        form: BlockForm,
        is_half: bool,
    ) -> FloatTensor<Self> {
        let (client, device) = (scales.client.clone(), scales.device());
        let dtype = if is_half { FloatDType::F16 } else { FloatDType::F32 };
        let out = Self::float_empty([form.inputs, form.outputs].into(), &device, dtype);
        let values = form.inputs / form.per_word() * form.padded();
        let dim = CubeDim::new(&client, values);
        unpack_kernel::launch(
            &client,
            cubecl::calculate_cube_count_elemwise(&client, values, dim),
            dim,
            words.binding().into_buffer_arg(),
            scales.binding().into_buffer_arg(),
            offsets.binding().into_buffer_arg(),
            out.clone().binding().into_buffer_arg(),
            form,
            dtype_to_storage_type(dtype.into()),
        );
        out
    }
}

/// A cube computes 16 outputs of a block of rows, a unit four of them over every so many runs.
#[cube(launch)]
fn blocks_kernel(
    x: &[Vector<f32, Const<VECTOR>>],
    words: &[Vector<u32, Const<VECTOR>>],
    scales: &[Vector<f32, Const<VECTOR>>],
    offsets: &[Vector<f32, Const<VECTOR>>],
    bias: &Tensor<f32>,
    out: &mut [f32],
    rows: u32,
    #[comptime] block: usize,
    #[comptime] units: usize,
    #[comptime] form: BlockForm,
) {
    let mut shared = Shared::<[f32]>::new_slice(comptime!(SUMMED * VECTOR * units));
    let unit = UNIT_POS as usize;
    let rows = rows as usize;
    let across = comptime!(WIDTH / VECTOR);
    let slices = comptime!(units / (WIDTH / VECTOR));
    let (slice, within) = (unit / across, unit % across);
    let row_vectors = comptime!(form.padded() / VECTOR).runtime();
    let column = CUBE_POS_X as usize * across + within;
    let first = CUBE_POS_Y as usize * block;
    let runs = comptime!(form.inputs / form.run).runtime();
    let of_run = comptime!(form.words_per_run());
    let quads = comptime!(form.per_word() / VECTOR);
    let mask = comptime!((1u32 << form.bits) - 1);

    let mut sums = Array::<Vector<f32, Const<VECTOR>>>::new(block);
    // Rows beyond the last repeat it.
    let mut starts = Array::<usize>::new(block);
    #[unroll]
    for row in 0..block {
        sums[row] = Vector::new(f32::new(0.0));
        starts[row] = min(first + row, rows - 1) * comptime!(form.inputs / VECTOR);
    }
    if column < row_vectors {
        let mut at = slice;
        while at < runs {
            let mut loaded = Array::<Vector<u32, Const<VECTOR>>>::new(of_run);
            #[unroll]
            for word in 0..of_run {
                loaded[word] = words[(at * of_run + word) * row_vectors + column];
            }
            let scale = scales[at * row_vectors + column];
            let offset = offsets[at * row_vectors + column];
            let mut products = Array::<Vector<f32, Const<VECTOR>>>::new(block);
            let mut totals = Array::<f32>::new(block);
            #[unroll]
            for row in 0..block {
                products[row] = Vector::new(f32::new(0.0));
                totals[row] = f32::new(0.0);
            }
            #[unroll]
            for word in 0..of_run {
                #[unroll]
                for quad in 0..quads {
                    let mut numbers = Array::<Vector<f32, Const<VECTOR>>>::new(VECTOR);
                    #[unroll]
                    for next in 0..VECTOR {
                        let shift = comptime!((form.bits * (quad * VECTOR + next)) as u32);
                        let bits = (loaded[word] >> Vector::new(shift.runtime())) & Vector::new(mask.runtime());
                        numbers[next] = Vector::<f32, Const<VECTOR>>::cast_from(bits);
                    }
                    let input = at * comptime!(form.run / VECTOR) + comptime!((word * form.per_word()) / VECTOR + quad);
                    #[unroll]
                    for row in 0..block {
                        let inputs = x[starts[row] + input];
                        #[unroll]
                        for next in 0..VECTOR {
                            let value = inputs.extract(next);
                            products[row] += numbers[next] * Vector::new(value);
                            totals[row] += value;
                        }
                    }
                }
            }
            #[unroll]
            for row in 0..block {
                sums[row] += scale * products[row] + offset * Vector::new(totals[row]);
            }
            at += slices;
        }
    }
    let columns = comptime!(form.outputs).runtime();
    write_sums::<f32>(&sums, &mut shared, bias, out, first, rows, columns, block, units, After::Nothing);
}

/// One unit per word.
#[cube(launch)]
fn unpack_kernel<F: Float>(
    words: &[u32],
    scales: &[f32],
    offsets: &[f32],
    out: &mut [F],
    #[comptime] form: BlockForm,
    #[define(F)] _dtype: ElemType,
) {
    let padded = comptime!(form.padded()).runtime();
    let (row, output) = (ABSOLUTE_POS / padded, ABSOLUTE_POS % padded);
    if row < comptime!(form.inputs / form.per_word()) && output < comptime!(form.outputs) {
        let word = words[ABSOLUTE_POS];
        let input = row * comptime!(form.per_word());
        let factor = input / comptime!(form.run) * padded + output;
        let (scale, offset) = (scales[factor], offsets[factor]);
        #[unroll]
        for next in 0..comptime!(form.per_word()) {
            let bits = (word >> comptime!((form.bits * next) as u32)) & comptime!((1u32 << form.bits) - 1);
            let weight = scale * f32::cast_from(bits) + offset;
            out[(input + next) * comptime!(form.outputs) + output] = F::cast_from(weight);
        }
    }
}
