//! Validation of requests to the chat endpoints.

use std::ops::RangeInclusive;

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::http::body::{Fields, wrong_type};
use crate::http::response::{ApiError, Result};
use crate::ids::AccountId;
use crate::language::{ChatOptions, ChatRequest, Format, Message, Role, Tool, ToolCall, ToolChoice};

/// The size limit of a body.
pub const MAX_BYTES: usize = 4 << 20;

const MAX_TOKENS: i64 = 1 << 20;
const MAX_STOPS: usize = 4;
const MAX_STOP_CHARS: usize = 200;
const MAX_TOOLS: usize = 128;
const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 8192;
const MAX_ID_CHARS: usize = 256;

/// What differs between the service's own endpoint and OpenAI's.
pub struct Dialect {
    pub messages: usize,
    pub content: RangeInclusive<usize>,
    /// Takes lists of text parts, the role `developer` and `max_completion_tokens`.
    pub is_openai: bool,
}

/// `/v2/llm/chat-completions`
pub const SERVICE: Dialect = Dialect { messages: 32, content: 1..=24_000, is_openai: false };
/// `/v1/chat/completions`. The body's size is the limit.
pub const OPENAI: Dialect = Dialect { messages: 4096, content: 0..=MAX_BYTES, is_openai: true };

/// A validated request.
pub struct ChatBody {
    pub model: Option<String>,
    pub transcript_id: Option<String>,
    pub request: ChatRequest,
    pub stream: bool,
    pub include_usage: bool,
}

/// Validates a body.
///
/// # Errors
/// 400 if `messages` is missing, 422 for a wrong type or value.
pub fn parse(mut fields: Fields, account: AccountId, dialect: &Dialect) -> Result<ChatBody> {
    let messages = messages(&mut fields, dialect)?;
    let model = fields.string("model")?;
    let transcript_id = fields.string("transcript_id")?;
    let stream = fields.flag("stream")?;
    let include_usage = match fields.take("stream_options") {
        None => false,
        Some(options) => Fields::of("stream_options", options)?.flag("include_usage")?,
    };
    let max_tokens = fields.integer("max_tokens", 1..=MAX_TOKENS)?;
    let max_completion_tokens =
        if dialect.is_openai { fields.integer("max_completion_tokens", 1..=MAX_TOKENS)? } else { None };
    if fields.integer("n", 1..=i64::MAX)?.is_some_and(|n| n > 1) {
        return Err(ApiError::validation("`n` must be 1: there is one answer to a request."));
    }
    refuse_unserved(&mut fields)?;
    let tools = tools(&mut fields)?;
    let options = ChatOptions {
        max_tokens: max_completion_tokens.or(max_tokens).map(|tokens| tokens as u32),
        temperature: fields.number("temperature", 0.0..=2.0)?,
        top_p: fields.number("top_p", 0.0..=1.0)?,
        presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?,
        frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?,
        seed: fields.integer("seed", i64::MIN..=i64::MAX)?,
        stop: stop(&mut fields)?,
        format: format(fields.take("response_format"))?,
        tool_choice: tool_choice(fields.take("tool_choice"), &tools)?,
        tools,
    };
    Ok(ChatBody {
        model,
        transcript_id,
        request: ChatRequest { messages, options, account, live: false },
        stream,
        include_usage,
    })
}

