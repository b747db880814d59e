//! The playground: a file and a live session, with the code for each.

use std::sync::Arc;

use askama::Template;
use auricle_engine::Catalog;
use serde::Serialize;

use super::DashboardState;
use super::frame::{Frame, Section, page};
use super::shown::language;
use super::words::EN;
use crate::billing::{PRICES, ProductKind};
use crate::context::RequestContext;
use crate::http::response::Result;
use crate::http::response::{ApiError, Response};
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
fn models(catalog: &Catalog, kind: ProductKind) -> Vec<ModelChoice> {
    let priced = PRICES.iter().filter(|price| price.kind == kind);
    let served = priced.filter_map(|price| Some((price, catalog.choose(price.model).ok()?)));
    let models = served.map(|(price, choice)| {
        let of_live = REALTIME.iter().filter(|code| choice.check_language(code).is_ok()).map(|code| (*code).to_owned());
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

/// The form that transcribes files, which two pages have.
pub struct UploadForm {
    /// Models and languages, as JSON.
    pub models: String,
    pub model_ids: Vec<ModelChoice>,
    pub has_speakers: bool,
    /// The API's URL, for the code.
    pub api: String,
}

impl UploadForm {
    /// # Errors
    /// If it cannot be written.
    pub fn new(state: &DashboardState) -> Result<Self> {
        let models = models(&state.catalog, ProductKind::Prerecorded);
        Ok(Self {
            models: json(&models)?,
            model_ids: models,
            has_speakers: state.catalog.diarizer().is_some(),
            api: state.api_url.as_str().trim_end_matches('/').to_owned(),
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
    form: UploadForm,
}

#[derive(Template)]
#[template(path = "playground_live.html")]
struct LivePage {
    frame: Frame,
    models: String,
    model_ids: Vec<ModelChoice>,
    api: String,
}

/// `GET /playground`
pub async fn file(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Playground, EN.playground).await?;
    page(&FilePage { frame, form: UploadForm::new(&state)? })
}

/// `GET /playground/live`
pub async fn live(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Playground, EN.playground_live).await?;
    let models = models(&state.catalog, ProductKind::Realtime);
    let api = state.api_url.as_str().trim_end_matches('/').to_owned();
    page(&LivePage { frame, models: json(&models)?, model_ids: models, api })
}
