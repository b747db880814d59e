//! A server of OpenAI's chat shape as a language model.
//!
//! Answers are always read as a stream, so that a server that hangs is found out. A request is sent again only before its first
//! piece. JSON and tool calls are held back until they are whole and validate here: servers differ in what they enforce.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use url::Url;

use super::upstream_stream::{Event, EventReader};
use super::{
    ChatOptions, ChatRequest, Completion, Format, LONGEST, LanguageError, LanguageModel, Message, Piece, Pieces, Role,
    Tool, ToolChoice, estimated_tokens, schema,
};
use crate::config::url_below;
use crate::sharing::{Place, Places};

/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Delays before a request is sent again.
const RETRIES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];

/// Requests to the server at a time. Further ones wait.
const PARALLEL: usize = 64;

/// The part of an error's body that is read.
const MAX_ERROR_BYTES: usize = 4 << 10;

/// The settings of a server.
pub struct UpstreamSettings {
    /// Its base, such as `http://host/v1`.
    pub url: Url,
    /// The name of the model there, which is its id here.
    pub model: String,
    pub key: Option<String>,
    pub context_tokens: usize,
    /// The longest wait for an answer's next piece.
    pub timeout: Duration,
}

/// The server.
pub struct Upstream {
    client: Client,
    settings: UpstreamSettings,
    places: Places,
}

impl Upstream {
    /// # Errors
    /// If the HTTP client cannot be set up.
    pub fn new(settings: UpstreamSettings) -> Result<Self, String> {
        let client = Client::builder()
            .user_agent(concat!("auricle/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|error| format!("language_upstream: {error}"))?;
        Ok(Self { client, settings, places: super::places(PARALLEL) })
    }

    /// Sends a request until it has the head of a response that is no passing failure.
    async fn send(&self, request: &ChatRequest) -> Result<Response, LanguageError> {
        let body = body(&self.settings.model, request).to_string();
        let mut delays = RETRIES.into_iter();
        loop {
            let failure = match self.attempt(&body).await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) => {
                    let status = response.status();
                    let passing = status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
                        || status == StatusCode::TOO_MANY_REQUESTS;
                    let message = error_message(response).await;
                    if !passing {
                        return Err(self.refusal(status, &message, request));
                    }
                    format!("it answered {status}: {message}")
                }
                Err(failure) => failure,
            };
            match delays.next() {
                Some(delay) => {
                    tracing::warn!(%failure, "asking the language model's server again");
                    tokio::time::sleep(delay).await;
                }
                None => return Err(LanguageError::Upstream(failure)),
            }
        }
    }

    async fn attempt(&self, body: &str) -> Result<Response, String> {
        let url = url_below(&self.settings.url, "/chat/completions");
        let mut request = self.client.post(url).header(CONTENT_TYPE, "application/json").body(body.to_owned());
        if let Some(key) = &self.settings.key {
            request = request.bearer_auth(key);
        }
        match tokio::time::timeout(self.settings.timeout, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(cause(&error)),
            Err(_) => Err(format!("it did not answer within {} s", self.settings.timeout.as_secs())),
        }
    }

    /// The error for a request that the server does not want.
    fn refusal(&self, status: StatusCode, message: &str, request: &ChatRequest) -> LanguageError {
        let lower = message.to_lowercase();
        let client_error = matches!(status.as_u16(), 400 | 413 | 422 | 501);
        let names = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if client_error
            && names(&["context_length", "context length", "context size", "maximum context", "context window"])
        {
            let tokens = super::grounding::tokens(self, &request.messages, request.options.max_tokens);
            let context = self.settings.context_tokens;
            return LanguageError::ContextLength { tokens: tokens.max(context.saturating_add(1)), context };
        }
        let is_constrained = request.options.format != Format::Text || !request.options.tools.is_empty();
        if client_error && is_constrained && names(&["schema", "response_format", "grammar", "tool", "json"]) {
            return LanguageError::UnsupportedSchema(format!("The language model's server cannot do this: {message}"));
        }
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                LanguageError::Upstream(format!("it refused the service's key with {status}"))
            }
            _ => LanguageError::Upstream(format!("it answered {status}: {message}")),
        }
    }

    /// Sends a request and reads the first event. A server that fails before it is asked again.
    async fn begin(&self, request: &ChatRequest) -> Result<(EventReader, Event), LanguageError> {
        let mut delays = RETRIES.into_iter();
        loop {
            let response = self.send(request).await?;
            let mut reader = EventReader::new(response, self.settings.timeout);
            match (reader.next().await, delays.next()) {
                (Ok(event), _) => return Ok((reader, event)),
                (Err(failure), None) => return Err(LanguageError::Upstream(failure)),
                (Err(failure), Some(delay)) => {
                    tracing::warn!(%failure, "asking the language model's server again");
                    tokio::time::sleep(delay).await;
                }
            }
        }
    }

    async fn start(&self, request: ChatRequest) -> Result<Pieces, LanguageError> {
        let place = match request.live {
            true => None,
            false => Some(self.places.take(&request.account).await),
        };
        let (reader, first) = self.begin(&request).await?;
        let deadline = tokio::time::Instant::now() + LONGEST;
        let answer = Answer {
            reader,
            next: Some(first),
            options: request.options,
            text: String::new(),
            deadline,
            ended: false,
            ready: Vec::new(),
            _place: place,
        };
        Ok(stream::unfold(answer, |mut answer| async move { answer.next().await.map(|piece| (piece, answer)) }).boxed())
    }
}

