//! Facts about an MP4, M4A, MOV or 3GP file that symphonia does not report: encryption, presence of the index, and the
//! audio removed by edit lists. ISO/IEC 14496-12.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

use crate::error::{Error, Result};

/// The facts about all tracks.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Mp4Index {
    pub(super) tracks: Vec<Mp4Track>,
    has_index: bool,
    /// Ticks a second of the presentation, in which edits are measured.
    timescale: u32,
    /// The file ends inside a box.
    pub(super) cut: bool,
}

/// One track.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Mp4Track {
    pub(super) id: u32,
    /// `soun`, `vide`, ...
    handler: [u8; 4],
    /// The type of its first sample entry: `mp4a`, `drms`, ...
    pub(super) codec: [u8; 4],
    timescale: u32,
    /// In units of `timescale`; 0 if the fragments state it.
    duration: u64,
    /// Start of the presentation in the track's own time, in units of `timescale`.
    media_time: u32,
    /// Length of the presentation, in units of the file's time scale; 0 for the whole track.
    presented: u64,
    /// Time before the presentation, in the same units.
    gap: u64,
}

/// Audio at a track's end, in seconds, that an edit list may omit as encoder padding and rounding. Longer omissions are
/// deliberate cuts.
const PADDING_S: f64 = 0.1;

impl Mp4Track {
    /// Seconds at the start of the decoded audio that are encoder delay.
    pub(super) fn delay_s(&self) -> f64 {
        if self.timescale == 0 {
            return 0.0;
        }
        f64::from(self.media_time) / f64::from(self.timescale)
    }

    /// Seconds of audio presented after the delay, if an edit cuts off the end. `timescale` is the file's.
    fn presented_s(&self, timescale: u32) -> Option<f64> {
        if self.presented == 0 || self.duration == 0 || self.timescale == 0 || timescale == 0 {
            return None;
        }
        let presented_s = self.presented as f64 / f64::from(timescale);
        let there_s = self.duration as f64 / f64::from(self.timescale) - self.delay_s();
        (there_s - presented_s > PADDING_S).then_some(presented_s)
    }

    fn is_audio(&self) -> bool {
        &self.handler == b"soun"
    }

    /// `drms` is Apple's FairPlay, `enca` common encryption.
    fn is_encrypted(&self) -> bool {
        matches!(&self.codec, b"drms" | b"enca")
    }
}

/// Limit on the number of boxes, above any valid file: a fragmented one of 10 hours has two boxes a second.
const MAX_BOXES: usize = 200_000;

/// Nesting levels read below `trak`: `mdia`, `minf`, `stbl`. A hostile file may nest thousands.
const DEPTH: usize = 3;

/// A box: its type, and the start and end of its content.
struct Box4 {
    kind: [u8; 4],
    start: u64,
    end: u64,
}

impl Mp4Index {
    /// Walks the boxes by seeking: media data is skipped, and only the needed values are read.
    pub(super) fn read<S: Read + Seek>(source: &mut S) -> io::Result<Self> {
        let end = source.seek(SeekFrom::End(0))?;
        let mut walk = BoxReader { source, boxes: 0 };
        let mut index = Self::default();
        let mut position = 0;
        while let Some(found) = walk.next_box(position, end)? {
            index.cut |= found.end > end;
            position = found.end;
            if &found.kind == b"moov" {
                index.has_index = true;
                walk.children(&found, end, |walk, child| {
                    match &child.kind {
                        b"trak" => index.tracks.push(walk.track(child, end)?),
                        b"mvhd" => index.timescale = walk.after_times(child.start)?,
                        _ => {}
                    }
                    Ok(())
                })?;
            }
        }
        Ok(index)
    }

    /// Seconds of a video before the sound of a track begins.
    pub(super) fn gap_s(&self, id: u32) -> f64 {
        let has_video = self.tracks.iter().any(|track| &track.handler == b"vide");
        match self.tracks.iter().find(|track| track.id == id) {
            Some(track) if has_video && self.timescale > 0 => track.gap as f64 / f64::from(self.timescale),
            _ => 0.0,
        }
    }

