//! Recordings by Whisper: windows of audio in, decoded windows out.
//!
//! - `executor`: the steps of all recordings.
//! - [`windows`]: a window that is being decoded, and its temperature fallback.

mod executor;
pub mod windows;

pub use executor::{LanguageChoice, TranscribedWindow, WhisperBatchKey, WhisperExecutor, WhisperInput, WhisperRequest};
