//! `/v1`: OpenAI's paths and shapes, so that existing clients work with another base URL. The keys, the limits and the billing are
//! those of `/v2`.

pub mod speech;
mod speech_encoder;
mod transcription;
pub mod transcriptions;

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::chat;
use super::chat_request::OPENAI;
use super::language::{EXTRACTIVE, LanguageState};
use super::models::ModelsState;
use crate::billing::{PRICES, ProductKind};
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, json as json_response};

/// What stands for this service where OpenAI names an owner.
const OWNER: &str = "auricle";

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
