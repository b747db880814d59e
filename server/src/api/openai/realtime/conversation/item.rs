//! An item: a message, a function call, or the output of one.

use serde_json::{Value, json};

use crate::http::body::Fields;
use crate::http::response::ApiError;
use crate::ids;
use crate::language::{Role, ToolCall};

/// The longest id of a client, and the longest name of a function, in characters.
const MAX_ID: usize = 64;
/// The longest text of a part or an output, in characters.
pub const MAX_TEXT: usize = 1 << 20;
/// The most parts of a message.
const MAX_PARTS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    InProgress,
    Completed,
    Incomplete,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
        }
    }
}

/// The sender of a message, and the form of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    System,
    UserText,
    /// A turn of the caller.
    UserAudio,
    AgentText,
    /// A reply that was spoken.
    AgentAudio,
}

impl Source {
    pub fn role(self) -> Role {
        match self {
            Self::System => Role::System,
            Self::UserText | Self::UserAudio => Role::User,
            Self::AgentText | Self::AgentAudio => Role::Assistant,
        }
    }

    /// The type of a part, and the name of its text.
    fn part(self) -> (&'static str, &'static str) {
        match self {
            Self::System | Self::UserText => ("input_text", "text"),
            Self::UserAudio => ("input_audio", "transcript"),
            Self::AgentText => ("output_text", "text"),
            Self::AgentAudio => ("output_audio", "transcript"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Its parts, each a text.
    Message(Source, Vec<String>),
    Call(ToolCall),
    Output {
        call_id: String,
        output: String,
    },
}

/// The audio of a spoken reply: how much of the transcript had been sent at which length of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Length, ms.
    pub audio_ms: u64,
    /// The beginning of a frame, ms, and the bytes of the transcript that end with the words that begin in it.
    words: Vec<(u64, usize)>,
}

impl Timeline {
    /// Adds a frame of this length, after which the transcript has so many bytes.
    pub fn push(&mut self, ms: u64, bytes: usize) {
        if self.words.last().is_none_or(|(_, last)| *last != bytes) {
            self.words.push((self.audio_ms, bytes));
        }
        self.audio_ms += ms;
    }

    /// Bytes of the transcript up to this length.
    pub fn bytes_at(&self, ms: u64) -> usize {
        let played = self.words.iter().take_while(|(from, _)| *from < ms);
        played.last().map_or(0, |(_, bytes)| *bytes)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub id: String,
    pub status: Status,
    pub content: Content,
    pub timeline: Timeline,
}

impl Item {
    pub fn new(status: Status, content: Content) -> Self {
        Self { id: ids::fresh("item"), status, content, timeline: Timeline::default() }
    }

    /// A message of one part.
    pub fn message(status: Status, source: Source, text: impl Into<String>) -> Self {
        Self::new(status, Content::Message(source, vec![text.into()]))
    }

    /// The item in the protocol's shape.
    pub fn json(&self) -> Value {
        let (id, status) = (&self.id, self.status.name());
        match &self.content {
            Content::Message(source, texts) => {
                let (kind, name) = source.part();
                let parts: Vec<Value> = texts.iter().map(|text| json!({ "type": kind, name: text })).collect();
                json!({
                    "id": id, "object": "realtime.item", "type": "message", "status": status,
                    "role": source.role().name(), "content": parts,
                })
            }
            Content::Call(ToolCall { id: call_id, name, arguments }) => json!({
                "id": id, "object": "realtime.item", "type": "function_call", "status": status,
                "name": name, "call_id": call_id, "arguments": arguments,
            }),
            Content::Output { call_id, output } => json!({
                "id": id, "object": "realtime.item", "type": "function_call_output", "status": status,
                "call_id": call_id, "output": output,
            }),
        }
    }

    /// The bytes of its texts.
    pub fn bytes(&self) -> usize {
        match &self.content {
            Content::Message(_, texts) => texts.iter().map(String::len).sum(),
            Content::Call(call) => call.arguments.len(),
            Content::Output { output, .. } => output.len(),
        }
    }

    /// Reads an item of the client's.
    ///
    /// # Errors
    /// For one that is not served.
    pub fn read(value: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::of("item", value)?;
        let id = fields.string_of("id", 1..=MAX_ID)?.unwrap_or_else(|| ids::fresh("item"));
        let content = match fields.required_string("type", 1..=MAX_ID)?.as_str() {
            "message" => {
                let source = match fields.required_string("role", 1..=MAX_ID)?.as_str() {
                    "user" => Source::UserText,
                    "assistant" => Source::AgentText,
                    "system" => Source::System,
                    other => {
                        let message = format!("`role` must be user, assistant or system, not {other:?}.");
                        return Err(ApiError::validation(message));
                    }
                };
                let parts = fields.values("content", MAX_PARTS)?.unwrap_or_default();
                let texts = parts.into_iter().map(|part| read_part(part, source.part().0));
                Content::Message(source, texts.collect::<Result<_, _>>()?)
            }
            "function_call" => Content::Call(ToolCall {
                id: fields.string_of("call_id", 1..=MAX_ID)?.unwrap_or_else(|| ids::fresh("call")),
                name: fields.required_string("name", 1..=MAX_ID)?,
                arguments: read_arguments(&mut fields)?,
            }),
            "function_call_output" => Content::Output {
                call_id: fields.required_string("call_id", 1..=MAX_ID)?,
                output: fields.required_string("output", 0..=MAX_TEXT)?,
            },
            other => {
                let message =
                    format!("`type` must be message, function_call or function_call_output; {other:?} is not served.");
                return Err(ApiError::validation(message));
            }
        };
        Ok(Self { id, status: Status::Completed, content, timeline: Timeline::default() })
    }
}

fn read_part(part: Value, wanted: &str) -> Result<String, ApiError> {
    let mut fields = Fields::of("content", part)?;
    match fields.string("type")?.as_deref() {
        // The name of before.
        Some("text") => {}
        Some(kind) if kind == wanted => {}
        kind => {
            let message = format!(
                "A part of this message must have the type {wanted}, not {:?}: audio comes by input_audio_buffer.append, and images are \
                 not served.",
                kind.unwrap_or_default()
            );
            return Err(ApiError::validation(message));
        }
    }
    fields.required_string("text", 0..=MAX_TEXT)
}

fn read_arguments(fields: &mut Fields) -> Result<String, ApiError> {
    let arguments = fields.required_string("arguments", 0..=MAX_TEXT)?;
    match serde_json::from_str(&arguments) {
        Ok(Value::Object(_)) => Ok(arguments),
        _ => Err(ApiError::validation("`arguments` must be a JSON object, as a string.")),
    }
}
