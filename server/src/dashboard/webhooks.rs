//! Webhooks: what was sent, what each attempt came to, sending one again, and the secret that signs them, which is shown once.

use std::sync::Arc;

use askama::Template;

use super::DashboardState;
use super::form::Form;
use super::frame::{Frame, Section, page, private};
use super::shown::Time;
use super::words::EN;
use crate::clock;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, see_other};
use crate::ids::DeliveryId;
use crate::store::{ListedWebhook, WebhookSecret, WebhookState};
use crate::webhook_outbox::body_of;

/// Webhooks of a page.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "webhooks.html")]
struct ListPage {
    frame: Frame,
    rows: Vec<Row>,
    /// The address of the next page.
    older: Option<String>,
    is_first: bool,
    /// The secret that was just created.
    new_secret: Option<String>,
    secret: Option<Secret>,
}

/// The secret that signs webhooks.
struct Secret {
    ending: String,
    created: Time,
    /// The secret before it signs, too, until then.
    previous: Option<Time>,
}

impl From<WebhookSecret> for Secret {
    fn from(secret: WebhookSecret) -> Self {
        let previous = secret.previous.map(|(_, until)| until).filter(|until| clock::now_ms() < *until);
        Self { ending: secret.ending, created: Time::new(secret.created_at), previous: previous.map(Time::new) }
    }
}

#[derive(Template)]
#[template(path = "webhook.html")]
struct WebhookPage {
    frame: Frame,
    row: Row,
    attempts: Vec<Attempt>,
    /// What is sent.
    body: String,
}

struct Row {
    id: String,
    transcript: String,
    event: String,
    url: String,
    /// The class of the badge, and its text.
    state: &'static str,
    state_name: &'static str,
    attempts: i64,
    created: Time,
    /// The next attempt.
    due: Option<Time>,
    is_running: bool,
}

struct Attempt {
    number: i64,
    began: Time,
    took_ms: i64,
    status: Option<u16>,
    is_success: bool,
    answer: String,
    error: String,
}

fn row(webhook: ListedWebhook) -> Row {
    let (state, state_name) = match webhook.state {
        WebhookState::Pending => ("queued", EN.webhook_pending),
        WebhookState::Delivered => ("completed", EN.webhook_delivered),
        WebhookState::Failed => ("error", EN.webhook_failed),
    };
    let waits = webhook.state == WebhookState::Pending && !webhook.is_running;
    Row {
        id: webhook.id.to_string(),
        transcript: webhook.transcript_id,
        event: webhook.event,
        url: webhook.url,
        state,
        state_name,
        attempts: webhook.attempts,
        created: Time::new(webhook.created_at),
        due: waits.then(|| Time::new(webhook.due_at)),
        is_running: webhook.is_running,
    }
}

/// `GET /webhooks`
pub async fn list(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    page(&list_page(&state, &request).await?)
}

async fn list_page(state: &DashboardState, request: &RequestContext) -> Result<ListPage> {
    let frame = Frame::new(state, request, Section::Webhooks, EN.webhooks).await?;
    let account = &request.account()?.id;
    let after = request.query("after").unwrap_or_default().replace('\0', "");
    let mut found = state.store.list_webhooks(account, &after, PAGE as i64 + 1).await?;
    let has_older = found.len() > PAGE;
    found.truncate(PAGE);
    let older = found.last().filter(|_| has_older).map(|last| format!("/webhooks?after={}", last.id));
    Ok(ListPage {
        frame,
        rows: found.into_iter().map(row).collect(),
        older,
        is_first: after.is_empty(),
        new_secret: None,
        secret: state.store.webhook_secret(account).await?.map(Secret::from),
    })
}

/// `POST /webhooks/secret`
pub async fn rotate_secret(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let list = list_page(&state, &request).await?;
    let account = request.account()?.id.clone();
    Form::read(request).await?;
    let rotated = state.webhook_secrets.rotate(&account).await;
    let (secret, stored) = rotated.map_err(|error| ApiError::internal(&error))?;
    page(&ListPage { new_secret: Some(secret), secret: Some(stored.into()), ..list })
}

/// `POST /webhooks/secret/remove`
pub async fn remove_secret(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    Form::read(request).await?;
    // Without a secret there is nothing to do.
    state.store.delete_webhook_secret(&account).await?;
    Ok(private(see_other("/webhooks")))
}

fn unknown() -> ApiError {
    ApiError::not_found(EN.webhook_gone)
}

/// `GET /webhooks/{delivery_id}`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Webhooks, EN.webhook).await?;
    let id = DeliveryId::from(request.param("delivery_id"));
    let webhook = state.store.webhook(&request.account()?.id, &id).await?.ok_or_else(unknown)?;
    let attempts = state.store.webhook_attempts(&id).await?.into_iter().map(|attempt| Attempt {
        number: attempt.number,
        began: Time::new(attempt.began_at),
        took_ms: attempt.took_ms,
        status: attempt.status,
        is_success: attempt.status.is_some_and(|status| (200..300).contains(&status)),
        answer: attempt.answer,
        error: attempt.error.unwrap_or_default(),
    });
    let body = body_of(&webhook.event, &webhook.transcript_id);
    page(&WebhookPage { frame, row: row(webhook), attempts: attempts.collect(), body })
}

/// `POST /webhooks/{delivery_id}/send`
pub async fn send(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let (account, id) = (request.account()?.id.clone(), DeliveryId::from(request.param("delivery_id")));
    Form::read(request).await?;
    if state.store.webhook(&account, &id).await?.is_none() {
        return Err(unknown());
    }
    // One that is being sent needs nothing.
    if state.store.send_webhook_again(&account, &id).await? {
        state.notifiers.webhooks.notify_one();
    }
    Ok(private(see_other(&format!("/webhooks/{id}"))))
}
