//! Words and spans in, words and spans out; no tensors.

pub mod lm;
pub mod subtitles;
pub mod tokens;
