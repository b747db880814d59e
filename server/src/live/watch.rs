//! The time that live sessions are connected for: written down while they go on, billed once when they end, whichever way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::token::Grant;
use crate::app::App;
use crate::billing::{Kind, Price};
use crate::clock;
use crate::ids::SessionId;
use crate::store::{LiveSession, Result};

/// How often it is written down that this node's sessions go on, at most: what a session that was cut off is billed short of.
const HEARTBEAT: Duration = Duration::from_secs(4);

/// Counts one session.
pub struct Meter {
    session: LiveSession,
    began: Instant,
}

impl Meter {
    /// From now on.
    pub async fn start(app: &App, grant: &Grant) -> Result<Self> {
        let now = clock::now_ms();
        let session = LiveSession {
            id: SessionId::new(),
            account: grant.account.clone(),
            model: grant.model.clone(),
            began_at: now,
            seen_at: now,
        };
        app.store.begin_session(&session, &app.node).await?;
        Ok(Self { session, began: Instant::now() })
    }

    /// To now. What cannot be written down now is billed as of the last heartbeat.
    pub async fn stop(self, app: &App) {
        let connected_ms = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        bill(app, &self.session, connected_ms).await;
    }
}

async fn bill(app: &App, session: &LiveSession, connected_ms: i64) {
    let Some(price) = Price::of(&session.model, Kind::Realtime) else { return };
    let cents = price.cents(connected_ms);
    match app.store.end_session(session, price.unit_type, connected_ms, cents).await {
        Ok(()) => {
            metrics::histogram!("auricle_live_session_seconds").record(connected_ms as f64 / 1e3);
            app.webhook_bell.notify_one();
        }
        Err(error) => {
            tracing::error!(session = %session.id, connected_ms, %error, "a live session could not be billed yet");
        }
    }
}

/// Writes down that this node's sessions go on, and bills those whose node has died: one that has not been heard of for as
/// long as its jobs would be given to others. That is measured here, by a clock that nobody sets.
pub async fn run(app: Arc<App>, stopping: CancellationToken) {
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
            Err(error) => tracing::error!(%error, "live sessions could not be looked through"),
        }
        tokio::select! {
            () = tokio::time::sleep(heartbeat) => {}
            () = stopping.cancelled() => return,
        }
        if let Err(error) = app.store.sessions_go_on(&app.node, clock::now_ms()).await {
            tracing::error!(%error, "it could not be written down that live sessions go on");
        }
    }
}
