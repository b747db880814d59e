//! A ZIP archive of a few small files.

use std::io::{self, Write as _};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// The version of the format that a reader must know: 2.0, for deflated files.
const VERSION: u16 = 20;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;
const DEFLATED: u16 = 8;
/// The earliest date of the format, 1 January 1980, at midnight: equal files make equal archives.
const DATE: u16 = (1 << 5) | 1;
const TIME: u16 = 0;

/// The archive of these files, each a name and its bytes.
///
/// # Errors
/// If the archive exceeds the 4 GB of the format.
pub fn archive(files: &[(&str, &[u8])]) -> io::Result<Vec<u8>> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes)?;
        let deflated = encoder.finish()?;
        let mut crc = Crc::new();
        crc.update(bytes);
        let start = size(archive.len())?;
        // What the entry and its line of the directory have in common.
        let mut entry = Vec::new();
        for field in [VERSION, FLAGS, DEFLATED, TIME, DATE] {
            entry.extend(field.to_le_bytes());
        }
        for field in [crc.sum(), size(deflated.len())?, size(bytes.len())?] {
            entry.extend(field.to_le_bytes());
        }
        entry.extend((name.len() as u16).to_le_bytes());
        // No extra fields.
        entry.extend([0; 2]);
        archive.extend(b"PK\x03\x04");
        archive.extend(&entry);
        archive.extend(name.as_bytes());
        archive.extend(deflated);
        directory.extend(b"PK\x01\x02");
        directory.extend(VERSION.to_le_bytes());
        directory.extend(entry);
        // No comment, the first disk, and no attributes.
        directory.extend([0; 10]);
        directory.extend(start.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let start = size(archive.len())?;
    let (bytes, entries) = (size(directory.len())?, (files.len() as u16).to_le_bytes());
    archive.extend(directory);
    archive.extend(b"PK\x05\x06");
    // The first disk, which has the directory.
    archive.extend([0; 4]);
    archive.extend(entries);
    archive.extend(entries);
    archive.extend(bytes.to_le_bytes());
    archive.extend(start.to_le_bytes());
    // No comment.
    archive.extend([0; 2]);
    Ok(archive)
}

fn size(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::Error::other("the archive exceeds 4 GB"))
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
}
