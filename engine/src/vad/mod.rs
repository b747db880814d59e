//! Voice activity: speech in audio, and the turns, windows and words that follow from it.
//!
//! - [`chunker`]: cuts recordings into windows at silence.
//! - [`endpointer`]: ends turns of live speech.
//! - [`seam`]: joins the words of windows.
//! - [`segmenter`]: speech probabilities to segments of speech.
//! - [`shared`]: one pass of the detector for several readers.
//! - [`speech_filter`]: drops words far from detected speech.
//! - [`stream`]: the detector over a stream of samples.
//! - [`turn_audio`]: the audio of live turns, in windows.
//! - [`window`]: pieces of a recording with the speech in them.

pub mod chunker;
pub mod endpointer;
pub mod seam;
pub mod segmenter;
pub mod shared;
pub mod speech_filter;
pub mod stream;
pub mod turn_audio;
pub mod window;
