use auricle_kernels::norm::layer_norm_with;
use burn::tensor::Tensor;

use crate::error::Result;
use crate::weights::Scope;

/// Layer normalisation over the last dimension.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    gamma: Tensor<1>,
    beta: Tensor<1>,
    epsilon: f32,
}

/// The epsilon of most published classes.
const EPSILON: f32 = 1e-5;

impl LayerNorm {
    /// Reads `weight` and `bias`, `[size]` each; epsilon is 1e-5, as in the published classes.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, size: usize) -> Result<Self> {
        Self::load_with(scope, size, EPSILON)
    }

    /// As [`LayerNorm::load`] with another epsilon.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load_with(scope: &Scope, size: usize, epsilon: f32) -> Result<Self> {
        Ok(Self { gamma: scope.tensor("weight", [size])?, beta: scope.tensor("bias", [size])?, epsilon })
    }

    /// Normalises `[.., size]` to `[.., size]`.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        layer_norm_with(input, self.gamma.clone(), self.beta.clone(), self.epsilon)
    }

    /// Factor and bias, `[size]` each.
    pub fn weights(&self) -> [Tensor<1>; 2] {
        [self.gamma.clone(), self.beta.clone()]
    }

    /// Added to the variance.
    pub fn epsilon(&self) -> f32 {
        self.epsilon
    }
}
