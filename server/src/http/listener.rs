//! Accepts connections and serves HTTP on them.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::response::Response;

/// Timeout for a request's head, and interval of HTTP/2 keep-alive pings.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// Answers requests.
pub trait RequestHandler: Clone + Send + Sync + 'static {
    /// Answers one request from `peer`.
    fn handle(&self, peer: SocketAddr, request: Request<Incoming>) -> impl Future<Output = Response> + Send;
}

/// Accepts connections until `stopping`, then waits up to `drain` for open requests to finish. Each connection holds one
/// of `permits`.
pub async fn serve<H: RequestHandler>(
    handler: H,
    listener: TcpListener,
    permits: Arc<Semaphore>,
    stopping: CancellationToken,
    drain: Duration,
) {
    let graceful = GracefulShutdown::new();
    loop {
        let (socket, peer) = tokio::select! {
            () = stopping.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // The process may be out of file descriptors: waiting lets connections close.
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        // The permit is taken after accepting, so that an idle listener holds none.
        let permit = tokio::select! {
            () = stopping.cancelled() => break,
            permit = permits.clone().acquire_owned() => match permit {
                Ok(permit) => permit,
                Err(_) => break,
            },
        };
        // Responses are small and written whole, so Nagle's algorithm only delays them.
        let _ = socket.set_nodelay(true);
        let watched = graceful.watcher().watch(connection(handler.clone(), peer, socket));
        tokio::spawn(async move {
            if let Err(error) = watched.await {
                tracing::debug!(%peer, %error, "a connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("closed connections that were still open after the drain time");
    }
}

/// Serves one connection to its end: HTTP/1.1 or HTTP/2, as its first bytes tell.
pub fn connection<H, S>(
    handler: H,
    peer: SocketAddr,
    socket: S,
) -> impl GracefulConnection<Error = Box<dyn std::error::Error + Send + Sync>> + Send
where
    H: RequestHandler,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |request| {
        let handler = handler.clone();
        async move { Ok::<_, Infallible>(handler.handle(peer, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT).max_buf_size(64 << 10).half_close(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(IDLE_TIMEOUT)
        .max_concurrent_streams(256)
        .max_header_list_size(64 << 10);
    builder.serve_connection_with_upgrades(TokioIo::new(socket), service).into_owned()
}

/// Permits for `limit` connections at a time, shared by all listeners.
pub fn connection_permits(limit: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)))
}
