//! Deletes stale uploads and expired records.

use sqlx::{AssertSqlSafe, Row as _};

use super::sign_ins::SIGN_IN_MS;
use super::transcripts::IDEMPOTENCY_MS;
use super::uploads::StaleUpload;
use super::{Result, Store};
use crate::clock;
use crate::ids::UploadId;

const DAY_MS: i64 = 24 * 3_600_000;

/// Lifetime of closed webhooks, which are kept for inspection.
const WEBHOOKS_MS: i64 = 30 * DAY_MS;

/// Lifetime of the records of letters.
const MAILS_MS: i64 = 30 * DAY_MS;

/// Lifetime of the ids of payment events, which the provider repeats for some days.
const PAYMENT_EVENTS_MS: i64 = 90 * DAY_MS;

/// Stale uploads per query.
const BATCH: usize = 500;

impl Store {
    /// Deletes stale uploads that were signed before `before` and whose URLs have expired, and queues their objects for
    /// deletion. Returns their number.
    pub async fn delete_stale_uploads(&self, stale: StaleUpload, before: i64) -> Result<u64> {
        let query = format!(
            "SELECT id FROM uploads WHERE created_at < $1 AND expires_at < $2 AND {} LIMIT {BATCH}",
            stale.condition()
        );
        let mut deleted = 0;
        loop {
            // The search runs outside the transactions, so it blocks no writer.
            let found: Vec<String> = sqlx::query_scalar(AssertSqlSafe(query.clone()))
                .bind(before)
                .bind(clock::now_ms())
                .fetch_all(&self.read)
                .await?;
            let deleted_before = deleted;
            for id in &found {
                let mut tx = self.begin().await?;
                deleted += u64::from(self.delete_if_stale(&mut tx, &UploadId::from(id.clone()), stale).await?);
                tx.commit().await?;
            }
            if found.len() < BATCH || deleted == deleted_before {
                return Ok(deleted);
            }
        }
    }

    /// Deletes transcripts that ended before `before`, with their uploads. Returns their number.
    pub async fn delete_old_transcripts(&self, before: i64) -> Result<u64> {
        let query = format!("SELECT id, account_id FROM transcripts WHERE completed_at < $1 LIMIT {BATCH}");
        let mut deleted = 0;
        loop {
            let found = sqlx::query(AssertSqlSafe(query.clone())).bind(before).fetch_all(&self.read).await?;
            let deleted_before = deleted;
            for row in &found {
                let (id, account): (String, String) = (row.try_get("id")?, row.try_get("account_id")?);
                deleted += u64::from(self.delete_transcript(&account.into(), &id.into()).await?);
            }
            if found.len() < BATCH || deleted == deleted_before {
                return Ok(deleted);
            }
        }
    }

    /// A batch of objects whose deletion is due.
    pub async fn orphaned_objects(&self) -> Result<Vec<String>> {
        sqlx::query_scalar("SELECT object_key FROM orphans WHERE due_at <= $1 ORDER BY created_at LIMIT 100")
            .bind(clock::now_ms())
            .fetch_all(&self.read)
            .await
    }

    /// Records that an object was deleted. It is due once more when its signed URL has expired.
    pub async fn mark_object_deleted(&self, object_key: &str) -> Result<()> {
        let mut tx = self.begin().await?;
        let now = clock::now_ms();
        sqlx::query("UPDATE orphans SET due_at = until_at WHERE object_key = $1 AND until_at > $2")
            .bind(object_key)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        sqlx::query("DELETE FROM orphans WHERE object_key = $1 AND until_at <= $2")
            .bind(object_key)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        tx.commit().await
    }

