//! What the endpoints of language models share: their state, the choice of a model, and errors.

use std::sync::Arc;
use std::time::Duration;

use auricle_engine::extractive::Passage;
use hyper::StatusCode;
use serde_json::{Value, json};

use super::rendering::Renderer;
use super::transcripts::{completed_transcript, unknown};
use crate::http::response::{ApiError, Result};
use crate::ids::AccountId;
use crate::language::source::{Unit, passages};
use crate::language::{LanguageError, LanguageModel, LanguageModels};
use crate::store::{Store, Transcript};

/// The id that answers about transcripts have where no model wrote them.
pub const EXTRACTIVE: &str = "extractive";

/// The time between comments in a stream while a model is silent, and how long a stream waits for its first piece before its
/// status is sent.
pub const COMMENT_INTERVAL: Duration = Duration::from_secs(10);

/// A comment in a stream, which keeps its connection open.
pub const WAITING: &str = ": waiting\n\n";

/// An event of a stream.
pub fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// The event of a failure after the status was sent.
pub fn failure(error: ApiError) -> String {
    event(&json!({ "error": { "code": error.code, "message": error.message, "type": "server_error" } }))
}

/// The state of chat and understanding.
pub struct LanguageState {
    pub store: Store,
    pub models: LanguageModels,
    pub renderer: Arc<Renderer>,
    /// Makes the marks around transcripts that nobody can guess.
    pub secret: Arc<str>,
}

impl LanguageState {
    /// The model of this id, or the default one. None if there is no model.
    ///
    /// # Errors
    /// 400 for an id that the catalog lacks, 503 for a model without a checkpoint.
    pub fn find(&self, id: Option<&str>) -> Result<Option<Arc<dyn LanguageModel>>> {
        match id {
            None => Ok(self.models.default_model().cloned()),
            Some(id) => match self.models.find(id) {
                Some(model) if model.is_available() => Ok(Some(model.clone())),
                Some(_) => Err(model_unavailable()),
                None => Err(unknown_model(id, self.models.ids().collect())),
            },
        }
    }

    /// A completed transcript, and its words as passages.
    ///
    /// # Errors
    /// 404 and 409.
    pub async fn passages(
        &self,
        account: &AccountId,
        id: String,
        unit: Unit,
    ) -> Result<(Arc<Transcript>, Vec<Passage>)> {
        let transcript = completed_transcript(&self.store, account, id).await?;
        let permit = self.renderer.permit().await?;
        let words = self.store.words(&transcript).await?.ok_or_else(unknown)?;
        let passages = self.renderer.run(permit, move || passages(&words, unit)).await?;
        Ok((transcript, passages))
    }
}

/// 400 for a model that the catalog lacks, or that does something else.
pub fn unknown_model(id: &str, mut known: Vec<&str>) -> ApiError {
    known.sort_unstable();
    let known = if known.is_empty() { "leave it out".to_owned() } else { format!("it may be {}", known.join(", ")) };
    ApiError::new(StatusCode::BAD_REQUEST, "unknown_model", format!("There is no language model {id:?}; {known}."))
}

/// 503 where no language model is there.
pub fn model_unavailable() -> ApiError {
    let message = "No language model is here: fetch one with `auricle models pull chat`, which the running service then uses, or set \
                   `language_upstream` to a server that has one.";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "model_unavailable", message)
}

impl From<LanguageError> for ApiError {
    fn from(error: LanguageError) -> Self {
        match error {
            LanguageError::Upstream(cause) => {
                tracing::warn!(%cause, "the language model's server failed");
                let message = format!("The language model's server failed: {cause}.");
                Self::new(StatusCode::BAD_GATEWAY, "upstream_error", message)
            }
            LanguageError::ContextLength { tokens, context } => {
                let message = format!(
                    "The conversation has about {tokens} tokens with its answer, and the model takes {context}. Send less."
                );
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "context_length_exceeded", message)
            }
            LanguageError::UnsupportedSchema(message) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "unsupported_schema", message)
            }
            LanguageError::Unavailable(message) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "model_unavailable", sentence(&message))
            }
            LanguageError::Busy(message) => Self::busy(sentence(&message)),
            LanguageError::Refused(message) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "unsupported_option", sentence(&message))
            }
            LanguageError::Local(cause) => {
                tracing::error!(%cause, "the language model failed");
                let message = format!("The language model failed: {cause}.");
                Self::new(StatusCode::BAD_GATEWAY, "model_error", message)
            }
        }
    }
}

/// A message of the engine as a sentence.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map_or_else(String::new, |first| first.to_uppercase().collect());
    format!("{first}{}.", letters.as_str())
}
