//! `/v2/voice-agent`: creates session tokens and opens sessions in which an agent hears, thinks, calls tools and speaks.
//!
//! `driver` is the agent: recognition (`audio_input`), the conversation, the language model (`llm`) and the voice (`voice`), whose `report`s it
//! gets. `session` leads it for a client of any protocol. The protocol of `/v2` is in `v2`, with its `frames` and `settings`; `opening` begins
//! its sessions. OpenAI's is in `api::openai::realtime::conversation`.

mod audio_input;
pub mod driver;
mod frames;
pub mod llm;
mod opening;
pub mod report;
pub mod session;
pub mod settings;
mod v2;
pub mod voice;

use std::sync::Arc;

use futures_util::FutureExt as _;
use hyper::StatusCode;
use serde_json::json;
use tokio::runtime::Handle;

use super::metered::{self, Refusal};
use super::socket::{MessageLimits, ServerMessage, Socket};
use super::upgrade::{Query, upgrade};
use super::{AgentState, LiveState};
use crate::auth::require_credit;
use crate::auth::session_token::{AgentClaims, Claims as _, Payer};
use crate::billing::{Price, ProductKind};
use crate::clock;
use crate::context::RequestContext;
use crate::http::body::{self, Fields, MAX_JSON_BYTES};
use crate::http::response::{ApiError, Response, Result, json};
use crate::store::Account;
pub use audio_input::recognizer;
use frames::ServerFrame;

/// The path of the WebSocket.
pub const PATH: &str = "/v2/voice-agent/ws";

/// The longest session, seconds, and the longest that may be asked for.
pub const CEILING_S: i64 = 3_300;
const LONGEST_ASKED_S: i64 = 10_800;

/// `POST /v2/voice-agent/token`
pub async fn create_token(state: Arc<AgentState>, request: RequestContext) -> Result<Response> {
    let live = &state.live;
    let account = request.account()?.clone();
    let headers = request.headers().clone();
    let body = body::read(request.into_request(), MAX_JSON_BYTES).await?;
    let mut fields = Fields::optional(&headers, &body)?;
    let model = fields.string("model")?;
    let model = model.unwrap_or_else(|| Price::default_of(ProductKind::Agent).model.into());
    let price = Price::of(&model, ProductKind::Agent).ok_or_else(|| {
        let message = format!("`model` must be svc-agent, not {model:?}.");
        ApiError::new(StatusCode::BAD_REQUEST, "unknown_model", message)
    })?;
    let claims = mint(live, account, price, &mut fields).await?;
    Ok(json(&json!({
        "token": claims.sign(&live.signing_key),
        "websocket_url": live.websocket_url(PATH).as_str(),
        "expires_at": clock::iso(claims.expires_at),
        "model": claims.payer.model,
        "max_session_duration_sec": claims.max_session_duration_sec,
    })))
}

/// The claims of a session with a model of this price. The request has their lifetime, the longest duration and the estimated one.
///
/// # Errors
/// 422 for a wrong duration, 402 if the credit does not cover the estimate.
pub async fn mint(live: &LiveState, account: Account, price: &Price, fields: &mut Fields) -> Result<AgentClaims> {
    let expires_in = fields.integer("expires_in", 60..=600)?.unwrap_or(300);
    let duration = fields.integer("max_session_duration_sec", 60..=LONGEST_ASKED_S)?.unwrap_or(CEILING_S);
    let estimated_duration_sec = fields.integer("estimated_duration_sec", 0..=i64::MAX)?;
    let ceiling = CEILING_S.min(i64::try_from(live.settings.max_duration.as_secs()).unwrap_or(CEILING_S));
    let duration = duration.min(ceiling);
    let allowance = live.store.allowance(&account.id).await?;
    let estimated_ms = estimated_duration_sec.unwrap_or_default().saturating_mul(1000);
    require_credit(allowance, price.cents(estimated_ms), live.billing_provider)?;
    Ok(AgentClaims {
        payer: Payer {
            account: account.id,
            key: account.key.ok_or_else(|| ApiError::unauthorized("This needs an API key."))?,
            estimated_cents: price.cents(estimated_ms.min(duration * 1000)),
            model: price.model.into(),
        },
        max_session_duration_sec: u32::try_from(duration).unwrap_or_default(),
        expires_at: clock::now_ms() + expires_in * 1000,
    })
}

/// `GET /v2/voice-agent/ws`: upgrades the connection. Errors of the session are reported on the WebSocket.
pub async fn connect(state: Arc<AgentState>, mut request: RequestContext) -> Result<Response> {
    let claims = request.agent_claims();
    let connections = state.live.connections.clone();
    upgrade(request.into_request(), &connections, MessageLimits::SHORT, |socket, query| async move {
        open(&state, socket, claims, &query).await;
    })
}

/// Opens a session and runs it, or tells the client the reason for the refusal. `claims` are those of a valid token.
async fn open(state: &Arc<AgentState>, socket: Socket, claims: Option<AgentClaims>, query: &Query) {
    let Some(claims) = claims else {
        return socket.close(4401, "The token is missing, expired, or not one of a voice agent.").await;
    };
    if query.get("model").is_some_and(|model| Price::of(model, ProductKind::Agent).is_none()) {
        return socket.close(4400, "The model is not a voice agent.").await;
    }
    let live = &state.live;
    let place = live.places.try_take(&claims.payer.account);
    let (Some(place), Some(engine), false) = (place, live.engine.clone(), live.stopping.is_cancelled()) else {
        return refuse(socket, "unavailable", "There is no room for another session now. Try again later.", 1013).await;
    };
    let payer = claims.payer.clone();
    let opening = driver::Opening { state: state.clone(), engine, claims, runtime: Handle::current() };
    metered::run(live, socket, &payer, refusal, move |socket, id| opening::run(opening, socket, id).boxed()).await;
    drop(place);
}

/// Sends the reason for a refusal and closes the connection.
async fn refuse(socket: Socket, code: &'static str, message: &'static str, close: u16) {
    socket.send(ServerMessage::Text(ServerFrame::Error { code, message }.to_json())).await;
    socket.close(close, message).await;
}

/// The frame of a session that does not start or is ended by the service.
fn refusal(refusal: &Refusal) -> String {
    let (code, message) = match refusal {
        Refusal::Revoked => ("unauthorized", "The API key of this session was revoked."),
        Refusal::NoCredit(message) => ("v2_billing_required", message.as_str()),
        Refusal::NotRecorded => ("unavailable", "The session could not be started. Try again."),
    };
    ServerFrame::Error { code, message }.to_json()
}
