//! The tools: their definitions, arguments and results.

use std::time::Duration;

use auricle_engine::SPEECH_RATE;
use auricle_engine::search::{LONGEST_PHRASE, word_count};
use data_encoding::BASE64;
use http_body_util::BodyExt as _;
use hyper::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};

use super::McpState;
use super::message::{INVALID_PARAMS, Refusal};
use super::transcripts::{self, Search, Shown, Span};
use crate::api::create::validate;
use crate::api::one_request::finished;
use crate::api::openai::speech;
use crate::api::transcripts::{start, unknown};
use crate::api::understanding::MAX_PROMPT_CHARS;
use crate::http::body::Fields;
use crate::http::response::{ApiError, Result};
use crate::ids::AccountId;
use crate::sound_format::wav_header;
use crate::store::{Cursor, ListQuery, Status};

/// Definitions: `service` has those of the service, `local` those that `auricle mcp` adds, with files of its machine.
const DEFINITIONS: &str = include_str!("tools.json");

/// Bytes of a transcript that a result holds at most.
const MAX_SHOWN_BYTES: usize = 30_000;
/// Characters of a text that is spoken into a result.
const MAX_SPOKEN_CHARS: usize = 2_000;
/// Transcripts that a question or a search may name.
const MAX_ASKED: usize = 5;
const MAX_NAMED: usize = 50;
const MAX_PHRASES: usize = 20;
const MAX_PHRASE_CHARS: usize = 200;
const MAX_ID_CHARS: usize = 256;
const MAX_SEARCH_CHARS: usize = 200;
/// Seconds that a new transcript is waited for: many clients give a call a minute.
const DEFAULT_WAIT: i64 = 45;
const MAX_WAIT: i64 = 600;
/// No recording is longer, in seconds.
const MAX_SECONDS: f64 = 1e7;

/// The definitions of one kind.
fn defined(kind: &str) -> Value {
    let mut all: Value = serde_json::from_str(DEFINITIONS).unwrap_or_default();
    all[kind].take()
}

/// The tools of the service.
pub fn definitions() -> Value {
    defined("service")
}

/// The tools that work with files of the client's machine.
pub fn local_definitions() -> Value {
    defined("local")
}

/// `tools/call`. What a tool refuses is a result that the assistant reads.
///
/// # Errors
/// For an unknown tool, and arguments that are no object.
pub async fn call(
    state: &McpState,
    account: &AccountId,
    mut params: Map<String, Value>,
) -> std::result::Result<Value, Refusal> {
    let Some(name) = params.get("name").and_then(Value::as_str).map(str::to_owned) else {
        return Err(Refusal::of(INVALID_PARAMS, "`name` is missing: tools/list has the names."));
    };
    let arguments = params.remove("arguments").unwrap_or_else(|| json!({}));
    let fields = Fields::of("arguments", arguments).map_err(|error| Refusal::of(INVALID_PARAMS, error.message))?;
    let shown = match name.as_str() {
        "list_transcripts" => list(state, account, fields).await,
        "search_transcripts" => search(state, account, fields).await,
        "get_transcript" => get(state, account, fields).await,
        "ask_transcripts" => ask(state, account, fields).await,
        "transcribe" => transcribe(state, account, fields).await,
        "speak" => return Ok(speak(state, account, fields).await.unwrap_or_else(|error| refused(&error))),
        _ => {
            return Err(Refusal::of(INVALID_PARAMS, format!("Unknown tool: {name:?}; tools/list has the names.")));
        }
    };
    Ok(shown.map_or_else(|error| refused(&error), result))
}

fn result(shown: Shown) -> Value {
    let mut result = json!({ "content": [{ "type": "text", "text": shown.text }], "isError": false });
    if let Some(structured) = shown.structured {
        result["structuredContent"] = structured;
    }
    result
}

fn refused(error: &ApiError) -> Value {
    json!({ "content": [{ "type": "text", "text": error.message }], "isError": true })
}

fn cursor(fields: &mut Fields) -> Result<Option<Cursor>> {
    let Some(text) = fields.string_of("cursor", 1..=MAX_ID_CHARS)? else { return Ok(None) };
    let wrong = || ApiError::validation("`cursor` must be the `next_cursor` of an earlier result.");
    Cursor::parse(&text).ok_or_else(wrong).map(Some)
}

async fn list(state: &McpState, account: &AccountId, mut fields: Fields) -> Result<Shown> {
    let query = ListQuery {
        search: fields.string_of("title", 0..=MAX_SEARCH_CHARS)?.unwrap_or_default(),
        status: match fields.string("status")? {
            None => None,
            Some(name) => Some(Status::named(&name).ok_or_else(|| {
                let names = Status::ALL.map(Status::name).join(", ");
                ApiError::validation(format!("`status` must be one of {names}; it is {name:?}."))
            })?),
        },
        language: fields.string_of("language_code", 0..=MAX_ID_CHARS)?.unwrap_or_default(),
        after: cursor(&mut fields)?,
        limit: fields.integer("limit", 1..=100)?.unwrap_or(20),
        ..ListQuery::default()
    };
    fields.check_all_known()?;
    transcripts::list(state, account, query).await
}

