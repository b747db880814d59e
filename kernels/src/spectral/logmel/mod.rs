//! The log-mel front end: samples to frames, as the feature extractors of Parakeet, Nemotron and Whisper compute them
//! (`ParakeetFeatureExtractor`, `NemotronAsrStreamingFeatureExtractor`, `WhisperFeatureExtractor` of transformers).
//!
//! Framing, pre-emphasis, window, Fourier transform, power, mel bank and logarithm are one kernel: a single launch on a
//! GPU, and one more where the front end normalises over the utterance. On flex the same arithmetic runs in plain Rust
//! over the tensor's own memory.

mod config;
mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;
mod reference;
mod stream;
mod tables;

use std::sync::Arc;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

pub use config::{LogMelConfig, LogMelError, LogScale, Normalization, Padding, TablePrecision, Tail, Window};
use cpu::{AudioRow, Extent, Plan};
pub use reference::LogMelByMatmul;
pub use stream::{LogMelBlock, LogMelStream};

/// A log-mel front end on a device: its parameters and its constant tables. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogMel {
    plan: Arc<Plan>,
    device: Device,
    tables: Tensor<1>,
    bands: Tensor<1, Int>,
}

/// Log-mel frames of a batch.
#[derive(Clone, Debug)]
pub struct Features {
    /// `[rows, frames, mels]`, f32.
    pub mels: Tensor<3>,
    /// Valid frames of each row.
    pub frames: Vec<usize>,
}

impl LogMel {
    /// Builds the tables and places them on `device`.
    ///
    /// # Errors
    ///
    /// [`LogMelError::Parameter`] where a parameter is out of its range.
    pub fn new(config: LogMelConfig, device: &Device) -> Result<Self, LogMelError> {
        let plan = Plan::new(config)?;
        let (cosines, sines) = tables::turns(plan.config.n_fft);
        let tables = [plan.window.as_slice(), &cosines, &sines, &plan.bank.weights].concat();
        let bands: Vec<i32> = plan.bank.starts.iter().chain(&plan.bank.offsets).map(|&place| place as i32).collect();
        Ok(Self {
            plan: Arc::new(plan),
            device: device.clone(),
            tables: Tensor::from_data(TensorData::from(tables.as_slice()), (device, DType::F32)),
            bands: Tensor::from_data(TensorData::from(bands.as_slice()), (device, DType::I32)),
        })
    }

    /// The front end's parameters.
    #[must_use]
    pub fn config(&self) -> &LogMelConfig {
        &self.plan.config
    }

    /// Frames of a row of `samples` samples.
    #[must_use]
    pub fn frames(&self, samples: usize) -> usize {
        self.plan.config.frames(samples)
    }

    /// Log-mel frames of a batch of utterances.
    ///
    /// - `audio` `[rows, samples]`, on this front end's device
    /// - `lengths`: valid samples of each row; what lies beyond is read as zero
    ///
    /// Returns `[rows, self.frames(samples), mels]`. With [`Tail::Masked`] the frames past a row's valid ones are 0.
    ///
    /// # Errors
    ///
    /// [`LogMelError::Lengths`] where `lengths` does not fit `audio`.
    pub fn forward(&self, audio: Tensor<2>, lengths: &[usize]) -> Result<Features, LogMelError> {
        let [rows, samples] = audio.dims();
        check_lengths(lengths, rows, samples)?;
        let extents = lengths.iter().map(|&length| self.plan.extent(length, samples)).collect();
        Ok(Features {
            mels: self.launch(audio, extents, self.frames(samples), self.plan.centred()),
            frames: lengths.iter().map(|&length| self.plan.config.valid_frames(length, samples)).collect(),
        })
    }

