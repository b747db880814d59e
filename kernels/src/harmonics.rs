//! Sums of sines whose phases grow from one value of a pitch to the next, on GPUs in one launch. The phases up to each value, which are sums
//! over all before, come from the CPU. The body on the CPU is for tests.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::Tensor;

use crate::flex::{contiguous, floats, tensor};

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

impl HarmonicsOps for Flex {
    fn harmonics(
        turns: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        levels: FloatTensor<Self>,
        beside: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let shape = beside.shape();
        let [turns, weights, levels, beside] = [turns, weights, levels, beside].map(contiguous);
        let [turns, weights] = [&turns, &weights].map(floats);
        let [levels, beside] = [&levels, &beside].map(floats);
        let span = beside.len() / levels.len();
        let sample = |(at, beside): (usize, &f32)| {
            let place = (2 * at + 1).saturating_sub(span);
            let (value, part) = (place / (2 * span), (place % (2 * span)) as f64 / (2 * span) as f64);
            let turns = turns[value * 2 * weights.len()..].as_chunks::<2>().0;
            let waves = turns.iter().zip(weights).map(|([start, growth], weight)| {
                let turn = f64::from(*start) + f64::from(*growth) * part;
                weight * (std::f64::consts::TAU * turn.fract()).sin() as f32
            });
            (levels[at / span] * waves.sum::<f32>() + beside).tanh()
        };
        tensor(beside.iter().enumerate().map(sample).collect(), shape)
    }
}

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Cube, FloatDType, TensorMetadata};
    use cubecl::prelude::*;

    use super::HarmonicsOps;
    use crate::elementwise::{sine, tanh};

    impl HarmonicsOps for Cube {
        fn harmonics(
            turns: FloatTensor<Self>,
            weights: FloatTensor<Self>,
            levels: FloatTensor<Self>,
            beside: FloatTensor<Self>,
        ) -> FloatTensor<Self> {
            let turns = crate::cube::contiguous(turns);
            let (client, device, samples) = (beside.client.clone(), beside.device(), beside.shape()[0]);
            let (span, count) = (samples / levels.shape()[0], weights.shape()[0]);
            let out = Self::float_empty([samples].into(), &device, FloatDType::F32);
            let dim = CubeDim::new(&client, samples);
            harmonics_kernel::launch(
                &client,
                cubecl::calculate_cube_count_elemwise(&client, samples, dim),
                dim,
                turns.into_tensor_arg(),
                weights.into_tensor_arg(),
                levels.into_tensor_arg(),
                beside.into_tensor_arg(),
                out.clone().into_tensor_arg(),
                samples as u32,
                span as u32,
                count as u32,
            );
            out
        }
    }

    /// One unit per sample. All tensors are contiguous.
    #[cube(launch)]
    fn harmonics_kernel(
        turns: &Tensor<f32>,
        weights: &Tensor<f32>,
        levels: &Tensor<f32>,
        beside: &Tensor<f32>,
        out: &mut Tensor<f32>,
        samples: u32,
        span: u32,
        count: u32,
    ) {
        let at = ABSOLUTE_POS;
        if at < samples as usize {
            let (span, count) = (span as usize, count as usize);
            // In halves of a sample, counted from the middle of the first value's samples.
            let mut place = 2 * at + 1;
            if place < span {
                place = span;
            }
            let place = place - span;
            let value = place / (2 * span);
            let part = f32::cast_from((place % (2 * span)) as u32) / f32::cast_from((2 * span) as u32);
            let mut sum = f32::new(0.0);
            for harmonic in 0..count {
                let first = 2 * (value * count + harmonic);
                let turn = turns[first] + turns[first + 1] * part;
                sum += weights[harmonic] * sine((turn - turn.floor()) * f32::new(core::f32::consts::TAU));
            }
            let x = sum * levels[at / span] + beside[at];
            // A difference of sigmoids is not accurate near 0.
            let square = x * x;
            let small = x * (f32::new(1.0) - square * (f32::new(1.0 / 3.0) - square * f32::new(2.0 / 15.0)));
            let mut result = tanh(x);
            if square < f32::new(0.01) {
                result = small;
            }
            out[at] = result;
        }
    }
}
