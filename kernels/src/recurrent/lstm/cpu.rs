use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};

use super::LstmOps;
use crate::flex::{contiguous, floats, tensor};
use crate::vector_math::{sigmoid, tanh};

impl LstmOps for Flex {
    fn lstm_cell_batch(gates: FloatTensor<Self>, state: FloatTensor<Self>) -> FloatTensor<Self> {
        let [rows, hidden] = [state.shape()[0], state.shape()[1]];
        let [gates, state] = [gates, state].map(contiguous);
        let (gates, state) = (floats(&gates), floats(&state));
        let mut out = vec![0.0; rows * 2 * hidden];
        let rows_of = gates.chunks_exact(4 * hidden).zip(state.chunks_exact(hidden));
        for ((gates, before), out) in rows_of.zip(out.chunks_exact_mut(2 * hidden)) {
            let (output, state) = out.split_at_mut(hidden);
            state.copy_from_slice(before);
            cell(gates, state, output);
        }
        tensor(out, [rows, 2 * hidden].into())
    }
}

/// One step of one layer for one row: updates the cell `state` `[hidden]` and writes `output` `[hidden]`. `gates` `[4 * hidden]` are
/// sums in the published order: input, forget, candidate, output. Runs in the widest vectors the processor has.
///
/// # Panics
/// When the lengths do not match.
pub fn cell(gates: &[f32], state: &mut [f32], output: &mut [f32]) {
    let hidden = state.len();
    assert!(gates.len() == 4 * hidden && output.len() == hidden, "LSTM cell: lengths of gates, state and output");
    pulp::Arch::new().dispatch(Cell { gates, state, output });
}

struct Cell<'a> {
    gates: &'a [f32],
    state: &'a mut [f32],
    output: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Cell<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let hidden = self.state.len();
        let (input, rest) = self.gates.split_at(hidden);
        let (forget, rest) = rest.split_at(hidden);
        let (candidate, output_gate) = rest.split_at(hidden);
        let gates = input.iter().zip(forget).zip(candidate.iter().zip(output_gate));
        for (((input, forget), (candidate, output_gate)), (state, output)) in
            gates.zip(self.state.iter_mut().zip(self.output))
        {
            *state = sigmoid(*forget) * *state + sigmoid(*input) * tanh(*candidate);
            *output = sigmoid(*output_gate) * tanh(*state);
        }
    }
}

/// Gates that are summed at a time: more than one vector, as each sum waits for the one before.
const LANES: usize = 64;

/// The weights of the gates for the output of the step before, of a small layer with one row.
#[derive(Clone, Debug)]
pub struct RecurrentGates {
    /// `[gates / 64, hidden, 64]`
    weight: Vec<f32>,
    hidden: usize,
}

impl RecurrentGates {
    /// Reorders `values` `[4 * hidden, hidden]`, the published layout.
    ///
    /// # Panics
    /// When `values` has another length, or `hidden` is not a multiple of 16.
    pub fn new(values: &[f32], hidden: usize) -> Self {
        assert!(
            values.len() == 4 * hidden * hidden && (4 * hidden).is_multiple_of(LANES),
            "recurrent gates: number of values"
        );
        let lanes = |block: &[f32], at: usize| (0..LANES).map(|lane| block[lane * hidden + at]).collect::<Vec<f32>>();
        let blocks = values.chunks_exact(LANES * hidden);
        let weight = blocks.flat_map(|block| (0..hidden).flat_map(move |at| lanes(block, at))).collect();
        Self { weight, hidden }
    }

    /// Adds the product with the `output` `[hidden]` of the step before to `gates` `[4 * hidden]`. Runs in the widest vectors the
    /// processor has.
    ///
    /// # Panics
    /// When the lengths do not match.
    pub fn add_to(&self, output: &[f32], gates: &mut [f32]) {
        assert!(output.len() == self.hidden && gates.len() == 4 * self.hidden, "recurrent gates: lengths");
        pulp::Arch::new().dispatch(AddRecurrent { weight: &self.weight, output, gates });
    }
}

struct AddRecurrent<'a> {
    weight: &'a [f32],
    output: &'a [f32],
    gates: &'a mut [f32],
}

impl pulp::NullaryFnOnce for AddRecurrent<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let (gates, _) = self.gates.as_chunks_mut::<LANES>();
        for (gates, weight) in gates.iter_mut().zip(self.weight.chunks_exact(self.output.len() * LANES)) {
            let mut sums = *gates;
            let (weight, _) = weight.as_chunks::<LANES>();
            for (weight, output) in weight.iter().zip(self.output) {
                for (sum, weight) in sums.iter_mut().zip(weight) {
                    *sum = weight.mul_add(*output, *sum);
                }
            }
            *gates = sums;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recurrent_gates_match_the_definition() {
        let hidden = 48;
        let values: Vec<f32> = (0..4 * hidden * hidden).map(|n| (n as f32 * 0.37).sin()).collect();
        let output: Vec<f32> = (0..hidden).map(|n| (n as f32 * 1.7).cos()).collect();
        let before: Vec<f32> = (0..4 * hidden).map(|n| n as f32 * 0.01).collect();
        let mut gates = before.clone();
        RecurrentGates::new(&values, hidden).add_to(&output, &mut gates);
        for (gate, ours) in gates.iter().enumerate() {
            let row = values[gate * hidden..].iter().zip(&output);
            let product: f64 = row.map(|(weight, output)| f64::from(*weight) * f64::from(*output)).sum();
            assert!((f64::from(*ours) - f64::from(before[gate]) - product).abs() < 1e-5, "gate {gate}");
        }
    }

    #[test]
    fn a_cell_matches_the_definition() {
        let hidden = 37;
        let gates: Vec<f32> = (0..4 * hidden).map(|n| (n as f32 * 0.7).sin() * 9.0).collect();
        let before: Vec<f32> = (0..hidden).map(|n| (n as f32 * 1.3).cos() * 3.0).collect();
        let (mut state, mut output) = (before.clone(), vec![0.0; hidden]);
        cell(&gates, &mut state, &mut output);
        let sigmoid = |x: f32| 1.0 / (1.0 + f64::from(-x).exp());
        for at in 0..hidden {
            let [input, forget, candidate, output_gate] = [0, 1, 2, 3].map(|gate| gates[gate * hidden + at]);
            let kept = sigmoid(forget) * f64::from(before[at]) + sigmoid(input) * f64::from(candidate).tanh();
            assert!((f64::from(state[at]) - kept).abs() < 1e-6, "{at}");
            assert!((f64::from(output[at]) - sigmoid(output_gate) * kept.tanh()).abs() < 1e-6, "{at}");
        }
    }
}
