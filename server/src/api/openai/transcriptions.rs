//! `/v1/audio/transcriptions` and `/v1/audio/translations`: a file in, its text out, or its text in English.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::transcription::{AnswerOptions, Finished, Granularity, Shape, respond};
use super::{DIARIZING, file_model, known_speakers, model_not_found, transcription_stream};
use crate::api::TranscriptsState;
use crate::api::form::{self, FilePart, Form};
use crate::api::one_request::{new_transcript, rendered, run};
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result};

/// The longest phrase of a prompt that is a vocabulary hint, in characters and words.
const MAX_HINT_CHARS: usize = 100;
const MAX_HINT_WORDS: usize = 5;
const MAX_HINTS: usize = 1000;

/// The task of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Transcribe,
    /// Write English, whatever language is spoken.
    Translate,
}

/// `POST /v1/audio/transcriptions`
pub async fn create(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    respond_to(state, request, Task::Transcribe).await
}

/// `POST /v1/audio/translations`
pub async fn translate(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    respond_to(state, request, Task::Translate).await
}

async fn respond_to(state: Arc<TranscriptsState>, request: RequestContext, task: Task) -> Result<Response> {
    let account = request.account()?.id.clone();
    let headers = request.headers().clone();
    let part = FilePart { max_field_bytes: known_speakers::MAX_FORM_BYTES, ..FilePart::default() };
    let form = form::read(&state.uploads, &account, &headers, request.into_body(), part).await?;
    let answer = answer_options(&form, task)?;
    let fields = fields(&form, &answer)?;
    let people = known_speakers::references(&form)?;
    if !people.is_empty() && !fields.contains_key("speaker_labels") {
        let message = format!("`known_speaker_names` needs `response_format` diarized_json or the model {DIARIZING}.");
        return Err(ApiError::validation(message));
    }
    let mut new = new_transcript(&state, &account, &form, fields).await.map_err(model_not_found)?;
    if !people.is_empty() {
        new.options.known_speakers = Some(known_speakers::sealed(&state.speakers, &account, people).await?);
    }
    if answer.stream {
        return transcription_stream::respond(state, account, new, form, answer).await;
    }
    let transcript = run(&state, &new, || form.keep()).await?;
    rendered(&state, transcript, move |transcript, words| Ok(respond(&Finished::new(transcript, words)?, &answer)))
        .await
}

fn answer_options(form: &Form, task: Task) -> Result<AnswerOptions> {
    let shape = match form.text("response_format") {
        None | Some("json") => Shape::Json,
        Some("verbose_json") => Shape::Verbose,
        Some("diarized_json") if task == Task::Transcribe => Shape::Diarized,
        Some("text") => Shape::Text,
        Some("srt") => Shape::Srt,
        Some("vtt") => Shape::Vtt,
        Some(other) => {
            let message = format!(
                "`response_format` must be json, verbose_json, text, srt or vtt, or diarized_json for a transcription; it is {other:?}."
            );
            return Err(ApiError::validation(message));
        }
    };
    let granularity = |name: &str| match name {
        "word" => Ok(Granularity::Word),
        "segment" => Ok(Granularity::Segment),
        other => {
            let message = format!("`timestamp_granularities` must be word or segment; one is {other:?}.");
            Err(ApiError::validation(message))
        }
    };
    let granularities: Vec<Granularity> =
        form.texts("timestamp_granularities").into_iter().map(granularity).collect::<Result<_>>()?;
    if !granularities.is_empty() && shape != Shape::Verbose {
        return Err(ApiError::validation("`timestamp_granularities` needs `response_format` verbose_json."));
    }
    let stream = match form.text("stream") {
        None | Some("false" | "False" | "0") => false,
        Some("true" | "True" | "1") => true,
        Some(other) => return Err(ApiError::validation(format!("`stream` must be true or false; it is {other:?}."))),
    };
    if stream && !matches!(shape, Shape::Json | Shape::Diarized | Shape::Text) {
        return Err(ApiError::validation("`stream` needs `response_format` json, diarized_json or text."));
    }
    let include = form.texts("include");
    if let Some(other) = include.iter().find(|name| **name != "logprobs") {
        return Err(ApiError::validation(format!("`include` may have logprobs alone, not {other:?}.")));
    }
    if !include.is_empty() && shape != Shape::Json {
        return Err(ApiError::validation("`include` needs `response_format` json."));
    }
    check_chunking(form)?;
    if let Some(text) = form.text("temperature") {
        // Decoding is deterministic, and Whisper raises its temperature by itself.
        text.parse::<f64>()
            .ok()
            .filter(|value| (0.0..=1.0).contains(value))
            .ok_or_else(|| ApiError::validation(format!("`temperature` must be 0 to 1; it is {text:?}.")))?;
    }
    Ok(AnswerOptions {
        shape,
        granularities,
        stream,
        has_logprobs: !include.is_empty(),
        is_translated: task == Task::Translate,
    })
}

