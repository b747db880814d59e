//! Words and spans in, words and spans out; no tensors.

pub mod format;
pub mod lm;
mod marks;
pub mod search;
pub mod segments;
pub mod subtitles;
pub mod tokens;
