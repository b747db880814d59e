//! `/v2/speech-understanding`: prompts over a transcript.

use std::sync::Arc;

use auricle_engine::extractive;
use serde::Serialize;

use super::language::{EXTRACTIVE, LanguageState, unknown_model};
use crate::clock;
use crate::context::RequestContext;
use crate::http::body::{self, Fields};
use crate::http::response::{ApiError, Response, Result, json};
use crate::ids;
use crate::language::grounding::Fence;
use crate::language::source::Unit;
use crate::language::understanding::{Question, answer};

/// The longest prompt, in characters.
const MAX_PROMPT_CHARS: usize = 8000;

/// The longest id that is looked up.
const MAX_ID_CHARS: usize = 256;

#[derive(Serialize)]
struct Understanding<'a> {
    id: String,
    transcript_id: &'a str,
    model: &'a str,
    response: String,
    created_at: String,
}

/// `POST /v2/speech-understanding`
pub async fn create(state: Arc<LanguageState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let headers = request.headers().clone();
    let bytes = body::read(request.into_request(), body::MAX_JSON_BYTES).await?;
    let mut fields = Fields::parse(&headers, &bytes)?;
    let transcript_id = fields.required_string("transcript_id", 1..=MAX_ID_CHARS)?;
    let prompt = fields.required_string("prompt", 1..=MAX_PROMPT_CHARS)?;
    let model = fields.string("model")?;
    let wants_json = match fields.string("response_format")?.as_deref() {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => {
            let message = format!("`response_format` must be text or json; it is {other:?}.");
            return Err(ApiError::validation(message));
        }
    };
    let model = match model.as_deref() {
        Some(EXTRACTIVE) => None,
        Some(id) if state.models.find(id).is_none() => {
            return Err(unknown_model(id, state.models.ids().chain([EXTRACTIVE]).collect()));
        }
        other => state.find(other)?,
    };
    let unit = if model.is_some() { Unit::Paragraph } else { Unit::Sentence };
    let (transcript, passages) = state.passages(&account, transcript_id, unit).await?;
    let (id, response) = match &model {
        Some(model) => {
            model.prepare().await?;
            let fence = Fence::new(&state.secret, transcript.id.as_str());
            let language = transcript.language_code.as_deref();
            let question =
                Question { paragraphs: &passages, language, prompt: &prompt, wants_json, account: account.as_str() };
            (model.id(), answer(&**model, &fence, &question).await?)
        }
        None => {
            let permit = state.renderer.permit().await?;
            let language = transcript.language_code.clone();
            let work = move || match wants_json {
                true => serde_json::to_string(&extractive::answer_json(&passages, language.as_deref(), &prompt)),
                false => Ok(extractive::answer(&passages, language.as_deref(), &prompt)),
            };
            (EXTRACTIVE, state.renderer.run(permit, work).await?)
        }
    };
    Ok(json(&Understanding {
        id: ids::fresh("su"),
        transcript_id: transcript.id.as_str(),
        model: id,
        response,
        created_at: clock::iso(clock::now_ms()),
    }))
}
