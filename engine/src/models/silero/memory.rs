//! The recurrent cell and its state.
//!
//! One step is a product of one row, which depends on the step before: neither a tensor library nor a GPU makes that
//! faster.

use auricle_kernels::recurrent::lstm::{self, RecurrentGates};

use super::{CONTEXT, HIDDEN};
use crate::error::Result;
use crate::weights::Weights;

/// Gates of the cell: input, forget, cell, output, `HIDDEN` of each.
pub const GATES: usize = 4 * HIDDEN;

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
    gates: RecurrentGates,
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
        let last = weights.scope("final_conv");
        Ok(Self {
            gates: RecurrentGates::new(&weights.scope("lstm_cell").values("weight_hh", &[GATES, HIDDEN])?, HIDDEN),
            output: last.values("weight", &[1, HIDDEN, 1])?,
            bias: last.values("bias", &[1])?.first().copied().unwrap_or_default(),
        })
    }

    /// Processes one chunk: its input to the gates `[512]`, which this changes, to the probability of speech, 0 to 1.
    pub fn step(&self, gates: &mut [f32], memory: &mut VadState) -> f32 {
        self.gates.add_to(&memory.hidden, gates);
        lstm::cell(gates, &mut memory.cell, &mut memory.hidden);
        let products = self.output.iter().zip(&memory.hidden).map(|(weight, hidden)| weight * hidden.max(0.0));
        sigmoid(products.fold(self.bias, |sum, product| sum + product))
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
