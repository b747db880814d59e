//! The front end in burn's own operations, the reference for tests and benchmarks of the kernels.

use std::sync::Arc;

use burn::tensor::ops::PadMode;
use burn::tensor::{DType, Device, Tensor, TensorData};

use super::config::{LogMelError, LogScale, Normalization, Padding};
use super::cpu::{LOG_GUARD, LOG10_FLOOR, Plan, STD_GUARD};
use super::{Features, LogMel, check_lengths, tables};

/// A front end in burn's own operations: frames by `unfold`, the Fourier transform and the mel bank by matrix products.
///
/// It runs on every backend, but holds each sample in 2.5 frames and multiplies by a dense matrix: use it for comparison only. Rows must be longer than `n_fft / 2` samples where the padding is [`Padding::Reflect`].
#[derive(Clone, Debug)]
pub struct LogMelByMatmul {
    plan: Arc<Plan>,
    device: Device,
    /// `[win_length, n_fft]`: windowed cosines, then windowed sines, below the Nyquist bin.
    transform: Tensor<2>,
    /// `[n_fft / 2, mels]`
    bank: Tensor<2>,
}

impl LogMelByMatmul {
    /// The same front end as `front_end`, on `device`.
    #[must_use]
    pub fn new(front_end: &LogMel, device: &Device) -> Self {
        let plan = front_end.plan.clone();
        let (n_fft, mels) = (plan.config.n_fft, plan.config.mels);
        let bins = n_fft / 2;
        let (cosines, sines) = tables::turns(n_fft);
        let offset = plan.config.window_offset();
        let transform = plan.window.iter().enumerate().flat_map(|(point, weight)| {
            let row = |table: &[f32]| -> Vec<f32> {
                (0..bins).map(|bin| table[(offset + point) * bin % n_fft] * weight).collect()
            };
            [row(&cosines), row(&sines)].concat()
        });
        let transform = TensorData::new(transform.collect::<Vec<f32>>(), [plan.window.len(), n_fft]);
        let mut bank = vec![0.0f32; bins * mels];
        for (mel, (first, weights)) in plan.bank.bands().enumerate() {
            for (bin, weight) in (first..).zip(weights) {
                bank[bin * mels + mel] = *weight;
            }
        }
        Self {
            transform: Tensor::from_data(transform, (device, DType::F32)),
            bank: Tensor::from_data(TensorData::new(bank, [bins, mels]), (device, DType::F32)),
            device: device.clone(),
            plan,
        }
    }

    /// The same as [`LogMel::forward`].
    ///
    /// # Errors
    ///
    /// Those of [`LogMel::forward`].
    pub fn forward(&self, audio: Tensor<2>, lengths: &[usize]) -> Result<Features, LogMelError> {
        let config = &self.plan.config;
        let [rows, samples] = audio.dims();
        check_lengths(lengths, rows, samples)?;
        let (frames, mels) = (config.frames(samples), config.mels);
        let valid: Vec<usize> = lengths.iter().map(|&length| config.valid_frames(length, samples)).collect();
        if frames == 0 || samples == 0 {
            return Ok(Features {
                mels: Tensor::zeros([rows, frames, mels], (&self.device, DType::F32)),
                frames: valid,
            });
        }

        let emphasised = match config.preemphasis {
            Some(factor) if samples > 1 => {
                let later = audio.clone().narrow(1, 1, samples - 1);
                let before = audio.clone().narrow(1, 0, samples - 1);
                Tensor::cat(vec![audio.narrow(1, 0, 1), later - before * factor], 1)
            }
            _ => audio,
        };
        let masked = emphasised * self.mask(lengths, samples);
        let centre = config.n_fft / 2;
        let mode = match config.padding {
            Padding::Zero => PadMode::Constant(0.0),
            Padding::Reflect => PadMode::Reflect,
        };
        let offset = config.window_offset();
        let windows: Tensor<3> = masked
            .pad([(0, 0), (centre, centre)], mode)
            .narrow(1, offset, samples + 2 * (centre - offset))
            .unfold(1, config.win_length, config.hop);
        let flat = windows.narrow(1, 0, frames).reshape([rows * frames, config.win_length]);
        let spectrum = flat.matmul(self.transform.clone());
        let power =
            spectrum.clone().narrow(1, 0, centre).powi_scalar(2) + spectrum.narrow(1, centre, centre).powi_scalar(2);
        let bands = power.matmul(self.bank.clone()).reshape([rows, frames, mels]);
        let logs = match config.log {
            LogScale::NaturalGuarded => (bands + LOG_GUARD).log(),
            LogScale::Log10Clamped => bands.clamp_min(LOG10_FLOOR).log() * std::f32::consts::LOG10_E,
        };
        let computed: Vec<usize> = lengths.iter().map(|&length| self.plan.extent(length, samples).frames).collect();
        Ok(Features { mels: self.normalize(logs, &computed), frames: valid })
    }

    fn normalize(&self, logs: Tensor<3>, computed: &[usize]) -> Tensor<3> {
        let [rows, frames, _] = logs.dims();
        let mask = self.mask(computed, frames).reshape([rows, frames, 1]);
        match self.plan.config.normalization {
            Normalization::None => logs * mask,
            Normalization::Whisper => {
                let floor = logs.clone().max_dims(&[1, 2]) - 8.0;
                (logs.max_pair(floor) + 4.0) / 4.0
            }
            Normalization::PerFeature => {
                // At least 1, so that a row of one valid frame or none stays 0.
                let counts = |fixed: usize| {
                    let counts: Vec<f32> =
                        computed.iter().map(|&count| count.saturating_sub(fixed).max(1) as f32).collect();
                    Tensor::<3>::from_data(TensorData::new(counts, [rows, 1, 1]), (&self.device, DType::F32))
                };
                let mean = (logs.clone() * mask.clone()).sum_dim(1) / counts(0);
                let difference = (logs - mean) * mask;
                let variance = difference.clone().powi_scalar(2).sum_dim(1) / counts(1);
                difference / (variance.sqrt() + STD_GUARD)
            }
        }
    }

    /// `[counts, width]`: ones, as many in each row as `counts` says, then zeros.
    fn mask(&self, counts: &[usize], width: usize) -> Tensor<2> {
        let ones: Vec<f32> =
            counts.iter().flat_map(|&count| (0..width).map(move |place| f32::from(u8::from(place < count)))).collect();
        Tensor::from_data(TensorData::new(ones, [counts.len(), width]), (&self.device, DType::F32))
    }
}
