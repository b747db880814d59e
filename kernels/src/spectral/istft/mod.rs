//! The inverse of a short-time Fourier transform of a whole utterance, from the values that a network gives for a spectrum, on GPUs in one
//! launch. On the CPU it is [`Istft`].

mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;
pub use cpu::{Istft, IstftState};

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