/// Refuses fields of OpenAI's shape that would change the answer and that nothing here obeys. Values that change nothing pass.
fn refuse_unserved(fields: &mut Fields) -> Result<()> {
    for (name, remedy) in [
        ("logit_bias", "leave it out"),
        ("logprobs", "answers have no probabilities; leave it out"),
        ("top_logprobs", "answers have no probabilities; leave it out"),
        ("functions", "send `tools`"),
        ("function_call", "send `tool_choice`"),
        ("modalities", "answers are text alone; leave it out"),
        ("audio", "answers are text alone; leave it out"),
        ("web_search_options", "answers come from the conversation alone; leave it out"),
    ] {
        let changes_nothing = match fields.take(name) {
            None | Some(Value::Bool(false)) => true,
            Some(Value::Number(number)) => number.as_f64() == Some(0.0),
            Some(Value::String(text)) => matches!(&*text, "none" | "auto"),
            Some(Value::Array(items)) => items.iter().all(|item| name == "modalities" && item == "text"),
            Some(Value::Object(fields)) => fields.is_empty() && name != "web_search_options",
            Some(Value::Null | Value::Bool(true)) => false,
        };
        if !changes_nothing {
            return Err(ApiError::validation(format!("`{name}` is not served: {remedy}.")));
        }
    }
    Ok(())
}

fn messages(fields: &mut Fields, dialect: &Dialect) -> Result<Vec<Message>> {
    let was_there = fields.has("messages");
    let messages = fields.values("messages", dialect.messages)?;
    let messages = match messages {
        Some(messages) if messages.is_empty() => {
            return Err(ApiError::validation(format!(
                "`messages` must have 1 to {} entries; it is empty.",
                dialect.messages
            )));
        }
        Some(messages) => messages,
        None if was_there => return Err(ApiError::validation("`messages` must be an array, not null.")),
        None => return Err(ApiError::invalid("`messages` is missing.")),
    };
    messages.into_iter().enumerate().map(|(at, value)| message(&format!("messages[{at}]"), value, dialect)).collect()
}

/// Names the message in the error of one of its fields.
fn within<T>(name: &str, result: Result<T>) -> Result<T> {
    result.map_err(|mut error| {
        error.message = format!("{name}: {}", error.message);
        error
    })
}

fn message(name: &str, value: Value, dialect: &Dialect) -> Result<Message> {
    let mut fields = Fields::of(name, value)?;
    let role = match within(name, fields.string("role"))?.as_deref() {
        Some("system") => Role::System,
        Some("developer") if dialect.is_openai => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        None => {
            return Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                "invalid_request",
                format!("`{name}.role` is missing."),
            ));
        }
        Some(other) => {
            let message = format!("`{name}.role` must be system, user, assistant or tool; it is {other:?}.");
            return Err(ApiError::validation(message));
        }
    };
    let tool_calls = match within(name, fields.values("tool_calls", MAX_TOOLS))? {
        Some(_) if role != Role::Assistant => {
            return Err(ApiError::validation(format!("{name}: only an assistant has `tool_calls`.")));
        }
        calls => calls.unwrap_or_default(),
    };
    let tool_calls: Vec<ToolCall> = tool_calls
        .into_iter()
        .enumerate()
        .map(|(at, value)| tool_call(&format!("{name}.tool_calls[{at}]"), value))
        .collect::<Result<_>>()?;
    let tool_call_id = within(name, fields.string_of("tool_call_id", 1..=MAX_ID_CHARS))?;
    if role == Role::Tool && tool_call_id.is_none() {
        return Err(ApiError::validation(format!("`{name}.tool_call_id` is missing: the call that this answers.")));
    }
    let content = match fields.take("content") {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) if dialect.is_openai => text_of(name, parts)?,
        None if !tool_calls.is_empty() => String::new(),
        None => {
            return Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                "invalid_request",
                format!("`{name}.content` is missing."),
            ));
        }
        Some(other) => return Err(wrong_type(&format!("{name}.content"), "a string", &other)),
    };
    let length = content.chars().count();
    if !dialect.content.contains(&length) && tool_calls.is_empty() {
        let (least, most) = (dialect.content.start(), dialect.content.end());
        let message = format!("`{name}.content` must have {least} to {most} characters; it has {length}.");
        return Err(ApiError::validation(message));
    }
    Ok(Message { role, content, tool_calls, tool_call_id: tool_call_id.filter(|_| role == Role::Tool) })
}

