//! `/v1`: OpenAI's paths and shapes, so that existing clients work with another base URL. The keys, the limits and the billing are
//! those of `/v2`.

mod known_speakers;
pub mod realtime;
pub mod speech;
pub mod speech_encoder;
pub mod transcription;
mod transcription_stream;
pub mod transcriptions;

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::chat;
use super::chat_request::OPENAI;
use super::language::{EXTRACTIVE, LanguageState};
use super::models::ModelsState;
use crate::billing::{PRICES, Price, ProductKind};
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, json as json_response};

/// What stands for this service where OpenAI names an owner.
const OWNER: &str = "auricle";

/// The models of OpenAI's clients, and those that stand in for them: for files, and live.
const STAND_INS: [(&str, &str, &str); 8] = [
    ("whisper-1", "svc-best", "svc-realtime-pro"),
    ("gpt-transcribe", "svc-best", "svc-realtime-pro"),
    ("gpt-live-transcribe", "svc-best", "svc-realtime-pro"),
    ("gpt-realtime-whisper", "svc-best", "svc-realtime-pro"),
    ("gpt-4o-transcribe", "svc-best", "svc-realtime-pro"),
    (DIARIZING, "svc-best", "svc-realtime-pro"),
    ("gpt-4o-mini-transcribe", "svc-fast", "svc-realtime"),
    ("gpt-4o-mini-transcribe-2025-12-15", "svc-fast", "svc-realtime"),
];

/// The model of OpenAI's that labels speakers.
const DIARIZING: &str = "gpt-4o-transcribe-diarize";

/// The model for files that a client names, by its own name or another.
fn file_model(name: &str) -> &str {
    STAND_INS.iter().find(|(theirs, ..)| *theirs == name).map_or(name, |(_, ours, _)| ours)
}

/// The live model that a client names, by its own name or another.
fn live_model(name: &str) -> Option<&'static str> {
    let stands_in = STAND_INS.iter().find(|(theirs, ..)| *theirs == name).map(|(.., ours)| *ours);
    stands_in.or_else(|| Price::of(name, ProductKind::Realtime).map(|price| price.model))
}

/// The error for a model without live sessions.
fn no_such_model(name: &str) -> ApiError {
    let message = format!(
        "There are no live sessions with {name:?}: take svc-realtime-pro, svc-realtime, or a name of OpenAI's such as gpt-4o-transcribe."
    );
    ApiError::new(StatusCode::NOT_FOUND, "model_not_found", message)
}

/// OpenAI's error for a model that there is not.
fn model_not_found(error: ApiError) -> ApiError {
    match error.code {
        "unknown_model" => ApiError::new(StatusCode::NOT_FOUND, "model_not_found", error.message),
        _ => error,
    }
}

/// `POST /v1/chat/completions`
pub async fn chat_completions(state: Arc<LanguageState>, request: RequestContext) -> Result<Response> {
    chat::respond(state, request, &OPENAI).await.map_err(model_not_found)
}

fn model(id: &str) -> Value {
    json!({ "id": id, "object": "model", "created": 0, "owned_by": OWNER })
}

/// The models that `/v1` serves.
fn ids(state: &ModelsState) -> impl Iterator<Item = &str> {
    let recognisers = PRICES.iter().filter(|price| price.kind == ProductKind::Prerecorded).map(|price| price.model);
    recognisers.chain(state.language.ids().filter(|id| *id != EXTRACTIVE))
}

/// `GET /v1/models`
pub async fn models(state: Arc<ModelsState>, _: RequestContext) -> Result<Response> {
    let data: Vec<Value> = ids(&state).map(model).collect();
    Ok(json_response(&json!({ "object": "list", "data": data })))
}

/// `GET /v1/models/{model_id}`
pub async fn retrieve_model(state: Arc<ModelsState>, request: RequestContext) -> Result<Response> {
    let wanted = request.param("model_id");
    match ids(&state).find(|id| *id == wanted) {
        Some(id) => Ok(json_response(&model(id))),
        None => {
            let message = format!("There is no model {wanted:?}; GET /v1/models lists them.");
            Err(ApiError::new(StatusCode::NOT_FOUND, "model_not_found", message))
        }
    }
}
