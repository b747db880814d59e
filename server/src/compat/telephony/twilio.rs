//! Frames of Twilio's media streams.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::frame::{self, CallFrame, Dtmf, Fault, Mark, Media, MediaFormat, Start};

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "camelCase")]
enum Frame {
    Start {
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
#[serde(rename_all = "camelCase")]
struct Beginning {
    stream_sid: String,
    call_sid: String,
    media_format: MediaFormat,
    custom_parameters: Option<BTreeMap<String, String>>,
}

/// # Errors
/// The reason of the close.
pub fn parse(text: &str) -> Result<CallFrame, Fault> {
    match frame::read(text)? {
        Frame::Start { start } => {
            let Beginning { stream_sid, call_sid, media_format, custom_parameters } = start;
            let parameters = custom_parameters.into_iter().flatten().collect();
            Start::new((stream_sid, call_sid), &media_format, parameters).map(CallFrame::Start)
        }
        Frame::Media { media } => media.audio(),
        Frame::Dtmf { dtmf } => dtmf.key(),
        Frame::Mark { mark } => Ok(CallFrame::Played(mark.name)),
        Frame::Stop => Ok(CallFrame::Stop),
        Frame::Other => Ok(CallFrame::Other),
    }
}

pub fn audio(stream: &str, payload: &str) -> Value {
    json!({ "event": "media", "streamSid": stream, "media": { "payload": payload } })
}

pub fn mark(stream: &str, name: &str) -> Value {
    json!({ "event": "mark", "streamSid": stream, "mark": { "name": name } })
}

pub fn clear(stream: &str) -> Value {
    json!({ "event": "clear", "streamSid": stream })
}
