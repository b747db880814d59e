//! Metering of live sessions: connection time is recorded while a session runs and billed once when it ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::billing::{Price, ProductKind};
use crate::clock;
use crate::ids::{AccountId, NodeId, SessionId};
use crate::store::{LiveSession, Result, Store};

/// The longest interval between heartbeats. A session that ends with its node is billed up to the last heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(4);

/// The meters of this node.
pub struct Metering {
    store: Store,
    node: NodeId,
    /// A node without a heartbeat for this time is dead.
    dead_after: Duration,
    /// Sessions that have ended and could not be recorded, with their connection time in ms. The time is none for sessions
    /// that did not start.
    unrecorded: Mutex<Vec<(LiveSession, Option<i64>)>>,
}

impl Metering {
    pub fn new(store: Store, dead_after: Duration) -> Self {
        Self { store, node: NodeId::new(), dead_after, unrecorded: Mutex::default() }
    }

    /// Starts metering a session.
    ///
    /// # Errors
    /// If the session could not be recorded.
    pub async fn start(self: &Arc<Self>, account: &AccountId, model: &str) -> Result<Meter> {
        let now = clock::now_ms();
        let session = LiveSession {
            id: SessionId::new(),
            account: account.clone(),
            model: model.to_owned(),
            began_at: now,
            seen_at: now,
        };
        if let Err(error) = self.store.begin_session(&session, &self.node).await {
            // The database may have recorded it all the same.
            self.retry_later(session, None);
            return Err(error);
        }
        Ok(Meter { metering: self.clone(), session: Some(session), began: Instant::now() })
    }

    fn retry_later(&self, session: LiveSession, connected_ms: Option<i64>) {
        self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner).push((session, connected_ms));
    }

    /// Bills a session. False if the database failed.
    async fn bill(&self, session: &LiveSession, connected_ms: i64) -> bool {
        let Some(price) = Price::of(&session.model, ProductKind::Realtime) else { return true };
        match self.store.end_session(session, price.unit_type, connected_ms, price.cents(connected_ms)).await {
            Ok(()) => {
                metrics::histogram!("auricle_live_session_seconds").record(connected_ms as f64 / 1e3);
                true
            }
            Err(error) => {
                tracing::error!(session = %session.id, connected_ms, %error, "billing a live session failed; trying again");
                false
            }
        }
    }

    /// Sends heartbeats for this node's sessions, and bills sessions of dead nodes, until `stopping`. The time since a
    /// heartbeat is measured by this process's monotonic clock.
    pub async fn run(self: Arc<Self>, stopping: CancellationToken) {
        let heartbeat = HEARTBEAT.min(self.dead_after / 3);
        // A database without other nodes holds only sessions of the previous process.
        let mut previous_process = !self.store.is_shared();
        // The last heartbeat of each foreign session, and when it was first seen here.
        let mut heartbeats: BTreeMap<SessionId, (i64, Instant)> = BTreeMap::new();
        loop {
            match self.store.sessions_of_others(&self.node).await {
                Ok(sessions) => {
                    let before = std::mem::take(&mut heartbeats);
                    for session in sessions {
                        let known = before.get(&session.id).filter(|(seen_at, _)| *seen_at == session.seen_at);
                        let since = known.map_or_else(Instant::now, |(_, since)| *since);
                        if previous_process || since.elapsed() >= self.dead_after {
                            self.bill(&session, (session.seen_at - session.began_at).max(0)).await;
                        }
                        heartbeats.insert(session.id, (session.seen_at, since));
                    }
                    previous_process = false;
                }
                Err(error) => {
                    // Without a database no node can send heartbeats, so their absence proves nothing.
                    heartbeats.clear();
                    tracing::error!(%error, "reading live sessions failed");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(heartbeat) => {}
                () = stopping.cancelled() => return,
            }
            let unrecorded = std::mem::take(&mut *self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner));
            for (session, connected_ms) in unrecorded {
                let recorded = match connected_ms {
                    Some(connected_ms) => self.bill(&session, connected_ms).await,
                    None => self.store.delete_session(&session).await.is_ok(),
                };
                if !recorded {
                    self.retry_later(session, connected_ms);
                }
            }
            if let Err(error) = self.store.heartbeat_sessions(&self.node, clock::now_ms()).await {
                tracing::error!(%error, "recording the heartbeat of live sessions failed");
            }
        }
    }
}

/// Measures the connection time of one session. A meter that is dropped before [`Meter::stop`] has the session billed up to
/// that moment.
pub struct Meter {
    metering: Arc<Metering>,
    session: Option<LiveSession>,
    began: Instant,
}

impl Meter {
    /// Stops and bills the session. If that fails, it is tried again with each heartbeat.
    pub async fn stop(mut self) {
        let Some(session) = self.session.take() else { return };
        let connected_ms = self.connected_ms();
        if !self.metering.bill(&session, connected_ms).await {
            self.metering.retry_later(session, Some(connected_ms));
        }
    }

    fn connected_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.metering.retry_later(session, Some(self.connected_ms()));
        }
    }
}
