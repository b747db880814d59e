//! Chunks to the input of the recurrent cell: STFT magnitudes and four convolutions, many chunks at once.

use burn::tensor::{Device, Tensor, TensorData, activation};

use super::memory::GATES;
use super::{CHUNK, CONTEXT, HIDDEN};
use crate::error::{Error, Result};
use crate::layers::Linear;
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

/// The feed-forward part of the network, which processes each chunk independently.
#[derive(Clone, Debug)]
pub struct FrontEnd {
    /// `[256]` samples to `[258]`: real parts, then imaginary ones.
    stft: Linear,
    convolutions: [Convolution; 4],
    /// `[128]` to the cell's `[512]`, with the sum of its two biases.
    gates: Linear,
    device: Device,
}

/// A convolution of width 3 with one zero at each end, then ReLU.
#[derive(Clone, Debug)]
struct Convolution {
    /// `[3 inputs, outputs]`, the earliest frame's inputs first.
    weight: Tensor<2>,
    /// `[1, outputs]`
    bias: Tensor<2>,
    inputs: usize,
    stride: usize,
}

impl FrontEnd {
    /// Reads `stft_conv`, `conv1` to `conv4` and the input half of `lstm_cell`.
    ///
    /// # Errors
    /// As [`crate::weights::Scope::values`].
    pub fn load(weights: &Weights, device: &Device) -> Result<Self> {
        let cell = weights.scope("lstm_cell");
        let mut bias = cell.values("bias_ih", &[GATES])?;
        let second = cell.values("bias_hh", &[GATES])?;
        bias.iter_mut().zip(second).for_each(|(a, b)| *a += b);
        let from_input = crate::layers::transpose(&cell.values("weight_ih", &[GATES, HIDDEN])?, GATES, HIDDEN);
        let stft = weights.scope("stft_conv");
        let basis = crate::layers::transpose(&stft.values("weight", &[2 * BINS, 1, WINDOW])?, 2 * BINS, WINDOW);
        Ok(Self {
            stft: Linear::from_values(basis, WINDOW, 2 * BINS, None, stft.device()),
            convolutions: [
                Convolution::load(weights, "conv1", BINS, 128, 1)?,
                Convolution::load(weights, "conv2", 128, 64, 2)?,
                Convolution::load(weights, "conv3", 64, 64, 2)?,
                Convolution::load(weights, "conv4", 64, HIDDEN, 1)?,
            ],
            gates: Linear::from_values(from_input, HIDDEN, GATES, Some(bias), cell.device()),
            device: device.clone(),
        })
    }

    /// Converts chunks with their context before them, `[chunks, 64 + 512]`, to the cell's input `[chunks, 512]`,
    /// row-major.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn forward(&self, chunks: &[f32]) -> Result<Vec<f32>> {
        let count = chunks.len() / (CONTEXT + CHUNK);
        let mut windows = Vec::with_capacity(count * SPECTRA * WINDOW);
        for chunk in chunks.chunks_exact(CONTEXT + CHUNK) {
            // Mirrored at the end as in the published class: the last sample itself is not repeated.
            let mirrored: Vec<f32> = chunk.iter().rev().skip(1).take(MIRRORED).copied().collect();
            for at in (0..SPECTRA).map(|n| n * HOP) {
                let end = (at + WINDOW).min(chunk.len());
                windows.extend_from_slice(&chunk[at..end]);
                windows.extend_from_slice(&mirrored[..at + WINDOW - end]);
            }
        }
        let windows = Tensor::<2>::from_data(TensorData::new(windows, [count * SPECTRA, WINDOW]), &self.device);
        let parts = self.stft.forward(windows);
        let part = |at: usize| parts.clone().narrow(1, at * BINS, BINS);
        let magnitudes = (part(0) * part(0) + part(1) * part(1)).sqrt();
        let mut x = magnitudes.reshape([count, SPECTRA, BINS]);
        for convolution in &self.convolutions {
            x = convolution.forward(x);
        }
        let gates = self.gates.forward(x.reshape([count, HIDDEN]));
        gates
            .try_into_vec_as::<f32>()
            .map_err(|e| Error::Device { device: format!("{:?}", self.device), reason: format!("{e:?}") })
    }
}

impl Convolution {
    fn load(weights: &Weights, name: &str, inputs: usize, outputs: usize, stride: usize) -> Result<Self> {
        let scope = weights.scope(name);
        let published = scope.values("weight", &[outputs, inputs, 3])?;
        let mut weight = vec![0.0; published.len()];
        for (at, value) in published.into_iter().enumerate() {
            let (output, input, tap) = (at / (3 * inputs), at / 3 % inputs, at % 3);
            weight[(tap * inputs + input) * outputs + output] = value;
        }
        Ok(Self {
            weight: Tensor::from_data(TensorData::new(weight, [3 * inputs, outputs]), scope.device()),
            bias: scope.tensor::<1>("bias", [outputs])?.unsqueeze(),
            inputs,
            stride,
        })
    }

    /// Applies the convolution: `[chunks, frames, inputs]` to `[chunks, frames / stride, outputs]`, rounded up.
    ///
    /// A chunk has four frames at most, so each output frame is a separate product over the inputs that exist: nothing
    /// is multiplied by the zeros around a chunk.
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [chunks, frames, inputs] = x.dims();
        let outputs = (0..frames.div_ceil(self.stride)).map(|output| {
            let centre = output * self.stride;
            let (first, last) = (centre.saturating_sub(1), (centre + 1).min(frames - 1));
            let seen = last + 1 - first;
            let near = x.clone().narrow(1, first, seen).reshape([chunks, seen * inputs]);
            let weight = self.weight.clone().narrow(0, (first + 1 - centre) * self.inputs, seen * self.inputs);
            activation::relu(near.matmul(weight) + self.bias.clone()).unsqueeze_dim::<3>(1)
        });
        Tensor::cat(outputs.collect(), 1)
    }
}
