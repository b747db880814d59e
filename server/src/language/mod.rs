//! Language models behind one trait, and what the service asks them about a transcript.
//!
//! Order: `understanding` and `grounding` write prompts over a `source`; `local` is a model in this process, `upstream` a server of
//! OpenAI's chat shape, read by `upstream_stream`; `schema` holds answers to a `json_schema`, `repetition` ends those that repeat themselves.

pub mod grounding;
mod json_schema;
pub mod local;
pub mod repetition;
pub mod schema;
pub mod source;
pub mod understanding;
pub mod upstream;
mod upstream_stream;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use serde_json::{Value, json};

use crate::ids::AccountId;
use crate::sharing::Places;

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    System,
    User,
    Assistant,
    /// The result of a tool.
    Tool,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
}

impl ToolCall {
    /// The call in OpenAI's shape.
    pub fn json(&self) -> Value {
        json!({ "id": self.id, "type": "function", "function": { "name": self.name, "arguments": self.arguments } })
    }
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    pub content: String,
    /// Of an assistant's message.
    pub tool_calls: Vec<ToolCall>,
    /// Of a tool's message: the call that it answers.
    pub tool_call_id: Option<String>,
}

impl Message {
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), tool_calls: Vec::new(), tool_call_id: None }
    }
}

/// The form of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    Text,
    /// Any JSON object.
    Json,
    /// JSON that validates against a schema.
    Schema {
        name: String,
        strict: bool,
        schema: Value,
    },
}

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    pub name: String,
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

/// Which tools the model may or must call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    #[default]
    Auto,
    None,
    Required,
    Named(String),
}

/// Options of an answer. None leaves a value to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatOptions {
    pub max_tokens: Option<u32>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub presence_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub seed: Option<i64>,
    pub stop: Vec<String>,
    pub format: Format,
    pub tools: Vec<Tool>,
    pub tool_choice: ToolChoice,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self {
            max_tokens: None,
            temperature: None,
            top_p: None,
            presence_penalty: None,
            frequency_penalty: None,
            seed: None,
            stop: Vec::new(),
            format: Format::Text,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
        }
    }
}

/// A conversation to go on with.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    pub messages: Vec<Message>,
    pub options: ChatOptions,
    /// Conversations of one account may share what a model keeps of their beginnings.
    pub account: AccountId,
    /// A person waits for the answer in a live conversation: it goes before others, and needs no place among theirs.
    pub live: bool,
}

/// The reason for the end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    Stop,
    Length,
    ToolCalls,
}

impl FinishReason {
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
        }
    }
}

/// Tokens of a request and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
}

/// A piece of an answer. An answer ends with [`Piece::End`], or with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    ToolCalls(Vec<ToolCall>),
    /// The usage is none where the model does not tell it.
    End {
        reason: FinishReason,
        usage: Option<Usage>,
    },
}

/// A failure of a language model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LanguageError {
    /// The server behind the service failed or answered what nobody asked for.
    #[error("the language model's server failed: {0}")]
    Upstream(String),
    #[error("the conversation has {tokens} tokens, and the model takes {context} with its answer")]
    ContextLength { tokens: usize, context: usize },
    #[error("{0}")]
    UnsupportedSchema(String),
    /// No checkpoint of the model is there. The message names the command that fetches it.
    #[error("{0}")]
    Unavailable(String),
    /// There is no room for another answer now.
    #[error("{0}")]
    Busy(String),
    /// The model cannot do this.
    #[error("{0}")]
    Refused(String),
    /// The model in this process failed, or did not keep the format.
    #[error("the language model failed: {0}")]
    Local(String),
}

/// The places of so many answers at a time. An eighth is kept for live conversations.
pub fn places(answers: usize) -> Places {
    Places::new(answers - (answers / 8).max(1).min(answers.saturating_sub(1)))
}

/// The longest time of an answer. Clients of the common packages wait no longer.
const LONGEST: Duration = Duration::from_secs(600);

/// The pieces of an answer.
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Piece, LanguageError>> + Send>>;

/// Bytes of a token on average, in European languages. Other scripts have fewer.
const BYTES_PER_TOKEN: usize = 4;

/// About so many tokens, for a text that no tokenizer reads.
fn estimated_tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_PER_TOKEN)
}

/// A language model: a server elsewhere, or one in this process.
pub trait LanguageModel: Send + Sync {
    /// The id in the catalog.
    fn id(&self) -> &str;

    /// True if it can answer. A checkpoint may come or go while the service runs.
    fn is_available(&self) -> bool {
        true
    }

    /// Makes it ready to count and to answer: loads it.
    fn prepare(&self) -> BoxFuture<'_, Result<(), LanguageError>> {
        std::future::ready(Ok(())).boxed()
    }

    /// The longest conversation with its answer, in tokens.
    fn context_tokens(&self) -> usize;

    /// The tokens of a text, or an estimate.
    fn count_tokens(&self, text: &str) -> usize;

    /// Starts an answer to a request whose schemas [`schema::check_options`] has accepted. The answer has the requested format, or it fails; dropping the pieces ends it.
    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<Pieces, LanguageError>>;
}

/// The language models of the service.
#[derive(Clone, Default)]
pub struct LanguageModels(Vec<Arc<dyn LanguageModel>>);

impl LanguageModels {
    /// The first is the default.
    pub fn new(models: Vec<Arc<dyn LanguageModel>>) -> Self {
        Self(models)
    }

    pub fn default_model(&self) -> Option<&Arc<dyn LanguageModel>> {
        self.0.iter().find(|model| model.is_available())
    }

    /// The model of an id, available or not.
    pub fn find(&self, id: &str) -> Option<&Arc<dyn LanguageModel>> {
        self.0.iter().find(|model| model.id() == id)
    }

    /// The ids of available models, the default first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|model| model.is_available()).map(|model| model.id())
    }
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    pub text: String,
    pub tool_calls: Vec<ToolCall>,
    pub reason: FinishReason,
    pub usage: Option<Usage>,
}

/// Waits for a whole answer.
///
/// # Errors
/// As the pieces, or if they end without an end.
pub async fn complete(pieces: Pieces) -> Result<Completion, LanguageError> {
    complete_with(pieces, &mut |_| ()).await
}

/// Waits for a whole answer, and gives each piece of its text to `draft` as it comes.
///
/// # Errors
/// As [`complete`].
pub async fn complete_with(
    mut pieces: Pieces,
    draft: &mut (dyn FnMut(&str) + Send),
) -> Result<Completion, LanguageError> {
    let (mut text, mut tool_calls) = (String::new(), Vec::new());
    while let Some(piece) = pieces.next().await {
        match piece? {
            Piece::Text(more) => {
                draft(&more);
                text.push_str(&more);
            }
            Piece::ToolCalls(more) => tool_calls.extend(more),
            Piece::End { reason, usage } => return Ok(Completion { text, tool_calls, reason, usage }),
        }
    }
    Err(LanguageError::Upstream("the answer ended midway".into()))
}
