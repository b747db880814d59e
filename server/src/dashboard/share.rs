//! A transcript that a link shows to anybody who has it, until the link ends or is revoked.

use std::sync::Arc;

use askama::Template;
use auricle_engine::{Word, segments};
use hyper::header::{HeaderName, HeaderValue, REFERRER_POLICY};
use serde_json::json;

use super::DashboardState;
use super::frame::{Frame, private};
use super::shown::{Time, duration, language};
use super::words::EN;
use crate::api::transcripts::{completed_transcript, document, unknown};
use crate::auth::visitor::{hash_of, new_secret};
use crate::clock;
use crate::context::RequestContext;
use crate::http::body::{self, Fields};
use crate::http::response::{self, ApiError, Response, Result, no_content};
use crate::ids::TranscriptId;
use crate::store::{SpeakerNames, Transcript};

const DAY_MS: i64 = 24 * 3_600_000;

/// The longest life of a link, in days.
const MAX_DAYS: i64 = 365;

#[derive(Template)]
#[template(path = "share.html")]
struct SharedPage {
    frame: Frame,
    length: String,
    language: String,
    until: Time,
    paragraphs: Vec<Paragraph>,
}

struct Paragraph {
    time: String,
    /// The name of another speaker who begins here.
    speaker: Option<String>,
    text: String,
}

/// The same answer to a link that was guessed, has ended, was revoked or whose transcript is gone.
fn gone() -> ApiError {
    ApiError::not_found(EN.share_gone)
}

/// An error that tells nothing of the transcript.
fn hidden(error: ApiError) -> ApiError {
    if error.status.is_server_error() { error } else { gone() }
}

/// `POST /data/transcripts/{transcript_id}/share`: makes a link, in the place of the one before.
pub async fn create(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let id = request.param("transcript_id");
    let headers = request.headers().clone();
    let bytes = body::read(request.into_request(), body::MAX_JSON_BYTES).await?;
    let mut fields = Fields::parse(&headers, &bytes)?;
    let days = fields.integer("days", 1..=MAX_DAYS)?.ok_or_else(|| ApiError::invalid("`days` is missing."))?;
    fields.check_all_known()?;
    let transcript = completed_transcript(&state.store, &account, id).await?;
    let (secret, now) = (new_secret(), clock::now_ms());
    let expires_at = now + days * DAY_MS;
    if !state.store.share_transcript(&account, &transcript.id, &hash_of(&secret), now, expires_at).await? {
        return Err(unknown());
    }
    let url = format!("{}/s/{secret}", state.dashboard_url.as_str().trim_end_matches('/'));
    Ok(private(response::json(&json!({ "url": url, "expires_at": clock::iso(expires_at) }))))
}

/// `DELETE /data/transcripts/{transcript_id}/share`
pub async fn revoke(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let id = TranscriptId::from(request.param("transcript_id"));
    match state.store.revoke_share_link(&request.account()?.id, &id).await? {
        true => Ok(no_content()),
        false => Err(ApiError::not_found("This transcript has no link.")),
    }
}

/// `GET /s/{secret}`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    state.attempts.link(request.address())?;
    let hash = hash_of(&request.param("secret"));
    let (account, id, until) = state.store.shared_transcript(&hash, clock::now_ms()).await?.ok_or_else(gone)?;
    let found = completed_transcript(&state.store, &account, id.to_string()).await;
    let transcript = found.map_err(hidden)?;
    state.attempts.right_link(request.address());
    let names = state.store.speaker_names(&id).await?;
    let work = move |transcript: &Transcript, words: Vec<Word>| {
        shared(transcript, &words, &names, until).render().map_err(std::io::Error::other)
    };
    let html = "text/html; charset=utf-8";
    let mut response = private(document(&state.transcripts, &request, transcript, html, work).await.map_err(hidden)?);
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex, nofollow"));
    // The address is the secret.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}

fn shared(transcript: &Transcript, words: &[Word], names: &SpeakerNames, until: i64) -> SharedPage {
    let title = transcript.title.as_deref().filter(|title| !title.trim().is_empty()).unwrap_or(EN.untitled);
    let mut last = None;
    let paragraph = |said: segments::Segment<'_>| {
        let label = said.speaker.map(str::to_owned);
        let known = said.words.first().and_then(|word| word.speaker_name.as_ref());
        let name = |label: &String| match names.get(label).or(known) {
            Some(name) => name.clone(),
            None => format!("{} {label}", EN.js_speaker),
        };
        let speaker = label.as_ref().filter(|_| last != label).map(name);
        last = label;
        Paragraph { time: duration(i64::try_from(said.start).unwrap_or(0)), speaker, text: said.text }
    };
    SharedPage {
        frame: Frame::plain(title, ""),
        length: transcript.duration_ms.map(duration).unwrap_or_default(),
        language: transcript.language_code.as_deref().map(language).unwrap_or_default(),
        until: Time::new(until),
        paragraphs: segments::paragraphs(words).into_iter().map(paragraph).collect(),
    }
}
