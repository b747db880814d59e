//! The body on GPUs: a launch for the frames, and one more for a normalisation over the utterance.

mod frames;
mod normalize;

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Cube, FloatDType, TensorMetadata};
use burn::tensor::Shape;
use cubecl::prelude::*;

use super::config::{LogMelConfig, Normalization, radices};
use super::{LogMelOps, LogMelRequest};
use crate::cube::MAX_CUBES_PER_AXIS;
use frames::{KernelConfig, logmel_kernel};
use normalize::{COLUMNS, LANES, UNITS, VALUES, per_feature_kernel, whisper_kernel};

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
