//! Conversations with a language model: messages, options, and what an answer consists of.

use std::path::PathBuf;

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
}

impl ChatRole {
    /// The name in templates and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A message of a conversation. Control marks in its text are text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChatMessage {
    /// The speaker.
    pub role: ChatRole,
    /// The text.
    pub content: String,
}

impl ChatMessage {
    /// A message of a role.
    pub fn new(role: ChatRole, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
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
    pub account: Option<String>,
    /// Lets a model think before it answers, if it can. Thoughts are counted and not shown.
    pub thinking: bool,
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
            thinking: false,
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
        thinking: bool => thinking,
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChatEvent {
    /// The next piece of the text, in whole characters.
    Text(String),
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
