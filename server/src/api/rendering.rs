//! Documents that are made of a whole transcript: few at a time, outside the async threads. A large one is put into a
//! file, from which the client reads it, so that slow clients hold no memory.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::TryStreamExt as _;
use hyper::header::{CONTENT_ENCODING, HeaderValue, VARY};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::io::ReaderStream;

use crate::http::response::{ApiError, Response, Result, bytes, streamed};
use crate::http::response_body::ResponseBroken;

/// A larger document is put into a file.
const MAX_MEMORY_BYTES: usize = 256 << 10;

/// A shorter text is not worth compressing.
const COMPRESSED_FROM_BYTES: usize = 4 << 10;

/// Beginnings of the content types of texts.
const TEXTS: [&str; 3] = ["text/", "application/json", "application/x-subrip"];

/// Bytes that are read from the file at a time.
const READ_BYTES: usize = 64 << 10;

/// Makes documents.
pub struct Renderer {
    permits: Arc<Semaphore>,
    /// The folder of temporary files.
    scratch: PathBuf,
}

/// The right to make one document.
pub struct RenderPermit(OwnedSemaphorePermit);

enum Document {
    InMemory(Vec<u8>),
    InFile(File),
}

impl Renderer {
    /// As many documents are made at a time as there are processors.
    pub fn new(scratch: PathBuf) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { permits: Arc::new(Semaphore::new(processors)), scratch }
    }

    /// Waits until a document may be made. The transcript is read afterwards.
    ///
    /// # Errors
    /// If the service stops.
    pub async fn permit(&self) -> Result<RenderPermit> {
        self.permits.clone().acquire_owned().await.map(RenderPermit).map_err(|error| ApiError::internal(&error))
    }

    /// Does other work on a whole transcript, outside the async threads.
    ///
    /// # Errors
    /// If it fails.
    pub async fn run<T: Send + 'static>(
        &self,
        permit: RenderPermit,
        work: impl FnOnce() -> serde_json::Result<T> + Send + 'static,
    ) -> Result<T> {
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit.0;
            work()
        });
        done.await.map_err(|error| ApiError::internal(&error))?.map_err(|error| ApiError::internal(&error))
    }

    /// Makes a document and responds with it, compressed if it is a longer text and the client accepts that.
    ///
    /// # Errors
    /// If it cannot be made or stored.
    pub async fn respond<D: Into<Vec<u8>>>(
        &self,
        permit: RenderPermit,
        content_type: &'static str,
        accepts_gzip: bool,
        work: impl FnOnce() -> io::Result<D> + Send + 'static,
    ) -> Result<Response> {
        let scratch = self.scratch.clone();
        let is_text = TEXTS.iter().any(|text| content_type.starts_with(text));
        let made = tokio::task::spawn_blocking(move || {
            let _permit = permit.0;
            let mut document: Vec<u8> = work()?.into();
            let compressed = is_text && accepts_gzip && document.len() >= COMPRESSED_FROM_BYTES;
            if compressed {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&document)?;
                document = encoder.finish()?;
            }
            if document.len() <= MAX_MEMORY_BYTES {
                return Ok((Document::InMemory(document), compressed));
            }
            // The file has no name, so it ends with the response.
            let mut file = tempfile::tempfile_in(scratch)?;
            file.write_all(&document)?;
            file.rewind()?;
            Ok::<_, io::Error>((Document::InFile(file), compressed))
        });
        let made = made.await.map_err(|error| ApiError::internal(&error))?;
        let (document, compressed) = made.map_err(|error| ApiError::internal(&error))?;
        let mut response = match document {
            Document::InMemory(document) => bytes(content_type, document.into()),
            Document::InFile(file) => {
                let parts = ReaderStream::with_capacity(tokio::fs::File::from_std(file), READ_BYTES);
                streamed(
                    content_type,
                    parts.map_err(|error| {
                        tracing::error!(%error, "reading a document failed");
                        ResponseBroken
                    }),
                )
            }
        };
        if is_text {
            response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
        }
        if compressed {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        Ok(response)
    }
}