    /// [`Mp4Track::delay_s`] and [`Mp4Track::presented_s`] of a track.
    pub(super) fn edits(&self, id: u32) -> Option<(f64, Option<f64>)> {
        let track = self.tracks.iter().find(|track| track.id == id)?;
        Some((track.delay_s(), track.presented_s(self.timescale)))
    }

    /// # Errors
    /// [`Error::UnsupportedMedia`] if the index is missing or all audio is encrypted, [`Error::NoAudioTrack`].
    pub(super) fn check(&self, name: &str) -> Result<()> {
        if !self.has_index {
            return Err(Error::UnsupportedMedia(format!(
                "{name} is cut off or still being written: its index (the `moov` box) is missing, so its audio cannot be found"
            )));
        }
        let mut audio = self.tracks.iter().filter(|track| track.is_audio()).peekable();
        let Some(first) = audio.peek().copied() else {
            // A cut-off index may have lost the audio track.
            if self.cut && !self.tracks.iter().any(|track| &track.handler == b"vide") {
                return Err(Error::UnsupportedMedia(format!("{name} is cut off within its index (the `moov` box)")));
            }
            return Err(Error::NoAudioTrack(format!("{name} holds {}", self.kinds())));
        };
        if audio.all(Mp4Track::is_encrypted) {
            return Err(Error::UnsupportedMedia(format!(
                "{name} is protected by DRM (sample entry `{}`) and cannot be decoded",
                first.codec.escape_ascii()
            )));
        }
        Ok(())
    }

    fn kinds(&self) -> &'static str {
        match self.tracks.iter().any(|track| &track.handler == b"vide") {
            true => "video only",
            false => "no track of sound",
        }
    }
}

struct BoxReader<'a, S> {
    source: &'a mut S,
    boxes: usize,
}

