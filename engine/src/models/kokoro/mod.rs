//! Text to speech in the form of Kokoro. See `README.md` beside this file.

mod adain;
mod albert;
mod config;
mod decoder;
mod generator;
mod lstm;
mod model;
mod network;
mod prosody;
mod source;
mod symbols;
mod text_encoder;
mod weight_norm;

pub use config::Config;
pub use generator::{Advanced, Unfinished};
pub use model::{Kokoro, Spoken, Utterance, has_voice, other_language, voice_ids};
pub use network::{Network, Stages};
pub use symbols::{SILENCE, Symbols};
