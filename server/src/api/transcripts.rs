//! Transcripts: create, get, list, delete; sentences, paragraphs, word search and subtitles.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;

use auricle_engine::Word;
use auricle_engine::search::{self, LONGEST_PHRASE, Match, word_count};
use auricle_engine::segments::{self, Segment};
use auricle_engine::subtitles::{self, SubtitleOptions};
use data_encoding::HEXLOWER;
use hyper::StatusCode;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::TranscriptsState;
use super::create::validate;
use super::form::{self, FilePart};
use super::stored_object;
use super::transcript_stream::{self, confidence, duration_sec};
use crate::auth::no_credit;
use crate::context::RequestContext;
use crate::http::body::{self, Fields};
use crate::http::response::{ApiError, Response, Result, no_content};
use crate::ids::{AccountId, TranscriptId};
use crate::store::{
    Created, NewTranscript, SpeakerNames, Status, Store, Transcript, TranscriptQuery, redacted_audio_key,
};

/// The most phrases of a word search. A phrase that is repeated counts once.
const MAX_PHRASES: usize = 100;

const JSON: &str = "application/json";

/// The longest idempotency key.
const MAX_KEY_BYTES: usize = 255;

/// 404 for a transcript that the account has not.
pub fn unknown() -> ApiError {
    ApiError::not_found("There is no such transcript.")
}

/// The transcript that the path names, in the edition that the query asks for.
///
/// # Errors
/// 404 for one that the account has not.
pub async fn find(state: &TranscriptsState, request: &RequestContext) -> Result<Arc<Transcript>> {
    let id = TranscriptId::from(request.param("transcript_id"));
    let transcript = state.store.transcript(&request.account()?.id, &id).await?.ok_or_else(unknown)?;
    edition(&state.store, request, transcript).await
}

/// The edition that the query asks for: with `original=true` the words that were recognised.
///
/// # Errors
/// 422 for another value of `original`.
pub async fn edition(store: &Store, request: &RequestContext, transcript: Arc<Transcript>) -> Result<Arc<Transcript>> {
    match request.query_flag("original")? {
        Some(true) if transcript.version > 0 => Ok(Arc::new(store.original(&transcript).await?)),
        _ => Ok(transcript),
    }
}

/// The transcript that the path names, in the edition that the query asks for.
///
/// # Errors
/// 404 for one that the account has not, 409 if it is not completed or has no text.
pub async fn completed(state: &TranscriptsState, request: &RequestContext) -> Result<Arc<Transcript>> {
    let id = request.param("transcript_id");
    let transcript = completed_transcript(&state.store, &request.account()?.id, id).await?;
    edition(&state.store, request, transcript).await
}

/// A transcript of an account that has text.
///
/// # Errors
/// 404 if the account has no such transcript, 409 if it is not completed or has no text.
pub async fn completed_transcript(store: &Store, account: &AccountId, id: String) -> Result<Arc<Transcript>> {
    let transcript = store.transcript(account, &TranscriptId::from(id)).await?.ok_or_else(unknown)?;
    check_completed(transcript.status)?;
    match transcript.text.as_deref() {
        None | Some("") => Err(not_ready("The transcript has no text: nothing was said.")),
        Some(_) => Ok(transcript),
    }
}

fn not_ready(message: &str) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, "not_ready", message)
}

fn check_completed(status: Status) -> Result<()> {
    match status {
        Status::Completed => Ok(()),
        Status::Error => Err(not_ready("The transcript failed; its `error` says why.")),
        Status::Queued | Status::Processing => {
            Err(not_ready("The transcript is not completed yet; poll it until it is."))
        }
    }
}

/// A body without what does not change a request: white space, the order of fields, and those that are null.
fn same_request(body: &[u8]) -> Vec<u8> {
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(body) else { return body.to_vec() };
    fields.retain(|_, value| !value.is_null());
    let ordered: BTreeMap<String, Value> = fields.into_iter().collect();
    serde_json::to_vec(&ordered).unwrap_or_else(|_| body.to_vec())
}

