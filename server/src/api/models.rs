//! `/v2/models` and `/v2/pricing`: the price list with the languages of each model.

use std::sync::Arc;

use auricle_engine::Catalog;
use serde::Serialize;
use serde_json::json;

use super::language::EXTRACTIVE;
use crate::billing::{PRICES, ProductKind};
use crate::context::RequestContext;
use crate::http::response::{Response, Result, json};
use crate::language::LanguageModels;

/// The state of this resource.
pub struct ModelsState {
    pub catalog: Arc<Catalog>,
    pub language: LanguageModels,
}

#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    kind: ProductKind,
    unit_type: &'static str,
    rate_usd: f64,
    default: bool,
    /// Languages of the checkpoint that serves the model; empty without a checkpoint.
    languages: &'a [String],
}

/// `GET /v2/models`, `GET /v2/pricing`
pub async fn list(state: Arc<ModelsState>, _: RequestContext) -> Result<Response> {
    let priced = PRICES.iter().map(|price| Model {
        id: price.model,
        object: "model",
        kind: price.kind,
        unit_type: price.unit_type,
        rate_usd: price.rate_usd(),
        default: price.default,
        languages: state.catalog.choose(price.model).map_or(&[], |choice| choice.languages),
    });
    // Language models are not metered. Quoting answers without one.
    let language = state.language.ids().chain([EXTRACTIVE]).enumerate().map(|(at, id)| Model {
        id,
        object: "model",
        kind: ProductKind::Language,
        unit_type: "request",
        rate_usd: 0.0,
        default: at == 0,
        languages: &[],
    });
    let models: Vec<Model<'_>> = priced.chain(language).collect();
    Ok(json(&json!({ "object": "list", "data": models })))
}
