//! Predictor and joint of the RNN-T and TDT classes.
//!
//! There are two implementations: on the CPU a token is a few small products over plain memory, by the kernels of
//! [`auricle_kernels::product::gemv`]; on other devices predictions and scores are tensors.

mod cpu;
mod gpu;

use auricle_kernels::product::gemv::Precision;
use burn::tensor::Tensor;

use super::config::{Class, Config};
use crate::decoding::{JointOutput, PredictorState, Scores, TransducerNetwork};
use crate::device::is_cpu;
use crate::error::Result;
use crate::weights::Scope;

/// Predictor and joint.
#[derive(Clone, Debug)]
pub enum Transducer {
    /// On a GPU.
    Gpu(Box<gpu::Transducer>),
    /// On the CPU.
    Cpu(Box<cpu::Transducer>),
}

/// The predictor's state after each row's last token.
#[derive(Clone, Debug)]
pub enum Prediction {
    /// On a GPU.
    Gpu(Box<gpu::Prediction>),
    /// On the CPU.
    Cpu(cpu::Prediction),
}

/// Projected encoder frames on the joint's device, numbered over all rows.
#[derive(Clone, Debug)]
pub enum Frames {
    /// `[frames, hidden]`
    Gpu(Box<Tensor<2>>),
    /// `[frames, hidden]`
    Cpu(Vec<f32>),
}

impl Transducer {
    /// Reads `decoder` and `joint`, on a GPU with weights of 16 bits if the precision asks for them.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(decoder: &Scope, joint: &Scope, config: &Config, precision: Precision) -> Result<Self> {
        // For TDT the durations follow the tokens.
        let durations = if config.class == Class::ParakeetTdt { config.durations.len() } else { 0 };
        let outputs = config.vocab_size + durations;
        if is_cpu(decoder.device()) {
            cpu::Transducer::load(decoder, joint, config, outputs).map(|loaded| Self::Cpu(Box::new(loaded)))
        } else {
            let loaded = gpu::Transducer::load(decoder, joint, config, outputs, precision)?;
            Ok(Self::Gpu(Box::new(loaded)))
        }
    }

    /// Converts projected frames `[rows, frames, hidden]` to the joint's input.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn frames(&self, projected: Tensor<3>) -> Result<Frames> {
        match self {
            Self::Gpu(_) => Ok(Frames::Gpu(Box::new(projected.flatten(0, 1)))),
            Self::Cpu(_) => crate::device::read(projected).map(Frames::Cpu),
        }
    }
}

impl TransducerNetwork for Transducer {
    type Prediction = Prediction;
    type Frames = Frames;

    fn frames_ahead(&self, blank_rounds: u32) -> usize {
        match self {
            // A product costs its launches and a read-back whatever its size, so that a pause takes few of them. A token makes
            // the scores of the frames after it useless, and speech has one in every few frames.
            Self::Gpu(_) => 8 << blank_rounds.min(3),
            Self::Cpu(_) => 4,
        }
    }

    fn start(&self, rows: usize, blank: u32) -> Prediction {
        match self {
            Self::Gpu(transducer) => Prediction::Gpu(Box::new(transducer.start(rows, blank))),
            Self::Cpu(transducer) => Prediction::Cpu(transducer.start(rows, blank)),
        }
    }

    fn step(&self, prediction: &mut Prediction, rows: &[usize], tokens: &[u32]) {
        match (self, prediction) {
            (Self::Gpu(transducer), Prediction::Gpu(prediction)) => transducer.step(prediction, rows, tokens),
            (Self::Cpu(transducer), Prediction::Cpu(prediction)) => transducer.step(prediction, rows, tokens),
            _ => mixed_up(),
        }
    }

    fn follow(&self, prediction: &mut Prediction, rows: &[usize], tokens: &[u32]) {
        match (self, prediction) {
            (Self::Gpu(transducer), Prediction::Gpu(prediction)) => transducer.follow(prediction, rows, tokens),
            (Self::Cpu(transducer), Prediction::Cpu(prediction)) => transducer.follow(prediction, rows, tokens),
            _ => mixed_up(),
        }
    }

