use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Flex, TensorMetadata};
use burn::tensor::Shape;

use super::EpilogueOps;
use crate::activation::{Activation, ActivationOps};
use crate::norm::{EPSILON, NormOps};

/// `x` plus `bias`.
fn biased<B: Backend>(x: FloatTensor<B>, bias: FloatTensor<B>) -> FloatTensor<B> {
    let mut shape = vec![1; x.shape().num_dims()];
    if let Some(last) = shape.last_mut() {
        *last = bias.shape()[0];
    }
    B::float_add(x, B::float_reshape(bias, Shape::from(shape)))
}

impl EpilogueOps for Flex {
    fn biased_activation(x: FloatTensor<Self>, bias: FloatTensor<Self>, activation: Activation) -> FloatTensor<Self> {
        Self::activated(biased::<Self>(x, bias), activation)
    }

    fn biased_sum(residual: FloatTensor<Self>, x: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_add(residual, biased::<Self>(x, bias))
    }

    fn normed_sum(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let sum = Self::biased_sum(residual, x, bias);
        (sum.clone(), Self::fused_layer_norm(sum, gamma, beta, epsilon))
    }

    fn twice_normed_sum(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        next_gamma: FloatTensor<Self>,
        next_beta: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (_, once) = Self::normed_sum(residual, x, bias, gamma, beta, EPSILON);
        (once.clone(), Self::fused_layer_norm(once, next_gamma, next_beta, EPSILON))
    }
}
