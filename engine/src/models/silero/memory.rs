//! The recurrent cell and its state.
//!
//! One step is a product of one row, which depends on the step before: neither a tensor library nor a GPU makes that
//! faster. It is plain Rust over weights laid out so that loops become vector instructions.

use super::{CONTEXT, HIDDEN};
use crate::error::Result;
use crate::weights::Weights;

/// Gates of the cell: input, forget, cell, output, `HIDDEN` of each.
pub const GATES: usize = 4 * HIDDEN;

/// Sums that are kept in registers.
const LANES: usize = 32;

/// The detector's state between two chunks of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct VadState {
    /// The last samples.
    pub(super) context: [f32; CONTEXT],
    hidden: [f32; HIDDEN],
    cell: [f32; HIDDEN],
}

impl Default for VadState {
    /// The state before the first sample.
    fn default() -> Self {
        Self { context: [0.0; CONTEXT], hidden: [0.0; HIDDEN], cell: [0.0; HIDDEN] }
    }
}

/// The recurrent half of `lstm_cell`, and the output after it.
#[derive(Clone, Debug)]
pub struct RecurrentCell {
    /// `[512 / LANES][128][LANES]`: for each block of gates, the weights of each hidden value in turn.
    weight: Vec<f32>,
    /// `[128]`
    output: Vec<f32>,
    bias: f32,
}

impl RecurrentCell {
    /// Reads `lstm_cell.weight_hh` and `final_conv`.
    ///
    /// # Errors
    /// As [`crate::weights::Scope::values`].
    pub fn load(weights: &Weights) -> Result<Self> {
        let published = weights.scope("lstm_cell").values("weight_hh", &[GATES, HIDDEN])?;
        let mut weight = Vec::with_capacity(published.len());
        for block in published.chunks_exact(LANES * HIDDEN) {
            weight.extend((0..HIDDEN).flat_map(|k| (0..LANES).map(move |lane| block[lane * HIDDEN + k])));
        }
        let last = weights.scope("final_conv");
        Ok(Self {
            weight,
            output: last.values("weight", &[1, HIDDEN, 1])?,
            bias: last.values("bias", &[1])?.first().copied().unwrap_or_default(),
        })
    }

    /// Processes one chunk: its input `[512]` to the probability of speech, 0 to 1.
    pub fn step(&self, input: &[f32], memory: &mut VadState) -> f32 {
        let mut gates = [0f32; GATES];
        for (block, (gates, input)) in gates.chunks_exact_mut(LANES).zip(input.chunks_exact(LANES)).enumerate() {
            let mut sums = [0f32; LANES];
            sums.copy_from_slice(input);
            let weight = &self.weight[block * HIDDEN * LANES..][..HIDDEN * LANES];
            for (weights, hidden) in weight.chunks_exact(LANES).zip(&memory.hidden) {
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum += weight * hidden;
                }
            }
            gates.copy_from_slice(&sums);
        }
        let mut score = self.bias;
        for n in 0..HIDDEN {
            let gate = |kind: usize| gates[kind * HIDDEN + n];
            let kept = sigmoid(gate(1)) * memory.cell[n] + sigmoid(gate(0)) * tanh(gate(2));
            memory.cell[n] = kept;
            memory.hidden[n] = sigmoid(gate(3)) * tanh(kept);
            score += self.output[n] * memory.hidden[n].max(0.0);
        }
        sigmoid(score)
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Computed from the exponential, in half the time of the library's function and as exact as the sums before it.
fn tanh(x: f32) -> f32 {
    2.0 * sigmoid(2.0 * x) - 1.0
}
