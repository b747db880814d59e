//! Stages between the symbols of an utterance and its samples.

use auricle_kernels::channels::Channels;
use burn::tensor::Tensor;

use crate::device;
use crate::error::Result;

/// Rows of values, where the network computes.
#[derive(Clone, Debug)]
pub enum Values {
    /// Row by row, on the CPU.
    Rows(Vec<f32>),
    /// Channel by channel, on the CPU; a frame is a row.
    Channels(Channels),
    /// On a GPU.
    Tensor(Box<Tensor<2>>),
}

impl Values {
    /// Copies them, row by row.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn read(&self) -> Result<Vec<f32>> {
        match self {
            Self::Rows(rows) => Ok(rows.clone()),
            Self::Channels(channels) => Ok(channels.to_frames()),
            Self::Tensor(tensor) => device::read(tensor.as_ref().clone()),
        }
    }
}

/// An utterance up to the generator: what it will say is known, and no sample is there.
#[derive(Debug)]
pub struct Stages {
    /// Hidden states of the symbols, `[symbols, albert size]`.
    pub hidden: Values,
    /// `[symbols, hidden + style]`
    pub features: Values,
    /// Of each symbol, before rounding, frames.
    pub exact_durations: Vec<f32>,
    /// Of each symbol, frames.
    pub durations: Vec<usize>,
    /// Of each half frame, hertz.
    pub pitch: Vec<f32>,
    /// Of each half frame.
    pub energy: Vec<f32>,
    /// `[symbols, hidden]`
    pub encoded: Values,
    /// `[half frames, channels]`
    pub decoded: Values,
}

/// The stages up to the durations.
pub struct Read {
    pub hidden: Values,
    pub features: Values,
    pub exact_durations: Vec<f32>,
}

/// The stages after the durations.
pub struct Decoded {
    pub pitch: Vec<f32>,
    pub energy: Vec<f32>,
    pub encoded: Values,
    pub decoded: Values,
}

/// The result of a part of an utterance's samples.
#[derive(Debug)]
pub enum Advanced<U> {
    /// There are more.
    Unfinished(U),
    /// All samples.
    Samples(Vec<f32>),
}

impl<U> Advanced<U> {
    /// With another form of what is unfinished.
    pub fn map<V>(self, to: impl FnOnce(U) -> V) -> Advanced<V> {
        match self {
            Self::Unfinished(utterance) => Advanced::Unfinished(to(utterance)),
            Self::Samples(samples) => Advanced::Samples(samples),
        }
    }
}