async fn search(state: &McpState, account: &AccountId, mut fields: Fields) -> Result<Shown> {
    let phrases = fields.strings("phrases", MAX_PHRASES, MAX_PHRASE_CHARS)?.unwrap_or_default();
    let ids = fields.strings("transcript_ids", MAX_NAMED, MAX_ID_CHARS)?;
    let after = cursor(&mut fields)?;
    let limit = fields.integer("limit", 1..=100)?.unwrap_or(20);
    fields.check_all_known()?;
    if phrases.is_empty() {
        return Err(ApiError::validation("`phrases` must have at least one word or phrase."));
    }
    if let Some(wrong) = phrases.iter().find(|phrase| !(1..=LONGEST_PHRASE).contains(&word_count(phrase))) {
        let message = format!("A phrase must have 1 to {LONGEST_PHRASE} words; {wrong:?} has {}.", word_count(wrong));
        return Err(ApiError::validation(message));
    }
    let limit = usize::try_from(limit).unwrap_or(1);
    transcripts::find(state, account, Search { phrases, ids, limit, after }).await
}

async fn get(state: &McpState, account: &AccountId, mut fields: Fields) -> Result<Shown> {
    let id = fields.required_string("transcript_id", 1..=MAX_ID_CHARS)?;
    let ms = |seconds: f64| (seconds * 1e3).round() as u64;
    let from = fields.number("from_seconds", 0.0..=MAX_SECONDS)?.map_or(0, ms);
    let to = fields.number("to_seconds", 0.0..=MAX_SECONDS)?.map_or(u64::MAX, ms);
    fields.check_all_known()?;
    transcripts::show(state, account, id, Span { from, to }, MAX_SHOWN_BYTES).await
}

async fn ask(state: &McpState, account: &AccountId, mut fields: Fields) -> Result<Shown> {
    let question = fields.required_string("question", 1..=MAX_PROMPT_CHARS)?;
    let ids = fields.strings("transcript_ids", MAX_ASKED, MAX_ID_CHARS)?.unwrap_or_default();
    fields.check_all_known()?;
    if ids.is_empty() {
        return Err(ApiError::validation("`transcript_ids` must name at least one transcript."));
    }
    transcripts::answers(state, account, &question, ids).await
}

async fn transcribe(state: &McpState, account: &AccountId, mut fields: Fields) -> Result<Shown> {
    let mut request = Map::new();
    // Names that differ from those of the API are those that assistants expect.
    for (argument, option) in
        [("url", "audio_url"), ("upload_id", "upload_id"), ("language_code", "language_code"), ("title", "title")]
    {
        if let Some(value) = fields.string(argument)? {
            request.insert(option.into(), value.into());
        }
    }
    if !request.contains_key("audio_url") && !request.contains_key("upload_id") {
        return Err(ApiError::invalid("`url` is missing: the address of a recording."));
    }
    let has_diarizer = state.transcripts.catalog.diarizer().is_some();
    let labels = fields.optional_flag("speaker_labels")?.unwrap_or(has_diarizer);
    request.insert("speaker_labels".into(), labels.into());
    let wait = fields.integer("wait_seconds", 0..=MAX_WAIT)?.unwrap_or(DEFAULT_WAIT);
    fields.check_all_known()?;
    let new = validate(&state.transcripts, account, Fields::of("arguments", request.into())?).await?;
    let id = start(&state.transcripts, &new).await?;
    let wait = Duration::from_secs(wait.unsigned_abs());
    let transcript = match tokio::time::timeout(wait, finished(&state.transcripts, account, &id)).await {
        Ok(transcript) => transcript?,
        Err(_) => state.transcripts.store.transcript(account, &id).await?.ok_or_else(unknown)?,
    };
    if transcript.status == Status::Error {
        let error = transcript.error.as_deref().unwrap_or("the recording could not be transcribed");
        return Err(ApiError::invalid(format!("The transcription {id} failed: {error}")));
    }
    transcripts::created(state, account, &transcript, MAX_SHOWN_BYTES).await
}

/// Speech as audio content.
async fn speak(state: &McpState, account: &AccountId, mut fields: Fields) -> Result<Value> {
    let text = fields.required_string("text", 1..=MAX_SPOKEN_CHARS)?;
    let is_wav = match fields.string("format")?.as_deref() {
        None | Some("wav") => true,
        Some("mp3") => false,
        Some(other) => return Err(ApiError::validation(format!("`format` must be wav or mp3; it is {other:?}."))),
    };
    // The header of a stream does not know its length, so it is written here.
    let format = if is_wav { "pcm" } else { "mp3" };
    let request = json!({
        "model": speech::MODELS[0],
        "input": text,
        "voice": fields.take("voice"),
        "speed": fields.take("speed"),
        "response_format": format,
    });
    fields.check_all_known()?;
    let response = speech::speak(&state.speech, account, Fields::of("arguments", request)?).await?;
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let sound = response.into_body().collect().await.map_err(|error| ApiError::internal(&error))?.to_bytes();
    let (mime_type, sound) = match is_wav {
        true => {
            let mut file = wav_header(SPEECH_RATE, u32::try_from(sound.len()).ok());
            file.extend_from_slice(&sound);
            ("audio/wav".to_owned(), file)
        }
        false => (content_type.unwrap_or_default(), sound.to_vec()),
    };
    let audio = json!({ "type": "audio", "data": BASE64.encode(&sound), "mimeType": mime_type });
    Ok(json!({ "content": [audio], "isError": false }))
}
