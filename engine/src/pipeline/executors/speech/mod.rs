//! Speech synthesis: clauses in, samples out.
//!
//! - `executor`: the steps of all streams.
//! - `frame_steps`: the steps of models that give one frame after another.
//! - `clause_steps`: the steps of models that say a clause at once.
//! - `slot`: a stream on its device.
//! - [`voice_model`]: a model that speaks, and its voices.
//! - `phone_voice`: a folder with an acoustic model, a vocoder and a G2P model.
//! - `clause_voice`: a folder with a model that says a clause at once.
//! - [`phrase`]: a clause as a model reads it.
//! - [`text_phrase`]: the same for a model that needs no phones.

mod clause_steps;
mod clause_voice;
mod executor;
mod frame_steps;
mod phone_voice;
pub mod phrase;
mod slot;
pub mod text_phrase;
pub mod voice_model;

pub use executor::{SpeechBatchKey, SpeechExecutor};
pub use slot::{Progress, SpeechOutput, SpeechRequest};
