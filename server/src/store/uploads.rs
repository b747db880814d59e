//! Uploads: signed, then put, then declared complete.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Dialect, Result, Store, Tx};
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

    /// The bytes have been found, so many of them. False if the upload was deleted meanwhile.
    pub async fn upload_ready(&self, id: &UploadId, size_bytes: i64) -> Result<bool> {
        let done = sqlx::query("UPDATE uploads SET status = 'ready', size_bytes = $1 WHERE id = $2")
            .bind(size_bytes)
            .bind(id.as_str())
            .execute(&self.write)
            .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Whether an upload whose bytes have just been written is still wanted. If it was deleted meanwhile, its object is
    /// one to be deleted.
    pub async fn is_wanted(&self, upload: &Upload) -> Result<bool> {
        if self.upload(&upload.id).await?.is_some() {
            return Ok(true);
        }
        let mut tx = self.begin().await?;
        abandon(&mut tx, &upload.account, &upload.id, upload.expires_at).await?;
        tx.commit().await?;
        Ok(false)
    }
}

/// How an upload's row is held to the end of a transaction: until then nobody else takes the other hold of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// So that it is not deleted.
    Shared,
    /// So that no transcript is made of it.
    Alone,
}

impl Store {
    /// Whether the upload is there, and held. SQLite's one writer needs no holding.
    pub(super) async fn hold_upload(&self, tx: &mut Tx, id: &UploadId, hold: Hold) -> Result<bool> {
        let query = match (self.dialect, hold) {
            (Dialect::Sqlite, _) => "SELECT 1 AS one FROM uploads WHERE id = $1",
            (Dialect::Postgres, Hold::Shared) => "SELECT 1 AS one FROM uploads WHERE id = $1 FOR SHARE",
            (Dialect::Postgres, Hold::Alone) => "SELECT 1 AS one FROM uploads WHERE id = $1 FOR UPDATE",
        };
        Ok(sqlx::query(query).bind(id.as_str()).fetch_optional(&mut **tx).await?.is_some())
    }
}

/// How long after its URL has expired a PUT that began before may end.
pub(super) const LATEST_PUT_MS: i64 = 24 * 3_600_000;

/// Writes down that an upload's object is to be deleted: now, and again when no PUT can bring it back any more.
pub(super) async fn abandon(tx: &mut Tx, account: &AccountId, upload: &UploadId, expires_at: i64) -> Result<()> {
    sqlx::query(
        "INSERT INTO orphans (object_key, created_at, until_at) VALUES ($1, $2, $3)
         ON CONFLICT (object_key) DO UPDATE SET due_at = 0",
    )
    .bind(object_key(account, upload))
    .bind(clock::now_ms())
    .bind(expires_at + LATEST_PUT_MS)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
