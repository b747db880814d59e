//! `/v3/token` and `/v3/ws`: live sessions.
//!
//! `session` passes audio to the engine, and its results to the client as `frames` has them. `settings` are those of the query, which the client may
//! change; `pauses` finds the ends of turns.

mod frames;
mod pauses;
mod session;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::json;

use self::frames::{ServerFrame, code};
use self::session::Session;
use self::settings::Settings;
use crate::auth::require_credit;
use crate::auth::session_token::{Claims as _, Payer, StreamClaims};
use crate::clock;
use crate::context::RequestContext;
use crate::http::body::Fields;
use crate::http::response::{ApiError, Response, Result, json as json_response};
use crate::live::LiveState;
use crate::live::metered::{self, Refusal};
use crate::live::socket::{MessageLimits, ServerMessage, Socket};
use crate::live::upgrade::{Query, upgrade};

/// Lifetimes of a token, s.
const TOKEN_LIFETIMES_S: std::ops::RangeInclusive<i64> = 1..=600;
/// Longest durations of a session that a token may name, s.
const SESSIONS_S: std::ops::RangeInclusive<i64> = 60..=10_800;

/// `GET /v3/token`
pub async fn create_token(state: Arc<LiveState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?;
    let expires_in = request
        .query_integer("expires_in_seconds", TOKEN_LIFETIMES_S)?
        .ok_or_else(|| ApiError::invalid("`expires_in_seconds` is missing: 1 to 600."))?;
    let longest = request.query_integer("max_session_duration_seconds", SESSIONS_S)?;
    require_credit(state.store.allowance(&account.id).await?, 0, state.billing_provider)?;
    let claims = StreamClaims {
        payer: Payer {
            account: account.id.clone(),
            key: account.key.clone().ok_or_else(|| ApiError::unauthorized("This needs an API key."))?,
            estimated_cents: 0,
            model: String::new(),
        },
        max_session_duration_sec: longest.and_then(|seconds| u32::try_from(seconds).ok()),
        expires_at: clock::now_ms() + expires_in * 1000,
    };
    Ok(json_response(&json!({ "token": claims.sign(&state.signing_key), "expires_in_seconds": expires_in })))
}

/// `GET /v3/ws`: upgrades the connection. Errors of the session are reported on the WebSocket.
pub async fn connect(state: Arc<LiveState>, mut request: RequestContext) -> Result<Response> {
    let claims = request.stream_claims();
    let connections = state.connections.clone();
    upgrade(request.into_request(), &connections, MessageLimits::SHORT, |socket, query| async move {
        open(&state, socket, claims, query).await;
    })
}

/// Opens a session and runs it, or reports the reason for the refusal.
async fn open(state: &Arc<LiveState>, socket: Socket, claims: Result<StreamClaims>, query: Query) {
    let mut fields = Fields::of_form(query.into_iter().map(|(name, value)| (name, python_flag(value))));
    fields.take("token");
    let (claims, settings) = match (claims, Settings::of_query(&mut fields, state)) {
        (Ok(claims), Ok(settings)) => (claims, settings),
        (Err(error), _) if error.status == 401 => return refuse(socket, code::NOT_AUTHORIZED, &error.message).await,
        (Err(error), _) => return refuse(socket, code::SERVER, &error.message).await,
        (_, Err(error)) => return refuse(socket, code::INPUT, &error.message).await,
    };
    let Some(place) = state.places.try_take(&claims.payer.account) else {
        return refuse(socket, code::TOO_MANY, "There is no room for another session now. Try again later.").await;
    };
    let (Some(engine), false) = (state.engine.clone(), state.stopping.is_cancelled()) else {
        return refuse(socket, code::UNAVAILABLE, "The service takes no sessions now. Try again later.").await;
    };
    let payer = Payer { model: settings.model.into(), ..claims.payer };
    let longest = claims.max_session_duration_sec.map(|seconds| Duration::from_secs(seconds.into()));
    let longest = longest.unwrap_or(Duration::MAX).min(state.settings.max_duration);
    let live = state.clone();
    metered::run(state, socket, &payer, refusal, move |socket, id| {
        Session::new(live, engine, settings, longest).run(socket, id).boxed()
    })
    .await;
    drop(place);
}

/// `True` and `False`, as Python writes them in a query.
fn python_flag(value: String) -> String {
    if matches!(value.as_str(), "True" | "False") { value.to_lowercase() } else { value }
}

/// Sends the reason for a refusal and closes the connection.
async fn refuse(socket: Socket, code: u16, error: &str) {
    socket.send(ServerMessage::Text(ServerFrame::Error { error_code: code, error }.to_json())).await;
    socket.close(code, code::reason(code)).await;
}

/// The frame of a session that does not start or is ended by the service.
fn refusal(refusal: &Refusal) -> String {
    let (error_code, error) = match refusal {
        Refusal::Revoked => (code::NOT_AUTHORIZED, "The API key of this session was revoked."),
        Refusal::NoCredit(message) => (code::NO_CREDIT, message.as_str()),
        Refusal::NotRecorded => (code::SERVER, "The session could not be started. Try again."),
    };
    ServerFrame::Error { error_code, error }.to_json()
}
