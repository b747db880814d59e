//! The job runner: claims, transcribes and finishes jobs; releases them when the service stops or fails.

mod attempt;
mod audio_source;
mod passes;
mod peaks;
mod queue;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auricle_engine::Engine;
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::ClockWatch;
use crate::config::BillingProvider;
use crate::ids::AccountId;
use crate::notify::Notifiers;
use crate::outbound::Outbound;
use crate::speakers::Profiles;
use crate::storage::Storage;
use crate::store::{Job, JobQuery, Result, SourceKind, Store};
pub use audio_source::{FetchError, fetch};
pub use passes::{passes, text_options};
use queue::{Queue, Start};

/// Delay after a failed query.
const DATABASE_RETRY: Duration = Duration::from_secs(1);

/// The settings of a runner.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// Jobs that this process runs at a time.
    pub workers: usize,
    /// Files that this process fetches at a time.
    pub downloads: usize,
    /// Jobs of an account that run at a time, without and with a subscription.
    pub parallel: i64,
    pub parallel_subscribed: i64,
    /// Due retries and jobs of crashed workers send no notification, so the runner also polls.
    pub poll: Duration,
    /// Lifetime of a lease without renewal.
    pub lease: Duration,
    pub fetch_timeout: Duration,
    pub fetch_max_bytes: u64,
    /// Folder of temporary files.
    pub scratch: PathBuf,
}

impl JobSettings {
    fn lease_ms(&self) -> i64 {
        self.lease.as_millis() as i64
    }
}

/// Runs jobs on an engine.
pub struct JobRunner {
    pub store: Store,
    pub storage: Storage,
    pub outbound: Outbound,
    pub engine: Engine,
    pub profiles: Profiles,
    pub notifiers: Arc<Notifiers>,
    pub billing_provider: BillingProvider,
    pub settings: JobSettings,
    /// Read by each job at work, written by one that runs alone.
    pub company: RwLock<()>,
}

impl JobRunner {
    /// Runs jobs until `stopping`, waits for running ones until `give_up`, and releases the rest.
    pub async fn run(self: Arc<Self>, stopping: CancellationToken, give_up: CancellationToken) {
        let settings = &self.settings;
        let lease_check = settings.lease / 2;
        let poll = settings.poll.min(lease_check);
        let mut queue = Queue::new(settings.workers, settings.downloads);
        let mut running = JoinSet::new();
        let mut leases_checked: Option<Instant> = None;
        let mut clock = ClockWatch::new();
        while !stopping.is_cancelled() {
            if clock.was_set() {
                // Until the next heartbeats the leases tell nothing.
                tracing::warn!("the clock was set");
                leases_checked = Some(Instant::now());
            }
            if leases_checked.is_none_or(|at| at.elapsed() > lease_check) {
                match self.store.requeue_expired_jobs().await {
                    Ok(0) => {}
                    Ok(jobs) => tracing::warn!(jobs, "requeued jobs of a dead worker"),
                    Err(error) => tracing::error!(%error, "checking leases failed"),
                }
                leases_checked = Some(Instant::now());
            }
            while running.try_join_next().is_some() {}
            let claimed = if self.has_device().await { self.claim_next(&mut queue).await } else { Ok(None) };
            match claimed {
                Ok(Some((job, start))) => {
                    running.spawn(self.clone().run_job(job, start, give_up.clone()));
                    continue;
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, "claiming a job failed");
                    // While the database was away no worker could renew its lease, so an expired one proves nothing.
                    leases_checked = Some(Instant::now());
                    queue.start_fetched();
                    tokio::time::sleep(DATABASE_RETRY).await;
                    continue;
                }
            }
            tokio::select! {
                () = self.notifiers.jobs.notified() => {}
                () = tokio::time::sleep(poll) => {}
                () = queue.receive() => {}
                _ = running.join_next(), if !running.is_empty() => {}
                () = stopping.cancelled() => {}
            }
        }
        while !running.is_empty() {
            queue.start_fetched();
            tokio::select! {
                () = queue.receive() => {}
                _ = running.join_next() => {}
            }
        }
    }

    /// False while all devices are lost and none can be opened again.
    async fn has_device(&self) -> bool {
        let engine = self.engine.clone();
        let works = tokio::task::spawn_blocking(move || engine.blocking().open_streams());
        match works.await {
            Ok(Err(error)) => {
                tracing::warn!(%error, "no job is claimed");
                false
            }
            _ => true,
        }
    }

    /// Claims a job whose audio is on this machine if a worker is free, else one whose audio must be fetched: from its URL, or
    /// from an object store elsewhere. Fetched jobs get their workers here, too: of both, the accounts take turns.
    async fn claim_next(&self, queue: &mut Queue) -> Result<Option<(Job, Start)>> {
        let any = self.store.has_queued_jobs().await?;
        loop {
            if queue.takes_fetched_next() && queue.start_fetched_in_turn() {
                continue;
            }
            if !queue.has_free_worker() {
                break;
            }
            let stored = if any && !self.storage.is_remote() {
                self.claim(SourceKind::Uploads, &queue.no_work()).await?
            } else {
                None
            };
            if let Some(job) = stored {
                return Ok(queue.start_stored(&job.account).map(|start| (job, start)));
            }
            if !queue.start_fetched_in_turn() && !queue.begin_work_round() {
                break;
            }
        }
        if !any || !queue.may_download() {
            return Ok(None);
        }
        let fetched = if self.storage.is_remote() { SourceKind::Any } else { SourceKind::Urls };
        let mut claimed = self.claim(fetched, &queue.no_download()).await?;
        if claimed.is_none() && queue.begin_download_round() {
            claimed = self.claim(fetched, &queue.no_download()).await?;
        }
        Ok(claimed.map(|job| {
            let start = queue.download(&job.account);
            (job, start)
        }))
    }

    async fn claim(&self, sources: SourceKind, skip: &HashSet<AccountId>) -> Result<Option<Job>> {
        let JobSettings { parallel, parallel_subscribed, .. } = self.settings;
        let jobs = JobQuery { sources, skip, parallel, parallel_subscribed };
        self.store.claim_job(jobs, self.settings.lease_ms()).await
    }
}
