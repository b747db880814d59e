//! The FastConformer encoder: subsampling and conformer blocks, over whole utterances and over cached chunks.
//!
//! There are two implementations: on the CPU frames are plain memory, and streams of any age share a step without being
//! copied together; on other devices the rows of a batch are tensors.

mod context;
mod cpu;
mod gpu;
mod stages;

use auricle_kernels::product::gemv::Precision;
use std::ops::Range;

use burn::tensor::{Device, Tensor};

use super::config::{Class, EncoderConfig};
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::layers::fold_batch_norm;
use crate::weights::Scope;

/// The encoder of every FastConformer checkpoint.
#[derive(Debug)]
pub struct Encoder {
    body: EncoderBackend,
    config: EncoderConfig,
}

#[derive(Debug)]
enum EncoderBackend {
    Gpu(Box<gpu::Encoder>),
    Cpu(Box<cpu::Encoder>),
}

/// State of streams between chunks, for any number of rows. Its size is fixed by the checkpoint and the look-ahead.
#[derive(Debug)]
pub struct EncoderState(StateBackend);

#[derive(Debug)]
enum StateBackend {
    Gpu(gpu::State),
    Cpu(cpu::State),
}

impl Encoder {
    /// Reads the encoder under `scope` by the names of `class`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, class: Class, config: &EncoderConfig, precision: Precision) -> Result<Self> {
        let body = if is_cpu(scope.device()) {
            EncoderBackend::Cpu(Box::new(cpu::Encoder::load(scope, class, config, precision)?))
        } else {
            EncoderBackend::Gpu(Box::new(gpu::Encoder::load(scope, class, config, precision)?))
        };
        Ok(Self { body, config: config.clone() })
    }

    /// The encoder's configuration.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Mel frames missing at the head of an utterance's first chunk: with them every chunk is a whole number of encoder
    /// frames.
    pub fn lead(&self) -> usize {
        self.config.lead()
    }

    /// The state before an utterance, for `batch` rows and a look-ahead in encoder frames.
    pub fn start(&self, batch: usize, look_ahead: usize, device: &Device) -> EncoderState {
        EncoderState(match &self.body {
            EncoderBackend::Gpu(encoder) => StateBackend::Gpu(encoder.start(batch, look_ahead, device)),
            EncoderBackend::Cpu(encoder) => StateBackend::Cpu(encoder.start(batch, look_ahead)),
        })
    }

    /// Encodes whole utterances (Parakeet): `features` `[batch, frames, mels]`, of which `lengths` frames are real, to
    /// `[batch, frames / 8, hidden]` and the number of real frames there.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when the utterance is longer than the checkpoint's positions, [`Error::Device`] when
    /// the device failed.
    pub fn forward(&self, features: Tensor<3>, lengths: &[usize]) -> Result<(Tensor<3>, Vec<usize>)> {
        let most = self.config.max_position_embeddings;
        let frames = features.dims()[1].div_ceil(self.config.subsampling_factor);
        if frames > most {
            let why = format!("an utterance of {frames} encoder frames is longer than the checkpoint's {most}");
            return Err(Error::InvalidOption(why));
        }
        match &self.body {
            EncoderBackend::Gpu(encoder) => Ok(encoder.forward(features, lengths)),
            EncoderBackend::Cpu(encoder) => encoder.forward(features, lengths),
        }
    }

    /// Encodes a chunk of every row of every stream (Nemotron), all with one look-ahead: `features` `[batch, 8 n,
    /// mels]`, of which `valid` are real, to `[batch, n, hidden]` and the real ranges there. A row's frames do not
    /// depend on the other rows.
    ///
    /// An utterance's first chunk begins with [`Encoder::lead`] frames that are not real; in every chunk but the last,
    /// `n` is a multiple of `look_ahead + 1`. Chunks of any such size give the same frames.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] without a stream, [`Error::Device`] when the device failed.
    pub fn forward_chunk(
        &self,
        features: Tensor<3>,
        valid: &[Range<usize>],
        states: &mut [&mut EncoderState],
    ) -> Result<(Tensor<3>, Vec<Range<usize>>)> {
        match &self.body {
            EncoderBackend::Gpu(encoder) => {
                let mut states: Vec<&mut gpu::State> = states.iter_mut().filter_map(|state| state.gpu()).collect();
                encoder.forward_chunk(features, valid, &mut states)
            }
            EncoderBackend::Cpu(encoder) => {
                let mut states: Vec<&mut cpu::State> = states.iter_mut().filter_map(|state| state.cpu()).collect();
                encoder.forward_chunk(features, valid, &mut states)
            }
        }
    }

    /// Outputs of the subsampling and of the first block for whole utterances, for the numeric tests.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    #[doc(hidden)]
    pub fn stages(&self, features: Tensor<3>, lengths: &[usize], look_ahead: Option<usize>) -> Result<[Tensor<3>; 2]> {
        match &self.body {
            EncoderBackend::Gpu(encoder) => Ok(encoder.stages(features, lengths, look_ahead)),
            EncoderBackend::Cpu(encoder) => encoder.stages(features, lengths, look_ahead),
        }
    }
}

impl EncoderState {
    /// Bytes of the state.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            StateBackend::Gpu(state) => state.bytes(),
            StateBackend::Cpu(state) => state.bytes(),
        }
    }

    fn gpu(&mut self) -> Option<&mut gpu::State> {
        match &mut self.0 {
            StateBackend::Gpu(state) => Some(state),
            StateBackend::Cpu(_) => None,
        }
    }

    fn cpu(&mut self) -> Option<&mut cpu::State> {
        match &mut self.0 {
            StateBackend::Cpu(state) => Some(state),
            StateBackend::Gpu(_) => None,
        }
    }
}

/// Weights `[channels, 1, kernel]` and bias of the depthwise convolution. The batch norm of a class that does not stream is
/// folded into them.
fn depthwise_weights(scope: &Scope, class: Class, config: &EncoderConfig) -> Result<(Vec<f32>, Option<Vec<f32>>)> {
    let (channels, depthwise) = (config.hidden_size, scope.scope("depthwise_conv"));
    let mut weight = depthwise.values("weight", &[channels, 1, config.conv_kernel_size])?;
    let mut bias = config.convolution_bias.then(|| depthwise.values("bias", &[channels])).transpose()?;
    if !class.is_streaming() {
        fold_batch_norm(&scope.scope("norm"), &mut weight, &mut bias, channels)?;
    }
    Ok((weight, bias))
}
