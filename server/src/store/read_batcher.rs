//! Reads transcripts by id, the most frequent query, in batches: concurrent requests share one query.
//!
//! A query starts after its last request has arrived, so no result is older than its request.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::Row as _;
use tokio::sync::{mpsc, oneshot};

use super::transcripts::{Transcript, select, transcript};
use super::{Error, Pool, Result, Store};
use crate::ids::{AccountId, TranscriptId};

/// The most transcripts of one query. Their size grows with the audio, so the number is small.
const MAX_BATCH: usize = 8;

struct ReadRequest {
    account: AccountId,
    id: TranscriptId,
    response: oneshot::Sender<Result<Option<Arc<Transcript>>>>,
}

/// The queue of the batches.
#[derive(Clone)]
pub(super) struct ReadBatcher(mpsc::Sender<ReadRequest>);

impl ReadBatcher {
    pub(super) fn new(read: Pool) -> Self {
        let (requests, receiver) = mpsc::channel(1024);
        tokio::spawn(read_batches(read, receiver));
        Self(requests)
    }
}

impl Store {
    /// A transcript of this account.
    pub async fn transcript(&self, account: &AccountId, id: &TranscriptId) -> Result<Option<Arc<Transcript>>> {
        let (response, received) = oneshot::channel();
        let request = ReadRequest { account: account.clone(), id: id.clone(), response };
        // The reader ends with the process.
        self.read_batcher.0.send(request).await.map_err(|_| Error::WorkerCrashed)?;
        received.await.unwrap_or(Err(Error::WorkerCrashed))
    }
}

async fn read_batches(read: Pool, mut requests: mpsc::Receiver<ReadRequest>) {
    let mut waiting = Vec::with_capacity(MAX_BATCH);
    while requests.recv_many(&mut waiting, MAX_BATCH).await > 0 {
        match read_batch(&read, &waiting).await {
            Ok(found) => {
                for ReadRequest { account, id, response } in waiting.drain(..) {
                    let own = found.get(id.as_str()).filter(|(owner, _)| owner == account.as_str());
                    // The receiver may be gone.
                    let _ = response.send(Ok(own.map(|(_, transcript)| transcript.clone())));
                }
            }
            Err(error) => {
                tracing::error!(%error, requests = waiting.len(), "reading transcripts failed");
                for request in waiting.drain(..) {
                    let _ = request.response.send(Err(Error::WorkerCrashed));
                }
            }
        }
    }
}

/// The requested transcripts with their accounts, by id.
async fn read_batch(read: &Pool, requests: &[ReadRequest]) -> Result<HashMap<String, (String, Arc<Transcript>)>> {
    // There are two prepared statements. Unused parameters repeat the last id.
    let (sql, places) = match requests.len() {
        1 => (select!("WHERE id = $1"), 1),
        _ => (select!("WHERE id IN ($1, $2, $3, $4, $5, $6, $7, $8)"), MAX_BATCH),
    };
    let ids = requests.iter().map(|request| request.id.as_str());
    let last = requests.last().map_or("", |request| request.id.as_str());
    let query = ids.chain(std::iter::repeat(last)).take(places).fold(sqlx::query(sql), sqlx::query::Query::bind);
    let rows = query.fetch_all(read).await?;
    rows.iter()
        .map(|row| {
            let found = transcript(row)?;
            Ok((found.id.to_string(), (row.try_get("account_id")?, Arc::new(found))))
        })
        .collect()
}