    /// Log-mel frames of blocks that [`LogMelStream`]s have cut, many streams in one launch.
    ///
    /// Returns `[blocks, most frames of any block, mels]`; frames that a block does not have are 0. Blocks must come
    /// from streams through this front end.
    #[must_use]
    pub fn forward_blocks(&self, blocks: &[LogMelBlock]) -> Features {
        let samples = blocks.iter().map(|block| block.samples.len()).max().unwrap_or(0);
        let frames = blocks.iter().map(|block| block.frames).max().unwrap_or(0);
        let mut audio = vec![0.0f32; blocks.len() * samples];
        for (row, block) in audio.chunks_exact_mut(samples.max(1)).zip(blocks) {
            row[..block.samples.len()].copy_from_slice(&block.samples);
        }
        let audio = TensorData::new(audio, [blocks.len(), samples]);
        let extents =
            blocks.iter().map(|block| Extent { samples: block.samples.len(), frames: block.frames }).collect();
        Features {
            mels: self.launch(
                Tensor::from_data(audio, (&self.device, DType::F32)),
                extents,
                frames,
                stream::block_left(&self.plan),
            ),
            frames: blocks.iter().map(|block| block.frames).collect(),
        }
    }

    fn launch(&self, audio: Tensor<2>, extents: Vec<Extent>, frames: usize, left: isize) -> Tensor<3> {
        // Nothing to compute is no launch: devices have no empty buffers.
        if extents.iter().all(|extent| extent.frames == 0) {
            return Tensor::zeros([extents.len(), frames, self.plan.config.mels], (&self.device, DType::F32));
        }
        let flat: Vec<i32> = extents.iter().flat_map(|extent| [extent.samples as i32, extent.frames as i32]).collect();
        let flat: Tensor<1, Int> = Tensor::from_data(TensorData::from(flat.as_slice()), (&self.device, DType::I32));
        let audio = if audio.dtype() == DType::F32 { audio } else { audio.cast(DType::F32) };
        Tensor::from_dispatch(Dispatch::logmel(
            audio.into_dispatch(),
            self.tables.clone().into_dispatch(),
            self.bands.clone().into_dispatch(),
            flat.into_dispatch(),
            LogMelRequest { plan: self.plan.clone(), left, frames, extents },
        ))
    }
}

/// The parameters of one call.
#[derive(Clone, Debug)]
pub(crate) struct LogMelRequest {
    pub plan: Arc<Plan>,
    /// The index of the first sample of frame 0's transform in every row.
    pub left: isize,
    /// Frames of the output.
    pub frames: usize,
    /// The valid part of each row.
    pub extents: Vec<Extent>,
}

/// Log-mel frames on a backend. For a device whose backend is not listed use
/// [`LogMelByMatmul`].
#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait LogMelOps: Backend {
    /// - `audio` `[rows, samples]`, f32
    /// - `tables`, `bands`: the front end's constants, as the kernel documents them
    /// - `extents` `[2 * rows]`: `request.extents`, flat
    ///
    /// Returns `[rows, request.frames, mels]`.
    fn logmel(
        audio: FloatTensor<Self>,
        tables: FloatTensor<Self>,
        bands: IntTensor<Self>,
        extents: IntTensor<Self>,
        request: LogMelRequest,
    ) -> FloatTensor<Self>;
}

/// Log-mel frames of one utterance, `[front_end.frames(samples.len()), mels]`, computed on this CPU whatever the front
/// end's device: what [`LogMel::forward`] gives for a batch of this one row on flex.
#[must_use]
pub fn logmel_cpu(front_end: &LogMel, samples: &[f32]) -> Vec<f32> {
    let plan = &front_end.plan;
    let mut out = vec![0.0; plan.config.frames(samples.len()) * plan.config.mels];
    let extent = plan.extent(samples.len(), samples.len());
    plan.row(AudioRow { samples, left: plan.centred(), extent }, &mut out);
    out
}

fn check_lengths(lengths: &[usize], rows: usize, samples: usize) -> Result<(), LogMelError> {
    if lengths.len() != rows {
        return Err(LogMelError::Lengths { row: rows, length: lengths.len(), rows, samples });
    }
    match lengths.iter().position(|&length| length > samples) {
        Some(row) => Err(LogMelError::Lengths { row, length: lengths[row], rows, samples }),
        None => Ok(()),
    }
}
