//! Takes over the connection of a request for a WebSocket.

use std::collections::HashMap;
use std::future::Future;

use data_encoding::BASE64;
use fastwebsockets::{Role, WebSocket};
use hyper::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use sha1::{Digest as _, Sha1};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::socket::{MessageLimits, Socket};
use crate::http::admission::Place;
use crate::http::request_body::RequestBody;
use crate::http::response::{ApiError, Response, Result};
use crate::http::response_body::ResponseBody;

/// The parameters of a query, by name.
pub type Query = HashMap<String, String>;

/// The version of the protocol (RFC 6455).
const VERSION: &str = "13";

/// The identifier of the protocol, by which an answer shows that it is one to this handshake.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Upgrades a connection and serves it, tracked by `connections`.
///
/// # Errors
/// 426 for a request that asks for no WebSocket, 400 for a wrong handshake.
pub fn upgrade<F>(
    mut request: Request<RequestBody>,
    connections: &TaskTracker,
    limits: MessageLimits,
    serve: impl FnOnce(Socket, Query) -> F + Send + 'static,
) -> Result<Response>
where
    F: Future<Output = ()> + Send,
{
    let headers = request.headers();
    if !has_token(headers, CONNECTION, "upgrade") || !has_token(headers, UPGRADE, "websocket") {
        let message = "This is a WebSocket: connect to it with a WebSocket client.";
        let mut response = ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message).response();
        response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        return Ok(response);
    }
    let query =
        url::form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()).into_owned().collect();
    let wrong = |why: &str| ApiError::invalid(format!("The WebSocket handshake is wrong: {why}."));
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or_else(|| wrong("Sec-WebSocket-Key is missing"))?;
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != VERSION) {
        return Err(wrong("Sec-WebSocket-Version is not 13"));
    }
    let accept = BASE64.encode(&Sha1::new().chain_update(key).chain_update(GUID).finalize());
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    response
        .headers_mut()
        .insert(SEC_WEBSOCKET_ACCEPT, accept.parse().map_err(|_| wrong("Sec-WebSocket-Key is no key"))?);
    let upgraded = hyper::upgrade::on(&mut request);
    let place = request.extensions_mut().remove::<Place>();
    let served = async move {
        let _place = place;
        match upgraded.await {
            Ok(stream) => {
                let socket = WebSocket::after_handshake(TokioIo::new(stream), Role::Server);
                serve(Socket::new(socket, limits), query).await;
            }
            Err(error) => tracing::debug!(%error, "a WebSocket upgrade failed"),
        }
    };
    connections.spawn(served.in_current_span());
    Ok(response)
}

/// If one of a header's comma-separated values is this token.
fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(token))
}
