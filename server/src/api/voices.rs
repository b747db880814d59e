//! `/v2/voices`: the voices of `/v1/audio/speech`.

use std::sync::Arc;

use auricle_engine::{Error, SpeakOptions};
use serde::Serialize;
use serde_json::json;

use super::openai::speech::SpeechState;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, json};

#[derive(Serialize)]
struct Voice {
    id: String,
    object: &'static str,
    language: String,
    model: String,
    default: bool,
}

/// `GET /v2/voices`
pub async fn list(state: Arc<SpeechState>, _: RequestContext) -> Result<Response> {
    let voices = match &state.engine {
        None => Vec::new(),
        Some(engine) => match engine.voices(&SpeakOptions::default()) {
            Err(Error::NotPulled(_)) => Vec::new(),
            voices => voices.map_err(|error| ApiError::internal(&error))?,
        },
    };
    let voice = |(at, voice): (usize, auricle_engine::VoiceInfo)| Voice {
        id: voice.id,
        object: "voice",
        language: voice.language,
        model: voice.model,
        default: at == 0,
    };
    let voices: Vec<Voice> = voices.into_iter().enumerate().map(voice).collect();
    Ok(json(&json!({ "object": "list", "data": voices })))
}
