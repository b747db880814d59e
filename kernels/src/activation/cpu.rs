//! The bodies on the CPU: one pass over slices in the widest vectors that the processor has.

use burn::backend::ops::{ActivationOps as BurnActivationOps, FloatTensorOps};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};
use rayon::prelude::*;

use super::{Activation, ActivationOps};
use crate::flex::{contiguous, floats, tensor};
use crate::vector_math::{self, CHUNK, SQRT_2_BY_PI, sigmoid};

/// [`silu`](super::silu) of a slice, in place.
pub fn silu_in_place(values: &mut [f32]) {
    pulp::Arch::new().dispatch(SiluInPlace(values));
}

struct SiluInPlace<'a>(&'a mut [f32]);

impl pulp::NullaryFnOnce for SiluInPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for x in self.0 {
            *x *= sigmoid(*x);
        }
    }
}

/// SwiGLU of slices: `gate` becomes [`silu`](super::silu) of itself times `up`.
///
/// # Panics
/// When the lengths differ.
pub fn swiglu_in_place(gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "SwiGLU: lengths of gate and up");
    pulp::Arch::new().dispatch(SwigluInPlace(gate, up));
}

struct SwigluInPlace<'a>(&'a mut [f32], &'a [f32]);

impl pulp::NullaryFnOnce for SwigluInPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (gate, up) in self.0.iter_mut().zip(self.1) {
            *gate = *gate * sigmoid(*gate) * up;
        }
    }
}

/// [`gelu`](super::gelu) of a slice, in place.
pub fn gelu_in_place(values: &mut [f32]) {
    pulp::Arch::new().dispatch(GeluInPlace(values));
}

struct GeluInPlace<'a>(&'a mut [f32]);

impl pulp::NullaryFnOnce for GeluInPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for x in self.0 {
            *x = vector_math::gelu(*x);
        }
    }
}

/// [`gelu_tanh`](super::gelu_tanh) of a slice, in place.
pub fn gelu_tanh_in_place(values: &mut [f32]) {
    pulp::Arch::new().dispatch(GeluTanhInPlace(values));
}

struct GeluTanhInPlace<'a>(&'a mut [f32]);

impl pulp::NullaryFnOnce for GeluTanhInPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        // 1 + tanh y is twice the sigmoid of 2 y.
        for x in self.0 {
            *x *= sigmoid(2.0 * SQRT_2_BY_PI * (0.044_715 * *x * *x).mul_add(*x, *x));
        }
    }
}

/// `x`, or `e^x - 1` for `x` below 0, of a slice, in place.
pub fn elu_in_place(values: &mut [f32]) {
    pulp::Arch::new().dispatch(EluInPlace(values));
}

struct EluInPlace<'a>(&'a mut [f32]);

impl pulp::NullaryFnOnce for EluInPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for x in self.0 {
            let below = vector_math::exp(x.min(0.0)) - 1.0;
            *x = if *x > 0.0 { *x } else { below };
        }
    }
}

/// `tanh x` of a slice, in place.
pub fn tanh_in_place(values: &mut [f32]) {
    pulp::Arch::new().dispatch(TanhInPlace(values));
}

struct TanhInPlace<'a>(&'a mut [f32]);

impl pulp::NullaryFnOnce for TanhInPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for x in self.0 {
            *x = vector_math::tanh(*x);
        }
    }
}

/// [`glu`](super::glu) of slices: `x` `[rows, 2 * half]` to `out` `[rows, half]`.
///
/// # Panics
/// When `x` does not have twice as many values as `out`, or `out` is not a whole number of rows.
pub fn glu_rows(x: &[f32], half: usize, out: &mut [f32]) {
    assert!(x.len() == 2 * out.len() && out.len().is_multiple_of(half), "GLU: lengths of x and out");
    pulp::Arch::new().dispatch(GluRows { x, half, out });
}

struct GluRows<'a> {
    x: &'a [f32],
    half: usize,
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for GluRows<'_> {
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

impl ActivationOps for Flex {
    fn activated(x: FloatTensor<Self>, activation: Activation) -> FloatTensor<Self> {
        match activation {
            Activation::Relu => Self::relu(x),
            Activation::Silu => in_chunks(x, silu_in_place, |x| Self::float_mul(x.clone(), Self::sigmoid(x))),
            Activation::Gelu => in_chunks(x, gelu_in_place, Self::gelu),
            Activation::GeluTanh => in_chunks(x, gelu_tanh_in_place, |x| {
                let square = Self::float_mul(x.clone(), x.clone());
                let slope = Self::float_add_scalar(Self::float_mul_scalar(square, 0.044_715.into()), 1.0.into());
                let twice = Self::float_mul_scalar(Self::float_mul(x.clone(), slope), (2.0 * SQRT_2_BY_PI).into());
                Self::float_mul(x, Self::sigmoid(twice))
            }),
            Activation::Glu => in_halves(x, glu_rows),
            Activation::SwiGlu => in_halves(x, swiglu_rows),
        }
    }
}

fn swiglu_rows(x: &[f32], half: usize, out: &mut [f32]) {
    for (out, row) in out.chunks_exact_mut(half).zip(x.chunks_exact(2 * half)) {
        let (gate, up) = row.split_at(half);
        out.copy_from_slice(gate);
        swiglu_in_place(out, up);
    }
}

/// Applies `activation` of rows, the length of their halves and the result to chunks of the rows of `x`, on all cores.
fn in_halves(x: FloatTensor<Flex>, activation: impl Fn(&[f32], usize, &mut [f32]) + Sync) -> FloatTensor<Flex> {
    let mut shape = x.shape();
    let last = shape.num_dims() - 1;
    let half = shape[last] / 2;
    let x = contiguous(x);
    let values = floats(&x);
    let mut out = vec![0f32; values.len() / 2];
    let rows = (CHUNK / half.max(1)).max(1);
    out.par_chunks_mut((rows * half).max(1))
        .zip(values.par_chunks((2 * rows * half).max(1)))
        .for_each(|(out, x)| activation(x, half, out));
    shape[last] = half;
    tensor(out, shape)
}

/// Applies `activation` to chunks of a copy of `x`, on all cores; a tensor that is not f32 goes to `fallback`.
fn in_chunks(
    x: FloatTensor<Flex>,
    activation: impl Fn(&mut [f32]) + Sync,
    fallback: impl FnOnce(FloatTensor<Flex>) -> FloatTensor<Flex>,
) -> FloatTensor<Flex> {
    let shape = x.shape();
    let x = contiguous(x);
    let Some(values) = x.as_slice::<f32>() else { return fallback(x) };
    let mut out = vec![0f32; values.len()];
    out.par_chunks_mut(CHUNK).zip(values.par_chunks(CHUNK)).for_each(|(out, x)| {
        out.copy_from_slice(x);
        activation(out);
    });
    tensor(out, shape)
}
