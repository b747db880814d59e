//! Layer normalisation whose factor and bias each row brings along, with the gated sum before it, in one launch on GPUs: what is between
//! two products of a diffusion head's blocks (adaptive layer normalisation). Models on the CPU have their own.

#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;

/// The weights of a norm, and the places of what a row brings along among its modulations.
#[derive(Clone, Debug)]
pub struct ModulatedNorm {
    /// Factor and bias that all rows share, `[size]` each.
    pub norm: [Tensor<1>; 2],
    /// Added to the variance.
    pub epsilon: f32,
    /// Column of the first value of a row's bias; its factor, less 1, follows.
    pub first: usize,
    /// Column of the first gate of what is added before.
    pub gate: usize,
}

impl ModulatedNorm {
    /// The norm of `x` `[rows, size]` for the rows' `modulations` `[rows, width]`.
    ///
    /// # Panics
    /// When the shapes do not match.
    pub fn forward(&self, x: Tensor<2>, modulations: &Tensor<2>) -> Tensor<2> {
        let [_, normed] = self.launch(x.clone(), x, modulations, false);
        normed
    }

    /// The sum of `residual` and `x`, which is multiplied by the gates, and the norm of it; all `[rows, size]`.
    ///
    /// # Panics
    /// When the shapes do not match.
    pub fn forward_added(&self, residual: Tensor<2>, x: Tensor<2>, modulations: &Tensor<2>) -> [Tensor<2>; 2] {
        self.launch(residual, x, modulations, true)
    }

    fn launch(&self, residual: Tensor<2>, x: Tensor<2>, modulations: &Tensor<2>, adds: bool) -> [Tensor<2>; 2] {
        let ([rows, size], [of_rows, width]) = (x.dims(), modulations.dims());
        assert!(
            residual.dims() == [rows, size]
                && of_rows == rows
                && self.norm.iter().all(|values| values.dims() == [size])
                && self.first + 2 * size <= width
                && (!adds || self.gate + size <= width),
            "modulated norm: shapes of x, the norm and the modulations"
        );
        let [gamma, beta] = self.norm.clone().map(Tensor::into_dispatch);
        let (residual, x, modulations) =
            (residual.into_dispatch(), x.into_dispatch(), modulations.clone().into_dispatch());
        let form = Form { epsilon: self.epsilon, first: self.first, gate: self.gate, adds };
        let (sum, normed) = Dispatch::modulated_norm(residual, x, modulations, gamma, beta, form);
        [Tensor::from_dispatch(sum), Tensor::from_dispatch(normed)]
    }
}

/// The numbers of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    epsilon: f32,
    first: usize,
    gate: usize,
    adds: bool,
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait ModulatedNormOps: Backend {
    /// The sum of `residual` and the gated `x`, if the form adds them, else `residual`; and its norm.
    fn modulated_norm(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        modulations: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        form: Form,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}
