//! Transcripts as resources: `auricle://transcripts/ID`.

use serde_json::{Map, Value, json};

use super::McpState;
use super::message::{Era, INTERNAL_ERROR, INVALID_PARAMS, Refusal};
use super::transcripts::{self, PREFIX, Span};
use crate::clock;
use crate::ids::AccountId;
use crate::store::{Cursor, ListQuery, Status};

/// Resources of a page.
const PAGE: usize = 100;

const TEXT: &str = "text/plain";

pub fn templates() -> Value {
    json!([{
        "uriTemplate": format!("{PREFIX}{{transcript_id}}"),
        "name": "transcript",
        "title": "Transcript",
        "description": "A completed transcript: one line a paragraph, with speaker and time",
        "mimeType": TEXT,
    }])
}

/// `resources/list`: completed transcripts, newest first.
pub async fn list(state: &McpState, account: &AccountId, params: Map<String, Value>) -> Result<Value, Refusal> {
    let after = match params.get("cursor") {
        None => None,
        Some(cursor) => Some(
            cursor
                .as_str()
                .and_then(Cursor::parse)
                .ok_or_else(|| Refusal::of(INVALID_PARAMS, "`cursor` must be the `nextCursor` of an earlier page."))?,
        ),
    };
    let query = ListQuery { status: Some(Status::Completed), after, limit: PAGE as i64 + 1, ..ListQuery::default() };
    let listed = state.transcripts.store.list_transcripts(account, &query).await;
    let mut listed = listed.map_err(|error| internal(&error.into()))?;
    let has_more = listed.len() > PAGE;
    listed.truncate(PAGE);
    let resources: Vec<Value> = listed
        .iter()
        .map(|one| {
            json!({
                "uri": format!("{PREFIX}{}", one.id),
                "name": one.id.as_str(),
                "title": one.title.as_deref().unwrap_or("untitled"),
                "description": format!("Transcript of {}", clock::iso(one.created_at)),
                "mimeType": TEXT,
            })
        })
        .collect();
    let mut result = json!({ "resources": resources, "ttlMs": 0, "cacheScope": "private" });
    if let Some(last) = listed.last().filter(|_| has_more) {
        result["nextCursor"] = last.cursor().to_string().into();
    }
    Ok(result)
}

/// `resources/read`
pub async fn read(
    state: &McpState,
    account: &AccountId,
    era: Era,
    params: Map<String, Value>,
) -> Result<Value, Refusal> {
    let Some(uri) = params.get("uri").and_then(Value::as_str) else {
        return Err(Refusal::of(INVALID_PARAMS, "`uri` is missing."));
    };
    // PostgreSQL refuses a null.
    let Some(id) = uri.strip_prefix(PREFIX).filter(|id| !id.contains('\0')) else {
        return Err(Refusal::no_resource(era, uri));
    };
    let shown = transcripts::show(state, account, id.to_owned(), Span::default(), usize::MAX).await;
    let shown = shown.map_err(|error| match error.status {
        hyper::StatusCode::NOT_FOUND => Refusal::no_resource(era, uri),
        _ => internal(&error),
    })?;
    let contents = json!([{ "uri": uri, "mimeType": TEXT, "text": shown.text }]);
    Ok(json!({ "contents": contents, "ttlMs": 0, "cacheScope": "private" }))
}

fn internal(error: &crate::http::response::ApiError) -> Refusal {
    Refusal::of(INTERNAL_ERROR, error.message.clone())
}
