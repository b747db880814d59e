//! Speakers over time: embeddings of short windows of speech to speakers, and words to utterances.
//!
//! - [`listener`]: samples to windows of speech with their mel rows.
//! - [`windows`]: where windows lie inside detected speech, and what each decides.
//! - [`spectrum`]: the leading eigenvectors of a symmetric matrix.
//! - [`clustering`]: the windows of a block to speakers, and the speakers of all blocks to those of the recording.
//! - [`words`]: a speaker for each word, and utterances.

pub mod clustering;
pub mod listener;
pub mod spectrum;
pub mod windows;
pub mod words;
