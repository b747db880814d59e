//! Gates: ReLU, SiLU (`x * sigmoid(x)`) and GLU (`a * sigmoid(b)` of the two halves of the last dimension).
//!
//! On flex the latter two are one pass over the values, on all cores and in the widest vectors the processor has; burn's own take
//! several passes on one core and call the scalar exponential of the C library. On GPUs each is one launch.
//! [`silu_in_place`] and [`glu_rows`] are for values that are no tensor.

use burn::backend::Dispatch;
use burn::backend::ops::{ActivationOps, FloatTensorOps};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::Tensor;
use rayon::prelude::*;

#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
use crate::elementwise::{Function, map};
use crate::vectors::{CHUNK, sigmoid, tensor};

/// `x * sigmoid(x)`, of any shape.
pub fn silu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::silu_gate(x.into_dispatch()))
}

/// The larger of `x` and 0, of any shape.
pub fn relu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::relu_gate(x.into_dispatch()))
}

/// `a * sigmoid(b)`: `[.., 2 n]` to `[.., n]`, with `a` the first half of the last dimension and `b` the second.
pub fn glu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::glu_gate(x.into_dispatch()))
}

/// [`silu`] in place.
pub fn silu_in_place(values: &mut [f32]) {
    pulp::Arch::new().dispatch(InPlace(values));
}

struct InPlace<'a>(&'a mut [f32]);

impl pulp::NullaryFnOnce for InPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for x in self.0 {
            *x *= sigmoid(*x);
        }
    }
}

/// [`glu`] of rows: `x` `[rows, 2 * half]` to `out` `[rows, half]`.
///
/// # Panics
/// When there are not twice as many values in `x`, or no whole rows.
pub fn glu_rows(x: &[f32], half: usize, out: &mut [f32]) {
    assert!(x.len() == 2 * out.len() && out.len().is_multiple_of(half), "a gate's rows");
    pulp::Arch::new().dispatch(Rows { x, half, out });
}

struct Rows<'a> {
    x: &'a [f32],
    half: usize,
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (out, row) in self.out.chunks_exact_mut(self.half).zip(self.x.chunks_exact(2 * self.half)) {
            let (a, b) = row.split_at(self.half);
            for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                *out = a * sigmoid(*b);
            }
        }
    }
}

#[backend_extension(Flex, Cube: cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm")))]
pub(crate) trait GateOps: Backend {
    fn relu_gate(x: FloatTensor<Self>) -> FloatTensor<Self>;
    fn silu_gate(x: FloatTensor<Self>) -> FloatTensor<Self>;
    fn glu_gate(x: FloatTensor<Self>) -> FloatTensor<Self>;
}

#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
impl GateOps for burn::backend::Cube {
    fn relu_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
        map(x, Function::Relu)
    }

    fn silu_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
        map(x, Function::Silu)
    }

    fn glu_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
        map(x, Function::Glu)
    }
}

impl GateOps for Flex {
    fn relu_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::relu(x)
    }

    fn silu_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let shape = x.shape();
        let x = if x.is_contiguous() { x } else { x.to_contiguous() };
        let Some(values) = x.as_slice::<f32>() else { return Self::float_mul(x.clone(), Self::sigmoid(x)) };
        let mut out = vec![0f32; values.len()];
        out.par_chunks_mut(CHUNK).zip(values.par_chunks(CHUNK)).for_each(|(out, x)| {
            out.copy_from_slice(x);
            silu_in_place(out);
        });
        tensor(out, shape)
    }

    fn glu_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let mut shape = x.shape();
        let last = shape.num_dims() - 1;
        let half = shape[last] / 2;
        let x = if x.is_contiguous() { x } else { x.to_contiguous() };
        let values = x.as_slice::<f32>().unwrap_or_default();
        let mut out = vec![0f32; values.len() / 2];
        let rows = (CHUNK / half.max(1)).max(1);
        out.par_chunks_mut((rows * half).max(1))
            .zip(values.par_chunks((2 * rows * half).max(1)))
            .for_each(|(out, x)| glu_rows(x, half, out));
        shape[last] = half;
        tensor(out, shape)
    }
}
