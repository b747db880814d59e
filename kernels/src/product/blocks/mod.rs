//! Products with weights that stay on a GPU as published checkpoints quantise them: numbers of 4 or 8 bits in runs of 16 or 32 inputs, each
//! with a scale and an offset. Few rows are multiplied from the numbers, which are unpacked in registers; for many rows the matrix is
//! unpacked once. Nothing is rounded again. On the CPU it is [`gemv::BlockMatrix`](super::gemv::BlockMatrix).

#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use rayon::prelude::*;

use crate::product::gemv::WeightRun;

/// Outputs that a unit computes side by side; rows of words and factors are padded to a multiple.
const VECTOR: usize = 4;
const WORD_BITS: usize = 32;

/// A matrix `[outputs, inputs]` of small numbers: a weight is `scale * number + offset` of its run.
#[derive(Clone, Debug)]
pub struct BlockMatrix {
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

impl BlockMatrix {
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
