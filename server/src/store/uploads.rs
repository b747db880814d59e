//! Uploads: signed, then put, then declared complete.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Result, Store};
use crate::clock;
use crate::ids::{AccountId, UploadId};

/// A file that a client sends, or has sent.
#[derive(Clone, Debug)]
pub struct Upload {
    pub id: UploadId,
    pub account: AccountId,
    pub filename: String,
    pub content_type: String,
    /// The size that the client announced.
    pub declared_bytes: Option<i64>,
    pub status: UploadStatus,
    pub expires_at: i64,
}

/// How far an upload has come.
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

/// Where an upload's bytes lie in the object store.
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

    /// An upload of any account: its signed URL is what protects it.
    pub async fn upload(&self, id: &UploadId) -> Result<Option<Upload>> {
        let row = sqlx::query(COLUMNS).bind(id.as_str()).fetch_optional(&self.read).await?;
        row.as_ref().map(upload).transpose()
    }

    /// An upload of this account.
    pub async fn upload_of(&self, account: &AccountId, id: &UploadId) -> Result<Option<Upload>> {
        Ok(self.upload(id).await?.filter(|upload| upload.account == *account))
    }

    /// The bytes have been found, so many of them.
    pub async fn upload_ready(&self, id: &UploadId, size_bytes: i64) -> Result<()> {
        sqlx::query("UPDATE uploads SET status = 'ready', size_bytes = $1 WHERE id = $2")
            .bind(size_bytes)
            .bind(id.as_str())
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// Forgets uploads that were signed before `before` and never completed; their objects become orphans.
    pub async fn drop_stale_uploads(&self, before: i64) -> Result<u64> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO orphans (object_key, created_at)
             SELECT 'uploads/' || account_id || '/' || id, $1 FROM uploads
             WHERE status = 'pending' AND created_at < $2 AND expires_at < $1
             ON CONFLICT (object_key) DO NOTHING",
        )
        .bind(clock::now_ms())
        .bind(before)
        .execute(&mut *tx)
        .await?;
        let gone = sqlx::query("DELETE FROM uploads WHERE status = 'pending' AND created_at < $1 AND expires_at < $2")
            .bind(before)
            .bind(clock::now_ms())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(gone.rows_affected())
    }

    /// Objects to be deleted, some of them.
    pub async fn orphans(&self) -> Result<Vec<String>> {
        sqlx::query_scalar("SELECT object_key FROM orphans ORDER BY created_at LIMIT 100").fetch_all(&self.read).await
    }

    /// An object is deleted.
    pub async fn orphan_gone(&self, object_key: &str) -> Result<()> {
        sqlx::query("DELETE FROM orphans WHERE object_key = $1").bind(object_key).execute(&self.write).await?;
        Ok(())
    }
}
