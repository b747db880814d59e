//! A cache of accounts by API key that is never stale while the database answers.
//!
//! A revoked key must fail on the next request on every node, so each request reads a version number from the database. The
//! number changes with every revoked key and changed account; while it is the same, cached accounts are valid. Concurrent
//! requests share one read, which starts after the last of them has arrived.
//!
//! While the database is away, cached accounts are valid for [`GRACE`] after the last version that was read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::{Account, Error, Pool, Result, Store, Tx, secret_hash, within};

/// With this number of accounts, the cache is cleared.
const MAX_ACCOUNTS: usize = 10_000;

/// The time for which cached accounts are valid without the database.
const GRACE: Duration = Duration::from_secs(30);

/// The longest time of reading the version.
const VERSION_LIMIT: Duration = Duration::from_secs(1);

/// The most requests that share one read.
const MAX_BATCH: usize = 1024;

/// The cache and its version reader.
#[derive(Clone)]
pub(super) struct KeyCache {
    requests: mpsc::Sender<oneshot::Sender<Option<i64>>>,
    /// By the hash of the secret: the version of the read, and the account.
    accounts: Arc<Mutex<HashMap<String, (i64, Account)>>>,
    /// The last version that was read, and the time before it was.
    last_read: Arc<Mutex<Option<(i64, Instant)>>>,
}

impl KeyCache {
    pub(super) fn new(read: Pool) -> Self {
        let (requests, receiver) = mpsc::channel(MAX_BATCH);
        tokio::spawn(read_versions(read, receiver));
        Self { requests, accounts: Arc::default(), last_read: Arc::default() }
    }

    /// Reads the current version.
    async fn version(&self) -> Result<i64> {
        let (response, received) = oneshot::channel();
        let asked_at = Instant::now();
        // The reader ends with the process. It has logged a failed read.
        self.requests.send(response).await.map_err(|_| Error::WorkerCrashed)?;
        let version = received.await.ok().flatten().ok_or(Error::WorkerCrashed)?;
        *self.last_read.lock().unwrap_or_else(PoisonError::into_inner) = Some((version, asked_at));
        Ok(version)
    }

    /// A cached account that was valid a short time ago.
    fn get_recent(&self, hash: &str) -> Option<Account> {
        let last_read = *self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        let (version, _) = last_read.filter(|(_, at)| at.elapsed() < GRACE)?;
        self.get(hash, version)
    }

    /// A cached account of this version.
    fn get(&self, hash: &str, version: i64) -> Option<Account> {
        let accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.get(hash).filter(|(at, _)| *at == version).map(|(_, account)| account.clone())
    }

    fn insert(&self, hash: String, version: i64, account: Account) {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if accounts.len() >= MAX_ACCOUNTS {
            accounts.clear();
        }
        accounts.insert(hash, (version, account));
    }
}

/// Reads the version once for all waiting requests.
async fn read_versions(read: Pool, mut requests: mpsc::Receiver<oneshot::Sender<Option<i64>>>) {
    let mut waiting = Vec::with_capacity(MAX_BATCH);
    while requests.recv_many(&mut waiting, MAX_BATCH).await > 0 {
        let reading = sqlx::query_scalar("SELECT version FROM access_version").fetch_one(&read);
        let version = within(VERSION_LIMIT, reading).await;
        if let Err(error) = &version {
            tracing::error!(%error, "reading the version of the keys failed");
        }
        let version = version.ok();
        for request in waiting.drain(..) {
            // The receiver may be gone.
            let _ = request.send(version);
        }
    }
}

/// Changes the version with this transaction, which changes keys or accounts.
pub(super) async fn invalidate(tx: &mut Tx) -> Result<()> {
    sqlx::query("UPDATE access_version SET version = version + 1").execute(&mut **tx).await?;
    Ok(())
}

impl Store {
    /// A number that changes with every revoked key. Reading it at short intervals keeps the cache valid for [`GRACE`].
    pub async fn access_version(&self) -> Result<i64> {
        self.key_cache.version().await
    }

    /// The account of a key. None if the key is unknown or revoked.
    ///
    /// # Errors
    /// If the database is away and the cache does not know the key.
    pub async fn account_by_secret(&self, secret: &str) -> Result<Option<Account>> {
        let hash = secret_hash(secret);
        let version = match self.key_cache.version().await {
            Ok(version) => version,
            Err(error) => return self.key_cache.get_recent(&hash).map(Some).ok_or(error),
        };
        if let Some(account) = self.key_cache.get(&hash, version) {
            return Ok(Some(account));
        }
        // The account is read after the version, so a cached account is never older than its version.
        let account = self.account_by_hash(&hash).await?;
        if let Some(account) = &account {
            self.key_cache.insert(hash, version, account.clone());
        }
        Ok(account)
    }
}
