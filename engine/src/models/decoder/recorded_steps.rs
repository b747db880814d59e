//! Steps of one token a sequence on a GPU, each shape recorded when it comes for the second time.

use auricle_kernels::likeliest::likeliest;
use auricle_kernels::recording::Recording;
use burn::tensor::{Device, Int, Tensor};

use crate::error::{Error, Result};
use crate::layers::upload;

/// Shapes that are remembered; each recording holds the memory of its step.
const MOST_SHAPES: usize = 32;
/// Failed recordings after which none is tried: a device may not be able to.
const MOST_FAILURES: usize = 3;

/// A step's sequences, and the pages of a row of its table.
type Shape = [usize; 2];

/// What a step gives.
#[derive(Clone)]
pub struct StepScores {
    /// `[rows, vocabulary]`
    pub scores: Tensor<2>,
    /// The likeliest token of each row, -1 where no score is a number: `[rows, 1]`
    pub likeliest: Tensor<2>,
}

impl StepScores {
    pub fn of(scores: Tensor<2>) -> Self {
        Self { likeliest: likeliest(scores.clone()), scores }
    }
}

/// The recorded steps over the pages of an arena.
#[derive(Default)]
pub struct RecordedSteps {
    steps: Vec<Step>,
    turn: u64,
    failures: usize,
}

struct Step {
    shape: Shape,
    recording: Option<Recording<StepScores>>,
    /// Turn of the last use.
    used: u64,
}

impl RecordedSteps {
    /// The pages of a row for sequences of at most this many, so that few shapes occur.
    pub fn width(pages: usize) -> usize {
        pages.next_power_of_two().max(4)
    }

    /// What `step` gives for an input.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn run(
        &mut self,
        shape: Shape,
        input: Vec<i32>,
        device: &Device,
        mut step: impl FnMut(Tensor<1, Int>) -> StepScores,
    ) -> Result<StepScores> {
        self.turn += 1;
        let Some(known) = self.steps.iter_mut().find(|step| step.shape == shape) else {
            if self.steps.len() == MOST_SHAPES
                && let Some(oldest) = (0..MOST_SHAPES).min_by_key(|at| self.steps[*at].used)
            {
                self.steps.swap_remove(oldest);
            }
            self.steps.push(Step { shape, recording: None, used: self.turn });
            return Ok(step(upload(input, device)));
        };
        known.used = self.turn;
        if known.recording.is_none() && self.failures < MOST_FAILURES {
            known.recording = Recording::new(upload(input.clone(), device), &mut step);
            self.failures += usize::from(known.recording.is_none());
        }
        match &known.recording {
            Some(recording) => {
                let failed = |reason| Error::Device { device: "in use".into(), reason };
                recording.repeat(input).cloned().map_err(failed)
            }
            None => Ok(step(upload(input, device))),
        }
    }
}
