//! The CPU twin: the arithmetic of one frame, for whole utterances, batches and streams.

use std::sync::Arc;

use rayon::prelude::*;
use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::Shape;

use super::config::{LogMelConfig, LogMelError, LogScale, Normalization, Padding};
use super::tables::{self, MelBank};
use super::{LogMelOps, LogMelRequest};
use crate::flex::{contiguous, floats, tensor};

/// Frames that one rayon task computes: some 200 µs of work.
const FRAMES_PER_TASK: usize = 64;
/// Smallest number of frames that is computed on all cores.
const PARALLEL_FRAMES: usize = 256;

/// A validated front end and its constants on the host.
pub(crate) struct Plan {
    pub config: LogMelConfig,
    pub window: Vec<f32>,
    pub bank: MelBank,
    transform: Arc<dyn RealToComplex<f32>>,
}

/// One row of audio, as the kernels see it.
#[derive(Clone, Copy)]
pub(crate) struct AudioRow<'a> {
    /// The row's samples, at its whole width.
    pub samples: &'a [f32],
    /// Index of the first sample of the transform of frame 0; negative when padding comes first.
    pub left: isize,
    /// The valid part.
    pub extent: Extent,
}

/// The valid part of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Valid samples; later ones are read as zero.
    pub samples: usize,
    /// Frames to compute.
    pub frames: usize,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Plan").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Plan {
    pub fn new(config: LogMelConfig) -> Result<Self, LogMelError> {
        config.validate()?;
        let window = tables::window(&config);
        let bank = tables::mel_bank(&config);
        let transform = RealFftPlanner::new().plan_fft_forward(config.n_fft);
        Ok(Self { config, window, bank, transform })
    }

    /// Index of the first sample of frame 0 of a whole utterance; frames are centred.
    pub fn centred(&self) -> isize {
        -((self.config.n_fft / 2) as isize)
    }

    /// Frames to compute of a row of which `length` samples are valid.
    pub fn extent(&self, length: usize, samples: usize) -> Extent {
        let frames = match self.config.masks_frames() {
            true => self.config.valid_frames(length, samples),
            // The model was trained on unmasked padding, and the maximum includes it.
            false => self.config.frames(samples),
        };
        Extent { samples: length, frames }
    }

    /// Log-mel frames of `row` into `out` `[frames, mels]`, then normalised; `out` must be zero.
    pub fn row(&self, row: AudioRow<'_>, out: &mut [f32]) {
        let mels = self.config.mels;
        let valid = &mut out[..row.extent.frames * mels];
        let task = |scratch: &mut Scratch, (task, frames): (usize, &mut [f32])| {
            for (frame, out) in frames.chunks_exact_mut(mels).enumerate() {
                self.frame(row, task * FRAMES_PER_TASK + frame, scratch, out);
            }
        };
        if row.extent.frames < PARALLEL_FRAMES {
            let mut scratch = Scratch::new(self);
            valid.chunks_mut(FRAMES_PER_TASK * mels).enumerate().for_each(|item| task(&mut scratch, item));
        } else {
            valid.par_chunks_mut(FRAMES_PER_TASK * mels).enumerate().for_each_init(|| Scratch::new(self), task);
        }
        match self.config.normalization {
            Normalization::None => {}
            Normalization::PerFeature => normalize_per_feature(valid, mels),
            Normalization::Whisper => normalize_whisper(valid),
        }
    }

    /// One frame: window, transform, power, mel bank, logarithm.
    fn frame(&self, row: AudioRow<'_>, frame: usize, scratch: &mut Scratch, out: &mut [f32]) {
        let Scratch { input, spectrum, power, work } = scratch;
        let offset = self.config.window_offset();
        let start = row.left + (frame * self.config.hop + offset) as isize;
        self.windowed(row, start, &mut input[offset..offset + self.window.len()]);
        // The transform overwrites its input, so the samples outside the window must be zeroed again.
        input[..offset].fill(0.0);
        input[offset + self.window.len()..].fill(0.0);
        // Fails only for buffers of a wrong length; these are the transform's own.
        let transformed = self.transform.process_with_scratch(input, spectrum, work);
        debug_assert!(transformed.is_ok());
        for (power, bin) in power.iter_mut().zip(spectrum.iter()) {
            *power = bin.re * bin.re + bin.im * bin.im;
        }
        for (out, (first, weights)) in out.iter_mut().zip(self.bank.bands()) {
            *out = dot(&power[first..first + weights.len()], weights);
        }
        match self.config.log {
            LogScale::NaturalGuarded => out.iter_mut().for_each(|mel| *mel = (*mel + LOG_GUARD).ln()),
            LogScale::Log10Clamped => {
                out.iter_mut().for_each(|mel| *mel = mel.max(LOG10_FLOOR).ln() * std::f32::consts::LOG10_E);
            }
        }
    }

    /// Pre-emphasised and windowed samples from `start` on.
    fn windowed(&self, row: AudioRow<'_>, start: isize, out: &mut [f32]) {
        let emphasis = self.config.preemphasis.unwrap_or(0.0);
        let valid = &row.samples[..row.extent.samples];
        let inner = usize::try_from(start - 1).ok().and_then(|before| valid.get(before..before + out.len() + 1));
        if let Some(inner) = inner {
            for ((out, weight), pair) in out.iter_mut().zip(&self.window).zip(inner.windows(2)) {
                *out = (pair[1] - emphasis * pair[0]) * weight;
            }
            return;
        }
        for ((position, out), weight) in (start..).zip(out).zip(&self.window) {
            let at = match self.config.padding {
                Padding::Zero => position,
                Padding::Reflect => reflect(position, row.samples.len()),
            };
            let sample = match usize::try_from(at) {
                Ok(at) if at < valid.len() => valid[at] - emphasis * if at > 0 { valid[at - 1] } else { 0.0 },
                _ => 0.0,
            };
            *out = sample * weight;
        }
    }
}

