//! The work behind transcripts: claimed under a lease, kept alive by heartbeats, finished once.
//!
//! A lease counts only for who holds it: whatever a worker writes names its lease, so that one that was thought dead and
//! replaced changes nothing any more.

use serde_json::Value;
use sqlx::Row as _;

use super::transcripts::Source;
use super::usage::{self, NewUsage};
use super::{Result, Store, Topic, Tx};
use crate::clock;
use crate::ids::{AccountId, DeliveryId, LeaseId, TranscriptId};

/// How often a job is begun at most.
pub const ATTEMPTS: i64 = 3;

/// Leases whose length was not written down: those of a version before.
const UNKNOWN_LEASE_MS: i64 = 24 * 3_600_000;

/// Jobs are claimed by one node at a time, so that an account's cap holds.
const CLAIM_LOCK: i64 = 0x4155_5249;

/// A job that this worker holds.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: TranscriptId,
    pub account: AccountId,
    pub lease: LeaseId,
    pub source: Source,
    pub model: String,
    pub language_code: Option<String>,
    pub options: Value,
    /// This one counted: 1 the first time.
    pub attempt: i64,
}

/// A transcript that is done.
#[derive(Clone, Debug)]
pub struct Finished {
    pub text: String,
    /// A JSON array of word objects.
    pub words: String,
    pub confidence: Option<f64>,
    pub language_code: Option<String>,
    pub duration_ms: i64,
    /// What it costs.
    pub sku: &'static str,
    pub unit_type: &'static str,
    pub cents: i64,
}

/// How a job ends.
#[derive(Clone, Debug)]
pub enum Outcome {
    Completed(Finished),
    Failed(String),
}

impl Store {
    /// Whether a job waits whose time has come: asked often, and cheap, because nothing is locked.
    pub async fn has_queued_jobs(&self) -> Result<bool> {
        let row = sqlx::query("SELECT 1 AS one FROM transcripts WHERE status = 'queued' AND not_before <= $1 LIMIT 1")
            .bind(clock::now_ms())
            .fetch_optional(&self.read)
            .await?;
        Ok(row.is_some())
    }

    /// Claims the oldest job whose account has fewer than its cap at work: `cap`, or `cap_subscribed`.
    pub async fn claim_job(&self, cap: i64, cap_subscribed: i64, lease_ms: i64) -> Result<Option<Job>> {
        let now = clock::now_ms();
        let mut tx = self.begin().await?;
        self.lock(&mut tx, CLAIM_LOCK).await?;
        let row = sqlx::query(
            "SELECT t.id, t.account_id, t.audio_url, t.upload_id, t.model, t.language_code, t.options, t.attempts
             FROM transcripts t JOIN accounts a ON a.id = t.account_id
             WHERE t.status = 'queued' AND t.not_before <= $1
               AND (SELECT COUNT(*) FROM transcripts r WHERE r.account_id = t.account_id AND r.status = 'processing')
                   < CASE WHEN a.subscribed = 1 THEN $2 ELSE $3 END
             ORDER BY t.created_at, t.id LIMIT 1",
        )
        .bind(now)
        .bind(cap_subscribed)
        .bind(cap)
        .fetch_optional(&mut *tx)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let options: String = row.try_get("options")?;
        let source = match row.try_get::<Option<String>, _>("upload_id")? {
            Some(upload) => Source::Upload(upload.into()),
            None => Source::Url(row.try_get::<Option<String>, _>("audio_url")?.unwrap_or_default()),
        };
        let job = Job {
            id: row.try_get::<String, _>("id")?.into(),
            account: row.try_get::<String, _>("account_id")?.into(),
            lease: LeaseId::new(),
            source,
            model: row.try_get("model")?,
            language_code: row.try_get("language_code")?,
            options: serde_json::from_str(&options).unwrap_or_default(),
            attempt: row.try_get::<i64, _>("attempts")? + 1,
        };
        sqlx::query(
            "UPDATE transcripts SET status = 'processing', attempts = $1, lease = $2, lease_until = $3, lease_ms = $4,
                    progress_ms = 0
             WHERE id = $5",
        )
        .bind(job.attempt)
        .bind(job.lease.as_str())
        .bind(now + lease_ms)
        .bind(lease_ms)
        .bind(job.id.as_str())
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(Some(job))
    }

