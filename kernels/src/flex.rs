//! Tensors of the CPU's backend from slices, and in the order of slices.

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::tensor::{Shape, TensorData};

/// A tensor of `values`.
pub(crate) fn tensor(values: Vec<f32>, shape: Shape) -> FloatTensor<Flex> {
    FlexTensor::from_data(TensorData::new(values, shape))
}

/// `x`, copied into row-major order if it is a view of another order.
pub(crate) fn contiguous(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
    if x.is_contiguous() { x } else { x.to_contiguous() }
}
