//! `/v2/webhooks/secret`: the secret that signs an account's webhooks. It is shown once.

use std::sync::Arc;

use serde::Serialize;

use crate::clock;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, json, no_content};
use crate::store::{Store, WebhookSecret};
use crate::webhook_secrets::WebhookSecrets;

/// The state of this resource.
pub struct WebhooksState {
    pub store: Store,
    pub secrets: Arc<WebhookSecrets>,
}

#[derive(Serialize)]
struct Body<'a> {
    object: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    last_characters: &'a str,
    created_at: String,
    /// The secret before it signs, too, until then.
    previous_valid_until: Option<String>,
}

impl<'a> Body<'a> {
    fn new(stored: &'a WebhookSecret, secret: Option<&'a str>) -> Self {
        let until = stored.previous.as_ref().map(|(_, until)| *until).filter(|until| clock::now_ms() < *until);
        Self {
            object: "webhook_secret",
            secret,
            last_characters: &stored.ending,
            created_at: clock::iso(stored.created_at),
            previous_valid_until: until.map(clock::iso),
        }
    }
}

fn none() -> ApiError {
    ApiError::not_found("There is no webhook secret: POST /v2/webhooks/secret makes one.")
}

/// `POST /v2/webhooks/secret`
pub async fn rotate_secret(state: Arc<WebhooksState>, request: RequestContext) -> Result<Response> {
    let rotated = state.secrets.rotate(&request.account()?.id).await;
    let (secret, stored) = rotated.map_err(|error| ApiError::internal(&error))?;
    Ok(json(&Body::new(&stored, Some(&secret))))
}

/// `GET /v2/webhooks/secret`
pub async fn get_secret(state: Arc<WebhooksState>, request: RequestContext) -> Result<Response> {
    let stored = state.store.webhook_secret(&request.account()?.id).await?.ok_or_else(none)?;
    Ok(json(&Body::new(&stored, None)))
}

/// `DELETE /v2/webhooks/secret`
pub async fn delete_secret(state: Arc<WebhooksState>, request: RequestContext) -> Result<Response> {
    match state.store.delete_webhook_secret(&request.account()?.id).await? {
        true => Ok(no_content()),
        false => Err(none()),
    }
}
