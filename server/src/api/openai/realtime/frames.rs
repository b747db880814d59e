//! Events of the protocol.

use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::error::Category;

use super::super::transcription::LogProb;
use super::settings::Settings;
use crate::http::response::{ApiError, shortened};
use crate::ids;

/// The longest id of a client's event that errors repeat, in bytes.
const MAX_EVENT_ID: usize = 512;

const CLIENT_EVENTS: &str =
    "session.update, input_audio_buffer.append, input_audio_buffer.commit and input_audio_buffer.clear";

/// An event from the client.
#[derive(Debug, PartialEq)]
pub enum ClientEvent {
    /// The `session` object.
    Update(Value),
    /// Base64.
    Append(String),
    Commit,
    Clear,
}

/// The fields of every event from the client.
#[derive(Deserialize)]
struct ClientFields {
    r#type: Option<String>,
    event_id: Option<String>,
    audio: Option<String>,
    session: Option<Value>,
}

/// The id of an event whose other fields are wrong.
#[derive(Deserialize)]
struct EventId {
    event_id: Option<String>,
}

impl ClientEvent {
    /// Parses an event; also returns its id.
    pub fn parse(text: &str) -> (Option<String>, Result<Self, Fault>) {
        let fields = match serde_json::from_str::<ClientFields>(text) {
            Ok(fields) => fields,
            Err(error) if error.classify() == Category::Data => {
                let id = serde_json::from_str::<EventId>(text).ok().and_then(|id| id.event_id);
                let message = format!("The event has a field of the wrong type: {error}.");
                return (repeated(id), Err(Fault::invalid("invalid_type", message)));
            }
            Err(error) => {
                return (None, Err(Fault::invalid("invalid_json", format!("The event is not JSON: {error}."))));
            }
        };
        let missing = |name: &'static str| {
            let fault = Fault::invalid("missing_required_parameter", format!("`{name}` is missing."));
            Err(fault.about(name))
        };
        let event = match (fields.r#type.as_deref(), fields.session, fields.audio) {
            (Some("session.update"), Some(session), _) => Ok(Self::Update(session)),
            (Some("session.update"), None, _) => missing("session"),
            (Some("input_audio_buffer.append"), _, Some(audio)) => Ok(Self::Append(audio)),
            (Some("input_audio_buffer.append"), _, None) => missing("audio"),
            (Some("input_audio_buffer.commit"), ..) => Ok(Self::Commit),
            (Some("input_audio_buffer.clear"), ..) => Ok(Self::Clear),
            (Some(other), ..) => {
                let message = format!("A transcription session has no event {other:?}; it has {CLIENT_EVENTS}.");
                Err(Fault::invalid("invalid_value", message).about("type"))
            }
            (None, ..) => missing("type"),
        };
        (repeated(fields.event_id), event)
    }
}

/// The id of an event, as errors repeat it.
pub fn repeated(id: Option<String>) -> Option<String> {
    id.filter(|id| id.len() <= MAX_EVENT_ID)
}

/// A fault of an event or of the service. The session goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    r#type: &'static str,
    code: &'static str,
    message: String,
    param: Option<&'static str>,
    /// The client's event.
    event_id: Option<String>,
}

impl Fault {
    fn new(kind: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        Self { r#type: kind, code, message: shortened(message.into()), param: None, event_id: None }
    }

    /// A fault of the client.
    pub fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new("invalid_request_error", code, message)
    }

    /// A fault of the service.
    pub fn service(code: &'static str, message: impl Into<String>) -> Self {
        Self::new("server_error", code, message)
    }

    pub fn no_credit(message: &str) -> Self {
        Self::new("insufficient_quota", "insufficient_quota", message)
    }

    pub fn binary() -> Self {
        let message = "Binary messages are no events: send audio as base64 in input_audio_buffer.append.";
        Self::invalid("invalid_event", message)
    }

    /// A format of audio in a call, whose tracks have their own.
    pub fn format_of_call() -> Self {
        let message = "The audio of a call is that of its tracks: leave `format` out, or audio/pcm at 24000.";
        Self::invalid("invalid_value", message).about("session")
    }

    /// A commit of less audio than there has to be, ms.
    pub fn short_buffer(buffered: u64, least: u64) -> Self {
        let message = format!("The buffer has {buffered} ms of audio; a commit needs at least {least} ms.");
        Self::invalid("input_audio_buffer_commit_empty", message)
    }

    pub fn message(self) -> String {
        self.message
    }

    /// A refused `session` object.
    pub fn of_session(error: ApiError) -> Self {
        match error.status {
            StatusCode::NOT_FOUND => Self::invalid(error.code, error.message),
            _ => Self::invalid("invalid_value", error.message),
        }
        .about("session")
    }

    pub fn about(self, param: &'static str) -> Self {
        Self { param: Some(param), ..self }
    }

    pub fn of_event(self, event_id: Option<String>) -> Self {
        Self { event_id, ..self }
    }
}

/// The `session` object of a session.
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
        Self { id, object: "realtime.transcription_session", expires_at, settings }
    }
}

/// An item of the conversation: what was said in a turn.
#[derive(Clone, Copy, Serialize)]
pub struct ItemObject<'a> {
    id: &'a str,
    object: &'static str,
    r#type: &'static str,
    status: &'static str,
    role: &'static str,
    content: [Content; 1],
}

#[derive(Clone, Copy, Serialize)]
struct Content {
    r#type: &'static str,
    /// It comes in events of its own.
    transcript: Option<()>,
}

