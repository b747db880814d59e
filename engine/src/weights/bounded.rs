//! Reading of files that are not trusted: every length is compared with the file before anything is allocated.

use std::fs::File;
use std::io::{BufReader, Read};

type Result<T> = std::result::Result<T, String>;

/// A file that is read from its start on.
pub(super) struct Bounded<'a> {
    from: BufReader<&'a File>,
    at: u64,
    /// Bytes that may be read.
    end: u64,
    /// The most bytes that are accepted, if they are fewer than the file has.
    limit: Option<u64>,
}

impl<'a> Bounded<'a> {
    /// A file of so many bytes.
    pub fn new(file: &'a File, bytes: u64) -> Self {
        Self { from: BufReader::new(file), at: 0, end: bytes, limit: None }
    }

    /// A file of so many bytes, of which at most `limit` are a header.
    pub fn header(file: &'a File, bytes: u64, limit: u64) -> Self {
        let limit = (limit < bytes).then_some(limit);
        Self { from: BufReader::new(file), at: 0, end: limit.unwrap_or(bytes), limit }
    }

    /// Bytes that were read or skipped.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// True at the end.
    pub fn is_at_end(&self) -> bool {
        self.at == self.end
    }

    /// Fails unless so many more bytes can be there.
    pub fn check(&self, bytes: u64) -> Result<()> {
        match (self.at.checked_add(bytes), self.limit) {
            (Some(end), _) if end <= self.end => Ok(()),
            (_, Some(limit)) => Err(format!("the header is longer than {limit} bytes")),
            _ => Err("truncated: the file ends too early, or a length in it is wrong".into()),
        }
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.check(bytes.len() as u64)?;
        self.from.read_exact(bytes).map_err(|error| format!("cannot be read: {error}"))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// The next bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: u64) -> Result<Vec<u8>> {
        self.check(count)?;
        let mut bytes = vec![0; usize::try_from(count).map_err(|error| error.to_string())?];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Leaves so many bytes out.
    pub fn skip(&mut self, count: u64) -> Result<()> {
        self.check(count)?;
        let step = i64::try_from(count).map_err(|error| error.to_string())?;
        self.from.seek_relative(step).map_err(|error| format!("cannot be read: {error}"))?;
        self.at += count;
        Ok(())
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number of things, of 32 bits, that take at least so many bytes each.
    pub fn count(&mut self, each: u64) -> Result<usize> {
        let count = self.u32()?;
        self.check(u64::from(count).saturating_mul(each))?;
        usize::try_from(count).map_err(|error| error.to_string())
    }
}
