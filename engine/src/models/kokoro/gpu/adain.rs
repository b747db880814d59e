//! Adaptive instance normalisation and the residual blocks of it.

use std::f32::consts::FRAC_1_SQRT_2;

use auricle_kernels::norm::instance::{Activation, instance_norm};
use burn::tensor::{Tensor, TensorData};

use super::convolution::Convolution;
use super::style::StyleLayers;
use crate::error::Result;
use crate::models::kokoro::adain::SLOPE;
use crate::models::kokoro::weight_norm;
use crate::weights::Scope;

/// A residual block, which may double the frames.
#[derive(Debug)]
pub struct AdaInBlock {
    /// Places of the factors of the norms.
    norms: [usize; 2],
    convolutions: [Convolution; 2],
    /// None where inputs and outputs are as many.
    shortcut: Option<Convolution>,
    doubling: Option<Doubling>,
}

/// A transposed convolution of each channel alone, three taps, stride two: two outputs of each frame, which see it and the next one.
#[derive(Debug)]
struct Doubling {
    /// For both outputs of each channel, `[1, 2 inputs]`: of the frame, of the next one, and the bias.
    own: Tensor<2>,
    next: Tensor<2>,
    bias: Tensor<2>,
}

impl AdaInBlock {
    /// A block that doubles the frames has a `pool`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, inputs: usize, outputs: usize, styles: &mut StyleLayers) -> Result<Self> {
        // The sum of both branches is divided by the root of two.
        let halved = [1.0, FRAC_1_SQRT_2];
        let pool = scope.scope("pool");
        let doubling = weight_norm::shape(&pool).is_some().then(|| Doubling::load(&pool, inputs)).transpose()?;
        let shortcut = || Convolution::load(&scope.scope("conv1x1"), [inputs, outputs, 1], 1, halved);
        Ok(Self {
            norms: [styles.load(&scope.scope("norm1"), inputs)?, styles.load(&scope.scope("norm2"), outputs)?],
            convolutions: [
                Convolution::load(&scope.scope("conv1"), [inputs, outputs, 3], 1, [1.0; 2])?,
                Convolution::load(&scope.scope("conv2"), [outputs, outputs, 3], 1, halved)?,
            ],
            shortcut: (inputs != outputs).then(shortcut).transpose()?,
            doubling,
        })
    }

    /// `[frames, inputs]` to `[frames, outputs]`, or twice the frames.
    pub fn forward(&self, x: Tensor<2>, style: &Tensor<1>) -> Tensor<2> {
        let norm = |x, at: usize| instance_norm(x, style.clone(), self.norms[at], &Activation::LeakyRelu(SLOPE));
        let mut y = norm(x.clone(), 0);
        let mut x = x;
        if let Some(doubling) = &self.doubling {
            y = doubling.forward(y);
            x = each_twice(x);
        }
        let y = norm(self.convolutions[0].forward(y), 1);
        let (residual, factor) = match &self.shortcut {
            Some(shortcut) => (shortcut.forward(x), 1.0),
            None => (x, FRAC_1_SQRT_2),
        };
        self.convolutions[1].forward_added(y, residual, factor)
    }
}

impl Doubling {
    fn load(scope: &Scope, inputs: usize) -> Result<Self> {
        let weight = weight_norm::weight(scope, &[inputs, 1, 3])?;
        let bias = scope.values("bias", &[inputs])?;
        let row = |values: Vec<f32>| Tensor::from_data(TensorData::new(values, [1, 2 * inputs]), scope.device());
        let tap = |tap: usize| weight.iter().skip(tap).step_by(3).copied();
        Ok(Self {
            own: row(tap(1).chain(tap(2)).collect()),
            next: row(std::iter::repeat_n(0.0, inputs).chain(tap(0)).collect()),
            bias: row([bias.as_slice(), &bias].concat()),
        })
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let [frames, inputs] = x.dims();
        let after = Tensor::zeros([1, inputs], &x.device());
        let next = Tensor::cat(vec![x.clone(), after], 0).narrow(0, 1, frames);
        let both = |x: Tensor<2>| Tensor::cat(vec![x.clone(), x], 1);
        let out = both(x) * self.own.clone() + both(next) * self.next.clone() + self.bias.clone();
        out.reshape([2 * frames, inputs])
    }
}

/// Each frame twice.
fn each_twice(x: Tensor<2>) -> Tensor<2> {
    let [frames, inputs] = x.dims();
    Tensor::cat(vec![x.clone(), x], 1).reshape([2 * frames, inputs])
}
