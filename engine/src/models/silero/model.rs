//! A loaded detector: samples to the probability of speech in each chunk.

use std::path::Path;

use burn::tensor::Device;

use super::front::FrontEnd;
use super::memory::{GATES, RecurrentCell, VadState};
use super::{CHUNK, CONTEXT};
use crate::error::{Error, Result};
use crate::weights::Weights;

/// Chunks that the front end processes at once, four seconds: larger batches exceed a core's cache.
const TOGETHER: usize = 128;

/// A voice activity detector, 0.3 M parameters, 16 kHz.
#[derive(Clone, Debug)]
pub struct Silero {
    front: FrontEnd,
    cell: RecurrentCell,
    parameters: usize,
}

impl Silero {
    /// Loads `model.safetensors` of a folder, in the form of the published `silero_vad_16k.safetensors`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path) -> Result<Self> {
        let weights = Weights::open(dir, &Device::flex())?;
        let parameters = weights.parameters();
        let (front, cell) = (FrontEnd::load(&weights)?, RecurrentCell::load(&weights)?);
        weights.finish()?;
        Ok(Self { front, cell, parameters })
    }

    /// Number of values in the checkpoint's tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Returns the probability of speech, 0 to 1, in each chunk of each row. A row has any number of whole chunks of
    /// [`CHUNK`] samples at 16 kHz and continues from its memory. Rows share the computation only.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when a row is not a whole number of chunks or the numbers of rows and memories differ.
    pub fn probabilities(&self, rows: &[&[f32]], memories: &mut [VadState]) -> Result<Vec<Vec<f32>>> {
        if rows.len() != memories.len() || rows.iter().any(|row| row.len() % CHUNK != 0) {
            return Err(Error::InvalidOption(format!("the detector takes whole chunks of {CHUNK} samples a stream")));
        }
        let mut probabilities: Vec<Vec<f32>> = rows.iter().map(|row| Vec::with_capacity(row.len() / CHUNK)).collect();
        let mut inputs_with_context = Vec::with_capacity(TOGETHER * (CONTEXT + CHUNK));
        let mut rows_of_chunks = Vec::with_capacity(TOGETHER);
        for (row, samples) in rows.iter().enumerate() {
            for chunk in samples.chunks_exact(CHUNK) {
                inputs_with_context.extend_from_slice(&memories[row].context);
                inputs_with_context.extend_from_slice(chunk);
                memories[row].context.copy_from_slice(&chunk[CHUNK - CONTEXT..]);
                rows_of_chunks.push(row);
                if rows_of_chunks.len() == TOGETHER {
                    self.process(&mut inputs_with_context, &mut rows_of_chunks, memories, &mut probabilities);
                }
            }
        }
        self.process(&mut inputs_with_context, &mut rows_of_chunks, memories, &mut probabilities);
        Ok(probabilities)
    }

    /// Processes chunks through the front end and the cell; `rows_of_chunks` names the row of each.
    fn process(
        &self,
        inputs_with_context: &mut Vec<f32>,
        rows_of_chunks: &mut Vec<usize>,
        memories: &mut [VadState],
        probabilities: &mut [Vec<f32>],
    ) {
        if !rows_of_chunks.is_empty() {
            let mut gates = self.front.forward(inputs_with_context);
            for (row, gates) in rows_of_chunks.iter().zip(gates.chunks_exact_mut(GATES)) {
                probabilities[*row].push(self.cell.step(gates, &mut memories[*row]));
            }
            inputs_with_context.clear();
            rows_of_chunks.clear();
        }
    }
}
