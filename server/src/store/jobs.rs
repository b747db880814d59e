//! Jobs of transcripts: claimed with a lease, kept by heartbeats, finished once.
//!
//! Every write of a worker names its lease. A worker that lost its lease changes nothing.

use std::collections::HashSet;

use sqlx::Row as _;

use super::job_options::JobOptions;
use super::transcripts::{Source, stored_warnings};
use super::usage::{self, NewUsage};
use super::waveforms::{self, Waveform};
use super::{Result, Store, Topic, Tx, account_list, not_listed, webhook_outbox};
use crate::clock;
use crate::ids::{AccountId, LeaseId, TranscriptId};

/// The most attempts at a job. An attempt that ends with the worker's death counts half: other jobs may have been its cause.
const MAX_ATTEMPTS: i64 = 3;

/// Lifetime of leases without a recorded one, which an older version has written.
const UNKNOWN_LEASE_MS: i64 = 24 * 3_600_000;

/// The lock of claiming: one node claims at a time, so that the limit per account holds.
const CLAIM_LOCK: i64 = 0x4155_5249;

/// A claimed job.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: TranscriptId,
    pub account: AccountId,
    pub lease: LeaseId,
    pub source: Source,
    pub model: String,
    pub language_code: Option<String>,
    /// The options, or why they cannot be read.
    pub options: std::result::Result<JobOptions, String>,
    /// Number of this attempt, from 1, without those that ended with the worker's death.
    pub attempt: i64,
    /// Number of earlier attempts that ended with the worker's death.
    pub deaths: i64,
}

impl Job {
    /// Tells if the job ends with a failure of this attempt.
    pub fn is_last_attempt(&self) -> bool {
        2 * self.attempt + self.deaths >= 2 * MAX_ATTEMPTS
    }

    /// Tells if the job may have killed workers and has one attempt left. It then runs alone, so that no other job is counted
    /// as the cause.
    pub fn runs_alone(&self) -> bool {
        self.deaths > 0 && self.is_last_attempt()
    }
}

/// The jobs to claim one of.
#[derive(Clone, Copy, Debug)]
pub struct JobQuery<'a> {
    pub sources: SourceKind,
    /// Accounts whose jobs are left out.
    pub skip: &'a HashSet<AccountId>,
    /// Jobs of an account that run at a time, without and with a subscription.
    pub parallel: i64,
    pub parallel_subscribed: i64,
}

#[cfg(test)]
impl JobQuery<'static> {
    /// All jobs with this kind of source, five of an account at a time.
    pub fn five(sources: SourceKind) -> Self {
        static NONE: std::sync::LazyLock<HashSet<AccountId>> = std::sync::LazyLock::new(HashSet::new);
        Self { sources, skip: &NONE, parallel: 5, parallel_subscribed: 5 }
    }
}

/// Where the audio of jobs comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Files in the object store.
    Uploads,
    /// Files at URLs.
    Urls,
    /// Both.
    Any,
}

impl SourceKind {
    /// The value of each kind in the query of [`Store::claim_job`].
    fn code(self) -> i64 {
        match self {
            Self::Uploads => 0,
            Self::Urls => 1,
            Self::Any => 2,
        }
    }
}

/// The result of a job.
#[derive(Clone, Debug)]
pub struct CompletedTranscript {
    pub text: String,
    /// A JSON array of word objects.
    pub words: String,
    /// A JSON array of utterances, where speaker labels were asked for.
    pub utterances: Option<String>,
    pub confidence: Option<f64>,
    pub language_code: Option<String>,
    pub duration_ms: i64,
    pub waveform: Waveform,
    /// The analysis, as a JSON object.
    pub analysis: Option<String>,
    /// What the client should know of the work, beside the warnings of the request.
    pub warnings: Vec<String>,
    /// The options without what must not be kept; none if they stay as they are.
    pub options: Option<String>,
    /// The model that is billed.
    pub sku: &'static str,
    pub unit_type: &'static str,
    pub cents: i64,
}

/// The end of a job.
#[derive(Clone, Debug)]
pub enum Outcome {
    Completed(Box<CompletedTranscript>),
    /// With a reason for the user.
    Failed(String),
}

