use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};

use super::{Form, StreamConvolutionOps};
use crate::activation::elu_in_place;
use crate::cache::ring::RowFrames;
use crate::flex::{contiguous, floats, tensor};

impl StreamConvolutionOps for Flex {
    fn stream_convolution(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        out: FloatTensor<Self>,
        _steps: IntTensor<Self>,
        _steps_of_out: IntTensor<Self>,
        [rows, rows_of_out]: [Vec<RowFrames>; 2],
        form: Form,
    ) -> FloatTensor<Self> {
        let [x, weight, bias, residual, out] = [x, weight, bias, residual, out].map(contiguous);
        let (shape, inputs, outputs) = (out.shape(), x.shape()[2], bias.shape()[0]);
        let mut values = floats(&out).to_vec();
        let [x, weight, bias, residual] = [&x, &weight, &bias, &residual].map(floats);
        for (row, (facts, of_out)) in rows.iter().zip(&rows_of_out).enumerate() {
            for frame in 0..form.frames as isize {
                let mut sums = bias.to_vec();
                for (tap, weight) in weight.chunks_exact(inputs * outputs).enumerate() {
                    let seen = frame + tap as isize - (form.taps - 1) as isize;
                    let Some(number) = form.x.number(row, facts, form.frames, seen) else { continue };
                    let mut seen = x[number * inputs..][..inputs].to_vec();
                    if form.has_elu {
                        elu_in_place(&mut seen);
                    }
                    for (value, weight) in seen.iter().zip(weight.chunks_exact(outputs)) {
                        sums.iter_mut().zip(weight).for_each(|(sum, weight)| *sum += value * weight);
                    }
                }
                if let Some(number) = form.residual.and_then(|place| place.number(row, facts, form.frames, frame)) {
                    sums.iter_mut().zip(&residual[number * outputs..]).for_each(|(sum, value)| *sum += value);
                }
                if let Some(number) = form.out.number(row, of_out, form.frames, frame) {
                    values[number * outputs..][..outputs].copy_from_slice(&sums);
                }
            }
        }
        tensor(values, shape)
    }
}
