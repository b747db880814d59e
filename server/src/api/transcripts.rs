//! Transcripts: create, get, list, delete, and the forms they can be had in.

use std::sync::Arc;

use auricle_engine::Word;
use auricle_engine::text::search::{self, LONGEST_PHRASE, words_of};
use auricle_engine::text::segments::{self, Segment};
use auricle_engine::text::subtitles::{self, SubtitleOptions};
use data_encoding::HEXLOWER;
use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::create::{Checked, check};
use super::page;
use crate::clock;
use crate::http::response::{ApiError, Response, Result, json, json_text, nothing, typed};
use crate::http::{RequestContext, body};
use crate::ids::TranscriptId;
use crate::store::{Allowance, Created, Status, Transcript, TranscriptQuery};

/// The longest idempotency key.
const KEY_BYTES: usize = 255;

/// A transcript as it is served, but for its words: those are JSON already, and as long as the audio.
#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    status: &'static str,
    model: &'a str,
    title: Option<&'a str>,
    language_code: Option<&'a str>,
    speaker_labels: bool,
    text: Option<&'a str>,
    utterances: Option<()>,
    confidence: Option<f32>,
    audio_duration_sec: Option<f64>,
    summary: Option<()>,
    chapters: Option<()>,
    entities: Option<()>,
    sentiment_results: Option<()>,
    content_safety: Option<()>,
    webhook_url: Option<&'a str>,
    error: Option<&'a str>,
    created_at: String,
    completed_at: Option<String>,
}

/// The transcript as JSON text. Every field is always there.
fn render(transcript: &Transcript, status: Status) -> Result<String> {
    let body = Body {
        id: transcript.id.as_str(),
        status: status.name(),
        model: &transcript.model,
        title: transcript.title.as_deref(),
        language_code: transcript.language_code.as_deref(),
        speaker_labels: transcript.options["speaker_labels"].as_bool().unwrap_or(false),
        text: transcript.text.as_deref(),
        utterances: None,
        confidence: confidence(transcript),
        audio_duration_sec: duration_sec(transcript),
        summary: None,
        chapters: None,
        entities: None,
        sentiment_results: None,
        content_safety: None,
        webhook_url: transcript.webhook_url.as_deref(),
        error: transcript.error.as_deref(),
        created_at: clock::iso(transcript.created_at),
        completed_at: transcript.completed_at.map(clock::iso),
    };
    let mut text = serde_json::to_string(&body).map_err(|error| ApiError::internal(&error))?;
    text.pop();
    text.push_str(",\"words\":");
    text.push_str(transcript.words.as_deref().unwrap_or("null"));
    text.push('}');
    Ok(text)
}

fn duration_sec(transcript: &Transcript) -> Option<f64> {
    transcript.duration_ms.map(|ms| ms as f64 / 1e3)
}

/// As exactly as it was computed.
fn confidence(transcript: &Transcript) -> Option<f32> {
    transcript.confidence.map(|confidence| confidence as f32)
}

fn unknown() -> ApiError {
    ApiError::not_found("There is no such transcript.")
}

/// The transcript that the path names.
async fn named(call: &RequestContext) -> Result<Arc<Transcript>> {
    let id = TranscriptId::from(call.param("transcript_id"));
    call.app.store.transcript(&call.account()?.id, &id).await?.ok_or_else(unknown)
}

/// The transcript that the path names, if it is done and has text.
async fn completed(call: &RequestContext) -> Result<Arc<Transcript>> {
    let transcript = named(call).await?;
    let not_ready = |message: &str| Err(ApiError::new(StatusCode::CONFLICT, "not_ready", message));
    match transcript.status {
        Status::Completed if transcript.text.as_deref().is_some_and(|text| !text.is_empty()) => Ok(transcript),
        Status::Completed => not_ready("The transcript has no text: nothing was said."),
        Status::Error => not_ready("The transcript failed; its `error` says why."),
        Status::Queued | Status::Processing => not_ready("The transcript is not completed yet; poll it until it is."),
    }
}

