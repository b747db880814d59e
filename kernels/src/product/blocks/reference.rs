use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};

use super::{BlockForm, BlocksOps};
use crate::flex::{integers, tensor, values};
use crate::reference::add_product;

impl BlocksOps for Flex {
    fn blocks_product(
        x: FloatTensor<Self>,
        words: IntTensor<Self>,
        scales: FloatTensor<Self>,
        offsets: FloatTensor<Self>,
        form: BlockForm,
    ) -> FloatTensor<Self> {
        let rows = x.shape()[0];
        let [x, weights] = values([x, Self::blocks_unpack(words, scales, offsets, form, false)]);
        let mut out = vec![0.0; rows * form.outputs];
        for (x, out) in x.chunks_exact(form.inputs).zip(out.chunks_exact_mut(form.outputs)) {
            add_product(out, x.iter().copied(), &weights);
        }
        tensor(out, [rows, form.outputs].into())
    }

    fn blocks_unpack(
        words: IntTensor<Self>,
        scales: FloatTensor<Self>,
        offsets: FloatTensor<Self>,
        form: BlockForm,
        _is_half: bool,
    ) -> FloatTensor<Self> {
        let words = integers(&words);
        let [scales, offsets] = values([scales, offsets]);
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
