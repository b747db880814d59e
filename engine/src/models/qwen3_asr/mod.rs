//! Qwen3-ASR: an audio encoder in windows, and a language model that reads its frames. See `README.md` beside this file.

mod aligner;
mod audio_model;
mod config;
mod decoding;
mod encoder;
mod model;
mod prompt;

pub use aligner::Aligner;
pub use audio_model::AudioModel;
pub use config::Config;
pub use decoding::{DecodingBatch, Outcome, Written};
pub use encoder::Encoder;
pub use model::Qwen3Asr;
pub use prompt::{Prompt, Prompts};
