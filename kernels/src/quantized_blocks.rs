//! Products with weights that stay on a GPU as published checkpoints quantise them: numbers of 4 or 8 bits in runs of 16 or 32 inputs, each
//! with a scale and an offset. Few rows are multiplied from the numbers, which are unpacked in registers; for many rows the matrix is
//! unpacked once. Nothing is rounded again.

use burn::backend::Dispatch;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use rayon::prelude::*;

use crate::flex::{contiguous, floats, integers, tensor};
use crate::gemv::WeightRun;

/// Outputs that a unit computes side by side; rows of words and factors are padded to a multiple.
const VECTOR: usize = 4;
const WORD_BITS: usize = 32;

/// A matrix `[outputs, inputs]` of small numbers: a weight is `scale * number + offset` of its run.
#[derive(Clone, Debug)]
pub struct QuantizedBlocks {
    /// `[inputs / numbers of a word, padded outputs]`: the first input in the lowest bits.
    words: Tensor<2, Int>,
    /// `[runs, padded outputs]`
    scales: Tensor<2>,
    /// The value of the number 0: `[runs, padded outputs]`
    offsets: Tensor<2>,
    form: BlockForm,
}

/// The form of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockForm {
    /// Bits of a number.
    bits: usize,
    /// Inputs of a run.
    run: usize,
    inputs: usize,
    outputs: usize,
}

impl BlockForm {
    fn padded(self) -> usize {
        self.outputs.next_multiple_of(VECTOR)
    }

    /// Numbers of a word.
    fn per_word(self) -> usize {
        WORD_BITS / self.bits
    }
}

impl QuantizedBlocks {
    /// Packs the rows that `row` gives, one output each: runs that make up `inputs`, of `run` numbers or a multiple, as `view` shows them.
    /// Numbers take 4 bits where all lie within 16 of one another, else 8.
    ///
    /// # Panics
    /// When `run` is not a multiple of 8 that divides `inputs`, or runs have another length.
    pub fn new<R>(
        [outputs, inputs]: [usize; 2],
        run: usize,
        row: impl Fn(usize) -> Vec<R> + Sync,
        view: impl Fn(&R) -> WeightRun<'_> + Sync,
        device: &Device,
    ) -> Self {
        assert!(run > 0 && run.is_multiple_of(8) && inputs.is_multiple_of(run), "blocks: length of a run");
        let mut numbers = vec![0i8; outputs * inputs];
        let mut factors = vec![[0f32; 2]; outputs * (inputs / run)];
        numbers.par_chunks_mut(inputs).zip(factors.par_chunks_mut(inputs / run)).enumerate().for_each(
            |(output, (numbers, factors))| {
                let runs = row(output);
                let mut at = 0;
                for of in runs.iter().map(&view) {
                    assert!(of.numbers.len().is_multiple_of(run), "blocks: length of a run");
                    numbers[at..at + of.numbers.len()].copy_from_slice(of.numbers);
                    factors[at / run..(at + of.numbers.len()) / run].fill([of.scale, of.minimum]);
                    at += of.numbers.len();
                }
                assert!(at == inputs, "blocks: numbers of a row");
            },
        );
        let lowest = numbers.par_iter().copied().min().unwrap_or(0);
        let highest = numbers.par_iter().copied().max().unwrap_or(0);
        let (bits, lowest) = if i16::from(highest) - i16::from(lowest) < 16 { (4, lowest) } else { (8, i8::MIN) };
        let form = BlockForm { bits, run, inputs, outputs };
        let (padded, per_word) = (form.padded(), form.per_word());
        let mut words = vec![0i32; inputs / per_word * padded];
        words.par_chunks_mut(padded).enumerate().for_each(|(at, words)| {
            for (output, word) in words.iter_mut().take(outputs).enumerate() {
                let of = &numbers[output * inputs + at * per_word..][..per_word];
                let bits_of = |number: i8| (i16::from(number) - i16::from(lowest)) as u32;
                let packed = of.iter().enumerate().map(|(at, number)| bits_of(*number) << (bits * at));
                *word = packed.fold(0, |all, bits| all | bits) as i32;
            }
        });
        let factor = |value: &(dyn Fn([f32; 2]) -> f32 + Sync)| {
            let mut all = vec![0f32; inputs / run * padded];
            all.par_chunks_mut(padded).enumerate().for_each(|(run_at, all)| {
                for (output, to) in all.iter_mut().take(outputs).enumerate() {
                    *to = value(factors[output * (inputs / run) + run_at]);
                }
            });
            Tensor::from_data(TensorData::new(all, [inputs / run, padded]), device)
        };
        Self {
            words: Tensor::from_data(TensorData::new(words, [inputs / per_word, padded]), device),
            scales: factor(&|[scale, _]| scale),
            offsets: factor(&|[scale, minimum]| scale * f32::from(lowest) + minimum),
            form,
        }
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.form.outputs
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        let [rows, padded] = self.words.dims();
        (rows + 2 * self.form.inputs / self.form.run) * padded * 4
    }

