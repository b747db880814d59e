//! The audio of a transcript, for the player of its page: any part of the uploaded file.

use std::sync::Arc;

use hyper::header::{CACHE_CONTROL, HeaderValue};

use super::DashboardState;
use crate::api::stored_object;
use crate::api::transcripts::unknown;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result};
use crate::ids::TranscriptId;

/// A file as a browser plays it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    Audio,
    Video,
    Unknown,
}

/// The content type that a file is sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media {
    pub content_type: &'static str,
    pub kind: MediaKind,
}

/// Types that browsers play, with the extensions of their files. No other type is sent: a page of a user would run here.
const TYPES: [(&str, &[&str]); 12] = [
    ("audio/mpeg", &["mp3", "mp2"]),
    ("audio/wav", &["wav"]),
    ("audio/flac", &["flac"]),
    ("audio/aac", &["aac"]),
    ("audio/mp4", &["m4a", "m4b"]),
    ("audio/ogg", &["ogg", "oga", "opus"]),
    ("audio/webm", &["weba"]),
    ("video/mp4", &["mp4", "m4v"]),
    ("video/webm", &["webm"]),
    ("video/quicktime", &["mov"]),
    ("video/x-matroska", &["mkv"]),
    ("video/ogg", &["ogv"]),
];

/// The type to send a file with, by what the client said of it and by its name.
pub fn media_type(content_type: &str, filename: &str) -> Media {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let essence = match essence.as_str() {
        "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "audio/wav",
        "audio/mp3" => "audio/mpeg",
        "audio/x-m4a" => "audio/mp4",
        "audio/x-flac" => "audio/flac",
        "audio/opus" => "audio/ogg",
        other => other,
    };
    let extension = filename.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase()).unwrap_or_default();
    let known = TYPES.iter().find(|(name, _)| *name == essence);
    let named = || TYPES.iter().find(|(_, extensions)| extensions.contains(&extension.as_str()));
    let content_type = known.or_else(named).map_or("application/octet-stream", |(name, _)| *name);
    let kind = match content_type.split('/').next() {
        Some("audio") => MediaKind::Audio,
        Some("video") => MediaKind::Video,
        _ => MediaKind::Unknown,
    };
    Media { content_type, kind }
}

/// `GET /transcripts/{transcript_id}/audio`
pub async fn get(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = &request.account()?.id;
    let id = TranscriptId::from(request.param("transcript_id"));
    let source = state.store.audio_of(account, &id).await?.ok_or_else(unknown)?;
    let gone = || ApiError::not_found("The audio of this transcript is not here.");
    let upload = state.store.upload_of(account, &source.upload.ok_or_else(gone)?).await?.ok_or_else(gone)?;
    let key = upload.object_key();
    let content_type = media_type(&upload.content_type, &upload.filename).content_type;
    let mut response =
        stored_object::respond(&state.storage, &key, content_type, request.headers()).await?.ok_or_else(gone)?;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, max-age=300"));
    headers.insert("content-security-policy", HeaderValue::from_static("default-src 'none'; sandbox"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_media_is_sent_as_what_the_client_called_it() {
        for (content_type, filename, sent) in [
            ("audio/x-wav", "a", "audio/wav"),
            ("Audio/MPEG; a=b", "a.html", "audio/mpeg"),
            ("text/html", "a.mp3", "audio/mpeg"),
            ("text/html", "a.caf", "application/octet-stream"),
            ("video/evil", "a.svg", "application/octet-stream"),
            ("image/svg+xml", "a.webm", "video/webm"),
        ] {
            assert_eq!(media_type(content_type, filename).content_type, sent, "{content_type} {filename}");
        }
        assert_eq!(media_type("video/mp4", "a").kind, MediaKind::Video);
    }
}
