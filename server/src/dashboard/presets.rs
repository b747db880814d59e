//! Presets: options of the upload form that an account keeps under a name.

use std::sync::Arc;

use serde_json::{Value, json};

use super::DashboardState;
use super::frame::private;
use crate::context::RequestContext;
use crate::http::body::{self, Fields};
use crate::http::response::{self, ApiError, Response, Result};
use crate::visible;

/// The longest name, in characters.
const MAX_NAME_CHARS: usize = 40;

/// The largest options, in bytes of JSON.
const MAX_OPTIONS_BYTES: usize = 16 << 10;

async fn fields(request: RequestContext) -> Result<Fields> {
    let headers = request.headers().clone();
    let bytes = body::read(request.into_request(), body::MAX_JSON_BYTES).await?;
    Fields::parse(&headers, &bytes)
}

/// `POST /data/presets`: keeps options under a name.
pub async fn keep(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let mut fields = fields(request).await?;
    let name = fields.required_string("name", 1..=200)?.split_whitespace().collect::<Vec<_>>().join(" ");
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
        return Err(ApiError::validation(format!("`name` must have 1 to {MAX_NAME_CHARS} characters.")));
    }
    visible::check(&name).map_err(|reason| ApiError::validation(format!("`name` {reason}.")))?;
    let options = match fields.take("options") {
        Some(Value::Object(options)) => Value::Object(options).to_string(),
        _ => return Err(ApiError::validation("`options` must be an object.")),
    };
    if options.len() > MAX_OPTIONS_BYTES {
        return Err(ApiError::validation(format!("`options` may have {MAX_OPTIONS_BYTES} bytes.")));
    }
    if !state.store.keep_preset(&account, &name, &options).await? {
        return Err(ApiError::validation("The account has 50 presets already; delete one."));
    }
    Ok(private(response::json(&json!({ "name": name }))))
}

/// `POST /data/presets/delete`
pub async fn delete(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let name = fields(request).await?.required_string("name", 1..=200)?;
    if name.contains('\0') || !state.store.delete_preset(&account, &name).await? {
        return Err(ApiError::not_found("There is no such preset."));
    }
    Ok(private(response::json(&json!({ "name": name }))))
}
