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

/// The values of tensors in row-major order, for reference bodies.
#[track_caller]
pub(crate) fn values<const N: usize>(tensors: [FloatTensor<Flex>; N]) -> [Vec<f32>; N] {
    tensors.map(|x| floats(&contiguous(x)).to_vec())
}

/// The values of `x`.
///
/// # Panics
/// For another type of values, and for a view in another order: a kernel would compute over nothing.
#[track_caller]
pub(crate) fn floats(x: &FlexTensor) -> &[f32] {
    in_order(x, x.as_slice())
}

/// As [`floats`].
#[track_caller]
pub(crate) fn integers(x: &FlexTensor) -> &[i32] {
    in_order(x, x.as_slice())
}

#[track_caller]
fn in_order<'a, T>(x: &FlexTensor, values: Option<&'a [T]>) -> &'a [T] {
    let kind = std::any::type_name::<T>();
    let order = if x.is_contiguous() { "in order" } else { "in another order" };
    values
        .unwrap_or_else(|| panic!("a kernel needs values of {kind} in order; this tensor has {:?} {order}", x.dtype()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_of_another_kind_is_no_empty_slice() {
        let x = || tensor(vec![1.0, 2.0, 3.0, 4.0], Shape::new([2, 2]));
        assert_eq!(floats(&x()), [1.0, 2.0, 3.0, 4.0]);
        assert!(std::panic::catch_unwind(|| integers(&x()).len()).is_err());
        assert!(std::panic::catch_unwind(|| floats(&x().transpose(0, 1)).len()).is_err());
    }
}
