//! Texts of language models: a conversation in, an answer out, piece by piece.

mod reply;

pub use reply::ChatReply;
pub(crate) use reply::{ChatLimits, context_tokens, open, prompt};
