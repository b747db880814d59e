//! An object of the store as a response: whole, or the part that a `Range` header asks for.

use std::ops::Range;

use futures_util::TryStreamExt as _;
use hyper::StatusCode;
use hyper::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderValue, RANGE};

use crate::http::response::{ApiError, Response, Result, streamed};
use crate::http::response_body::ResponseBroken;
use crate::storage::Storage;

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

/// The object; none if there is none of this key.
///
/// # Errors
/// 416 for a part behind the end, 500 when the store cannot be read.
pub async fn respond(
    storage: &Storage,
    key: &str,
    content_type: &'static str,
    headers: &HeaderMap,
) -> Result<Option<Response>> {
    let Some(size) = storage.size(key).await.map_err(|error| ApiError::internal(&error))? else { return Ok(None) };
    let range = part(headers.get(RANGE).and_then(|value| value.to_str().ok()), size)?;
    let wanted = range.clone().unwrap_or(0..size);
    let bytes = storage.read(key, wanted.clone()).await.map_err(|error| ApiError::internal(&error))?;
    let bytes = bytes.map_err(|error| {
        tracing::error!(%error, "reading an object failed");
        ResponseBroken
    });
    let mut response = streamed(content_type, bytes);
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(wanted.end - wanted.start));
    if range.is_some()
        && let Ok(value) = HeaderValue::from_str(&format!("bytes {}-{}/{size}", wanted.start, wanted.end - 1))
    {
        headers.insert(CONTENT_RANGE, value);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(Some(response))
}

#[cfg(test)]
mod tests {
    use super::*;

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
