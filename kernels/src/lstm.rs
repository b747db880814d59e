//! The pointwise part of an LSTM step, for values that are no tensor.

use crate::vectors::{sigmoid, tanh};

/// One row of one layer: `gates` `[4 * hidden]` in the published order (input, forget, cell, output), already summed, change
/// `memory` `[hidden]` and give `output` `[hidden]`. In the widest vectors the processor has.
///
/// # Panics
/// When the lengths do not fit together.
pub fn cell(gates: &[f32], memory: &mut [f32], output: &mut [f32]) {
    let hidden = memory.len();
    assert!(gates.len() == 4 * hidden && output.len() == hidden, "an LSTM cell's row");
    pulp::Arch::new().dispatch(Cell { gates, memory, output });
}

struct Cell<'a> {
    gates: &'a [f32],
    memory: &'a mut [f32],
    output: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Cell<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let hidden = self.memory.len();
        let (input, rest) = self.gates.split_at(hidden);
        let (forget, rest) = rest.split_at(hidden);
        let (candidate, open) = rest.split_at(hidden);
        let gates = input.iter().zip(forget).zip(candidate.iter().zip(open));
        for (((input, forget), (candidate, open)), (memory, output)) in
            gates.zip(self.memory.iter_mut().zip(self.output))
        {
            *memory = sigmoid(*forget) * *memory + sigmoid(*input) * tanh(*candidate);
            *output = sigmoid(*open) * tanh(*memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_that_of_the_definition() {
        let hidden = 37;
        let gates: Vec<f32> = (0..4 * hidden).map(|n| (n as f32 * 0.7).sin() * 9.0).collect();
        let before: Vec<f32> = (0..hidden).map(|n| (n as f32 * 1.3).cos() * 3.0).collect();
        let (mut memory, mut output) = (before.clone(), vec![0.0; hidden]);
        cell(&gates, &mut memory, &mut output);
        let sigmoid = |x: f32| 1.0 / (1.0 + f64::from(-x).exp());
        for at in 0..hidden {
            let [input, forget, candidate, open] = [0, 1, 2, 3].map(|gate| gates[gate * hidden + at]);
            let kept = sigmoid(forget) * f64::from(before[at]) + sigmoid(input) * f64::from(candidate).tanh();
            assert!((f64::from(memory[at]) - kept).abs() < 1e-6, "{at}");
            assert!((f64::from(output[at]) - sigmoid(open) * kept.tanh()).abs() < 1e-6, "{at}");
        }
    }
}
