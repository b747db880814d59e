//! What nobody asks for any more: forgotten after a while, so that the database does not grow for ever.

use super::transcripts::IDEMPOTENCY_MS;
use super::{Result, Store};
use crate::clock;

const DAY_MS: i64 = 24 * 3_600_000;

/// Webhooks that were delivered or given up are kept so long, for whoever looks into what became of one.
const WEBHOOKS_MS: i64 = 30 * DAY_MS;

/// Payment notices are repeated for some days at most.
const NOTICES_MS: i64 = 90 * DAY_MS;

impl Store {
    /// Forgets uploads that were signed before `unfinished` and never completed, and those that were signed before
    /// `unused` and that no transcript is made of; their objects become orphans.
    pub async fn drop_stale_uploads(&self, unfinished: i64, unused: i64) -> Result<u64> {
        let mut tx = self.begin().await?;
        let gone = sqlx::query(
            "INSERT INTO orphans (object_key, created_at, until_at)
             SELECT 'uploads/' || account_id || '/' || id, $1, expires_at FROM uploads
             WHERE expires_at < $1
               AND ((status = 'pending' AND created_at < $2)
                    OR (status = 'ready' AND created_at < $3
                        AND NOT EXISTS (SELECT 1 FROM transcripts WHERE upload_id = uploads.id)))
             ON CONFLICT (object_key) DO NOTHING",
        )
        .bind(clock::now_ms())
        .bind(unfinished)
        .bind(unused)
        .execute(&mut *tx)
        .await?;
        if gone.rows_affected() > 0 {
            sqlx::query(
                "DELETE FROM uploads WHERE EXISTS
                   (SELECT 1 FROM orphans WHERE object_key = 'uploads/' || uploads.account_id || '/' || uploads.id)",
            )
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(gone.rows_affected())
    }

    /// Objects to be deleted now, some of them.
    pub async fn orphans(&self) -> Result<Vec<String>> {
        sqlx::query_scalar("SELECT object_key FROM orphans WHERE due_at <= $1 ORDER BY created_at LIMIT 100")
            .bind(clock::now_ms())
            .fetch_all(&self.read)
            .await
    }

    /// An object is deleted: once more when its signed URL has expired, if it has not yet.
    pub async fn orphan_gone(&self, object_key: &str) -> Result<()> {
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

    /// Forgets notifications, payment notices and idempotency keys that are too old to matter.
    pub async fn forget_old(&self) -> Result<()> {
        let now = clock::now_ms();
        for (sql, before) in [
            ("DELETE FROM webhooks WHERE state <> 'pending' AND created_at < $1", now - WEBHOOKS_MS),
            ("DELETE FROM payment_notices WHERE created_at < $1", now - NOTICES_MS),
            ("DELETE FROM idempotency_keys WHERE created_at < $1", now - IDEMPOTENCY_MS),
        ] {
            sqlx::query(sql).bind(before).execute(&self.write).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::ids::{TranscriptId, UploadId};
    use crate::store::{Account, NewTranscript, Source, Upload, UploadStatus, object_key};

    async fn open() -> (tempfile::TempDir, Store, Account) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path())).await.unwrap();
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
        let new = NewTranscript {
            id: TranscriptId::new(),
            account: account.id.clone(),
            source: Source::Upload(upload.id.clone()),
            model: "svc-best".into(),
            title: None,
            language_code: None,
            webhook_url: None,
            options: json!({}),
            created_at: clock::now_ms(),
        };
        store.create_transcript(&new, Some((upload.id.as_str(), "hash"))).await.unwrap();
        new.id
    }

    #[tokio::test]
    async fn uploads_that_nobody_finished_or_used_are_dropped() {
        let (_folder, store, account) = open().await;
        let now = clock::now_ms();
        let unfinished = upload(&store, &account, UploadStatus::Pending, now - 1).await;
        let unused = upload(&store, &account, UploadStatus::Ready, now - 1).await;
        let used = upload(&store, &account, UploadStatus::Ready, now - 1).await;
        let open = upload(&store, &account, UploadStatus::Pending, now + 60_000).await;
        transcript(&store, &account, &used).await;
        assert_eq!(store.drop_stale_uploads(now - DAY_MS, now - DAY_MS).await.unwrap(), 0);
        assert_eq!(store.drop_stale_uploads(now + DAY_MS, now - DAY_MS).await.unwrap(), 1);
        assert_eq!(store.drop_stale_uploads(now - DAY_MS, now + DAY_MS).await.unwrap(), 1);
        for (upload, there) in [(&unfinished, false), (&unused, false), (&used, true), (&open, true)] {
            assert_eq!(store.upload(&upload.id).await.unwrap().is_some(), there);
        }
        let mut orphans = store.orphans().await.unwrap();
        orphans.sort();
        let mut expected = [&unfinished, &unused].map(|upload| object_key(&account.id, &upload.id));
        expected.sort();
        assert_eq!(orphans, expected);
    }

    #[tokio::test]
    async fn an_object_is_deleted_again_when_its_url_has_expired() {
        let (_folder, store, account) = open().await;
        let upload = upload(&store, &account, UploadStatus::Ready, clock::now_ms() + 400).await;
        let transcript = transcript(&store, &account, &upload).await;
        assert!(store.delete_transcript(&account.id, &transcript).await.unwrap());
        assert!(!store.is_wanted(&upload).await.unwrap());
        let key = object_key(&account.id, &upload.id);
        assert_eq!(store.orphans().await.unwrap(), [key.as_str()]);
        store.orphan_gone(&key).await.unwrap();
        assert!(store.orphans().await.unwrap().is_empty());
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(store.orphans().await.unwrap(), [key.as_str()]);
        store.orphan_gone(&key).await.unwrap();
        assert!(store.orphans().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn what_is_young_is_not_forgotten() {
        let (_folder, store, account) = open().await;
        let upload = upload(&store, &account, UploadStatus::Ready, 0).await;
        transcript(&store, &account, &upload).await;
        store.forget_old().await.unwrap();
        let known = || store.created_before(&account.id, upload.id.as_str(), "hash");
        assert!(known().await.unwrap().is_some());
        sqlx::query("UPDATE idempotency_keys SET created_at = $1")
            .bind(clock::now_ms() - IDEMPOTENCY_MS - 1)
            .execute(&store.write)
            .await
            .unwrap();
        store.forget_old().await.unwrap();
        let left: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM idempotency_keys").fetch_one(&store.read).await.unwrap();
        assert_eq!(left, 0);
    }

    #[tokio::test]
    async fn a_lease_is_as_long_as_whoever_took_it_said() {
        let (_folder, store, account) = open().await;
        let upload = upload(&store, &account, UploadStatus::Ready, 0).await;
        transcript(&store, &account, &upload).await;
        let job = store.claim_job(5, 5, 30 * DAY_MS).await.unwrap().unwrap();
        assert_eq!(store.reap_jobs().await.unwrap(), 0);
        // Set further ahead than it can have been: the clock was put back.
        sqlx::query("UPDATE transcripts SET lease_until = lease_until + $1")
            .bind(31 * DAY_MS)
            .execute(&store.write)
            .await
            .unwrap();
        assert_eq!(store.reap_jobs().await.unwrap(), 1);
        assert!(!store.heartbeat(&job, 1000, 0).await.unwrap());
    }
}