impl<S: Read + Seek> BoxReader<'_, S> {
    /// The box at `position`, or `None` if there is none before `end` or the file exceeds [`MAX_BOXES`].
    fn next_box(&mut self, position: u64, end: u64) -> io::Result<Option<Box4>> {
        self.boxes += 1;
        if position >= end || self.boxes > MAX_BOXES {
            return Ok(None);
        }
        let Some(header) = self.bytes::<8>(position)? else {
            return Ok(None);
        };
        let [a, b, c, d, kind @ ..] = header;
        let (length, start) = match u32::from_be_bytes([a, b, c, d]) {
            0 => (end - position, position + 8),
            1 => {
                let Some(length) = self.bytes(position + 8)? else {
                    return Ok(None);
                };
                (u64::from_be_bytes(length), position + 16)
            }
            length => (u64::from(length), position + 8),
        };
        let box_end = position.saturating_add(length);
        // A length shorter than its own header would cause an endless loop.
        Ok((box_end >= start).then_some(Box4 { kind, start, end: box_end }))
    }

    fn children(
        &mut self,
        parent: &Box4,
        file_end: u64,
        mut visit: impl FnMut(&mut Self, &Box4) -> io::Result<()>,
    ) -> io::Result<()> {
        let end = parent.end.min(file_end);
        let mut position = parent.start;
        while let Some(child) = self.next_box(position, end)? {
            visit(self, &child)?;
            position = child.end;
        }
        Ok(())
    }

    fn track(&mut self, trak: &Box4, file_end: u64) -> io::Result<Mp4Track> {
        let mut track = Mp4Track::default();
        self.descend(trak, file_end, DEPTH, &mut track)?;
        Ok(track)
    }

    fn descend(&mut self, parent: &Box4, file_end: u64, depth: usize, track: &mut Mp4Track) -> io::Result<()> {
        self.children(parent, file_end, |walk, child| {
            // Versions differ in the width of times: 4 bytes, or 8 in version 1.
            let wide = walk.bytes::<1>(child.start)? == Some([1]);
            match &child.kind {
                b"edts" | b"mdia" | b"minf" | b"stbl" if depth > 0 => {
                    walk.descend(child, file_end, depth - 1, track)?
                }
                b"tkhd" => track.id = walk.after_times(child.start)?,
                b"mdhd" => {
                    track.timescale = walk.after_times(child.start)?;
                    track.duration = walk.time(child.start + if wide { 24 } else { 16 }, wide)?;
                }
                // A QuickTime file has a second `hdlr`, of its data handler, inside `minf`.
                b"hdlr" if &parent.kind == b"mdia" => track.handler = walk.bytes(child.start + 8)?.unwrap_or_default(),
                b"stsd" => track.codec = walk.bytes(child.start + 12)?.unwrap_or_default(),
                b"elst" => (track.media_time, track.presented, track.gap) = walk.edit(child.start, wide)?,
                _ => {}
            }
            Ok(())
        })
    }

    /// The first edit that is no gap: its start in the track's time scale, and its length in the file's, which is 0, for the whole track,
    /// if more than one edit follows; and the length of the gaps before it.
    fn edit(&mut self, start: u64, wide: bool) -> io::Result<(u32, u64, u64)> {
        let entries = self.u32(start + 4)?.min(16);
        let (width, length) = if wide { (8, 20) } else { (4, 12) };
        let (mut edit, mut gap) = (None, 0u64);
        for entry in 0..u64::from(entries) {
            let entry = start + 8 + entry * length;
            let time = u32::try_from(self.time(entry + width, wide)?).ok().filter(|time| *time <= i32::MAX as u32);
            let Some(time) = time else {
                // A start below zero is a gap.
                gap = gap.saturating_add(if edit.is_none() { self.time(entry, wide)? } else { 0 });
                continue;
            };
            match &mut edit {
                None => edit = Some((time, self.time(entry, wide)?)),
                Some((_, presented)) => *presented = 0,
            }
        }
        let (time, presented) = edit.unwrap_or_default();
        Ok((time, presented, gap))
    }

    /// Position after the two times at the head of a box of version 0 or 1.
    fn after_times(&mut self, start: u64) -> io::Result<u32> {
        let wide = self.bytes::<1>(start)? == Some([1]);
        self.u32(start + if wide { 20 } else { 12 })
    }

    /// Reads a time or a length: 8 bytes in version 1, else 4.
    fn time(&mut self, position: u64, wide: bool) -> io::Result<u64> {
        match wide {
            true => Ok(self.bytes(position)?.map_or(0, u64::from_be_bytes)),
            false => Ok(self.u32(position)?.into()),
        }
    }

    fn u32(&mut self, position: u64) -> io::Result<u32> {
        Ok(self.bytes(position)?.map_or(0, u32::from_be_bytes))
    }

    /// Reads `N` bytes. `None` at the end of the file.
    fn bytes<const N: usize>(&mut self, position: u64) -> io::Result<Option<[u8; N]>> {
        self.source.seek(SeekFrom::Start(position))?;
        let mut bytes = [0; N];
        match self.source.read_exact(&mut bytes) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn boxed(kind: &[u8; 4], content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        let length = content.len() as u32 + 8;
        [&length.to_be_bytes()[..], kind, &content].concat()
    }

    fn track(handler: &[u8; 4], codec: &[u8; 4]) -> Vec<u8> {
        let tkhd = boxed(b"tkhd", &[&[0; 12], &7_u32.to_be_bytes(), &[0; 68]]);
        let gap = [&5_u32.to_be_bytes()[..], &(-1_i32).to_be_bytes(), &[0, 1, 0, 0]].concat();
        let edit = [&99_u32.to_be_bytes()[..], &1_024_u32.to_be_bytes(), &[0, 1, 0, 0]].concat();
        let edts = boxed(b"edts", &[&boxed(b"elst", &[&[0; 4], &2_u32.to_be_bytes(), &gap, &edit])]);
        let mdhd = boxed(b"mdhd", &[&[0; 12], &44_100_u32.to_be_bytes(), &441_000_u32.to_be_bytes(), &[0; 4]]);
        let hdlr = boxed(b"hdlr", &[&[0; 8], handler, &[0; 12]]);
        let stsd = boxed(b"stsd", &[&[0; 4], &1_u32.to_be_bytes(), &boxed(codec, &[&[0; 28]])]);
        let minf = boxed(b"minf", &[&boxed(b"hdlr", &[&[0; 8], b"alis"]), &boxed(b"stbl", &[&stsd])]);
        boxed(b"trak", &[&tkhd, &edts, &boxed(b"mdia", &[&mdhd, &hdlr, &minf])])
    }

    fn file(tracks: &[Vec<u8>]) -> Vec<u8> {
        let ftyp = boxed(b"ftyp", &[b"M4A \0\0\0\0"]);
        let mvhd = boxed(b"mvhd", &[&[0; 12], &20_u32.to_be_bytes(), &[0; 84]]);
        [ftyp, boxed(b"moov", &[&mvhd, &tracks.concat()]), boxed(b"mdat", &[&[0; 100]])].concat()
    }

    fn read(bytes: &[u8]) -> Mp4Index {
        Mp4Index::read(&mut Cursor::new(bytes)).unwrap()
    }

    #[test]
    fn an_audio_track_is_read_with_its_delay() {
        let index = read(&file(&[track(b"vide", b"avc1"), track(b"soun", b"mp4a")]));
        index.check("x").unwrap();
        assert!(!index.cut);
        let audio = &index.tracks[1];
        assert_eq!((audio.id, &audio.codec, audio.is_audio()), (7, b"mp4a", true));
        // 99 of 20 ticks a second, of 10 s.
        let (delay_s, presented_s) = index.edits(7).unwrap();
        assert!((delay_s - 1_024.0 / 44_100.0).abs() < 1e-9);
        assert_eq!(presented_s, Some(4.95));
        // 5 of 20 ticks a second, where there is a video.
        assert_eq!((index.gap_s(7), read(&file(&[track(b"soun", b"mp4a")])).gap_s(7)), (0.25, 0.0));
        assert_eq!(index.edits(8), None);
    }

    #[test]
    fn encrypted_audio_is_told_from_no_audio() {
        for codec in [b"drms", b"enca"] {
            let error = read(&file(&[track(b"soun", codec)])).check("song.m4p").unwrap_err().to_string();
            assert!(error.contains("DRM") && error.contains("song.m4p"), "{error}");
        }
        read(&file(&[track(b"soun", b"enca"), track(b"soun", b"mp4a")])).check("x").unwrap();
        let error = read(&file(&[track(b"vide", b"avc1")])).check("x").unwrap_err();
        assert!(matches!(error, Error::NoAudioTrack(_)), "{error}");
    }

    #[test]
    fn truncation_anywhere_is_seen_and_ends() {
        let whole = file(&[track(b"soun", b"mp4a")]);
        for length in 16..whole.len() {
            let index = read(&whole[..length]);
            let at_a_seam = length == 16 || length == whole.len() - 108;
            assert!(index.cut || at_a_seam || index.check("x").is_err() || length + 8 > whole.len() - 100, "{length}");
        }
        assert!(read(&whole[..100]).cut);
        assert!(read(b"\0\0\0\x10ftypM4A ").check("x").unwrap_err().to_string().contains("moov"));
    }

    #[test]
    fn absurd_lengths_neither_loop_nor_overflow() {
        assert!(!read(b"\0\0\0\x04moov\0\0\0\x04moov").has_index);
        assert!(read(b"\0\0\0\x01mdat\xff\xff\xff\xff\xff\xff\xff\xff....").cut);
        assert!(read(&boxed(b"moov", &[b"\0\0\0\0trak\0\0\0\0mdia\0\0\0\0mdia"])).has_index);
    }
}
