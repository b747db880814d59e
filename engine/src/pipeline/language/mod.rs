//! Texts of language models: a conversation in, an answer out, piece by piece.

mod constraint;
mod executor;
mod reply;
mod request;
mod sequence;

pub use executor::{LanguageBatchKey, LanguageExecutor};
pub use reply::ChatReply;
pub(crate) use reply::{ChatLimits, context_tokens, open, prompt};
pub use request::{LanguageOutput, LanguageRequest};
