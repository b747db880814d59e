//! Speech in the formats that `ffmpeg` writes.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Stdio;

use auricle_engine::audio::ffmpeg_program;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _, stream};
use hyper::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdout, Command};

use crate::http::response::{ApiError, Result};
use crate::http::response_body::ResponseBroken;
use crate::sound_format::SoundFormat;

/// Bytes that are read at a time.
const PART_BYTES: usize = 16 << 10;

pub fn unavailable(message: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
}

/// An encoder that is there.
pub struct Encoder {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// The encoder of a format; none for one that needs none.
///
/// # Errors
/// 503 where it is not installed.
pub fn find(format: SoundFormat) -> Result<Option<Encoder>> {
    let Some(arguments) = format.encoder_arguments(OsStr::new("pipe:1")) else { return Ok(None) };
    let missing = || {
        unavailable(
            "This format needs ffmpeg, which the service's machine has not; `response_format` wav and pcm need none.",
        )
    };
    let program = ffmpeg_program().ok_or_else(missing)?;
    Ok(Some(Encoder { program, arguments }))
}

impl Encoder {
    /// Encodes sound, 16 bits at 24 kHz, as it comes. The program ends with the stream that it is read by.
    ///
    /// # Errors
    /// 503 if it cannot be started, or ends before its first byte.
    pub async fn encode(
        self,
        mut sound: impl Stream<Item = std::result::Result<Bytes, ResponseBroken>> + Send + Unpin + 'static,
    ) -> Result<impl Stream<Item = std::result::Result<Bytes, ResponseBroken>> + Send + 'static> {
        let failed = |reason: String| {
            tracing::error!(reason, "speech cannot be encoded");
            unavailable("The speech could not be encoded; `response_format` wav and pcm need no encoder.")
        };
        let mut child = Command::new(&self.program)
            .args(self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("the pipes are missing".into()));
        };
        // Ends when the program does, as its pipe breaks then. False if the speech is not whole.
        let feeding = tokio::spawn(async move {
            while let Some(part) = sound.next().await {
                let Ok(part) = part else { return false };
                if stdin.write_all(&part).await.is_err() {
                    return false;
                }
            }
            stdin.shutdown().await.is_ok()
        });
        let mut encoded = Encoded { child, stdout, feeding: Some(feeding) };
        match encoded.next().await {
            Some(Ok(first)) => Ok(stream::iter([Ok(first)]).chain(stream::unfold(encoded, |mut encoded| async move {
                let part = encoded.next().await?;
                Some((part, encoded))
            }))),
            _ => Err(failed("it made nothing".into())),
        }
    }
}

/// A running encoder.
struct Encoded {
    child: Child,
    stdout: ChildStdout,
    /// None after the end.
    feeding: Option<tokio::task::JoinHandle<bool>>,
}

impl Encoded {
    /// The next bytes; none after the end.
    async fn next(&mut self) -> Option<std::result::Result<Bytes, ResponseBroken>> {
        self.feeding.as_ref()?;
        let mut part = BytesMut::with_capacity(PART_BYTES);
        match self.stdout.read_buf(&mut part).await {
            Ok(read) if read > 0 => return Some(Ok(part.freeze())),
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "the encoder cannot be read"),
        }
        let whole = self.feeding.take()?.await.unwrap_or(false);
        let ended_well = self.child.wait().await.is_ok_and(|status| status.success());
        (!(whole && ended_well)).then_some(Err(ResponseBroken))
    }
}

impl Drop for Encoded {
    fn drop(&mut self) {
        if let Some(feeding) = &self.feeding {
            feeding.abort();
        }
    }
}
