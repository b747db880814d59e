//! Products of a few rows with an 8-bit matrix on GPUs: a product reads a quarter of the bytes of an f32 matrix.
//!
//! The weights are those of [`PackedMatrix`](super::gemv::PackedMatrix) in 8 bits, which is the CPU's for few rows: one scale for each output,
//! inputs and sums in f32. A word holds four weights, which the kernel unpacks in registers. On the CPU [`cpu`] multiplies many rows, which it
//! rounds to 8 bits too.

pub mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::product::gemv::int8_scale;

/// Weights of one word.
const WORD: usize = 4;
/// Offset of a stored weight, which is unsigned.
const OFFSET: i32 = 128;

/// A matrix `[outputs, inputs]` of 8-bit weights.
#[derive(Clone, Debug)]
pub struct Int8Matrix {
    /// `[outputs, inputs / 4]`: weights plus 128, the first in the lowest byte.
    words: Tensor<2, Int>,
    /// `[outputs]`
    scales: Tensor<1>,
}

impl Int8Matrix {
    /// Packs `values` `[outputs, inputs]`.
    ///
    /// # Panics
    /// When `inputs` is not a multiple of four, or `values` is not a whole number of outputs.
    pub fn new(values: &[f32], inputs: usize, device: &Device) -> Self {
        assert!(
            inputs.is_multiple_of(WORD) && values.len().is_multiple_of(inputs),
            "8-bit matrix: inputs and number of values"
        );
        let (mut words, mut scales) = (Vec::with_capacity(values.len() / WORD), Vec::new());
        for row in values.chunks_exact(inputs) {
            let (scale, inverse) = int8_scale(row);
            let byte = |value: f32| ((value * inverse).round() as i32 + OFFSET) as u8;
            words.extend(row.as_chunks::<WORD>().0.iter().map(|four| i32::from_le_bytes(four.map(byte))));
            scales.push(scale);
        }
        let outputs = scales.len();
        Self {
            words: Tensor::from_data(TensorData::new(words, [outputs, inputs / WORD]), device),
            scales: Tensor::from_data(TensorData::new(scales, [outputs]), device),
        }
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> usize {
        (self.words.dims().iter().product::<usize>() + self.scales.dims()[0]) * 4
    }

    /// Multiplies `x` `[rows, inputs]` to `[rows, outputs]`.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let (words, scales) = (self.words.clone().into_dispatch(), self.scales.clone().into_dispatch());
        Tensor::from_dispatch(Dispatch::int8_product(x.into_dispatch(), words, scales))
    }
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait Int8Ops: Backend {
    fn int8_product(x: FloatTensor<Self>, words: IntTensor<Self>, scales: FloatTensor<Self>) -> FloatTensor<Self>;
}
