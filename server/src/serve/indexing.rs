//! Indexes the words of transcripts, so that they are found.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::store::Store;

/// Interval of looking for changes.
const INTERVAL: Duration = Duration::from_secs(1);

/// Delay after a fault of the database.
const RETRY: Duration = Duration::from_secs(30);

/// Transcripts of a transaction: others write between two.
const BATCH: i64 = 16;

/// Indexes what has changed, until `stopping`.
pub async fn run(store: Store, stopping: CancellationToken) {
    loop {
        let pause = match store.index_transcripts(BATCH).await {
            Ok(0) => INTERVAL,
            Ok(_) => Duration::ZERO,
            Err(error) => {
                tracing::error!(%error, "indexing transcripts failed; trying again");
                RETRY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stopping.cancelled() => return,
        }
    }
}
