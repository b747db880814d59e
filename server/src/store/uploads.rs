//! Uploads: signed, sent, then completed.

use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::{Dialect, Result, Store, Tx};
use crate::clock;
use crate::ids::{AccountId, UploadId};

/// A file of a client.
#[derive(Clone, Debug)]
pub struct Upload {
    pub id: UploadId,
    pub account: AccountId,
    pub filename: String,
    pub content_type: String,
    /// The size that the client has declared.
    pub declared_bytes: Option<i64>,
    pub status: UploadStatus,
    pub expires_at: i64,
}

/// The state of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadStatus {
    Pending,
    Ready,
}

impl UploadStatus {
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
        }
    }
}

/// The key of an upload in the object store.
pub fn object_key(account: &AccountId, upload: &UploadId) -> String {
    format!("uploads/{account}/{upload}")
}

impl Upload {
    pub fn object_key(&self) -> String {
        object_key(&self.account, &self.id)
    }
}

fn upload(row: &AnyRow) -> Result<Upload> {
    Ok(Upload {
        id: row.try_get::<String, _>("id")?.into(),
        account: row.try_get::<String, _>("account_id")?.into(),
        filename: row.try_get("filename")?,
        content_type: row.try_get("content_type")?,
        declared_bytes: row.try_get("declared_bytes")?,
        status: if row.try_get::<String, _>("status")? == "ready" {
            UploadStatus::Ready
        } else {
            UploadStatus::Pending
        },
        expires_at: row.try_get("expires_at")?,
    })
}

const COLUMNS: &str = "SELECT id, account_id, filename, content_type, declared_bytes, status, expires_at
                       FROM uploads WHERE id = $1";

