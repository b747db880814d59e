//! Answers of language models, token by token.
//!
//! - `executor`: the steps of all answers.
//! - `request`: a conversation in, pieces of an answer out.
//! - `sequence`: an answer that is being generated.
//! - [`constraint`]: the grammar that an answer is held to.

pub mod constraint;
mod executor;
mod request;
mod sequence;

pub use executor::{LanguageBatchKey, LanguageExecutor};
pub use request::{LanguageOutput, LanguageRequest};
