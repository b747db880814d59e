//! Gets the audio of a job as a local file: from the object store, or from its URL.

use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;

use super::JobRunner;
use super::attempt::AttemptError;
use super::queue::{Start, Worker};
use crate::ids::UploadId;
use crate::outbound::OutboundError;
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
        let response = self.outbound.get(url).await.map_err(|error: OutboundError| not_fetched(&error.to_string()))?;
        let limit = self.settings.fetch_max_bytes;
        let too_large = || not_fetched(&format!("it is larger than {limit} bytes"));
        if response.content_length().is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let not_stored =
            |error: std::io::Error| AttemptError::OwnFault(format!("the audio could not be stored: {error}"));
        let file = tempfile::NamedTempFile::new_in(&self.settings.scratch).map_err(not_stored)?;
        let mut out = tokio::fs::File::from_std(file.reopen().map_err(not_stored)?);
        let mut stream = response.bytes_stream();
        let mut length = 0u64;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| not_fetched(&format!("the connection broke off ({error})")))?;
            length += chunk.len() as u64;
            if length > limit {
                return Err(too_large());
            }
            out.write_all(&chunk).await.map_err(not_stored)?;
        }
        out.flush().await.map_err(not_stored)?;
        Ok(LocalFile::Temporary(file))
    }
}

fn not_read(reason: &str) -> AttemptError {
    AttemptError::OwnFault(format!("the upload could not be read: {reason}"))
}

fn not_fetched(reason: &str) -> AttemptError {
    AttemptError::Permanent(format!("The audio could not be fetched from audio_url: {reason}."))
}