/// `2^-24`, which NeMo adds before the logarithm.
pub(crate) const LOG_GUARD: f32 = 1.0 / 16_777_216.0;
/// Whisper's floor of a mel band's power.
pub(crate) const LOG10_FLOOR: f32 = 1e-10;
/// The term that NeMo adds to a deviation.
pub(crate) const STD_GUARD: f32 = 1e-5;

/// Buffers of one task.
struct Scratch {
    input: Vec<f32>,
    spectrum: Vec<Complex<f32>>,
    power: Vec<f32>,
    work: Vec<Complex<f32>>,
}

impl Scratch {
    fn new(plan: &Plan) -> Self {
        Self {
            input: plan.transform.make_input_vec(),
            spectrum: plan.transform.make_output_vec(),
            power: vec![0.0; plan.config.n_fft / 2],
            work: plan.transform.make_scratch_vec(),
        }
    }
}

/// A position folded into a row of `width` samples by mirrors at its first and last sample.
pub(crate) fn reflect(position: isize, width: usize) -> isize {
    let last = width.saturating_sub(1) as isize;
    let folded = position.rem_euclid((2 * last).max(1));
    folded.min(2 * last - folded)
}

/// Dot product in four independent sums, so that additions do not wait for each other.
fn dot(power: &[f32], weights: &[f32]) -> f32 {
    let (power_fours, power_rest) = power.as_chunks::<4>();
    let (weight_fours, weight_rest) = weights.as_chunks::<4>();
    let mut sums = [0.0f32; 4];
    for (power, weights) in power_fours.iter().zip(weight_fours) {
        for lane in 0..4 {
            sums[lane] += power[lane] * weights[lane];
        }
    }
    let rest: f32 = power_rest.iter().zip(weight_rest).map(|(power, weight)| power * weight).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Each column of `frames` `[frames, mels]` to mean 0 and unbiased deviation 1.
fn normalize_per_feature(frames: &mut [f32], mels: usize) {
    let count = (frames.len() / mels) as f64;
    let mut mean = vec![0.0f64; mels];
    for frame in frames.chunks_exact(mels) {
        mean.iter_mut().zip(frame).for_each(|(sum, &mel)| *sum += f64::from(mel));
    }
    mean.iter_mut().for_each(|sum| *sum /= count);
    let mut scale = vec![0.0f64; mels];
    for frame in frames.chunks_exact(mels) {
        for ((sum, mean), &mel) in scale.iter_mut().zip(&mean).zip(frame) {
            *sum += (f64::from(mel) - mean).powi(2);
        }
    }
    for sum in &mut scale {
        *sum = 1.0 / ((*sum / (count - 1.0).max(1.0)).sqrt() + f64::from(STD_GUARD));
    }
    for frame in frames.chunks_exact_mut(mels) {
        for ((mel, mean), scale) in frame.iter_mut().zip(&mean).zip(&scale) {
            *mel = ((f64::from(*mel) - mean) * scale) as f32;
        }
    }
}

/// The row's dynamic range cut to 8 decades, and centred.
fn normalize_whisper(frames: &mut [f32]) {
    let floor = frames.iter().fold(f32::NEG_INFINITY, |peak, &mel| peak.max(mel)) - 8.0;
    frames.iter_mut().for_each(|mel| *mel = (mel.max(floor) + 4.0) / 4.0);
}

impl LogMelOps for Flex {
    fn logmel(
        audio: FloatTensor<Self>,
        _tables: FloatTensor<Self>,
        _bands: IntTensor<Self>,
        _extents: IntTensor<Self>,
        request: LogMelRequest,
    ) -> FloatTensor<Self> {
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
        tensor(out, Shape::new([request.extents.len(), request.frames, mels]))
    }
}

#[cfg(test)]
mod tests {
    use super::reflect;

    #[test]
    fn reflection_repeats_no_edge_sample() {
        let folded: Vec<isize> = (-4..8).map(|position| reflect(position, 4)).collect();
        assert_eq!(folded, [2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1]);
        assert!((-3..3).all(|position| reflect(position, 1) == 0));
    }
}
