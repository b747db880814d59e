use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};

use super::{Form, Step, StreamConvolutionOps};
use crate::activation::elu_in_place;
use crate::flex::{tensor, values};
use crate::reference::add_product;

impl StreamConvolutionOps for Flex {
    fn stream_convolution(step: Step<Self>, form: Form) -> FloatTensor<Self> {
        let (shape, inputs, outputs) = (step.out.shape(), step.x.shape()[2], step.bias.shape()[0]);
        let Step { rows, rows_of_out, .. } = step;
        let [x, weight, bias, residual, mut out] = values([step.x, step.weight, step.bias, step.residual, step.out]);
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
                    add_product(&mut sums, seen, weight);
                }
                if let Some(number) = form.residual.and_then(|place| place.number(row, facts, form.frames, frame)) {
                    sums.iter_mut().zip(&residual[number * outputs..]).for_each(|(sum, value)| *sum += value);
                }
                if let Some(number) = form.out.number(row, of_out, form.frames, frame) {
                    out[number * outputs..][..outputs].copy_from_slice(&sums);
                }
            }
        }
        tensor(out, shape)
    }
}
