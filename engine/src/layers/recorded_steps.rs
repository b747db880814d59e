//! Steps on a GPU whose shapes come again, each recorded when it comes for the second time.

use std::thread::{self, ThreadId};

use auricle_kernels::cache::state::write_columns;
use auricle_kernels::recording::Recording;
use burn::tensor::{Device, Int, Tensor};

use super::upload;
use crate::error::{Error, Result};

/// Failed recordings after which none is tried: a device may not be able to.
const MOST_FAILURES: usize = 3;

/// The recorded steps over tensors that they change in place: those of a type of step.
pub struct RecordedSteps<T> {
    steps: Vec<Step<T>>,
    /// Shapes that are remembered; each recording holds the memory of its step.
    most: usize,
    turn: u64,
    failures: usize,
    /// A device runs a thread's work in order, and a recording belongs to the work of its thread.
    thread: Option<ThreadId>,
}

/// A step's rows, and what else decides its shapes.
type Shape = [usize; 2];

/// The inputs of a step.
pub struct StepInputs {
    /// Integers: rows' places, positions and the like.
    pub integers: Vec<i32>,
    /// Values of the step's rows, or of fewer: those of the others do not matter.
    pub values: Option<Tensor<4>>,
}

struct Step<T> {
    shape: Shape,
    recording: Option<(Recording<T>, Option<Tensor<4>>)>,
    /// Turn of the last use.
    used: u64,
}

impl<T> std::fmt::Debug for RecordedSteps<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordedSteps").field("steps", &self.steps.len()).finish_non_exhaustive()
    }
}

impl<T> RecordedSteps<T> {
    /// No steps yet; at most so many will be remembered.
    pub fn new(most: usize) -> Self {
        Self { steps: Vec::new(), most, turn: 0, failures: 0, thread: None }
    }
}

impl<T: Clone> RecordedSteps<T> {
    /// What `step` gives for its inputs. It uploads nothing and reads nothing back. The next step of the same shape overwrites the result.
    ///
    /// `rehearse` makes of a step's integers those of a rehearsal, which runs for real before the step is recorded: of a step that may run
    /// twice, or that changes nothing in use.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn run(
        &mut self,
        shape: Shape,
        StepInputs { integers, values }: StepInputs,
        device: &Device,
        rehearse: impl FnOnce(&[i32]) -> Vec<i32>,
        mut step: impl FnMut(Tensor<1, Int>, Option<Tensor<4>>) -> T,
    ) -> Result<T> {
        let here = thread::current().id();
        if self.thread.replace(here) != Some(here) {
            self.steps.clear();
        }
        self.turn += 1;
        let Some(known) = self.steps.iter_mut().find(|step| step.shape == shape) else {
            if self.steps.len() >= self.most
                && let Some(oldest) = (0..self.steps.len()).min_by_key(|at| self.steps[*at].used)
            {
                self.steps.swap_remove(oldest);
            }
            self.steps.push(Step { shape, recording: None, used: self.turn });
            return Ok(step(upload(integers, device), values));
        };
        known.used = self.turn;
        if known.recording.is_none() && self.failures < MOST_FAILURES {
            // Of its own, as each repetition writes to it.
            let values = values.as_ref().map(|values| {
                let [_, outer, columns, inner] = values.dims();
                Tensor::zeros([shape[0], outer, columns, inner], device)
            });
            let recording =
                Recording::new(upload(rehearse(&integers), device), |integers| step(integers, values.clone()));
            self.failures += usize::from(recording.is_none());
            known.recording = recording.map(|recording| (recording, values));
        }
        let Some((recording, own)) = &known.recording else {
            return Ok(step(upload(integers, device), values));
        };
        if let (Some(own), Some(values)) = (own, values) {
            write_columns(own.clone(), 0, values);
        }
        let failed = |reason| Error::Device { device: "in use".into(), reason };
        recording.repeat(integers).cloned().map_err(failed)
    }
}