impl LanguageModel for Upstream {
    fn id(&self) -> &str {
        &self.settings.model
    }

    fn context_tokens(&self) -> usize {
        self.settings.context_tokens
    }

    fn count_tokens(&self, text: &str) -> usize {
        estimated_tokens(text)
    }

    fn chat(&self, request: ChatRequest) -> BoxFuture<'_, Result<Pieces, LanguageError>> {
        self.start(request).boxed()
    }
}

/// An answer that is being read.
struct Answer {
    reader: EventReader,
    next: Option<Event>,
    options: ChatOptions,
    /// Text that is held back, or has been passed on.
    text: String,
    deadline: tokio::time::Instant,
    ended: bool,
    /// Pieces of an end that has been checked, the last first.
    ready: Vec<Piece>,
    _place: Option<Place>,
}

impl Answer {
    /// The next piece; none after the end or an error.
    async fn next(&mut self) -> Option<Result<Piece, LanguageError>> {
        if let Some(piece) = self.ready.pop() {
            return Some(Ok(piece));
        }
        if self.ended {
            return None;
        }
        let held_back = self.options.format != Format::Text;
        loop {
            let event = match self.next.take() {
                Some(event) => Ok(event),
                None => match tokio::time::timeout_at(self.deadline, self.reader.next()).await {
                    Ok(event) => event,
                    Err(_) => Err(format!("its answer took more than {} s", LONGEST.as_secs())),
                },
            };
            match event {
                Ok(Event::Text(text)) => {
                    self.text.push_str(&text);
                    if !held_back {
                        return Some(Ok(Piece::Text(text)));
                    }
                }
                Ok(Event::End { tool_calls, reason, usage }) => {
                    self.ended = true;
                    let text = if held_back { bare_json(&self.text).to_owned() } else { self.text.clone() };
                    let answer = Completion { text, tool_calls, reason, usage };
                    if let Err(error) = schema::check_answer(&self.options, &answer).await {
                        return Some(Err(error));
                    }
                    self.ready.push(Piece::End { reason, usage });
                    if !answer.tool_calls.is_empty() {
                        self.ready.push(Piece::ToolCalls(answer.tool_calls));
                    }
                    if held_back && !answer.text.is_empty() {
                        self.ready.push(Piece::Text(answer.text));
                    }
                    return self.ready.pop().map(Ok);
                }
                Err(failure) => {
                    self.ended = true;
                    return Some(Err(LanguageError::Upstream(failure)));
                }
            }
        }
    }
}

/// JSON without the fence of Markdown that some models put around it.
pub fn bare_json(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
    inner.and_then(|inner| inner.strip_suffix("```")).map_or(text, str::trim)
}

