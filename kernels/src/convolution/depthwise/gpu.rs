use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::ops::FloatTensorOps;
use burn::backend::{Cube, TensorMetadata};
use cubecl::prelude::*;

use super::{DepthwiseConvOps, FloatTensor, Inputs};
use crate::cache::ring::{FACTS, RowFrames};
use crate::elementwise::sigmoid;
use crate::norm::EPSILON;
use crate::reduce::cube_sum;

/// Units of a cube: a power of two.
const UNITS: usize = 128;

impl DepthwiseConvOps for Cube {
    fn depthwise_convolution(inputs: Inputs<Self>, _rows: Vec<RowFrames>) -> FloatTensor<Self> {
        let Inputs { x, ring, weight, bias, gamma, beta, packed, has_ring, has_norm } = inputs;
        let x = crate::cube::contiguous(x);
        let (client, device, shape) = (x.client.clone(), x.device(), x.shape());
        let taps = weight.shape()[0];
        let dtype = dtype_to_storage_type(x.dtype);
        let out = Self::float_empty(shape.clone(), &device, crate::cube::float(&x));
        convolution_kernel::launch(
            &client,
            crate::cube::cubes(shape[0] * shape[1]),
            CubeDim::new_1d(UNITS as u32),
            x.into_tensor_arg(),
            ring.into_tensor_arg(),
            weight.into_tensor_arg(),
            bias.into_tensor_arg(),
            gamma.into_tensor_arg(),
            beta.into_tensor_arg(),
            packed.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            taps,
            has_ring,
            has_norm,
            dtype,
        );
        out
    }
}

/// One cube per frame. `x`, `weight` and `out` are contiguous.
#[cube(launch)]
fn convolution_kernel<F: Float>(
    x: &Tensor<F>,
    ring: &Tensor<F>,
    weight: &Tensor<f32>,
    bias: &Tensor<f32>,
    gamma: &Tensor<f32>,
    beta: &Tensor<f32>,
    packed: &Tensor<i32>,
    out: &mut Tensor<F>,
    #[comptime] taps: usize,
    #[comptime] has_ring: bool,
    #[comptime] has_norm: bool,
    #[define(F)] _dtype: ElemType,
) {
    let mut work = Shared::<[f32]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;
    let (frames, channels) = (x.shape(1), x.shape(2));
    let number = (CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X) as usize;
    if number < x.shape(0) * frames {
        let (row, frame) = (number / frames, number % frames);
        let facts = row * FACTS;
        let from = packed[facts + 2] as usize;
        let to = packed[facts + 3] as usize;
        let before = comptime!(if has_ring { taps - 1 } else { taps / 2 });
        let base = number * channels;
        let mut total = f32::new(0.0);
        let mut channel = unit;
        while channel < channels {
            let mut sum = bias[channel];
            #[unroll]
            for tap in 0..taps {
                let place = frame + tap;
                if place >= before {
                    if place - before >= from && place - before < to {
                        let value = x[(row * frames + place - before) * channels + channel];
                        sum += weight[tap * channels + channel] * f32::cast_from(value);
                    }
                } else if comptime!(has_ring) {
                    let written = packed[facts + 1] as usize;
                    if written + place >= before {
                        let column = (written + place - before) % comptime!(taps - 1);
                        let place = packed[facts] as usize * ring.stride(0) + column * ring.stride(2);
                        let value = ring[place + channel * ring.stride(3)];
                        sum += weight[tap * channels + channel] * f32::cast_from(value);
                    }
                }
            }
            if comptime!(has_norm) {
                // Only this unit reads the value again.
                out[base + channel] = F::cast_from(sum);
                total += sum;
            } else {
                out[base + channel] = F::cast_from(sum * sigmoid(sum));
            }
            channel += UNITS;
        }
        if comptime!(has_norm) {
            let count = f32::cast_from(channels as u32);
            let mean = cube_sum(&mut work, total, UNITS) / count;
            let mut squares = f32::new(0.0);
            channel = unit;
            while channel < channels {
                let difference = f32::cast_from(out[base + channel]) - mean;
                squares += difference * difference;
                channel += UNITS;
            }
            let deviation = (cube_sum(&mut work, squares, UNITS) / count + f32::new(comptime!(EPSILON))).sqrt();
            channel = unit;
            while channel < channels {
                let sum = f32::cast_from(out[base + channel]);
                let value = (sum - mean) / deviation * gamma[channel] + beta[channel];
                out[base + channel] = F::cast_from(value * sigmoid(value));
                channel += UNITS;
            }
        }
    }
}