    /// Multiplies `x` `[rows, inputs]` to `[rows, outputs]`: in a launch, which reads the weights once for eight rows.
    ///
    /// # Panics
    /// When the lengths of the rows are others.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        assert_eq!(x.dims()[1], self.form.inputs, "blocks: inputs");
        let Self { words, scales, offsets, form } = self.clone();
        let (scales, offsets) = (scales.into_dispatch(), offsets.into_dispatch());
        Tensor::from_dispatch(Dispatch::blocks_product(x.into_dispatch(), words.into_dispatch(), scales, offsets, form))
    }

    /// The weights as a product takes them, `[inputs, outputs]`, of 32 or 16 bits: in a launch.
    pub fn unpacked(&self, dtype: DType) -> Tensor<2> {
        let Self { words, scales, offsets, form } = self.clone();
        let (scales, offsets) = (scales.into_dispatch(), offsets.into_dispatch());
        let is_half = dtype == DType::F16;
        Tensor::from_dispatch(Dispatch::blocks_unpack(words.into_dispatch(), scales, offsets, form, is_half))
    }
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait BlocksOps: Backend {
    fn blocks_product(
        x: FloatTensor<Self>,
        words: IntTensor<Self>,
        scales: FloatTensor<Self>,
        offsets: FloatTensor<Self>,
        form: BlockForm,
    ) -> FloatTensor<Self>;

    fn blocks_unpack(
        words: IntTensor<Self>,
        scales: FloatTensor<Self>,
        offsets: FloatTensor<Self>,
        form: BlockForm,
        is_half: bool,
    ) -> FloatTensor<Self>;
}

/// For tests; models on the CPU use [`crate::gemv::BlockMatrix`].
impl BlocksOps for Flex {
    fn blocks_product(
        x: FloatTensor<Self>,
        words: IntTensor<Self>,
        scales: FloatTensor<Self>,
        offsets: FloatTensor<Self>,
        form: BlockForm,
    ) -> FloatTensor<Self> {
        let (rows, x) = (x.shape()[0], contiguous(x));
        let weights = Self::blocks_unpack(words, scales, offsets, form, false);
        let weights = floats(&weights);
        let x = floats(&x);
        let out = x.chunks_exact(form.inputs).flat_map(|x| {
            (0..form.outputs).map(|output| {
                x.iter().zip(weights.iter().skip(output).step_by(form.outputs)).map(|(x, weight)| x * weight).sum()
            })
        });
        tensor(out.collect(), [rows, form.outputs].into())
    }

    fn blocks_unpack(
        words: IntTensor<Self>,
        scales: FloatTensor<Self>,
        offsets: FloatTensor<Self>,
        form: BlockForm,
        _is_half: bool,
    ) -> FloatTensor<Self> {
        let words = integers(&words);
        let [scales, offsets] = [&scales, &offsets].map(floats);
        let (padded, per_word) = (form.padded(), form.per_word());
        let weight = |input: usize, output: usize| {
            let word = words[input / per_word * padded + output] as u32;
            let number = word >> (form.bits * (input % per_word)) & ((1 << form.bits) - 1);
            let run = input / form.run * padded + output;
            scales[run] * number as f32 + offsets[run]
        };
        let all = (0..form.inputs).flat_map(|input| (0..form.outputs).map(move |output| (input, output)));
        tensor(all.map(|(input, output)| weight(input, output)).collect(), [form.inputs, form.outputs].into())
    }
}

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::cubecl::dtype_to_storage_type;
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::{FloatTensor, IntTensor};
    use burn::backend::{Cube, FloatDType, TensorMetadata};
    use cubecl::prelude::*;

    use super::{BlockForm, BlocksOps, VECTOR};
    use crate::epilogue::After;
    use crate::few_rows::{ROWS, SUMMED, WIDTH, write_sums};

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
                        let input =
                            at * comptime!(form.run / VECTOR) + comptime!((word * form.per_word()) / VECTOR + quad);
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
}
