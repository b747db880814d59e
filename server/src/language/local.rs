//! A language model in this process.
//!
//! Text comes as it is written. An answer with a format is held to its grammar, and held back until it is whole and validates; one that
//! does not, for a keyword that grammars cannot hold, is written again with another seed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use auricle_engine as engine;
use auricle_engine::{ChatEvent, ChatMessage, ChatReply, ChatTool, ChatToolCall, ChatToolChoice, Engine, Error};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::{Instant, timeout_at};

use super::upstream::bare_json;
use super::{
    ChatRequest, Completion, FinishReason, Format, LONGEST, LanguageError, LanguageModel, Message, Piece, Pieces, Role,
    ToolCall, ToolChoice, Usage, estimated_tokens, schema,
};
use crate::ids;
use crate::sharing::{Place, Places};

/// Sampling where the request leaves it out: the likeliest tokens alone make small models repeat themselves.
const TEMPERATURE: f64 = 0.7;
const TOP_P: f64 = 0.8;
const TOP_K: usize = 20;

/// Tokens of an answer whose length the request leaves out, so that one that never ends does not hold its place for minutes.
const MAX_TOKENS: u32 = 2048;

/// Times that an answer is written until it has its format.
const TRIES: u32 = 3;

/// Temperature from the second try on, where the request asks for the likeliest tokens.
const RETRY_TEMPERATURE: f64 = 0.5;

/// The context before the model is loaded, tokens.
const UNKNOWN_CONTEXT: usize = 4096;

/// The model of a catalog's entry.
#[derive(Clone)]
pub struct Local(Arc<Inner>);

struct Inner {
    engine: Engine,
    id: String,
    /// A GGUF file or a folder in place of the catalog's.
    checkpoint: Option<PathBuf>,
    context_tokens: OnceLock<usize>,
    places: Places,
}

impl Local {
    /// The model of an id. Models of one engine share their places.
    pub fn new(engine: Engine, id: impl Into<String>, places: Places) -> Self {
        Self(Arc::new(Inner { engine, id: id.into(), checkpoint: None, context_tokens: OnceLock::new(), places }))
    }

    /// The model of a GGUF file or a folder, by whose name it is known.
    pub fn at(engine: Engine, checkpoint: &Path, places: Places) -> Self {
        let id = checkpoint.file_stem().unwrap_or(checkpoint.as_os_str()).to_string_lossy().into_owned();
        let checkpoint = Some(checkpoint.to_owned());
        Self(Arc::new(Inner { engine, id, checkpoint, context_tokens: OnceLock::new(), places }))
    }

    fn options(&self) -> engine::ChatOptions {
        let mut options = engine::ChatOptions::default();
        match &self.0.checkpoint {
            Some(checkpoint) => options.checkpoint = Some(checkpoint.clone()),
            None => options.model = Some(self.0.id.clone()),
        }
        options
    }

    /// Loads the model, if it is not loaded yet.
    async fn load(&self) -> Result<(), LanguageError> {
        if self.0.context_tokens.get().is_some() {
            return Ok(());
        }
        let options = self.options();
        self.0.engine.load_chat(&options).await.map_err(failure)?;
        let context_tokens = self.0.engine.blocking().chat_context_tokens(&options).map_err(failure)?;
        self.0.context_tokens.get_or_init(|| context_tokens);
        Ok(())
    }

    async fn start(&self, request: ChatRequest) -> Result<Pieces, LanguageError> {
        let place = match request.live {
            true => None,
            false => Some(self.0.places.try_take(&request.account).ok_or_else(|| {
                LanguageError::Busy("the language model has no free place for another answer of this account".into())
            })?),
        };
        self.load().await?;
        let seed = match request.options.seed {
            Some(seed) => seed as u64,
            None => getrandom::u64().map_err(|error| LanguageError::Local(format!("no random numbers: {error}")))?,
        };
        let mut answer = Answer {
            messages: messages(&request),
            options: self.engine_options(&request),
            request,
            seed,
            tries: 0,
            reply: None,
            text: String::new(),
            tool_calls: Vec::new(),
            events: 0,
            has_streamed: false,
            spent: 0,
            ended: false,
            ready: Vec::new(),
            engine: self.0.engine.clone(),
            deadline: Instant::now() + LONGEST,
            _place: place,
        };
        // Faults of the request are reported before the answer begins.
        answer.begin().await?;
        Ok(stream::unfold(answer, |mut answer| async move { answer.next().await.map(|piece| (piece, answer)) }).boxed())
    }

