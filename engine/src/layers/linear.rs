use auricle_kernels::activation::{self, Activation};
use auricle_kernels::product::blocks::BlockMatrix;
use auricle_kernels::product::epilogue;
use auricle_kernels::product::float;
use auricle_kernels::product::gemv::{FourBitRun, Precision};
use auricle_kernels::product::int8::{self, Int8Matrix};
use auricle_kernels::thread_pool;
use burn::tensor::{DType, Device, Tensor, TensorData, module};
use half::f16;
use rayon::prelude::*;

use super::{LayerNorm, Rounded};
use crate::device::{has_f16, is_cpu};
use crate::error::Result;
use crate::weights::Scope;

/// `y = x W + b`.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Weight,
    /// `[outputs]`
    bias: Option<Tensor<1>>,
    /// On GPUs: the bias, or zeros, which one launch adds together with what follows the product.
    later_bias: Option<Tensor<1>>,
    /// With weights of 16 bits: inputs and outputs have 32.
    is_wide: bool,
}

#[derive(Clone, Debug)]
enum Weight {
    /// `[inputs, outputs]`: the transpose of the published layout, so that products read rows. In 16 bits inputs are rounded to them,
    /// and the product has them, if the layer is not wide.
    Full(Box<Tensor<2>>),
    /// On GPUs, for products with few rows.
    Int8(Box<Int8Matrix>),
    /// On GPUs, numbers in runs: products with few rows unpack them in registers, others once.
    Blocks(Box<BlockMatrix>),
    /// On the CPU, for products with many rows, which it rounds to 8 bits; with the bias.
    Rounded(Box<Rounded>),
}

/// Presence of a bias in a linear layer or convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// With a bias.
    With,
    /// Without a bias.
    Without,
}

impl From<bool> for Bias {
    fn from(with: bool) -> Self {
        if with { Self::With } else { Self::Without }
    }
}

