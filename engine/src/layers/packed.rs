use auricle_kernels::crew::Crew;
use auricle_kernels::rows::{Matrix, Precision};

use crate::error::Result;
use crate::weights::Scope;

/// A linear layer for few rows at a time on the CPU: `y = W x + b` over plain memory.
#[derive(Clone, Debug)]
pub struct Packed {
    weight: Matrix,
    /// `[outputs]`
    bias: Vec<f32>,
}

impl Packed {
    /// Packs `weight` `[outputs, inputs]` with its `bias` `[outputs]`.
    pub fn new(weight: &[f32], bias: Vec<f32>, precision: Precision) -> Self {
        let outputs = bias.len();
        Self { weight: Matrix::new(weight, weight.len() / outputs.max(1), outputs, precision), bias }
    }

    /// Reads `weight` `[outputs, inputs]` and `bias` `[outputs]`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, inputs: usize, outputs: usize, precision: Precision) -> Result<Self> {
        Ok(Self::new(&scope.values("weight", &[outputs, inputs])?, scope.values("bias", &[outputs])?, precision))
    }

    /// `x` `[rows, inputs]` to `[rows, outputs]`.
    pub fn forward(&self, crew: &Crew, x: &[f32]) -> Vec<f32> {
        self.weight.forward(crew, x, Some(&self.bias))
    }

    /// Bytes of weights.
    pub fn bytes(&self) -> usize {
        self.weight.bytes()
    }
}
