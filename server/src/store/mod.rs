//! The database: SQLite or PostgreSQL with one schema; one module per group of tables. SQL lives here alone.

mod accounts;
mod budgets;
mod calls;
mod cloned_voices;
mod edits;
mod identities;
mod job_options;
mod jobs;
mod key_cache;
mod keys;
mod live_sessions;
mod mail_outbox;
mod names;
mod nodes;
mod notify;
mod presets;
mod read_batcher;
mod retention;
mod schema;
mod search;
mod search_index;
mod service_state;
mod share_links;
mod sign_ins;
mod speaker_names;
mod speakers;
mod tags;
mod team;
mod time_limits;
mod transcript_list;
mod transcripts;
mod uploads;
mod usage;
mod usage_days;
mod usage_reports;
mod users;
mod waveforms;
mod webhook_log;
mod webhook_outbox;
mod webhook_secrets;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use sqlx::Row as _;
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};

use crate::clock;
use crate::ids::AccountId;
pub use accounts::{Account, AccountCredit, Allowance, Credit, PaymentEvent, Subscriber, email_address};
pub use calls::CallTranscript;
pub use cloned_voices::StoredVoice;
pub use edits::{EditedText, NewTitle, Saved};
pub use identities::{Identified, ProviderIdentity};
pub use job_options::JobOptions;
pub use jobs::{AttemptCount, CompletedTranscript, Job, JobQuery, Outcome, SourceKind};
use key_cache::KeyCache;
use keys::KeyUses;
pub use live_sessions::{Admission, LiveSession};
pub use mail_outbox::{Letter, Mail};
pub use names::NameRefusal;
pub use nodes::{ListedNode, Node};
pub use notify::Topic;
use read_batcher::ReadBatcher;
pub use search::{FoundSentence, FoundTranscript, SearchQuery, SearchTerms};
pub use service_state::ServiceState;
pub use sign_ins::SignIn;
pub use speaker_names::SpeakerNames;
pub use speakers::Speaker;
pub use tags::{MAX_TAGS, TagChange};
pub use team::{Invited, InvitedTo, Joined, Role, SEATS};
pub use time_limits::Tx;
use time_limits::{Pool, check_released, within};
pub use transcript_list::{Cursor, HeadQuery, ListQuery, ListedTranscript, Sort, TranscriptHead};
pub use transcripts::{
    Created, LargeWords, NewTranscript, Source, Status, StoredWords, Transcript, TranscriptQuery, percent,
    redacted_audio_key,
};
pub use uploads::StaleUpload;
pub use uploads::{Upload, UploadStatus, object_key};
pub use usage::UsageEvent;
pub use usage_days::DailyCost;
pub use usage_reports::UnreportedUsage;
pub use users::{PasswordLink, SignUp};
pub use waveforms::{LOUDEST, Waveform};
pub use webhook_log::{ListedWebhook, WebhookAttempt, WebhookState};
pub use webhook_outbox::WebhookDelivery;
pub use webhook_secrets::WebhookSecret;

/// An error of the database.
pub type Error = sqlx::Error;
pub type Result<T> = std::result::Result<T, Error>;

/// No delay is longer. A due time further ahead was set before the clock was set back.
const MAX_DELAY_MS: i64 = 48 * 3_600_000;

/// The longest time of the check for readiness.
const PING_LIMIT: Duration = Duration::from_secs(2);

/// Concurrent read connections.
const READERS: u32 = 8;

/// The fault that a commit survives in SQLite. PostgreSQL has settings of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: each commit waits for the disk.
    PowerCut,
    /// The end of the process. After a power cut the last checkpoint is there.
    Crash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Sqlite,
    Postgres,
}

/// An open database.
#[derive(Clone)]
pub struct Store {
    read: Pool,
    /// SQLite allows one writer at a time. Waiting for the single connection is fairer and faster than retrying.
    write: Pool,
    dialect: Dialect,
    url: Arc<str>,
    key_cache: KeyCache,
    key_uses: KeyUses,
    read_batcher: ReadBatcher,
}

impl Store {
    /// The database file of a data folder.
    pub fn file_in(data: &Path) -> PathBuf {
        data.join("auricle.db")
    }

    /// The URL of a data folder's database.
    pub fn url_in(data: &Path) -> String {
        // All of a path but its separators is percent-encoded.
        let path = Self::file_in(data);
        let encoded: Vec<String> = path
            .to_string_lossy()
            .split('/')
            .map(|part| utf8_percent_encode(part, NON_ALPHANUMERIC).to_string())
            .collect();
        format!("sqlite://{}", encoded.join("/"))
    }

