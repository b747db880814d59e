use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Flex, TensorMetadata};
use burn::tensor::Shape;

use super::EpilogueOps;
use crate::activation::{Activation, ActivationOps, swiglu_in_place};
use crate::flex::{tensor, values};
use crate::norm::{EPSILON, NormOps};

/// `x` plus `bias`.
fn biased<B: Backend>(x: FloatTensor<B>, bias: FloatTensor<B>) -> FloatTensor<B> {
    let mut shape = vec![1; x.shape().num_dims()];
    if let Some(last) = shape.last_mut() {
        *last = bias.shape()[0];
    }
    B::float_add(x, B::float_reshape(bias, Shape::from(shape)))
}

fn swiglu(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let mut shape = x.shape();
    let [x] = values([x]);
    let last = shape.num_dims() - 1;
    shape[last] /= 2;
    let mut out = Vec::with_capacity(shape.num_elements());
    for row in x.chunks_exact(2 * shape[last].max(1)) {
        let (gate, up) = row.split_at(shape[last]);
        let mut gate = gate.to_vec();
        swiglu_in_place(&mut gate, up);
        out.extend(gate);
    }
    tensor(out, shape)
}

impl EpilogueOps for Flex {
    fn biased_activation(x: FloatTensor<Self>, bias: FloatTensor<Self>, activation: Activation) -> FloatTensor<Self> {
        let x = biased::<Self>(x, bias);
        match activation {
            Activation::Relu => Self::fused_relu(x),
            Activation::Silu => Self::fused_silu(x),
            Activation::Gelu => Self::fused_gelu(x),
            Activation::GeluTanh => Self::fused_gelu_tanh(x),
            Activation::Glu => Self::fused_glu(x),
            Activation::SwiGlu => swiglu(x),
        }
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
