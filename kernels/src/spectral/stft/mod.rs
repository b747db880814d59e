//! The short-time Fourier transform of a whole utterance to magnitudes and phases, on GPUs in one launch.

#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;

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
