use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};

use super::{Form, ModulatedNormOps};
use crate::flex::{tensor, values};
use crate::norm::layer_norm_rows_with;

impl ModulatedNormOps for Flex {
    fn modulated_norm(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        modulations: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        Form { epsilon, first, gate, adds }: Form,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (shape, size, width) = (x.shape(), gamma.shape()[0], modulations.shape()[1]);
        let [mut sum, x, modulations, gamma, beta] = values([residual, x, modulations, gamma, beta]);
        let mut normed = vec![0.0; sum.len()];
        let modulations = modulations.chunks_exact(width.max(1));
        let rows = sum.chunks_exact_mut(size).zip(normed.chunks_exact_mut(size)).zip(x.chunks_exact(size));
        for (((sum, normed), x), modulations) in rows.zip(modulations) {
            if adds {
                let gates = &modulations[gate..gate + size];
                sum.iter_mut().zip(x).zip(gates).for_each(|((sum, x), gate)| *sum += x * gate);
            }
            layer_norm_rows_with(sum, &gamma, &beta, epsilon, normed);
            let (shifts, scales) = modulations[first..first + 2 * size].split_at(size);
            let values = normed.iter_mut().zip(shifts).zip(scales);
            values.for_each(|((value, shift), scale)| *value = *value * (1.0 + scale) + shift);
        }
        (tensor(sum, shape.clone()), tensor(normed, shape))
    }
}