/// `POST /v2/transcripts`
pub async fn create(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let headers = request.headers().clone();
    let key = match headers.get("idempotency-key").map(|key| key.to_str().unwrap_or_default().to_owned()) {
        Some(key) if key.is_empty() || key.len() > MAX_KEY_BYTES => {
            let message = format!("`Idempotency-Key` must have 1 to {MAX_KEY_BYTES} printable characters.");
            return Err(ApiError::validation(message));
        }
        key => key,
    };
    let (form, hash, fields) = if form::is_form(&headers) {
        let form = form::read(&state.uploads, &account, &headers, request.into_body(), FilePart::default()).await?;
        let (hash, fields) = (form.hash(), form.request());
        (Some(form), hash, fields)
    } else {
        let bytes = body::read(request.into_request(), body::MAX_JSON_BYTES).await?;
        let hash = HEXLOWER.encode(&Sha256::digest(same_request(&bytes)));
        (None, hash, Fields::parse(&headers, &bytes))
    };
    let idempotency = key.as_deref().map(|key| (key, hash.as_str()));
    let id = match find_or_create(&state, &account, idempotency, fields).await? {
        Created::New(id) => {
            if let Some(form) = form {
                form.keep();
            }
            state.notifiers.jobs.notify_one();
            id
        }
        Created::Existing(id) => id,
        Created::Conflict => {
            let message = "This Idempotency-Key was used for another request; take a new one.";
            return Err(ApiError::new(StatusCode::CONFLICT, "idempotency_conflict", message));
        }
        Created::NoUpload | Created::NoCredit(_) => {
            return Err(ApiError::not_found("The upload was deleted meanwhile."));
        }
    };
    let transcript = state.store.transcript(&account, &id).await?.ok_or_else(unknown)?;
    let status = if transcript.status == Status::Queued { Status::Processing } else { transcript.status };
    transcript_stream::one(&state.store, &transcript, status)
}

/// The transcript of an earlier request with the same idempotency key and hash, else a new one.
async fn find_or_create(
    state: &TranscriptsState,
    account: &AccountId,
    idempotency: Option<(&str, &str)>,
    fields: Result<Fields>,
) -> Result<Created> {
    // A repeated request gets its first answer, even if the upload or the credit is gone.
    if let Some((key, hash)) = idempotency
        && let Some(existing) = state.store.find_idempotent(account, key, hash).await?
    {
        return Ok(existing);
    }
    let new = validate(state, account, fields?).await?;
    if state.store.queued_transcripts(account, state.max_queued).await? >= state.max_queued {
        return Err(ApiError::queue_full(state.max_queued));
    }
    match state.store.create_transcript(&new, idempotency).await? {
        Created::NoCredit(allowance) => {
            Err(ApiError::billing_required(no_credit(allowance, new.reserved_cents, state.billing_provider)))
        }
        created => Ok(created),
    }
}

/// Creates a transcript whose request has no idempotency key, and tells the workers.
///
/// # Errors
/// 402, 404 and 429, as for every creation.
pub async fn start(state: &TranscriptsState, new: &NewTranscript) -> Result<TranscriptId> {
    if state.store.queued_transcripts(&new.account, state.max_queued).await? >= state.max_queued {
        return Err(ApiError::queue_full(state.max_queued));
    }
    match state.store.create_transcript(new, None).await? {
        Created::New(id) | Created::Existing(id) => {
            state.notifiers.jobs.notify_one();
            Ok(id)
        }
        Created::NoCredit(allowance) => {
            Err(ApiError::billing_required(no_credit(allowance, new.reserved_cents, state.billing_provider)))
        }
        Created::NoUpload | Created::Conflict => Err(ApiError::not_found("The upload was deleted meanwhile.")),
    }
}

/// `GET /v2/transcripts/{transcript_id}`
pub async fn get(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let transcript = find(&state, &request).await?;
    transcript_stream::one(&state.store, &transcript, transcript.status)
}

/// The status that a list is filtered by.
///
/// # Errors
/// 422 for one that does not exist.
pub fn status(request: &RequestContext) -> Result<Option<Status>> {
    let Some(name) = request.query("status") else { return Ok(None) };
    let status = Status::named(&name).ok_or_else(|| {
        let names = Status::ALL.map(Status::name).join(", ");
        ApiError::validation(format!("`status` must be one of {names}; it is {name:?}."))
    })?;
    Ok(Some(status))
}

