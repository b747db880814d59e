//! Predictor and joint of the RNN-T and TDT classes.
//!
//! Two bodies: on the CPU a token is a few small products over plain memory, by the kernels of [`auricle_kernels::rows`]; on
//! other devices predictions and scores are tensors.

mod device;
mod host;

use auricle_kernels::choice::Choice;
use burn::tensor::Tensor;

use super::config::{Class, Config};
use crate::device::is_cpu;
use crate::error::Result;
use crate::weights::Scope;

/// Predictor and joint.
#[derive(Clone, Debug)]
pub enum Transducer {
    /// On a GPU.
    Device(Box<device::Transducer>),
    /// On the CPU.
    Host(Box<host::Transducer>),
}

/// The predictor after each row's last token.
#[derive(Clone, Debug)]
pub enum Prediction {
    /// On a GPU.
    Device(Box<device::Prediction>),
    /// On the CPU.
    Host(host::Prediction),
}

/// Projected encoder frames, where the joint takes them, numbered over all rows.
#[derive(Clone, Debug)]
pub enum Frames {
    /// `[frames, hidden]`
    Device(Box<Tensor<2>>),
    /// `[frames, hidden]`
    Host(Vec<f32>),
}

/// What a greedy search looks at: of each frame.
#[derive(Clone, Debug)]
pub enum Outlook {
    /// All scores.
    Scores(Scores),
    /// The best label with the spread of all, and the best duration of a TDT checkpoint.
    Best(Vec<Choice>, Vec<usize>),
}

/// Scores on the host: `[frames, outputs]`.
#[derive(Clone, Debug)]
pub struct Scores {
    values: Vec<f32>,
    outputs: usize,
}

impl Scores {
    /// Fetches scores `[.., outputs]` from their device.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn read<const D: usize>(scores: Tensor<D>) -> Result<Self> {
        let outputs = scores.dims()[D - 1];
        Ok(Self { values: crate::device::read(scores)?, outputs })
    }

    /// Those of one frame.
    pub fn row(&self, at: usize) -> &[f32] {
        &self.values[at * self.outputs..][..self.outputs]
    }

    /// All of them, and how many a frame has.
    pub fn into_values(self) -> (Vec<f32>, usize) {
        (self.values, self.outputs)
    }
}

