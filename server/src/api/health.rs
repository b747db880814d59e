//! Health checks, metrics and the OpenAPI document.

use std::sync::Arc;

use hyper::StatusCode;
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;

use crate::context::RequestContext;
use crate::http::response::{Response, Result, json, json_text, text};
use crate::store::Store;

/// The state of these routes.
pub struct HealthState {
    pub store: Store,
    pub metrics: PrometheusHandle,
    /// The OpenAPI document, as JSON.
    pub openapi: String,
}

/// `GET /health/live`
pub async fn live(_: RequestContext) -> Result<Response> {
    Ok(json(&json!({ "status": "ok" })))
}

/// `GET /health/ready`: the database answers. Models are loaded before the service listens.
pub async fn ready(state: Arc<HealthState>, _: RequestContext) -> Result<Response> {
    match state.store.ping().await {
        Ok(()) => Ok(json(&json!({ "status": "ok" }))),
        Err(error) => {
            let mut response = json(&json!({ "status": "unavailable", "reason": format!("the database: {error}") }));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            Ok(response)
        }
    }
}

/// `GET /metrics`
pub async fn metrics(state: Arc<HealthState>, _: RequestContext) -> Result<Response> {
    if let Ok((queued, processing)) = state.store.queue_depth().await {
        metrics::gauge!("auricle_jobs", "status" => "queued").set(queued as f64);
        metrics::gauge!("auricle_jobs", "status" => "processing").set(processing as f64);
    }
    Ok(text("text/plain; version=0.0.4; charset=utf-8", state.metrics.render()))
}

/// `GET /openapi.json`
pub async fn openapi(state: Arc<HealthState>, _: RequestContext) -> Result<Response> {
    Ok(json_text(state.openapi.clone()))
}
