//! Analysis of transcripts: sentiment, moderation, chapters, summary. No tensors, no language model.

pub mod chapters;
mod phrases;
pub mod sentiment;
mod stop_words;
pub mod summary;
mod terms;