impl<'a> ItemObject<'a> {
    pub fn new(id: &'a str) -> Self {
        let content = [Content { r#type: "input_audio", transcript: None }];
        Self { id, object: "realtime.item", r#type: "message", status: "completed", role: "user", content }
    }
}

/// Sessions are billed by their time.
#[derive(Serialize)]
pub struct Usage {
    r#type: &'static str,
    seconds: f64,
}

impl Usage {
    pub fn of_ms(ms: u64) -> Self {
        Self { r#type: "duration", seconds: ms as f64 / 1e3 }
    }
}

/// An event from the service.
#[derive(Serialize)]
#[serde(tag = "type")]
pub enum ServerEvent<'a> {
    #[serde(rename = "session.created")]
    Created { session: SessionObject<'a> },
    #[serde(rename = "session.updated")]
    Updated { session: SessionObject<'a> },
    #[serde(rename = "input_audio_buffer.speech_started")]
    SpeechStarted { audio_start_ms: u64, item_id: &'a str },
    #[serde(rename = "input_audio_buffer.speech_stopped")]
    SpeechStopped { audio_end_ms: u64, item_id: &'a str },
    #[serde(rename = "input_audio_buffer.committed")]
    Committed { previous_item_id: Option<&'a str>, item_id: &'a str },
    #[serde(rename = "input_audio_buffer.cleared")]
    Cleared,
    #[serde(rename = "conversation.item.added")]
    ItemAdded { previous_item_id: Option<&'a str>, item: ItemObject<'a> },
    #[serde(rename = "conversation.item.done")]
    ItemDone { previous_item_id: Option<&'a str>, item: ItemObject<'a> },
    #[serde(rename = "conversation.item.input_audio_transcription.delta")]
    Delta { item_id: &'a str, content_index: u32, delta: &'a str, logprobs: Option<()> },
    #[serde(rename = "conversation.item.input_audio_transcription.completed")]
    Completed {
        item_id: &'a str,
        content_index: u32,
        transcript: &'a str,
        logprobs: Option<Vec<LogProb<'a>>>,
        usage: Usage,
    },
    #[serde(rename = "conversation.item.input_audio_transcription.failed")]
    Failed { item_id: &'a str, content_index: u32, error: &'a Fault },
    #[serde(rename = "error")]
    Error { error: &'a Fault },
}

/// An event with its id.
#[derive(Serialize)]
struct Identified<'a, E> {
    event_id: String,
    #[serde(flatten)]
    event: &'a E,
}

/// An event as JSON, with an id of its own.
pub fn to_json(event: &impl Serialize) -> String {
    // Serialising strings and numbers does not fail.
    serde_json::to_string(&Identified { event_id: ids::fresh("event"), event }).unwrap_or_default()
}

impl ServerEvent<'_> {
    /// The event as JSON, with an id of its own.
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn broken_events_are_faults_with_the_id_of_their_event() {
        for (text, code, param) in [
            ("", "invalid_json", None),
            ("{", "invalid_json", None),
            ("[]", "invalid_type", None),
            ("5", "invalid_type", None),
            (r#"{"event_id":"e"}"#, "missing_required_parameter", Some("type")),
            (r#"{"type":"response.create","event_id":"e"}"#, "invalid_value", Some("type")),
            (r#"{"type":"session.update","event_id":"e"}"#, "missing_required_parameter", Some("session")),
            (r#"{"type":"input_audio_buffer.append","event_id":"e"}"#, "missing_required_parameter", Some("audio")),
            (r#"{"type":"input_audio_buffer.append","audio":5,"event_id":"e"}"#, "invalid_type", None),
        ] {
            let (id, event) = ClientEvent::parse(text);
            let fault = event.unwrap_err();
            assert_eq!((fault.code, fault.param), (code, param), "{text}");
            assert_eq!(id.is_some(), text.contains("event_id"), "{text}");
        }
        assert_eq!(
            ClientEvent::parse(r#"{"type":"input_audio_buffer.commit","x":1}"#),
            (None, Ok(ClientEvent::Commit))
        );
        let long = format!(r#"{{"type":"input_audio_buffer.clear","event_id":"{}"}}"#, "e".repeat(600));
        assert_eq!(ClientEvent::parse(&long), (None, Ok(ClientEvent::Clear)));
    }

    #[test]
    fn events_have_the_shape_of_the_protocol() {
        let parsed = |event: ServerEvent<'_>| {
            let mut value: Value = serde_json::from_str(&event.to_json()).unwrap();
            let id = value.as_object_mut().unwrap().remove("event_id").unwrap();
            assert!(id.as_str().unwrap().starts_with("event_"));
            value
        };
        assert_eq!(parsed(ServerEvent::Cleared), json!({ "type": "input_audio_buffer.cleared" }));
        assert_eq!(
            parsed(ServerEvent::ItemDone { previous_item_id: None, item: ItemObject::new("item_1") }),
            json!({
                "type": "conversation.item.done", "previous_item_id": null,
                "item": {
                    "id": "item_1", "object": "realtime.item", "type": "message", "status": "completed", "role": "user",
                    "content": [{ "type": "input_audio", "transcript": null }],
                },
            })
        );
        let settings = Settings::default();
        assert_eq!(
            parsed(ServerEvent::Created { session: SessionObject::new("sess_1", 5, &settings) }),
            json!({
                "type": "session.created",
                "session": {
                    "id": "sess_1", "object": "realtime.transcription_session", "expires_at": 5, "type": "transcription",
                    "audio": { "input": {
                        "format": { "type": "audio/pcm", "rate": 24_000 },
                        "transcription": { "model": "svc-realtime-pro", "language": null, "prompt": null },
                        "noise_reduction": null,
                        "turn_detection": {
                            "type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500,
                        },
                    } },
                    "include": null,
                },
            })
        );
    }
}
