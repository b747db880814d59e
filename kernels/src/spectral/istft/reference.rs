use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};
use realfft::num_complex::Complex;

use super::PolarIstftOps;
use crate::flex::{tensor, values};
use crate::spectral::istft::Istft;

impl PolarIstftOps for Flex {
    fn polar_istft(polar: FloatTensor<Self>, window: FloatTensor<Self>, hop: usize) -> FloatTensor<Self> {
        let numbers = polar.shape()[1];
        let [polar, window] = values([polar, window]);
        let mut out = Vec::new();
        // The caller has asked that the window fits.
        if let Some(istft) = Istft::new(&window, hop) {
            let mut state = istft.start();
            for frame in polar.chunks_exact(numbers) {
                let (magnitudes, phases) = frame.split_at(numbers / 2);
                let bin = |(magnitude, phase): (&f32, &f32)| Complex::from_polar(magnitude.exp(), phase.sin());
                let mut spectrum: Vec<_> = magnitudes.iter().zip(phases).map(bin).collect();
                istft.push(&mut state, &mut spectrum, &mut out);
            }
            istft.finish(&mut state, &mut out);
        }
        let count = out.len();
        tensor(out, [count].into())
    }
}
