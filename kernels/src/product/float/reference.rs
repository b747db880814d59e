use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, FloatDType, TensorMetadata};
use burn::tensor::Shape;

use super::{Division, ProductOps};
use crate::product::epilogue::{After, EpilogueOps};

impl ProductOps for Flex {
    fn divided_product(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        after: After,
        _division: Division,
    ) -> FloatTensor<Self> {
        let shape = Shape::from([x.shape()[0], weight.shape()[1]]);
        let weight = if weight.dtype() == x.dtype() { weight } else { Self::float_cast(weight, FloatDType::F32) };
        let product = Self::float_reshape(Self::float_matmul(x, weight), shape);
        match after {
            After::Nothing => product,
            After::Bias => {
                let row = Shape::from([1, bias.shape()[0]]);
                Self::float_add(product, Self::float_reshape(bias, row))
            }
            After::Activation(activation) => Self::biased_activation(product, bias, activation),
        }
    }
}
