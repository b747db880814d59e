use burn::backend::Flex;
use burn::backend::tensor::FloatTensor;

use super::PolarStftOps;
use crate::flex::{tensor, values};

impl PolarStftOps for Flex {
    fn polar_stft(samples: FloatTensor<Self>, window: FloatTensor<Self>, hop: usize) -> FloatTensor<Self> {
        let [samples, window] = values([samples, window]);
        let (length, last) = (window.len(), samples.len() - 1);
        let half = length / 2;
        let mirrored = |at: usize| match at.checked_sub(half) {
            None => samples[(half - at).min(last)],
            Some(at) if at <= last => samples[at],
            Some(at) => samples[(2 * last).saturating_sub(at)],
        };
        let mut out = Vec::with_capacity((samples.len() / hop + 1) * (length + 2));
        for frame in 0..=samples.len() / hop {
            let spectrum = (0..=half).map(|bin| {
                let (mut real, mut imaginary) = (0f64, 0f64);
                for (at, window) in window.iter().enumerate() {
                    let angle = std::f64::consts::TAU * (bin * at % length) as f64 / length as f64;
                    let value = f64::from(window * mirrored(frame * hop + at));
                    real += value * angle.cos();
                    imaginary -= value * angle.sin();
                }
                // The first and last frequency have no imaginary part.
                (real as f32, if bin == 0 || bin == half { 0.0 } else { imaginary as f32 })
            });
            let spectrum: Vec<(f32, f32)> = spectrum.collect();
            out.extend(spectrum.iter().map(|(real, imaginary)| real.hypot(*imaginary)));
            out.extend(spectrum.iter().map(|(real, imaginary)| imaginary.atan2(*real)));
        }
        tensor(out, [samples.len() / hop + 1, length + 2].into())
    }
}
