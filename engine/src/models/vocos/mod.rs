//! Vocoders in the form of Vocos. See `README.md` beside this file.

mod config;
mod cpu;
mod gpu;
mod model;

pub use config::Config;
pub use model::{MelChunk, Vocos, VocosState};
