//! The excitation: its phases are added up on the CPU, in 64 bits, and so is its noise drawn; sines and spectra are computed here.

use auricle_kernels::spectral::harmonics::harmonics;
use auricle_kernels::spectral::stft::polar_stft;
use burn::tensor::{Device, Tensor, TensorData};

use crate::models::kokoro::config::GeneratorConfig;
use crate::models::kokoro::source::{self, hann};

/// The source.
#[derive(Debug)]
pub struct Source {
    /// `[window]`
    window: Tensor<1>,
    hop: usize,
}

impl Source {
    pub fn new(config: &GeneratorConfig, device: &Device) -> Self {
        Self { window: vector(hann(config.window), device), hop: config.hop }
    }

    /// Spectra of the excitation of a pitch, `[samples / hop + 1, 2 bins]`, `frame` samples for each value, with normal `noise` for each
    /// sample.
    pub fn spectra(&self, source: &source::Source, pitch: &[f32], frame: usize, noise: &[f32]) -> Tensor<2> {
        let device = self.window.device();
        let weights = source.weights().to_vec();
        let turns = TensorData::new(source.segments(pitch, frame), [pitch.len(), weights.len(), 2]);
        let levels = vector(source.levels(pitch), &device);
        let beside = vector(source.beside(pitch, frame, noise), &device);
        let samples = harmonics(Tensor::from_data(turns, &device), vector(weights, &device), levels, beside);
        polar_stft(samples, self.window.clone(), self.hop)
    }
}

fn vector(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let count = values.len();
    Tensor::from_data(TensorData::new(values, [count]), device)
}
