//! A recording to a transcript, by the family of its checkpoint.

pub(crate) mod speaker_labels;
pub mod transducer;
pub(crate) mod transducer_executor;
mod unwritten;
pub(crate) mod voice_executor;
pub(crate) mod whisper;
pub(crate) mod whisper_executor;
mod whisper_windows;
mod whisper_words;
