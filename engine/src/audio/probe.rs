//! Identifies a file from its first bytes; for files that are not media, says what they are.
//!
//! Neither the name nor symphonia's own probe is used: the name may be wrong, and that probe takes the first two bytes
//! that look like an MP3 frame, anywhere within a megabyte, for an MP3 file. Formats without a magic number (MP3, AAC,
//! TS) need several consecutive frames that agree.

use std::io::{Read, Seek, SeekFrom};

use super::container::Container;
use super::frames::AdtsChange;
use super::input::Input;
use super::matroska::MatroskaIndex;
use super::mp4::Mp4Index;
use super::{frames, unreadable};
use crate::error::{Error, Result};

/// The result of the probe.
#[derive(Debug)]
pub(super) struct ProbeResult {
    pub(super) container: Container,
    /// Start of the media: after an ID3 tag or junk.
    pub(super) offset: u64,
    /// The tracks, for an MP4.
    pub(super) mp4: Option<Mp4Index>,
    /// The default audio track of a Matroska file, where it has one.
    pub(super) default_audio: Option<u32>,
    /// The file ends early, as its structure shows.
    pub(super) cut: bool,
    /// Changes of the audio within the file, for ADTS.
    pub(super) changes: Vec<AdtsChange>,
    /// The header states no length: it was written to a pipe.
    pub(super) endless: bool,
    /// End of the media: before tags at the end of the file.
    pub(super) end: u64,
}

/// Bytes examined from the start of the audio. An MP3 may have this much junk before its first frame.
const WINDOW: usize = 128 * 1024;

/// Most ID3v2 tags before the audio, and the bytes read to determine the length of one.
const MOST_TAGS: usize = 64;
const ID3V2_HEADER: usize = 10;

/// Bytes at the end of an Ogg file that hold the start of its last page: a page is at most 65,307 bytes.
const OGG_TAIL: u64 = 64 * 1024 + 512;

/// Identifies the bytes. The position afterwards is arbitrary.
///
/// # Errors
/// [`Error::UnsupportedMedia`], which names the actual kind of file, [`Error::NoAudioTrack`] for an MP4 without audio,
/// [`Error::Read`].
pub(super) fn probe(input: &mut Input, name: &str) -> Result<ProbeResult> {
    if input.length() == 0 {
        return Err(Error::UnsupportedMedia(format!("{name} is empty (0 bytes)")));
    }
    let failed = |error| unreadable(name, &error);
    let mut offset = 0;
    // Several ID3v2 tags may follow one another, each with a picture of megabytes.
    for _ in 0..MOST_TAGS {
        let start = window(input, offset, ID3V2_HEADER).map_err(failed)?;
        let Some(length) = id3v2_length(&start) else { break };
        offset += length;
        if offset >= input.length() {
            return Err(Error::UnsupportedMedia(format!(
                "{name} is cut off: it ends within its ID3 tag, before any audio"
            )));
        }
    }
    let head = window(input, offset, WINDOW).map_err(failed)?;
    let at_end = offset + head.len() as u64 >= input.length();
    let Some((container, junk)) = magic(&head).map(|container| (container, 0)).or_else(|| frames::find(&head, at_end))
    else {
        return Err(Error::UnsupportedMedia(format!(
            "{name} is not audio or video that can be decoded: {}",
            describe_other(&head, at_end)
        )));
    };
    let mut found = ProbeResult {
        container,
        offset: offset + junk as u64,
        mp4: None,
        default_audio: None,
        cut: false,
        changes: Vec::new(),
        endless: false,
        end: input.length(),
    };
    match container {
        Container::Matroska => {
            let index = MatroskaIndex::read(input, offset).map_err(failed)?;
            (found.cut, found.default_audio) = (index.cut, index.default_audio);
        }
        Container::Wav => found.endless = is_endless_wav(&head, input.length() - offset),
        Container::Adts => found.changes = frames::adts_changes(input, found.offset).map_err(failed)?,
        Container::Flac => found.end -= tail_tags(input).map_err(failed)?,
        Container::Mp4 => {
            let index = Mp4Index::read(input).map_err(failed)?;
            index.check(name)?;
            found.cut = index.cut;
            found.mp4 = Some(index);
        }
        Container::Ogg => {
            let start = input.length().saturating_sub(OGG_TAIL);
            let tail = window(input, start, OGG_TAIL as usize).map_err(failed)?;
            found.cut = !ends_with_last_page(&tail);
        }
        _ => {}
    }
    Ok(found)
}

