//! Encoder frames and tokens to the scores of the next token, for several windows together.
//!
//! There are two implementations: on the CPU each row has separate caches and a step reads each weight once, by the
//! kernels of [`auricle_kernels::product::gemv`]; on other devices all rows are one tensor.

mod cpu;
mod gpu;

use auricle_kernels::product::gemv::Precision;
use burn::tensor::{Device, Tensor};

use super::block_form::{DecoderConfig, TokenTables};
use super::config::Config;
use crate::device::is_cpu;
use crate::error::Result;
use crate::weights::Scope;

/// The decoder.
#[derive(Clone, Debug)]
pub enum Decoder {
    /// On a GPU.
    Gpu(Box<gpu::Decoder>),
    /// On the CPU.
    Cpu(Box<cpu::Decoder>),
}

/// Decoder state of rows, which are windows decoded together.
#[derive(Debug)]
pub enum DecoderState {
    /// On a GPU.
    Gpu(gpu::DecoderState),
    /// On the CPU.
    Cpu(cpu::DecoderState),
}

/// The audio of a window, from which its decoding can begin as often as it has to.
pub enum WindowAudio {
    /// Encoder frames `[1, frames, size]`.
    Frames(Box<Tensor<3>>),
    /// On the CPU: the state before the first token. All decodings of the window share its keys and values.
    Started(cpu::DecoderState),
}

/// Output of a pass for each row's last token.
pub struct DecoderOutput {
    /// `[rows, vocabulary]`
    pub scores: Scores,
    /// `[alignment heads, frames]` of each row: attention of the alignment heads; none on a GPU, where `look_back` computes it.
    pub weights: Vec<Vec<f32>>,
}

/// Scores on the device that computed them: `[rows, vocabulary]`.
pub enum Scores {
    /// On a GPU.
    Gpu(Box<Tensor<2>>),
    /// In memory.
    Cpu(Vec<f32>),
}

impl Scores {
    /// Reads the scores into memory.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn read(self) -> Result<Vec<f32>> {
        match self {
            Self::Gpu(tensor) => crate::device::read(*tensor),
            Self::Cpu(values) => Ok(values),
        }
    }
}

impl Decoder {
    /// Reads the decoder.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &Config, precision: Precision) -> Result<Self> {
        let positions = scope.scope("embed_positions").values("weight", &[config.positions, config.size])?;
        Self::load_as(scope, &config.decoder(), TokenTables { positions, ..TokenTables::default() }, precision)
    }

    /// Reads the decoder of any class.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load_as(scope: &Scope, config: &DecoderConfig, tables: TokenTables, precision: Precision) -> Result<Self> {
        if is_cpu(scope.device()) {
            cpu::Decoder::load(scope, config, tables, precision).map(|decoder| Self::Cpu(Box::new(decoder)))
        } else {
            gpu::Decoder::load(scope, config, tables, precision).map(|decoder| Self::Gpu(Box::new(decoder)))
        }
    }

    /// State of rows over encoder frames `[rows, frames, size]`, before their first token.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn start(&self, frames: &Tensor<3>) -> Result<DecoderState> {
        match self {
            Self::Gpu(decoder) => Ok(DecoderState::Gpu(decoder.start(frames))),
            Self::Cpu(decoder) => decoder.start(frames).map(DecoderState::Cpu),
        }
    }

    /// State of a window's only row, before its first token.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn start_again(&self, audio: &WindowAudio) -> Result<DecoderState> {
        match audio {
            WindowAudio::Frames(frames) => self.start(frames),
            WindowAudio::Started(state) => Ok(DecoderState::Cpu(state.clone())),
        }
    }

    /// Processes the next tokens of every row. The next call may overwrite the scores.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn forward(&self, steps: &mut DecoderState, tokens: &[Vec<u32>]) -> Result<DecoderOutput> {
        self.forward_through(steps, tokens, usize::MAX).map(|(output, _)| output)
    }

    /// As [`Decoder::forward`], and the output of the first `blocks` blocks (all if there are fewer) for each row's
    /// tokens, `[tokens, size]`.
    ///
    /// # Errors
    /// As [`Decoder::forward`].
    ///
    /// # Panics
    /// If `steps` belong to another device's decoder.
    pub fn forward_through(
        &self,
        steps: &mut DecoderState,
        tokens: &[Vec<u32>],
        blocks: usize,
    ) -> Result<(DecoderOutput, Tensor<2>)> {
        match (self, steps) {
            (Self::Gpu(decoder), DecoderState::Gpu(steps)) => {
                let (scores, middle) = decoder.forward_through(steps, tokens, blocks)?;
                let output = DecoderOutput { scores: Scores::Gpu(Box::new(scores)), weights: Vec::new() };
                Ok((output, middle.flatten(0, 1)))
            }
            (Self::Cpu(decoder), DecoderState::Cpu(steps)) => {
                let (output, middle) = decoder.forward_through(steps, tokens, blocks);
                let rows = middle.len() / decoder.size();
                let shape = burn::tensor::TensorData::new(middle, [rows, decoder.size()]);
                Ok((output, Tensor::from_data(shape, &Device::flex())))
            }
            _ => unreachable!("steps are their decoder's"),
        }
    }

    /// Attention of the alignment heads, on a GPU, at the prediction of each of `tokens` from index `from` on, and of
    /// the token after them: `[tokens - from + 1, alignment heads, seen]`, over the row's first `seen` frames. Empty on
    /// the CPU, where each step returns it.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn look_back(
        &self,
        steps: &DecoderState,
        row: usize,
        tokens: &[u32],
        from: usize,
        seen: usize,
    ) -> Result<Vec<f32>> {
        match (self, steps) {
            (Self::Gpu(decoder), DecoderState::Gpu(steps)) => {
                crate::device::read(decoder.look_back(steps, row, tokens, from - 1).narrow(2, 0, seen))
            }
            _ => Ok(Vec::new()),
        }
    }
}

impl DecoderState {
    /// Joins these rows and others to one batch.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Gpu(one), Self::Gpu(two)) => Self::Gpu(one.join(two)),
            (Self::Cpu(one), Self::Cpu(two)) => Self::Cpu(one.join(two)),
            // All steps of a decoder are on one device.
            (one, _) => one,
        }
    }

    /// The audio of each row of the state before the first token, whose `frames` are `[rows, frames, size]`.
    pub fn audio(&self, frames: &Tensor<3>) -> Vec<WindowAudio> {
        match self {
            Self::Gpu(_) => (0..frames.dims()[0])
                .map(|row| WindowAudio::Frames(Box::new(frames.clone().narrow(0, row, 1))))
                .collect(),
            Self::Cpu(state) => state.rows().map(WindowAudio::Started).collect(),
        }
    }

    /// Keeps these rows, in this order; a row may occur more than once.
    #[must_use]
    pub fn keep(self, rows: &[usize]) -> Self {
        match self {
            Self::Gpu(steps) => Self::Gpu(steps.keep(rows)),
            Self::Cpu(steps) => Self::Cpu(steps.keep(rows)),
        }
    }
}