/// The text of a list of parts.
fn text_of(name: &str, parts: Vec<Value>) -> Result<String> {
    let mut text = String::new();
    for part in parts {
        match (part["type"].as_str(), part["text"].as_str()) {
            (Some("text"), Some(more)) => text.push_str(more),
            (Some(kind), _) if kind != "text" => {
                return Err(ApiError::validation(format!("{name}: parts of type {kind:?} are not read; send text.")));
            }
            _ => return Err(ApiError::validation(format!("{name}: a part of `content` has no text."))),
        }
    }
    Ok(text)
}

fn tool_call(name: &str, value: Value) -> Result<ToolCall> {
    let mut fields = Fields::of(name, value)?;
    let id = within(name, fields.string_of("id", 1..=MAX_ID_CHARS))?;
    let mut function = Fields::of(&format!("{name}.function"), fields.take("function").unwrap_or_default())?;
    let function_name = within(name, function.string_of("name", 1..=MAX_NAME_CHARS))?;
    let arguments = within(name, function.string("arguments"))?;
    match (id, function_name, arguments) {
        (Some(id), Some(name), Some(arguments)) => Ok(ToolCall { id, name, arguments }),
        _ => Err(ApiError::validation(format!("`{name}` needs `id`, `function.name` and `function.arguments`."))),
    }
}

fn stop(fields: &mut Fields) -> Result<Vec<String>> {
    let stops = match fields.take("stop") {
        None => Vec::new(),
        Some(Value::String(stop)) => vec![Value::String(stop)],
        Some(Value::Array(stops)) => stops,
        Some(other) => return Err(wrong_type("stop", "a string or an array of strings", &other)),
    };
    if stops.len() > MAX_STOPS {
        return Err(ApiError::validation(format!("`stop` has {} entries; it may have {MAX_STOPS}.", stops.len())));
    }
    let text = |stop: Value| match stop {
        Value::String(stop) if (1..=MAX_STOP_CHARS).contains(&stop.chars().count()) => Ok(stop),
        Value::String(_) => {
            Err(ApiError::validation(format!("An entry of `stop` must have 1 to {MAX_STOP_CHARS} characters.")))
        }
        other => Err(wrong_type("stop", "a string or an array of strings", &other)),
    };
    stops.into_iter().map(text).collect()
}

fn format(value: Option<Value>) -> Result<Format> {
    let unknown = || {
        ApiError::validation(
            "`response_format` must be \"text\", \"json\" or an object whose `type` is text, json_object or json_schema.",
        )
    };
    let value = match value {
        None => return Ok(Format::Text),
        Some(Value::String(name)) => json!({ "type": name }),
        Some(value @ Value::Object(_)) => value,
        Some(other) => return Err(wrong_type("response_format", "a string or an object", &other)),
    };
    match value["type"].as_str() {
        Some("text") => Ok(Format::Text),
        Some("json" | "json_object") => Ok(Format::Json),
        Some("json_schema") => {
            let mut fields = Fields::of("response_format.json_schema", value["json_schema"].clone())?;
            let name = fields.string_of("name", 1..=MAX_NAME_CHARS)?.unwrap_or_else(|| "answer".into());
            let strict = fields.flag("strict")?;
            let schema = fields.take("schema").ok_or_else(|| {
                ApiError::validation("`response_format.json_schema.schema` is missing: the JSON Schema of the answer.")
            })?;
            Ok(Format::Schema { name, strict, schema })
        }
        _ => Err(unknown()),
    }
}