/// `GET /v2/transcripts`
pub async fn list(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let (limit, offset) = request.page()?;
    let query = TranscriptQuery { status: status(&request)?, limit, offset };
    let account = request.account()?.id.clone();
    let tag = request.query("tag").unwrap_or_default().replace('\0', "");
    let (ids, total) = state.store.transcripts(&account, query, &tag).await?;
    Ok(transcript_stream::list(&state.store, account, query, ids, total))
}

/// `DELETE /v2/transcripts/{transcript_id}`
pub async fn delete(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let id = TranscriptId::from(request.param("transcript_id"));
    if !state.store.delete_transcript(&request.account()?.id, &id).await? {
        return Err(unknown());
    }
    state.notifiers.deletions.notify_one();
    Ok(no_content())
}

/// The body of a transcript's sentences or paragraphs.
#[derive(Serialize)]
struct Segmented<'a> {
    id: &'a str,
    confidence: Option<f32>,
    audio_duration_sec: Option<f64>,
    version: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sentences: Option<Vec<Segment<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paragraphs: Option<Vec<Segment<'a>>>,
}

impl<'a> Segmented<'a> {
    fn new(transcript: &'a Transcript) -> Self {
        Self {
            id: transcript.id.as_str(),
            confidence: confidence(transcript),
            audio_duration_sec: duration_sec(transcript),
            version: transcript.version,
            sentences: None,
            paragraphs: None,
        }
    }
}

/// Responds with a document that is made of a completed transcript and its words.
///
/// # Errors
/// If the transcript has been deleted, or the document cannot be made.
pub async fn document<D, E>(
    state: &TranscriptsState,
    request: &RequestContext,
    transcript: Arc<Transcript>,
    content_type: &'static str,
    work: impl FnOnce(&Transcript, Vec<Word>) -> std::result::Result<D, E> + Send + 'static,
) -> Result<Response>
where
    D: Into<Vec<u8>>,
    E: Into<io::Error>,
{
    let permit = state.renderer.permit().await?;
    let words = state.store.words(&transcript).await?.ok_or_else(unknown)?;
    let work = move || {
        let words: Vec<Word> = serde_json::from_str(&words)?;
        work(&transcript, words).map_err(Into::into)
    };
    state.renderer.respond(permit, content_type, request.accepts_gzip(), work).await
}

/// `GET /v2/transcripts/{transcript_id}/sentences`
pub async fn sentences(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let transcript = completed(&state, &request).await?;
    document(&state, &request, transcript, JSON, |transcript, words| {
        let sentences = Some(segments::sentences(&words));
        serde_json::to_string(&Segmented { sentences, ..Segmented::new(transcript) })
    })
    .await
}

/// `GET /v2/transcripts/{transcript_id}/paragraphs`
pub async fn paragraphs(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let transcript = completed(&state, &request).await?;
    document(&state, &request, transcript, JSON, |transcript, words| {
        let paragraphs = Some(segments::paragraphs(&words));
        serde_json::to_string(&Segmented { paragraphs, ..Segmented::new(transcript) })
    })
    .await
}

/// The body of a word search.
#[derive(Serialize)]
struct WordSearch<'a> {
    id: &'a str,
    total_count: usize,
    matches: Vec<Match>,
}

/// A phrase in the form in which the search compares it, but for rare forms of letters.
fn compared(phrase: &str) -> String {
    let words = phrase.split_whitespace().map(|word| {
        word.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>()
    });
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// `GET /v2/transcripts/{transcript_id}/word-search?words=a,b c`
pub async fn word_search(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let transcript = completed(&state, &request).await?;
    let query = request.query("words").unwrap_or_default();
    let phrases = || query.split(',').map(str::trim).filter(|phrase| !phrase.is_empty());
    if phrases().next().is_none() {
        return Err(ApiError::invalid("`words` is missing: words or phrases to look for, with commas between them."));
    }
    if let Some(long) = phrases().find(|phrase| word_count(phrase) > LONGEST_PHRASE) {
        return Err(ApiError::invalid(format!("A phrase may have {LONGEST_PHRASE} words; {long:?} has more.")));
    }
    let mut seen = HashSet::new();
    let phrases: Vec<String> = phrases().filter(|phrase| seen.insert(compared(phrase))).map(str::to_owned).collect();
    if phrases.len() > MAX_PHRASES {
        return Err(ApiError::validation(format!("`words` has {} phrases; it may have {MAX_PHRASES}.", phrases.len())));
    }
    document(&state, &request, transcript, JSON, move |transcript, words| {
        let phrases: Vec<&str> = phrases.iter().map(String::as_str).collect();
        let matches = search::find(&words, &phrases);
        let total_count: usize = matches.iter().map(|found| found.count).sum();
        serde_json::to_string(&WordSearch { id: transcript.id.as_str(), total_count, matches })
    })
    .await
}

/// `GET /v2/transcripts/{transcript_id}/redacted-audio`
pub async fn redacted_audio(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let transcript = find(&state, &request).await?;
    let none = || {
        ApiError::not_found(
            "This transcript has no redacted audio; create it with `pii_redaction` and `redact_audio` (beep or silence).",
        )
    };
    if transcript.options.redact_audio.is_none() {
        return Err(none());
    }
    check_completed(transcript.status)?;
    let key = redacted_audio_key(&request.account()?.id, &transcript.id);
    stored_object::respond(&state.storage, &key, "audio/ogg", request.headers()).await?.ok_or_else(none)
}

/// A format of subtitles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubtitleFormat {
    Srt,
    Vtt,
}

