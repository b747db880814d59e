//! The bytes of a file or buffer, read by several readers in turn: the probe, symphonia, `ffmpeg`.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use symphonia::core::io::MediaSource;
use tempfile::NamedTempFile;

use super::unreadable;
use crate::error::Result;

/// A source that can be read and sought.
pub(super) trait ReadSeek: Read + Seek + Send {}

impl<S: Read + Seek + Send> ReadSeek for S {}

/// A handle on the bytes. Clones share one position, so only one of them may be in use at a time.
#[derive(Clone)]
pub(super) struct Input {
    // The mutex serves to get the source back from symphonia, which takes its reader by value and does not return it on
    // failure; threads do not matter here.
    source: Arc<Mutex<Box<dyn ReadSeek>>>,
    path: Option<PathBuf>,
    length: u64,
}

/// A file that another process can open by its path.
pub(super) struct InputFile {
    /// Absolute.
    pub(super) path: PathBuf,
    /// In bytes.
    pub(super) length: u64,
    /// Deletes the copy when it is dropped.
    _copy: Option<NamedTempFile>,
}

impl Input {
    pub(super) fn from_file(mut file: File, path: PathBuf, name: &str) -> Result<Self> {
        let length = length(&mut file).map_err(|error| unreadable(name, &error))?;
        Ok(Self { source: Arc::new(Mutex::new(Box::new(file))), path: Some(path), length })
    }

    pub(super) fn from_source(mut source: Box<dyn ReadSeek>, name: &str) -> Result<Self> {
        let length = length(&mut source).map_err(|error| unreadable(name, &error))?;
        Ok(Self { source: Arc::new(Mutex::new(source)), path: None, length })
    }

    /// In bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The bytes up to `end`.
    pub(super) fn until(mut self, end: u64) -> Self {
        self.length = self.length.min(end);
        self
    }

    /// The same bytes as a file: the file itself, or a temporary copy of another source.
    pub(super) fn to_file(&self, name: &str) -> Result<InputFile> {
        let failed = |error: io::Error| unreadable(name, &error);
        if let Some(path) = &self.path {
            return Ok(InputFile {
                path: std::path::absolute(path).map_err(failed)?,
                length: self.length,
                _copy: None,
            });
        }
        let mut copy = NamedTempFile::new().map_err(failed)?;
        let mut bytes = self.clone();
        bytes.rewind().map_err(failed)?;
        io::copy(&mut bytes, &mut copy).map_err(failed)?;
        Ok(InputFile { path: copy.path().to_path_buf(), length: self.length, _copy: Some(copy) })
    }

    fn with<T>(&self, act: impl FnOnce(&mut dyn ReadSeek) -> T) -> T {
        // A panic while reading leaves at worst a wrong position, and every reader seeks first.
        act(&mut **self.source.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn length(source: &mut dyn ReadSeek) -> io::Result<u64> {
    let length = source.seek(SeekFrom::End(0))?;
    source.rewind()?;
    Ok(length)
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.with(|source| {
            let left = self.length.saturating_sub(source.stream_position()?);
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            source.read(&mut buffer[..most])
        })
    }
}

impl Seek for Input {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.with(|source| match to {
            SeekFrom::End(from) => match self.length.checked_add_signed(from) {
                Some(position) => source.seek(SeekFrom::Start(position)),
                None => Err(ErrorKind::InvalidInput.into()),
            },
            to => source.seek(to),
        })
    }
}

impl MediaSource for Input {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.length)
    }
}