impl Store {
    pub async fn create_upload(&self, upload: &Upload) -> Result<()> {
        sqlx::query(
            "INSERT INTO uploads (id, account_id, filename, content_type, declared_bytes, status, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(upload.id.as_str())
        .bind(upload.account.as_str())
        .bind(&upload.filename)
        .bind(&upload.content_type)
        .bind(upload.declared_bytes)
        .bind(upload.status.name())
        .bind(clock::now_ms())
        .bind(upload.expires_at)
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// An upload of any account, for requests with its signed URL.
    pub async fn upload(&self, id: &UploadId) -> Result<Option<Upload>> {
        let row = sqlx::query(COLUMNS).bind(id.as_str()).fetch_optional(&self.read).await?;
        row.as_ref().map(upload).transpose()
    }

    /// An upload of this account.
    pub async fn upload_of(&self, account: &AccountId, id: &UploadId) -> Result<Option<Upload>> {
        Ok(self.upload(id).await?.filter(|upload| upload.account == *account))
    }

    /// Marks an upload as complete with its size. False if it was deleted meanwhile.
    pub async fn mark_upload_ready(&self, id: &UploadId, size_bytes: i64) -> Result<bool> {
        let done = sqlx::query("UPDATE uploads SET status = 'ready', size_bytes = $1 WHERE id = $2")
            .bind(size_bytes)
            .bind(id.as_str())
            .execute(&self.write)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Records the size of an upload after its bytes were written. If it was deleted meanwhile, queues the object for
    /// deletion and returns false.
    pub async fn confirm_upload(&self, upload: &Upload, size_bytes: i64) -> Result<bool> {
        let recorded = sqlx::query("UPDATE uploads SET size_bytes = $1 WHERE id = $2")
            .bind(size_bytes)
            .bind(upload.id.as_str())
            .execute(&self.write)
            .await?;
        if recorded.rows_affected() > 0 {
            return Ok(true);
        }
        let mut tx = self.begin().await?;
        queue_deletion(&mut tx, &upload.object_key(), upload.expires_at + MAX_PUT_MS).await?;
        tx.commit().await?;
        Ok(false)
    }
}

impl Store {
    /// Bytes of an account's uploads that no transcript uses or may still use, but for the upload `except`.
    pub async fn unused_upload_bytes(&self, account: &AccountId, except: &UploadId) -> Result<i64> {
        sqlx::query_scalar(
            "SELECT CAST(COALESCE(SUM(size_bytes), 0) AS BIGINT) FROM uploads
             WHERE account_id = $1 AND id <> $2 AND NOT EXISTS
                   (SELECT 1 FROM transcripts WHERE upload_id = uploads.id AND status <> 'error')",
        )
        .bind(account.as_str())
        .bind(except.as_str())
        .fetch_one(&self.read)
        .await
    }

    /// The number of an account's uploads that are not complete, counted up to `most`.
    pub async fn pending_uploads(&self, account: &AccountId, most: i64) -> Result<i64> {
        sqlx::query_scalar(
            "SELECT COUNT(*) FROM (SELECT 1 AS one FROM uploads WHERE account_id = $1 AND status = 'pending' LIMIT $2) AS pending",
        )
        .bind(account.as_str())
        .bind(most)
        .fetch_one(&self.read)
        .await
    }
}

/// A row lock of an upload, held to the end of the transaction. The two modes exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowLock {
    /// The upload cannot be deleted.
    Share,
    /// No transcript can be created from the upload.
    Update,
}

impl Store {
    /// Locks an upload. False if it does not exist. SQLite has one writer and needs no lock.
    pub(super) async fn lock_upload(&self, tx: &mut Tx, id: &UploadId, lock: RowLock) -> Result<bool> {
        let query = match (self.dialect, lock) {
            (Dialect::Sqlite, _) => "SELECT 1 AS one FROM uploads WHERE id = $1",
            (Dialect::Postgres, RowLock::Share) => "SELECT 1 AS one FROM uploads WHERE id = $1 FOR SHARE",
            (Dialect::Postgres, RowLock::Update) => "SELECT 1 AS one FROM uploads WHERE id = $1 FOR UPDATE",
        };
        Ok(sqlx::query(query).bind(id.as_str()).fetch_optional(&mut **tx).await?.is_some())
    }
}

/// The longest time that a PUT may continue after its URL has expired.
pub(super) const MAX_PUT_MS: i64 = 24 * 3_600_000;

/// Queues an object for deletion: now, and again when nobody can create it any more.
pub(super) async fn queue_deletion(tx: &mut Tx, object_key: &str, until_at: i64) -> Result<()> {
    sqlx::query(
        "INSERT INTO orphans (object_key, created_at, until_at) VALUES ($1, $2, $3)
         ON CONFLICT (object_key) DO UPDATE SET due_at = 0",
    )
    .bind(object_key)
    .bind(clock::now_ms())
    .bind(until_at)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The reason to delete an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleUpload {
    /// The upload was never completed.
    Incomplete,
    /// The upload is complete, and no transcript uses it.
    Unused,
    /// The request that the upload was for is refused, and no transcript uses it.
    Refused,
}

impl StaleUpload {
    pub(super) fn condition(self) -> &'static str {
        match self {
            Self::Incomplete => "status = 'pending'",
            Self::Unused => "status = 'ready' AND NOT EXISTS (SELECT 1 FROM transcripts WHERE upload_id = uploads.id)",
            Self::Refused => "NOT EXISTS (SELECT 1 FROM transcripts WHERE upload_id = uploads.id)",
        }
    }
}

impl Store {
    /// Deletes the upload of a refused request, unless a transcript uses it, and queues its object for deletion.
    pub async fn delete_refused_upload(&self, id: &UploadId) -> Result<()> {
        let mut tx = self.begin().await?;
        self.delete_if_stale(&mut tx, id, StaleUpload::Refused).await?;
        tx.commit().await
    }

    /// Deletes an upload if it is stale, and queues its object for deletion. False if it is not stale or does not exist.
    pub(super) async fn delete_if_stale(&self, tx: &mut Tx, id: &UploadId, stale: StaleUpload) -> Result<bool> {
        // The lock waits for transactions that create or delete transcripts of the upload.
        self.lock_upload(tx, id, RowLock::Update).await?;
        let query =
            format!("DELETE FROM uploads WHERE id = $1 AND {} RETURNING account_id, expires_at", stale.condition());
        let deleted = sqlx::query(AssertSqlSafe(query)).bind(id.as_str()).fetch_optional(&mut **tx).await?;
        let Some(deleted) = deleted else { return Ok(false) };
        let account = AccountId::from(deleted.try_get::<String, _>("account_id")?);
        let expires_at: i64 = deleted.try_get("expires_at")?;
        queue_deletion(tx, &object_key(&account, id), expires_at + MAX_PUT_MS).await?;
        Ok(true)
    }
}
