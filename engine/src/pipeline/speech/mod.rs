//! Speech synthesis: text in as it is written, frames of speech out.
//!
//! - [`session`]: the two halves that a caller holds, text in and frames out.
//! - `feed`: text that is pushed and not said yet, clause by clause.
//! - `framing`: samples of clauses to frames of 80 ms with their words.
//! - `pacing`: frames no more than half a second ahead of real time.
//! - `executor`: the steps of all streams.
//! - `phrase`: a clause as the acoustic model reads it.
//! - `voice_model`: a folder with an acoustic model, a vocoder and a G2P model, and its voices.

mod executor;
mod feed;
mod framing;
mod pacing;
mod phrase;
pub mod session;
pub(crate) mod voice_model;

pub(crate) use executor::{SpeechBatchKey, SpeechExecutor, SpeechOutput, SpeechRequest};
pub(crate) use phrase::Phrase;
