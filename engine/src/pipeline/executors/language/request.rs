//! Messages to the executor of language models, and from it.

use std::sync::Arc;

use super::constraint::Constraint;
use crate::chat::ChatEnd;
use crate::decoding::sampling::SamplingOptions;
use crate::error::Result;
use crate::models::decoder::ChatModel;

/// Opens a text.
pub struct LanguageRequest {
    /// The model that writes.
    pub model: Arc<ChatModel>,
    /// The prompt, at least one token.
    pub tokens: Vec<u32>,
    /// Tokens of the text at most.
    pub max_tokens: usize,
    /// The choice of tokens.
    pub sampling: SamplingOptions,
    /// The grammar that it keeps to.
    pub constraint: Option<Constraint>,
    /// Texts that end the text.
    pub stop: Vec<String>,
    /// Texts of one account share what they begin with.
    pub account: Arc<str>,
    /// Its prompt is read before those of others.
    pub live: bool,
    /// The model may think before it answers.
    pub thinking: bool,
    /// Memory for keys and values of all texts of the model, bytes.
    pub kv_bytes: usize,
}

/// The next part of a text.
pub struct LanguageOutput {
    /// Whole characters.
    pub text: String,
    /// Nothing follows.
    pub end: Option<Result<ChatEnd>>,
}