    /// Deletes expired webhooks, payment events, idempotency keys, calls that did not come, sign-ins, links, invitations, letters and rotated webhook secrets.
    pub async fn delete_expired_records(&self) -> Result<()> {
        let now = clock::now_ms();
        for (sql, before) in [
            ("DELETE FROM webhooks WHERE state <> 'pending' AND created_at < $1", now - WEBHOOKS_MS),
            ("DELETE FROM payment_notices WHERE created_at < $1", now - PAYMENT_EVENTS_MS),
            ("DELETE FROM idempotency_keys WHERE created_at < $1", now - IDEMPOTENCY_MS),
            ("DELETE FROM calls WHERE expires_at < $1", now),
            ("DELETE FROM password_links WHERE expires_at < $1", now),
            ("DELETE FROM invitations WHERE expires_at < $1", now),
            ("DELETE FROM sign_up_links WHERE expires_at < $1", now),
            ("DELETE FROM share_links WHERE expires_at < $1", now),
            ("DELETE FROM mails WHERE state = 'pending' AND expires_at < $1", now),
            ("DELETE FROM mails WHERE state <> 'pending' AND created_at < $1", now - MAILS_MS),
            ("DELETE FROM sign_ins WHERE expires_at < $1", now),
            ("UPDATE webhook_secrets SET previous_sealed = NULL, previous_until = NULL WHERE previous_until < $1", now),
            // A live session may still name the key of a sign-in that has ended.
            (
                "DELETE FROM api_keys WHERE of_sign_in = 1 AND created_at < $1
                 AND NOT EXISTS (SELECT 1 FROM sign_ins WHERE key_id = api_keys.id)",
                now - 2 * SIGN_IN_MS,
            ),
        ] {
            sqlx::query(sql).bind(before).execute(&self.write).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ids::TranscriptId;
    use crate::store::uploads::MAX_PUT_MS;
    use crate::store::{
        Account, Durability, JobOptions, JobQuery, NewTranscript, Source, SourceKind, Upload, UploadStatus, object_key,
        redacted_audio_key,
    };

    async fn open() -> (tempfile::TempDir, Store, Account) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
        let account = store.account_of("a@example.com", 100).await.unwrap();
        (folder, store, account)
    }

    async fn upload(store: &Store, account: &Account, status: UploadStatus, expires_at: i64) -> Upload {
        let upload = Upload {
            id: UploadId::new(),
            account: account.id.clone(),
            filename: "a.wav".into(),
            content_type: "audio/wav".into(),
            declared_bytes: None,
            status,
            expires_at,
        };
        store.create_upload(&upload).await.unwrap();
        upload
    }

    async fn transcript(store: &Store, account: &Account, upload: &Upload) -> TranscriptId {
        transcript_with(store, account, upload, JobOptions::default()).await
    }

    async fn transcript_with(store: &Store, account: &Account, upload: &Upload, options: JobOptions) -> TranscriptId {
        let source = Source::Upload(upload.id.clone());
        let new = NewTranscript { source, options, ..NewTranscript::of_url(&account.id) };
        store.create_transcript(&new, Some((upload.id.as_str(), "hash"))).await.unwrap();
        new.id
    }

    #[tokio::test]
    async fn incomplete_and_unused_uploads_are_deleted() {
        let (_folder, store, account) = open().await;
        let now = clock::now_ms();
        let unfinished = upload(&store, &account, UploadStatus::Pending, now - 1).await;
        let unused = upload(&store, &account, UploadStatus::Ready, now - 1).await;
        let used = upload(&store, &account, UploadStatus::Ready, now - 1).await;
        let open = upload(&store, &account, UploadStatus::Pending, now + 60_000).await;
        transcript(&store, &account, &used).await;
        for (stale, before, deleted) in [
            (StaleUpload::Incomplete, now - DAY_MS, 0),
            (StaleUpload::Unused, now - DAY_MS, 0),
            (StaleUpload::Incomplete, now + DAY_MS, 1),
            (StaleUpload::Unused, now + DAY_MS, 1),
            (StaleUpload::Unused, now + DAY_MS, 0),
        ] {
            assert_eq!(store.delete_stale_uploads(stale, before).await.unwrap(), deleted, "{stale:?} {before}");
        }
        for (upload, there) in [(&unfinished, false), (&unused, false), (&used, true), (&open, true)] {
            assert_eq!(store.upload(&upload.id).await.unwrap().is_some(), there);
        }
        let mut orphans = store.orphaned_objects().await.unwrap();
        orphans.sort();
        let mut expected = [&unfinished, &unused].map(|upload| object_key(&account.id, &upload.id));
        expected.sort();
        assert_eq!(orphans, expected);
    }

    #[tokio::test]
    async fn the_upload_of_a_refused_request_is_deleted_unless_a_transcript_uses_it() {
        let (_folder, store, account) = open().await;
        let now = clock::now_ms();
        let pending = upload(&store, &account, UploadStatus::Pending, now + DAY_MS).await;
        let ready = upload(&store, &account, UploadStatus::Ready, now + DAY_MS).await;
        let used = upload(&store, &account, UploadStatus::Ready, now + DAY_MS).await;
        transcript(&store, &account, &used).await;
        for (upload, there) in [(&pending, false), (&ready, false), (&used, true)] {
            store.delete_refused_upload(&upload.id).await.unwrap();
            assert_eq!(store.upload(&upload.id).await.unwrap().is_some(), there);
            let orphans = store.orphaned_objects().await.unwrap();
            assert_eq!(orphans.contains(&upload.object_key()), !there, "{orphans:?}");
        }
    }

    #[tokio::test]
    async fn a_redacted_recording_is_deleted_with_its_transcript() {
        let (_folder, store, account) = open().await;
        let upload = upload(&store, &account, UploadStatus::Ready, 0).await;
        let plain = transcript(&store, &account, &upload).await;
        let upload = self::upload(&store, &account, UploadStatus::Ready, 0).await;
        let options = JobOptions { redact_audio: Some("beep".into()), ..JobOptions::default() };
        let redacted = transcript_with(&store, &account, &upload, options).await;
        for id in [&plain, &redacted] {
            assert!(store.delete_transcript(&account.id, id).await.unwrap());
        }
        let orphans = store.orphaned_objects().await.unwrap();
        assert!(orphans.contains(&redacted_audio_key(&account.id, &redacted)), "{orphans:?}");
        assert!(!orphans.contains(&redacted_audio_key(&account.id, &plain)), "{orphans:?}");
    }

    #[tokio::test]
    async fn no_transcript_is_created_from_a_deleted_upload() {
        let (_folder, store, account) = open().await;
        let upload = upload(&store, &account, UploadStatus::Ready, 0).await;
        let first = transcript(&store, &account, &upload).await;
        assert!(store.delete_transcript(&account.id, &first).await.unwrap());
        let second = transcript(&store, &account, &upload).await;
        assert!(store.transcript(&account.id, &second).await.unwrap().is_none());
        let known = store.find_idempotent(&account.id, upload.id.as_str(), "hash").await.unwrap();
        assert!(known.is_none(), "the request may be repeated");
    }

    #[tokio::test]
    async fn an_object_is_deleted_again_after_its_url_has_expired() {
        let (_folder, store, account) = open().await;
        let upload = upload(&store, &account, UploadStatus::Ready, clock::now_ms() - MAX_PUT_MS + 400).await;
        let transcript = transcript(&store, &account, &upload).await;
        assert!(store.delete_transcript(&account.id, &transcript).await.unwrap());
        assert!(!store.confirm_upload(&upload, 1).await.unwrap());
        let key = object_key(&account.id, &upload.id);
        assert_eq!(store.orphaned_objects().await.unwrap(), [key.as_str()]);
        store.mark_object_deleted(&key).await.unwrap();
        assert!(store.orphaned_objects().await.unwrap().is_empty());
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(store.orphaned_objects().await.unwrap(), [key.as_str()]);
        store.mark_object_deleted(&key).await.unwrap();
        assert!(store.orphaned_objects().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn recent_records_are_kept() {
        let (_folder, store, account) = open().await;
        let upload = upload(&store, &account, UploadStatus::Ready, 0).await;
        transcript(&store, &account, &upload).await;
        store.delete_expired_records().await.unwrap();
        let known = || store.find_idempotent(&account.id, upload.id.as_str(), "hash");
        assert!(known().await.unwrap().is_some());
        sqlx::query("UPDATE idempotency_keys SET created_at = $1")
            .bind(clock::now_ms() - IDEMPOTENCY_MS - 1)
            .execute(&store.write)
            .await
            .unwrap();
        store.delete_expired_records().await.unwrap();
        let left: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM idempotency_keys").fetch_one(&store.read).await.unwrap();
        assert_eq!(left, 0);
    }

    #[tokio::test]
    async fn a_lease_lasts_as_long_as_its_worker_has_set() {
        let (_folder, store, account) = open().await;
        let upload = upload(&store, &account, UploadStatus::Ready, 0).await;
        transcript(&store, &account, &upload).await;
        let job = store.claim_job(JobQuery::five(SourceKind::Uploads), 30 * DAY_MS).await.unwrap().unwrap();
        assert_eq!(store.requeue_expired_jobs().await.unwrap(), 0);
        // The lease ends too far ahead: the clock was set back.
        sqlx::query("UPDATE transcripts SET lease_until = lease_until + $1")
            .bind(31 * DAY_MS)
            .execute(&store.write)
            .await
            .unwrap();
        assert_eq!(store.requeue_expired_jobs().await.unwrap(), 1);
        assert!(!store.heartbeat(&job, 1000, 0, 0).await.unwrap());
    }
}
