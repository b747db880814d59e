//! The inverse of a short-time Fourier transform with centred frames: spectra to samples, frame by frame, on the CPU. The result is
//! that of `torch.istft` with `center=True`, whatever the pieces in which frames come.

use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner};

/// Below this sum of squared windows a sample is not determined.
pub(crate) const LEAST_WEIGHT: f32 = 1e-11;

/// A transform of one window.
#[derive(Clone)]
pub struct Istft {
    inverse: Arc<dyn ComplexToReal<f32>>,
    /// `[window]`
    window: Arc<[f32]>,
    hop: usize,
}

impl std::fmt::Debug for Istft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Istft {{ window: {}, hop: {} }}", self.window.len(), self.hop)
    }
}

/// Samples of a stream that later frames still change.
#[derive(Clone, Debug)]
pub struct IstftState {
    /// Sums of windowed frames and of squared windows, from the first sample that is not complete on: `[window]` each.
    sums: Vec<f32>,
    weights: Vec<f32>,
    /// Samples before the first frame's centre that are still to be dropped.
    lead: usize,
}

impl Istft {
    /// A transform of `window` with a frame every `hop` samples. None if the window has an odd length, is shorter than two hops, or
    /// the hop is 0.
    pub fn new(window: &[f32], hop: usize) -> Option<Self> {
        let valid = hop > 0 && window.len().is_multiple_of(2) && window.len() >= 2 * hop;
        let inverse = || RealFftPlanner::<f32>::new().plan_fft_inverse(window.len());
        valid.then(|| Self { inverse: inverse(), window: window.into(), hop })
    }

    /// Frequencies of a spectrum.
    pub fn bins(&self) -> usize {
        self.window.len() / 2 + 1
    }

    /// Samples from one frame to the next.
    pub fn hop(&self) -> usize {
        self.hop
    }

    /// The state before the first frame.
    pub fn start(&self) -> IstftState {
        let length = self.window.len();
        IstftState { sums: vec![0.0; length], weights: vec![0.0; length], lead: length / 2 }
    }

    /// Adds the next frame, of `spectrum` `[bins]`, and appends the samples that are complete by it to `out`. The imaginary parts of the
    /// first and last bin count as 0.
    ///
    /// # Panics
    /// When `spectrum` has another length.
    pub fn push(&self, state: &mut IstftState, spectrum: &mut [Complex<f32>], out: &mut Vec<f32>) {
        let length = self.window.len();
        assert_eq!(spectrum.len(), self.bins(), "inverse transform: bins of the spectrum");
        spectrum[0].im = 0.0;
        spectrum[length / 2].im = 0.0;
        let mut frame = vec![0f32; length];
        // Lengths and imaginary parts are right, so that it cannot fail.
        let done = self.inverse.process(spectrum, &mut frame);
        debug_assert!(done.is_ok());
        let scale = 1.0 / length as f32;
        let sums = state.sums.iter_mut().zip(&mut state.weights);
        for (((sum, weight), value), window) in sums.zip(frame).zip(self.window.iter()) {
            *sum += value * scale * window;
            *weight += window * window;
        }
        self.take(state, self.hop, out);
    }

    /// Appends the samples up to the last frame's centre, which no frame will change any more.
    pub fn finish(&self, state: &mut IstftState, out: &mut Vec<f32>) {
        self.take(state, self.window.len() / 2 - self.hop, out);
    }

    /// Appends the first `count` samples of the state and moves on by them.
    fn take(&self, state: &mut IstftState, count: usize, out: &mut Vec<f32>) {
        let skipped = state.lead.min(count);
        state.lead -= skipped;
        let complete = state.sums[skipped..count].iter().zip(&state.weights[skipped..count]);
        out.extend(complete.map(|(sum, weight)| if *weight > LEAST_WEIGHT { sum / weight } else { 0.0 }));
        for values in [&mut state.sums, &mut state.weights] {
            values.copy_within(count.., 0);
            let kept = values.len() - count;
            values[kept..].fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hann(length: usize) -> Vec<f32> {
        (0..length).map(|at| 0.5 - 0.5 * (std::f32::consts::TAU * at as f32 / length as f32).cos()).collect()
    }

    /// Spectra of centred frames of a signal, with zeros around it.
    fn spectra(signal: &[f32], window: &[f32], hop: usize) -> Vec<Vec<Complex<f32>>> {
        let forward = RealFftPlanner::<f32>::new().plan_fft_forward(window.len());
        let frames = signal.len() / hop + 1;
        let frame = |at: usize| {
            let sample = |n: usize| (at * hop + n).checked_sub(window.len() / 2).and_then(|n| signal.get(n)).copied();
            let mut frame: Vec<f32> =
                window.iter().enumerate().map(|(n, w)| w * sample(n).unwrap_or_default()).collect();
            let mut spectrum = forward.make_output_vec();
            forward.process(&mut frame, &mut spectrum).unwrap();
            spectrum
        };
        (0..frames).map(frame).collect()
    }

    #[test]
    fn the_inverse_of_a_transform_is_the_signal() {
        let (window, hop) = (hann(64), 16);
        let signal: Vec<f32> = (0..160).map(|at| (at as f32 * 0.7).sin() + 0.3).collect();
        let istft = Istft::new(&window, hop).unwrap();
        let (mut state, mut out) = (istft.start(), Vec::new());
        for mut spectrum in spectra(&signal, &window, hop) {
            istft.push(&mut state, &mut spectrum, &mut out);
        }
        istft.finish(&mut state, &mut out);
        assert_eq!(out.len(), 160);
        for (at, (ours, wanted)) in out.iter().zip(&signal).enumerate() {
            assert!((ours - wanted).abs() < 1e-5, "sample {at}: {ours} against {wanted}");
        }
    }

    #[test]
    fn a_window_that_cannot_be_inverted_is_refused() {
        assert!(Istft::new(&hann(64), 33).is_none() && Istft::new(&hann(64), 0).is_none());
        assert!(Istft::new(&hann(63), 16).is_none() && Istft::new(&hann(64), 32).is_some());
    }
}
