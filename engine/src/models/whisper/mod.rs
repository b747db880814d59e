//! Whisper speech recognition: all published sizes, and distilled checkpoints. See `README.md` beside this file.

mod align;
mod attention;
mod config;
mod decoder;
mod decoding;
mod encoder;
mod model;
mod sequence;
mod token_mask;
mod vocabulary;

pub use align::{median_filter, token_times, warp};
pub use config::{Config, Special};
pub use decoder::{DecoderOutput, Scores, Steps};
pub use decoding::{DecodeOptions, DecodedWindow, Decoding, Task};
pub use model::Whisper;
pub use sequence::Previous;
pub use token_mask::{Rules, compression_ratio};
pub use vocabulary::{Vocabulary, WordTokens};
