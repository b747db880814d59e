//! Gets the audio of a job as a local file: from the object store, or from its URL.

use std::io;
use std::path::Path;

use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;

use super::JobRunner;
use super::attempt::AttemptError;
use super::queue::{Start, Worker};
use crate::ids::UploadId;
use crate::outbound::{Outbound, OutboundError};
use crate::storage::LocalFile;
use crate::store::{Job, Source, object_key};

impl JobRunner {
    /// The audio of a job, and the worker that transcribes it. A job waits for its worker after the download, so that a slow
    /// server holds up no worker.
    pub(super) async fn local_audio(&self, job: &Job, start: Start) -> Result<(LocalFile, Worker), AttemptError> {
        match (&job.source, start) {
            (Source::Upload(id), Start::Stored(worker)) => Ok((self.stored(job, id).await?, worker)),
            (source, Start::Fetched(place)) => {
                let limit = self.settings.fetch_timeout;
                let too_long = format!("it took longer than {} s", limit.as_secs());
                let file = match source {
                    Source::Url(url) => tokio::time::timeout(limit, self.download(url))
                        .await
                        .unwrap_or_else(|_| Err(not_fetched(&too_long)))?,
                    Source::Upload(id) => tokio::time::timeout(limit, self.stored(job, id))
                        .await
                        .unwrap_or_else(|_| Err(not_read(&too_long)))?,
                };
                let worker = place.wait_for_worker(&job.account).await.ok_or(AttemptError::Canceled)?;
                Ok((file, worker))
            }
            // Jobs are claimed by the kind of their source.
            (Source::Url(_), Start::Stored(_)) => Err(AttemptError::Canceled),
        }
    }

    async fn stored(&self, job: &Job, id: &UploadId) -> Result<LocalFile, AttemptError> {
        self.storage
            .local_file(&object_key(&job.account, id), &self.settings.scratch)
            .await
            .map_err(|error| not_read(&error.to_string()))?
            .ok_or_else(|| AttemptError::Permanent("The uploaded file is gone.".into()))
    }

    async fn download(&self, url: &str) -> Result<LocalFile, AttemptError> {
        let (scratch, limit) = (&self.settings.scratch, self.settings.fetch_max_bytes);
        fetch(&self.outbound, url, scratch, limit).await.map_err(|error| match error {
            FetchError::Source(reason) => not_fetched(&reason),
            FetchError::Disk(error) => AttemptError::OwnFault(format!("the audio could not be stored: {error}")),
        })
    }
}

/// A file cannot be fetched.
#[derive(Debug)]
pub enum FetchError {
    /// Its server is at fault, or it is too large.
    Source(String),
    /// It cannot be stored.
    Disk(io::Error),
}

/// Fetches a file of at most `limit` bytes into `scratch`.
///
/// # Errors
/// As [`FetchError`].
pub async fn fetch(outbound: &Outbound, url: &str, scratch: &Path, limit: u64) -> Result<LocalFile, FetchError> {
    let source = |error: OutboundError| FetchError::Source(error.to_string());
    let response = outbound.get(url).await.map_err(source)?;
    let too_large = || FetchError::Source(format!("it is larger than {limit} bytes"));
    if response.content_length().is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let file = tempfile::NamedTempFile::new_in(scratch).map_err(FetchError::Disk)?;
    let mut out = tokio::fs::File::from_std(file.reopen().map_err(FetchError::Disk)?);
    let mut stream = response.bytes_stream();
    let mut length = 0u64;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| FetchError::Source(format!("the connection broke off ({error})")))?;
        length += chunk.len() as u64;
        if length > limit {
            return Err(too_large());
        }
        out.write_all(&chunk).await.map_err(FetchError::Disk)?;
    }
    out.flush().await.map_err(FetchError::Disk)?;
    Ok(LocalFile::Temporary(file))
}

fn not_read(reason: &str) -> AttemptError {
    AttemptError::OwnFault(format!("the upload could not be read: {reason}"))
}

fn not_fetched(reason: &str) -> AttemptError {
    AttemptError::Permanent(format!("The audio could not be fetched from audio_url: {reason}."))
}
