//! The database: SQLite or PostgreSQL behind one schema; one module a table group. SQL lives here and nowhere else.

mod accounts;
#[cfg(test)]
mod billing_tests;
mod jobs;
mod key_cache;
mod keys;
mod live_sessions;
mod notify;
mod read_batcher;
mod retention;
mod schema;
mod transcripts;
mod uploads;
mod usage;
mod webhook_outbox;

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{Any, AnyPool, Transaction};

pub use accounts::{Account, Allowance, Credit, Notice, Subscriber};
pub use jobs::{ATTEMPTS, Counted, Finished, Job, Outcome};
use key_cache::KeyCache;
pub use live_sessions::LiveSession;
pub use notify::Topic;
use read_batcher::ReadBatcher;
pub use retention::Stale;
pub use transcripts::{Created, NewTranscript, Source, Status, Transcript, TranscriptQuery};
pub use uploads::{Upload, UploadStatus, object_key};
pub use webhook_outbox::{Delivery, Usage};

/// What the database said.
pub type Error = sqlx::Error;
pub type Result<T> = std::result::Result<T, Error>;
/// Changes that are made together or not at all.
pub type Tx = Transaction<'static, Any>;

/// Connections that read at the same time.
const READERS: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Sqlite,
    Postgres,
}

/// An open database.
#[derive(Clone)]
pub struct Store {
    read: AnyPool,
    /// SQLite has one writer at a time: waiting for the one connection is fairer, and quicker, than retrying.
    write: AnyPool,
    dialect: Dialect,
    url: Arc<str>,
    key_cache: KeyCache,
    read_batcher: ReadBatcher,
}

impl Store {
    /// The database file that lies in a data folder.
    pub fn file_in(data: &Path) -> PathBuf {
        data.join("auricle.db")
    }

    /// Its URL.
    pub fn url_in(data: &Path) -> String {
        // Of a path, only the separators are kept as they are.
        let path = Self::file_in(data);
        let encoded: Vec<String> = path
            .to_string_lossy()
            .split('/')
            .map(|part| utf8_percent_encode(part, NON_ALPHANUMERIC).to_string())
            .collect();
        format!("sqlite://{}", encoded.join("/"))
    }

    /// Connects and brings the schema up to date.
    pub async fn open(url: &str) -> Result<Self> {
        sqlx::any::install_default_drivers();
        let store = if url.starts_with("sqlite:") {
            let options = AnyConnectOptions::from_str(&format!("{url}?mode=rwc"))?;
            let pool = |size: u32| {
                AnyPoolOptions::new().max_connections(size).min_connections(1).after_connect(|connection, _| {
                    Box::pin(async move {
                        // A commit survives the process at once, and a loss of power up to the last checkpoint.
                        for pragma in [
                            "PRAGMA busy_timeout = 10000",
                            "PRAGMA journal_mode = WAL",
                            "PRAGMA synchronous = NORMAL",
                            "PRAGMA foreign_keys = ON",
                            "PRAGMA cache_size = -16000",
                        ] {
                            sqlx::query(pragma).execute(&mut *connection).await?;
                        }
                        Ok(())
                    })
                })
            };
            let write = pool(1).connect_with(options.clone()).await?;
            let read = pool(READERS).connect_with(options).await?;
            Self {
                key_cache: KeyCache::new(read.clone()),
                read_batcher: ReadBatcher::new(read.clone()),
                read,
                write,
                dialect: Dialect::Sqlite,
                url: url.into(),
            }
        } else {
            let options = AnyConnectOptions::from_str(url)?;
            let pool = AnyPoolOptions::new()
                .max_connections(2 * READERS)
                .acquire_timeout(Duration::from_secs(10))
                .connect_with(options)
                .await?;
            Self {
                key_cache: KeyCache::new(pool.clone()),
                read_batcher: ReadBatcher::new(pool.clone()),
                read: pool.clone(),
                write: pool,
                dialect: Dialect::Postgres,
                url: url.into(),
            }
        };
        schema::migrate(&store).await?;
        Ok(store)
    }

    /// A transaction that writes.
    async fn begin(&self) -> Result<Tx> {
        match self.dialect {
            Dialect::Sqlite => match self.begin_immediate().await {
                // A statement that finds the disk full ends its transaction, and the connection goes on counting it.
                Err(Error::InvalidSavePointStatement) => {
                    self.write.acquire().await?.close().await?;
                    self.begin_immediate().await
                }
                begun => begun,
            },
            Dialect::Postgres => self.write.begin().await,
        }
    }

    /// A transaction that reads first and then finds another writer there would have to be given up.
    async fn begin_immediate(&self) -> Result<Tx> {
        self.write.begin_with("BEGIN IMMEDIATE").await
    }

    /// Within a transaction: waits until no other node holds this lock, and holds it to the end.
    async fn lock(&self, tx: &mut Tx, lock: i64) -> Result<()> {
        if self.dialect == Dialect::Postgres {
            // Its result is void, which no value type stands for.
            sqlx::query("SELECT 1 AS one FROM (SELECT pg_advisory_xact_lock($1)) AS held")
                .bind(lock)
                .execute(&mut **tx)
                .await?;
        }
        Ok(())
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(&self.read).await.map(|_| ())
    }

    /// The secret of this name, `fresh` if there is none yet: all nodes on one database share it.
    pub async fn secret(&self, name: &str, fresh: &str) -> Result<String> {
        let mut tx = self.begin().await?;
        sqlx::query("INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING")
            .bind(name)
            .bind(fresh)
            .execute(&mut *tx)
            .await?;
        let value =
            sqlx::query_scalar("SELECT value FROM secrets WHERE name = $1").bind(name).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        Ok(value)
    }

    /// Ends all connections.
    pub async fn close(&self) {
        self.read.close().await;
        self.write.close().await;
    }
}

/// A flag as the schema has it.
fn flag(on: bool) -> i64 {
    i64::from(on)
}
