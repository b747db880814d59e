//! A recording to a transcript, by the family of its checkpoint.

mod progress;
pub(crate) mod qwen3_asr;
pub(crate) mod speaker_labels;
pub mod transducer;
mod unwritten;
pub(crate) mod whisper;
pub(crate) mod whisper_windows;
mod whisper_words;
mod window_reader;
