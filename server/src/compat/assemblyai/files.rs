//! Uploads and transcripts.

use std::sync::Arc;

use auricle_engine::Word;
use auricle_engine::segments::{self, Segment};
use auricle_engine::subtitles::SubtitleOptions;
use http_body_util::BodyExt as _;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde_json::{Value, json};

use super::{answer, request};
use crate::api::TranscriptsState;
use crate::api::create::validate;
use crate::api::form::store;
use crate::api::transcripts::{self, SubtitleFormat, document, find, start, unknown};
use crate::api::uploads::new_upload;
use crate::clock;
use crate::context::RequestContext;
use crate::http::body::{self, Fields, MAX_JSON_BYTES};
use crate::http::response::{ApiError, Response, Result, json as json_response, json_text};
use crate::ids::TranscriptId;
use crate::store::{Cursor, HeadQuery, SpeakerNames, Status};

const JSON: &str = "application/json";

/// The most transcripts of a page, and how many are sent by default.
const MAX_PAGE: i64 = 200;
const DEFAULT_PAGE: i64 = 10;

/// `POST /v2/upload`
pub async fn upload(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let length = header(CONTENT_LENGTH).and_then(|length| length.parse::<i64>().ok());
    // Clients send no name and hardly a type; the file is decoded by its content.
    let sent = header(CONTENT_TYPE).filter(|sent| sent.starts_with("audio/") || sent.starts_with("video/"));
    let content_type = sent.unwrap_or("audio/unknown").chars().take(255).collect();
    let upload = new_upload(&state.uploads, account, "audio".into(), content_type, length).await?;
    let file = store(&state.uploads, upload, None, request.into_body().into_data_stream()).await?;
    let url = request::upload_url(&state.public_url, file.upload.id.as_str());
    file.keep();
    Ok(json_response(&json!({ "upload_url": url })))
}

/// `POST /v2/transcript`
pub async fn create(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let headers = request.headers().clone();
    let bytes = body::read(request.into_request(), MAX_JSON_BYTES).await?;
    let options = request::options(&state.public_url, &mut Fields::parse(&headers, &bytes)?)?;
    let fields = Fields::of("body", Value::Object(options))?;
    let new = validate(&state, &account, fields).await.map_err(request::in_their_names)?;
    let id = start(&state, &new).await?;
    let transcript = state.store.transcript(&account, &id).await?.ok_or_else(unknown)?;
    Ok(json_text(answer::transcript(&transcript, None, &state.public_url).map_err(|error| ApiError::internal(&error))?))
}

/// `GET /v2/transcript/{transcript_id}`
pub async fn get(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let transcript = find(&state, &request).await?;
    let public_url = state.public_url.clone();
    if transcript.status != Status::Completed {
        let body = answer::transcript(&transcript, None, &public_url);
        return Ok(json_text(body.map_err(|error| ApiError::internal(&error))?));
    }
    document(&state, &request, transcript, JSON, move |transcript, words| {
        answer::transcript(transcript, Some(&words), &public_url)
    })
    .await
}

/// `GET /v2/transcript`
pub async fn list(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let limit = request.query_integer("limit", 1..=MAX_PAGE)?.unwrap_or(DEFAULT_PAGE);
    if request.query_flag("throttled_only")? == Some(true) {
        return Err(super::unsupported("throttled_only"));
    }
    let status = request.query("status").map(|name| {
        let names = Status::ALL.map(Status::name).join(", ");
        Status::named(&name)
            .ok_or_else(|| ApiError::invalid(format!("`status` must be one of {names}; it is {name:?}.")))
    });
    let created_on = request.query("created_on");
    let created = created_on.as_deref().map(|day| {
        let message = || format!("`created_on` must be a day, 2026-03-01 say; it is {day:?}.");
        clock::day(day).ok_or_else(|| ApiError::invalid(message()))
    });
    let query = HeadQuery {
        status: status.transpose()?,
        created: created.transpose()?.unwrap_or(0..i64::MAX),
        before: border(&state, &request, "before_id").await?,
        after: border(&state, &request, "after_id").await?,
        // One more shows whether there are others behind the page.
        limit: limit + 1,
    };
    let is_ascending = query.after.is_some() && query.before.is_none();
    let mut heads = state.store.transcript_heads(&account, &query).await?;
    let has_more = heads.len() as i64 > limit;
    if has_more {
        heads.remove(if is_ascending { 0 } else { heads.len() - 1 });
    }
    let mut ask = url::form_urlencoded::Serializer::new(String::new());
    ask.extend_pairs(query.status.map(|status| ("status", status.name())));
    ask.extend_pairs(created_on.map(|day| ("created_on", day)));
    let ask = Some(ask.finish()).filter(|ask| !ask.is_empty()).map(|ask| format!("&{ask}")).unwrap_or_default();
    let request = request.into_request();
    let path = request.uri().path_and_query().map_or("", |path| path.as_str());
    // Towards newer ones the page behind this one has the transcript that the request names.
    let has_older = has_more || is_ascending;
    Ok(json_response(&answer::page(&heads, has_older, limit, path, &ask, &state.public_url)))
}

/// The transcript at a border of the page.
async fn border(state: &TranscriptsState, request: &RequestContext, name: &str) -> Result<Option<Cursor>> {
    let Some(id) = request.query(name) else { return Ok(None) };
    let cursor = state.store.cursor(&request.account()?.id, TranscriptId::from(id)).await?;
    cursor.map(Some).ok_or_else(|| ApiError::invalid(format!("`{name}` is no transcript of this account.")))
}

/// `DELETE /v2/transcript/{transcript_id}`: answers with the transcript, without its content.
pub async fn delete(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let transcript = find(&state, &request).await?;
    let body = answer::transcript(&transcript, None, &state.public_url);
    let body = body.map_err(|error| ApiError::internal(&error))?;
    transcripts::delete(state, request).await?;
    Ok(json_text(body))
}

/// `GET /v2/transcript/{transcript_id}/sentences`
pub async fn sentences(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    segmented(state, request, "sentences", segments::sentences).await
}

/// `GET /v2/transcript/{transcript_id}/paragraphs`
pub async fn paragraphs(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    segmented(state, request, "paragraphs", segments::paragraphs).await
}

async fn segmented(
    state: Arc<TranscriptsState>,
    request: RequestContext,
    name: &'static str,
    cut: fn(&[Word]) -> Vec<Segment<'_>>,
) -> Result<Response> {
    let transcript = transcripts::completed(&state, &request).await?;
    document(&state, &request, transcript, JSON, move |transcript, words| {
        answer::segmented(name, transcript, &cut(&words))
    })
    .await
}

/// `GET /v2/transcript/{transcript_id}/word-search`
pub async fn word_search(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    transcripts::word_search(state, request).await
}

/// `GET /v2/transcript/{transcript_id}/srt`
pub async fn srt(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    subtitles(state, request, SubtitleFormat::Srt).await
}

/// `GET /v2/transcript/{transcript_id}/vtt`
pub async fn vtt(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    subtitles(state, request, SubtitleFormat::Vtt).await
}

async fn subtitles(state: Arc<TranscriptsState>, request: RequestContext, format: SubtitleFormat) -> Result<Response> {
    let transcript = transcripts::completed(&state, &request).await?;
    let mut options = SubtitleOptions::default();
    // The limit is that of a caption, which has one line then.
    if let Some(chars) = request.query_integer("chars_per_caption", 1..=1000)? {
        (options.line_chars, options.line_count) = (chars as usize, 1);
    }
    transcripts::subtitles(&state, &request, transcript, format, options, Some(SpeakerNames::new())).await
}
