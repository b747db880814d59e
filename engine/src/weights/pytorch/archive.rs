//! Records of a ZIP archive that are stored as they are.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

const END: [u8; 4] = *b"PK\x05\x06";
const LONG_END_PLACE: [u8; 4] = *b"PK\x06\x07";
const LONG_END: [u8; 4] = *b"PK\x06\x06";
const ENTRY: [u8; 4] = *b"PK\x01\x02";
const LOCAL: [u8; 4] = *b"PK\x03\x04";
/// Bytes of the end of an archive without its comment, and of an entry of its directory without its name.
const END_BYTES: usize = 22;
const ENTRY_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;
const LONG_END_PLACE_BYTES: u64 = 20;
/// Longest comment.
const MAX_COMMENT: u64 = 0xffff;
/// Longest directory that is accepted.
const MAX_DIRECTORY_BYTES: u64 = 64 << 20;
/// The number of the extra field that holds what does not fit into 32 bits.
const LONG_FIELD: u16 = 1;

/// A record.
#[derive(Clone, Debug)]
pub struct Record {
    pub name: String,
    pub bytes: u64,
    /// Its header's first byte in the file.
    header: u64,
}

/// The records of a file.
pub struct Archive<'a> {
    file: &'a mut File,
    bytes: u64,
    records: Vec<Record>,
}

/// Reads numbers from bytes.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("its directory is cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, String> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

impl<'a> Archive<'a> {
    /// Reads the directory.
    pub fn read(file: &'a mut File) -> Result<Self, String> {
        let bytes = file.seek(SeekFrom::End(0)).map_err(|e| e.to_string())?;
        let mut archive = Self { file, bytes, records: Vec::new() };
        let tail_start = bytes.saturating_sub(END_BYTES as u64 + MAX_COMMENT);
        let tail = archive.part(tail_start, bytes - tail_start)?;
        let end = tail.windows(END_BYTES).rposition(|bytes| bytes.starts_with(&END));
        let end = end.ok_or("it is no archive of torch.save, or a truncated one")?;
        let mut fields = Fields(&tail[end + END.len()..]);
        fields.take(6)?;
        let (mut count, mut size, mut start) = (fields.number(2)?, fields.number(4)?, fields.number(4)?);
        if let Some(long) = archive.long_end(tail_start + end as u64)? {
            (count, size, start) = long;
        }
        if size > MAX_DIRECTORY_BYTES {
            return Err(format!("its directory has {size} bytes"));
        }
        let directory = archive.part(start, size)?;
        let mut fields = Fields(&directory);
        for _ in 0..count {
            archive.records.push(entry(&mut fields)?);
        }
        Ok(archive)
    }

    /// Number of records, bytes and start of the directory, where they may not fit into 32 bits.
    fn long_end(&mut self, end: u64) -> Result<Option<(u64, u64, u64)>, String> {
        let Some(place) = end.checked_sub(LONG_END_PLACE_BYTES) else { return Ok(None) };
        let bytes = self.part(place, LONG_END_PLACE_BYTES)?;
        if !bytes.starts_with(&LONG_END_PLACE) {
            return Ok(None);
        }
        let mut fields = Fields(&bytes[8..]);
        let start = fields.number(8)?;
        let bytes = self.part(start, 56)?;
        if !bytes.starts_with(&LONG_END) {
            return Err("the end of its directory is not there".into());
        }
        let mut fields = Fields(&bytes[32..]);
        Ok(Some((fields.number(8)?, fields.number(8)?, fields.number(8)?)))
    }

    /// The record of a name.
    pub fn named(&self, name: &str) -> Option<Record> {
        self.records.iter().find(|record| record.name == name).cloned()
    }

    /// The record with a file name, in any folder.
    pub fn find(&self, file: &str) -> Option<Record> {
        self.records.iter().find(|record| record.name.rsplit('/').next() == Some(file)).cloned()
    }

    /// Everything in a record.
    pub fn contents(&mut self, record: &Record) -> Result<Vec<u8>, String> {
        let start = self.start(record)?;
        self.part(start, record.bytes)
    }

    /// The first byte of a record's contents in the file; they lie in the file.
    pub fn start(&mut self, record: &Record) -> Result<u64, String> {
        let header = self.part(record.header, LOCAL_BYTES as u64)?;
        if !header.starts_with(&LOCAL) {
            return Err(format!("its record {} is not where its directory says", record.name));
        }
        let mut fields = Fields(&header[26..]);
        let start = record.header + LOCAL_BYTES as u64 + fields.number(2)? + fields.number(2)?;
        match start.checked_add(record.bytes) {
            Some(end) if end <= self.bytes => Ok(start),
            _ => Err(format!("truncated: its record {} ends past the end of the file", record.name)),
        }
    }

    fn part(&mut self, start: u64, count: u64) -> Result<Vec<u8>, String> {
        if start.checked_add(count).is_none_or(|end| end > self.bytes) {
            return Err("truncated: a part of it lies past the end of the file".into());
        }
        let mut bytes = vec![0; usize::try_from(count).map_err(|e| e.to_string())?];
        let read = self.file.seek(SeekFrom::Start(start)).and_then(|_| self.file.read_exact(&mut bytes));
        read.map(|()| bytes).map_err(|e| format!("cannot be read: {e}"))
    }
}

/// An entry of the directory.
fn entry(fields: &mut Fields) -> Result<Record, String> {
    let mut fixed = Fields(fields.take(ENTRY_BYTES)?);
    if fixed.take(ENTRY.len())? != ENTRY {
        return Err("its directory is malformed".into());
    }
    fixed.take(6)?;
    let method = fixed.number(2)?;
    fixed.take(8)?;
    let (packed, mut bytes) = (fixed.number(4)?, fixed.number(4)?);
    let (name, extra, comment) = (fixed.number(2)?, fixed.number(2)?, fixed.number(2)?);
    fixed.take(8)?;
    let mut header = fixed.number(4)?;
    let name = String::from_utf8_lossy(fields.take(name as usize)?).into_owned();
    let mut extra = Fields(fields.take(extra as usize)?);
    fields.take(comment as usize)?;
    if method != 0 {
        return Err(format!("its record {name} is compressed; torch.save stores records as they are"));
    }
    const LONG: u64 = 0xffff_ffff;
    while !extra.0.is_empty() {
        let (kind, size) = (extra.number(2)?, extra.number(2)?);
        let mut field = Fields(extra.take(size as usize)?);
        if kind != u64::from(LONG_FIELD) {
            continue;
        }
        // Those that do not fit into 32 bits, in this order.
        if bytes == LONG {
            bytes = field.number(8)?;
        }
        if packed == LONG {
            field.take(8)?;
        }
        if header == LONG {
            header = field.number(8)?;
        }
    }
    Ok(Record { name, bytes, header })
}
