//! Chunks to the input of the recurrent cell: STFT magnitudes and four convolutions, many chunks at once. On the calling thread alone: it
//! runs beside the recogniser, which has the other threads.

use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::ThreadPool;

use super::memory::GATES;
use super::{CHUNK, CONTEXT, HIDDEN};
use crate::error::Result;
use crate::layers::Packed;
use crate::weights::Weights;

/// Length and hop of a spectrum's window, samples.
const WINDOW: usize = 256;
const HOP: usize = 128;
/// Bins of a spectrum.
const BINS: usize = WINDOW / 2 + 1;
/// Samples mirrored at a chunk's end.
const MIRRORED: usize = 64;
/// Spectra per chunk.
const SPECTRA: usize = (CONTEXT + CHUNK + MIRRORED - WINDOW) / HOP + 1;

/// Width of a convolution.
const TAPS: usize = 3;

/// The feed-forward part of the network, which processes each chunk independently.
#[derive(Clone, Debug)]
pub struct FrontEnd {
    /// `[256]` samples to `[258]`: real parts, then imaginary ones.
    stft: Packed,
    convolutions: [Convolution; 4],
    /// `[128]` to the cell's `[512]`, with the sum of its two biases.
    gates: Packed,
}

/// A convolution of width 3 over the frames of a chunk with one zero at each end, then ReLU.
#[derive(Clone, Debug)]
struct Convolution {
    /// Over the inputs of the frames under `taps`, the earliest first.
    weight: Packed,
    /// The taps that meet a frame of a chunk for some output. The others would only multiply zeros.
    taps: Vec<usize>,
    inputs: usize,
    /// Frames of a chunk.
    frames: usize,
    stride: usize,
}

impl FrontEnd {
    /// Reads `stft_conv`, `conv1` to `conv4` and the input half of `lstm_cell`.
    ///
    /// # Errors
    /// As [`crate::weights::Scope::values`].
    pub fn load(weights: &Weights) -> Result<Self> {
        let cell = weights.scope("lstm_cell");
        let mut bias = cell.values("bias_ih", &[GATES])?;
        let second = cell.values("bias_hh", &[GATES])?;
        bias.iter_mut().zip(second).for_each(|(a, b)| *a += b);
        let basis = weights.scope("stft_conv").values("weight", &[2 * BINS, 1, WINDOW])?;
        Ok(Self {
            stft: Packed::new(&basis, vec![0.0; 2 * BINS], Precision::F32),
            convolutions: [
                Convolution::load(weights, "conv1", [BINS, 128], SPECTRA, 1)?,
                Convolution::load(weights, "conv2", [128, 64], SPECTRA, 2)?,
                Convolution::load(weights, "conv3", [64, 64], SPECTRA / 2, 2)?,
                Convolution::load(weights, "conv4", [64, HIDDEN], SPECTRA / 4, 1)?,
            ],
            gates: Packed::new(&cell.values("weight_ih", &[GATES, HIDDEN])?, bias, Precision::F32),
        })
    }

    /// Converts chunks with their context before them, `[chunks, 64 + 512]`, to the cell's input `[chunks, 512]`,
    /// row-major.
    pub fn forward(&self, chunks: &[f32]) -> Vec<f32> {
        let pool = &ThreadPool::SINGLE_THREADED;
        let count = chunks.len() / (CONTEXT + CHUNK);
        let mut windows = Vec::with_capacity(count * SPECTRA * WINDOW);
        for chunk in chunks.chunks_exact(CONTEXT + CHUNK) {
            for at in (0..SPECTRA).map(|n| n * HOP) {
                let end = (at + WINDOW).min(chunk.len());
                windows.extend_from_slice(&chunk[at..end]);
                // Mirrored at the end as in the published class: the last sample itself is not repeated.
                windows.extend(chunk.iter().rev().skip(1).take(at + WINDOW - end));
            }
        }
        let parts = self.stft.forward(pool, &windows);
        let mut x = Vec::with_capacity(count * SPECTRA * BINS);
        for parts in parts.chunks_exact(2 * BINS) {
            let (real, imaginary) = parts.split_at(BINS);
            x.extend(real.iter().zip(imaginary).map(|(real, imaginary)| (real * real + imaginary * imaginary).sqrt()));
        }
        for convolution in &self.convolutions {
            x = convolution.forward(pool, &x);
        }
        self.gates.forward(pool, &x)
    }
}

impl Convolution {
    fn load(
        weights: &Weights,
        name: &str,
        [inputs, outputs]: [usize; 2],
        frames: usize,
        stride: usize,
    ) -> Result<Self> {
        let scope = weights.scope(name);
        let published = scope.values("weight", &[outputs, inputs, TAPS])?;
        let meets = |tap: &usize| (0..frames).step_by(stride).any(|centre| (1..=frames).contains(&(centre + tap)));
        let taps: Vec<usize> = (0..TAPS).filter(meets).collect();
        let mut weight = Vec::with_capacity(outputs * taps.len() * inputs);
        for row in published.chunks_exact(inputs * TAPS) {
            weight.extend(taps.iter().flat_map(|tap| row.iter().skip(*tap).step_by(TAPS)));
        }
        let weight = Packed::new(&weight, scope.values("bias", &[outputs])?, Precision::F32);
        Ok(Self { weight, taps, inputs, frames, stride })
    }

    /// Applies the convolution: `[chunks, frames, inputs]` to `[chunks, frames / stride, outputs]`, rounded up.
    fn forward(&self, pool: &ThreadPool, x: &[f32]) -> Vec<f32> {
        let Self { taps, inputs, frames, stride, .. } = self;
        let mut near = Vec::with_capacity(x.len() / stride * taps.len());
        for x in x.chunks_exact(frames * inputs) {
            for centre in (0..*frames).step_by(*stride) {
                // Frames count from the zero before the first.
                for tap in taps {
                    match (centre + tap).checked_sub(1).filter(|frame| frame < frames) {
                        Some(frame) => near.extend_from_slice(&x[frame * inputs..][..*inputs]),
                        None => near.resize(near.len() + inputs, 0.0),
                    }
                }
            }
        }
        let mut out = self.weight.forward(pool, &near);
        out.iter_mut().for_each(|value| *value = value.max(0.0));
        out
    }
}
