//! Sums of sines whose phases grow from one value of a pitch to the next, on GPUs in one launch. The phases up to each value, which are sums
//! over all before, come from the CPU.

#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;

/// The hyperbolic tangents of harmonics and what is beside them, one for each value of `beside` `[samples]`, which are as many for each
/// value of the pitch.
///
/// `turns` `[values, harmonics, 2]` are the phase of each harmonic in the middle of a value's samples and its growth up to the middle of the
/// next value's, in turns; `weights` are the amplitudes `[harmonics]`; `levels` `[values]` multiply the sum of the harmonics.
///
/// # Panics
/// When the shapes do not match.
pub fn harmonics(turns: Tensor<3>, weights: Tensor<1>, levels: Tensor<1>, beside: Tensor<1>) -> Tensor<1> {
    let ([values, count, _], [samples]) = (turns.dims(), beside.dims());
    assert!(
        turns.dims() == [values, count, 2]
            && weights.dims() == [count]
            && levels.dims() == [values]
            && values > 0
            && samples.is_multiple_of(values),
        "harmonics: numbers of values, harmonics and samples"
    );
    if samples == 0 {
        return beside;
    }
    let (turns, weights) = (turns.into_dispatch(), weights.into_dispatch());
    Tensor::from_dispatch(Dispatch::harmonics(turns, weights, levels.into_dispatch(), beside.into_dispatch()))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait HarmonicsOps: Backend {
    fn harmonics(
        turns: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        levels: FloatTensor<Self>,
        beside: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}
