use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};

use super::{BlockForm, BlocksOps};
use crate::flex::{contiguous, floats, integers, tensor};

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
