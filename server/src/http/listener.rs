//! Accepts connections, as many at a time as there are places.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admission::{Place, Places};
use super::connection::{self, RequestHandler};
use super::transfer::TransferLimits;

/// Delay after a failure to accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Serves HTTP until `stopping`, then waits up to `drain` for open requests to finish.
pub async fn serve<H: RequestHandler>(
    handler: H,
    listener: TcpListener,
    places: Places,
    limits: TransferLimits,
    stopping: CancellationToken,
    drain: Duration,
) {
    let connection =
        |socket, peer, place| connection::serve(handler.clone(), peer, socket, Some(place), limits, stopping.clone());
    accept(listener, places, &stopping, drain, connection).await;
}

/// Accepts connections until `stopping`, each served by a task, then waits up to `drain` for them to end.
pub async fn accept<F>(
    listener: TcpListener,
    places: Places,
    stopping: &CancellationToken,
    drain: Duration,
    serve: impl Fn(TcpStream, SocketAddr, Place) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let connections = TaskTracker::new();
    loop {
        let (socket, peer) = tokio::select! {
            () = stopping.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // The process may be out of file descriptors: waiting lets connections close.
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                }
            },
        };
        // An address that has its share must not make others wait, so its connections are closed at once.
        let Some(address) = places.of_address(peer.ip()) else {
            tracing::debug!(%peer, "refused a connection: the address has its share");
            continue;
        };
        // The place is taken after accepting, so that an idle listener holds none.
        let place = tokio::select! {
            () = stopping.cancelled() => break,
            place = places.place(address) => match place {
                Some(place) => place,
                None => break,
            },
        };
        // The parts of responses are written as they are ready, so Nagle's algorithm only delays them.
        let _ = socket.set_nodelay(true);
        connections.spawn(serve(socket, peer, place));
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(drain, connections.wait()).await.is_err() {
        tracing::warn!("closed connections that were still open after the drain time");
    }
}
