//! Samples to spectra and back.
//!
//! - [`logmel`]: samples to log-mel frames, for whole utterances and live streams
//! - [`stft`]: samples to magnitudes and phases, whole utterances on GPUs
//! - [`istft`]: spectra of overlapping frames to samples
//! - [`harmonics`]: sums of sines whose phases grow from value to value of a pitch

pub mod harmonics;
pub mod istft;
pub mod logmel;
pub mod stft;
