//! What watches over the service asks: health, figures, the API's own document.

use hyper::StatusCode;
use serde_json::json;

use crate::http::RequestContext;
use crate::http::response::{Response, Result, json, json_text, typed};
use crate::openapi;

/// `GET /health/live`
pub async fn live(_: RequestContext) -> Result<Response> {
    Ok(json(&json!({ "status": "ok" })))
}

/// `GET /health/ready`: the store answers. (Models are loaded before the service listens.)
pub async fn ready(call: RequestContext) -> Result<Response> {
    match call.app.store.ping().await {
        Ok(()) => Ok(json(&json!({ "status": "ok" }))),
        Err(error) => {
            let mut reply = json(&json!({ "status": "unavailable", "reason": format!("the database: {error}") }));
            *reply.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            Ok(reply)
        }
    }
}

/// `GET /metrics`
pub async fn metrics(call: RequestContext) -> Result<Response> {
    if let Ok((queued, processing)) = call.app.store.queue_depth().await {
        metrics::gauge!("auricle_jobs", "status" => "queued").set(queued as f64);
        metrics::gauge!("auricle_jobs", "status" => "processing").set(processing as f64);
    }
    let open = call.app.config.max_connections.saturating_sub(call.app.connections.available_permits());
    metrics::gauge!("auricle_connections").set(open as f64);
    Ok(typed("text/plain; version=0.0.4; charset=utf-8", call.app.figures.render()))
}

/// `GET /openapi.json`
pub async fn openapi(call: RequestContext) -> Result<Response> {
    Ok(json_text(openapi::document(&call.app.public_url).to_string()))
}