    fn joint(&self, frames: &Frames, at: &[usize], prediction: &Prediction, rows: &[usize]) -> Result<Scores> {
        match (self, frames, prediction) {
            (Self::Gpu(transducer), Frames::Gpu(frames), Prediction::Gpu(prediction)) => {
                Scores::read(transducer.joint(frames, at, prediction, rows))
            }
            (Self::Cpu(transducer), Frames::Cpu(frames), Prediction::Cpu(prediction)) => {
                Ok(transducer.joint(frames, at, prediction, rows))
            }
            _ => mixed_up(),
        }
    }

    fn joint_output(
        &self,
        frames: &Frames,
        at: &[usize],
        prediction: &Prediction,
        rows: &[usize],
        all_scores: bool,
    ) -> Result<JointOutput> {
        match (self, frames, prediction) {
            (Self::Gpu(transducer), Frames::Gpu(frames), Prediction::Gpu(prediction)) if !all_scores => {
                let (labels, durations) = transducer.choose(transducer.joint(frames, at, prediction, rows))?;
                Ok(JointOutput::Best(labels, durations))
            }
            _ => self.joint(frames, at, prediction, rows).map(JointOutput::Scores),
        }
    }

    fn internal_lm(&self, prediction: &Prediction, rows: &[usize]) -> Result<Scores> {
        match (self, prediction) {
            (Self::Gpu(transducer), Prediction::Gpu(prediction)) => {
                Scores::read(transducer.internal_lm(prediction, rows))
            }
            (Self::Cpu(transducer), Prediction::Cpu(prediction)) => Ok(transducer.internal_lm(prediction, rows)),
            _ => mixed_up(),
        }
    }
}

impl PredictorState for Prediction {
    fn rows(&self) -> usize {
        match self {
            Self::Gpu(prediction) => prediction.rows(),
            Self::Cpu(prediction) => prediction.rows(),
        }
    }

    fn join(predictions: &[&Self]) -> Self {
        let on_gpu: Option<Vec<_>> = predictions.iter().map(|p| p.as_gpu()).collect();
        match on_gpu {
            Some(predictions) if !predictions.is_empty() => Self::Gpu(Box::new(gpu::Prediction::join(&predictions))),
            _ => {
                let here: Vec<_> = predictions.iter().filter_map(|p| p.as_cpu()).collect();
                Self::Cpu(cpu::Prediction::join(&here))
            }
        }
    }

    fn select(&self, rows: &[usize]) -> Self {
        match self {
            Self::Gpu(prediction) => Self::Gpu(Box::new(prediction.select(rows))),
            Self::Cpu(prediction) => Self::Cpu(prediction.select(rows)),
        }
    }
}

impl Prediction {
    /// Reads the predictor's input to the joint: `[rows, hidden]`.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    #[doc(hidden)]
    pub fn output(&self) -> Result<Vec<f32>> {
        match self {
            Self::Gpu(prediction) => crate::device::read(prediction.output()),
            Self::Cpu(prediction) => Ok(prediction.output().to_vec()),
        }
    }

    /// Predictions with the joint input `output` `[rows, hidden]` and the states of these.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    #[doc(hidden)]
    pub fn with_output(self, output: Tensor<2>) -> Result<Self> {
        Ok(match self {
            Self::Gpu(prediction) => Self::Gpu(Box::new(prediction.with_output(output))),
            Self::Cpu(prediction) => Self::Cpu(prediction.with_output(crate::device::read(output)?)),
        })
    }

    fn as_gpu(&self) -> Option<&gpu::Prediction> {
        match self {
            Self::Gpu(prediction) => Some(prediction),
            Self::Cpu(_) => None,
        }
    }

    fn as_cpu(&self) -> Option<&cpu::Prediction> {
        match self {
            Self::Cpu(prediction) => Some(prediction),
            Self::Gpu(_) => None,
        }
    }
}

fn mixed_up() -> ! {
    unreachable!("predictions and frames are their transducer's")
}
