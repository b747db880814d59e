//! Events from the client of a conversation.

use serde_json::{Map, Value};

use super::super::frames::{Fault, repeated};

const EVENTS: &str = "session.update, input_audio_buffer.append, .commit and .clear, conversation.item.create, .retrieve, .delete and .truncate, \
                      response.create and response.cancel, and in calls output_audio_buffer.clear";

/// An event from the client.
#[derive(Debug, PartialEq)]
pub enum Request {
    /// The `session` object.
    Update(Value),
    /// Base64.
    Append(String),
    Commit,
    Clear,
    CreateItem {
        after: Option<String>,
        item: Value,
    },
    RetrieveItem(String),
    DeleteItem(String),
    TruncateItem {
        item: String,
        content_index: u64,
        audio_end_ms: u64,
    },
    /// The `response` object; null for none.
    Respond(Value),
    /// The response; none for that of the conversation.
    Cancel(Option<String>),
    /// Drops what a call still plays.
    ClearOutput,
}

impl Request {
    /// Parses an event; also returns its id.
    pub fn parse(text: &str) -> (Option<String>, Result<Self, Fault>) {
        let mut fields = match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return (None, Err(Fault::invalid("invalid_type", "An event is a JSON object."))),
            Err(error) => {
                return (None, Err(Fault::invalid("invalid_json", format!("The event is not JSON: {error}."))));
            }
        };
        let id = match fields.remove("event_id") {
            Some(Value::String(id)) => repeated(Some(id)),
            _ => None,
        };
        (id, Self::read(fields))
    }

    fn read(mut fields: Map<String, Value>) -> Result<Self, Fault> {
        let kind = string(&mut fields, "type")?;
        Ok(match kind.as_str() {
            "session.update" => Self::Update(value(&mut fields, "session")?),
            "input_audio_buffer.append" => Self::Append(string(&mut fields, "audio")?),
            "input_audio_buffer.commit" => Self::Commit,
            "input_audio_buffer.clear" => Self::Clear,
            "conversation.item.create" => Self::CreateItem {
                after: optional_string(&mut fields, "previous_item_id")?,
                item: value(&mut fields, "item")?,
            },
            "conversation.item.retrieve" => Self::RetrieveItem(string(&mut fields, "item_id")?),
            "conversation.item.delete" => Self::DeleteItem(string(&mut fields, "item_id")?),
            "conversation.item.truncate" => Self::TruncateItem {
                item: string(&mut fields, "item_id")?,
                content_index: number(&mut fields, "content_index")?,
                audio_end_ms: number(&mut fields, "audio_end_ms")?,
            },
            "response.create" => Self::Respond(fields.remove("response").unwrap_or_default()),
            "response.cancel" => Self::Cancel(optional_string(&mut fields, "response_id")?),
            "output_audio_buffer.clear" => Self::ClearOutput,
            other => {
                let message = format!("A conversation has no event {other:?}; it has {EVENTS}.");
                return Err(Fault::invalid("invalid_value", message).about("type"));
            }
        })
    }
}

fn value(fields: &mut Map<String, Value>, name: &'static str) -> Result<Value, Fault> {
    match fields.remove(name) {
        None | Some(Value::Null) => {
            Err(Fault::invalid("missing_required_parameter", format!("`{name}` is missing.")).about(name))
        }
        Some(value) => Ok(value),
    }
}

fn string(fields: &mut Map<String, Value>, name: &'static str) -> Result<String, Fault> {
    match value(fields, name)? {
        Value::String(text) => Ok(text),
        _ => Err(Fault::invalid("invalid_type", format!("`{name}` must be a string.")).about(name)),
    }
}

fn optional_string(fields: &mut Map<String, Value>, name: &'static str) -> Result<Option<String>, Fault> {
    if fields.get(name).is_none_or(Value::is_null) { Ok(None) } else { string(fields, name).map(Some) }
}

fn number(fields: &mut Map<String, Value>, name: &'static str) -> Result<u64, Fault> {
    let number = value(fields, name)?.as_u64();
    number.ok_or_else(|| {
        Fault::invalid("invalid_type", format!("`{name}` must be a whole number from 0 on.")).about(name)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn broken_events_are_faults_with_the_id_of_their_event() {
        for (event, code, param) in [
            (json!(5), "invalid_type", Value::Null),
            (json!({ "event_id": "e" }), "missing_required_parameter", json!("type")),
            (json!({ "event_id": "e", "type": 5 }), "invalid_type", json!("type")),
            (json!({ "event_id": "e", "type": "transcription_session.update" }), "invalid_value", json!("type")),
            (json!({ "event_id": "e", "type": "session.update" }), "missing_required_parameter", json!("session")),
            (
                json!({ "event_id": "e", "type": "input_audio_buffer.append", "audio": 5 }),
                "invalid_type",
                json!("audio"),
            ),
            (
                json!({ "event_id": "e", "type": "conversation.item.truncate", "item_id": "a", "content_index": 0, "audio_end_ms": -1 }),
                "invalid_type",
                json!("audio_end_ms"),
            ),
        ] {
            let (id, read) = Request::parse(&event.to_string());
            let fault = serde_json::to_value(read.unwrap_err()).unwrap();
            assert_eq!((&fault["code"], &fault["param"]), (&json!(code), &param), "{event}");
            assert_eq!(id.is_some(), event.is_object(), "{event}");
        }
        let (id, read) = Request::parse(r#"{"type":"response.create"}"#);
        assert_eq!((id, read), (None, Ok(Request::Respond(Value::Null))));
    }
}
