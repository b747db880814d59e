use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, FloatDType, TensorMetadata};
use cubecl::prelude::*;

use super::InstanceNormOps;
use super::cpu::EPSILON;
use crate::elementwise::sine;

/// Channels of a cube, and units of each.
const LANES: usize = 32;
const SLICES: usize = 8;
/// Frames of a part at least, and parts at most.
const LEAST_SPAN: usize = 128;
const MOST_PARTS: usize = 64;

impl InstanceNormOps for Cube {
    fn instance_norm(
        x: FloatTensor<Self>,
        style: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        first: usize,
        slope: Option<f32>,
    ) -> FloatTensor<Self> {
        let x = crate::cube::contiguous(x);
        let (client, device, shape) = (x.client.clone(), x.device(), x.shape());
        let (frames, channels) = (shape[0], shape[1]);
        let span = frames.div_ceil(MOST_PARTS).max(LEAST_SPAN);
        let parts = frames.div_ceil(span);
        let cubes = || CubeCount::Static(channels.div_ceil(LANES) as u32, parts as u32, 1);
        let dim = CubeDim::new_1d((LANES * SLICES) as u32);
        let moments = Self::float_empty([parts, 2, channels].into(), &device, FloatDType::F32);
        moments_kernel::launch(
            &client,
            cubes(),
            dim,
            x.clone().into_tensor_arg(),
            moments.clone().into_tensor_arg(),
            frames as u32,
            channels as u32,
            span as u32,
        );
        let out = Self::float_empty(shape, &device, FloatDType::F32);
        norm_kernel::launch(
            &client,
            cubes(),
            dim,
            x.into_tensor_arg(),
            moments.into_tensor_arg(),
            style.into_tensor_arg(),
            factors.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            frames as u32,
            channels as u32,
            span as u32,
            parts as u32,
            first as u32,
            slope.unwrap_or_default(),
            slope.is_none(),
        );
        out
    }
}

/// The sum of `value` over the units of a channel, the same in each of them.
#[cube]
fn channel_sum(work: &mut Shared<[f32]>, value: f32) -> f32 {
    let unit = UNIT_POS as usize;
    work[unit] = value;
    sync_cube();
    let mut sum = f32::new(0.0);
    #[unroll]
    for slice in 0..SLICES {
        sum += work[slice * LANES + unit % LANES];
    }
    // All units have read before the next use of `work` writes.
    sync_cube();
    sum
}

/// A cube computes the mean, and the sum of squares around it, of `LANES` channels over `span` frames. `moments` is
/// `[parts, 2, channels]`.
#[cube(launch)]
fn moments_kernel(x: &Tensor<f32>, moments: &mut Tensor<f32>, frames: u32, channels: u32, span: u32) {
    let mut work = Shared::<[f32]>::new_slice(comptime!(LANES * SLICES));
    let unit = UNIT_POS as usize;
    let channels = channels as usize;
    let channel = CUBE_POS_X as usize * LANES + unit % LANES;
    let first = CUBE_POS_Y * span;
    let end = min(first + span, frames);
    let is_real = channel < channels;
    let mut total = f32::new(0.0);
    let mut frame = first as usize + unit / LANES;
    while is_real && frame < end as usize {
        total += x[frame * channels + channel];
        frame += SLICES;
    }
    let mean = channel_sum(&mut work, total) / f32::cast_from(end - first);
    let mut squares = f32::new(0.0);
    frame = first as usize + unit / LANES;
    while is_real && frame < end as usize {
        let difference = x[frame * channels + channel] - mean;
        squares += difference * difference;
        frame += SLICES;
    }
    let squares = channel_sum(&mut work, squares);
    if is_real && unit < LANES {
        let at = CUBE_POS_Y as usize * 2 * channels + channel;
        moments[at] = mean;
        moments[at + channels] = squares;
    }
}

/// A cube normalises the part that it has of the moments. All tensors are contiguous.
#[cube(launch)]
fn norm_kernel(
    x: &Tensor<f32>,
    moments: &Tensor<f32>,
    style: &Tensor<f32>,
    factors: &Tensor<f32>,
    out: &mut Tensor<f32>,
    frames: u32,
    channels: u32,
    span: u32,
    parts: u32,
    first_factor: u32,
    slope: f32,
    #[comptime] is_snake: bool,
) {
    let mut work = Shared::<[f32]>::new_slice(comptime!(LANES * SLICES));
    let unit = UNIT_POS as usize;
    let channels = channels as usize;
    let channel = CUBE_POS_X as usize * LANES + unit % LANES;
    let is_real = channel < channels;
    let slice = (unit / LANES) as u32;
    let count = f32::cast_from(frames);
    let mut total = f32::new(0.0);
    let mut part = slice;
    while is_real && part < parts {
        let size = f32::cast_from(min(span, frames - part * span));
        total += moments[part as usize * 2 * channels + channel] * size;
        part += SLICES as u32;
    }
    let mean = channel_sum(&mut work, total) / count;
    let mut squares = f32::new(0.0);
    part = slice;
    while is_real && part < parts {
        let size = f32::cast_from(min(span, frames - part * span));
        let at = part as usize * 2 * channels + channel;
        let difference = moments[at] - mean;
        squares += moments[at + channels] + difference * difference * size;
        part += SLICES as u32;
    }
    let variance = channel_sum(&mut work, squares) / count;
    if is_real {
        let factor = style[first_factor as usize + channel];
        let scale = factor / (variance + f32::new(comptime!(EPSILON))).sqrt();
        let shift = style[first_factor as usize + channels + channel] - mean * scale;
        let first = CUBE_POS_Y * span;
        let end = min(first + span, frames);
        let mut frame = first as usize + unit / LANES;
        while frame < end as usize {
            let at = frame * channels + channel;
            let mut value = x[at] * scale + shift;
            if comptime!(is_snake) {
                let turned = sine(value * factors[channel]);
                value += turned * turned / factors[channel];
            } else if value < f32::new(0.0) {
                value *= slope;
            }
            out[at] = value;
            frame += SLICES;
        }
    }
}
