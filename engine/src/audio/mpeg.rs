//! MPEG transport and program streams: how much later their sound begins than their picture. `ffmpeg` counts time from the first of the
//! streams that it decodes, so that it does not know.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Result};
use std::path::Path;

use super::container::Container;
use super::frames;

/// Bytes from the start of the file within which both begin.
const MOST: u64 = 64 << 20;

/// Bytes of a packet that hold the time and the first bytes of its payload.
const HEADER: usize = 64;

/// Ticks of the clock in a second, and its bits.
const TICKS: f64 = 90_000.0;
const CLOCK_BITS: u32 = 33;

/// Times of the first packets, in ticks.
#[derive(Debug, Default)]
struct First {
    picture: Option<u64>,
    sound: Option<u64>,
}

/// Seconds from the first picture to the first sound. None without one of them, and where the sound is first.
pub(super) fn lead_s(path: &Path, container: Container) -> Option<f64> {
    let mut first = First::default();
    let mut file = BufReader::with_capacity(1 << 16, File::open(path).ok()?).take(MOST);
    // The end of the file is one of the errors.
    let _ = match container {
        Container::MpegTs => transport(&mut file, &mut first),
        Container::MpegPs => program(&mut file, &mut first),
        _ => return None,
    };
    let (picture, sound) = (first.picture?, first.sound?);
    let wrap = 1_u64 << CLOCK_BITS;
    let lead = sound.wrapping_sub(picture) % wrap;
    (lead < wrap / 2).then_some(lead as f64 / TICKS)
}

/// Reads packets of equal length until both times are known.
fn transport(file: &mut impl BufRead, first: &mut First) -> Result<()> {
    let Some((offset, length)) = frames::transport_packets(file.fill_buf()?) else { return Ok(()) };
    file.consume(offset);
    let mut packet = vec![0; length];
    while !first.is_known() && file.read_exact(&mut packet).is_ok() {
        let [0x47, flags, _, control, rest @ ..] = packet.as_slice() else { return Ok(()) };
        let skipped = if control & 0x20 == 0 { 0 } else { 1 + usize::from(rest[0]) };
        if flags & 0x40 != 0 && control & 0x10 != 0 {
            first.take(rest.get(skipped..).unwrap_or_default());
        }
    }
    Ok(())
}

/// Reads packets, each of which states its length, until both times are known.
fn program(file: &mut impl BufRead, first: &mut First) -> Result<()> {
    let mut packet = Vec::with_capacity(HEADER);
    let mut start = [0xff_u8; 4];
    let mut byte = [0];
    while !first.is_known() && file.read(&mut byte)? == 1 {
        start.rotate_left(1);
        start[3] = byte[0];
        let [0, 0, 1, 0xbb..=0xff] = start else { continue };
        // The length counts from behind it.
        let mut length = [0; 2];
        file.read_exact(&mut length)?;
        let mut rest = file.take(u16::from_be_bytes(length).into());
        packet.clear();
        packet.extend([&start[..], &length].concat());
        rest.by_ref().take(HEADER as u64).read_to_end(&mut packet)?;
        first.take(&packet);
        std::io::copy(&mut rest, &mut std::io::sink())?;
        start = [0xff; 4];
    }
    Ok(())
}

impl First {
    fn is_known(&self) -> bool {
        self.picture.is_some() && self.sound.is_some()
    }

    /// Reads the time of an elementary stream's packet at its start code.
    fn take(&mut self, packet: &[u8]) {
        let [0, 0, 1, stream, _, _, header @ ..] = packet else { return };
        let Some((time, payload)) = time(header) else { return };
        let slot = match stream {
            0xe0..=0xef => &mut self.picture,
            0xc0..=0xdf => &mut self.sound,
            // AC-3 and DTS, as such or behind the number of a DVD's track, and PCM of a DVD.
            0xbd | 0xfd if matches!(payload, [0x0b, 0x77, ..] | [0x7f, 0xfe, ..] | [0x80..=0x8f | 0xa0..=0xaf, ..]) => {
                &mut self.sound
            }
            _ => return,
        };
        slot.get_or_insert(time);
    }
}

/// The time in the header of a packet behind its length, in the form of MPEG-2 or of MPEG-1, and the payload.
fn time(header: &[u8]) -> Option<(u64, &[u8])> {
    let (ticks, payload) = match header {
        [flags, has_time, length, rest @ ..] if flags >> 6 == 2 => {
            (has_time & 0x80 != 0).then_some(())?;
            (rest, rest.get(usize::from(*length)..).unwrap_or_default())
        }
        _ => {
            let stuffing = header.iter().position(|byte| *byte != 0xff)?;
            let rest = &header[stuffing..];
            let rest = if rest[0] >> 6 == 1 { rest.get(2..)? } else { rest };
            let length = match rest.first()? >> 4 {
                2 => 5,
                3 => 10,
                _ => return None,
            };
            (rest, rest.get(length..).unwrap_or_default())
        }
    };
    let [high, b, c, d, e] = ticks.first_chunk().map(|bytes: &[u8; 5]| bytes.map(u64::from))?;
    Some(((high >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets with the number of the stream and the time, in the form of MPEG-2.
    fn lead(packets: &[(u8, u64, &[u8])]) -> Option<f64> {
        let mut bytes = b"\0\0\x01\xba\x44\0\x04\0\x04\x01\0\0\x03\xf8".to_vec();
        bytes.extend(b"\0\0\x01\xbb\0\x0c\xa1\xa1\xad\x04\x21\xff\xe0\xe0\xe6\xc0\xc0\x20");
        for (stream, time, payload) in packets {
            let ticks = [
                0x21 | (time >> 30 << 1) as u8,
                (time >> 22) as u8,
                1 | (time >> 15 << 1) as u8,
                (time >> 7) as u8,
                1 | (time << 1) as u8,
            ];
            let length = (8 + payload.len()) as u16;
            bytes.extend([&[0, 0, 1, *stream][..], &length.to_be_bytes(), &[0x80, 0x80, 5], &ticks, payload].concat());
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        lead_s(file.path(), Container::MpegPs)
    }

    #[test]
    fn the_first_packets_of_picture_and_sound_count() {
        let second = 90_000;
        let data: &[u8] = &[7; 3_000];
        assert_eq!(lead(&[(0xe0, second, data), (0xe0, 9 * second, data), (0xc0, 3 * second, data)]), Some(2.0));
        assert_eq!(lead(&[(0xe0, second, data), (0xbd, 2 * second, data), (0xbd, 4 * second, b"\x80\x01")]), Some(3.0));
        assert_eq!(lead(&[(0xe0, second, data), (0xbd, 3 * second, b"\x0b\x77")]), Some(2.0));
        assert_eq!(lead(&[(0xc0, second, data), (0xe0, 3 * second, data)]), None, "sound first");
        assert_eq!(lead(&[(0xe0, (1 << 33) - second, data), (0xc0, second, data)]), Some(2.0), "the clock began again");
        assert_eq!(lead(&[(0xc0, second, data)]), None);
        assert_eq!(lead(&[]), None);
    }

    #[test]
    fn headers_of_mpeg_1_have_times_too() {
        let header = [0xff, 0xff, 0x60, 0x20, 0x21, 0, 1, 0, 0x81, 9];
        assert_eq!(time(&header), Some((64, &[9][..])));
        assert_eq!(time(&[0x0f, 1, 2]), None);
        assert_eq!(time(&[0xff; 9]), None);
        assert_eq!(time(&[]), None);
    }
}
