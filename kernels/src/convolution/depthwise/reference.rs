use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};

use super::{DepthwiseConvOps, Inputs};
use crate::cache::ring::RowFrames;
use crate::flex::{tensor, values};
use crate::norm::layer_norm_rows;
use crate::vector_math::sigmoid;

impl DepthwiseConvOps for Flex {
    fn depthwise_convolution(inputs: Inputs<Self>, rows: Vec<RowFrames>) -> FloatTensor<Self> {
        let Inputs { x, ring, weight, bias, gamma, beta, has_ring, has_norm, .. } = inputs;
        let (shape, taps) = (x.shape(), weight.shape()[0]);
        let [frames, channels] = [shape[1], shape[2]];
        let [x, ring, weight, bias, gamma, beta] = values([x, ring, weight, bias, gamma, beta]);
        let columns = taps - 1;
        let before = if has_ring { columns } else { taps / 2 };
        let mut out = vec![0f32; shape.num_elements()];
        for (at, out) in out.chunks_exact_mut(channels).enumerate() {
            let (row, frame) = (at / frames, at % frames);
            let facts = &rows[row];
            out.copy_from_slice(&bias);
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
                layer_norm_rows(&sums, &gamma, &beta, out);
            }
            out.iter_mut().for_each(|value| *value *= sigmoid(*value));
        }
        tensor(out, shape)
    }
}
