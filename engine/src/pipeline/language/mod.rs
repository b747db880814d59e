//! Texts of language models: a conversation in, an answer out, piece by piece.

mod executor;
mod reply;
mod sequence;

pub use executor::{LanguageBatchKey, LanguageExecutor, LanguageOutput, LanguageRequest};
pub use reply::ChatReply;
pub(crate) use reply::{ChatLimits, context_tokens, open, prompt};