impl Transducer {
    /// Reads `decoder` and `joint`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(decoder: &Scope, joint: &Scope, config: &Config) -> Result<Self> {
        // For TDT the durations follow the tokens.
        let durations = if config.class == Class::ParakeetTdt { config.durations.len() } else { 0 };
        let outputs = config.vocab_size + durations;
        if is_cpu(decoder.device()) {
            host::Transducer::load(decoder, joint, config, outputs).map(|loaded| Self::Host(Box::new(loaded)))
        } else {
            device::Transducer::load(decoder, joint, config, outputs).map(|loaded| Self::Device(Box::new(loaded)))
        }
    }

    /// Frames that one joint product scores ahead. Speech emits a token every two or three frames; on a GPU a product of more
    /// costs little, and waiting for its outcome much.
    pub fn ahead(&self) -> usize {
        match self {
            Self::Device(_) => 8,
            Self::Host(_) => 4,
        }
    }

    /// Projected frames `[rows, frames, hidden]` as the joint takes them.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn frames(&self, projected: Tensor<3>) -> Result<Frames> {
        match self {
            Self::Device(_) => Ok(Frames::Device(Box::new(projected.flatten(0, 1)))),
            Self::Host(_) => crate::device::read(projected).map(Frames::Host),
        }
    }

    /// The prediction before the first token of `rows` utterances: the blank, from a state of zeros.
    pub fn start(&self, rows: usize, blank: u32) -> Prediction {
        match self {
            Self::Device(transducer) => Prediction::Device(Box::new(transducer.start(rows, blank))),
            Self::Host(transducer) => Prediction::Host(transducer.start(rows, blank)),
        }
    }

    /// Moves `rows` of a prediction on by one token each.
    pub fn step(&self, prediction: &mut Prediction, rows: &[usize], tokens: &[u32]) {
        match (self, prediction) {
            (Self::Device(transducer), Prediction::Device(prediction)) => transducer.step(prediction, rows, tokens),
            (Self::Host(transducer), Prediction::Host(prediction)) => transducer.step(prediction, rows, tokens),
            _ => mixed_up(),
        }
    }

    /// Appends the predictions after one more token each of the given rows, in their order.
    pub fn follow(&self, prediction: &mut Prediction, rows: &[usize], tokens: &[u32]) {
        match (self, prediction) {
            (Self::Device(transducer), Prediction::Device(prediction)) => transducer.follow(prediction, rows, tokens),
            (Self::Host(transducer), Prediction::Host(prediction)) => transducer.follow(prediction, rows, tokens),
            _ => mixed_up(),
        }
    }

    /// Scores of frames against the predictions of `rows`, each against as many frames as there are for a row:
    /// `at` `[rows * frames]`.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn joint(&self, frames: &Frames, at: &[usize], prediction: &Prediction, rows: &[usize]) -> Result<Scores> {
        match (self, frames, prediction) {
            (Self::Device(transducer), Frames::Device(frames), Prediction::Device(prediction)) => {
                Scores::read(transducer.joint(frames, at, prediction, rows))
            }
            (Self::Host(transducer), Frames::Host(frames), Prediction::Host(prediction)) => {
                Ok(transducer.joint(frames, at, prediction, rows))
            }
            _ => mixed_up(),
        }
    }

    /// As [`Transducer::joint`], and no more of it than greedy search needs; `whole` asks for all scores.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn outlook(
        &self,
        frames: &Frames,
        at: &[usize],
        prediction: &Prediction,
        rows: &[usize],
        whole: bool,
    ) -> Result<Outlook> {
        match (self, frames, prediction) {
            (Self::Device(transducer), Frames::Device(frames), Prediction::Device(prediction)) if !whole => {
                let (labels, durations) = transducer.choose(transducer.joint(frames, at, prediction, rows))?;
                Ok(Outlook::Best(labels, durations))
            }
            _ => self.joint(frames, at, prediction, rows).map(Outlook::Scores),
        }
    }

    /// Scores of the predictions of `rows` without a frame.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn unheard(&self, prediction: &Prediction, rows: &[usize]) -> Result<Scores> {
        match (self, prediction) {
            (Self::Device(transducer), Prediction::Device(prediction)) => {
                Scores::read(transducer.unheard(prediction, rows))
            }
            (Self::Host(transducer), Prediction::Host(prediction)) => Ok(transducer.unheard(prediction, rows)),
            _ => mixed_up(),
        }
    }
}

impl Prediction {
    /// How many there are.
    pub fn rows(&self) -> usize {
        match self {
            Self::Device(prediction) => prediction.rows(),
            Self::Host(prediction) => prediction.rows(),
        }
    }

    /// Those of several, one after the other.
    pub fn join(predictions: &[&Self]) -> Self {
        let on_device: Option<Vec<_>> = predictions.iter().map(|p| p.as_device()).collect();
        match on_device {
            Some(predictions) if !predictions.is_empty() => {
                Self::Device(Box::new(device::Prediction::join(&predictions)))
            }
            _ => {
                let here: Vec<_> = predictions.iter().filter_map(|p| p.as_host()).collect();
                Self::Host(host::Prediction::join(&here))
            }
        }
    }

    /// Some of them, in the order given by `rows`.
    pub fn select(&self, rows: &[usize]) -> Self {
        match self {
            Self::Device(prediction) => Self::Device(Box::new(prediction.select(rows))),
            Self::Host(prediction) => Self::Host(prediction.select(rows)),
        }
    }

    /// What the predictor gives the joint: `[rows, hidden]`, here.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    #[doc(hidden)]
    pub fn output(&self) -> Result<Vec<f32>> {
        match self {
            Self::Device(prediction) => crate::device::read(prediction.output()),
            Self::Host(prediction) => Ok(prediction.output().to_vec()),
        }
    }

    /// Predictions that give the joint `output` `[rows, hidden]`, with the states of these.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    #[doc(hidden)]
    pub fn with_output(self, output: Tensor<2>) -> Result<Self> {
        Ok(match self {
            Self::Device(prediction) => Self::Device(Box::new(prediction.with_output(output))),
            Self::Host(prediction) => Self::Host(prediction.with_output(crate::device::read(output)?)),
        })
    }

    fn as_device(&self) -> Option<&device::Prediction> {
        match self {
            Self::Device(prediction) => Some(prediction),
            Self::Host(_) => None,
        }
    }

    fn as_host(&self) -> Option<&host::Prediction> {
        match self {
            Self::Host(prediction) => Some(prediction),
            Self::Device(_) => None,
        }
    }
}

fn mixed_up() -> ! {
    unreachable!("predictions and frames are their transducer's")
}
