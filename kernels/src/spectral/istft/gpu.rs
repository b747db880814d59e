use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::PolarIstftOps;
use super::cpu::LEAST_WEIGHT;
use crate::elementwise::sine;

impl PolarIstftOps for Cube {
    fn polar_istft(values: FloatTensor<Self>, window: FloatTensor<Self>, hop: usize) -> FloatTensor<Self> {
        let values = crate::cube::contiguous(values);
        let (client, device) = (values.client.clone(), values.device());
        let (frames, length) = (values.shape()[0], window.shape()[0]);
        let samples = (frames - 1) * hop;
        let out = Self::float_empty([samples].into(), &device, FloatDType::F32);
        let dim = CubeDim::new(&client, samples);
        istft_kernel::launch(
            &client,
            cubecl::calculate_cube_count_elemwise(&client, samples, dim),
            dim,
            values.into_tensor_arg(),
            window.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            samples as u32,
            frames as u32,
            length as u32,
            hop as u32,
        );
        out
    }
}

/// One unit per sample: the frames that overlap there, each by the sum of its waves.
#[cube(launch)]
fn istft_kernel(
    values: &Tensor<f32>,
    window: &Tensor<f32>,
    out: &mut Tensor<f32>,
    samples: u32,
    frames: u32,
    length: u32,
    hop: u32,
) {
    let sample = ABSOLUTE_POS;
    if sample < samples as usize {
        let (frames, length, hop) = (frames as usize, length as usize, hop as usize);
        let half = length / 2;
        // Counted from the start of the first frame's window.
        let at = sample + half;
        let mut frame = 0usize.runtime();
        if at >= length {
            frame = (at - length) / hop + 1;
        }
        let end = min(at / hop + 1, frames);
        let turn = f32::new(core::f32::consts::TAU) / f32::cast_from(length as u32);
        let (mut sum, mut weight) = (f32::new(0.0), f32::new(0.0));
        while frame < end {
            let place = at - frame * hop;
            let first = frame * (length + 2);
            let mut value = f32::new(0.0);
            let mut bin = 0usize.runtime();
            while bin <= half {
                let magnitude = values[first + bin].exp();
                let phase = sine(values[first + half + 1 + bin]);
                // A quarter of a turn makes the sine a cosine.
                let angle = f32::cast_from((bin * place % length) as u32) * turn;
                let quarter = f32::new(core::f32::consts::FRAC_PI_2);
                if bin == 0 || bin == half {
                    // No imaginary part.
                    value += magnitude * sine(phase + quarter) * sine(angle + quarter);
                } else {
                    value += f32::new(2.0) * magnitude * sine(phase + angle + quarter);
                }
                bin += 1;
            }
            sum += window[place] * value / f32::cast_from(length as u32);
            weight += window[place] * window[place];
            frame += 1;
        }
        let mut result = f32::new(0.0);
        if weight > f32::new(comptime!(LEAST_WEIGHT)) {
            result = sum / weight;
        }
        out[sample] = result;
    }
}
