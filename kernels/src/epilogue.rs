//! Epilogues of matrix products, each one launch on GPUs: the bias with an activation, the bias with a residual, and both with the
//! layer norm of the sum. A product may hold 16 bits: then so do an activation's and a norm's results, which are the inputs of the next
//! product, while residuals, weights and all arithmetic have 32. On flex they are the operations one after another, for tests; models on
//! the CPU have bodies of their own.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Shape, Tensor};

use crate::activation::{ActivationOps, swiglu_in_place};
use crate::flex::{contiguous, floats, tensor};
use crate::norm::{EPSILON, NormOps};

/// An activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// The larger of `x` and 0.
    Relu,
    /// `x * sigmoid(x)`
    Silu,
    /// `x / 2 * (1 + erf(x / sqrt 2))`
    Gelu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`
    GeluTanh,
    /// `a * sigmoid(b)` of the two halves of the last dimension.
    Glu,
    /// `a * sigmoid(a) * b` of the two halves of the last dimension.
    SwiGlu,
}

impl Activation {
    /// True if two inputs give one output.
    pub(crate) fn is_gated(self) -> bool {
        matches!(self, Self::Glu | Self::SwiGlu)
    }
}

/// `activation` of `x` `[.., size]` plus `bias` `[size]`, in the type of `x`.
pub fn activate<const D: usize>(x: Tensor<D>, bias: Tensor<1>, activation: Activation) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::biased_activation(x.into_dispatch(), bias.into_dispatch(), activation))
}

/// `residual` plus `x` plus `bias`: `[.., size]`, with a bias `[size]`, in the type of `residual`, 32 bits.
pub fn add<const D: usize>(residual: Tensor<D>, x: Tensor<D>, bias: Tensor<1>) -> Tensor<D> {
    let (residual, x, bias) = (residual.into_dispatch(), x.into_dispatch(), bias.into_dispatch());
    Tensor::from_dispatch(Dispatch::biased_sum(residual, x, bias))
}

/// As [`add`], and the layer norm of the sum with `gamma` and `beta` `[size]` and an epsilon of 1e-5, in the type of `x`.
pub fn add_and_norm<const D: usize>(
    residual: Tensor<D>,
    x: Tensor<D>,
    bias: Tensor<1>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
) -> [Tensor<D>; 2] {
    add_and_norm_with(residual, x, bias, [gamma, beta], EPSILON)
}

/// As [`add_and_norm`] with a norm's factor and bias, and another `epsilon`.
pub fn add_and_norm_with<const D: usize>(
    residual: Tensor<D>,
    x: Tensor<D>,
    bias: Tensor<1>,
    norm: [Tensor<1>; 2],
    epsilon: f32,
) -> [Tensor<D>; 2] {
    let (residual, x, bias) = (residual.into_dispatch(), x.into_dispatch(), bias.into_dispatch());
    let [gamma, beta] = norm.map(Tensor::into_dispatch);
    let (sum, normed) = Dispatch::normed_sum(residual, x, bias, gamma, beta, epsilon);
    [Tensor::from_dispatch(sum), Tensor::from_dispatch(normed)]
}

/// As [`add_and_norm`] with two norms, one of the other: the sum normalised by the first of `norms`, and that by the second; each is a
/// factor and a bias, `[size]`. The first is in 32 bits, the second in the type of `x`.
pub fn add_and_norm_twice<const D: usize>(
    residual: Tensor<D>,
    x: Tensor<D>,
    bias: Tensor<1>,
    norms: [[Tensor<1>; 2]; 2],
) -> [Tensor<D>; 2] {
    let (residual, x, bias) = (residual.into_dispatch(), x.into_dispatch(), bias.into_dispatch());
    let [[gamma, beta], [next_gamma, next_beta]] = norms.map(|norm| norm.map(Tensor::into_dispatch));
    let (once, twice) = Dispatch::twice_normed_sum(residual, x, bias, gamma, beta, next_gamma, next_beta);
    [Tensor::from_dispatch(once), Tensor::from_dispatch(twice)]
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait EpilogueOps: Backend {
    fn biased_activation(x: FloatTensor<Self>, bias: FloatTensor<Self>, activation: Activation) -> FloatTensor<Self>;

    fn biased_sum(residual: FloatTensor<Self>, x: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self>;

    fn normed_sum(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    fn twice_normed_sum(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        next_gamma: FloatTensor<Self>,
        next_beta: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

/// `x` plus `bias`.
fn biased<B: Backend>(x: FloatTensor<B>, bias: FloatTensor<B>) -> FloatTensor<B> {
    let mut shape = vec![1; x.shape().num_dims()];
    if let Some(last) = shape.last_mut() {
        *last = bias.shape()[0];
    }
    B::float_add(x, B::float_reshape(bias, Shape::from(shape)))
}

fn swiglu(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let (x, mut shape) = (contiguous(x.clone()), x.shape());
    let last = shape.num_dims() - 1;
    shape[last] /= 2;
    let mut out = Vec::with_capacity(shape.num_elements());
    for row in floats(&x).chunks_exact(2 * shape[last].max(1)) {
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

#[cfg(feature = "wgpu")]
pub(crate) use kernel::finish;

/// Operations on a product before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum After {
    /// None.
    Nothing,
    /// A bias is added.
    Bias,
    /// A bias is added, and an activation applied that has one input.
    Activation(Activation),
}

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::cubecl::dtype_to_storage_type;
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::{Cube, FloatDType, TensorMetadata};
    use cubecl::prelude::*;

    use super::{Activation, After, EpilogueOps, FloatTensor};
    use crate::elementwise::{Function, apply, sigmoid};
    use crate::norm::{EPSILON, UNITS, moments};

    /// The output for the `sum` of a column.
    #[cube]
    pub(crate) fn finish(sum: f32, bias: &Tensor<f32>, column: usize, #[comptime] after: After) -> f32 {
        if comptime!(after == After::Nothing) {
            sum
        } else if comptime!(after == After::Bias) {
            sum + bias[column]
        } else {
            apply(sum + bias[column], comptime!(after.function()))
        }
    }

    impl After {
        fn function(self) -> Function {
            match self {
                Self::Activation(activation) => activation.into(),
                Self::Nothing | Self::Bias => Function::Relu,
            }
        }
    }

    impl From<Activation> for Function {
        fn from(activation: Activation) -> Self {
            match activation {
                Activation::Relu => Self::Relu,
                Activation::Silu => Self::Silu,
                Activation::Gelu => Self::Gelu,
                Activation::GeluTanh => Self::GeluTanh,
                Activation::Glu => Self::Glu,
                Activation::SwiGlu => Self::SwiGlu,
            }
        }
    }

    impl EpilogueOps for Cube {
        fn biased_activation(
            x: FloatTensor<Self>,
            bias: FloatTensor<Self>,
            activation: Activation,
        ) -> FloatTensor<Self> {
            let x = crate::cube::contiguous(x);
            let (client, device, mut shape) = (x.client.clone(), x.device(), x.shape());
            let function = Function::from(activation);
            let last = shape.num_dims() - 1;
            if activation.is_gated() {
                shape[last] /= 2;
            }
            let (size, values) = (shape[last], shape.num_elements());
            let dtype = dtype_to_storage_type(x.dtype);
            let out = Self::float_empty(shape, &device, crate::cube::float(&x));
            let dim = CubeDim::new(&client, values);
            activation_kernel::launch(
                &client,
                cubecl::calculate_cube_count_elemwise(&client, values, dim),
                dim,
                x.into_tensor_arg(),
                bias.into_tensor_arg(),
                out.clone().into_tensor_arg(),
                values as u32,
                size as u32,
                function,
                dtype,
            );
            out
        }

        fn biased_sum(residual: FloatTensor<Self>, x: FloatTensor<Self>, bias: FloatTensor<Self>) -> FloatTensor<Self> {
            let [residual, x] = [residual, x].map(crate::cube::contiguous);
            let (client, device, shape) = (x.client.clone(), x.device(), x.shape());
            let (size, values) = (bias.shape()[0], shape.num_elements());
            let dtype = dtype_to_storage_type(x.dtype);
            let out = Self::float_empty(shape, &device, FloatDType::F32);
            let dim = CubeDim::new(&client, values);
            sum_kernel::launch(
                &client,
                cubecl::calculate_cube_count_elemwise(&client, values, dim),
                dim,
                residual.into_tensor_arg(),
                x.into_tensor_arg(),
                bias.into_tensor_arg(),
                out.clone().into_tensor_arg(),
                values as u32,
                size as u32,
                dtype,
            );
            out
        }

        fn normed_sum(
            residual: FloatTensor<Self>,
            x: FloatTensor<Self>,
            bias: FloatTensor<Self>,
            gamma: FloatTensor<Self>,
            beta: FloatTensor<Self>,
            epsilon: f32,
        ) -> (FloatTensor<Self>, FloatTensor<Self>) {
            let norms = [[gamma.clone(), beta.clone()], [gamma, beta]];
            launch_normed_sum([residual, x], bias, norms, epsilon, false)
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
            launch_normed_sum([residual, x], bias, [[gamma, beta], [next_gamma, next_beta]], EPSILON, true)
        }
    }

    /// The second norm is used if `twice` is set.
    fn launch_normed_sum(
        terms: [FloatTensor<Cube>; 2],
        bias: FloatTensor<Cube>,
        [[gamma, beta], [next_gamma, next_beta]]: [[FloatTensor<Cube>; 2]; 2],
        epsilon: f32,
        twice: bool,
    ) -> (FloatTensor<Cube>, FloatTensor<Cube>) {
        let [residual, x] = terms.map(crate::cube::contiguous);
        let (client, device, shape) = (x.client.clone(), x.device(), x.shape());
        let size = bias.shape()[0];
        let rows = shape.num_elements() / size.max(1);
        let dtype = dtype_to_storage_type(x.dtype);
        let first = Cube::float_empty(shape.clone(), &device, FloatDType::F32);
        let second = Cube::float_empty(shape, &device, crate::cube::float(&x));
        normed_sum_kernel::launch(
            &client,
            crate::cube::cubes(rows),
            CubeDim::new_1d(UNITS as u32),
            residual.into_tensor_arg(),
            x.into_tensor_arg(),
            bias.into_tensor_arg(),
            gamma.into_tensor_arg(),
            beta.into_tensor_arg(),
            next_gamma.into_tensor_arg(),
            next_beta.into_tensor_arg(),
            first.clone().into_tensor_arg(),
            second.clone().into_tensor_arg(),
            rows as u32,
            size as u32,
            epsilon,
            twice,
            dtype,
        );
        (first, second)
    }

    /// One unit per value of `out`. `x` and `out` are contiguous.
    #[cube(launch)]
    fn activation_kernel<F: Float>(
        x: &Tensor<F>,
        bias: &Tensor<f32>,
        out: &mut Tensor<F>,
        values: u32,
        size: u32,
        #[comptime] function: Function,
        #[define(F)] _dtype: ElemType,
    ) {
        let at = ABSOLUTE_POS;
        if at < values as usize {
            let size = size as usize;
            let dim = at % size;
            if comptime!(function == Function::Glu) {
                let from = (at / size) * (2 * size) + dim;
                let gate = sigmoid(f32::cast_from(x[from + size]) + bias[dim + size]);
                out[at] = F::cast_from((f32::cast_from(x[from]) + bias[dim]) * gate);
            } else if comptime!(function == Function::SwiGlu) {
                let from = (at / size) * (2 * size) + dim;
                let gate = f32::cast_from(x[from]) + bias[dim];
                out[at] = F::cast_from(gate * sigmoid(gate) * (f32::cast_from(x[from + size]) + bias[dim + size]));
            } else {
                out[at] = F::cast_from(apply(f32::cast_from(x[at]) + bias[dim], function));
            }
        }
    }

    /// One unit per value. All tensors are contiguous.
    #[cube(launch)]
    fn sum_kernel<F: Float>(
        residual: &Tensor<f32>,
        x: &Tensor<F>,
        bias: &Tensor<f32>,
        out: &mut Tensor<f32>,
        values: u32,
        size: u32,
        #[define(F)] _dtype: ElemType,
    ) {
        let at = ABSOLUTE_POS;
        if at < values as usize {
            out[at] = residual[at] + (f32::cast_from(x[at]) + bias[at % size as usize]);
        }
    }

    /// One cube per row. All tensors are contiguous. `first` becomes the sum and `second` its norm; with two norms `first` becomes the
    /// first norm and `second` the second.
    #[cube(launch)]
    fn normed_sum_kernel<F: Float>(
        residual: &Tensor<f32>,
        x: &Tensor<F>,
        bias: &Tensor<f32>,
        gamma: &Tensor<f32>,
        beta: &Tensor<f32>,
        next_gamma: &Tensor<f32>,
        next_beta: &Tensor<f32>,
        first: &mut Tensor<f32>,
        second: &mut Tensor<F>,
        rows: u32,
        size: u32,
        epsilon: f32,
        #[comptime] twice: bool,
        #[define(F)] _dtype: ElemType,
    ) {
        let mut work = Shared::<[f32]>::new_slice(UNITS);
        let unit = UNIT_POS as usize;
        let row = CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X;
        if row < rows {
            let end = size as usize;
            let base = row as usize * end;
            // A unit reads back only what it has written itself.
            let mut at = unit;
            while at < end {
                first[base + at] = residual[base + at] + (f32::cast_from(x[base + at]) + bias[at]);
                at += UNITS;
            }
            let (mean, deviation) = moments(first.as_slice(), &mut work, base, size, epsilon);
            if comptime!(twice) {
                at = unit;
                while at < end {
                    first[base + at] = (first[base + at] - mean) / deviation * gamma[at] + beta[at];
                    at += UNITS;
                }
                let (mean, deviation) = moments(first.as_slice(), &mut work, base, size, epsilon);
                at = unit;
                while at < end {
                    let value = (first[base + at] - mean) / deviation * next_gamma[at] + next_beta[at];
                    second[base + at] = F::cast_from(value);
                    at += UNITS;
                }
            } else {
                at = unit;
                while at < end {
                    let value = (first[base + at] - mean) / deviation * gamma[at] + beta[at];
                    second[base + at] = F::cast_from(value);
                    at += UNITS;
                }
            }
        }
    }
}
