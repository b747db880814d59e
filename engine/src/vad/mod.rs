//! Voice activity: speech in audio, and the turns, windows and words that follow from it.
//!
//! - [`chunker`]: cuts recordings into windows at silence.
//! - [`endpointer`]: ends turns of live speech.
//! - [`segmenter`]: speech probabilities to segments of speech.
//! - [`speech_filter`]: drops words far from detected speech.
//! - [`stream`]: the detector over a stream of samples.

pub mod chunker;
pub mod endpointer;
pub mod segmenter;
pub mod speech_filter;
pub mod stream;
