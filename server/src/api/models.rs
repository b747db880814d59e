//! `/v2/models` and `/v2/pricing`: the price list with the languages of each model.

use std::sync::Arc;

use auricle_engine::{Catalog, SecondPass};
use serde::Serialize;
use serde_json::json;

use super::language::EXTRACTIVE;
use crate::billing::{PRICES, Price, ProductKind};
use crate::context::RequestContext;
use crate::http::response::{Response, Result, json};
use crate::language::LanguageModels;
use crate::languages::REALTIME;

/// The state of this resource.
pub struct ModelsState {
    pub catalog: Arc<Catalog>,
    pub second_pass: SecondPass,
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
    /// Languages of the checkpoint that serves the model, and of a live model's second pass; empty without a checkpoint.
    languages: Vec<String>,
}

/// The languages of a model.
fn languages(state: &ModelsState, price: &Price) -> Vec<String> {
    let Ok(choice) = state.catalog.choose(price.model) else { return Vec::new() };
    match price.kind {
        ProductKind::Realtime => {
            let all = state.second_pass.languages(&state.catalog, price.model).unwrap_or_default();
            let is_live = |code: &String| choice.languages.contains(code) || REALTIME.contains(&code.as_str());
            all.into_iter().filter(is_live).collect()
        }
        _ => choice.languages.to_vec(),
    }
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
        languages: languages(&state, price),
    });
    // Language models are not metered. Quoting answers without one.
    let language = state.language.ids().chain([EXTRACTIVE]).enumerate().map(|(at, id)| Model {
        id,
        object: "model",
        kind: ProductKind::Language,
        unit_type: "request",
        rate_usd: 0.0,
        default: at == 0,
        languages: Vec::new(),
    });
    let models: Vec<Model<'_>> = priced.chain(language).collect();
    Ok(json(&json!({ "object": "list", "data": models })))
}
