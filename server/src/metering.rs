//! Metering of live sessions: connection time is recorded while a session runs and billed once when it ends.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::billing::{Price, ProductKind};
use crate::ids::{AccountId, KeyId, NodeId, SessionId};
use crate::store::{Admission, Allowance, LiveSession, Result, Store};

/// The longest interval between heartbeats. A session that ends with its node is billed up to the last heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(4);

/// Interval of looking for revoked keys.
const KEY_CHECK: Duration = Duration::from_millis(500);

/// The meters of this node. Times are those of its monotonic clock: setting the system's clock costs nobody anything.
pub struct Metering {
    store: Store,
    node: NodeId,
    /// Zero of this node's times.
    started: Instant,
    /// A node without a heartbeat for this time is dead.
    dead_after: Duration,
    /// The longest duration of a session, and the most that is billed.
    max_duration: Duration,
    running: Mutex<HashMap<SessionId, Running>>,
    /// Sessions that have ended and could not be recorded, with their connection time in ms. The time is none for sessions
    /// that did not start.
    unrecorded: Mutex<Vec<(LiveSession, Option<i64>)>>,
}

/// A session of this node.
struct Running {
    began_at: i64,
    model: String,
    price: Option<&'static Price>,
    reserved_cents: i64,
    /// Canceled when the key is revoked.
    revoked: CancellationToken,
}

/// The result of starting a session.
pub enum Started {
    Metered(Meter),
    /// The key of its token was revoked.
    Revoked,
    /// The credit does not cover the estimate.
    NoCredit(Allowance),
}

impl Metering {
    pub fn new(store: Store, dead_after: Duration, max_duration: Duration) -> Self {
        let (started, node) = (Instant::now(), NodeId::new());
        Self { store, node, started, dead_after, max_duration, running: Mutex::default(), unrecorded: Mutex::default() }
    }

    /// This node.
    pub fn node(&self) -> &NodeId {
        &self.node
    }

    fn now_ms(&self) -> i64 {
        ms(self.started.elapsed())
    }

    fn running(&self) -> MutexGuard<'_, HashMap<SessionId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts metering a session and reserves its estimated cost, if its key is valid and the credit covers it.
    ///
    /// # Errors
    /// If the session could not be recorded.
    pub async fn start(
        self: &Arc<Self>,
        account: &AccountId,
        key: &KeyId,
        model: &str,
        estimated_cents: i64,
    ) -> Result<Started> {
        let now = self.now_ms();
        let session = LiveSession {
            id: SessionId::new(),
            account: account.clone(),
            model: model.to_owned(),
            began_at: now,
            seen_at: now,
        };
        let revoked = CancellationToken::new();
        let price = Price::of_session(model);
        let running = Running {
            began_at: now,
            model: model.to_owned(),
            price,
            reserved_cents: estimated_cents,
            revoked: revoked.clone(),
        };
        // A revocation that waits for the start of the session must find it here.
        self.running().insert(session.id.clone(), running);
        let admitted = self.store.begin_session(&session, &self.node, key, estimated_cents).await;
        if !matches!(admitted, Ok(Admission::Admitted)) {
            self.running().remove(&session.id);
        }
        match admitted {
            Ok(Admission::Admitted) => {
                Ok(Started::Metered(Meter { metering: self.clone(), session: Some(session), revoked }))
            }
            Ok(Admission::Revoked) => Ok(Started::Revoked),
            Ok(Admission::NoCredit(allowance)) => Ok(Started::NoCredit(allowance)),
            Err(error) => {
                // The database may have recorded it all the same.
                self.retry_later(session, None);
                Err(error)
            }
        }
    }

    /// Changes the model at whose rate the whole time of a session is billed.
    ///
    /// # Errors
    /// If it could not be recorded; the session keeps its model then.
    pub async fn change_model(&self, session: &SessionId, model: &str) -> Result<()> {
        self.store.change_session_model(session, model).await?;
        if let Some(running) = self.running().get_mut(session) {
            model.clone_into(&mut running.model);
            running.price = Price::of_session(model);
        }
        Ok(())
    }

    /// Ends the sessions of revoked keys, until `stopping`. Runs without sessions, too: the key cache counts on the interval.
    pub async fn watch_keys(self: Arc<Self>, stopping: CancellationToken) {
        let mut checked = None;
        while stopping.run_until_cancelled(tokio::time::sleep(KEY_CHECK)).await.is_some() {
            let found = async {
                let version = self.store.access_version().await?;
                let ids =
                    if checked == Some(version) { Vec::new() } else { self.store.revoked_sessions(&self.node).await? };
                Ok::<_, crate::store::Error>((version, ids))
            };
            match found.await {
                Ok((version, ids)) => {
                    let running = self.running();
                    ids.iter().filter_map(|id| running.get(id)).for_each(|session| session.revoked.cancel());
                    checked = Some(version);
                }
                Err(error) => tracing::debug!(%error, "looking for revoked keys failed; trying again"),
            }
        }
    }