/// Recordings are cut at silence whatever a client asks for. The type comes in JSON, or in a field of its own.
fn check_chunking(form: &Form) -> Result<()> {
    let is_known = match form.text("chunking_strategy") {
        None => form.text("chunking_strategy[type]").is_none_or(|name| name == "server_vad"),
        Some("auto") => true,
        Some(settings) => {
            serde_json::from_str::<Value>(settings).is_ok_and(|settings| settings["type"] == "server_vad")
        }
    };
    let message = "`chunking_strategy` must be auto, or server_vad with its settings.";
    if is_known { Ok(()) } else { Err(ApiError::validation(message)) }
}

/// The form as a request to create a transcript.
fn fields(form: &Form, answer: &AnswerOptions) -> Result<Map<String, Value>> {
    let Some(model) = form.text("model") else {
        return Err(ApiError::invalid(
            "`model` is missing: svc-best, svc-fast, or a name of OpenAI's such as whisper-1.",
        ));
    };
    let mut fields = Map::new();
    fields.insert("model".into(), file_model(model).into());
    if let Some(language) = form.text("language") {
        fields.insert("language_code".into(), language.into());
    }
    let languages = form.texts("languages");
    if !languages.is_empty() {
        fields.insert("language_codes".into(), json!(languages));
    }
    let hints = hints(form.text("prompt").unwrap_or_default());
    let terms: Vec<&str> = form.texts("keywords").into_iter().chain(hints).collect();
    if !terms.is_empty() {
        fields.insert("keyterms_prompt".into(), json!(terms));
    }
    if answer.shape == Shape::Diarized || model == DIARIZING {
        fields.insert("speaker_labels".into(), true.into());
    }
    if answer.is_translated {
        fields.insert("translate".into(), true.into());
    }
    Ok(fields)
}

/// The phrases of a prompt that are short enough for vocabulary hints.
pub fn hints(prompt: &str) -> Vec<&str> {
    hints_among(prompt.split([',', ';', '.', '\n']))
}

/// The phrases that are short enough for vocabulary hints, the first of them if there are too many.
pub fn hints_among<'a>(phrases: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let is_hint = |phrase: &&str| {
        !phrase.is_empty()
            && phrase.chars().count() <= MAX_HINT_CHARS
            && phrase.split_whitespace().count() <= MAX_HINT_WORDS
            && !phrase.contains('\0')
    };
    phrases.into_iter().map(str::trim).filter(is_hint).take(MAX_HINTS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(fields: &[(&str, &str)]) -> Form {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Form { file: None, fields }
    }

    #[test]
    fn options_are_validated() {
        let options = |fields: &[(&str, &str)], task| answer_options(&form(fields), task);
        let both = [
            ("response_format", "verbose_json"),
            ("timestamp_granularities[]", "word"),
            ("timestamp_granularities[]", "segment"),
            ("temperature", "0.2"),
            ("chunking_strategy", r#"{"type": "server_vad", "threshold": 0.4}"#),
        ];
        let read = options(&both, Task::Transcribe).unwrap();
        assert_eq!((read.shape, read.granularities), (Shape::Verbose, vec![Granularity::Word, Granularity::Segment]));
        for bad in [
            [("response_format", "xml")].as_slice(),
            &[("timestamp_granularities[]", "letter"), ("response_format", "verbose_json")],
            &[("timestamp_granularities[]", "word")],
            &[("stream", "maybe")],
            &[("stream", "true"), ("response_format", "srt")],
            &[("temperature", "hot")],
            &[("temperature", "1.5")],
            &[("include[]", "words")],
            &[("include[]", "logprobs"), ("response_format", "text")],
            &[("chunking_strategy", "by_hand")],
            &[("chunking_strategy[type]", "by_hand")],
        ] {
            assert!(options(bad, Task::Transcribe).is_err_and(|error| error.status == 422), "{bad:?}");
        }
        let diarized = [("response_format", "diarized_json"), ("stream", "true")];
        assert!(options(&diarized, Task::Transcribe).is_ok());
        assert!(options(&diarized, Task::Translate).is_err_and(|error| error.status == 422));
    }

    #[test]
    fn a_form_becomes_a_request() {
        let form = form(&[
            ("model", "whisper-1"),
            ("language", "en"),
            ("prompt", "Acme, Dr. Zhivago, a sentence that is much too long for a hint"),
        ]);
        let request = |form: &Form, task| fields(form, &answer_options(form, task).unwrap()).map(Value::Object);
        assert_eq!(
            request(&form, Task::Transcribe).unwrap(),
            json!({ "model": "svc-best", "language_code": "en", "keyterms_prompt": ["Acme", "Dr", "Zhivago"] })
        );
        assert_eq!(request(&form, Task::Translate).unwrap()["translate"], true);
        assert_eq!(request(&super::tests::form(&[]), Task::Transcribe).unwrap_err().status, 400);
        let speakers = super::tests::form(&[
            ("model", "gpt-4o-transcribe-diarize"),
            ("languages[]", "en"),
            ("languages[]", "de"),
            ("keywords[]", "Acme"),
        ]);
        assert_eq!(
            request(&speakers, Task::Transcribe).unwrap(),
            json!({
                "model": "svc-best", "speaker_labels": true, "language_codes": ["en", "de"],
                "keyterms_prompt": ["Acme"],
            })
        );
    }
}
