//! Whose key a request carries, read anew for every request and still cheap.
//!
//! A revoked key must fail on the very next request, on every node, so that no answer may be older than the request. What
//! is asked of the database for each is one number, which changes whenever a key is revoked or an account changes; and
//! requests that wait at the same time share one reading of it, begun after the last of them came in. While the number
//! stays, accounts that were found before are still right.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::AnyPool;
use tokio::sync::{mpsc, oneshot};

use super::{Account, Error, Result, Store, Tx, keys};

/// Accounts that are kept before all are dropped and read again.
const KEPT: usize = 10_000;

/// Requests that share one reading at most.
const SHARED: usize = 1024;

/// What is known of keys.
#[derive(Clone)]
pub(super) struct KeyCache {
    ask: mpsc::Sender<oneshot::Sender<Option<i64>>>,
    /// By the hash of the secret: the account, and the number at which it was read.
    known: Arc<Mutex<HashMap<String, (i64, Account)>>>,
}

impl KeyCache {
    pub(super) fn new(read: AnyPool) -> Self {
        let (ask, questions) = mpsc::channel(SHARED);
        tokio::spawn(answer(read, questions));
        Self { ask, known: Arc::default() }
    }

    /// The number as it is now, or later.
    async fn version(&self) -> Result<i64> {
        let (answer, answered) = oneshot::channel();
        // The reader ends with the process alone; a reading that failed was logged.
        self.ask.send(answer).await.map_err(|_| Error::WorkerCrashed)?;
        answered.await.ok().flatten().ok_or(Error::WorkerCrashed)
    }

    fn known(&self, hash: &str, version: i64) -> Option<Account> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(hash).filter(|(at, _)| *at == version).map(|(_, account)| account.clone())
    }

    fn keep(&self, hash: String, version: i64, account: Account) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(hash, (version, account));
    }
}

/// Takes all questions that have come in, reads once, answers them all.
async fn answer(read: AnyPool, mut questions: mpsc::Receiver<oneshot::Sender<Option<i64>>>) {
    let mut waiting = Vec::with_capacity(SHARED);
    while questions.recv_many(&mut waiting, SHARED).await > 0 {
        let version = sqlx::query_scalar("SELECT version FROM access_version").fetch_one(&read).await;
        if let Err(error) = &version {
            tracing::error!(%error, "the database cannot say whether keys have changed");
        }
        let version = version.ok();
        for question in waiting.drain(..) {
            // Whoever asked may have gone.
            let _ = question.send(version);
        }
    }
}

/// Keys or accounts change with this transaction.
pub(super) async fn invalidate(tx: &mut Tx) -> Result<()> {
    sqlx::query("UPDATE access_version SET version = version + 1").execute(&mut **tx).await?;
    Ok(())
}

impl Store {
    /// Whose key this is, unless it is unknown or revoked by now.
    pub async fn account_by_secret(&self, secret: &str) -> Result<Option<Account>> {
        let hash = keys::hash(secret);
        let version = self.key_cache.version().await?;
        if let Some(account) = self.key_cache.known(&hash, version) {
            return Ok(Some(account));
        }
        // Read after the number: should it change in between, what is kept is newer than its number says, never older.
        let account = self.account_by_hash(&hash).await?;
        if let Some(account) = &account {
            self.key_cache.keep(hash, version, account.clone());
        }
        Ok(account)
    }
}
