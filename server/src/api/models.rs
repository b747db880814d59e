//! `/v2/models` and `/v2/pricing`: the price list, with the languages that each model has here.

use serde::Serialize;
use serde_json::json;

use crate::billing::{Kind, PRICES};
use crate::http::RequestContext;
use crate::http::response::{Response, Result, json};

#[derive(Serialize)]
struct Model<'a> {
    id: &'static str,
    object: &'static str,
    kind: Kind,
    unit_type: &'static str,
    rate_usd: f64,
    default: bool,
    /// Codes of the checkpoint that serves it here; empty where none does.
    languages: &'a [String],
}

/// `GET /v2/models`, `GET /v2/pricing`
pub async fn list(call: RequestContext) -> Result<Response> {
    let models: Vec<Model<'_>> = PRICES
        .iter()
        .map(|price| Model {
            id: price.model,
            object: "model",
            kind: price.kind,
            unit_type: price.unit_type,
            rate_usd: price.rate_usd(),
            default: price.default,
            languages: call.app.catalog.choose(price.model).map_or(&[], |choice| choice.languages),
        })
        .collect();
    Ok(json(&json!({ "object": "list", "data": models })))
}