/// The options of subtitles in a request's query.
///
/// # Errors
/// 422 for a wrong value, and for two widths.
pub fn subtitle_options(request: &RequestContext) -> Result<SubtitleOptions> {
    let mut options = SubtitleOptions::default();
    let chars = request.query_integer("chars_per_caption", 1..=1000)?;
    let columns = request.query_integer("max_line_width", 1..=1000)?;
    if chars.is_some() && columns.is_some() && chars != columns {
        return Err(ApiError::validation("`chars_per_caption` and `max_line_width` are one limit; give one of them."));
    }
    if let Some(columns) = columns.or(chars) {
        options.line_chars = columns as usize;
    }
    if let Some(lines) = request.query_integer("max_line_count", 1..=10)? {
        options.line_count = lines as usize;
    }
    if let Some(highlight) = request.query_flag("highlight_words")? {
        options.highlight_words = highlight;
    }
    Ok(options)
}

/// Subtitles of a completed transcript. Speakers without a name have their label; without names there are no speakers.
///
/// # Errors
/// If the transcript has been deleted.
pub async fn subtitles(
    state: &TranscriptsState,
    request: &RequestContext,
    transcript: Arc<Transcript>,
    format: SubtitleFormat,
    options: SubtitleOptions,
    names: Option<SpeakerNames>,
) -> Result<Response> {
    let options = SubtitleOptions { audio_ms: transcript.duration_ms.and_then(|ms| u64::try_from(ms).ok()), ..options };
    let content_type = match format {
        SubtitleFormat::Srt => "application/x-subrip; charset=utf-8",
        SubtitleFormat::Vtt => "text/vtt; charset=utf-8",
    };
    document(state, request, transcript, content_type, move |_, mut words| {
        match names {
            Some(names) => name_speakers(&mut words, &names),
            None => leave_speakers_out(&mut words),
        }
        io::Result::Ok(match format {
            SubtitleFormat::Srt => subtitles::srt(&words, &options),
            SubtitleFormat::Vtt => subtitles::vtt(&words, &options),
        })
    })
    .await
}

/// Gives words the names that people gave to their speakers.
pub fn name_speakers(words: &mut [Word], names: &SpeakerNames) {
    for word in words {
        if let Some(name) = word.speaker.as_ref().and_then(|label| names.get(label)) {
            word.speaker_name = Some(name.clone());
        }
    }
}

/// Takes the speakers of words away.
pub fn leave_speakers_out(words: &mut [Word]) {
    for word in words {
        word.speaker = None;
        word.speaker_name = None;
    }
}

/// `GET /v2/transcripts/{transcript_id}/srt`
pub async fn srt(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let transcript = completed(&state, &request).await?;
    let options = subtitle_options(&request)?;
    subtitles(&state, &request, transcript, SubtitleFormat::Srt, options, Some(SpeakerNames::new())).await
}

/// `GET /v2/transcripts/{transcript_id}/vtt`
pub async fn vtt(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let transcript = completed(&state, &request).await?;
    let options = subtitle_options(&request)?;
    subtitles(&state, &request, transcript, SubtitleFormat::Vtt, options, Some(SpeakerNames::new())).await
}
