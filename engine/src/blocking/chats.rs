//! Answers of language models.

use std::sync::Arc;

use super::Engine;
use super::devices::EngineDevice;
use crate::chat::{ChatEvent, ChatMessage, ChatOptions};
use crate::error::Result;
use crate::models::decoder::ChatModel;
use crate::pipeline::language::{self, ChatReply};

/// An answer of a language model as it is written, as an iterator that waits for the next piece.
pub struct Reply(ChatReply);

impl Reply {
    /// Tokens of the conversation as the model reads it.
    pub fn prompt_tokens(&self) -> usize {
        self.0.prompt_tokens()
    }
}

impl Iterator for Reply {
    type Item = Result<ChatEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        cubecl::future::block_on(self.0.next())
    }
}

impl Engine {
    /// Answers a conversation by a language model, piece by piece. Answers are written side by side; live sessions go first.
    /// The first answer of a model loads it.
    ///
    /// # Errors
    /// [`NotPulled`](crate::Error::NotPulled) without a checkpoint; [`UnknownModel`](crate::Error::UnknownModel),
    /// [`InvalidOption`](crate::Error::InvalidOption) for options; [`ContextLength`](crate::Error::ContextLength) for a conversation
    /// that is too long; [`Busy`](crate::Error::Busy) when there are as many answers as there may be; what loading reports.
    pub fn chat(&self, messages: &[ChatMessage], options: &ChatOptions) -> Result<Reply> {
        self.open_chat(messages, options).map(Reply)
    }

    pub(crate) fn open_chat(&self, messages: &[ChatMessage], options: &ChatOptions) -> Result<ChatReply> {
        let on = self.devices.choose_for(options.account.as_deref())?;
        let model = self.chat_model(&on, options)?;
        language::open(&*on.worker()?, model, messages, options, self.chat_limits)
    }

    /// Loads the language model that an answer with these options takes, so that the first does not wait for it.
    ///
    /// # Errors
    /// [`NotPulled`](crate::Error::NotPulled), [`UnknownModel`](crate::Error::UnknownModel), [`Checkpoint`](crate::Error::Checkpoint),
    /// [`Weights`](crate::Error::Weights).
    pub fn load_chat(&self, options: &ChatOptions) -> Result<()> {
        self.devices.all()?.iter().try_for_each(|on| self.chat_model(on, options).map(drop))
    }

    /// Tokens of a conversation as the language model reads it.
    ///
    /// # Errors
    /// As [`Engine::load_chat`], and [`InvalidOption`](crate::Error::InvalidOption) for a conversation that the model's template refuses.
    pub fn count_chat_tokens(&self, messages: &[ChatMessage], options: &ChatOptions) -> Result<usize> {
        let model = self.any_chat_model(options)?;
        language::prompt(&model, messages, options, "").map(|tokens| tokens.len())
    }

    /// Tokens of a text alone, as the language model reads it within a message.
    ///
    /// # Errors
    /// As [`Engine::load_chat`].
    pub fn count_text_tokens(&self, text: &str, options: &ChatOptions) -> Result<usize> {
        let mut tokens = Vec::new();
        self.any_chat_model(options)?.tokenizer().encode_text(text, &mut tokens)?;
        Ok(tokens.len())
    }

    /// Tokens that a conversation and its answer may have together.
    ///
    /// # Errors
    /// As [`Engine::load_chat`].
    pub fn chat_context_tokens(&self, options: &ChatOptions) -> Result<usize> {
        let model = self.any_chat_model(options)?;
        Ok(language::context_tokens(&model, self.chat_limits))
    }

    fn chat_model(&self, on: &EngineDevice, options: &ChatOptions) -> Result<Arc<ChatModel>> {
        let path = match &options.checkpoint {
            Some(path) => path.clone(),
            None => self.catalog.choose_language_model(options.model.as_deref())?.1,
        };
        let most_bytes = on.info.max_tensor_bytes;
        on.model(&path, || ChatModel::load_on(&path, on.precision.unwrap_or_default(), &on.device, most_bytes))
    }

    /// A language model for what all devices know of it.
    fn any_chat_model(&self, options: &ChatOptions) -> Result<Arc<ChatModel>> {
        self.chat_model(&*self.devices.choose_for(options.account.as_deref())?, options)
    }
}
