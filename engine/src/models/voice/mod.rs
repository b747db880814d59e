//! Speaker embeddings in the form of ECAPA-TDNN. See `README.md` beside this file.

mod config;
mod convolution;
mod cpu;
mod fingerprint;
mod gpu;
mod model;

pub use config::{Config, MODEL_TYPE};
pub use fingerprint::fingerprint;
pub use model::VoiceEmbedder;
