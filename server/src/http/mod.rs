//! The listeners: connections in, requests through the routing table, responses out.

pub mod body;
pub mod rate_limits;
pub mod response;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::auth;
use crate::ids;
use crate::routes::{Access, Found, Router};
use crate::state::AppState;
use crate::store::Account;
use rate_limits::{Caller, Standing};
use response::{ApiError, Response};

/// A client that takes longer to send a request's head, or to ask the next thing, is let go.
const IDLE: Duration = Duration::from_secs(75);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A request on its way to a handler.
pub struct RequestContext {
    pub app: Arc<AppState>,
    /// Who asks; only where the route asks for a key.
    account: Option<Account>,
    params: Vec<(String, String)>,
    request: Request<Incoming>,
}

impl RequestContext {
    /// Who asks.
    ///
    /// # Errors
    /// 401 on routes that are open to all.
    pub fn account(&self) -> response::Result<&Account> {
        self.account.as_ref().ok_or_else(|| ApiError::unauthorized("This needs an API key."))
    }

    /// The part of the path that the route calls `name`.
    pub fn param(&self, name: &str) -> String {
        self.params.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()).unwrap_or_default()
    }

    pub fn headers(&self) -> &HeaderMap {
        self.request.headers()
    }

    /// The last value of a query parameter, unless it is empty.
    pub fn query(&self, name: &str) -> Option<String> {
        url::form_urlencoded::parse(self.request.uri().query().unwrap_or_default().as_bytes())
            .filter(|(key, value)| key == name && !value.is_empty())
            .last()
            .map(|(_, value)| value.into_owned())
    }

    /// An integer of the query.
    ///
    /// # Errors
    /// 422 for what is no integer or out of range.
    pub fn query_integer(&self, name: &str, range: std::ops::RangeInclusive<i64>) -> response::Result<Option<i64>> {
        let Some(text) = self.query(name) else { return Ok(None) };
        match text.parse::<i64>() {
            Ok(value) if range.contains(&value) => Ok(Some(value)),
            _ => Err(ApiError::validation(format!(
                "`{name}` must be an integer, {} to {}; it is {text:?}.",
                range.start(),
                range.end()
            ))),
        }
    }

    pub fn into_body(self) -> Incoming {
        self.request.into_body()
    }

    pub fn into_request(self) -> Request<Incoming> {
        self.request
    }
}

/// One of the addresses that the service listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    Api,
    Storage,
    Dashboard,
}