    fn engine_options(&self, request: &ChatRequest) -> engine::ChatOptions {
        let asked = &request.options;
        let mut options = self.options().stop(&asked.stop).top_k(TOP_K);
        options.account = Some(request.account.as_str().to_owned());
        options.live = request.live;
        options.max_tokens = Some(asked.max_tokens.unwrap_or(MAX_TOKENS) as usize);
        options.temperature = asked.temperature.unwrap_or(TEMPERATURE) as f32;
        options.top_p = asked.top_p.unwrap_or(TOP_P) as f32;
        options.presence_penalty = asked.presence_penalty.unwrap_or_default() as f32;
        options.frequency_penalty = asked.frequency_penalty.unwrap_or_default() as f32;
        if asked.temperature.is_some() || asked.top_p.is_some() {
            options.top_k = 0;
        }
        if asked.tool_choice != ToolChoice::None {
            let tool = |tool: &super::Tool| {
                ChatTool::new(&tool.name, tool.description.as_deref().unwrap_or_default(), tool.parameters.clone())
            };
            options.tools = asked.tools.iter().map(tool).collect();
        }
        options.tool_choice = match &asked.tool_choice {
            ToolChoice::Auto | ToolChoice::None => ChatToolChoice::Auto,
            ToolChoice::Required => ChatToolChoice::Any,
            ToolChoice::Named(name) => ChatToolChoice::Named(name.clone()),
        };
        options.format = match &asked.format {
            Format::Text => engine::ChatFormat::Text,
            Format::Json => engine::ChatFormat::Json,
            Format::Schema { schema, .. } => engine::ChatFormat::Schema(schema.clone()),
        };
        options
    }
}

impl LanguageModel for Local {
    fn id(&self) -> &str {
        &self.0.id
    }

    fn is_available(&self) -> bool {
        match &self.0.checkpoint {
            Some(checkpoint) => checkpoint.exists(),
            None => self.0.engine.catalog().choose_language_model(Some(&self.0.id)).is_ok(),
        }
    }

    fn prepare(&self) -> BoxFuture<'_, Result<(), LanguageError>> {
        self.load().boxed()
    }

    fn context_tokens(&self) -> usize {
        self.0.context_tokens.get().copied().unwrap_or(UNKNOWN_CONTEXT)
    }

    fn count_tokens(&self, text: &str) -> usize {
        if self.0.context_tokens.get().is_none() {
            // To load it here would hold up the thread.
            return estimated_tokens(text);
        }
        let count = || self.0.engine.blocking().count_text_tokens(text, &self.options());
        let counted = match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(count),
            _ => count(),
        };
        // More tokens than there are: a text that cannot be counted is not left out of the sum.
        counted.unwrap_or(text.len())
    }

    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<Pieces, LanguageError>> {
        self.start(request).boxed()
    }
}

fn failure(error: Error) -> LanguageError {
    match error {
        Error::NotPulled(message) => LanguageError::Unavailable(message),
        Error::Busy(message) => LanguageError::Busy(message),
        Error::InvalidOption(message) => LanguageError::Refused(message),
        Error::ContextLength { prompt_tokens, context_tokens } => {
            LanguageError::ContextLength { tokens: prompt_tokens, context: context_tokens }
        }
        other => LanguageError::Local(other.to_string()),
    }
}

/// The messages, and with a format the instruction to keep it.
fn messages(request: &ChatRequest) -> Vec<ChatMessage> {
    let instruction = match &request.options.format {
        Format::Text => None,
        Format::Json => Some("Answer with one JSON object and nothing else.".to_owned()),
        Format::Schema { schema, .. } => {
            Some(format!("Answer with one JSON value and nothing else. It must fit this JSON Schema:\n{schema}"))
        }
    };
    let mut messages: Vec<ChatMessage> = request.messages.iter().map(message).collect();
    match (instruction, request.messages.first()) {
        (None, _) => {}
        (Some(instruction), Some(first)) if first.role == Role::System => {
            messages[0] = ChatMessage::system(format!("{}\n\n{instruction}", first.content));
        }
        (Some(instruction), _) => messages.insert(0, ChatMessage::system(instruction)),
    }
    messages
}

fn message(message: &Message) -> ChatMessage {
    match message.role {
        Role::System => ChatMessage::system(&message.content),
        Role::User => ChatMessage::user(&message.content),
        Role::Tool => ChatMessage::tool(&message.content),
        Role::Assistant => {
            let call = |call: &ToolCall| {
                let arguments = match serde_json::from_str(&call.arguments) {
                    Ok(Value::Object(arguments)) => arguments,
                    _ => serde_json::Map::new(),
                };
                ChatToolCall::new(&call.name, arguments)
            };
            ChatMessage::assistant(&message.content).tool_calls(message.tool_calls.iter().map(call).collect())
        }
    }
}

