//! The playground: a file, a live session and a voice agent, with the code for each.

use std::sync::Arc;

use askama::Template;
use auricle_engine::{Catalog, Engine, SecondPass, SpeakOptions};
use serde::Serialize;
use serde_json::Value;

use super::DashboardState;
use super::frame::{Frame, Section, page};
use super::shown::language;
use super::words::EN;
use crate::billing::{PRICES, ProductKind};
use crate::context::RequestContext;
use crate::http::response::Result;
use crate::http::response::{ApiError, Response};
use crate::ids::AccountId;
use crate::languages::REALTIME;

/// A model and its languages, for the script.
#[derive(Serialize)]
pub struct ModelChoice {
    pub id: &'static str,
    pub default: bool,
    /// Codes and names.
    languages: Vec<(String, String)>,
}

/// The models of a kind that can be served here.
fn models(catalog: &Catalog, second_pass: &SecondPass, kind: ProductKind) -> Vec<ModelChoice> {
    let priced = PRICES.iter().filter(|price| price.kind == kind);
    let served = priced.filter_map(|price| Some((price, catalog.choose(price.model).ok()?)));
    let models = served.map(|(price, choice)| {
        let is_live = |code: &&&str| second_pass.check_language(catalog, price.model, code).is_ok();
        let of_live = REALTIME.iter().filter(is_live).map(|code| (*code).to_owned());
        let codes: Vec<String> = match kind {
            ProductKind::Realtime => of_live.collect(),
            _ => choice.languages.to_vec(),
        };
        let mut languages: Vec<(String, String)> =
            codes.into_iter().map(|code| (code.clone(), language(&code))).collect();
        languages.sort_by(|a, b| a.1.cmp(&b.1));
        ModelChoice { id: price.model, default: price.default, languages }
    });
    models.collect()
}

/// The form that transcribes files, which three pages have.
pub struct UploadForm {
    /// Models and languages, as JSON.
    pub models: String,
    pub model_ids: Vec<ModelChoice>,
    pub has_speakers: bool,
    /// Options by the names of presets, as JSON.
    pub presets: String,
    pub preset_names: Vec<String>,
    /// The API's URL, for the code.
    pub api: String,
}

impl UploadForm {
    /// # Errors
    /// If it cannot be written.
    pub async fn new(state: &DashboardState, account: &AccountId) -> Result<Self> {
        let presets = state.store.presets(account).await?;
        let parsed = presets.iter().map(|(name, options)| Ok((name, serde_json::from_str::<Value>(options)?)));
        let parsed: serde_json::Result<Vec<_>> = parsed.collect();
        let parsed = parsed.map_err(|error| ApiError::internal(&error))?;
        let models = models(&state.catalog, &state.second_pass, ProductKind::Prerecorded);
        Ok(Self {
            models: json(&models)?,
            model_ids: models,
            presets: json(&parsed)?,
            preset_names: presets.into_iter().map(|(name, _)| name).collect(),
            has_speakers: state.catalog.diarizer().is_some(),
            api: api(state),
        })
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| ApiError::internal(&error))
}

#[derive(Template)]
#[template(path = "playground_file.html")]
struct FilePage {
    frame: Frame,
    tab: &'static str,
    form: UploadForm,
}

#[derive(Template)]
#[template(path = "playground_live.html")]
struct LivePage {
    frame: Frame,
    tab: &'static str,
    models: String,
    model_ids: Vec<ModelChoice>,
    api: String,
}

#[derive(Template)]
#[template(path = "playground_agent.html")]
struct AgentPage {
    frame: Frame,
    tab: &'static str,
    /// Ids of voices.
    voices: Vec<String>,
    tools: &'static str,
    result: &'static str,
    api: String,
}

/// The tools that the page begins with, and what they answer.
const TOOLS: &str = r#"[
  {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a place now.",
    "parameters": {
      "type": "object",
      "properties": { "place": { "type": "string" } },
      "required": ["place"]
    }
  }
]"#;
const RESULT: &str = r#"{ "sky": "sunny", "celsius": 21 }"#;

fn api(state: &DashboardState) -> String {
    state.api_url.as_str().trim_end_matches('/').to_owned()
}

/// `GET /playground`
pub async fn file(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Playground, EN.playground).await?;
    let form = UploadForm::new(&state, &request.account()?.id).await?;
    page(&FilePage { frame, tab: "file", form })
}

/// `GET /playground/live`
pub async fn live(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Playground, EN.playground_live).await?;
    let models = models(&state.catalog, &state.second_pass, ProductKind::Realtime);
    page(&LivePage { frame, tab: "live", models: json(&models)?, model_ids: models, api: api(&state) })
}

/// `GET /playground/agent`
pub async fn agent(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Playground, EN.playground_agent).await?;
    let voices = |engine: &Engine| engine.voices(&SpeakOptions::default()).ok();
    // A session says what to do about a voice that is missing.
    let voices = state.engine.as_ref().and_then(voices).unwrap_or_default();
    let voices = voices.into_iter().map(|voice| voice.id).collect();
    page(&AgentPage { frame, tab: "agent", voices, tools: TOOLS, result: RESULT, api: api(&state) })
}
