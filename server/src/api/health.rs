//! Health checks, metrics and the OpenAPI document.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;
use tokio::sync::Mutex;

use crate::context::RequestContext;
use crate::http::response::{Response, Result, json, json_text, text};
use crate::openapi::ASYNCAPI;
use crate::store::Store;

/// The time for which a check of the database is valid: anybody may ask, and a check may write.
const CHECK_VALID: Duration = Duration::from_secs(1);

/// The state of these routes.
pub struct HealthState {
    pub store: Store,
    /// The time of the last check of the database, and its fault.
    pub last_check: Mutex<Option<(Instant, Option<String>)>>,
    pub metrics: PrometheusHandle,
    /// The OpenAPI document, as JSON.
    pub openapi: String,
}

/// `GET /health/live`
pub async fn live(_: RequestContext) -> Result<Response> {
    Ok(json(&json!({ "status": "ok" })))
}

/// `GET /health/ready`: the database answers and takes writes. Models are loaded before the service listens.
pub async fn ready(state: Arc<HealthState>, _: RequestContext) -> Result<Response> {
    let mut last_check = state.last_check.lock().await;
    let fault = match &*last_check {
        Some((at, fault)) if at.elapsed() < CHECK_VALID => fault.clone(),
        _ => {
            let fault = state.store.ping().await.err().map(|error| error.to_string());
            *last_check = Some((Instant::now(), fault.clone()));
            fault
        }
    };
    match fault {
        None => Ok(json(&json!({ "status": "ok" }))),
        Some(fault) => {
            let mut response = json(&json!({ "status": "unavailable", "reason": format!("the database: {fault}") }));
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

/// `GET /asyncapi.json`
pub async fn asyncapi(_: Arc<HealthState>, _: RequestContext) -> Result<Response> {
    Ok(json_text(ASYNCAPI.to_owned()))
}

/// `GET /openapi.json`
pub async fn openapi(state: Arc<HealthState>, _: RequestContext) -> Result<Response> {
    Ok(json_text(state.openapi.clone()))
}
