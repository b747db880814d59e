//! A ZIP archive, file after file, with the 64-bit fields where its size or the number of its files needs them.

use std::io::{self, Write as _};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// The version of the format that a reader must know: 2.0, for deflated files.
const VERSION: u16 = 20;
/// The version with 64-bit fields: 4.5.
const VERSION_64: u16 = 45;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;
const DEFLATED: u16 = 8;
/// The earliest date of the format, 1 January 1980, at midnight: equal files make equal archives.
const DATE: u16 = (1 << 5) | 1;
const TIME: u16 = 0;

/// Writes an archive whose parts are passed on as they come. It holds a line for each file until the end.
#[derive(Default)]
pub struct ZipWriter {
    directory: Vec<u8>,
    entries: u64,
    /// Bytes of the archive so far.
    size: u64,
}

impl ZipWriter {
    /// The next part of the archive: a file.
    ///
    /// # Errors
    /// If the file has 4 GB or more.
    pub fn entry(&mut self, name: &str, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes)?;
        let deflated = encoder.finish()?;
        let mut crc = Crc::new();
        crc.update(bytes);
        // What the entry and its line of the directory have in common.
        let mut common = Vec::new();
        for field in [VERSION, FLAGS, DEFLATED, TIME, DATE] {
            common.extend(field.to_le_bytes());
        }
        for field in [crc.sum(), size(deflated.len())?, size(bytes.len())?] {
            common.extend(field.to_le_bytes());
        }
        common.extend((name.len() as u16).to_le_bytes());
        let mut part = Vec::with_capacity(deflated.len() + name.len() + 30);
        part.extend(b"PK\x03\x04");
        part.extend(&common);
        // No extra fields.
        part.extend([0; 2]);
        part.extend(name.as_bytes());
        part.extend(deflated);
        self.directory.extend(b"PK\x01\x02");
        self.directory.extend(VERSION.to_le_bytes());
        self.directory.extend(common);
        let start = u32::try_from(self.size).ok();
        let extra: u16 = if start.is_some() { 0 } else { 12 };
        self.directory.extend(extra.to_le_bytes());
        // No comment, the first disk, and no attributes.
        self.directory.extend([0; 10]);
        self.directory.extend(start.unwrap_or(u32::MAX).to_le_bytes());
        self.directory.extend(name.as_bytes());
        if start.is_none() {
            // A 64-bit field of 8 bytes: the start.
            self.directory.extend([1, 0, 8, 0]);
            self.directory.extend(self.size.to_le_bytes());
        }
        self.entries += 1;
        self.size += part.len() as u64;
        Ok(part)
    }

    /// The last part of the archive: its directory.
    pub fn end(self) -> Vec<u8> {
        let (start, bytes) = (self.size, self.directory.len() as u64);
        let mut part = self.directory;
        let short = (u16::try_from(self.entries), u32::try_from(bytes), u32::try_from(start));
        let (entries, bytes, start) = match short {
            (Ok(entries), Ok(bytes), Ok(start)) => (entries, bytes, start),
            _ => {
                let end = start + bytes;
                part.extend(b"PK\x06\x06");
                // The bytes that follow in this record.
                part.extend(44_u64.to_le_bytes());
                part.extend(VERSION_64.to_le_bytes());
                part.extend(VERSION_64.to_le_bytes());
                // The first disk, which has the directory.
                part.extend([0; 8]);
                for field in [self.entries, self.entries, bytes, start] {
                    part.extend(field.to_le_bytes());
                }
                part.extend(b"PK\x06\x07");
                part.extend([0; 4]);
                part.extend(end.to_le_bytes());
                part.extend(1_u32.to_le_bytes());
                (u16::MAX, u32::MAX, u32::MAX)
            }
        };
        part.extend(b"PK\x05\x06");
        // The first disk, which has the directory.
        part.extend([0; 4]);
        part.extend(entries.to_le_bytes());
        part.extend(entries.to_le_bytes());
        part.extend(bytes.to_le_bytes());
        part.extend(start.to_le_bytes());
        // No comment.
        part.extend([0; 2]);
        part
    }
}

/// The archive of a few small files, each a name and its bytes.
///
/// # Errors
/// If a file has 4 GB or more.
pub fn archive(files: &[(&str, &[u8])]) -> io::Result<Vec<u8>> {
    let mut zip = ZipWriter::default();
    let mut archive = Vec::new();
    for (name, bytes) in files {
        archive.extend(zip.entry(name, bytes)?);
    }
    archive.extend(zip.end());
    Ok(archive)
}

fn size(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::Error::other("a file of the archive has 4 GB or more"))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::DeflateDecoder;

    use super::*;

    /// The number of so many bytes at a place.
    fn number(archive: &[u8], at: usize, bytes: usize) -> usize {
        archive[at..at + bytes].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
    }

    #[test]
    fn the_directory_leads_to_every_file() {
        let files: [(&str, &[u8]); 3] = [("a/b.xml", &[b'x'; 1000]), ("é", b""), ("c", b"text")];
        let archive = archive(&files).unwrap();
        let end = archive.len() - 22;
        assert_eq!(&archive[end..end + 4], b"PK\x05\x06");
        assert_eq!(number(&archive, end + 10, 2), files.len());
        let mut line = number(&archive, end + 16, 4);
        assert_eq!(line + number(&archive, end + 12, 4), end);
        for (name, bytes) in files {
            assert_eq!(&archive[line..line + 4], b"PK\x01\x02");
            let (deflated, length) = (number(&archive, line + 20, 4), number(&archive, line + 24, 4));
            let entry = number(&archive, line + 42, 4);
            assert_eq!(&archive[entry..entry + 4], b"PK\x03\x04");
            // Both headers say the same of the file.
            assert_eq!(archive[entry + 4..entry + 30], archive[line + 6..line + 32], "{name}");
            let start = entry + 30 + name.len();
            assert_eq!(&archive[entry + 30..start], name.as_bytes());
            let mut inflated = Vec::new();
            DeflateDecoder::new(&archive[start..start + deflated]).read_to_end(&mut inflated).unwrap();
            assert_eq!((inflated.as_slice(), length), (bytes, bytes.len()), "{name}");
            line += 46 + name.len();
        }
        assert_eq!(line, end);
    }

    #[test]
    fn large_archives_have_fields_of_64_bits() {
        // An archive of more than 4 GB before its last file.
        let mut zip = ZipWriter { size: 5 << 30, ..ZipWriter::default() };
        zip.entry("a", b"text").unwrap();
        let start = zip.size;
        let end = zip.end();
        assert_eq!(number(&end, 42, 4), u32::MAX as usize);
        assert_eq!(number(&end, 46 + 1 + 4, 8), 5 << 30);
        let record = end.len() - 22 - 20 - 56;
        assert_eq!(&end[record..record + 4], b"PK\x06\x06");
        assert_eq!([24, 32, 48].map(|at| number(&end, record + at, 8)), [1, 1, start as usize]);
        assert_eq!(number(&end, record + 56 + 8, 8), start as usize + record);
        // More files than 16 bits count.
        let mut zip = ZipWriter { entries: 70_000, ..ZipWriter::default() };
        zip.entry("a", b"text").unwrap();
        let end = zip.end();
        let record = end.len() - 22 - 20 - 56;
        assert_eq!([number(&end, record + 24, 8), number(&end, end.len() - 14, 2)], [70_001, u16::MAX as usize]);
    }
}
