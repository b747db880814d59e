//! Frames of Telnyx's media streams.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::frame::{self, CallFrame, Dtmf, Fault, Mark, Media, MediaFormat, Start};

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Frame {
    Start {
        stream_id: String,
        start: Beginning,
    },
    Media {
        media: Media,
    },
    Dtmf {
        dtmf: Dtmf,
    },
    Mark {
        mark: Mark,
    },
    Stop,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Beginning {
    call_control_id: String,
    media_format: MediaFormat,
    custom_parameters: Option<BTreeMap<String, String>>,
    from: Option<String>,
    to: Option<String>,
}

/// # Errors
/// The reason of the close.
pub fn parse(text: &str) -> Result<CallFrame, Fault> {
    match frame::read(text)? {
        Frame::Start { stream_id, start } => {
            let Beginning { call_control_id, media_format, custom_parameters, from, to } = start;
            let numbers = [("from", from), ("to", to)];
            let numbers = numbers.into_iter().filter_map(|(name, number)| Some((name.to_owned(), number?)));
            let parameters = numbers.chain(custom_parameters.into_iter().flatten()).collect();
            Start::new((stream_id, call_control_id), &media_format, parameters).map(CallFrame::Start)
        }
        Frame::Media { media } => media.audio(),
        Frame::Dtmf { dtmf } => dtmf.key(),
        Frame::Mark { mark } => Ok(CallFrame::Played(mark.name)),
        Frame::Stop => Ok(CallFrame::Stop),
        Frame::Other => Ok(CallFrame::Other),
    }
}

pub fn audio(payload: &str) -> Value {
    json!({ "event": "media", "media": { "payload": payload } })
}

pub fn mark(name: &str) -> Value {
    json!({ "event": "mark", "mark": { "name": name } })
}

pub fn clear() -> Value {
    json!({ "event": "clear" })
}