/// The warnings of a transcript's request, then those of its work, as they are stored.
async fn all_warnings(tx: &mut Tx, id: &TranscriptId, later: &[String]) -> Result<Option<String>> {
    let stored: Option<Option<String>> = sqlx::query_scalar("SELECT warnings FROM transcripts WHERE id = $1")
        .bind(id.as_str())
        .fetch_optional(&mut **tx)
        .await?;
    let earlier: Vec<String> =
        stored.flatten().and_then(|stored| serde_json::from_str(&stored).ok()).unwrap_or_default();
    Ok(stored_warnings(earlier.iter().chain(later)))
}

/// An assignment that erases the options of a failed job if voices are among them. Quotes of a user's words are escaped there.
macro_rules! without_voices {
    () => {
        "options = CASE WHEN options LIKE '%\"known_speakers\":%' THEN '{}' ELSE options END"
    };
}

impl Store {
    /// Tells if a job is due. This frequent query takes no lock.
    pub async fn has_queued_jobs(&self) -> Result<bool> {
        let row = sqlx::query("SELECT 1 AS one FROM transcripts WHERE status = 'queued' AND not_before <= $1 LIMIT 1")
            .bind(clock::now_ms())
            .fetch_optional(&self.read)
            .await?;
        Ok(row.is_some())
    }

    /// Claims the oldest due job of the accounts below their limit of running jobs. An account's jobs start in their order: if
    /// its first one has the other kind of source, none of it is claimed.
    pub async fn claim_job(&self, jobs: JobQuery<'_>, lease_ms: i64) -> Result<Option<Job>> {
        let now = clock::now_ms();
        let mut tx = self.begin().await?;
        self.lock(&mut tx, CLAIM_LOCK).await?;
        let row = sqlx::query(concat!(
            "SELECT t.id, t.account_id, t.audio_url, t.upload_id, t.model, t.language_code, t.options, t.attempts, t.deaths
             FROM transcripts t
             WHERE t.status = 'queued' AND t.not_before <= $1
               AND $4 IN (CASE WHEN t.upload_id IS NULL THEN 1 ELSE 0 END, 2) AND ",
            not_listed!("$5", "t.account_id"),
            " AND t.account_id NOT IN (
                   SELECT r.account_id FROM transcripts r JOIN accounts a ON a.id = r.account_id
                   WHERE r.status = 'processing' GROUP BY r.account_id, a.subscribed
                   HAVING COUNT(*) >= CASE WHEN a.subscribed = 1 THEN $2 ELSE $3 END)
               AND NOT EXISTS (
                   SELECT 1 FROM transcripts o
                   WHERE o.account_id = t.account_id AND o.status = 'queued' AND o.not_before <= $1
                     AND (o.created_at < t.created_at OR (o.created_at = t.created_at AND o.id < t.id)))
             ORDER BY t.created_at, t.id LIMIT 1",
        ))
        .bind(now)
        .bind(jobs.parallel_subscribed)
        .bind(jobs.parallel)
        .bind(jobs.sources.code())
        .bind(account_list(jobs.skip))
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
            options: JobOptions::read(&options),
            attempt: row.try_get::<i64, _>("attempts")? + 1,
            deaths: row.try_get("deaths")?,
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

