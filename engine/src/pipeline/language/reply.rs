//! An answer of a language model, as it is written.

use std::collections::VecDeque;
use std::sync::Arc;

use auricle_kernels::attention::paged::cpu::PAGE;

use crate::chat::{ChatEvent, ChatMessage, ChatOptions, ChatTool, ChatToolCall, ChatToolChoice};
use crate::error::{Error, Result};
use crate::models::decoder::{ChatModel, TemplateCall, TemplateMessage};
use crate::pipeline::executors::device::{DeviceExecutor, StreamOutput, StreamRequest};
use crate::pipeline::executors::language::LanguageRequest;
use crate::pipeline::executors::language::constraint::Constraint;
use crate::scheduler::{Priority, Results, Scheduler, Stream};
use crate::text::tool_calls::{Part, ToolCallReader};

/// Memory that the answers of a model may take together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChatLimits {
    /// For keys and values, bytes.
    pub kv_bytes: usize,
}

/// An answer as it is written. Dropped, it ends with the step that the device is in.
pub struct ChatReply {
    results: Results<StreamOutput>,
    /// Holds the slot.
    _stream: Stream<DeviceExecutor>,
    ready: VecDeque<ChatEvent>,
    ended: bool,
    prompt_tokens: usize,
    /// Of an answer that may call tools.
    calls: Option<ToolCallReader>,
}

impl ChatReply {
    /// Tokens of the conversation as the model reads it.
    pub fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// The next piece of the text, and after the last one the end; `None` after that.
    ///
    /// # Errors
    /// The error that ended the answer, once.
    pub async fn next(&mut self) -> Option<Result<ChatEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.ended {
                return None;
            }
            let output = match self.results.next().await {
                Some(output) => output.and_then(StreamOutput::language),
                None => Err(Error::internal("an answer ended without its end")),
            };
            match output {
                Ok(output) => {
                    match &mut self.calls {
                        Some(calls) => self.ready.extend(calls.push(&output.text).into_iter().map(event)),
                        None => self.ready.extend((!output.text.is_empty()).then_some(ChatEvent::Text(output.text))),
                    }
                    match output.end {
                        Some(Ok(end)) => {
                            self.ended = true;
                            self.ready.extend(self.calls.take().and_then(ToolCallReader::finish).map(event));
                            self.ready.push_back(ChatEvent::End(end));
                        }
                        Some(Err(error)) => {
                            self.ended = true;
                            return Some(Err(error));
                        }
                        None => {}
                    }
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

fn event(part: Part) -> ChatEvent {
    match part {
        Part::Text(text) => ChatEvent::Text(text),
        Part::Call(call) => ChatEvent::ToolCall(ChatToolCall::new(call.name, call.arguments)),
    }
}

/// Tokens that prompt and answer may have together.
pub(crate) fn context_tokens(model: &ChatModel, limits: ChatLimits) -> usize {
    let arena = model.arena(limits.kv_bytes);
    model.config().context.min(arena.capacity() * PAGE)
}

/// The tokens of a conversation as the model reads it, with the `beginning` of the answer.
///
/// # Errors
/// [`Error::InvalidOption`] for a conversation that the model's template refuses, for tools that it has no place for, and for a model
/// that cannot think.
pub(crate) fn prompt(
    model: &ChatModel,
    messages: &[ChatMessage],
    options: &ChatOptions,
    beginning: &str,
) -> Result<Vec<u32>> {
    let cannot = |what: &str| Error::InvalidOption(format!("the model {} cannot {what}", model.path().display()));
    if options.thinking && model.thinking_marks().is_none() {
        return Err(cannot("think"));
    }
    if messages.is_empty() {
        return Err(Error::InvalidOption("the conversation has no message".into()));
    }
    let has_calls = messages.iter().any(|message| !message.tool_calls.is_empty());
    if (has_calls || !options.tools.is_empty()) && !model.template()?.takes_tools() {
        return Err(cannot("call tools: its chat template has no place for them"));
    }
    let call = |call: &ChatToolCall| TemplateCall::call(&call.name, call.arguments.clone().into());
    let messages: Vec<TemplateMessage> = messages
        .iter()
        .map(|message| TemplateMessage {
            role: message.role.name(),
            content: message.content.clone(),
            tool_calls: message.tool_calls.iter().map(call).collect(),
        })
        .collect();
    let tool = |tool: &ChatTool| TemplateCall::tool(&tool.name, &tool.description, tool.parameters.clone());
    let tools: Vec<TemplateCall> = options.tools.iter().map(tool).collect();
    model.prompt(&messages, &tools, beginning, options.thinking, chrono::Local::now().naive_local())
}

/// The text that an answer begins with, so that it calls a tool.
fn beginning(model: &ChatModel, options: &ChatOptions) -> Result<String> {
    let name = match &options.tool_choice {
        ChatToolChoice::Auto => return Ok(String::new()),
        ChatToolChoice::Any => None,
        ChatToolChoice::Named(name) => Some(name),
    };
    let known = options.tools.iter().any(|tool| name.is_none_or(|name| tool.name == *name));
    if !known {
        return Err(Error::InvalidOption("the tool that must be called is not among the tools".into()));
    }
    let form = model.template()?.call_form().ok_or_else(|| {
        Error::InvalidOption(format!("the model {} cannot be made to call a tool", model.path().display()))
    })?;
    let prefix = form.prefix();
    Ok(name.map_or_else(|| prefix.to_owned(), |name| format!("{prefix}{name}\", ")))
}

/// Begins an answer.
///
/// # Errors
/// [`Error::InvalidOption`] for options, a schema that cannot be enforced, and a conversation that the model's template refuses, [`Error::ContextLength`] for one
/// that is too long, [`Error::Busy`] when there is no room.
pub(crate) fn open(
    scheduler: &Scheduler<DeviceExecutor>,
    model: Arc<ChatModel>,
    messages: &[ChatMessage],
    options: &ChatOptions,
    limits: ChatLimits,
) -> Result<ChatReply> {
    let sampling = options.sampling();
    sampling.check()?;
    if options.max_tokens == Some(0) {
        return Err(Error::InvalidOption("max_tokens is 0; an answer has at least one token".into()));
    }
    let beginning = beginning(&model, options)?;
    let tokens = prompt(&model, messages, options, &beginning)?;
    let (prompt_tokens, context_tokens) = (tokens.len(), context_tokens(&model, limits));
    if tokens.is_empty() || prompt_tokens >= context_tokens {
        return Err(Error::ContextLength { prompt_tokens, context_tokens });
    }
    let room = context_tokens - prompt_tokens;
    let constraint = Constraint::new(&model, options, &beginning)?;
    let request = LanguageRequest {
        model,
        tokens,
        max_tokens: options.max_tokens.map_or(room, |most| most.min(room)),
        sampling,
        constraint,
        stop: options.stop.clone(),
        account: options.account.as_deref().unwrap_or_default().into(),
        live: options.live,
        thinking: options.thinking,
        kv_bytes: limits.kv_bytes,
    };
    let (mut stream, results) = scheduler.open(StreamRequest::Language(Box::new(request)), Priority::Agent)?;
    // All input is there.
    stream.finish(None);
    let mut calls = (!options.tools.is_empty()).then(ToolCallReader::default);
    let ready = calls.as_mut().map(|calls| calls.push(&beginning)).unwrap_or_default();
    Ok(ChatReply {
        results,
        _stream: stream,
        ready: ready.into_iter().map(event).collect(),
        ended: false,
        prompt_tokens,
        calls,
    })
}
