//! The short-time Fourier transform of a whole utterance to magnitudes and phases, on GPUs in one launch. The body on the CPU is for tests.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;

use crate::flex::{contiguous, floats, tensor};

/// Magnitudes, then phases, of the spectra of centred frames of `samples`, one every `hop`: `[samples / hop + 1, 2 * bins]`. The `window` has
/// `2 * (bins - 1)` values. The samples are mirrored at their ends, as `torch.stft` with `center=True` does.
///
/// # Panics
/// When there are no samples, or a window of an odd length.
pub fn polar_stft(samples: Tensor<1>, window: Tensor<1>, hop: usize) -> Tensor<2> {
    let ([count], [length]) = (samples.dims(), window.dims());
    assert!(count > 0 && length > 0 && length.is_multiple_of(2) && hop > 0, "transform: samples and window");
    Tensor::from_dispatch(Dispatch::polar_stft(samples.into_dispatch(), window.into_dispatch(), hop))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait PolarStftOps: Backend {
    fn polar_stft(samples: FloatTensor<Self>, window: FloatTensor<Self>, hop: usize) -> FloatTensor<Self>;
}

impl PolarStftOps for Flex {
    fn polar_stft(samples: FloatTensor<Self>, window: FloatTensor<Self>, hop: usize) -> FloatTensor<Self> {
        let [samples, window] = [samples, window].map(contiguous);
        let [samples, window] = [&samples, &window].map(floats);
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

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Cube, FloatDType, TensorMetadata};
    use cubecl::prelude::*;

    use super::PolarStftOps;
    use crate::elementwise::{angle, sine};

    impl PolarStftOps for Cube {
        fn polar_stft(samples: FloatTensor<Self>, window: FloatTensor<Self>, hop: usize) -> FloatTensor<Self> {
            let (client, device) = (samples.client.clone(), samples.device());
            let (count, length) = (samples.shape()[0], window.shape()[0]);
            let frames = count / hop + 1;
            let bins = frames * (length / 2 + 1);
            let out = Self::float_empty([frames, length + 2].into(), &device, FloatDType::F32);
            let dim = CubeDim::new(&client, bins);
            stft_kernel::launch(
                &client,
                cubecl::calculate_cube_count_elemwise(&client, bins, dim),
                dim,
                samples.into_tensor_arg(),
                window.into_tensor_arg(),
                out.clone().into_tensor_arg(),
                bins as u32,
                count as u32,
                length as u32,
                hop as u32,
            );
            out
        }
    }

    /// One unit per frequency of a frame. All tensors are contiguous.
    #[cube(launch)]
    fn stft_kernel(
        samples: &Tensor<f32>,
        window: &Tensor<f32>,
        out: &mut Tensor<f32>,
        bins: u32,
        count: u32,
        length: u32,
        hop: u32,
    ) {
        let number = ABSOLUTE_POS;
        if number < bins as usize {
            let (last, length) = (count as usize - 1, length as usize);
            let half = length / 2;
            let (frame, bin) = (number / (half + 1), number % (half + 1));
            let first = frame * hop as usize;
            let turn = f32::new(core::f32::consts::TAU) / f32::cast_from(length as u32);
            let quarter = f32::new(core::f32::consts::FRAC_PI_2);
            let (mut real, mut imaginary) = (f32::new(0.0), f32::new(0.0));
            for at in 0..length {
                // Samples are counted from half a window before the first.
                let mut place = first + at;
                if place < half {
                    place = min(half - place, last);
                } else {
                    place -= half;
                    if place > last {
                        if place > 2 * last {
                            place = 2 * last;
                        }
                        place = 2 * last - place;
                    }
                }
                let value = window[at] * samples[place];
                let wave = f32::cast_from((bin * at % length) as u32) * turn;
                real += value * sine(wave + quarter);
                imaginary -= value * sine(wave);
            }
            if bin == 0 || bin == half {
                // No imaginary part.
                imaginary = f32::new(0.0);
            }
            let to = frame * (length + 2) + bin;
            out[to] = (real * real + imaginary * imaginary).sqrt();
            out[to + half + 1] = angle(imaginary, real);
        }
    }
}
