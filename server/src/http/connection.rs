//! Serves one connection: HTTP/1.1 or HTTP/2, within the limits of its transfers.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, EXPECT, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, Expiry};
use super::admission::Place;
use super::control_frames::Guarded;
use super::request_body::{RequestBody, Rest, RestSlot};
use super::response::Response;
use super::transfer::TransferLimits;

/// The part of a refused body that is read: many clients read no response before they have sent all of the request, and
/// treat a connection that closes meanwhile as a failure.
const MAX_DISCARDED_BYTES: u64 = 64 << 20;

/// The longest time that a refused body is read.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(30);

/// A smaller body is read before the response is sent, so that the connection can be used again.
const SMALL_BODY_BYTES: u64 = 64 << 10;
const SMALL_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for the end of an idle connection, in which a last request may be answered.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers requests.
pub trait RequestHandler: Clone + Send + Sync + 'static {
    /// Answers one request from `peer`. The request's extensions hold its connection's [`Place`].
    fn handle(&self, peer: SocketAddr, request: Request<RequestBody>) -> impl Future<Output = Response> + Send;
}

/// Serves a connection until it ends or exceeds a limit; and when `stopping`, until its open requests are answered.
pub async fn serve<H, S>(
    handler: H,
    peer: SocketAddr,
    socket: S,
    place: Option<Place>,
    limits: TransferLimits,
    stopping: CancellationToken,
) where
    H: RequestHandler,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let activity = Activity::new(limits);
    let displaced = place.as_ref().map(Place::displaced).unwrap_or_default();
    let mut connection = pin!(connection(handler, peer, socket, place, limits, &activity));
    let mut stopped = false;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            expiry = activity.expired() => {
                tracing::debug!(%peer, ?expiry, "closing a connection");
                metrics::counter!("auricle_connections_expired_total").increment(1);
                if expiry != Expiry::Idle {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection).await;
                return;
            }
            () = displaced.cancelled() => {
                tracing::debug!(%peer, "closing a connection without a request, for another");
                return;
            }
            () = stopping.cancelled(), if !stopped => {
                stopped = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended early");
    }
}

/// The connection's protocol, as its first bytes tell.
fn connection<H, S>(
    handler: H,
    peer: SocketAddr,
    socket: S,
    place: Option<Place>,
    limits: TransferLimits,
    activity: &Arc<Activity>,
) -> impl GracefulConnection<Error = Box<dyn std::error::Error + Send + Sync>> + Send + use<H, S>
where
    H: RequestHandler,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let activity = activity.clone();
    let service = service_fn(move |request| {
        let (handler, place, open) = (handler.clone(), place.clone(), activity.request());
        if let Some(place) = &place {
            place.has_request();
        }
        async move {
            let response = answer(handler, peer, request, place, limits).await;
            Ok::<_, Infallible>(response.map(|body| open.respond(body)))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // A client that ends its side has left: what it asked for is not computed further.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.idle).max_buf_size(64 << 10);
    builder
        .http2()
        .timer(TokioTimer::new())
        // Finds peers that are gone. Pings do not count as activity.
        .keep_alive_interval(limits.idle)
        .max_concurrent_streams(256)
        .max_header_list_size(64 << 10);
    builder.serve_connection_with_upgrades(TokioIo::new(Guarded::new(socket)), service).into_owned()
}

/// Answers a request, and settles the rest of its body.
async fn answer<H: RequestHandler>(
    handler: H,
    peer: SocketAddr,
    request: Request<Incoming>,
    place: Option<Place>,
    limits: TransferLimits,
) -> Response {
    let has_streams = request.version() >= Version::HTTP_2;
    let expects_continue = request.headers().contains_key(EXPECT);
    let slot = RestSlot::default();
    let mut request = request.map(|body| RequestBody::new(body, limits, slot.clone()));
    if let Some(place) = place {
        request.extensions_mut().insert(place);
    }
    let mut response = handler.handle(peer, request).await;
    let rest = std::mem::take(&mut *slot.lock().unwrap_or_else(PoisonError::into_inner));
    let is_settled = match rest {
        Rest::Nothing => true,
        Rest::Abandoned => false,
        // The client waits for `100 Continue`, which it will not get.
        Rest::Body { begun: false, .. } if expects_continue => false,
        Rest::Body { body, .. } => discard(body).await,
    };
    // The next request would stand behind the rest of this one.
    if !is_settled && !has_streams {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Reads and drops the rest of a body within limits: a small one at once, another in the background. A body that is
/// declared larger than the limit is not read. True if the whole was read.
async fn discard(mut body: Incoming) -> bool {
    let size = body.size_hint();
    if size.lower() > MAX_DISCARDED_BYTES {
        return false;
    }
    let is_small = size.upper().is_some_and(|size| size <= SMALL_BODY_BYTES);
    let all = async move {
        let mut discarded = 0;
        while discarded < MAX_DISCARDED_BYTES {
            match body.frame().await {
                None => return true,
                Some(Ok(frame)) => discarded += frame.data_ref().map_or(0, Bytes::len) as u64,
                Some(Err(_)) => return false,
            }
        }
        false
    };
    if is_small {
        return tokio::time::timeout(SMALL_BODY_TIMEOUT, all).await.unwrap_or(false);
    }
    tokio::spawn(tokio::time::timeout(DISCARD_TIMEOUT, all));
    false
}