fn window(input: &mut Input, offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
    input.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    input.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The total length of an ID3v2 tag at the start of the bytes.
fn id3v2_length(head: &[u8]) -> Option<u64> {
    let &[b'I', b'D', b'3', major, revision, flags, a, b, c, d, ..] = head else {
        return None;
    };
    if major == 0xff || revision == 0xff || (a | b | c | d) & 0x80 != 0 {
        return None;
    }
    let body = [a, b, c, d].iter().fold(0_u64, |length, byte| length << 7 | u64::from(*byte));
    let footer = if flags & 0x10 != 0 { 10 } else { 0 };
    Some(10 + body + footer)
}

/// Formats with a magic number at their start.
fn magic(head: &[u8]) -> Option<Container> {
    let at = |offset: usize, what: &[u8]| head.get(offset..).is_some_and(|rest| rest.starts_with(what));
    Some(match head {
        _ if at(0, b"RIFF") && at(8, b"WAVE") && wav_channels(head) > 18 => Container::WideWav,
        _ if at(0, b"RIFF") && at(8, b"WAVE") => Container::Wav,
        _ if (at(0, b"RF64") || at(0, b"BW64")) && at(8, b"WAVE") => Container::Rf64,
        _ if at(0, b"riff\x2e\x91\xcf\x11") => Container::Wave64,
        _ if at(0, b"RIFF") && at(8, b"AVI ") => Container::Avi,
        _ if at(0, b"FORM") && (at(8, b"AIFF") || at(8, b"AIFC")) => Container::Aiff,
        _ if at(0, b"caff") => Container::Caf,
        _ if at(0, b"fLaC") => Container::Flac,
        _ if at(0, b"OggS") => Container::Ogg,
        _ if at(0, b"\x1a\x45\xdf\xa3") => Container::Matroska,
        _ if at(0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11") => Container::Asf,
        _ if at(0, b"FLV\x01") => Container::Flv,
        _ if at(0, b"#!AMR\n") || at(0, b"#!AMR-WB\n") => Container::Amr,
        _ if at(0, b".snd") => Container::Au,
        _ if at(0, b"\x00\x00\x01\xba") => Container::MpegPs,
        // QuickTime files from before `ftyp` start with one of the other types.
        _ if [b"ftyp", b"moov", b"mdat", b"wide", b"styp", b"pnot"].iter().any(|kind| at(4, *kind)) => Container::Mp4,
        _ if (at(4, b"free") || at(4, b"skip")) && head[0] == 0 => Container::Mp4,
        _ => return None,
    })
}

/// True for a WAV file whose length the writer did not know: the size of its data is one of those that stand for that, all about 2 or 4
/// GiB, and the file is shorter.
fn is_endless_wav(head: &[u8], length: u64) -> bool {
    let mut position = 12;
    while let Some([name @ .., a, b, c, d]) = head.get(position..position + 8) {
        let size = u32::from_le_bytes([*a, *b, *c, *d]);
        if name == b"data" {
            let is_placeholder = matches!(size, 0x7fff_0000..=0x8000_0000 | 0xffff_0000..);
            return is_placeholder && position as u64 + 8 + u64::from(size) > length;
        }
        position = position.saturating_add(8 + size as usize + size as usize % 2);
    }
    false
}

/// Bytes of tags at the end of a file: an ID3v1 tag, and an APE tag before it.
fn tail_tags(input: &mut Input) -> std::io::Result<u64> {
    const ID3V1: u64 = 128;
    const APE_FOOTER: u64 = 32;
    let length = input.length();
    let mut tags = 0;
    if length >= ID3V1 && window(input, length - ID3V1, 3)? == *b"TAG" {
        tags = ID3V1;
    }
    if length >= tags + APE_FOOTER {
        let footer = window(input, length - tags - APE_FOOTER, APE_FOOTER as usize)?;
        if let [b'A', b'P', b'E', b'T', b'A', b'G', b'E', b'X', _, _, _, _, a, b, c, d, ..] = footer[..] {
            // The size is that of the items and the footer; a header before them is not counted.
            let size = u64::from(u32::from_le_bytes([a, b, c, d]));
            let has_header = footer.get(23).is_some_and(|flags| flags & 0x80 != 0);
            tags = (tags + size + if has_header { APE_FOOTER } else { 0 }).min(length);
        }
    }
    Ok(tags)
}

/// The channel count in the `fmt ` chunk, which is the first chunk or one of the first.
fn wav_channels(head: &[u8]) -> u16 {
    let chunk = head.windows(12).take(4_096).find(|bytes| bytes.starts_with(b"fmt "));
    chunk.map_or(0, |chunk| u16::from_le_bytes([chunk[10], chunk[11]]))
}

/// True if an Ogg file is complete: it ends with a page that is marked as the last.
fn ends_with_last_page(tail: &[u8]) -> bool {
    let Some(start) = tail.windows(4).rposition(|four| four == b"OggS") else {
        return false;
    };
    let page = &tail[start..];
    let Some(segments) = page.get(26).map(|count| usize::from(*count)) else {
        return false;
    };
    let Some(lacing) = page.get(27..27 + segments) else {
        return false;
    };
    let body: usize = lacing.iter().map(|length| usize::from(*length)).sum();
    page[5] & 4 != 0 && page.len() >= 27 + segments + body
}

/// Signatures of common files that are not media.
const OTHERS: &[(&[u8], &str)] = &[
    (b"%PDF", "it is a PDF document"),
    (b"PK\x03\x04", "it is a ZIP archive or an office document"),
    (b"\x1f\x8b", "it is a gzip archive"),
    (b"Rar!", "it is a RAR archive"),
    (b"7z\xbc\xaf\x27\x1c", "it is a 7z archive"),
    (b"\xfd7zXZ\0", "it is an XZ archive"),
    (b"\x89PNG", "it is a PNG image"),
    (b"\xff\xd8\xff", "it is a JPEG image"),
    (b"GIF8", "it is a GIF image"),
    (b"BM", "it is a BMP image"),
    (b"\xd0\xcf\x11\xe0", "it is an old office document"),
    (b"MThd", "it is a MIDI file, which holds notes and no sound"),
    (b"\x7fELF", "it is a program"),
    (b"MZ", "it is a program"),
    (b"SQLite format 3\0", "it is a database"),
    (b"wvpk", "WavPack is not supported"),
    (b"MAC ", "Monkey's Audio is not supported"),
    (b"MPCK", "Musepack is not supported"),
    (b"TTA1", "True Audio is not supported"),
    (b".RMF", "RealMedia is not supported"),
];

/// Describes bytes that are not media.
fn describe_other(head: &[u8], at_end: bool) -> &'static str {
    let others = OTHERS.iter().find(|(start, _)| head.starts_with(start));
    if let Some((_, what)) = others {
        return what;
    }
    if head.starts_with(b"RIFF") || head.starts_with(b"FORM") {
        return "it is a RIFF or IFF file without sound, or cut off in its header";
    }
    if head.iter().all(|byte| *byte == 0) {
        return "it holds nothing but zero bytes";
    }
    let text = match std::str::from_utf8(head) {
        Ok(text) => Some(text),
        // The window may end within a character.
        Err(error) if !at_end && error.error_len().is_none() => std::str::from_utf8(&head[..error.valid_up_to()]).ok(),
        Err(_) => None,
    };
    match text {
        Some(text) if text.chars().all(|c| !c.is_control() || c.is_whitespace()) => {
            let start: String = text.trim_start().chars().take(15).collect::<String>().to_lowercase();
            if start.starts_with("<!doctype html") || start.starts_with("<html") {
                "it is an HTML page"
            } else if start.starts_with("<?xml") {
                "it is an XML document"
            } else if start.starts_with("#extm3u") || start.starts_with("[playlist]") {
                "it is a playlist"
            } else {
                "it is plain text"
            }
        }
        _ => "its bytes are of no known media format",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn probed(bytes: &[u8]) -> Result<ProbeResult> {
        let mut input = Input::from_source(Box::new(Cursor::new(bytes.to_vec())), "x")?;
        probe(&mut input, "x")
    }

    fn reason(bytes: &[u8]) -> String {
        probed(bytes).unwrap_err().to_string()
    }

    #[test]
    fn tags_before_the_audio_are_stepped_over_but_not_for_ever() {
        let tag = b"ID3\x04\0\0\0\0\0\0";
        let audio = b"fLaC\0\0\0\x22";
        assert_eq!(probed(&[&tag.repeat(5)[..], audio].concat()).unwrap().offset, 50);
        assert!(reason(&[&tag.repeat(10_000)[..], audio].concat()).contains("not audio"));
    }

    #[test]
    fn what_is_no_media_is_called_what_it_is() {
        assert!(reason(b"").contains("empty"));
        assert!(reason(b"Dear Sir,\r\nplease find\tattached\n").contains("plain text"));
        assert!(reason("Grüße aus Köln".as_bytes()).contains("plain text"));
        assert!(reason(b"\n<!DOCTYPE HTML><title>404</title>").contains("HTML"));
        assert!(reason(b"#EXTM3U\nhttp://x/y.ts\n").contains("playlist"));
        assert!(reason(b"%PDF-1.7").contains("PDF"));
        assert!(reason(b"PK\x03\x04....").contains("ZIP"));
        assert!(reason(b"\xff\xd8\xff\xe0\0\x10JFIF").contains("JPEG"));
        assert!(reason(&[0; 5000]).contains("zero bytes"));
        assert!(reason(&[1, 2, 3]).contains("no known media format"));
    }

    #[test]
    fn text_that_the_window_cuts_within_a_character_is_still_text() {
        let mut text = "a".repeat(WINDOW - 1);
        text.push_str("é and more");
        assert!(reason(text.as_bytes()).contains("plain text"));
    }

    #[test]
    fn tags_before_the_audio_are_stepped_over() {
        let mut bytes = b"ID3\x04\x00\x00\x00\x00\x01\x00".to_vec();
        bytes.extend([0xff; 128]);
        bytes.extend(b"ID3\x03\x00\x00\x00\x00\x00\x02..");
        bytes.extend(b"fLaC....");
        let found = probed(&bytes).unwrap();
        assert_eq!((found.container, found.offset), (Container::Flac, 150));
        assert!(reason(&bytes[..100]).contains("ID3 tag"));
    }

    #[test]
    fn an_ogg_file_is_whole_only_with_its_last_page() {
        let page = |flags: u8| [b"OggS\0".as_slice(), &[flags], &[0; 20], &[1, 3], b"abc"].concat();
        assert!(ends_with_last_page(&page(4)));
        assert!(!ends_with_last_page(&page(0)));
        assert!(!ends_with_last_page(&page(4)[..29]));
        assert!(!ends_with_last_page(b""));
    }
}
