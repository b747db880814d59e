//! Words and spans in, words and spans out; no tensors.

pub mod analysis;
pub mod byte_level;
pub mod documents;
pub mod extractive;
pub mod itn;
pub mod lm;
pub mod medical;
mod number_words;
pub(crate) mod quote_marks;
pub mod search;
pub mod search_tokens;
pub mod segments;
pub(crate) mod sentence_boundaries;
pub mod speech;
pub mod subtitles;
pub mod tokens;
pub mod tool_calls;
mod word;
pub(crate) mod word_list;

pub use word::Word;
