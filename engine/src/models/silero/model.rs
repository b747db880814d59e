//! A loaded detector: samples to the probability of speech in each chunk.

use std::path::Path;

use burn::tensor::Device;

use super::front::Front;
use super::memory::{Cell, Memory};
use super::{CHUNK, CONTEXT};
use crate::error::{Error, Result};
use crate::weights::Weights;

/// Chunks that the front end processes at once, four seconds: larger batches exceed a core's cache.
const TOGETHER: usize = 128;

/// A voice activity detector, 0.3 M parameters, 16 kHz.
#[derive(Clone, Debug)]
pub struct Silero {
    front: Front,
    cell: Cell,
    parameters: usize,
}

impl Silero {
    /// Loads `model.safetensors` of a folder, in the form of the published `silero_vad_16k.safetensors`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device) -> Result<Self> {
        let weights = Weights::open(dir, device)?;
        let parameters = weights.parameters();
        let (front, cell) = (Front::load(&weights, device)?, Cell::load(&weights)?);
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
    /// [`Error::InvalidOption`] when a row is not a whole number of chunks or the numbers of rows and memories differ,
    /// [`Error::Device`] when the device failed.
    pub fn chances(&self, rows: &[&[f32]], memories: &mut [Memory]) -> Result<Vec<Vec<f32>>> {
        if rows.len() != memories.len() || rows.iter().any(|row| row.len() % CHUNK != 0) {
            return Err(Error::InvalidOption(format!("the detector takes whole chunks of {CHUNK} samples a stream")));
        }
        let mut chances: Vec<Vec<f32>> = rows.iter().map(|row| Vec::with_capacity(row.len() / CHUNK)).collect();
        let mut heard = Vec::with_capacity(TOGETHER * (CONTEXT + CHUNK));
        let mut whose = Vec::with_capacity(TOGETHER);
        for (row, samples) in rows.iter().enumerate() {
            for chunk in samples.chunks_exact(CHUNK) {
                heard.extend_from_slice(&memories[row].context);
                heard.extend_from_slice(chunk);
                memories[row].context.copy_from_slice(&chunk[CHUNK - CONTEXT..]);
                whose.push(row);
                if whose.len() == TOGETHER {
                    self.remember(&mut heard, &mut whose, memories, &mut chances)?;
                }
            }
        }
        self.remember(&mut heard, &mut whose, memories, &mut chances)?;
        Ok(chances)
    }

    /// Processes chunks through the front end and the cell; `whose` names the row of each.
    fn remember(
        &self,
        heard: &mut Vec<f32>,
        whose: &mut Vec<usize>,
        memories: &mut [Memory],
        chances: &mut [Vec<f32>],
    ) -> Result<()> {
        if !whose.is_empty() {
            let inputs = self.front.forward(heard)?;
            for (row, input) in whose.iter().zip(inputs.chunks_exact(super::memory::GATES)) {
                chances[*row].push(self.cell.step(input, &mut memories[*row]));
            }
            heard.clear();
            whose.clear();
        }
        Ok(())
    }
}
