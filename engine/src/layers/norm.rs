use auricle_kernels::norm::layer_norm;
use burn::tensor::Tensor;

use crate::error::Result;
use crate::weights::Scope;

/// Layer normalisation over the last dimension.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    gamma: Tensor<1>,
    beta: Tensor<1>,
}

impl LayerNorm {
    /// Reads `weight` and `bias`, `[size]` each; epsilon is 1e-5, as in the published classes.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, size: usize) -> Result<Self> {
        Ok(Self { gamma: scope.tensor("weight", [size])?, beta: scope.tensor("bias", [size])? })
    }

    /// Normalises `[.., size]` to `[.., size]`.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        layer_norm(input, self.gamma.clone(), self.beta.clone())
    }

    /// Factor and bias, `[size]` each.
    pub fn weights(&self) -> [Tensor<1>; 2] {
        [self.gamma.clone(), self.beta.clone()]
    }
}
