//! Convolutions over frames `[frames, channels]`.

use auricle_kernels::convolution::dense::{self, Windows};
use burn::tensor::{Device, Tensor, TensorData};

use crate::error::Result;
use crate::layers::tap_rows;
use crate::models::kokoro::weight_norm;
use crate::weights::Scope;

/// A convolution.
#[derive(Debug)]
pub struct Convolution {
    /// `[taps * inputs, outputs]`, the earliest tap first.
    weight: Tensor<2>,
    bias: Tensor<1>,
    taps: usize,
    dilation: usize,
}

impl Convolution {
    /// Reads a convolution of `[inputs, outputs, taps]`, whose inputs and output are multiplied by the scales; without a bias where there is
    /// none.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(
        scope: &Scope,
        [inputs, outputs, taps]: [usize; 3],
        dilation: usize,
        [input_scale, output_scale]: [f32; 2],
    ) -> Result<Self> {
        let mut weight = weight_norm::weight(scope, &[outputs, inputs, taps])?;
        let mut bias = if scope.has("bias") { scope.values("bias", &[outputs])? } else { vec![0.0; outputs] };
        weight.iter_mut().for_each(|value| *value *= input_scale * output_scale);
        bias.iter_mut().for_each(|value| *value *= output_scale);
        Ok(Self::new(&weight, bias, taps, dilation, scope.device()))
    }

    /// Of `weight` `[outputs, inputs, taps]`, the published layout.
    pub fn new(weight: &[f32], bias: Vec<f32>, taps: usize, dilation: usize, device: &Device) -> Self {
        let outputs = bias.len();
        let inputs = weight.len() / (outputs * taps);
        let turned = tap_rows(weight, [outputs, inputs, taps]);
        let weight = Tensor::from_data(TensorData::new(turned, [taps * inputs, outputs]), device);
        Self { weight, bias: Tensor::from_data(TensorData::new(bias, [outputs]), device), taps, dilation }
    }

    /// To as many frames, with zeros around them.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.forward_sloped(x, 1.0)
    }

    /// As [`Convolution::forward`], of `x` with values below 0 multiplied by `slope`.
    pub fn forward_sloped(&self, x: Tensor<2>, slope: f32) -> Tensor<2> {
        let windows = Windows { slope, ..self.windows(&x) };
        self.forward_windows(x, windows)
    }

    /// Adds the convolution of `x` to a residual times a factor.
    pub fn forward_added(&self, x: Tensor<2>, residual: Tensor<2>, factor: f32) -> Tensor<2> {
        let windows = self.windows(&x);
        dense::convolve(x, self.weight.clone(), self.bias.clone(), windows, Some((residual, factor)))
    }

    /// Of windows that are given.
    pub fn forward_windows(&self, x: Tensor<2>, windows: Windows) -> Tensor<2> {
        dense::convolve(x, self.weight.clone(), self.bias.clone(), windows, None)
    }

    fn windows(&self, x: &Tensor<2>) -> Windows {
        Windows::around(x.dims()[0], self.taps, self.dilation)
    }
}
