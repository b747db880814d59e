//! Frames of Plivo's audio streams.

use serde::Deserialize;
use serde_json::{Value, json};

use super::frame::{self, CallFrame, Dtmf, Fault, Media, MediaFormat, RATE, Start};

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "camelCase")]
enum Frame {
    Start {
        start: Beginning,
        extra_headers: Option<String>,
    },
    Media {
        media: Media,
    },
    Dtmf {
        dtmf: Dtmf,
    },
    PlayedStream {
        name: String,
    },
    Stop,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Beginning {
    stream_id: String,
    call_id: String,
    media_format: MediaFormat,
}

/// # Errors
/// The reason of the close.
pub fn parse(text: &str) -> Result<CallFrame, Fault> {
    match frame::read(text)? {
        Frame::Start { start: Beginning { stream_id, call_id, media_format }, extra_headers } => {
            let headers = extra_headers.unwrap_or_default();
            let pairs = headers.split(';').filter_map(|pair| pair.split_once('='));
            let parameters = pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect();
            Start::new((stream_id, call_id), &media_format, parameters).map(CallFrame::Start)
        }
        Frame::Media { media } => media.audio(),
        Frame::Dtmf { dtmf } => dtmf.key(),
        Frame::PlayedStream { name } => Ok(CallFrame::Played(name)),
        Frame::Stop => Ok(CallFrame::Stop),
        Frame::Other => Ok(CallFrame::Other),
    }
}

pub fn audio(stream: &str, payload: &str) -> Value {
    let media = json!({ "contentType": "audio/x-mulaw", "sampleRate": RATE, "payload": payload });
    json!({ "event": "playAudio", "streamId": stream, "media": media })
}

pub fn mark(stream: &str, name: &str) -> Value {
    json!({ "event": "checkpoint", "streamId": stream, "name": name })
}

pub fn clear(stream: &str) -> Value {
    json!({ "event": "clearAudio", "streamId": stream })
}
