//! Runs a session under a meter: admission, connection time, revocation, the close.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tracing::Instrument as _;

use super::LiveState;
use super::socket::{CloseFrame, ServerMessage, Socket};
use crate::auth::no_credit;
use crate::auth::session_token::Payer;
use crate::metering::Started;

/// The reason for a session that does not start or is ended by the service.
pub enum Refusal {
    /// The key of its token was revoked.
    Revoked,
    /// The credit does not cover the estimate; the message says so.
    NoCredit(String),
    /// The database did not take it.
    NotRecorded,
}

impl Refusal {
    fn close(&self) -> CloseFrame {
        match self {
            Self::Revoked => (4401, "The API key was revoked."),
            Self::NoCredit(_) => (4402, "The credit does not cover this session."),
            Self::NotRecorded => (1011, ""),
        }
    }
}

/// Passes frames on until the session ends: it gets the socket and the session's id, and returns how to close the socket; none if
/// the client is gone.
pub trait Relay: for<'a> FnOnce(&'a mut Socket, &'a str) -> BoxFuture<'a, Option<CloseFrame>> + Send + 'static {}

impl<R> Relay for R where
    R: for<'a> FnOnce(&'a mut Socket, &'a str) -> BoxFuture<'a, Option<CloseFrame>> + Send + 'static
{
}

/// Runs `relay` on a thread of sessions until it ends or the key is revoked, and bills the connection's time. `frame` writes a refusal.
pub async fn run(
    state: &Arc<LiveState>,
    mut socket: Socket,
    payer: &Payer,
    frame: fn(&Refusal) -> String,
    relay: impl Relay,
) {
    let Payer { account, key, model, estimated_cents } = payer;
    let admitted = match state.metering.start(account, key, model, *estimated_cents).await {
        Ok(Started::Metered(meter)) => Ok(meter),
        Ok(Started::Revoked) => Err(Refusal::Revoked),
        Ok(Started::NoCredit(allowance)) => {
            Err(Refusal::NoCredit(no_credit(allowance, *estimated_cents, state.billing_provider)))
        }
        Err(error) => {
            tracing::error!(%error, "recording a live session failed");
            Err(Refusal::NotRecorded)
        }
    };
    let meter = match admitted {
        Ok(meter) => meter,
        Err(refusal) => {
            let (code, reason) = refuse(&socket, &refusal, frame).await;
            return socket.close(code, reason).await;
        }
    };
    metrics::gauge!("auricle_live_sessions").increment(1);
    let (id, revoked) = (meter.session_id(), meter.revoked());
    let relayed = async move {
        let close = match revoked.run_until_cancelled(relay(&mut socket, &id)).await {
            Some(close) => close,
            None => Some(refuse(&socket, &Refusal::Revoked, frame).await),
        };
        (socket, close)
    };
    let closed = match state.threads.spawn(relayed.in_current_span()) {
        Some(relay) => relay.await.map_err(|panic| tracing::error!(%panic, "a live session failed")).ok(),
        None => None,
    };
    // Billed time ends here: the client's part of the closing handshake is not billed.
    meter.stop().await;
    metrics::gauge!("auricle_live_sessions").decrement(1);
    if let Some((socket, Some((code, reason)))) = closed {
        socket.close(code, reason).await;
    }
}

/// Sends the frame of a refusal, if the protocol has one; returns how to close the socket.
async fn refuse(socket: &Socket, refusal: &Refusal, frame: fn(&Refusal) -> String) -> CloseFrame {
    let frame = frame(refusal);
    if !frame.is_empty() {
        socket.send(ServerMessage::Text(frame)).await;
    }
    refusal.close()
}
