//! `POST /asr` and `POST /detect-language`, as whisper-asr-webservice has them.

use std::sync::Arc;

use auricle_engine::subtitles::{self, SubtitleOptions};
use auricle_engine::{Word, documents, segments};
use hyper::header::HeaderValue;
use serde_json::json;

use super::options;
use crate::api::TranscriptsState;
use crate::api::form::{self, FilePart, Form};
use crate::api::one_request::{rendered, transcribe};
use crate::api::openai::transcription::whisper_segments;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, json as json_response, text};
use crate::ids::AccountId;
use crate::languages;
use crate::store::Transcript;

/// The rate of audio that is sent without a header, in hertz.
const RAW_RATE: u32 = 16_000;

/// The shape of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Text,
    Json,
    Srt,
    Vtt,
    Tsv,
}

/// `POST /asr`
pub async fn asr(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    in_its_shape(transcribed(&state, request).await)
}

/// `POST /detect-language`
pub async fn detect_language(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    in_its_shape(detected(&state, request).await)
}

fn in_its_shape(answer: Result<Response>) -> Result<Response> {
    answer.or_else(|error| Ok(error.response_with(&json!({ "detail": error.message }))))
}

async fn transcribed(state: &Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let output = match request.query("output").as_deref() {
        None | Some("txt") => Output::Text,
        Some("json") => Output::Json,
        Some("srt") => Output::Srt,
        Some("vtt") => Output::Vtt,
        Some("tsv") => Output::Tsv,
        Some(other) => {
            return Err(ApiError::validation(format!("`output` must be txt, json, srt, vtt or tsv; it is {other:?}.")));
        }
    };
    let translates = match request.query("task").as_deref() {
        None | Some("transcribe") => false,
        Some("translate") => true,
        Some(other) => {
            return Err(ApiError::validation(format!("`task` must be transcribe or translate; it is {other:?}.")));
        }
    };
    let has_words = request.query_flag("word_timestamps")?.unwrap_or_default();
    let options = options(request.query("language").as_deref(), request.query("initial_prompt").as_deref(), translates);
    let (account, form) = read(state, request).await?;
    let transcript = transcribe(state, &account, form, options).await?;
    let mut response =
        rendered(state, transcript, move |transcript, words| render(transcript, words, output, has_words)).await?;
    response.headers_mut().insert("asr-engine", HeaderValue::from_static("auricle"));
    Ok(response)
}

async fn detected(state: &Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let (account, form) = read(state, request).await?;
    let transcript = transcribe(state, &account, form, options(None, None, false)).await?;
    let code = transcript.language_code.as_deref();
    let name = code.map(|code| languages::name(code).map_or_else(|| code.to_owned(), str::to_lowercase));
    Ok(json_response(&json!({ "detected_language": name, "language_code": code })))
}

/// The account and the form. Audio that the client has decoded has no header: it is 16 bits, mono, at 16 kHz.
async fn read(state: &Arc<TranscriptsState>, request: RequestContext) -> Result<(AccountId, Form)> {
    let account = request.account()?.id.clone();
    let is_raw = request.query_flag("encode")? == Some(false);
    let headers = request.headers().clone();
    let part = FilePart { name: "audio_file", raw_rate: is_raw.then_some(RAW_RATE), ..FilePart::default() };
    let form = form::read(&state.uploads, &account, &headers, request.into_body(), part).await?;
    Ok((account, form))
}

fn render(transcript: &Transcript, words: &str, output: Output, has_words: bool) -> serde_json::Result<Response> {
    let words: Vec<Word> = serde_json::from_str(words)?;
    let audio_ms = transcript.duration_ms.and_then(|ms| u64::try_from(ms).ok());
    let subtitles = SubtitleOptions { audio_ms, ..SubtitleOptions::default() };
    let lines = |line: fn(&segments::Segment<'_>) -> String| -> String {
        segments::sentences(&words).iter().map(line).collect()
    };
    Ok(match output {
        Output::Text => text("text/plain; charset=utf-8", lines(|one| format!("{}\n", one.text))),
        Output::Tsv => text("text/plain; charset=utf-8", documents::tsv(&words)),
        Output::Json => json_response(&json!({
            "text": transcript.text,
            "language": transcript.language_code,
            "segments": whisper_segments(&words, has_words),
        })),
        Output::Srt => text("text/plain; charset=utf-8", subtitles::srt(&words, &subtitles)),
        Output::Vtt => text("text/plain; charset=utf-8", subtitles::vtt(&words, &subtitles)),
    })
}
