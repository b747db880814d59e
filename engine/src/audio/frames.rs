//! Elementary streams without a header: recognised by consecutive frames that follow without a gap and agree.

use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};

use super::container::Container;

/// Frames that must follow one another. With four, a chance match in 128 KiB of random bytes is less likely than one in
/// a billion.
const RUN: usize = 4;

/// Frames that suffice at the very start of a file that ends after them.
const RUN_TO_END: usize = 1;

/// Parses a frame header: the frame's length in bytes, and the bits that must be equal in the next frame.
type HeaderParser = fn(&[u8]) -> Option<(usize, u32)>;

const STREAMS: &[(Container, HeaderParser)] =
    &[(Container::MpegAudio, mpeg_audio), (Container::Adts, adts), (Container::Ac3, ac3), (Container::Eac3, eac3)];

/// Finds an elementary stream and the offset of its first frame; `at_end` if the bytes reach the end of the file.
pub(super) fn find(head: &[u8], at_end: bool) -> Option<(Container, usize)> {
    // The very start comes first: a short file may end early there.
    let start = STREAMS.iter().find(|(_, header)| runs(head, *header, at_end));
    if let Some((container, _)) = start {
        return Some((*container, 0));
    }
    if let Some((sync, packet)) = transport_packets(head) {
        // The four bytes of a Blu-ray packet come before its sync byte.
        return Some((Container::MpegTs, if packet == 192 { sync.saturating_sub(4) } else { sync }));
    }
    // Then any offset, for a recording that starts within a frame or after junk. AC-3 is excluded, because its 16-bit
    // sync word is its only mark.
    STREAMS[..2].iter().find_map(|(container, header)| {
        let start = (1..head.len()).find(|start| head[*start] == 0xff && runs(&head[*start..], *header, false))?;
        Some((*container, start))
    })
}

fn runs(head: &[u8], header: HeaderParser, at_end: bool) -> bool {
    let (mut position, mut kind) = (0, None);
    for seen in 0..RUN {
        let rest = head.get(position..).unwrap_or_default();
        let enough_at_end = at_end && seen >= RUN_TO_END;
        match header(rest) {
            // The last frame may be cut off, unless it is the only one.
            Some((length, same)) if kind.is_none_or(|kind| kind == same) => {
                if seen == 0 && rest.len() < length {
                    return false;
                }
                kind = Some(same);
                position += length;
            }
            // After the last frame: nothing, half a header, or tags at the end of the file.
            _ => {
                return enough_at_end && (rest.len() < 10 || rest.starts_with(b"TAG") || rest.starts_with(b"APETAGEX"));
            }
        }
    }
    true
}

