//! GELU with the exact error function. On flex one pass over the values, on all cores and in the widest vectors the processor
//! has; on GPUs one launch.

use burn::backend::Dispatch;
use burn::backend::ops::ActivationOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::Tensor;
use rayon::prelude::*;

use crate::vectors::{CHUNK, tensor};

/// `x / 2 * (1 + erf(x / sqrt 2))`, of any shape.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::exact_gelu(x.into_dispatch()))
}

/// The same for values that are no tensor.
pub fn gelu_in_place(values: &mut [f32]) {
    pulp::Arch::new().dispatch(InPlace(values));
}

struct InPlace<'a>(&'a mut [f32]);

impl pulp::NullaryFnOnce for InPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for x in self.0 {
            *x = crate::vectors::gelu(*x);
        }
    }
}

#[backend_extension(Flex, Cube: cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm")))]
pub(crate) trait GeluOps: Backend {
    fn exact_gelu(x: FloatTensor<Self>) -> FloatTensor<Self>;
}

#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
impl GeluOps for burn::backend::Cube {
    fn exact_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        crate::elementwise::map(x, crate::elementwise::Function::Gelu)
    }
}

impl GeluOps for Flex {
    fn exact_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let shape = x.shape();
        let x = if x.is_contiguous() { x } else { x.to_contiguous() };
        let Some(values) = x.as_slice::<f32>() else { return Self::gelu(x) };
        let mut out = vec![0f32; values.len()];
        out.par_chunks_mut(CHUNK).zip(values.par_chunks(CHUNK)).for_each(|(out, x)| {
            out.copy_from_slice(x);
            gelu_in_place(out);
        });
        tensor(out, shape)
    }
}
