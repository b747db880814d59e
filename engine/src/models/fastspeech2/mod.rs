//! Acoustic models in the form of FastSpeech 2 with conformer layers. See `README.md` beside this file.

mod config;
mod cpu;
mod durations;
mod gpu;
mod model;
mod utterance;

pub use config::Config;
pub use durations::MOST_FRAMES;
pub use model::FastSpeech2;
pub use utterance::{MelFrames, Stages, Utterance};