    /// Reserves more for sessions that last longer than was estimated.
    async fn raise_reservations(&self) {
        let until = self.now_ms() + ms(HEARTBEAT);
        let cost = |session: &Running| session.price.map_or(0, |price| price.cents(until - session.began_at));
        let raised: Vec<(SessionId, i64)> = {
            let running = self.running();
            let outgrown = running.iter().filter(|(_, session)| cost(session) > session.reserved_cents);
            outgrown.map(|(id, session)| (id.clone(), cost(session))).collect()
        };
        for (id, cents) in raised {
            if let Err(error) = self.store.raise_session_reservation(&id, cents).await {
                return tracing::warn!(%error, "reserving the cost of live sessions failed; trying again");
            }
            if let Some(session) = self.running().get_mut(&id) {
                session.reserved_cents = cents;
            }
        }
    }

    fn retry_later(&self, session: LiveSession, connected_ms: Option<i64>) {
        self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner).push((session, connected_ms));
    }

    /// Bills a session. False if the database failed.
    async fn bill(&self, session: &LiveSession, connected_ms: i64) -> bool {
        let connected_ms = connected_ms.clamp(0, ms(self.max_duration));
        // The session of a model that has left the prices costs nothing, and gives back what was reserved for it.
        let (unit_type, cents) = match Price::of_session(&session.model) {
            Some(price) => (price.unit_type, price.cents(connected_ms)),
            None => (Price::default_of(ProductKind::Realtime).unit_type, 0),
        };
        match self.store.end_session(session, unit_type, connected_ms, cents).await {
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
                            self.bill(&session, session.seen_at - session.began_at).await;
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
            if let Err(error) = self.store.heartbeat_sessions(&self.node, self.now_ms()).await {
                tracing::error!(%error, "recording the heartbeat of live sessions failed");
            }
            self.raise_reservations().await;
        }
    }
}

/// Measures the connection time of one session. A meter that is dropped before [`Meter::stop`] has the session billed up to
/// that moment.
pub struct Meter {
    metering: Arc<Metering>,
    session: Option<LiveSession>,
    revoked: CancellationToken,
}

impl Meter {
    /// The session's id; empty once it has ended.
    pub fn session_id(&self) -> String {
        self.session.as_ref().map(|session| session.id.to_string()).unwrap_or_default()
    }

    /// Canceled when the session's key is revoked.
    pub fn revoked(&self) -> CancellationToken {
        self.revoked.clone()
    }

    /// Stops and bills the session. If that fails, it is tried again with each heartbeat.
    pub async fn stop(mut self) {
        let Some((session, connected_ms)) = self.take() else { return };
        if !self.metering.bill(&session, connected_ms).await {
            self.metering.retry_later(session, Some(connected_ms));
        }
    }

    /// Ends the measurement: the session and its connection time. None if it has ended.
    fn take(&mut self) -> Option<(LiveSession, i64)> {
        let mut session = self.session.take()?;
        if let Some(running) = self.metering.running().remove(&session.id) {
            session.model = running.model;
        }
        let connected_ms = self.metering.now_ms() - session.began_at;
        Some((session, connected_ms))
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some((session, connected_ms)) = self.take() {
            self.metering.retry_later(session, Some(connected_ms));
        }
    }
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Durability;

    #[tokio::test]
    async fn a_session_of_a_model_without_a_price_gives_back_what_was_reserved() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
        let account = store.account_of("somebody@example.org", 100).await.unwrap().id;
        let key = store.create_key(&account, "test", None).await.unwrap().id;
        let metering = Arc::new(Metering::new(store.clone(), Duration::from_secs(60), Duration::from_secs(60)));
        let reserved = async || store.allowance(&account).await.unwrap().reserved;
        for model in ["svc-realtime", "svc-of-an-earlier-version"] {
            let Started::Metered(meter) = metering.start(&account, &key, model, 7).await.unwrap() else {
                panic!("it starts");
            };
            assert_eq!(reserved().await, 7, "{model}");
            meter.stop().await;
            assert_eq!(reserved().await, 0, "{model}");
        }
        assert_eq!(store.usage(&account, 10, 0).await.unwrap().1, 2);
    }

    #[tokio::test]
    async fn a_session_is_billed_by_the_model_that_it_changed_to() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
        let account = store.account_of("somebody@example.org", 100).await.unwrap().id;
        let key = store.create_key(&account, "test", None).await.unwrap().id;
        let metering = Arc::new(Metering::new(store.clone(), Duration::from_secs(60), Duration::from_secs(60)));
        let Started::Metered(meter) = metering.start(&account, &key, "svc-realtime-pro", 0).await.unwrap() else {
            panic!("it starts");
        };
        metering.change_model(&meter.session_id().into(), "svc-realtime").await.unwrap();
        // A node that dies leaves the row alone.
        let rows = store.sessions_of_others(&NodeId::new()).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.model.as_str()).collect::<Vec<_>>(), ["svc-realtime"]);
        meter.stop().await;
        assert_eq!(store.usage(&account, 10, 0).await.unwrap().0[0].sku, "svc-realtime");
    }
}
