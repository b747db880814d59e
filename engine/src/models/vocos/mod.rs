//! Vocoders in the form of Vocos. See `README.md` beside this file.

mod chunk;
mod config;
mod cpu;
mod gpu;
mod model;

pub use chunk::MelChunk;
pub use config::Config;
pub use model::{Vocos, VocosState};
