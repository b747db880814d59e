//! Conversations with a language model: messages, options, and what an answer consists of.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::decoding::sampling::SamplingOptions;
use crate::options::setters;

/// The speaker of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatRole {
    /// Instructions for the whole conversation; first, if at all.
    System,
    /// The person who asks.
    User,
    /// The model.
    Assistant,
    /// The result of a tool, after the answer that called it.
    Tool,
}

impl ChatRole {
    /// The name in templates and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// A message of a conversation. Control marks in its text are text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChatMessage {
    /// The speaker.
    pub role: ChatRole,
    /// The text.
    pub content: String,
    /// The calls of an earlier answer.
    pub tool_calls: Vec<ChatToolCall>,
}

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChatTool {
    /// The name.
    pub name: String,
    /// The use of it, for the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

impl ChatTool {
    /// A function with the JSON Schema of its arguments.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self { name: name.into(), description: description.into(), parameters }
    }
}

/// A call of a tool. The arguments are held to the tool's schema as [`ChatFormat::Schema`] is, where the form of the model's calls has a
/// mark or the call is forced; else they are what the model wrote.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChatToolCall {
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

impl ChatToolCall {
    /// A call.
    pub fn new(name: impl Into<String>, arguments: Map<String, Value>) -> Self {
        Self { name: name.into(), arguments }
    }
}

/// The choice between text and calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChatToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The answer begins with a call of any tool.
    Any,
    /// The answer begins with a call of this tool.
    Named(String),
}

/// The form of an answer's text. The model's tokens are held to it, so that only an answer that is cut short breaks it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum ChatFormat {
    /// Any text.
    #[default]
    Text,
    /// A JSON object.
    Json,
    /// JSON that fits a JSON Schema. Not held to: `not`, `uniqueItems`, a `format` that is not known, and of `oneOf` that no second
    /// alternative fits. Who needs these validates the answer.
    Schema(Value),
}

impl ChatMessage {
    /// A message of a role.
    pub fn new(role: ChatRole, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), tool_calls: Vec::new() }
    }

    /// Instructions.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(ChatRole::System, content)
    }

    /// A question.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(ChatRole::User, content)
    }

    /// An earlier answer.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(ChatRole::Assistant, content)
    }

    /// The result of a tool. Results come in the order of the calls.
    pub fn tool(content: impl Into<String>) -> Self {
        Self::new(ChatRole::Tool, content)
    }

    /// The message with the calls that it made.
    #[must_use]
    pub fn tool_calls(mut self, calls: Vec<ChatToolCall>) -> Self {
        self.tool_calls = calls;
        self
    }
}

/// Options of an answer.
///
/// ```
/// use auricle_engine::ChatOptions;
///
/// let options = ChatOptions::default().max_tokens(200).temperature(0.7).stop(["\n\n"]);
/// assert_eq!(options.max_tokens, Some(200));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChatOptions {
    /// A language model of the catalog; its default if left out.
    pub model: Option<String>,
    /// A GGUF file or a published folder in place of the catalog's.
    pub checkpoint: Option<PathBuf>,
    /// Tokens of the answer at most; as many as the context has room for, if left out.
    pub max_tokens: Option<usize>,
    /// From 0, the likeliest token always, to 2.
    pub temperature: f32,
    /// Only the most likely tokens, so many that their probabilities reach this sum: above 0, up to 1.
    pub top_p: f32,
    /// Only so many of the most likely tokens; 0 takes all.
    pub top_k: usize,
    /// Only tokens of at least this part of the likeliest one's probability, 0 to 1.
    pub min_p: f32,
    /// Against repetitions: divides the scores of tokens that prompt or answer have. 1 does nothing.
    pub repetition_penalty: f32,
    /// Against repetitions: is taken from the score of a token that the answer has, -2 to 2.
    pub presence_penalty: f32,
    /// Against repetitions: is taken from the score of a token each time that the answer has it, -2 to 2.
    pub frequency_penalty: f32,
    /// Equal seeds give equal answers.
    pub seed: u64,
    /// Texts that end the answer; it does not contain them.
    pub stop: Vec<String>,
    /// Conversations of one account share the memory of what they begin with; those of others never do.
    /// While several wait for a device, their prompts are read in turn by account.
    pub account: Option<String>,
    /// A person waits for the answer in a conversation: its prompt is read before all others.
    pub live: bool,
    /// Lets a model think before it answers, if it can. Thoughts are counted and not shown.
    pub thinking: bool,
    /// Functions that the model may call, if its chat template has a place for them.
    pub tools: Vec<ChatTool>,
    /// The choice between text and calls of them.
    pub tool_choice: ChatToolChoice,
    /// The form of the answer's text. A model does not know of it: the messages tell it.
    pub format: ChatFormat,
}

impl Default for ChatOptions {
    /// The likeliest token always.
    fn default() -> Self {
        let SamplingOptions { temperature, top_p, top_k, min_p, seed, .. } = SamplingOptions::default();
        let SamplingOptions { repetition_penalty, presence_penalty, frequency_penalty, .. } =
            SamplingOptions::default();
        Self {
            model: None,
            checkpoint: None,
            max_tokens: None,
            temperature,
            top_p,
            top_k,
            min_p,
            repetition_penalty,
            presence_penalty,
            frequency_penalty,
            seed,
            stop: Vec::new(),
            account: None,
            live: false,
            thinking: false,
            tools: Vec::new(),
            tool_choice: ChatToolChoice::Auto,
            format: ChatFormat::Text,
        }
    }
}

impl ChatOptions {
    setters! {
        model: impl Into<String> => Some(model.into()),
        checkpoint: impl Into<PathBuf> => Some(checkpoint.into()),
        max_tokens: usize => Some(max_tokens),
        temperature: f32 => temperature,
        top_p: f32 => top_p,
        top_k: usize => top_k,
        min_p: f32 => min_p,
        repetition_penalty: f32 => repetition_penalty,
        presence_penalty: f32 => presence_penalty,
        frequency_penalty: f32 => frequency_penalty,
        seed: u64 => seed,
        stop: impl IntoIterator<Item = impl Into<String>> => stop.into_iter().map(Into::into).collect(),
        account: impl Into<String> => Some(account.into()),
        live: bool => live,
        thinking: bool => thinking,
        tools: impl IntoIterator<Item = ChatTool> => tools.into_iter().collect(),
        tool_choice: ChatToolChoice => tool_choice,
        format: ChatFormat => format,
    }

    pub(crate) fn sampling(&self) -> SamplingOptions {
        SamplingOptions {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            seed: self.seed,
        }
    }
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ChatEvent {
    /// The next piece of the text, in whole characters.
    Text(String),
    /// A call of one of the tools.
    ToolCall(ChatToolCall),
    /// The end. Nothing follows.
    End(ChatEnd),
}

/// The end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChatEnd {
    /// The reason for it.
    pub finish_reason: FinishReason,
    /// The tokens of conversation and answer.
    pub usage: ChatUsage,
}

impl ChatEnd {
    pub(crate) fn new(finish_reason: FinishReason, usage: ChatUsage) -> Self {
        Self { finish_reason, usage }
    }
}

/// The reason for an answer's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishReason {
    /// The model has ended it, or a stop text has come.
    Stop,
    /// It has as many tokens as it may have, or as the context has room for.
    Length,
}

impl FinishReason {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// Tokens of a conversation and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChatUsage {
    /// Of the conversation as the model reads it.
    pub prompt_tokens: usize,
    /// Of these, so many were known from earlier conversations.
    pub cached_tokens: usize,
    /// Of the answer, with thoughts and the mark of its end.
    pub completion_tokens: usize,
}