/// `POST /v2/transcripts`
pub async fn create(call: RequestContext) -> Result<Response> {
    let account = call.account()?.id.clone();
    let (app, headers) = (call.app.clone(), call.headers().clone());
    let key = match headers.get("idempotency-key").map(|key| key.to_str().unwrap_or_default().to_owned()) {
        Some(key) if key.is_empty() || key.len() > KEY_BYTES => {
            let message = format!("`Idempotency-Key` must have 1 to {KEY_BYTES} printable characters.");
            return Err(ApiError::validation(message));
        }
        key => key,
    };
    let bytes = body::read(call.into_request(), body::JSON_BYTES).await?;
    let hash = HEXLOWER.encode(&Sha256::digest(&bytes));
    let idempotency = key.as_deref().map(|key| (key, hash.as_str()));
    // A call that was made before is answered as before, whatever has become of its upload and the credit.
    let before = match idempotency {
        Some((key, hash)) => app.store.created_before(&account, key, hash).await?,
        None => None,
    };
    let created = match before {
        Some(before) => before,
        None => {
            let Checked { new, price, estimated_duration_sec } =
                check(&app, &account, body::Fields::parse(&headers, &bytes)?).await?;
            let allowance = app.store.allowance(&account).await?;
            let estimate = estimated_duration_sec.map_or(0, |seconds| price.cents(seconds.saturating_mul(1000)));
            require_credit(allowance, estimate)?;
            app.store.create_transcript(&new, idempotency).await?
        }
    };
    let id = match created {
        Created::New(id) => {
            app.job_notify.notify_one();
            id
        }
        Created::Before(id) => id,
        Created::Conflict => {
            let message = "This Idempotency-Key was used for another request; take a new one.";
            return Err(ApiError::new(StatusCode::CONFLICT, "idempotency_conflict", message));
        }
        Created::NoUpload => return Err(ApiError::not_found("The upload was deleted meanwhile.")),
    };
    let transcript = app.store.transcript(&account, &id).await?.ok_or_else(unknown)?;
    let status = if transcript.status == Status::Queued { Status::Processing } else { transcript.status };
    Ok(json_text(render(&transcript, status)?))
}

/// # Errors
/// 402 if the account may not begin work that costs so much.
pub fn require_credit(allowance: Allowance, estimate_cents: i64) -> Result<()> {
    if allowance.allows(estimate_cents) {
        return Ok(());
    }
    let left = allowance.balance;
    Err(ApiError::billing_required(if left == 0 {
        "The free credit is used up. Add a payment method: POST /v2/billing/checkout gives the address.".into()
    } else {
        format!(
            "This would cost {estimate_cents} cents, and {left} cents of credit remain. Add a payment method: \
             POST /v2/billing/checkout gives the address."
        )
    }))
}

/// `GET /v2/transcripts/{transcript_id}`
pub async fn get(call: RequestContext) -> Result<Response> {
    let transcript = named(&call).await?;
    Ok(json_text(render(&transcript, transcript.status)?))
}

/// `GET /v2/transcripts`
pub async fn list(call: RequestContext) -> Result<Response> {
    let (limit, offset) = page(&call)?;
    let status = match call.query("status") {
        None => None,
        Some(name) => Some(Status::named(&name).ok_or_else(|| {
            let names = Status::ALL.map(Status::name).join(", ");
            ApiError::validation(format!("`status` must be one of {names}; it is {name:?}."))
        })?),
    };
    let query = TranscriptQuery { status, limit, offset };
    let (found, total) = call.app.store.transcripts(&call.account()?.id, query).await?;
    let rendered = found.iter().map(|transcript| render(transcript, transcript.status)).collect::<Result<Vec<_>>>()?;
    Ok(json_text(format!(
        "{{\"object\":\"list\",\"data\":[{}],\"total\":{total},\"limit\":{limit},\"offset\":{offset}}}",
        rendered.join(",")
    )))
}

