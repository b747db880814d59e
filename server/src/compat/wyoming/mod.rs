//! The Wyoming protocol, by which Home Assistant's voice pipeline reaches recognisers and voices: a line of JSON for each event over TCP, with
//! data and audio behind it.
//!
//! A recording becomes an ordinary job, and a text goes the way of every other speech. The protocol has no keys: all clients act for one account.
//!
//! `connection` takes events, which `event` reads and writes; `info` describes the service; `recording` and `speech` do its work;
//! `announcement` lets clients find it.

mod announcement;
mod connection;
mod event;
mod info;
mod recording;
mod speech;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

use announcement::Announcement;

use crate::api::TranscriptsState;
use crate::api::openai::speech::SpeechState;
use crate::http::admission::Places;
use crate::http::listener;
use crate::http::rate_limits::RateLimits;
use crate::http::transfer::TransferLimits;
use crate::ids::AccountId;

/// Connections at a time: a household has few, and each may hold an event in memory.
pub const MAX_CONNECTIONS: usize = 256;

/// What the connections share.
pub struct Wyoming {
    pub transcripts: Arc<TranscriptsState>,
    pub speech: Arc<SpeechState>,
    pub rate_limits: Arc<RateLimits>,
    /// The account that all clients act for.
    pub account: AccountId,
    /// The address of this service, for its description.
    pub url: Url,
    pub limits: TransferLimits,
    /// The longest recording.
    pub longest: Duration,
    /// The name by which the local network finds the service; none if it is not announced.
    pub announced_as: Option<String>,
}

/// Serves connections until `stopping`, then waits up to `drain` for speech and transcriptions under way.
pub async fn serve(
    state: Arc<Wyoming>,
    listener: TcpListener,
    places: Places,
    stopping: CancellationToken,
    drain: Duration,
) {
    let announcement = state.announced_as.as_deref().and_then(|name| {
        let begun = Announcement::begin(name, listener.local_addr().ok()?);
        begun.inspect_err(|error| tracing::error!(%error, "the local network cannot be reached by multicast DNS")).ok()
    });
    let connection = |socket, peer, place| connection::run(state.clone(), socket, peer, place, stopping.clone());
    listener::accept(listener, places, &stopping, drain, connection).await;
    if let Some(announcement) = announcement {
        let _ = tokio::task::spawn_blocking(|| announcement.end()).await;
    }
}
