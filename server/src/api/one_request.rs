//! A transcript within one request: the file of a form becomes an ordinary job, metered and queued like every other, and the request waits
//! for its end.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::TranscriptsState;
use super::create::validate;
use super::form::Form;
use super::transcripts::{start, unknown};
use crate::http::body::Fields;
use crate::http::response::{ApiError, Response, Result};
use crate::ids::{AccountId, TranscriptId};
use crate::store::{NewTranscript, Status, Transcript};

/// The header with the id of the transcript, which `/v2` serves like every other.
const TRANSCRIPT_ID: HeaderName = HeaderName::from_static("x-transcript-id");

/// Waits between two looks at a job: short at first, for short files.
const FIRST_WAIT: Duration = Duration::from_millis(25);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Transcribes the file of a form with these options of a transcript.
///
/// # Errors
/// 400 without a file and for one that cannot be transcribed, and those of a request to create a transcript.
pub async fn transcribe(
    state: &TranscriptsState,
    account: &AccountId,
    form: Form,
    options: Map<String, Value>,
) -> Result<Arc<Transcript>> {
    let new = new_transcript(state, account, &form, options).await?;
    run(state, &new, || form.keep()).await
}

/// Validates a request to transcribe the file of a form.
///
/// # Errors
/// 400 without a file, and those of a request to create a transcript.
pub async fn new_transcript(
    state: &TranscriptsState,
    account: &AccountId,
    form: &Form,
    mut options: Map<String, Value>,
) -> Result<NewTranscript> {
    let Some(file) = &form.file else {
        return Err(ApiError::invalid("The file is missing: the audio to transcribe."));
    };
    options.insert("upload_id".into(), file.upload.id.as_str().into());
    validate(state, account, Fields::of("form", Value::Object(options))?).await
}

/// Transcribes the recording that the options name, an upload or a URL; `begun` is called once its transcript exists.
///
/// # Errors
/// As [`transcribe`].
pub async fn transcribe_source(
    state: &TranscriptsState,
    account: &AccountId,
    options: Map<String, Value>,
    begun: impl FnOnce(),
) -> Result<Arc<Transcript>> {
    let new = validate(state, account, Fields::of("form", Value::Object(options))?).await?;
    run(state, &new, begun).await
}

/// Creates a transcript and waits for its end; `begun` is called once it exists.
///
/// # Errors
/// As [`start`] and [`completed`].
pub async fn run(state: &TranscriptsState, new: &NewTranscript, begun: impl FnOnce()) -> Result<Arc<Transcript>> {
    let id = start(state, new).await?;
    begun();
    completed(state, &new.account, &id).await
}

/// Waits for the end of a job, as [`finished`].
///
/// # Errors
/// 400 for a recording that cannot be transcribed, 404 if the transcript is deleted meanwhile.
pub async fn completed(state: &TranscriptsState, account: &AccountId, id: &TranscriptId) -> Result<Arc<Transcript>> {
    let transcript = finished(state, account, id).await?;
    if transcript.status == Status::Error {
        let error = transcript.error.as_deref().unwrap_or("the file could not be transcribed");
        return Err(ApiError::invalid(format!("The transcription failed: {error}")));
    }
    Ok(transcript)
}

/// Waits for the end of a job. The job goes on if the client leaves, and its transcript is kept.
///
/// # Errors
/// 404 if the transcript is deleted meanwhile.
pub async fn finished(state: &TranscriptsState, account: &AccountId, id: &TranscriptId) -> Result<Arc<Transcript>> {
    let mut wait = FIRST_WAIT;
    loop {
        let transcript = state.store.transcript(account, id).await?.ok_or_else(unknown)?;
        if matches!(transcript.status, Status::Completed | Status::Error) {
            return Ok(transcript);
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 3 / 2).min(LONGEST_WAIT);
    }
}

/// Renders a transcript off the request's thread: `render` takes it and its words, a JSON array.
///
/// # Errors
/// Those of the store.
pub async fn rendered(
    state: &TranscriptsState,
    transcript: Arc<Transcript>,
    render: impl FnOnce(&Transcript, &str) -> serde_json::Result<Response> + Send + 'static,
) -> Result<Response> {
    let id = transcript.id.clone();
    let permit = state.renderer.permit().await?;
    let words = state.store.words(&transcript).await?.unwrap_or_else(|| "[]".into());
    let response = state.renderer.run(permit, move || render(&transcript, &words)).await?;
    Ok(with_transcript_id(response, &id))
}

/// A response that names its transcript.
pub fn with_transcript_id(mut response: Response, id: &TranscriptId) -> Response {
    if let Ok(id) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(TRANSCRIPT_ID, id);
    }
    response
}
