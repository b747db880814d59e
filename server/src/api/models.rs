//! `/v2/models` and `/v2/pricing`: the price list with the languages of each model.

use std::sync::Arc;

use auricle_engine::Catalog;
use serde::Serialize;
use serde_json::json;

use crate::billing::{PRICES, ProductKind};
use crate::context::RequestContext;
use crate::http::response::{Response, Result, json};

#[derive(Serialize)]
struct Model<'a> {
    id: &'static str,
    object: &'static str,
    kind: ProductKind,
    unit_type: &'static str,
    rate_usd: f64,
    default: bool,
    /// Languages of the checkpoint that serves the model; empty without a checkpoint.
    languages: &'a [String],
}

/// `GET /v2/models`, `GET /v2/pricing`
pub async fn list(catalog: Arc<Catalog>, _: RequestContext) -> Result<Response> {
    let models: Vec<Model<'_>> = PRICES
        .iter()
        .map(|price| Model {
            id: price.model,
            object: "model",
            kind: price.kind,
            unit_type: price.unit_type,
            rate_usd: price.rate_usd(),
            default: price.default,
            languages: catalog.choose(price.model).map_or(&[], |choice| choice.languages),
        })
        .collect();
    Ok(json(&json!({ "object": "list", "data": models })))
}
