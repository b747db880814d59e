//! Takes over the connection of a request for a WebSocket.

use std::collections::HashMap;
use std::future::Future;

use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::{Request, StatusCode};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::socket::{MessageLimits, Socket};
use crate::http::admission::Place;
use crate::http::request_body::RequestBody;
use crate::http::response::{ApiError, Response, Result};
use crate::http::response_body::ResponseBody;

/// The parameters of a query, by name.
pub type Query = HashMap<String, String>;

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
    if !fastwebsockets::upgrade::is_upgrade_request(&request) {
        let message = "This is a WebSocket: connect to it with a WebSocket client.";
        let mut response = ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message).response();
        response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        return Ok(response);
    }
    let query =
        url::form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()).into_owned().collect();
    let (response, upgraded) = fastwebsockets::upgrade::upgrade(&mut request)
        .map_err(|error| ApiError::invalid(format!("The WebSocket handshake is wrong: {error}.")))?;
    let (parts, _) = response.into_parts();
    let place = request.extensions_mut().remove::<Place>();
    let served = async move {
        let _place = place;
        match upgraded.await {
            Ok(socket) => serve(Socket::new(socket, limits), query).await,
            Err(error) => tracing::debug!(%error, "a WebSocket upgrade failed"),
        }
    };
    connections.spawn(served.in_current_span());
    Ok(Response::from_parts(parts, ResponseBody::default()))
}
