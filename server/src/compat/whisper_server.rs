//! `POST /inference`, as the server of whisper.cpp has it.

use std::sync::Arc;

use auricle_engine::Word;
use auricle_engine::segments;
use auricle_engine::subtitles::{self, SubtitleOptions};
use serde_json::json;

use super::options;
use crate::api::TranscriptsState;
use crate::api::form::{self, FilePart, Form};
use crate::api::one_request::{rendered, transcribe};
use crate::api::openai::transcription::whisper_segments;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, json as json_response, text};
use crate::languages;
use crate::store::Transcript;

/// The shape of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Json,
    Verbose,
    Text,
    Srt,
    Vtt,
}

/// `POST /inference`
pub async fn inference(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    answer(&state, request).await.or_else(|error| Ok(error.response_with(&json!({ "error": error.message }))))
}

async fn answer(state: &Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let headers = request.headers().clone();
    let form = form::read(&state.uploads, &account, &headers, request.into_body(), FilePart::default()).await?;
    let shape = shape(&form)?;
    let translates = matches!(form.text("translate"), Some("true" | "1" | "on"));
    let options = options(form.text("language"), form.text("prompt"), translates);
    let transcript = transcribe(state, &account, form, options).await?;
    rendered(state, transcript, move |transcript, words| render(transcript, words, shape, translates)).await
}

fn shape(form: &Form) -> Result<Shape> {
    match form.text("response_format") {
        None | Some("json") => Ok(Shape::Json),
        Some("verbose_json") => Ok(Shape::Verbose),
        Some("text") => Ok(Shape::Text),
        Some("srt") => Ok(Shape::Srt),
        Some("vtt") => Ok(Shape::Vtt),
        Some(other) => {
            let message = format!("`response_format` must be json, verbose_json, text, srt or vtt; it is {other:?}.");
            Err(ApiError::invalid(message))
        }
    }
}

fn render(transcript: &Transcript, words: &str, shape: Shape, translates: bool) -> serde_json::Result<Response> {
    let words: Vec<Word> = serde_json::from_str(words)?;
    let written = transcript.text.as_deref().unwrap_or_default();
    let duration_ms = transcript.duration_ms.unwrap_or_default();
    let subtitles = SubtitleOptions { audio_ms: u64::try_from(duration_ms).ok(), ..SubtitleOptions::default() };
    Ok(match shape {
        Shape::Json => json_response(&json!({ "text": written })),
        Shape::Verbose => {
            let code = transcript.language_code.as_deref();
            let language = code.map(|code| languages::name(code).map_or_else(|| code.to_owned(), str::to_lowercase));
            json_response(&json!({
                "task": if translates { "translate" } else { "transcribe" },
                "language": language,
                "duration": duration_ms as f64 / 1e3,
                "text": written,
                "segments": whisper_segments(&words, true),
            }))
        }
        Shape::Text => {
            let lines: String = segments::sentences(&words).iter().map(|one| format!("{}\n", one.text)).collect();
            text("text/plain; charset=utf-8", lines)
        }
        Shape::Srt => text("application/x-subrip; charset=utf-8", subtitles::srt(&words, &subtitles)),
        Shape::Vtt => text("text/vtt; charset=utf-8", subtitles::vtt(&words, &subtitles)),
    })
}
