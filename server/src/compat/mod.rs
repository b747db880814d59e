//! Protocols of other programs over the service's own resources, so that their clients work with another address. Each is a room of its own
//! that knows none of the others.

pub mod asr_webservice;
pub mod assemblyai;
pub mod deepgram;
pub mod mcp;
pub mod telephony;
pub mod whisper_server;
pub mod wyoming;

use serde_json::{Map, Value};

use crate::http::response::{ApiError, Response};

/// How the protocol of a path writes an error that comes before its handler; none for paths of other protocols.
pub fn error_response(path: &str) -> Option<fn(&ApiError) -> Response> {
    match path {
        "/v1/listen" | "/v1/speak" => Some(deepgram::error_response),
        path if assemblyai::owns(path) => Some(assemblyai::refused),
        _ => None,
    }
}

/// The options of a transcript that these protocols share. `auto` is no language, as an empty one.
fn options(language: Option<&str>, prompt: Option<&str>, translates: bool) -> Map<String, Value> {
    let mut options = Map::new();
    if let Some(language) = language.filter(|language| *language != "auto") {
        options.insert("language_code".into(), language.into());
    }
    let hints = crate::api::openai::transcriptions::hints(prompt.unwrap_or_default());
    if !hints.is_empty() {
        options.insert("keyterms_prompt".into(), hints.into());
    }
    if translates {
        options.insert("translate".into(), true.into());
    }
    options
}
