//! The inverse of a short-time Fourier transform of a whole utterance, from the values that a network gives for a spectrum, on GPUs in one
//! launch. On the CPU it is [`Istft`].

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::Tensor;
use realfft::num_complex::Complex;

use crate::flex::{contiguous, floats, tensor};
use crate::istft::Istft;

/// Samples of centred frames, one every `hop`: `values` are `[frames, 2 * bins]`, the logarithms of magnitudes, then numbers whose sines are
/// the phases. `window` has `2 * (bins - 1)` values. Returns `[(frames - 1) * hop]`, as `torch.istft` with `center=True`.
///
/// # Panics
/// When the shapes do not match, or the window is shorter than two hops.
pub fn polar_istft(values: Tensor<2>, window: Tensor<1>, hop: usize) -> Tensor<1> {
    let ([frames, numbers], [length]) = (values.dims(), window.dims());
    assert!(
        numbers == length + 2 && length.is_multiple_of(2) && hop > 0 && length >= 2 * hop,
        "inverse transform: numbers of a spectrum and the window"
    );
    if frames <= 1 {
        return Tensor::zeros([0], &values.device());
    }
    Tensor::from_dispatch(Dispatch::polar_istft(values.into_dispatch(), window.into_dispatch(), hop))
}

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait PolarIstftOps: Backend {
    fn polar_istft(values: FloatTensor<Self>, window: FloatTensor<Self>, hop: usize) -> FloatTensor<Self>;
}

impl PolarIstftOps for Flex {
    fn polar_istft(values: FloatTensor<Self>, window: FloatTensor<Self>, hop: usize) -> FloatTensor<Self> {
        let [values, window] = [values, window].map(contiguous);
        let numbers = values.shape()[1];
        let [values, window] = [&values, &window].map(floats);
        let mut out = Vec::new();
        // The caller has asked that the window fits.
        if let Some(istft) = Istft::new(window, hop) {
            let mut state = istft.start();
            for frame in values.chunks_exact(numbers) {
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

#[cfg(feature = "wgpu")]
mod kernel {
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Cube, FloatDType, TensorMetadata};
    use cubecl::prelude::*;

    use super::PolarIstftOps;
    use crate::elementwise::sine;
    use crate::istft::LEAST_WEIGHT;

    impl PolarIstftOps for Cube {
        fn polar_istft(values: FloatTensor<Self>, window: FloatTensor<Self>, hop: usize) -> FloatTensor<Self> {
            let values = crate::cube::contiguous(values);
            let (client, device) = (values.client.clone(), values.device());
            let (frames, length) = (values.shape()[0], window.shape()[0]);
            let samples = (frames - 1) * hop;
            let out = Self::float_empty([samples].into(), &device, FloatDType::F32);
            let dim = CubeDim::new(&client, samples);
            istft_kernel::launch(
                &client,
                cubecl::calculate_cube_count_elemwise(&client, samples, dim),
                dim,
                values.into_tensor_arg(),
                window.into_tensor_arg(),
                out.clone().into_tensor_arg(),
                samples as u32,
                frames as u32,
                length as u32,
                hop as u32,
            );
            out
        }
    }

    /// One unit per sample: the frames that overlap there, each by the sum of its waves.
    #[cube(launch)]
    fn istft_kernel(
        values: &Tensor<f32>,
        window: &Tensor<f32>,
        out: &mut Tensor<f32>,
        samples: u32,
        frames: u32,
        length: u32,
        hop: u32,
    ) {
        let sample = ABSOLUTE_POS;
        if sample < samples as usize {
            let (frames, length, hop) = (frames as usize, length as usize, hop as usize);
            let half = length / 2;
            // Counted from the start of the first frame's window.
            let at = sample + half;
            let mut frame = 0usize.runtime();
            if at >= length {
                frame = (at - length) / hop + 1;
            }
            let end = min(at / hop + 1, frames);
            let turn = f32::new(core::f32::consts::TAU) / f32::cast_from(length as u32);
            let (mut sum, mut weight) = (f32::new(0.0), f32::new(0.0));
            while frame < end {
                let place = at - frame * hop;
                let first = frame * (length + 2);
                let mut value = f32::new(0.0);
                let mut bin = 0usize.runtime();
                while bin <= half {
                    let magnitude = values[first + bin].exp();
                    let phase = sine(values[first + half + 1 + bin]);
                    // A quarter of a turn makes the sine a cosine.
                    let angle = f32::cast_from((bin * place % length) as u32) * turn;
                    let quarter = f32::new(core::f32::consts::FRAC_PI_2);
                    if bin == 0 || bin == half {
                        // No imaginary part.
                        value += magnitude * sine(phase + quarter) * sine(angle + quarter);
                    } else {
                        value += f32::new(2.0) * magnitude * sine(phase + angle + quarter);
                    }
                    bin += 1;
                }
                sum += window[place] * value / f32::cast_from(length as u32);
                weight += window[place] * window[place];
                frame += 1;
            }
            let mut result = f32::new(0.0);
            if weight > f32::new(comptime!(LEAST_WEIGHT)) {
                result = sum / weight;
            }
            out[sample] = result;
        }
    }
}
