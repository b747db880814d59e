//! Speech synthesis: clauses in, samples out.
//!
//! - `executor`: the steps of all streams.
//! - [`phrase`]: a clause as the acoustic model reads it.
//! - [`voice_model`]: a folder with an acoustic model, a vocoder and a G2P model, and its voices.

mod executor;
pub mod phrase;
pub mod voice_model;

pub use executor::{Progress, SpeechBatchKey, SpeechExecutor, SpeechOutput, SpeechRequest};
