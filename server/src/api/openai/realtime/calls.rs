//! `/v1/realtime/calls`: sessions over WebRTC. The data channel has the events of the WebSocket, and tracks have the audio.

use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION,
};
use serde_json::Value;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::frames::Fault;
use super::{Asked, NO_ROOM, Room, asked, payer_of, serve};
use crate::api::form;
use crate::auth::require_credit;
use crate::auth::session_token::Payer;
use crate::context::RequestContext;
use crate::http::body::{self, MAX_JSON_BYTES};
use crate::http::rate_limits::Client;
use crate::http::response::{ApiError, Response, Result, no_content, text};
use crate::live::call::peer::{Peer, Refusal};
use crate::live::socket::Socket;
use crate::live::{AgentState, LiveState};

pub const PATH: &str = "/v1/realtime/calls";

/// The longest offer, in bytes. Those of browsers have some thousands.
const MAX_OFFER_BYTES: usize = 64 << 10;

/// `POST /v1/realtime/calls`: answers an offer, and runs the session once the client is connected.
pub async fn create(state: Arc<AgentState>, request: RequestContext) -> Result<Response> {
    let live = &state.live;
    let Client::Address(client) = *request.address() else {
        return Err(ApiError::internal(&"a client has no address"));
    };
    let (by_query, payer) = (asked(&request)?, payer_of(&request, "")?);
    let of_secret = request.secret_claims().map(Asked::of_claims).transpose()?;
    let headers = request.headers().clone();
    let body = body::read(request.into_request(), MAX_JSON_BYTES).await?;
    let (offer, session) = read(&headers, body).await?;
    let asked = match (session, of_secret, by_query) {
        (Some(session), Some(asked), _) => asked.updated(session, live)?,
        (Some(session), None, _) => Asked::of_session(session, live)?,
        (None, _, Ok((_, asked))) => asked,
        (None, _, Err(fault)) => return Err(ApiError::invalid(fault.message())),
    };
    if !asked.is_for_call() {
        return Err(ApiError::invalid(Fault::format_of_call().message()));
    }
    let payer = Payer { model: asked.price_model().into(), ..payer };
    require_credit(live.store.allowance(&payer.account).await?, 0, live.billing_provider)?;
    let room = Room::take(live, &payer).ok_or_else(|| ApiError::busy(NO_ROOM))?;
    let (peer, answer) = Peer::answer(&live.call_settings, client, &offer).await.map_err(|refusal| match refusal {
        Refusal::Offer(message) => ApiError::invalid(message),
        Refusal::Port(error) => ApiError::internal(&format!("no port for a call: {error}")),
    })?;
    let call = live.calls.add(payer.account.clone());
    let location = format!("{PATH}/{}", call.id);
    let tracker = live.connections.clone();
    let held = async move {
        let (socket, end) = Socket::of_call();
        let (ready, is_ready) = oneshot::channel();
        let peer = tokio::spawn(peer.run(end, ready, call.hung_up.clone()).in_current_span());
        let stopping = state.live.stopping.clone();
        tokio::select! {
            // Without a connection in time the place is free again.
            ready = is_ready => if ready.is_ok() {
                serve(&state, socket, payer, asked, room).await;
            },
            () = stopping.cancelled() => call.hung_up.cancel(),
        }
        if let Err(panic) = peer.await {
            tracing::error!(%panic, "the connection of a call failed");
        }
        drop(call);
    };
    tracker.spawn(held.in_current_span());
    let mut response = text("application/sdp", answer);
    *response.status_mut() = StatusCode::CREATED;
    let location = HeaderValue::try_from(location).map_err(|error| ApiError::internal(&error))?;
    response.headers_mut().insert(LOCATION, location);
    response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("location"));
    Ok(response)
}

/// The offer of a body, and the `session` that it asks for.
async fn read(headers: &HeaderMap, body: Bytes) -> Result<(String, Option<Value>)> {
    let essence = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (offer, session) = if form::is_form(headers) {
        let (mut offer, mut session) = (None, None);
        for (name, value) in form::read_fields(headers, body).await? {
            match name.as_str() {
                "sdp" => offer = Some(value),
                "session" => session = Some(value),
                _ => {}
            }
        }
        let missing = || ApiError::invalid("`sdp` is missing: the offer of the peer connection.");
        (offer.ok_or_else(missing)?, session)
    } else if essence.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/sdp") {
        let offer = String::from_utf8(body.into());
        (offer.map_err(|_| ApiError::invalid("The offer is not UTF-8."))?, None)
    } else {
        let message = "Send the offer as application/sdp, or a form with `sdp` and `session`.";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    };
    if offer.len() > MAX_OFFER_BYTES {
        return Err(ApiError::invalid(format!("The offer has more than {} KiB.", MAX_OFFER_BYTES >> 10)));
    }
    let session = session.map(|session| serde_json::from_str(&session)).transpose();
    Ok((offer, session.map_err(|error| ApiError::invalid(format!("`session` is not JSON: {error}.")))?))
}

/// `POST /v1/realtime/calls/{call_id}/hangup`
pub async fn hang_up(state: Arc<LiveState>, request: RequestContext) -> Result<Response> {
    let id = request.param("call_id");
    match state.calls.hang_up(&request.account()?.id, &id) {
        true => Ok(no_content()),
        false => Err(ApiError::not_found(format!("There is no call {id:?} on this node, or it has ended."))),
    }
}

/// `OPTIONS /v1/realtime/calls`: the CORS preflight of a browser. Pages call with a client secret, which no browser sends by itself.
pub async fn preflight(_: RequestContext) -> Result<Response> {
    let mut response = no_content();
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST"));
    // The star is every name but that of credentials.
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*, authorization"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    Ok(response)
}
