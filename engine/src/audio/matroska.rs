//! Facts about a Matroska or WebM file that symphonia does not report: a cut-off segment, and which of several audio tracks is the
//! default. RFC 9559, and RFC 8794 for EBML.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

/// Elements that are read; the others are stepped over.
const SEGMENT: u64 = 0x1853_8067;
const TRACKS: u64 = 0x1654_AE6B;
const CLUSTER: u64 = 0x1F43_B675;
const TRACK_ENTRY: u64 = 0xAE;
const TRACK_NUMBER: u64 = 0xD7;
const TRACK_TYPE: u64 = 0x83;
const FLAG_DEFAULT: u64 = 0x88;

/// The type of an audio track.
const AUDIO: u64 = 2;

/// Limit on the number of elements, above any valid file: those before the first cluster.
const MAX_ELEMENTS: usize = 10_000;

/// The facts.
#[derive(Debug, Default, PartialEq)]
pub(super) struct MatroskaIndex {
    /// The file ends inside its segment.
    pub(super) cut: bool,
    /// The number of the default audio track, where the file has one.
    pub(super) default_audio: Option<u32>,
}

/// An element: its number, and the start and end of its content. The end is none where the writer did not know it.
struct Element {
    id: u64,
    start: u64,
    end: Option<u64>,
}

struct ElementReader<'a, S> {
    source: &'a mut S,
    elements: usize,
}

impl MatroskaIndex {
    /// Reads the elements before the first cluster.
    pub(super) fn read<S: Read + Seek>(source: &mut S, offset: u64) -> io::Result<Self> {
        let file_end = source.seek(SeekFrom::End(0))?;
        let mut reader = ElementReader { source, elements: 0 };
        let (mut index, mut position) = (Self::default(), offset);
        while let Some(element) = reader.next(position, file_end)? {
            let end = element.end.unwrap_or(file_end);
            if element.id == SEGMENT {
                index.cut = end > file_end;
                index.default_audio = reader.default_audio(element.start, end.min(file_end))?;
                break;
            }
            position = end;
        }
        Ok(index)
    }
}

impl<S: Read + Seek> ElementReader<'_, S> {
    /// The element at a position; none at the end, and for bytes that are none.
    fn next(&mut self, position: u64, end: u64) -> io::Result<Option<Element>> {
        self.elements += 1;
        if position >= end || self.elements > MAX_ELEMENTS {
            return Ok(None);
        }
        self.source.seek(SeekFrom::Start(position))?;
        let mut head = Vec::with_capacity(12);
        self.source.by_ref().take(12).read_to_end(&mut head)?;
        let Some((id, id_length)) = number(&head, true) else { return Ok(None) };
        let Some((size, size_length)) = number(&head[id_length..], false) else { return Ok(None) };
        let start = position + (id_length + size_length) as u64;
        // A size of ones alone is unknown.
        let is_known = size != (1 << (7 * size_length)) - 1;
        Ok(Some(Element { id, start, end: is_known.then(|| start.saturating_add(size)) }))
    }

    fn default_audio(&mut self, start: u64, end: u64) -> io::Result<Option<u32>> {
        let mut position = start;
        while let Some(element) = self.next(position, end)? {
            match (element.id, element.end) {
                (TRACKS, Some(tracks_end)) => return self.first_default(element.start, tracks_end.min(end)),
                (CLUSTER, _) | (_, None) => break,
                (_, Some(after)) => position = after,
            }
        }
        Ok(None)
    }

    fn first_default(&mut self, start: u64, end: u64) -> io::Result<Option<u32>> {
        let mut position = start;
        while let Some(Element { id, start, end: Some(after) }) = self.next(position, end)? {
            position = after;
            if id != TRACK_ENTRY {
                continue;
            }
            // A track that does not state it is a default one.
            let (mut track, mut kind, mut is_default) = (0, 0, 1);
            let mut within = start;
            while let Some(Element { id, start, end: Some(after) }) = self.next(within, position.min(end))? {
                within = after;
                match id {
                    TRACK_NUMBER => track = self.unsigned(start, after)?,
                    TRACK_TYPE => kind = self.unsigned(start, after)?,
                    FLAG_DEFAULT => is_default = self.unsigned(start, after)?,
                    _ => {}
                }
            }
            if kind == AUDIO && is_default == 1 {
                return Ok(u32::try_from(track).ok());
            }
        }
        Ok(None)
    }

    /// An unsigned integer of at most eight bytes; 0 for another.
    fn unsigned(&mut self, start: u64, end: u64) -> io::Result<u64> {
        let length = (end - start) as usize;
        let mut bytes = [0; 8];
        if length > bytes.len() {
            return Ok(0);
        }
        self.source.seek(SeekFrom::Start(start))?;
        match self.source.read_exact(&mut bytes[8 - length..]) {
            Ok(()) => Ok(u64::from_be_bytes(bytes)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// A number of variable length and its bytes; with the mark of its length where it is an element's.
fn number(bytes: &[u8], keeps_mark: bool) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = first.leading_zeros() as usize + 1;
    let value = bytes.get(..length.min(9)).filter(|_| length <= 8)?;
    let value = value.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Some((if keeps_mark { value } else { value & ((1 << (7 * length)) - 1) }, length))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn element(id: &[u8], content: &[u8]) -> Vec<u8> {
        [id, &[0x40 | (content.len() >> 8) as u8, content.len() as u8], content].concat()
    }

    fn track(number: u8, kind: u8, default: Option<u8>) -> Vec<u8> {
        let flag = default.map(|flag| element(&[0x88], &[flag])).unwrap_or_default();
        element(&[0xae], &[element(&[0xd7], &[number]), element(&[0x83], &[kind]), flag].concat())
    }

    fn file(tracks: &[Vec<u8>]) -> Vec<u8> {
        let tracks = element(&[0x16, 0x54, 0xae, 0x6b], &tracks.concat());
        let cluster = element(&[0x1f, 0x43, 0xb6, 0x75], &[0; 50]);
        let segment = [element(&[0xec], &[0; 9]), tracks, cluster].concat();
        [element(&[0x1a, 0x45, 0xdf, 0xa3], b"head"), element(&[0x18, 0x53, 0x80, 0x67], &segment)].concat()
    }

    fn read(bytes: &[u8]) -> MatroskaIndex {
        MatroskaIndex::read(&mut Cursor::new(bytes), 0).unwrap()
    }

    #[test]
    fn the_default_track_is_the_first_audio_that_does_not_deny_it() {
        let default = |tracks: &[Vec<u8>]| read(&file(tracks)).default_audio;
        assert_eq!(default(&[track(1, 1, None), track(2, 2, Some(0)), track(3, 2, None)]), Some(3));
        assert_eq!(default(&[track(1, 2, Some(1)), track(2, 2, None)]), Some(1));
        assert_eq!(default(&[track(1, 2, Some(0))]), None);
    }

    #[test]
    fn a_file_that_ends_within_its_segment_is_cut() {
        let whole = file(&[track(1, 2, None)]);
        assert!(!read(&whole).cut);
        for length in 20..whole.len() {
            assert!(read(&whole[..length]).cut, "{length}");
        }
        let unknown = [element(&[0x1a, 0x45, 0xdf, 0xa3], b"head"), vec![0x18, 0x53, 0x80, 0x67, 0xff, 0xae]].concat();
        assert_eq!(read(&unknown), MatroskaIndex::default());
        for bytes in [&b""[..], b"\0\0\0", &[0xff; 40]] {
            assert_eq!(read(bytes), MatroskaIndex::default());
        }
    }
}
