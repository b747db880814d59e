//! The CPU's body on tensors, for tests: models on the CPU have channels.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};

use super::InstanceNormOps;
use super::cpu::{Activation, instance_norm};
use crate::channels::Channels;
use crate::flex::{tensor, values};
use crate::thread_pool;

impl InstanceNormOps for Flex {
    fn instance_norm(
        x: FloatTensor<Self>,
        style: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        first: usize,
        slope: Option<f32>,
    ) -> FloatTensor<Self> {
        let shape = x.shape();
        let [x, style, factors] = values([x, style, factors]);
        let (scale, shift) = style[first..][..2 * shape[1]].split_at(shape[1]);
        let activation = slope.map_or(Activation::Snake(&factors), Activation::LeakyRelu);
        let x = Channels::from_frames(&x, shape[1]);
        let out = thread_pool::run(|pool| instance_norm(&x, pool, scale, shift, activation));
        tensor(out.to_frames(), shape)
    }
}