fn tools(fields: &mut Fields) -> Result<Vec<Tool>> {
    let mut tools: Vec<Tool> = Vec::new();
    for (at, value) in fields.values("tools", MAX_TOOLS)?.unwrap_or_default().into_iter().enumerate() {
        let name = format!("tools[{at}]");
        let mut fields = Fields::of(&name, value)?;
        if within(&name, fields.string("type"))?.as_deref() != Some("function") {
            return Err(ApiError::validation(format!("`{name}.type` must be \"function\".")));
        }
        let mut function = Fields::of(&format!("{name}.function"), fields.take("function").unwrap_or_default())?;
        let tool_name = within(&name, function.string_of("name", 1..=MAX_NAME_CHARS))?;
        let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        let Some(tool_name) = tool_name.filter(|text| is_name(text)) else {
            let message = format!("`{name}.function.name` must be letters, digits, `_` and `-`.");
            return Err(ApiError::validation(message));
        };
        if tools.iter().any(|tool| tool.name == tool_name) {
            return Err(ApiError::validation(format!("Two tools have the name {tool_name:?}.")));
        }
        let description = within(&name, function.string_of("description", 0..=MAX_DESCRIPTION_CHARS))?;
        let parameters = match function.take("parameters") {
            None => json!({ "type": "object", "properties": {} }),
            Some(parameters @ Value::Object(_)) => parameters,
            Some(other) => return Err(wrong_type(&format!("{name}.function.parameters"), "an object", &other)),
        };
        tools.push(Tool { name: tool_name, description, parameters });
    }
    Ok(tools)
}

