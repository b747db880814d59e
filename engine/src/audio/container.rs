//! The containers that are known, and who decodes them.

/// A container, or an elementary stream without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    Wav,
    /// WAV with more channels than symphonia has loudspeaker names for, such as a recording of many microphones.
    WideWav,
    /// WAV with 64-bit sizes, used by broadcasters.
    Rf64,
    Wave64,
    Aiff,
    Caf,
    Flac,
    Ogg,
    /// MPEG-1/2 audio, layer 1, 2 or 3.
    MpegAudio,
    Adts,
    Mp4,
    Matroska,
    Avi,
    Asf,
    Flv,
    MpegTs,
    MpegPs,
    Amr,
    Au,
    Ac3,
    Eac3,
}

impl Container {
    /// True if symphonia can demux it.
    pub(super) fn is_native(self) -> bool {
        use Container::{Adts, Aiff, Caf, Flac, Matroska, Mp4, MpegAudio, Ogg, Wav};
        matches!(self, Wav | Aiff | Caf | Flac | Ogg | MpegAudio | Adts | Mp4 | Matroska)
    }

    /// The common name.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Wav => "WAV",
            Self::WideWav => "WAV with more than 18 channels",
            Self::Rf64 => "WAV with 64-bit sizes",
            Self::Wave64 => "Wave64",
            Self::Aiff => "AIFF",
            Self::Caf => "CAF",
            Self::Flac => "FLAC",
            Self::Ogg => "Ogg",
            Self::MpegAudio => "MPEG audio",
            Self::Adts => "AAC",
            Self::Mp4 => "MP4",
            Self::Matroska => "Matroska/WebM",
            Self::Avi => "AVI",
            Self::Asf => "WMA/WMV",
            Self::Flv => "FLV",
            Self::MpegTs => "MPEG-TS",
            Self::MpegPs => "MPEG-PS",
            Self::Amr => "AMR",
            Self::Au => "AU",
            Self::Ac3 => "AC-3",
            Self::Eac3 => "E-AC-3",
        }
    }

    /// The demuxer that `ffmpeg` is restricted to.
    pub(super) fn ffmpeg_demuxer(self) -> &'static str {
        match self {
            Self::Wav | Self::WideWav | Self::Rf64 => "wav",
            Self::Wave64 => "w64",
            Self::Aiff => "aiff",
            Self::Caf => "caf",
            Self::Flac => "flac",
            Self::Ogg => "ogg",
            Self::MpegAudio => "mp3",
            Self::Adts => "aac",
            Self::Mp4 => "mov",
            Self::Matroska => "matroska",
            Self::Avi => "avi",
            Self::Asf => "asf",
            Self::Flv => "flv",
            Self::MpegTs => "mpegts",
            Self::MpegPs => "mpeg",
            Self::Amr => "amr",
            Self::Au => "au",
            Self::Ac3 => "ac3",
            Self::Eac3 => "eac3",
        }
    }

    /// True if the demuxer must seek, so that a pipe is not enough: the index of an MP4 is often at its end, that of an
    /// AVI always, and the packet table of a CAF may be.
    pub(super) fn needs_seek(self) -> bool {
        matches!(self, Self::Mp4 | Self::Avi | Self::Caf | Self::Aiff)
    }
}