impl Linear {
    /// Reads `weight` `[outputs, inputs]` and, if present, `bias` `[outputs]`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, inputs: usize, outputs: usize, bias: Bias) -> Result<Self> {
        Self::load_scaled(scope, &[outputs, inputs], bias, 1.0)
    }

    /// Reads a convolution of kernel width 1, `weight` `[outputs, inputs, 1]`, which is a linear layer over frames.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load_pointwise(scope: &Scope, inputs: usize, outputs: usize, bias: Bias) -> Result<Self> {
        Self::load_scaled(scope, &[outputs, inputs, 1], bias, 1.0)
    }

    /// As [`Linear::load`] for a given published shape; the layer's output is multiplied by `scale`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load_scaled(scope: &Scope, shape: &[usize], bias: Bias, scale: f32) -> Result<Self> {
        let (outputs, inputs) = (shape[0], shape[1]);
        let mut weight = transpose(&scope.values("weight", shape)?, outputs, inputs);
        let mut bias = match bias {
            Bias::With => Some(scope.values("bias", &[outputs])?),
            Bias::Without => None,
        };
        if scale != 1.0 {
            weight.iter_mut().for_each(|w| *w *= scale);
            bias.iter_mut().flatten().for_each(|b| *b *= scale);
        }
        Ok(Self::from_values(weight, inputs, outputs, bias, scope.device()))
    }

    /// Reads layers of one shape as a single layer, whose outputs are theirs one after another.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load_stacked<const N: usize>(
        scopes: &[Scope; N],
        inputs: usize,
        outputs: usize,
        bias: Bias,
    ) -> Result<Self> {
        let (mut weight, mut biases) = (Vec::new(), Vec::new());
        for scope in scopes {
            weight.extend(scope.values("weight", &[outputs, inputs])?);
            if bias == Bias::With {
                biases.extend(scope.values("bias", &[outputs])?);
            }
        }
        let all = N * outputs;
        let weight = transpose(&weight, all, inputs);
        let biases = (bias == Bias::With).then_some(biases);
        Ok(Self::from_values(weight, inputs, all, biases, scopes[0].device()))
    }

    /// As [`Linear::load`] with weights of the given precision; the layer's output is multiplied by `scale`. A CPU that is no
    /// faster with 8 bits keeps 32, and so does a device without 16-bit arithmetic.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load_with(scope: &Scope, shape: [usize; 2], bias: Bias, scale: f32, precision: Precision) -> Result<Self> {
        let [_, inputs] = shape;
        let on_cpu = is_cpu(scope.device());
        // The GPU's weights are packed into words of four.
        let has_int8 = if on_cpu { int8::cpu::Int8Matrix::is_fast() } else { inputs.is_multiple_of(4) };
        if !precision.has_8_bits() || !has_int8 {
            return Ok(Self::load_scaled(scope, &shape, bias, scale)?.with_precision(precision));
        }
        let (weight, values) = super::scaled(scope, &shape, bias, scale)?;
        if on_cpu {
            let weight = Weight::Rounded(Box::new(Rounded::new(&weight, values)));
            return Ok(Self { weight, bias: None, later_bias: None, is_wide: false });
        }
        let bias = (bias == Bias::With).then_some(values);
        Ok(Self::quantized(&weight, inputs, bias, precision, scope.device()))
    }

    /// On a GPU, a layer of published values for a few rows, `weight` `[outputs, inputs]`: 4 or 8 bits if the precision asks for them
    /// and inputs are whole runs or words, else 32, or 16 as [`Linear::with_wide_precision`].
    pub fn for_few_rows(
        weight: &[f32],
        inputs: usize,
        bias: Option<Vec<f32>>,
        precision: Precision,
        device: &Device,
    ) -> Self {
        let outputs = weight.len() / inputs;
        if precision.has_8_bits() && inputs.is_multiple_of(4) {
            return Self::quantized(weight, inputs, bias, precision, device);
        }
        let shape = [inputs, outputs];
        // Rounded before they are copied: in 32 bits the largest matrices are more than one tensor of a card holds.
        let (weight, dtype) = if precision == Precision::F16 && has_f16(device) {
            (TensorData::new(transpose_as(weight, outputs, inputs, f16::from_f32), shape), DType::F16)
        } else {
            (TensorData::new(transpose(weight, outputs, inputs), shape), DType::F32)
        };
        let weight = Tensor::from_data(weight, (device, dtype));
        Self { is_wide: true, ..Self::from_tensor(weight, bias, device) }
    }

    /// A layer on a GPU whose weights stay numbers in runs.
    pub fn from_blocks(weight: BlockMatrix, bias: Option<Vec<f32>>, device: &Device) -> Self {
        let bias = bias.map(|bias| Tensor::from_floats(bias.as_slice(), device));
        let later_bias = bias.clone().unwrap_or_else(|| Tensor::zeros([weight.outputs()], device));
        Self { weight: Weight::Blocks(Box::new(weight)), bias, later_bias: Some(later_bias), is_wide: true }
    }

    /// Bytes of the weights on a GPU.
    pub fn bytes(&self) -> usize {
        match &self.weight {
            Weight::Full(weight) => weight.dims().iter().product::<usize>() * weight.dtype().size(),
            Weight::Int8(weight) => weight.bytes(),
            Weight::Blocks(weight) => weight.bytes(),
            Weight::Rounded(_) => 0,
        }
    }

    fn quantized(weight: &[f32], inputs: usize, bias: Option<Vec<f32>>, precision: Precision, device: &Device) -> Self {
        if precision == Precision::Int4 && inputs.is_multiple_of(FourBitRun::WEIGHTS) {
            let shape = [weight.len() / inputs, inputs];
            let row = |output: usize| FourBitRun::row(&weight[output * inputs..][..inputs]);
            let blocks = BlockMatrix::new(shape, FourBitRun::WEIGHTS, row, FourBitRun::weights, device);
            return Self::from_blocks(blocks, bias, device);
        }
        let bias = bias.map(|bias| Tensor::from_floats(bias.as_slice(), device));
        let later_bias = bias.clone().unwrap_or_else(|| Tensor::zeros([weight.len() / inputs], device));
        let weight = Weight::Int8(Box::new(Int8Matrix::new(weight, inputs, device)));
        Self { weight, bias, later_bias: Some(later_bias), is_wide: false }
    }

    /// Creates a layer from values in this type's own layout: `weight` `[inputs, outputs]`.
    pub fn from_values(
        weight: Vec<f32>,
        inputs: usize,
        outputs: usize,
        bias: Option<Vec<f32>>,
        device: &Device,
    ) -> Self {
        Self::from_tensor(Tensor::from_data(TensorData::new(weight, [inputs, outputs]), device), bias, device)
    }

    fn from_tensor(weight: Tensor<2>, bias: Option<Vec<f32>>, device: &Device) -> Self {
        let outputs = weight.dims()[1];
        let bias = bias.map(|b| Tensor::from_data(TensorData::new(b, [outputs]), device));
        let later_bias = (!is_cpu(device)).then(|| bias.clone().unwrap_or_else(|| Tensor::zeros([outputs], device)));
        Self { weight: Weight::Full(Box::new(weight)), bias, later_bias, is_wide: false }
    }

    /// The layer with weights of 16 bits, if `precision` has them and the device computes with them; else as it is.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        if let Weight::Full(weight) = &mut self.weight
            && precision == Precision::F16
            && has_f16(&weight.device())
        {
            **weight = weight.as_ref().clone().cast(DType::F16);
        }
        self
    }

    /// As [`Linear::with_precision`], with inputs and outputs of 32 bits all the same: for products that take as long as their weights
    /// are read.
    #[must_use]
    pub fn with_wide_precision(self, precision: Precision) -> Self {
        Self { is_wide: true, ..self.with_precision(precision) }
    }

    /// The type of the layer's output.
    pub fn dtype(&self) -> DType {
        match &self.weight {
            Weight::Full(weight) if !self.is_wide => weight.dtype(),
            Weight::Full(_) | Weight::Int8(_) | Weight::Blocks(_) | Weight::Rounded(_) => DType::F32,
        }
    }

    /// Applies the layer: `[.., inputs]` to `[.., outputs]`. With weights of 16 bits the output has 16 bits too.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        self.product(input, self.bias.as_ref())
    }

    /// An activation of the layer's output.
    pub fn forward_activated<const D: usize>(&self, input: Tensor<D>, activation: Activation) -> Tensor<D> {
        match (&self.weight, &self.later_bias) {
            (Weight::Full(weight), Some(bias)) => {
                let input = self.input(input);
                return float::biased_product(input, weight.as_ref().clone(), bias.clone(), Some(activation));
            }
            (_, Some(bias)) => return epilogue::activate(self.product(input, None), bias.clone(), activation),
            (_, None) => {}
        }
        let x = self.forward(input);
        match activation {
            Activation::Relu => activation::relu(x),
            Activation::Silu => activation::silu(x),
            Activation::Gelu => activation::gelu(x),
            Activation::GeluTanh => activation::gelu_tanh(x),
            Activation::Glu => activation::glu(x),
            Activation::SwiGlu => {
                let none = Tensor::zeros([x.dims()[D - 1]], &x.device());
                epilogue::activate(x, none, activation)
            }
        }
    }

    /// The layer's output added to `residual`.
    pub fn forward_added<const D: usize>(&self, input: Tensor<D>, residual: Tensor<D>) -> Tensor<D> {
        match &self.later_bias {
            Some(bias) => epilogue::add(residual, self.product(input, None), bias.clone()),
            None => residual + self.forward(input),
        }
    }

    /// The layer's output added to `residual`, and the norm of the sum.
    pub fn forward_normed<const D: usize>(
        &self,
        input: Tensor<D>,
        residual: Tensor<D>,
        norm: &LayerNorm,
    ) -> [Tensor<D>; 2] {
        let Some(bias) = &self.later_bias else {
            let sum = residual + self.forward(input);
            return [sum.clone(), norm.forward(sum)];
        };
        epilogue::add_and_norm_with(residual, self.product(input, None), bias.clone(), norm.weights(), norm.epsilon())
    }

    /// The norm of the layer's output added to `residual`, and the next norm of that; their epsilons are 1e-5.
    pub fn forward_normed_twice<const D: usize>(
        &self,
        input: Tensor<D>,
        residual: Tensor<D>,
        norms: [&LayerNorm; 2],
    ) -> [Tensor<D>; 2] {
        let Some(bias) = &self.later_bias else {
            let once = norms[0].forward(residual + self.forward(input));
            return [once.clone(), norms[1].forward(once)];
        };
        epilogue::add_and_norm_twice(residual, self.product(input, None), bias.clone(), norms.map(LayerNorm::weights))
    }

    /// `input` in the type that the weights multiply on a GPU.
    fn input<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let dtype = self.dtype();
        if input.dtype() == dtype { input } else { input.cast(dtype) }
    }

    /// The product with the weights, plus `bias`.
    fn product<const D: usize>(&self, input: Tensor<D>, bias: Option<&Tensor<1>>) -> Tensor<D> {
        match &self.weight {
            Weight::Full(weight) => {
                if is_cpu(&input.device()) {
                    return module::linear(input, weight.as_ref().clone(), bias.cloned());
                }
                let (input, weight) = (self.input(input), weight.as_ref().clone());
                match bias {
                    Some(bias) => float::biased_product(input, weight, bias.clone(), None),
                    None => float::product(input, weight),
                }
            }
            Weight::Rounded(layer) => {
                let (mut shape, device) = (input.dims(), input.device());
                let input = input.into_data();
                let x = input.as_slice::<f32>().unwrap_or_default();
                let out = thread_pool::run(|pool| layer.forward(pool, &layer.round(pool, x)));
                shape[D - 1] = layer.outputs();
                Tensor::from_data(TensorData::new(out, shape), &device)
            }
            Weight::Int8(weight) => by_rows(input, bias, |x| weight.forward(x)),
            Weight::Blocks(weight) => by_rows(input, bias, |x| {
                if x.dims()[0] <= float::FEW_ROWS {
                    return weight.forward(x);
                }
                let dtype = if has_f16(&x.device()) { DType::F16 } else { DType::F32 };
                float::product(x, weight.unpacked(dtype))
            }),
        }
    }
}

