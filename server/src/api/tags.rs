//! Tags: `/v2/tags`, and those of a transcript.

use std::sync::Arc;

use serde_json::json;

use super::TranscriptsState;
use super::transcripts::unknown;
use crate::context::RequestContext;
use crate::http::body::{self, Fields};
use crate::http::response::{ApiError, Response, Result, json as json_response};
use crate::ids::TranscriptId;
use crate::store::MAX_TAGS;
use crate::visible;

/// The longest tag, in characters.
const MAX_TAG_CHARS: usize = 40;

/// A tag with single spaces.
///
/// # Errors
/// 422 for one that is empty or long, and for a comma or a character that readers do not see.
pub fn checked_tag(tag: &str) -> Result<String> {
    let tag = tag.split_whitespace().collect::<Vec<_>>().join(" ");
    if tag.is_empty() || tag.chars().count() > MAX_TAG_CHARS || tag.contains(',') {
        return Err(ApiError::validation(format!("A tag must have 1 to {MAX_TAG_CHARS} characters, and no comma.")));
    }
    visible::check(&tag).map_err(|reason| ApiError::validation(format!("A tag {reason}.")))?;
    Ok(tag)
}

/// `GET /v2/tags`
pub async fn list(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let tags = state.store.account_tags(&request.account()?.id).await?;
    let data: Vec<_> = tags.iter().map(|(tag, count)| json!({ "tag": tag, "transcripts": count })).collect();
    Ok(json_response(&json!({ "object": "list", "data": data })))
}

/// `GET /v2/transcripts/{transcript_id}/tags`
pub async fn get(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let id = TranscriptId::from(request.param("transcript_id"));
    let tags = state.store.tags(&request.account()?.id, &id).await?.ok_or_else(unknown)?;
    Ok(json_response(&json!({ "id": id.as_str(), "tags": tags })))
}

/// `PUT /v2/transcripts/{transcript_id}/tags`
pub async fn set(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let id = TranscriptId::from(request.param("transcript_id"));
    let headers = request.headers().clone();
    let bytes = body::read(request.into_request(), body::MAX_JSON_BYTES).await?;
    let mut fields = Fields::parse(&headers, &bytes)?;
    let given = fields.strings("tags", MAX_TAGS, 200)?;
    let given = given.ok_or_else(|| ApiError::invalid("`tags` is missing: a list, which may be empty."))?;
    let tags = given.iter().map(|tag| checked_tag(tag)).collect::<Result<Vec<String>>>()?;
    if !state.store.set_tags(&account, &id, &tags).await? {
        return Err(unknown());
    }
    let tags = state.store.tags(&account, &id).await?.ok_or_else(unknown)?;
    Ok(json_response(&json!({ "id": id.as_str(), "tags": tags })))
}