/// Accepts connections until `stopping`, then lets those that are open finish their requests, `drain` at most.
pub async fn serve(
    app: Arc<AppState>,
    surface: Surface,
    listener: TcpListener,
    stopping: CancellationToken,
    drain: Duration,
) {
    let router = Arc::new(Router::new(surface));
    let graceful = GracefulShutdown::new();
    loop {
        let (socket, peer) = tokio::select! {
            () = stopping.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, say: waiting lets some be closed.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        // Taken after accepting: a listener that nobody calls must hold nothing that another one needs.
        let permit = tokio::select! {
            () = stopping.cancelled() => break,
            permit = app.connections.clone().acquire_owned() => match permit {
                Ok(permit) => permit,
                Err(_) => break,
            },
        };
        // Answers are small, and each is written whole.
        let _ = socket.set_nodelay(true);
        let connection = connection(app.clone(), router.clone(), peer, socket);
        let watched = graceful.watcher().watch(connection);
        tokio::spawn(async move {
            if let Err(error) = watched.await {
                tracing::debug!(%peer, %error, "a connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections that did not end in time were closed");
    }
}

/// One connection, to its end: HTTP/1.1 or HTTP/2 as its first bytes say.
pub fn connection<S>(
    app: Arc<AppState>,
    router: Arc<Router>,
    peer: SocketAddr,
    socket: S,
) -> impl GracefulConnection<Error = Box<dyn std::error::Error + Send + Sync>> + Send
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |request| {
        let (app, router) = (app.clone(), router.clone());
        async move { Ok::<_, Infallible>(answer(app, &router, peer, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(64 << 10).half_close(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(IDLE)
        .max_concurrent_streams(256)
        .max_header_list_size(64 << 10);
    builder.serve_connection_with_upgrades(TokioIo::new(socket), service).into_owned()
}

/// One request: found in the table, counted, let in or not, handled, logged.
async fn answer(app: Arc<AppState>, router: &Router, peer: SocketAddr, request: Request<Incoming>) -> Response {
    let began = Instant::now();
    let id = request_id(request.headers());
    let method = request.method().clone();
    let found = router.find(&method, request.uri().path());
    let route = found.route();
    let span = tracing::info_span!("request", id = %id);
    let mut reply = handle(app, found, peer, request).instrument(span.clone()).await;
    if router.surface() == Surface::Storage {
        // Files are put from any web page, which is told as well why one was refused.
        reply.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        reply.headers_mut().insert(REQUEST_ID, value);
    }
    reply.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    let status = reply.status().as_u16();
    let took = began.elapsed();
    metrics::counter!("auricle_requests_total", "route" => route, "status" => status_class(status)).increment(1);
    metrics::histogram!("auricle_request_seconds", "route" => route).record(took);
    span.in_scope(|| tracing::info!(%method, route, status, ms = took.as_secs_f64() * 1e3, "answered"));
    reply
}

fn status_class(status: u16) -> &'static str {
    match status / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

async fn handle(app: Arc<AppState>, found: Found, peer: SocketAddr, request: Request<Incoming>) -> Response {
    let address = Caller::at(peer.ip());
    let (route, params) = match found {
        Found::Route { route, params } => (route, params),
        // A path that is not there is told to anybody: nothing is to be learned from it.
        other => {
            let account = auth::account(&app.store, request.headers()).await;
            let caller = account.map_or(address, |account| Caller::Account(account.id));
            return refuse(app.limits.count(&caller), other.not_allowed(), request);
        }
    };
    let mut call = RequestContext { app, account: None, params, request };
    let limits = &call.app.limits;
    let standing = match route.access {
        // Whoever watches over the service asks without a key, and must never be turned away for asking too often.
        Access::Open => limits.look(&address),
        Access::Signed(what) => {
            // Pages and their visitors have these, who must not be able to shut the account itself out.
            limits.count(&auth::signer(what, &call).await.map_or(address, Caller::Signed))
        }
        Access::Key => match auth::account(&call.app.store, call.headers()).await {
            Ok(account) => {
                let standing = limits.count(&Caller::Account(account.id.clone()));
                call.account = Some(account);
                standing
            }
            Err(error) => return refuse(limits.count(&address), error, call.request),
        },
    };
    if standing.exceeded {
        return refuse(standing, ApiError::rate_limited(standing.reset_s), call.request);
    }
    let mut reply = (route.handler)(call).await.unwrap_or_else(|error| error.reply());
    standing.write(reply.headers_mut());
    reply
}

/// Says why there is no answer; that one has asked too often comes before all else.
fn refuse(standing: Standing, error: ApiError, request: Request<Incoming>) -> Response {
    body::skip(request);
    let error = if standing.exceeded { ApiError::rate_limited(standing.reset_s) } else { error };
    let mut reply = error.reply();
    standing.write(reply.headers_mut());
    reply
}

/// The caller's id, if it is one that can be logged, else one of ours.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(&REQUEST_ID).and_then(|value| value.to_str().ok());
    let usable = |id: &&str| {
        (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
    };
    given.filter(usable).map_or_else(|| ids::fresh("req"), str::to_owned)
}

/// How many connections there may be at a time, over all listeners.
pub fn connection_permits(most: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))
}

/// What a handler returns.
pub type Answer = std::pin::Pin<Box<dyn Future<Output = response::Result<Response>> + Send>>;
