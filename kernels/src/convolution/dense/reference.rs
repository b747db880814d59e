use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};

use super::{DenseConvolutionOps, Windows};
use crate::flex::{tensor, values};
use crate::reference::add_product;

impl DenseConvolutionOps for Flex {
    fn dense_convolution(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        windows: Windows,
        factor: Option<f32>,
    ) -> FloatTensor<Self> {
        let (inputs, outputs) = (x.shape()[1], bias.shape()[0]);
        let [x, weight, bias, residual] = values([x, weight, bias, residual]);
        let Windows { frames, stride, dilation, before, slope } = windows;
        let mut out = Vec::with_capacity(frames * outputs);
        for frame in 0..frames {
            let mut sums = bias.to_vec();
            for (tap, weight) in weight.chunks_exact(inputs * outputs).enumerate() {
                let place = (frame * stride + tap * dilation).checked_sub(before);
                let Some(seen) = place.and_then(|place| x.get(place * inputs..(place + 1) * inputs)) else { continue };
                let seen = seen.iter().map(|value| if *value < 0.0 { value * slope } else { *value });
                add_product(&mut sums, seen, weight);
            }
            if let Some(factor) = factor {
                let residual = &residual[frame * outputs..][..outputs];
                sums.iter_mut().zip(residual).for_each(|(sum, value)| *sum += value * factor);
            }
            out.extend(sums);
        }
        tensor(out, [frames, outputs].into())
    }
}
