//! Analysis of transcripts: sentiment, moderation, chapters, summary. No tensors, no language model.

pub mod sentiment;
