//! Formats of speech, and how `ffmpeg` writes those that need an encoder.

use std::ffi::{OsStr, OsString};

use auricle_engine::SPEECH_RATE;

/// The form of the sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoundFormat {
    /// 16 bits at 24 kHz, behind a header.
    Wav,
    /// 16 bits at 24 kHz.
    Pcm,
    /// Made by `ffmpeg`, as the next three.
    Mp3,
    Opus,
    Aac,
    Flac,
}

impl SoundFormat {
    pub const ALL: [(&'static str, Self); 6] = [
        ("mp3", Self::Mp3),
        ("opus", Self::Opus),
        ("aac", Self::Aac),
        ("flac", Self::Flac),
        ("wav", Self::Wav),
        ("pcm", Self::Pcm),
    ];

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Wav => "audio/wav",
            Self::Pcm => "audio/pcm",
            Self::Mp3 => "audio/mpeg",
            Self::Opus => "audio/ogg",
            Self::Aac => "audio/aac",
            Self::Flac => "audio/flac",
        }
    }

    /// The arguments with which `ffmpeg` encodes samples of 16 bits from its standard input to `output`; none for a format that needs no
    /// encoder.
    pub fn encoder_arguments(self, output: &OsStr) -> Option<Vec<OsString>> {
        let encoder: &[&str] = match self {
            Self::Wav | Self::Pcm => return None,
            Self::Mp3 => &["-f", "mp3", "-b:a", "64k"],
            Self::Opus => &["-c:a", "libopus", "-b:a", "32k", "-page_duration", "200000", "-f", "ogg"],
            Self::Aac => &["-c:a", "aac", "-b:a", "64k", "-f", "adts"],
            Self::Flac => &["-f", "flac"],
        };
        let rate = SPEECH_RATE.to_string();
        let input = ["-hide_banner", "-loglevel", "error", "-f", "s16le", "-ac", "1", "-ar", &rate, "-i", "pipe:0"];
        let all = input.iter().chain(encoder).chain(&["-flush_packets", "1", "-y"]);
        Some(all.map(OsString::from).chain([output.to_owned()]).collect())
    }
}

/// Length of [`wav_header`], bytes.
pub const WAV_HEADER_BYTES: u32 = 44;

/// The coding of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// 16 bits, little-endian.
    Pcm,
    /// As A-law, of ITU-T G.711.
    Mulaw,
    Alaw,
}

impl Encoding {
    /// Bytes of a sample.
    pub fn bytes(self) -> u16 {
        match self {
            Self::Pcm => 2,
            Self::Mulaw | Self::Alaw => 1,
        }
    }

    /// As a WAV file names it.
    fn wav_tag(self) -> u16 {
        match self {
            Self::Pcm => 1,
            Self::Alaw => 6,
            Self::Mulaw => 7,
        }
    }
}

/// The header of a WAV file: mono, 16 bits, at this rate in hertz. The length of a stream is not known, and stands as the largest there is.
pub fn wav_header(rate: u32, data_bytes: Option<u32>) -> Vec<u8> {
    wav_header_of(Encoding::Pcm, 1, rate, data_bytes)
}

/// The header of a WAV file in this coding and with this number of channels.
pub fn wav_header_of(encoding: Encoding, channels: u16, rate: u32, data_bytes: Option<u32>) -> Vec<u8> {
    let file_bytes = data_bytes.map_or(u32::MAX, |bytes| bytes.saturating_add(WAV_HEADER_BYTES - 8));
    let frame_bytes = channels * encoding.bytes();
    let mut header = Vec::with_capacity(WAV_HEADER_BYTES as usize);
    header.extend(b"RIFF");
    header.extend(file_bytes.to_le_bytes());
    header.extend(b"WAVEfmt ");
    header.extend(16u32.to_le_bytes());
    header.extend(encoding.wav_tag().to_le_bytes());
    header.extend(channels.to_le_bytes());
    header.extend(rate.to_le_bytes());
    header.extend((u32::from(frame_bytes) * rate).to_le_bytes());
    header.extend(frame_bytes.to_le_bytes());
    header.extend((8 * encoding.bytes()).to_le_bytes());
    header.extend(b"data");
    header.extend(data_bytes.unwrap_or(u32::MAX).to_le_bytes());
    header
}
