use auricle_kernels::product::int8::cpu::{Int8Matrix, Int8Rows};
use auricle_kernels::thread_pool::ThreadPool;

use super::{Bias, scaled};
use crate::error::Result;
use crate::weights::Scope;

/// A linear layer on the CPU for many rows, in 8 bits: `y = W x + b` over plain memory.
#[derive(Clone, Debug)]
pub struct Rounded {
    weight: Int8Matrix,
    /// `[outputs]`
    bias: Vec<f32>,
}

impl Rounded {
    /// Rounds `weight` `[outputs, inputs]` with its `bias` `[outputs]`.
    pub fn new(weight: &[f32], bias: Vec<f32>) -> Self {
        let outputs = bias.len();
        Self { weight: Int8Matrix::new(weight, weight.len() / outputs.max(1), outputs), bias }
    }

    /// Reads `weight` `[outputs, inputs]` and, if present, `bias` `[outputs]`; the layer's output is multiplied by `scale`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, shape: [usize; 2], bias: Bias, scale: f32) -> Result<Self> {
        let (weight, bias) = scaled(scope, &shape, bias, scale)?;
        Ok(Self::new(&weight, bias))
    }

    /// Width of an output row.
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Bytes of weights.
    pub fn bytes(&self) -> usize {
        self.weight.bytes()
    }

    /// Rounds `x` `[rows, inputs]` for layers with as many inputs as this.
    pub fn round(&self, pool: &ThreadPool, x: &[f32]) -> Int8Rows {
        Int8Rows::new(pool, x, self.weight.inputs())
    }

    /// Applies the layer: `[rows, inputs]` to `[rows, outputs]`.
    pub fn forward(&self, pool: &ThreadPool, x: &Int8Rows) -> Vec<f32> {
        self.weight.forward(pool, x, Some(&self.bias))
    }

    /// As [`Rounded::forward`], added to `out` `[rows, outputs]`.
    pub fn add_to(&self, pool: &ThreadPool, x: &Int8Rows, out: &mut [f32]) {
        self.weight.add_to(pool, x, Some(&self.bias), out);
    }
}