    /// Prolongs the lease and notes how much audio is done. False if the job is no longer this worker's: deleted, or
    /// given to another.
    pub async fn heartbeat(&self, job: &Job, lease_ms: i64, progress_ms: i64) -> Result<bool> {
        let done = sqlx::query(
            "UPDATE transcripts SET lease_until = $1, lease_ms = $2, progress_ms = $3
             WHERE id = $4 AND lease = $5 AND status = 'processing'",
        )
        .bind(clock::now_ms() + lease_ms)
        .bind(lease_ms)
        .bind(progress_ms)
        .bind(job.id.as_str())
        .bind(job.lease.as_str())
        .execute(&self.write)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Ends a job: its status, its usage event and its notification, all or none. False if the job is no longer this
    /// worker's.
    pub async fn finish_job(&self, job: &Job, outcome: &Outcome) -> Result<bool> {
        let now = clock::now_ms();
        let mut tx = self.begin().await?;
        let ended = match outcome {
            Outcome::Completed(done) => {
                sqlx::query(
                    "UPDATE transcripts SET status = 'completed', text = $1, words = $2, confidence = $3,
                            language_code = COALESCE($4, language_code), duration_ms = $5, completed_at = $6,
                            lease = NULL, lease_until = NULL
                     WHERE id = $7 AND lease = $8 AND status = 'processing'",
                )
                .bind(&done.text)
                .bind(&done.words)
                .bind(done.confidence)
                .bind(done.language_code.as_deref())
                .bind(done.duration_ms)
                .bind(now)
                .bind(job.id.as_str())
                .bind(job.lease.as_str())
                .execute(&mut *tx)
                .await?
            }
            Outcome::Failed(reason) => {
                sqlx::query(
                    "UPDATE transcripts SET status = 'error', error = $1, completed_at = $2, lease = NULL, lease_until = NULL
                     WHERE id = $3 AND lease = $4 AND status = 'processing'",
                )
                .bind(reason)
                .bind(now)
                .bind(job.id.as_str())
                .bind(job.lease.as_str())
                .execute(&mut *tx)
                .await?
            }
        };
        if ended.rows_affected() == 0 {
            return Ok(false);
        }
        if let Outcome::Completed(done) = outcome {
            let event = NewUsage {
                account: &job.account,
                sku: done.sku,
                unit_type: done.unit_type,
                quantity_ms: done.duration_ms,
                cents: done.cents,
                transcript: Some(&job.id),
                session: None,
            };
            usage::record(&mut tx, self.dialect, &event, now).await?;
        }
        enqueue_webhook(&mut tx, &job.id, now).await?;
        self.notify(&mut tx, Topic::Webhooks).await?;
        // The account may have another that waited for this one to end.
        self.notify(&mut tx, Topic::Jobs).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Gives a job back, to be begun again after `delay_ms`; `counted` if the attempt counts.
    pub async fn release_job(&self, job: &Job, delay_ms: i64, counted: Counted) -> Result<()> {
        sqlx::query(
            "UPDATE transcripts SET status = 'queued', lease = NULL, lease_until = NULL, not_before = $1, attempts = $2
             WHERE id = $3 AND lease = $4 AND status = 'processing'",
        )
        .bind(clock::now_ms() + delay_ms)
        .bind(job.attempt - i64::from(counted == Counted::No))
        .bind(job.id.as_str())
        .bind(job.lease.as_str())
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Takes jobs back whose worker has died: to be begun again, or failed after the last attempt. A lease that ends
    /// further ahead than it was ever set was given before the clock was put back: it has ended, too. Nodes' clocks may
    /// differ by a minute.
    pub async fn reap_jobs(&self) -> Result<u64> {
        let now = clock::now_ms();
        let mut tx = self.begin().await?;
        let dead: Vec<String> = sqlx::query_scalar(
            "SELECT id FROM transcripts WHERE status = 'processing' AND attempts >= $1
               AND (lease_until IS NULL OR lease_until < $2 OR lease_until > $2 + 60000 + 2 * COALESCE(lease_ms, $3))",
        )
        .bind(ATTEMPTS)
        .bind(now)
        .bind(UNKNOWN_LEASE_MS)
        .fetch_all(&mut *tx)
        .await?;
        for id in dead.into_iter().map(TranscriptId::from) {
            sqlx::query(
                "UPDATE transcripts SET status = 'error', error = $1, completed_at = $2, lease = NULL, lease_until = NULL
                 WHERE id = $3 AND status = 'processing'",
            )
            .bind(format!("The service stopped {ATTEMPTS} times while it worked on this file. Create the transcript again."))
            .bind(now)
            .bind(id.as_str())
            .execute(&mut *tx)
            .await?;
            enqueue_webhook(&mut tx, &id, now).await?;
        }
        let back = sqlx::query(
            "UPDATE transcripts SET status = 'queued', lease = NULL, lease_until = NULL
             WHERE status = 'processing'
               AND (lease_until IS NULL OR lease_until < $1 OR lease_until > $1 + 60000 + 2 * COALESCE(lease_ms, $2))",
        )
        .bind(now)
        .bind(UNKNOWN_LEASE_MS)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(back.rows_affected())
    }

    /// At the start of the only node of a database: whatever was in work, is in work no more.
    pub async fn release_all_jobs(&self) -> Result<()> {
        if self.is_shared() {
            return Ok(());
        }
        sqlx::query("UPDATE transcripts SET lease_until = 0 WHERE status = 'processing'").execute(&self.write).await?;
        Ok(())
    }

    /// Whether other nodes may work on the same database.
    pub fn is_shared(&self) -> bool {
        self.dialect == super::Dialect::Postgres
    }
}

/// Whether giving a job back counts as one of its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    Yes,
    /// The service stops: that is not the job's fault.
    No,
}

/// Writes the notification of a transcript's end, where one was asked for.
async fn enqueue_webhook(tx: &mut Tx, id: &TranscriptId, now: i64) -> Result<()> {
    sqlx::query(
        "INSERT INTO webhooks (id, account_id, transcript_id, event, url, state, due_at, wait_ms, created_at)
         SELECT $1, account_id, id, CASE WHEN status = 'completed' THEN 'transcript.completed' ELSE 'transcript.error' END,
                webhook_url, 'pending', $2, 0, $2
         FROM transcripts WHERE id = $3 AND webhook_url IS NOT NULL",
    )
    .bind(DeliveryId::new().as_str())
    .bind(now)
    .bind(id.as_str())
    .execute(&mut **tx)
    .await?;
    Ok(())
}