    /// Records how long the audio of a job is.
    pub async fn set_duration(&self, job: &Job, duration_ms: i64) -> Result<()> {
        sqlx::query("UPDATE transcripts SET duration_ms = $1 WHERE id = $2 AND lease = $3")
            .bind(duration_ms)
            .bind(job.id.as_str())
            .bind(job.lease.as_str())
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// Reserves the cost of a job, now that its duration is known. True if its first reservation covers it, if there is a
    /// subscription, or if any credit is left besides what other work has reserved: so a job may outgrow the credit, but not
    /// several at a time.
    pub async fn reserve(&self, job: &Job, cents: i64) -> Result<bool> {
        let mut tx = self.begin().await?;
        let allowance = self.locked_allowance(&mut tx, &job.account).await?;
        let reserved: Option<i64> =
            sqlx::query_scalar("SELECT reserved_cents FROM transcripts WHERE id = $1 AND lease = $2")
                .bind(job.id.as_str())
                .bind(job.lease.as_str())
                .fetch_optional(&mut *tx)
                .await?;
        // A worker notices a lost lease with its heartbeat.
        let Some(reserved) = reserved.filter(|reserved| *reserved < cents) else { return Ok(true) };
        if !allowance.subscribed && allowance.balance <= allowance.reserved - reserved {
            return Ok(false);
        }
        sqlx::query("UPDATE transcripts SET reserved_cents = $1 WHERE id = $2")
            .bind(cents)
            .bind(job.id.as_str())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Renews the lease and records the progress and its cost. False if the lease is lost: the job was deleted or given to
    /// another worker.
    pub async fn heartbeat(&self, job: &Job, lease_ms: i64, progress_ms: i64, cents: i64) -> Result<bool> {
        let done = sqlx::query(
            "UPDATE transcripts SET lease_until = $1, lease_ms = $2, progress_ms = $3,
                    reserved_cents = CASE WHEN reserved_cents < $6 THEN $6 ELSE reserved_cents END
             WHERE id = $4 AND lease = $5 AND status = 'processing'",
        )
        .bind(clock::now_ms() + lease_ms)
        .bind(lease_ms)
        .bind(progress_ms)
        .bind(job.id.as_str())
        .bind(job.lease.as_str())
        .bind(cents)
        .execute(&self.write)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Ends a job: writes its status, usage event and webhook in one transaction. False if the lease is lost.
    pub async fn finish_job(&self, job: &Job, outcome: &Outcome) -> Result<bool> {
        let now = clock::now_ms();
        let mut tx = self.begin().await?;
        let ended = match outcome {
            Outcome::Completed(done) => {
                let warnings = all_warnings(&mut tx, &job.id, &done.warnings).await?;
                sqlx::query(
                    "UPDATE transcripts SET status = 'completed', text = $1, words = $2,
                            confidence = CAST($3 AS DOUBLE PRECISION),
                            language_code = COALESCE($4, language_code), duration_ms = $5, completed_at = $6,
                            analysis = $7, options = COALESCE($8, options), utterances = $9, warnings = $10,
                            lease = NULL, lease_until = NULL
                     WHERE id = $11 AND lease = $12 AND status = 'processing'",
                )
                .bind(&done.text)
                .bind(&done.words)
                // sqlx sends a missing f64 as a missing f32 to PostgreSQL, and a statement keeps the types of its first use.
                .bind(done.confidence.map(|confidence| confidence.to_string()))
                .bind(done.language_code.as_deref())
                .bind(done.duration_ms)
                .bind(now)
                .bind(done.analysis.as_deref())
                .bind(done.options.as_deref())
                .bind(done.utterances.as_deref())
                .bind(warnings)
                .bind(job.id.as_str())
                .bind(job.lease.as_str())
                .execute(&mut *tx)
                .await?
            }
            Outcome::Failed(reason) => {
                sqlx::query(concat!(
                    "UPDATE transcripts SET status = 'error', error = $1, completed_at = $2, lease = NULL, lease_until = NULL, ",
                    without_voices!(),
                    " WHERE id = $3 AND lease = $4 AND status = 'processing'",
                ))
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
            waveforms::keep(&mut tx, &job.id, &done.waveform).await?;
        }
        webhook_outbox::enqueue(&mut tx, &job.id, now).await?;
        self.notify(&mut tx, Topic::Webhooks).await?;
        // Another job of the account may have waited for this one.
        self.notify(&mut tx, Topic::Jobs).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Releases a job. It is due again after `delay_ms`.
    pub async fn release_job(&self, job: &Job, delay_ms: i64, count: AttemptCount) -> Result<()> {
        sqlx::query(
            "UPDATE transcripts SET status = 'queued', lease = NULL, lease_until = NULL, not_before = $1, attempts = $2
             WHERE id = $3 AND lease = $4 AND status = 'processing'",
        )
        .bind(clock::now_ms() + delay_ms)
        .bind(job.attempt - i64::from(count == AttemptCount::NotCounted))
        .bind(job.id.as_str())
        .bind(job.lease.as_str())
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Requeues jobs with an expired lease, or fails them after the last attempt. Returns the number of requeued jobs. A lease
    /// that ends too far ahead was set before the clock was set back, and counts as expired. Nodes' clocks may differ by a
    /// minute.
    pub async fn requeue_expired_jobs(&self) -> Result<u64> {
        let now = clock::now_ms();
        let mut tx = self.begin().await?;
        // One statement: a heartbeat or another node may come between two.
        let failed = sqlx::query(concat!(
            "UPDATE transcripts SET status = 'error', completed_at = $2, lease = NULL, lease_until = NULL, ",
            without_voices!(),
            ", error = 'The service stopped ' || (deaths + 1) ||
                            ' times while it worked on this file. Create the transcript again.'
             WHERE status = 'processing' AND 2 * attempts + deaths > $1
               AND (lease_until IS NULL OR lease_until < $2 OR lease_until > $2 + 60000 + 2 * COALESCE(lease_ms, $3))
             RETURNING id",
        ))
        // The last attempt turns from two halves into one.
        .bind(2 * MAX_ATTEMPTS)
        .bind(now)
        .bind(UNKNOWN_LEASE_MS)
        .fetch_all(&mut *tx)
        .await?;
        for row in failed {
            let id = TranscriptId::from(row.try_get::<String, _>("id")?);
            tracing::warn!(job = %id, "gave up jobs of a dead worker");
            webhook_outbox::enqueue(&mut tx, &id, now).await?;
        }
        let requeued = sqlx::query(
            "UPDATE transcripts SET status = 'queued', lease = NULL, lease_until = NULL, attempts = attempts - 1,
                    deaths = deaths + 1
             WHERE status = 'processing'
               AND (lease_until IS NULL OR lease_until < $1 OR lease_until > $1 + 60000 + 2 * COALESCE(lease_ms, $2))",
        )
        .bind(now)
        .bind(UNKNOWN_LEASE_MS)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(requeued.rows_affected())
    }

    /// Expires the leases of the previous process, if no other node shares the database.
    pub async fn expire_all_leases(&self) -> Result<()> {
        if self.is_shared() {
            return Ok(());
        }
        sqlx::query("UPDATE transcripts SET lease_until = 0 WHERE status = 'processing'").execute(&self.write).await?;
        Ok(())
    }

    /// Tells if other nodes may use the same database.
    pub fn is_shared(&self) -> bool {
        self.dialect == super::Dialect::Postgres
    }
}

/// Tells if a released job has used up an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptCount {
    Counted,
    /// The service stops, which is not the job's fault.
    NotCounted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Durability, NewTranscript, Status};

    #[tokio::test]
    async fn a_job_that_fails_keeps_no_voices() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
        let account = store.account_of("a@example.com", 100).await.unwrap().id;
        let voices = JobOptions { known_speakers: Some("sealed".into()), ..JobOptions::default() };
        let words = JobOptions {
            keyterms_prompt: Some(vec![r#""known_speakers":"#.into()]),
            speaker_labels: true,
            ..JobOptions::default()
        };
        for dies in [false, true] {
            for (options, kept) in [(&voices, &JobOptions::default()), (&words, &words)] {
                let new = NewTranscript { options: options.clone(), ..NewTranscript::of_url(&account) };
                store.create_transcript(&new, None).await.unwrap();
                let job = store.claim_job(JobQuery::five(SourceKind::Urls), 1000).await.unwrap().unwrap();
                assert_eq!(job.options.as_ref(), Ok(options));
                if dies {
                    sqlx::query("UPDATE transcripts SET lease_until = 0, deaths = 9 WHERE lease IS NOT NULL")
                        .execute(&store.write)
                        .await
                        .unwrap();
                    assert_eq!(store.requeue_expired_jobs().await.unwrap(), 0);
                } else {
                    assert!(store.finish_job(&job, &Outcome::Failed("No audio.".into())).await.unwrap());
                }
                let transcript = store.transcript(&account, &new.id).await.unwrap().unwrap();
                assert_eq!((transcript.status, &transcript.options), (Status::Error, kept));
            }
        }
    }
}
