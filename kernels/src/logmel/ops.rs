//! The backend extension that computes log-mel frames on each device.

use std::sync::Arc;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Flex, backend_extension};

use super::cpu::{AudioRow, Extent, Plan};
use crate::flex::{contiguous, floats};

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
/// [`LogMelByMatmul`](super::LogMelByMatmul).
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

impl LogMelOps for Flex {
    fn logmel(
        audio: FloatTensor<Self>,
        _tables: FloatTensor<Self>,
        _bands: IntTensor<Self>,
        _extents: IntTensor<Self>,
        request: LogMelRequest,
    ) -> FloatTensor<Self> {
        use burn::backend::TensorMetadata;
        use burn::tensor::{Shape, TensorData};

        let mels = request.plan.config.mels;
        let width = audio.shape()[1];
        let mut out = vec![0.0; request.extents.len() * request.frames * mels];
        // A contiguous view is not copied, wherever it begins in its buffer.
        let audio = contiguous(audio);
        let samples = floats(&audio);
        for ((extent, samples), out) in
            request.extents.iter().zip(samples.chunks_exact(width)).zip(out.chunks_exact_mut(request.frames * mels))
        {
            request.plan.row(AudioRow { samples, left: request.left, extent: *extent }, out);
        }
        burn::backend::flex::FlexTensor::from_data(TensorData::new(
            out,
            Shape::new([request.extents.len(), request.frames, mels]),
        ))
    }
}

#[cfg(feature = "wgpu")]
mod cube {
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::{FloatTensor, IntTensor};
    use burn::backend::{Cube, FloatDType, TensorMetadata};
    use burn::tensor::Shape;
    use cubecl::prelude::*;

    use super::{LogMelOps, LogMelRequest};
    use crate::cube::MAX_CUBES_PER_AXIS;
    use crate::logmel::config::{LogMelConfig, Normalization, radices};
    use crate::logmel::kernel::{KernelConfig, logmel_kernel};
    use crate::logmel::kernel_normalize::{COLUMNS, LANES, UNITS, VALUES, per_feature_kernel, whisper_kernel};

    /// Units that share a frame: the number of butterflies of a radix-4 stage of 256 points.
    const FRAME_UNITS: usize = 64;
    /// Frames of a cube: 256 units, and at n_fft 512 the 16 KiB of shared memory that every WebGPU device has.
    const CUBE_FRAMES: usize = 4;
    impl LogMelOps for Cube {
        fn logmel(
            audio: FloatTensor<Self>,
            tables: FloatTensor<Self>,
            bands: IntTensor<Self>,
            extents: IntTensor<Self>,
            request: LogMelRequest,
        ) -> FloatTensor<Self> {
            let config = kernel_config(&request.plan.config);
            let (client, device) = (audio.client.clone(), audio.device());
            let (rows, mels) = (request.extents.len(), config.mels);
            let groups = request.frames.div_ceil(config.frames_per_cube);
            let out = Self::float_empty(Shape::new([rows, request.frames, mels]), &device, FloatDType::F32);
            let peaks = match config.normalization {
                Normalization::Whisper => [rows, groups],
                Normalization::None | Normalization::PerFeature => [1, 1],
            };
            let peaks = Self::float_empty(Shape::new(peaks), &device, FloatDType::F32);
            logmel_kernel::launch(
                &client,
                CubeCount::Static(
                    groups.min(MAX_CUBES_PER_AXIS) as u32,
                    groups.div_ceil(MAX_CUBES_PER_AXIS) as u32,
                    rows as u32,
                ),
                CubeDim::new_2d(config.lanes as u32, config.frames_per_cube as u32),
                audio.into_tensor_arg(),
                tables.into_tensor_arg(),
                bands.into_tensor_arg(),
                extents.clone().into_tensor_arg(),
                out.clone().into_tensor_arg(),
                peaks.clone().into_tensor_arg(),
                request.left as i32,
                request.plan.config.preemphasis.unwrap_or(0.0),
                config,
            );
            match request.plan.config.normalization {
                Normalization::None => {}
                Normalization::PerFeature => per_feature_kernel::launch(
                    &client,
                    CubeCount::Static(mels.div_ceil(COLUMNS) as u32, rows as u32, 1),
                    CubeDim::new_2d(COLUMNS as u32, LANES as u32),
                    out.clone().into_tensor_arg(),
                    extents.into_tensor_arg(),
                ),
                Normalization::Whisper => whisper_kernel::launch(
                    &client,
                    CubeCount::Static((request.frames * mels).div_ceil(UNITS * VALUES) as u32, rows as u32, 1),
                    CubeDim::new_1d(UNITS as u32),
                    out.clone().into_tensor_arg(),
                    peaks.into_tensor_arg(),
                ),
            }
            out
        }
    }

    fn kernel_config(config: &LogMelConfig) -> KernelConfig {
        KernelConfig {
            n_fft: config.n_fft,
            win_length: config.win_length,
            hop: config.hop,
            mels: config.mels,
            padding: config.padding,
            log: config.log,
            normalization: config.normalization,
            radices: radices(config.n_fft / 2).unwrap_or_default(),
            lanes: FRAME_UNITS,
            // Fewer frames for longer transforms, so that shared memory fits on every device.
            frames_per_cube: (1 << (CUBE_FRAMES * 512 / config.n_fft).ilog2()).min(CUBE_FRAMES),
        }
    }
}