    /// Connects, and migrates the schema.
    pub async fn open(url: &str, durability: Durability) -> Result<Self> {
        sqlx::any::install_default_drivers();
        let store = if url.starts_with("sqlite:") {
            let options = AnyConnectOptions::from_str(&format!("{url}?mode=rwc"))?;
            let pool = move |size: u32| {
                AnyPoolOptions::new().max_connections(size).min_connections(1).after_connect(move |connection, _| {
                    Box::pin(async move {
                        let synchronous = match durability {
                            Durability::PowerCut => "PRAGMA synchronous = FULL",
                            Durability::Crash => "PRAGMA synchronous = NORMAL",
                        };
                        for pragma in [
                            "PRAGMA busy_timeout = 10000",
                            "PRAGMA journal_mode = WAL",
                            synchronous,
                            "PRAGMA foreign_keys = ON",
                            // Deleted data is overwritten.
                            "PRAGMA secure_delete = ON",
                            "PRAGMA cache_size = -16000",
                        ] {
                            sqlx::query(pragma).execute(&mut *connection).await?;
                        }
                        Ok(())
                    })
                })
            };
            let write = Pool(pool(1).connect_with(options.clone()).await?);
            let read = Pool(pool(READERS).connect_with(options).await?);
            Self {
                key_cache: KeyCache::new(read.clone()),
                key_uses: KeyUses::default(),
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
                .after_connect(|connection, _| {
                    Box::pin(async move {
                        // The server gives up what nobody waits for any more.
                        sqlx::query("SET statement_timeout = '30s'").execute(&mut *connection).await?;
                        sqlx::query("SET idle_in_transaction_session_timeout = '60s'")
                            .execute(&mut *connection)
                            .await?;
                        Ok(())
                    })
                })
                .after_release(|connection, _| Box::pin(check_released(connection)))
                .connect_with(options)
                .await?;
            let pool = Pool(pool);
            Self {
                key_cache: KeyCache::new(pool.clone()),
                key_uses: KeyUses::default(),
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
                // A full disk ends the transaction in SQLite, but sqlx still counts it on the connection.
                Err(Error::InvalidSavePointStatement) => {
                    self.write.acquire().await?.close().await?;
                    self.begin_immediate().await
                }
                begun => begun,
            },
            Dialect::Postgres => self.write.begin().await,
        }
    }

    /// Takes the write lock at once: a transaction that reads first cannot wait for another writer.
    async fn begin_immediate(&self) -> Result<Tx> {
        self.write.begin_with("BEGIN IMMEDIATE").await
    }

    /// Takes a lock between nodes and holds it to the end of the transaction.
    async fn lock(&self, tx: &mut Tx, lock: i64) -> Result<()> {
        if self.dialect == Dialect::Postgres {
            // The function returns void, which sqlx cannot decode.
            sqlx::query("SELECT 1 AS one FROM (SELECT pg_advisory_xact_lock($1)) AS held")
                .bind(lock)
                .execute(&mut **tx)
                .await?;
        }
        Ok(())
    }

    /// Checks that the database answers soon and takes writes. After a failover the service may be connected to a server that
    /// only reads; a full disk or another process may keep SQLite from writing, which shows only when something is written.
    pub async fn ping(&self) -> Result<()> {
        if self.dialect == Dialect::Sqlite {
            let write = sqlx::query(
                "INSERT INTO secrets (name, value) VALUES ('last_ping', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            )
            .bind(clock::now_ms().to_string());
            return within(PING_LIMIT, write.execute(&self.write)).await.map(drop);
        }
        let sql = "SELECT current_setting('transaction_read_only') AS value";
        let read_only: String = within(PING_LIMIT, sqlx::query_scalar(sql).fetch_one(&self.read)).await?;
        match read_only.as_str() {
            "off" => Ok(()),
            _ => Err(Error::Configuration("it takes no writes".into())),
        }
    }

    /// The secret of this name, which all nodes on the database share. Stores `fresh` if there is none.
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

    /// Writes SQLite's log into the database file and empties it, so that deleted text stands in neither. False if a
    /// reader is in the way.
    pub async fn empty_log(&self) -> Result<bool> {
        if self.dialect == Dialect::Postgres {
            return Ok(true);
        }
        let row = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&self.write).await?;
        Ok(row.try_get::<i64, _>("busy")? == 0)
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.read.close().await;
        self.write.close().await;
    }
}

/// The SQL condition that a list of accounts, the parameter `$list`, does not hold an account. Accounts have no other characters
/// than identifiers have, so one parameter can hold all.
macro_rules! not_listed {
    ($list:literal, $account:literal) => {
        concat!($list, " NOT LIKE '%,' || ", $account, " || ',%'")
    };
}

use not_listed;

/// The parameter of [`not_listed`].
fn account_list(accounts: &HashSet<AccountId>) -> String {
    accounts.iter().fold(String::from(","), |list, account| list + account.as_str() + ",")
}

/// A boolean in the schema: 0 or 1.
fn flag(on: bool) -> i64 {
    i64::from(on)
}

/// SHA-256 of an API key's secret, in hex. The secret has 160 random bits, so a slow hash would add no protection. Secrets are
/// compared by hash through the database's index, so the timing reveals nothing about them.
fn secret_hash(secret: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(secret.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_commit_waits_for_the_disk_if_it_must_survive_a_power_cut() {
        for (durability, level) in [(Durability::PowerCut, 2), (Durability::Crash, 1)] {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(&Store::url_in(folder.path()), durability).await.unwrap();
            let found: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&store.write).await.unwrap();
            assert_eq!(found, level, "{durability:?}");
        }
    }

    #[tokio::test]
    async fn a_database_that_another_process_locks_is_not_ready() {
        let folder = tempfile::tempdir().unwrap();
        let open = || async { Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap() };
        let (store, other) = (open().await, open().await);
        store.ping().await.unwrap();
        let mut lock = other.begin().await.unwrap();
        sqlx::query("INSERT INTO secrets (name, value) VALUES ('a', 'b')").execute(&mut *lock).await.unwrap();
        store.ping().await.unwrap_err();
        drop(lock);
        store.ping().await.unwrap();
    }
}
