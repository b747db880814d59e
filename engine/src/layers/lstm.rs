use auricle_kernels::product::gemv::Precision;
use auricle_kernels::recurrent::lstm;
use burn::tensor::Tensor;

use super::linear::{Linear, transpose};
use crate::error::Result;
use crate::weights::Scope;

/// A stack of LSTM layers of one width, run one step at a time.
#[derive(Clone, Debug)]
pub struct Lstm {
    layers: Vec<LstmCell>,
    hidden: usize,
}

/// One layer: input and recurrent weights side by side, so that a step is one product.
#[derive(Clone, Debug)]
struct LstmCell {
    /// `[input + hidden]` to `[4 hidden]`, gates in the order input, forget, cell, output.
    gates: Linear,
}

impl Lstm {
    /// Reads `weight_ih_lN`, `weight_hh_lN`, `bias_ih_lN`, `bias_hh_lN` of every layer `N`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, layers: usize, hidden: usize) -> Result<Self> {
        let layers = (0..layers)
            .map(|layer| {
                let from_input = scope.values(&format!("weight_ih_l{layer}"), &[4 * hidden, hidden])?;
                let from_hidden = scope.values(&format!("weight_hh_l{layer}"), &[4 * hidden, hidden])?;
                let mut weight = transpose(&from_input, 4 * hidden, hidden);
                weight.extend(transpose(&from_hidden, 4 * hidden, hidden));
                let mut bias = scope.values(&format!("bias_ih_l{layer}"), &[4 * hidden])?;
                let second = scope.values(&format!("bias_hh_l{layer}"), &[4 * hidden])?;
                bias.iter_mut().zip(second).for_each(|(a, b)| *a += b);
                Ok(LstmCell { gates: Linear::from_values(weight, 2 * hidden, 4 * hidden, Some(bias), scope.device()) })
            })
            .collect::<Result<_>>()?;
        Ok(Self { layers, hidden })
    }

    /// Width of a state: hidden and cell state of the first layer, then of the next.
    pub fn width(&self) -> usize {
        2 * self.layers.len() * self.hidden
    }

    /// The stack with products by [`Linear::with_wide_precision`].
    #[must_use]
    pub fn with_wide_precision(mut self, precision: Precision) -> Self {
        for cell in &mut self.layers {
            cell.gates = cell.gates.clone().with_wide_precision(precision);
        }
        self
    }

    /// One step: `input` `[batch, hidden]` and a state `[batch, width]` (zeros before the first step) give the top layer's
    /// output `[batch, hidden]`, and the next state in parts, one a layer.
    pub fn step(&self, input: Tensor<2>, state: &Tensor<2>) -> (Tensor<2>, Vec<Tensor<2>>) {
        let width = self.hidden;
        let before = |part: usize| state.clone().narrow(1, part * width, width);
        let mut output = input;
        let mut next = Vec::with_capacity(self.layers.len());
        for (layer, cell) in self.layers.iter().enumerate() {
            let gates = cell.gates.forward(Tensor::cat(vec![output, before(2 * layer)], 1));
            let after = lstm::cell_batch(gates, before(2 * layer + 1));
            output = after.clone().narrow(1, 0, width);
            next.push(after);
        }
        (output, next)
    }
}
