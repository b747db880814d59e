use burn::tensor::{Tensor, activation};

use super::linear::{Linear, transpose};
use crate::error::Result;
use crate::weights::Scope;

/// A stack of LSTM layers of one width, run one step at a time.
#[derive(Clone, Debug)]
pub struct Lstm {
    layers: Vec<Cell>,
    hidden: usize,
}

/// One layer: input and recurrent weights side by side, so that a step is one product.
#[derive(Clone, Debug)]
struct Cell {
    /// `[input + hidden]` to `[4 hidden]`, gates in the order input, forget, cell, output.
    gates: Linear,
}

/// Hidden and cell state a layer: `[batch, hidden]` each.
#[derive(Clone, Debug)]
pub struct LstmState {
    hidden: Vec<Tensor<2>>,
    cell: Vec<Tensor<2>>,
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
                Ok(Cell { gates: Linear::from_values(weight, 2 * hidden, 4 * hidden, Some(bias), scope) })
            })
            .collect::<Result<_>>()?;
        Ok(Self { layers, hidden })
    }

    /// The state before the first step: zeros.
    pub fn start(&self, batch: usize, like: &Tensor<2>) -> LstmState {
        let zeros = || vec![Tensor::zeros([batch, self.hidden], &like.device()); self.layers.len()];
        LstmState { hidden: zeros(), cell: zeros() }
    }

    /// One step: `input` `[batch, hidden]` gives the top layer's output `[batch, hidden]` and the next state.
    pub fn step(&self, input: Tensor<2>, state: &LstmState) -> (Tensor<2>, LstmState) {
        let width = self.hidden;
        let mut output = input;
        let mut next = LstmState { hidden: Vec::new(), cell: Vec::new() };
        for (layer, cell) in self.layers.iter().enumerate() {
            let gates = cell.gates.forward(Tensor::cat(vec![output, state.hidden[layer].clone()], 1));
            let gate = |k: usize| gates.clone().narrow(1, k * width, width);
            let input_gate = activation::sigmoid(gate(0));
            let forget_gate = activation::sigmoid(gate(1));
            let candidate = activation::tanh(gate(2));
            let output_gate = activation::sigmoid(gate(3));
            let memory = forget_gate * state.cell[layer].clone() + input_gate * candidate;
            output = output_gate * activation::tanh(memory.clone());
            next.hidden.push(output.clone());
            next.cell.push(memory);
        }
        (output, next)
    }
}

impl LstmState {
    /// The state of some rows, in the order given by `rows`.
    pub fn select(&self, rows: &[usize]) -> Self {
        self.map(|tensor| super::select_rows(tensor.clone(), rows))
    }

    /// This state with `rows` replaced by the rows of `newer`.
    pub fn replace(&self, rows: &[usize], newer: &Self) -> Self {
        let merge = |old: &[Tensor<2>], new: &[Tensor<2>]| {
            old.iter().zip(new).map(|(o, n)| super::replace_rows(o.clone(), rows, n.clone())).collect()
        };
        Self { hidden: merge(&self.hidden, &newer.hidden), cell: merge(&self.cell, &newer.cell) }
    }

    /// The rows of several states, one after the other.
    pub fn join(states: &[&Self]) -> Self {
        let join = |part: fn(&Self) -> &[Tensor<2>]| {
            let layers = states.first().map_or(0, |state| part(state).len());
            (0..layers).map(|at| Tensor::cat(states.iter().map(|state| part(state)[at].clone()).collect(), 0)).collect()
        };
        Self { hidden: join(|state| &state.hidden), cell: join(|state| &state.cell) }
    }

    /// One row.
    pub fn row(&self, row: usize) -> Self {
        self.map(|tensor| tensor.clone().narrow(0, row, 1))
    }

    fn map(&self, change: impl Fn(&Tensor<2>) -> Tensor<2>) -> Self {
        Self { hidden: self.hidden.iter().map(&change).collect(), cell: self.cell.iter().map(&change).collect() }
    }
}