/// MPEG-1, 2 and 2.5 audio: ISO/IEC 11172-3, 2.4.1.3.
fn mpeg_audio(head: &[u8]) -> Option<(usize, u32)> {
    let word = u32::from_be_bytes(*head.first_chunk()?);
    let (version, layer) = (word >> 19 & 3, word >> 17 & 3);
    let (bitrate, rate) = ((word >> 12 & 15) as usize, (word >> 10 & 3) as usize);
    if word >> 21 != 0x7ff || version == 1 || layer == 0 || rate == 3 || !(1..15).contains(&bitrate) {
        return None;
    }
    const KBPS: [[u32; 14]; 5] = [
        [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
        [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
        [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
        [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
        [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    ];
    let mpeg1 = version == 3;
    let (table, samples) = match (mpeg1, layer) {
        (true, 3) => (0, 384),
        (true, 2) => (1, 1152),
        (true, _) => (2, 1152),
        (false, 3) => (3, 384),
        (false, 2) => (4, 1152),
        (false, _) => (4, 576),
    };
    let hertz = [44_100, 48_000, 32_000][rate] >> [2, 0, 1, 0][version as usize];
    let padding = word >> 9 & 1;
    let bits = KBPS[table][bitrate - 1] * 1_000 * samples;
    let length = if layer == 3 { (bits / 32 / hertz + padding) * 4 } else { bits / 8 / hertz + padding };
    // Version, layer and rate stay; the bitrate may vary.
    (length > 4).then_some((length as usize, word & 0xfffe_0c00))
}

/// AAC in ADTS: ISO/IEC 13818-7, 6.2.
fn adts(head: &[u8]) -> Option<(usize, u32)> {
    let [a, b, c, d, e, f, _] = *head.first_chunk::<7>()?;
    if a != 0xff || b & 0xf6 != 0xf0 || c >> 2 & 15 > 12 {
        return None;
    }
    let length = usize::from(d & 3) << 11 | usize::from(e) << 3 | usize::from(f >> 5);
    // Version, profile, rate and channels stay.
    (length > 7).then_some((length, u32::from_be_bytes([0, b, c & 0xfd, d & 0xc0])))
}

/// A change of the audio within an ADTS stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AdtsChange {
    /// The first frame of the kind.
    pub(super) frame: u64,
    /// Hertz.
    pub(super) rate: u32,
    pub(super) channels: u16,
}

/// The frames from which on an ADTS stream has another rate or other channels. None after bytes that are no frame.
pub(super) fn adts_changes(source: impl Read + Seek, offset: u64) -> io::Result<Vec<AdtsChange>> {
    const RATES: [u32; 13] =
        [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];
    let mut source = BufReader::with_capacity(64 << 10, source);
    source.seek(SeekFrom::Start(offset))?;
    let (mut changes, mut known) = (Vec::new(), None);
    for frame in 0.. {
        let mut head = [0; 7];
        match source.read_exact(&mut head) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            other => other?,
        }
        let Some((length, _)) = adts(&head) else { break };
        let kind = (head[2] >> 2 & 15, (head[2] & 1) << 2 | head[3] >> 6);
        if known.replace(kind).is_some_and(|known| known != kind)
            && let Some(rate) = RATES.get(usize::from(kind.0))
        {
            // Seven stands for eight channels. Zero leaves them to the frame's content, which is not read here.
            let channels = if kind.1 == 7 { 8 } else { kind.1.into() };
            if channels > 0 {
                changes.push(AdtsChange { frame, rate: *rate, channels });
            }
        }
        source.seek_relative(length as i64 - head.len() as i64)?;
    }
    Ok(changes)
}

/// AC-3: ATSC A/52, 5.4.1 and table 5.18.
fn ac3(head: &[u8]) -> Option<(usize, u32)> {
    let [0x0b, 0x77, _, _, code, id, ..] = *head else {
        return None;
    };
    const KBPS: [usize; 19] = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640];
    let (rate, size) = (code >> 6, usize::from(code & 63));
    if id >> 3 > 10 || size >= 38 {
        return None;
    }
    let kbps = KBPS[size / 2];
    let words = match rate {
        0 => kbps * 2,
        1 => kbps * 96_000 / 44_100 + size % 2,
        2 => kbps * 3,
        _ => return None,
    };
    Some((words * 2, u32::from(rate)))
}

/// E-AC-3: ATSC A/52, annex E, 2.3.1.
fn eac3(head: &[u8]) -> Option<(usize, u32)> {
    let [0x0b, 0x77, a, b, _, id, ..] = *head else {
        return None;
    };
    let length = 2 * ((usize::from(a & 7) << 8 | usize::from(b)) + 1);
    (matches!(id >> 3, 11..=16) && length > 16).then_some((length, 0))
}

/// The first of five sync bytes, and the bytes of a packet: 188, 192 on Blu-ray and AVCHD (M2TS, MTS), 204 with error correction.
pub(super) fn transport_packets(head: &[u8]) -> Option<(usize, usize)> {
    const PACKETS: usize = 5;
    [188, 192, 204].into_iter().find_map(|packet| {
        let synced = |start: &usize| (0..PACKETS).all(|n| head.get(start + n * packet) == Some(&0x47));
        Some(((0..packet).find(synced)?, packet))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MPEG-1 layer 3, 128 kbit/s, 44.1 kHz: 417 bytes.
    fn mp3_frame() -> Vec<u8> {
        [&[0xff, 0xfb, 0x90, 0x00][..], &[0; 413]].concat()
    }

    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    #[test]
    fn four_frames_in_a_row_are_a_stream_wherever_they_start() {
        let stream = mp3_frame().repeat(5);
        assert_eq!(find(&stream, false), Some((Container::MpegAudio, 0)));
        let late = [&[1, 2, 0xff, 0xfb, 0x90][..], &stream].concat();
        assert_eq!(find(&late, false), Some((Container::MpegAudio, 5)));
    }

    #[test]
    fn one_whole_frame_is_a_stream_if_it_is_the_file() {
        assert_eq!(find(&mp3_frame(), true), Some((Container::MpegAudio, 0)));
        assert_eq!(find(&[mp3_frame(), b"TAG...........".to_vec()].concat(), true), Some((Container::MpegAudio, 0)));
        assert_eq!(find(&mp3_frame(), false), None);
        assert_eq!(find(&mp3_frame()[..416], true), None);
        assert_eq!(find(&[mp3_frame(), vec![0; 500]].concat(), true), None);
    }

    #[test]
    fn adts_and_transport_streams_are_known() {
        let adts = [&[0xff, 0xf1, 0x50, 0x80, 0x02, 0x1f, 0xfc][..], &[7; 9]].concat();
        assert_eq!(find(&adts.repeat(4), false), Some((Container::Adts, 0)));
        let ts = [&[0x47][..], &[1; 187]].concat();
        assert_eq!(find(&ts.repeat(5), false), Some((Container::MpegTs, 0)));
        let m2ts = [&[0, 0, 0, 0, 0x47][..], &[1; 187]].concat();
        assert_eq!(find(&m2ts.repeat(5), false), Some((Container::MpegTs, 0)));
    }

    #[test]
    fn random_bytes_are_no_stream() {
        for seed in 0..200 {
            assert_eq!(find(&noise(seed, 128 * 1024), false), None, "seed {seed}");
            assert_eq!(find(&noise(seed, 300), true), None, "seed {seed}");
        }
    }
}
