use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::PolarStftOps;
use crate::elementwise::{angle, sine};

impl PolarStftOps for Cube {
    fn polar_stft(samples: FloatTensor<Self>, window: FloatTensor<Self>, hop: usize) -> FloatTensor<Self> {
        let (client, device) = (samples.client.clone(), samples.device());
        let (count, length) = (samples.shape()[0], window.shape()[0]);
        let frames = count / hop + 1;
        let bins = frames * (length / 2 + 1);
        let out = Self::float_empty([frames, length + 2].into(), &device, FloatDType::F32);
        let dim = CubeDim::new(&client, bins);
        stft_kernel::launch(
            &client,
            cubecl::calculate_cube_count_elemwise(&client, bins, dim),
            dim,
            samples.into_tensor_arg(),
            window.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            bins as u32,
            count as u32,
            length as u32,
            hop as u32,
        );
        out
    }
}

/// One unit per frequency of a frame. All tensors are contiguous.
#[cube(launch)]
fn stft_kernel(
    samples: &Tensor<f32>,
    window: &Tensor<f32>,
    out: &mut Tensor<f32>,
    bins: u32,
    count: u32,
    length: u32,
    hop: u32,
) {
    let number = ABSOLUTE_POS;
    if number < bins as usize {
        let (last, length) = (count as usize - 1, length as usize);
        let half = length / 2;
        let (frame, bin) = (number / (half + 1), number % (half + 1));
        let first = frame * hop as usize;
        let turn = f32::new(core::f32::consts::TAU) / f32::cast_from(length as u32);
        let quarter = f32::new(core::f32::consts::FRAC_PI_2);
        let (mut real, mut imaginary) = (f32::new(0.0), f32::new(0.0));
        for at in 0..length {
            // Samples are counted from half a window before the first.
            let mut place = first + at;
            if place < half {
                place = min(half - place, last);
            } else {
                place -= half;
                if place > last {
                    if place > 2 * last {
                        place = 2 * last;
                    }
                    place = 2 * last - place;
                }
            }
            let value = window[at] * samples[place];
            let wave = f32::cast_from((bin * at % length) as u32) * turn;
            real += value * sine(wave + quarter);
            imaginary -= value * sine(wave);
        }
        if bin == 0 || bin == half {
            // No imaginary part.
            imaginary = f32::new(0.0);
        }
        let to = frame * (length + 2) + bin;
        out[to] = (real * real + imaginary * imaginary).sqrt();
        out[to + half + 1] = angle(imaginary, real);
    }
}
