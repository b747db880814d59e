//! What nobody asks for any more: forgotten after a while, so that the database does not grow for ever.

use sqlx::{AssertSqlSafe, Row as _};

use super::transcripts::IDEMPOTENCY_MS;
use super::uploads::{Hold, abandon};
use super::{Result, Store, Tx};
use crate::clock;
use crate::ids::{AccountId, UploadId};

const DAY_MS: i64 = 24 * 3_600_000;

/// Webhooks that were delivered or given up are kept so long, for whoever looks into what became of one.
const WEBHOOKS_MS: i64 = 30 * DAY_MS;

/// Payment notices are repeated for some days at most.
const NOTICES_MS: i64 = 90 * DAY_MS;

/// Uploads that are looked at in one go.
const STALE: usize = 500;

/// Why an upload is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// Signed so long ago, and never completed.
    Unfinished,
    /// Signed so long ago, complete, and no transcript is made of it.
    Unused,
}

impl Stale {
    fn condition(self) -> &'static str {
        match self {
            Self::Unfinished => "status = 'pending'",
            Self::Unused => "status = 'ready' AND NOT EXISTS (SELECT 1 FROM transcripts WHERE upload_id = uploads.id)",
        }
    }
}

impl Store {
    /// Forgets uploads that were signed before `before` and are stale, and whose URLs have expired; their objects become
    /// orphans. How many.
    pub async fn drop_stale_uploads(&self, stale: Stale, before: i64) -> Result<u64> {
        let query = format!(
            "SELECT id FROM uploads WHERE created_at < $1 AND expires_at < $2 AND {} LIMIT {STALE}",
            stale.condition()
        );
        let mut dropped = 0;
        loop {
            // They are looked for without keeping any writer from its work.
            let found: Vec<String> = sqlx::query_scalar(AssertSqlSafe(query.clone()))
                .bind(before)
                .bind(clock::now_ms())
                .fetch_all(&self.read)
                .await?;
            let dropped_before = dropped;
            for id in &found {
                let mut tx = self.begin().await?;
                dropped += u64::from(self.drop_upload(&mut tx, &UploadId::from(id.clone()), stale).await?);
                tx.commit().await?;
            }
            if found.len() < STALE || dropped == dropped_before {
                return Ok(dropped);
            }
        }
    }

    /// Forgets an upload if it is stale; its object becomes an orphan. False if it is not, or is gone.
    pub(super) async fn drop_upload(&self, tx: &mut Tx, id: &UploadId, stale: Stale) -> Result<bool> {
        // Transcripts that are made of it now, or deleted, are waited for.
        self.hold_upload(tx, id, Hold::Alone).await?;
        let query =
            format!("DELETE FROM uploads WHERE id = $1 AND {} RETURNING account_id, expires_at", stale.condition());
        let gone = sqlx::query(AssertSqlSafe(query)).bind(id.as_str()).fetch_optional(&mut **tx).await?;
        let Some(gone) = gone else { return Ok(false) };
        let account = AccountId::from(gone.try_get::<String, _>("account_id")?);
        abandon(tx, &account, id, gone.try_get("expires_at")?).await?;
        Ok(true)
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
    use crate::ids::TranscriptId;
    use crate::store::uploads::LATEST_PUT_MS;
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
        for (stale, before, dropped) in [
            (Stale::Unfinished, now - DAY_MS, 0),
            (Stale::Unused, now - DAY_MS, 0),
            (Stale::Unfinished, now + DAY_MS, 1),
            (Stale::Unused, now + DAY_MS, 1),
            (Stale::Unused, now + DAY_MS, 0),
        ] {
            assert_eq!(store.drop_stale_uploads(stale, before).await.unwrap(), dropped, "{stale:?} {before}");
        }
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
    async fn no_transcript_is_made_of_an_upload_that_is_gone() {
        let (_folder, store, account) = open().await;
        let upload = upload(&store, &account, UploadStatus::Ready, 0).await;
        let first = transcript(&store, &account, &upload).await;
        assert!(store.delete_transcript(&account.id, &first).await.unwrap());
        let second = transcript(&store, &account, &upload).await;
        assert!(store.transcript(&account.id, &second).await.unwrap().is_none());
        let known = store.created_before(&account.id, upload.id.as_str(), "hash").await.unwrap();
        assert!(known.is_none(), "the call may be made again");
    }

    #[tokio::test]
    async fn an_object_is_deleted_again_when_its_url_has_expired() {
        let (_folder, store, account) = open().await;
        let upload = upload(&store, &account, UploadStatus::Ready, clock::now_ms() - LATEST_PUT_MS + 400).await;
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