/// An answer that is being written.
struct Answer {
    engine: Engine,
    request: ChatRequest,
    messages: Vec<ChatMessage>,
    options: engine::ChatOptions,
    seed: u64,
    tries: u32,
    reply: Option<ChatReply>,
    /// Text that is held back, or has been passed on.
    text: String,
    tool_calls: Vec<ToolCall>,
    /// Events of the try, each of which is about a token.
    events: usize,
    has_streamed: bool,
    /// Tokens of tries that failed.
    spent: usize,
    ended: bool,
    /// Pieces of an end that has been checked, the last first.
    ready: Vec<Piece>,
    deadline: Instant,
    _place: Option<Place>,
}

impl Answer {
    /// Begins a try.
    async fn begin(&mut self) -> Result<(), LanguageError> {
        let mut options = self.options.clone().seed(self.seed.wrapping_add(self.tries.into()));
        if self.tries > 0 && options.temperature == 0.0 {
            options.temperature = RETRY_TEMPERATURE as f32;
        }
        self.tries += 1;
        self.text.clear();
        self.tool_calls.clear();
        self.events = 0;
        self.reply = Some(self.engine.chat(&self.messages, &options).await.map_err(failure)?);
        Ok(())
    }

    /// The next piece; none after the end or an error.
    async fn next(&mut self) -> Option<Result<Piece, LanguageError>> {
        if let Some(piece) = self.ready.pop() {
            return Some(Ok(piece));
        }
        if self.ended {
            return None;
        }
        let next = self.write().await;
        self.ended |= next.is_err();
        Some(next)
    }

    async fn write(&mut self) -> Result<Piece, LanguageError> {
        let held_back = self.request.options.format != Format::Text;
        loop {
            let event = match &mut self.reply {
                Some(reply) => match timeout_at(self.deadline, reply.next()).await {
                    Ok(event) => event,
                    Err(_) => {
                        let (prompt, written) = (reply.prompt_tokens(), self.events);
                        self.reply = None;
                        self.tool_calls.clear();
                        match self.end(FinishReason::Length, prompt, written).await? {
                            Some(piece) => return Ok(piece),
                            None => continue,
                        }
                    }
                },
                None => None,
            };
            self.events += 1;
            match event {
                Some(Ok(ChatEvent::Text(text))) => {
                    self.text.push_str(&text);
                    if !held_back {
                        self.has_streamed = true;
                        return Ok(Piece::Text(text));
                    }
                }
                Some(Ok(ChatEvent::ToolCall(call))) => self.tool_calls.push(ToolCall {
                    id: ids::fresh("call"),
                    name: call.name,
                    arguments: Value::Object(call.arguments).to_string(),
                }),
                Some(Ok(ChatEvent::End(end))) => {
                    let reason = match end.finish_reason {
                        engine::FinishReason::Length => FinishReason::Length,
                        _ if !self.tool_calls.is_empty() => FinishReason::ToolCalls,
                        _ => FinishReason::Stop,
                    };
                    if let Some(piece) = self.end(reason, end.usage.prompt_tokens, end.usage.completion_tokens).await? {
                        return Ok(piece);
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(failure(error)),
                None => return Err(LanguageError::Local("the answer ended midway".into())),
            }
        }
    }

    /// Checks a whole answer and gives its first piece, or none where it is written again.
    async fn end(
        &mut self,
        reason: FinishReason,
        prompt_tokens: usize,
        written: usize,
    ) -> Result<Option<Piece>, LanguageError> {
        let held_back = self.request.options.format != Format::Text;
        let completion_tokens = self.spent + written;
        let usage = Usage { prompt_tokens: prompt_tokens as u64, completion_tokens: completion_tokens as u64 };
        let text = if held_back { bare_json(&self.text).to_owned() } else { self.text.clone() };
        let answer = Completion { text, tool_calls: self.tool_calls.clone(), reason, usage: Some(usage) };
        if let Err(error) = schema::check_answer(&self.request.options, &answer).await {
            let cause = match error {
                LanguageError::Upstream(cause) => cause,
                other => other.to_string(),
            };
            if self.has_streamed || self.tries >= TRIES {
                return Err(LanguageError::Local(cause));
            }
            tracing::debug!(%cause, "an answer is written again");
            self.spent = completion_tokens;
            self.begin().await?;
            return Ok(None);
        }
        self.ended = true;
        self.ready.push(Piece::End { reason, usage: Some(usage) });
        if !answer.tool_calls.is_empty() {
            self.ready.push(Piece::ToolCalls(answer.tool_calls));
        }
        if held_back && !answer.text.is_empty() {
            self.ready.push(Piece::Text(answer.text));
        }
        Ok(self.ready.pop())
    }
}
