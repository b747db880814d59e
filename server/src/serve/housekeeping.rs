//! Deletes stale uploads, orphaned objects and expired records.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::notify::Notifiers;
use crate::storage::Storage;
use crate::store::{StaleUpload, Store};

/// Interval of deleting incomplete uploads and orphaned objects.
const INTERVAL: Duration = Duration::from_secs(60);

/// Delay before another attempt to empty the database's log.
const EMPTY_LOG_RETRY: Duration = Duration::from_secs(2);

/// Interval of the searches that read whole tables or folders.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3600);

/// No PUT takes longer.
const UNFINISHED_MAX_AGE: Duration = Duration::from_secs(24 * 3600);

pub struct Housekeeping {
    pub store: Store,
    pub storage: Storage,
    pub notifiers: Arc<Notifiers>,
    /// Lifetime of an upload that is never completed.
    pub incomplete_ms: i64,
    /// Lifetime of an upload without a transcript.
    pub unused_ms: i64,
    /// Lifetime of a transcript after its end. None keeps them.
    pub transcript_ms: Option<i64>,
}

impl Housekeeping {
    /// Runs until `stopping`.
    pub async fn run(self, stopping: CancellationToken) {
        let mut swept: Option<Instant> = None;
        // The process before may have ended between a deletion and this.
        let mut log_is_emptied = false;
        loop {
            let now = clock::now_ms();
            let sweep = swept.is_none_or(|at| at.elapsed() > SWEEP_INTERVAL);
            self.delete_stale_uploads(StaleUpload::Incomplete, now - self.incomplete_ms).await;
            if sweep {
                self.delete_stale_uploads(StaleUpload::Unused, now - self.unused_ms).await;
                self.delete_old_transcripts(now).await;
            }
            self.delete_orphans().await;
            if sweep {
                self.sweep().await;
                swept = Some(Instant::now());
                log_is_emptied = false;
            }
            if !log_is_emptied {
                log_is_emptied = self.empty_log().await;
            }
            tokio::select! {
                () = tokio::time::sleep(if log_is_emptied { INTERVAL } else { EMPTY_LOG_RETRY }) => {}
                () = self.notifiers.deletions.notified() => log_is_emptied = false,
                () = stopping.cancelled() => return,
            }
        }
    }

    async fn delete_stale_uploads(&self, stale: StaleUpload, before: i64) {
        if let Err(error) = self.store.delete_stale_uploads(stale, before).await {
            tracing::error!(%error, ?stale, "deleting stale uploads failed");
        }
    }

    async fn delete_old_transcripts(&self, now: i64) {
        let Some(lifetime) = self.transcript_ms else { return };
        match self.store.delete_old_transcripts(now - lifetime).await {
            Ok(0) => {}
            Ok(deleted) => tracing::info!(deleted, "deleted old transcripts"),
            Err(error) => tracing::error!(%error, "deleting old transcripts failed"),
        }
    }

    /// True if nothing that was deleted stands in the database's log any more.
    async fn empty_log(&self) -> bool {
        self.store.empty_log().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "emptying the database's log failed; trying again");
            false
        })
    }

    async fn delete_orphans(&self) {
        let orphans = match self.store.orphaned_objects().await {
            Ok(orphans) => orphans,
            Err(error) => return tracing::error!(%error, "reading orphaned objects failed"),
        };
        for object_key in orphans {
            if let Err(error) = self.storage.delete(&object_key).await {
                tracing::warn!(object_key, %error, "deleting an object failed; trying again later");
                continue;
            }
            if let Err(error) = self.store.mark_object_deleted(&object_key).await {
                tracing::error!(object_key, %error, "recording a deletion failed");
            }
        }
    }

    async fn sweep(&self) {
        let storage = self.storage.clone();
        let swept = tokio::task::spawn_blocking(move || storage.delete_unfinished(UNFINISHED_MAX_AGE));
        if let Ok(Err(error)) = swept.await {
            tracing::warn!(%error, "deleting unfinished uploads failed");
        }
        if let Err(error) = self.store.delete_expired_records().await {
            tracing::warn!(%error, "deleting expired records failed");
        }
    }
}
