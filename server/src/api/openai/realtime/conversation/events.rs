//! Events to the client of a conversation, beside those that transcription sessions have too.

use serde::Serialize;
use serde_json::Value;

use super::super::frames::{self, Fault, to_json};
use super::settings::Settings;
use crate::live::agent::session::{self, Step};
use crate::live::socket::Socket;

/// The `session` object of a conversation.
#[derive(Serialize)]
pub struct SessionObject<'a> {
    pub id: &'a str,
    object: &'static str,
    /// s since 1970
    expires_at: i64,
    #[serde(flatten)]
    settings: &'a Settings,
}

impl<'a> SessionObject<'a> {
    pub fn new(id: &'a str, expires_at: i64, settings: &'a Settings) -> Self {
        Self { id, object: "realtime.session", expires_at, settings }
    }
}

/// The place of a part of a response.
#[derive(Clone, Copy, Serialize)]
pub struct Place<'a> {
    pub response_id: &'a str,
    pub item_id: &'a str,
    pub output_index: usize,
    pub content_index: usize,
}

/// A function call of a response.
#[derive(Clone, Copy, Serialize)]
pub struct CallPlace<'a> {
    pub response_id: &'a str,
    pub item_id: &'a str,
    pub output_index: usize,
    pub call_id: &'a str,
}

/// An event from the service.
#[derive(Serialize)]
#[serde(tag = "type")]
pub enum ServerEvent<'a> {
    #[serde(rename = "session.created")]
    Created { session: SessionObject<'a> },
    #[serde(rename = "session.updated")]
    Updated { session: SessionObject<'a> },
    #[serde(rename = "conversation.item.added")]
    ItemAdded { previous_item_id: Option<&'a str>, item: &'a Value },
    #[serde(rename = "conversation.item.done")]
    ItemDone { previous_item_id: Option<&'a str>, item: &'a Value },
    #[serde(rename = "conversation.item.retrieved")]
    ItemRetrieved { item: &'a Value },
    #[serde(rename = "conversation.item.deleted")]
    ItemDeleted { item_id: &'a str },
    #[serde(rename = "conversation.item.truncated")]
    ItemTruncated { item_id: &'a str, content_index: u64, audio_end_ms: u64 },
    #[serde(rename = "input_audio_buffer.timeout_triggered")]
    TimeoutTriggered { audio_start_ms: u64, audio_end_ms: u64, item_id: &'a str },
    #[serde(rename = "response.created")]
    ResponseCreated { response: &'a Value },
    #[serde(rename = "response.output_item.added")]
    OutputAdded { response_id: &'a str, output_index: usize, item: &'a Value },
    #[serde(rename = "response.output_item.done")]
    OutputDone { response_id: &'a str, output_index: usize, item: &'a Value },
    #[serde(rename = "response.content_part.added")]
    PartAdded {
        #[serde(flatten)]
        place: Place<'a>,
        part: &'a Value,
    },
    #[serde(rename = "response.content_part.done")]
    PartDone {
        #[serde(flatten)]
        place: Place<'a>,
        part: &'a Value,
    },
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        #[serde(flatten)]
        place: Place<'a>,
        delta: &'a str,
    },
    #[serde(rename = "response.output_text.done")]
    TextDone {
        #[serde(flatten)]
        place: Place<'a>,
        text: &'a str,
    },
    #[serde(rename = "response.output_audio_transcript.delta")]
    TranscriptDelta {
        #[serde(flatten)]
        place: Place<'a>,
        delta: &'a str,
    },
    #[serde(rename = "response.output_audio_transcript.done")]
    TranscriptDone {
        #[serde(flatten)]
        place: Place<'a>,
        transcript: &'a str,
    },
    #[serde(rename = "response.output_audio.delta")]
    AudioDelta {
        #[serde(flatten)]
        place: Place<'a>,
        delta: &'a str,
    },
    #[serde(rename = "response.output_audio.done")]
    AudioDone {
        #[serde(flatten)]
        place: Place<'a>,
    },
    #[serde(rename = "response.function_call_arguments.delta")]
    ArgumentsDelta {
        #[serde(flatten)]
        place: CallPlace<'a>,
        delta: &'a str,
    },
    #[serde(rename = "response.function_call_arguments.done")]
    ArgumentsDone {
        #[serde(flatten)]
        place: CallPlace<'a>,
        name: &'a str,
        arguments: &'a str,
    },
    #[serde(rename = "output_audio_buffer.started")]
    PlayingStarted { response_id: &'a str },
    #[serde(rename = "output_audio_buffer.stopped")]
    PlayingStopped { response_id: &'a str },
    #[serde(rename = "output_audio_buffer.cleared")]
    PlayingCleared { response_id: &'a str },
    #[serde(rename = "response.done")]
    ResponseDone { response: &'a Value },
}

pub async fn send(socket: &Socket, event: &ServerEvent<'_>) -> Step {
    session::send(socket, to_json(event)).await
}

/// Sends an event that transcription sessions have too.
pub async fn send_shared(socket: &Socket, event: &frames::ServerEvent<'_>) -> Step {
    session::send(socket, event.to_json()).await
}

/// Reports a fault.
pub async fn refuse(socket: &Socket, fault: Fault) -> Step {
    send_shared(socket, &frames::ServerEvent::Error { error: &fault }).await
}
