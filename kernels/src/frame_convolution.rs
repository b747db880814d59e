//! The middle of a conformer's convolution module in one launch on GPUs: a depthwise convolution over frames, the layer norm over its
//! channels if there is one, and SiLU.
//!
//! A stream keeps its last frames in a ring, as it keeps keys and values ([`crate::frame_ring`]). On the CPU models use
//! [`crate::depthwise`]; the body here is for tests.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::Tensor;

use crate::flex::{contiguous, floats, tensor};
use crate::frame_ring::{RowFrames, StepFrames};
use crate::norm::layer_norm_rows;
use crate::vector_math::sigmoid;

/// The weights of the module's middle.
#[derive(Clone, Debug)]
pub struct FrameConvolution {
    /// `[taps, channels]`, the earliest tap first.
    pub weight: Tensor<2>,
    /// `[channels]`
    pub bias: Tensor<1>,
    /// Factor and bias of the layer norm, `[channels]` each; none without one.
    pub norm: Option<[Tensor<1>; 2]>,
}

impl FrameConvolution {
    /// Convolves `x` `[rows, frames, channels]` to the same shape. Frames that are not real count as 0. With a `ring`
    /// `[slots, 1, taps - 1, channels]` the taps are the frame's own and those before it, else it has as many before as after, and
    /// all frames outside `x` are 0.
    ///
    /// # Panics
    /// When the shapes do not match.
    pub fn forward(&self, x: Tensor<3>, ring: Option<&Tensor<4>>, frames: &StepFrames) -> Tensor<3> {
        let ([rows, _, channels], [taps, _]) = (x.dims(), self.weight.dims());
        assert!(
            self.weight.dims() == [taps, channels] && self.bias.dims() == [channels] && frames.rows().len() == rows,
            "frame convolution: shapes of x and the weights"
        );
        if let Some(ring) = ring {
            assert!(taps > 1 && ring.dims()[1..] == [1, taps - 1, channels], "frame convolution: shape of the ring");
        }
        let x = x.into_dispatch();
        let (has_ring, has_norm) = (ring.is_some(), self.norm.is_some());
        // A kernel has the same tensors in every case; those that a case has no use for are never read.
        let ring = ring.map_or_else(|| x.clone(), |ring| ring.clone().into_dispatch());
        let (weight, bias) = (self.weight.clone().into_dispatch(), self.bias.clone().into_dispatch());
        let norm = self.norm.as_ref().map(|norm| norm.clone().map(Tensor::into_dispatch));
        let [gamma, beta] = norm.unwrap_or_else(|| [bias.clone(), bias.clone()]);
        let (packed, facts) = (frames.packed().into_dispatch(), frames.rows().to_vec());
        Tensor::from_dispatch(Dispatch::frame_convolution(
            x, ring, weight, bias, gamma, beta, packed, facts, has_ring, has_norm,
        ))
    }
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait FrameConvolutionOps: Backend {
    #[allow(clippy::too_many_arguments, reason = "burn's backend extensions take tensors one by one")]
    fn frame_convolution(
        x: FloatTensor<Self>,
        ring: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        packed: IntTensor<Self>,
        rows: Vec<RowFrames>,
        has_ring: bool,
        has_norm: bool,
    ) -> FloatTensor<Self>;
}

impl FrameConvolutionOps for Flex {
    fn frame_convolution(
        x: FloatTensor<Self>,
        ring: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        _packed: IntTensor<Self>,
        rows: Vec<RowFrames>,
        has_ring: bool,
        has_norm: bool,
    ) -> FloatTensor<Self> {
        let [x, ring, weight, bias] = [x, ring, weight, bias].map(contiguous);
        let [gamma, beta] = [gamma, beta].map(contiguous);
        let (shape, taps) = (x.shape(), weight.shape()[0]);
        let [frames, channels] = [shape[1], shape[2]];
        let [x, ring, weight, bias] = [&x, &ring, &weight, &bias].map(floats);
        let [gamma, beta] = [&gamma, &beta].map(floats);
        let columns = taps - 1;
        let before = if has_ring { columns } else { taps / 2 };
        let mut out = vec![0f32; shape.num_elements()];
        for (at, out) in out.chunks_exact_mut(channels).enumerate() {
            let (row, frame) = (at / frames, at % frames);
            let facts = &rows[row];
            out.copy_from_slice(bias);
            for (tap, weight) in weight.chunks_exact(channels).enumerate() {
                let input = match (frame + tap).checked_sub(before) {
                    Some(place) if facts.new.contains(&place) => &x[(row * frames + place) * channels..],
                    None if has_ring && facts.written + frame + tap >= before => {
                        let column = (facts.written + frame + tap - before) % columns;
                        &ring[(facts.slot * columns + column) * channels..]
                    }
                    _ => continue,
                };
                out.iter_mut().zip(weight).zip(input).for_each(|((out, weight), input)| *out += weight * input);
            }
            if has_norm {
                let sums = out.to_vec();
                layer_norm_rows(&sums, gamma, beta, out);
            }
            out.iter_mut().for_each(|value| *value *= sigmoid(*value));
        }
        tensor(out, shape)
    }
}

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::cubecl::dtype_to_storage_type;
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::{Cube, TensorMetadata};
    use cubecl::prelude::*;

    use super::{FloatTensor, FrameConvolutionOps, IntTensor, RowFrames};
    use crate::elementwise::sigmoid;
    use crate::frame_ring::FACTS;
    use crate::norm::EPSILON;
    use crate::reduce::cube_sum;

    /// Units of a cube: a power of two.
    const UNITS: usize = 128;

    impl FrameConvolutionOps for Cube {
        fn frame_convolution(
            x: FloatTensor<Self>,
            ring: FloatTensor<Self>,
            weight: FloatTensor<Self>,
            bias: FloatTensor<Self>,
            gamma: FloatTensor<Self>,
            beta: FloatTensor<Self>,
            packed: IntTensor<Self>,
            _rows: Vec<RowFrames>,
            has_ring: bool,
            has_norm: bool,
        ) -> FloatTensor<Self> {
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
}
