//! The time that live sessions are connected for: written down while they go on, billed once when they end, whichever way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::auth::session_token::SessionClaims;
use crate::billing::{Kind, Price};
use crate::clock;
use crate::ids::SessionId;
use crate::state::AppState;
use crate::store::{LiveSession, Result};

/// How often it is written down that this node's sessions go on, at most: what a session that was cut off is billed short of.
const HEARTBEAT: Duration = Duration::from_secs(4);

/// Sessions that have ended and could not be billed yet, with the time that they were connected for, ms; none of those that
/// were not let in after all.
#[derive(Default)]
pub struct UnbilledSessions(Mutex<Vec<(LiveSession, Option<i64>)>>);

impl UnbilledSessions {
    fn push(&self, session: LiveSession, connected_ms: Option<i64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((session, connected_ms));
    }

    fn take(&self) -> Vec<(LiveSession, Option<i64>)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Counts one session. Dropped before it is stopped, it has the session billed to that moment.
pub struct Meter {
    app: Arc<AppState>,
    session: Option<LiveSession>,
    began: Instant,
}

impl Meter {
    /// From now on.
    pub async fn start(app: &Arc<AppState>, grant: &SessionClaims) -> Result<Self> {
        let now = clock::now_ms();
        let session = LiveSession {
            id: SessionId::new(),
            account: grant.account.clone(),
            model: grant.model.clone(),
            began_at: now,
            seen_at: now,
        };
        if let Err(error) = app.store.begin_session(&session, &app.node).await {
            // It may have been written down all the same.
            app.unbilled.push(session, None);
            return Err(error);
        }
        Ok(Self { app: app.clone(), session: Some(session), began: Instant::now() })
    }

    /// To now. What cannot be written down now is tried again with the heartbeats.
    pub async fn stop(mut self) {
        let Some(session) = self.session.take() else { return };
        let connected_ms = self.connected_ms();
        if !bill(&self.app, &session, connected_ms).await {
            self.app.unbilled.push(session, Some(connected_ms));
        }
    }

    fn connected_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.app.unbilled.push(session, Some(self.connected_ms()));
        }
    }
}

/// Whether it could be written down.
async fn bill(app: &AppState, session: &LiveSession, connected_ms: i64) -> bool {
    let Some(price) = Price::of(&session.model, Kind::Realtime) else { return true };
    let cents = price.cents(connected_ms);
    match app.store.end_session(session, price.unit_type, connected_ms, cents).await {
        Ok(()) => {
            metrics::histogram!("auricle_live_session_seconds").record(connected_ms as f64 / 1e3);
            app.webhook_notify.notify_one();
            true
        }
        Err(error) => {
            tracing::error!(session = %session.id, connected_ms, %error, "a live session could not be billed yet");
            false
        }
    }
}

/// Writes down that this node's sessions go on, and bills those whose node has died: one that has not been heard of for as
/// long as its jobs would be given to others. That is measured here, by a clock that nobody sets.
pub async fn run(app: Arc<AppState>, stopping: CancellationToken) {
    let dead = Duration::from_secs(app.config.job_lease_seconds.into());
    let heartbeat = HEARTBEAT.min(dead / 3);
    // On a database of its own, whatever is open was left by the process before.
    let mut left_behind = !app.store.is_shared();
    // When each of the others' was last heard of, and when that was seen here.
    let mut heard: BTreeMap<SessionId, (i64, Instant)> = BTreeMap::new();
    loop {
        match app.store.sessions_of_others(&app.node).await {
            Ok(sessions) => {
                let before = std::mem::take(&mut heard);
                for session in sessions {
                    let known = before.get(&session.id).filter(|(seen_at, _)| *seen_at == session.seen_at);
                    let since = known.map_or_else(Instant::now, |(_, since)| *since);
                    if left_behind || since.elapsed() >= dead {
                        bill(&app, &session, (session.seen_at - session.began_at).max(0)).await;
                    }
                    heard.insert(session.id, (session.seen_at, since));
                }
                left_behind = false;
            }
            Err(error) => {
                // While nobody can write down that sessions go on, their silence says nothing.
                heard.clear();
                tracing::error!(%error, "live sessions could not be looked through");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(heartbeat) => {}
            () = stopping.cancelled() => return,
        }
        for (session, connected_ms) in app.unbilled.take() {
            let settled = match connected_ms {
                Some(connected_ms) => bill(&app, &session, connected_ms).await,
                None => app.store.forget_session(&session).await.is_ok(),
            };
            if !settled {
                app.unbilled.push(session, connected_ms);
            }
        }
        if let Err(error) = app.store.sessions_go_on(&app.node, clock::now_ms()).await {
            tracing::error!(%error, "it could not be written down that live sessions go on");
        }
    }
}
