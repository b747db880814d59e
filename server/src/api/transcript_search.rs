//! `GET /v2/transcripts/search`: transcripts whose titles or words have all words of a query.

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;

use super::TranscriptsState;
use crate::clock;
use crate::context::RequestContext;
use crate::http::response::{self, ApiError, Response, Result};
use crate::store::{FoundSentence, FoundTranscript, SearchQuery, SearchTerms, Status};

/// No query is longer, in characters.
pub const MAX_QUERY_CHARS: usize = 200;

#[derive(Serialize)]
struct Found<'a> {
    id: &'a str,
    status: &'static str,
    model: &'a str,
    title: Option<&'a str>,
    language_code: Option<&'a str>,
    audio_duration_sec: Option<f64>,
    created_at: String,
    tags: &'a [String],
    /// None where only the title has the words.
    sentence: Option<Sentence<'a>>,
}

#[derive(Serialize)]
struct Sentence<'a> {
    text: &'a str,
    /// Milliseconds.
    start: i64,
    /// Beginning and end of each match, in characters of the text.
    matches: Vec<[usize; 2]>,
}

impl<'a> Found<'a> {
    fn new(found: &'a FoundTranscript) -> Self {
        let listed = &found.listed;
        let is_completed = listed.status == Status::Completed;
        Self {
            id: listed.id.as_str(),
            status: listed.status.name(),
            model: &listed.model,
            title: listed.title.as_deref(),
            language_code: listed.language_code.as_deref(),
            audio_duration_sec: listed.duration_ms.filter(|_| is_completed).map(|ms| ms as f64 / 1e3),
            created_at: clock::iso(listed.created_at),
            tags: &listed.tags,
            sentence: found.sentence.as_ref().map(sentence),
        }
    }
}

fn sentence(found: &FoundSentence) -> Sentence<'_> {
    let chars = |bytes: usize| found.text.get(..bytes).map_or(0, |before| before.chars().count());
    let matches = found.marks.iter().map(|mark| [chars(mark.start), chars(mark.end)]).collect();
    Sentence { text: &found.text, start: found.start_ms, matches }
}

/// `GET /v2/transcripts/search`
pub async fn search(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let text = request.query("query").unwrap_or_default();
    if text.chars().count() > MAX_QUERY_CHARS {
        return Err(ApiError::validation(format!("`query` may have {MAX_QUERY_CHARS} characters.")));
    }
    let Some(terms) = SearchTerms::new(&text) else {
        return Err(ApiError::validation("`query` has no word: give a letter or a digit at least."));
    };
    let limit = request.query_integer("limit", 1..=100)?.unwrap_or(20);
    let after = match request.query("after") {
        None => None,
        Some(after) => Some(after.parse().map_err(|_| {
            ApiError::validation(format!("`after` must be the `next` of the page before; it is {after:?}."))
        })?),
    };
    let query = SearchQuery {
        terms,
        status: super::transcripts::status(&request)?,
        language: request.query("language_code").unwrap_or_default().replace('\0', ""),
        tag: request.query("tag").unwrap_or_default().replace('\0', ""),
        after,
        limit: limit + 1,
    };
    let mut found = state.store.search_transcripts(&request.account()?.id, &query).await?;
    let has_more = found.len() as i64 > limit;
    found.truncate(limit as usize);
    let next = found.last().filter(|_| has_more).map(|last| last.place.to_string());
    let data: Vec<Found<'_>> = found.iter().map(Found::new).collect();
    Ok(response::json(&json!({ "object": "list", "data": data, "next": next })))
}