fn tool_choice(value: Option<Value>, tools: &[Tool]) -> Result<ToolChoice> {
    let choice = match value {
        None => return Ok(ToolChoice::Auto),
        Some(Value::String(name)) => match name.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            _ => {
                let message = "`tool_choice` must be auto, none, required or an object that names a function.";
                return Err(ApiError::validation(message));
            }
        },
        Some(value) => match value["function"]["name"].as_str() {
            Some(name) if tools.iter().any(|tool| tool.name == name) => ToolChoice::Named(name.to_owned()),
            Some(name) => return Err(ApiError::validation(format!("`tool_choice` names {name:?}, which is no tool."))),
            None => return Err(ApiError::validation("`tool_choice.function.name` is missing.")),
        },
    };
    if tools.is_empty() && !matches!(choice, ToolChoice::Auto | ToolChoice::None) {
        return Err(ApiError::validation("`tool_choice` asks for a tool, and there are no `tools`."));
    }
    Ok(choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: Value, dialect: &Dialect) -> Result<ChatBody> {
        parse(Fields::of("body", body).unwrap(), AccountId::new(), dialect)
    }

    fn user(content: impl Into<Value>) -> Value {
        json!({ "role": "user", "content": content.into() })
    }

    #[test]
    fn a_body_is_read_whole() {
        let body = json!({
            "messages": [
                { "role": "system", "content": "Be brief." },
                user("Hi"),
                { "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } }] },
                { "role": "tool", "tool_call_id": "c", "content": "5" },
            ],
            "model": "m", "transcript_id": "tr_1", "stream": true, "stream_options": { "include_usage": true },
            "max_tokens": 5, "temperature": 0, "top_p": 1.0, "seed": -1, "stop": ["a", "b"],
            "response_format": { "type": "json_schema", "json_schema": { "name": "n", "strict": true, "schema": { "type": "object" } } },
            "tools": [{ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } }],
            "tool_choice": { "type": "function", "function": { "name": "f" } },
            "an_unknown_field": 1,
        });
        let read = read(body, &SERVICE).unwrap();
        assert!(read.stream && read.include_usage);
        assert_eq!(read.request.messages[2].tool_calls[0].id, "c");
        assert_eq!(read.request.messages[3].tool_call_id.as_deref(), Some("c"));
        let options = read.request.options;
        assert_eq!((options.max_tokens, options.temperature, options.seed), (Some(5), Some(0.0), Some(-1)));
        assert_eq!((options.stop.len(), options.tool_choice), (2, ToolChoice::Named("f".into())));
        assert!(matches!(options.format, Format::Schema { strict: true, .. }));
    }

    #[test]
    fn wrong_fields_are_422_and_missing_ones_400() {
        let with = |more: Value| {
            let mut body = json!({ "messages": [user("Hi")] });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        let many: Vec<Value> = (0..33).map(|_| user("x")).collect();
        for (body, status) in [
            (json!({}), 400),
            (json!({ "messages": null }), 422),
            (json!({ "messages": [] }), 422),
            (json!({ "messages": "Hi" }), 422),
            (json!({ "messages": many }), 422),
            (json!({ "messages": ["Hi"] }), 422),
            (json!({ "messages": [{ "content": "Hi" }] }), 400),
            (json!({ "messages": [{ "role": "robot", "content": "Hi" }] }), 422),
            (json!({ "messages": [{ "role": "developer", "content": "Hi" }] }), 422),
            (json!({ "messages": [user("")] }), 422),
            (json!({ "messages": [user("x".repeat(24_001))] }), 422),
            (json!({ "messages": [user(json!([{ "type": "text", "text": "Hi" }]))] }), 422),
            (json!({ "messages": [{ "role": "user" }] }), 400),
            (json!({ "messages": [{ "role": "tool", "content": "5" }] }), 422),
            (with(json!({ "stream": "yes" })), 422),
            (with(json!({ "stream_options": true })), 422),
            (with(json!({ "max_tokens": 0 })), 422),
            (with(json!({ "temperature": 2.5 })), 422),
            (with(json!({ "temperature": "hot" })), 422),
            (with(json!({ "top_p": -0.1 })), 422),
            (with(json!({ "seed": 1.5 })), 422),
            (with(json!({ "presence_penalty": 2.5 })), 422),
            (with(json!({ "frequency_penalty": "high" })), 422),
            (with(json!({ "logit_bias": { "50256": -100 } })), 422),
            (with(json!({ "logprobs": true })), 422),
            (with(json!({ "top_logprobs": 2 })), 422),
            (with(json!({ "functions": [{ "name": "f" }] })), 422),
            (with(json!({ "function_call": { "name": "f" } })), 422),
            (with(json!({ "modalities": ["text", "audio"] })), 422),
            (with(json!({ "audio": { "voice": "alloy", "format": "wav" } })), 422),
            (with(json!({ "web_search_options": {} })), 422),
            (with(json!({ "n": 2 })), 422),
            (with(json!({ "stop": ["a", "b", "c", "d", "e"] })), 422),
            (with(json!({ "stop": [""] })), 422),
            (with(json!({ "response_format": "xml" })), 422),
            (with(json!({ "response_format": { "type": "json_schema" } })), 422),
            (with(json!({ "tools": [{ "type": "function", "function": { "name": "a b" } }] })), 422),
            (with(json!({ "tools": [{ "function": { "name": "a" } }] })), 422),
            (with(json!({ "tool_choice": "required" })), 422),
            (with(json!({ "tool_choice": "sometimes" })), 422),
        ] {
            let Err(error) = read(body.clone(), &SERVICE) else { panic!("accepted: {body}") };
            assert_eq!(error.status, status, "{body}");
        }
        let unchanged = json!({
            "logit_bias": {}, "logprobs": false, "top_logprobs": 0, "functions": [], "function_call": "auto",
            "modalities": ["text"], "audio": null, "web_search_options": null, "presence_penalty": -2, "frequency_penalty": 0.5,
        });
        let options = read(with(unchanged), &SERVICE).unwrap().request.options;
        assert_eq!((options.presence_penalty, options.frequency_penalty), (Some(-2.0), Some(0.5)));
        let longest = json!({ "messages": [user("ä".repeat(24_000))] });
        assert!(read(longest, &SERVICE).is_ok());
    }

    #[test]
    fn the_other_dialect_takes_parts_and_its_own_names() {
        let body = json!({
            "messages": [{ "role": "developer", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] }],
            "max_completion_tokens": 9,
        });
        let read_body = read(body, &OPENAI).unwrap();
        assert_eq!(read_body.request.messages[0], Message::new(Role::System, "ab"));
        assert_eq!(read_body.request.options.max_tokens, Some(9));
        let image = json!({ "messages": [user(json!([{ "type": "image_url", "image_url": { "url": "x" } }]))] });
        assert!(read(image, &OPENAI).is_err());
    }
}
