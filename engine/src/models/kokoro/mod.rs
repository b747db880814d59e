//! Text to speech in the form of Kokoro. See `README.md` beside this file.

mod adain;
mod albert;
mod config;
mod cpu;
mod decoder;
mod generator;
mod gpu;
mod lstm;
mod model;
mod network;
mod prosody;
mod source;
mod stages;
mod symbols;
mod text_encoder;
mod weight_norm;

pub use config::Config;
pub use model::{Kokoro, Spoken, Utterance, has_voice, other_language, voice_ids};
pub use network::{Network, Unfinished};
pub use stages::{Advanced, Stages, Values};
pub use symbols::{SILENCE, Symbols};