/// The request in OpenAI's shape.
fn body(model: &str, request: &ChatRequest) -> Value {
    let messages: Vec<Value> = request.messages.iter().map(message).collect();
    let mut body = json!({
        "model": model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    let options = &request.options;
    let numbers = [
        ("max_tokens", options.max_tokens.map(Value::from)),
        ("temperature", options.temperature.map(Value::from)),
        ("top_p", options.top_p.map(Value::from)),
        ("presence_penalty", options.presence_penalty.map(Value::from)),
        ("frequency_penalty", options.frequency_penalty.map(Value::from)),
        ("seed", options.seed.map(Value::from)),
        ("stop", (!options.stop.is_empty()).then(|| json!(options.stop))),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    match &options.format {
        Format::Text => {}
        Format::Json => body["response_format"] = json!({ "type": "json_object" }),
        Format::Schema { name, strict, schema } => {
            let json_schema = json!({ "name": name, "strict": strict, "schema": schema });
            body["response_format"] = json!({ "type": "json_schema", "json_schema": json_schema });
        }
    }
    if !options.tools.is_empty() {
        body["tools"] = options.tools.iter().map(tool).collect();
        body["tool_choice"] = match &options.tool_choice {
            ToolChoice::Auto => json!("auto"),
            ToolChoice::None => json!("none"),
            ToolChoice::Required => json!("required"),
            ToolChoice::Named(name) => json!({ "type": "function", "function": { "name": name } }),
        };
    }
    body
}

fn message(message: &Message) -> Value {
    let mut written = json!({ "role": message.role.name(), "content": message.content });
    if !message.tool_calls.is_empty() {
        written["tool_calls"] = message.tool_calls.iter().map(super::ToolCall::json).collect();
        if message.content.is_empty() {
            written["content"] = Value::Null;
        }
    }
    if let (Role::Tool, Some(id)) = (message.role, &message.tool_call_id) {
        written["tool_call_id"] = json!(id);
    }
    written
}

fn tool(tool: &Tool) -> Value {
    let mut function = json!({ "name": tool.name, "parameters": tool.parameters });
    if let Some(description) = &tool.description {
        function["description"] = json!(description);
    }
    json!({ "type": "function", "function": function })
}

/// The message of an error's body, in one line.
async fn error_message(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < MAX_ERROR_BYTES {
        match tokio::time::timeout(CONNECT_TIMEOUT, response.chunk()).await {
            Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
            _ => break,
        }
    }
    bytes.truncate(MAX_ERROR_BYTES);
    let text = String::from_utf8_lossy(&bytes);
    let parsed: Value = serde_json::from_str(&text).unwrap_or_default();
    let message = [&parsed["error"]["message"], &parsed["error"], &parsed["message"], &parsed["detail"]]
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or(&text);
    message.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()
}

/// The innermost cause. The outer messages have the URL.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_sent_on() {
        let mut request = ChatRequest {
            messages: vec![Message::new(Role::User, "Hi")],
            options: ChatOptions::default(),
            account: crate::ids::AccountId::new(),
            live: false,
        };
        let plain = body("m", &request);
        assert_eq!(plain.as_object().unwrap().len(), 4, "{plain}");
        request.messages.push(Message {
            tool_calls: vec![super::super::ToolCall { id: "c1".into(), name: "f".into(), arguments: "{}".into() }],
            ..Message::new(Role::Assistant, "")
        });
        request.messages.push(Message { tool_call_id: Some("c1".into()), ..Message::new(Role::Tool, "5") });
        request.options = ChatOptions {
            max_tokens: Some(7),
            temperature: Some(0.5),
            top_p: Some(0.25),
            presence_penalty: Some(0.75),
            frequency_penalty: Some(-1.0),
            seed: Some(-3),
            stop: vec!["x".into()],
            format: Format::Schema { name: "s".into(), strict: true, schema: json!({ "type": "object" }) },
            tools: vec![Tool { name: "f".into(), description: Some("d".into()), parameters: json!({}) }],
            tool_choice: ToolChoice::Named("f".into()),
        };
        let full = body("m", &request);
        assert_eq!(full["messages"][1]["tool_calls"][0]["function"]["name"], "f");
        assert_eq!(full["messages"][2]["tool_call_id"], "c1");
        assert_eq!((&full["max_tokens"], &full["seed"], &full["stop"]), (&json!(7), &json!(-3), &json!(["x"])));
        assert_eq!((&full["temperature"], &full["top_p"]), (&json!(0.5), &json!(0.25)));
        assert_eq!((&full["presence_penalty"], &full["frequency_penalty"]), (&json!(0.75), &json!(-1.0)));
        assert_eq!(full["response_format"]["json_schema"]["strict"], true);
        assert_eq!(full["tools"][0]["function"]["description"], "d");
        assert_eq!(full["tool_choice"]["function"]["name"], "f");
    }

    #[test]
    fn a_fence_around_json_is_dropped() {
        for text in ["{}", " {}\n", "```json\n{}\n```", "```\n{}```"] {
            assert_eq!(bare_json(text), "{}", "{text}");
        }
        assert_eq!(bare_json("```json {"), "```json {");
    }
}
