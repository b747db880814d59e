//! The audio of a transcript, for the player of its page: any part of the uploaded file.

use std::ops::Range;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use hyper::StatusCode;
use hyper::header::{ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, HeaderValue, RANGE};

use super::DashboardState;
use crate::api::transcripts::unknown;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, streamed};
use crate::http::response_body::ResponseBroken;
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

/// The part of a file that a `Range` header asks for. None asks for all of it.
///
/// # Errors
/// 416 for a part behind the end.
fn part(header: Option<&str>, size: u64) -> Result<Option<Range<u64>>> {
    let Some(wanted) = header.and_then(|header| header.strip_prefix("bytes=")) else { return Ok(None) };
    // Several parts at once are sent as the whole file, which is allowed.
    let Some((from, to)) = wanted.split_once('-').filter(|_| !wanted.contains(',')) else { return Ok(None) };
    let range = match (from.trim().parse::<u64>(), to.trim().parse::<u64>()) {
        (Ok(from), Ok(to)) if from <= to => from..to.saturating_add(1).min(size),
        (Ok(from), Err(_)) if to.trim().is_empty() => from..size,
        (Err(_), Ok(last)) if from.trim().is_empty() => size.saturating_sub(last)..size,
        _ => return Ok(None),
    };
    if range.is_empty() {
        let message = format!("The file has {size} bytes.");
        return Err(ApiError::new(StatusCode::RANGE_NOT_SATISFIABLE, "range_not_satisfiable", message));
    }
    Ok(Some(range))
}

/// `GET /transcripts/{transcript_id}/audio`
pub async fn get(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = &request.account()?.id;
    let id = TranscriptId::from(request.param("transcript_id"));
    let source = state.store.audio_of(account, &id).await?.ok_or_else(unknown)?;
    let gone = || ApiError::not_found("The audio of this transcript is not here.");
    let upload = state.store.upload_of(account, &source.upload.ok_or_else(gone)?).await?.ok_or_else(gone)?;
    let key = upload.object_key();
    let size = state.storage.size(&key).await.map_err(|error| ApiError::internal(&error))?.ok_or_else(gone)?;
    let range = part(request.headers().get(RANGE).and_then(|value| value.to_str().ok()), size)?;
    let wanted = range.clone().unwrap_or(0..size);
    let bytes = state.storage.read(&key, wanted.clone()).await.map_err(|error| ApiError::internal(&error))?;
    let bytes = bytes.map_err(|error| {
        tracing::error!(%error, "reading an upload failed");
        ResponseBroken
    });
    let mut response = streamed(media_type(&upload.content_type, &upload.filename).content_type, bytes);
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, max-age=300"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(wanted.end - wanted.start));
    headers.insert("content-security-policy", HeaderValue::from_static("default-src 'none'; sandbox"));
    if range.is_some()
        && let Ok(value) = HeaderValue::from_str(&format!("bytes {}-{}/{size}", wanted.start, wanted.end - 1))
    {
        headers.insert(CONTENT_RANGE, value);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
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

    #[test]
    fn a_range_is_a_part_of_the_file() {
        let of = |header: &str| part(Some(header), 100);
        for (header, range) in [
            ("bytes=0-", Some(0..100)),
            ("bytes=10-19", Some(10..20)),
            ("bytes=90-500", Some(90..100)),
            ("bytes=-10", Some(90..100)),
            ("bytes=-500", Some(0..100)),
            ("bytes=5-4", None),
            ("bytes=0-1,3-4", None),
            ("lines=0-1", None),
            ("bytes=a-b", None),
        ] {
            assert_eq!(of(header).unwrap(), range, "{header}");
        }
        assert_eq!(of("bytes=100-").unwrap_err().status, 416);
        assert_eq!(part(None, 100).unwrap(), None);
        assert_eq!(part(Some("bytes=0-18446744073709551615"), 100).unwrap(), Some(0..100));
    }
}