/// `DELETE /v2/transcripts/{transcript_id}`
pub async fn delete(call: RequestContext) -> Result<Response> {
    let id = TranscriptId::from(call.param("transcript_id"));
    if !call.app.store.delete_transcript(&call.account()?.id, &id).await? {
        return Err(unknown());
    }
    call.app.deletion_notify.notify_one();
    Ok(nothing())
}

/// A sentence or paragraph as it is served.
#[derive(Serialize)]
struct Timed<'a> {
    #[serde(flatten)]
    segment: Segment<'a>,
    speaker: Option<()>,
}

/// The segments of a transcript, under one of two names.
#[derive(Serialize)]
struct Segmented<'a> {
    id: &'a str,
    confidence: Option<f32>,
    audio_duration_sec: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sentences: Option<Vec<Timed<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paragraphs: Option<Vec<Timed<'a>>>,
}

impl<'a> Segmented<'a> {
    fn new(transcript: &'a Transcript) -> Self {
        Self {
            id: transcript.id.as_str(),
            confidence: confidence(transcript),
            audio_duration_sec: duration_sec(transcript),
            sentences: None,
            paragraphs: None,
        }
    }
}

fn timed(segments: Vec<Segment<'_>>) -> Option<Vec<Timed<'_>>> {
    Some(segments.into_iter().map(|segment| Timed { segment, speaker: None }).collect())
}

/// `GET /v2/transcripts/{transcript_id}/sentences`
pub async fn sentences(call: RequestContext) -> Result<Response> {
    let transcript = completed(&call).await?;
    let words = transcript.parsed_words();
    Ok(json(&Segmented { sentences: timed(segments::sentences(&words)), ..Segmented::new(&transcript) }))
}

/// `GET /v2/transcripts/{transcript_id}/paragraphs`
pub async fn paragraphs(call: RequestContext) -> Result<Response> {
    let transcript = completed(&call).await?;
    let words = transcript.parsed_words();
    Ok(json(&Segmented { paragraphs: timed(segments::paragraphs(&words)), ..Segmented::new(&transcript) }))
}

/// `GET /v2/transcripts/{transcript_id}/word-search?words=a,b c`
pub async fn word_search(call: RequestContext) -> Result<Response> {
    let transcript = completed(&call).await?;
    let asked = call.query("words").unwrap_or_default();
    let phrases: Vec<&str> = asked.split(',').map(str::trim).filter(|phrase| !phrase.is_empty()).collect();
    if phrases.is_empty() {
        return Err(ApiError::invalid("`words` is missing: words or phrases to look for, with commas between them."));
    }
    if let Some(long) = phrases.iter().find(|phrase| words_of(phrase) > LONGEST_PHRASE) {
        return Err(ApiError::invalid(format!("A phrase may have {LONGEST_PHRASE} words; {long:?} has more.")));
    }
    let matches = search::find(&transcript.parsed_words(), &phrases);
    let total_count: usize = matches.iter().map(|found| found.count).sum();
    Ok(json(&json!({ "id": transcript.id.as_str(), "total_count": total_count, "matches": matches })))
}

async fn captions(call: &RequestContext) -> Result<(Vec<Word>, SubtitleOptions)> {
    let mut options = SubtitleOptions::default();
    if let Some(chars) = call.query_integer("chars_per_caption", 1..=1000)? {
        options.line_chars = chars as usize;
    }
    Ok((completed(call).await?.parsed_words(), options))
}

/// `GET /v2/transcripts/{transcript_id}/srt`
pub async fn srt(call: RequestContext) -> Result<Response> {
    let (words, options) = captions(&call).await?;
    Ok(typed("application/x-subrip; charset=utf-8", subtitles::srt(&words, &options)))
}

/// `GET /v2/transcripts/{transcript_id}/vtt`
pub async fn vtt(call: RequestContext) -> Result<Response> {
    let (words, options) = captions(&call).await?;
    Ok(typed("text/vtt; charset=utf-8", subtitles::vtt(&words, &options)))
}