/// The product that `multiply` gives for `[rows, inputs]`, of an input of any shape, plus `bias`.
fn by_rows<const D: usize>(
    input: Tensor<D>,
    bias: Option<&Tensor<1>>,
    multiply: impl FnOnce(Tensor<2>) -> Tensor<2>,
) -> Tensor<D> {
    let mut shape = input.dims();
    let rows = shape[..D - 1].iter().product();
    let out = multiply(input.reshape([rows, shape[D - 1]]));
    shape[D - 1] = out.dims()[1];
    let out = out.reshape(shape);
    match bias {
        Some(bias) => out + bias.clone().unsqueeze(),
        None => out,
    }
}

/// Transposes `[rows, columns]` to `[columns, rows]`.
pub(crate) fn transpose(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    transpose_as(values, rows, columns, |value| value)
}

/// As [`transpose`], with values of another type: in blocks that stay in cache, on all cores.
fn transpose_as<T>(values: &[f32], rows: usize, columns: usize, to: impl Fn(f32) -> T + Sync) -> Vec<T>
where
    T: Copy + Default + Send,
{
    const BLOCK: usize = 32;
    let mut out = vec![T::default(); values.len()];
    out.par_chunks_mut((BLOCK * rows).max(1)).enumerate().for_each(|(number, out)| {
        let column0 = number * BLOCK;
        for row0 in (0..rows).step_by(BLOCK) {
            for row in row0..(row0 + BLOCK).min(rows) {
                for column in column0..(column0 + BLOCK).min(columns) {
                    out[(column - column0) * rows + row] = to(values[row * columns + column]);
                }
            }
        }
    });
    out
}
