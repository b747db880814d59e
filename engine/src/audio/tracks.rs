//! A container's tracks: selection, decoder, and the duration that the header states.

use symphonia::core::audio::Channels;
use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::{
    AudioCodecId, AudioCodecParameters, AudioDecoder, AudioDecoderOptions, well_known,
};
use symphonia::core::errors::{Error as SymphoniaError, Result as SymphoniaResult};
use symphonia::core::formats::{FormatOptions, FormatReader, Track, TrackType};
use symphonia::core::io::MediaSourceStream;
use symphonia::default::formats as readers;

use super::MAX_CHANNELS;
use super::container::Container;
use super::opus::CODECS;
use super::panic_guard::guarded;
use super::probe::ProbeResult;
use crate::error::Error;

/// Reason that a file was not opened here.
#[derive(Debug)]
pub(super) enum OpenFailure {
    /// The reason is certain; no other decoder can do better.
    Final(Error),
    /// Symphonia lacks the format or codec named.
    Lacking(String),
    /// The file seems damaged, with this reason, but another decoder may be more tolerant.
    Damaged(String),
}

/// Selects the track to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrackSelection {
    /// The default audio track, or none.
    Default,
    /// The audio track of this number, counted from 0.
    At(usize),
    /// The first audio track with an available decoder.
    Decodable,
}

/// Returns the demuxer for `container` after it has read the header.
pub(super) fn read_header(
    container: Container,
    stream: MediaSourceStream<'static>,
) -> SymphoniaResult<Box<dyn FormatReader>> {
    let options = FormatOptions::default();
    Ok(match container {
        Container::Wav => Box::new(readers::WavReader::try_new(stream, options)?),
        Container::Aiff => Box::new(readers::AiffReader::try_new(stream, options)?),
        Container::Caf => Box::new(readers::CafReader::try_new(stream, options)?),
        Container::Flac => Box::new(readers::FlacReader::try_new(stream, options)?),
        Container::Ogg => Box::new(readers::OggReader::try_new(stream, options)?),
        Container::MpegAudio => Box::new(readers::MpaReader::try_new(stream, options)?),
        Container::Adts => Box::new(readers::AdtsReader::try_new(stream, options)?),
        Container::Mp4 => Box::new(readers::IsoMp4Reader::try_new(stream, options)?),
        Container::Matroska => Box::new(readers::MkvReader::try_new(stream, options)?),
        _ => return Err(SymphoniaError::Unsupported("container")),
    })
}

/// Selects the track to decode and creates its decoder.
pub(super) fn choose<'r>(
    reader: &'r dyn FormatReader,
    found: &ProbeResult,
    choice: TrackSelection,
    name: &str,
) -> Result<(&'r Track, Box<dyn AudioDecoder>), OpenFailure> {
    let is_audio = |track: &&Track| track.track_type() == Some(TrackType::Audio);
    let all: Vec<&Track> = reader.tracks().iter().filter(is_audio).collect();
    let stated = all.iter().copied().find(|track| found.default_audio == Some(track.id));
    let default = stated.or_else(|| reader.default_track(TrackType::Audio)).or(all.first().copied());
    let Some(default) = default else {
        // Symphonia leaves tracks of unknown codecs without a type; the MP4's own index knows it.
        let unknown = found.mp4.is_some() || reader.tracks().iter().any(|track| track.track_type().is_none());
        return Err(match reader.tracks() {
            [] if !unknown => OpenFailure::Damaged("it has no tracks".into()),
            _ if unknown => OpenFailure::Lacking(format!("audio in {} of an unknown codec", found.container.label())),
            _ => OpenFailure::Final(Error::NoAudioTrack(format!("{name} holds video or subtitles only"))),
        });
    };
    let default = match choice {
        TrackSelection::At(number) => all.get(number).copied().ok_or_else(|| {
            let tracks = if all.len() == 1 { "track" } else { "tracks" };
            let message = format!("{name} has no audio track {}; it has {} audio {tracks}", number + 1, all.len());
            OpenFailure::Final(Error::InvalidOption(message))
        })?,
        TrackSelection::Default | TrackSelection::Decodable => default,
    };
    let tracks = match choice {
        TrackSelection::Default | TrackSelection::At(_) => vec![default],
        TrackSelection::Decodable => all.iter().copied().filter(|track| track.id != default.id).collect(),
    };
    for track in tracks {
        let Some(CodecParameters::Audio(params)) = &track.codec_params else {
            continue;
        };
        if let Ok(decoder) = decoder(params) {
            return Ok((track, decoder));
        }
    }
    let codec = match &default.codec_params {
        Some(CodecParameters::Audio(params)) => codec_name(params.codec),
        _ => None,
    };
    let codec = match codec {
        // For AAC, symphonia has the LC profile only.
        Some("AAC") => "HE-AAC or another rare profile of AAC",
        Some(codec) => codec,
        None => "audio of a rare codec",
    };
    Err(OpenFailure::Lacking(format!("{codec} in {}", found.container.label())))
}

/// True for MPEG audio, which is trimmed here. Symphonia trusts the MP3 header's count of frames, even one that it
/// guessed from the bitrate, and would cut off all audio after it.
pub(super) fn is_mpeg_audio(codec: AudioCodecId) -> bool {
    matches!(codec, well_known::CODEC_ID_MP1 | well_known::CODEC_ID_MP2 | well_known::CODEC_ID_MP3)
}

/// Most frames that a packet may have by its header: four times the largest of any codec. Symphonia allocates room for
/// all at once, and a failed allocation ends the process.
const MAX_FRAMES: u64 = 1 << 18;

/// Creates a decoder for these parameters.
pub(super) fn decoder(params: &AudioCodecParameters) -> SymphoniaResult<Box<dyn AudioDecoder>> {
    let channels = params.channels.as_ref().map_or(1, Channels::count);
    if channels > MAX_CHANNELS || params.max_frames_per_packet.is_some_and(|frames| frames > MAX_FRAMES) {
        return Err(SymphoniaError::LimitError("packet size"));
    }
    let options = AudioDecoderOptions::default().gapless(!is_mpeg_audio(params.codec));
    guarded(|| CODECS.make_audio_decoder(params, &options))
}

/// The pre-skip of Opus in Ogg, in seconds, which symphonia reads but does not apply.
pub(super) fn ogg_opus_delay_s(container: Container, track: &Track) -> f64 {
    match &track.codec_params {
        Some(CodecParameters::Audio(params))
            if params.codec == well_known::CODEC_ID_OPUS && container == Container::Ogg =>
        {
            f64::from(track.delay.unwrap_or(0)) / 48_000.0
        }
        _ => 0.0,
    }
}

/// The duration in seconds that the track or the container states.
pub(super) fn duration_s(reader: &dyn FormatReader, track: &Track) -> Option<f64> {
    let of_track = track.time_base.zip(track.duration).and_then(|(base, ticks)| base.calc_duration(ticks));
    let media = reader.media_info();
    let of_media = || media.time_base.zip(media.duration).and_then(|(base, ticks)| base.calc_duration(ticks));
    let seconds = of_track.filter(|time| time.as_secs_f64() > 0.0).or_else(of_media)?.as_secs_f64();
    // A WAV written to a pipe states 0 or 4 GiB of data for "unknown"; no recording lasts a month.
    (seconds > 0.0 && seconds < 31.0 * 86_400.0).then_some(seconds)
}

/// The number of a track among the audio tracks, counted from 0, and their count.
pub(super) fn place(reader: &dyn FormatReader, track: u32) -> (usize, usize) {
    let audio = reader.tracks().iter().filter(|track| track.track_type() == Some(TrackType::Audio));
    let ids: Vec<u32> = audio.map(|track| track.id).collect();
    (ids.iter().position(|id| *id == track).unwrap_or_default(), ids.len())
}

/// The duration, if the header counts the samples that follow it.
pub(super) fn promised_s(found: &ProbeResult, track: &Track, duration_s: Option<f64>) -> Option<f64> {
    match found.container {
        // Their structure shows if they are cut off. The duration may be that of the video, or of what an edit list leaves out.
        Container::Matroska | Container::Mp4 if !found.cut => None,
        _ if found.endless => None,
        // With a LAME tag the frames were counted; without one symphonia has guessed.
        Container::MpegAudio if track.delay.is_none() => None,
        // Guessed from the first frames, or known from the end of the file, which is present.
        Container::Adts | Container::Ogg => None,
        // In Matroska it is the longest track's, or a recorder's estimate.
        Container::Matroska => duration_s.map(|seconds| seconds - 1.0),
        // Includes the encoder delay that the edit list cuts off.
        Container::Mp4 => duration_s.map(|seconds| seconds - 0.1),
        _ => duration_s,
    }
    .filter(|seconds| *seconds > 0.0)
}

/// Names of codecs that symphonia knows by number; `None` for PCM and rare codecs.
pub(super) fn codec_name(codec: AudioCodecId) -> Option<&'static str> {
    Some(match codec {
        well_known::CODEC_ID_MP1 => "MP1",
        well_known::CODEC_ID_MP2 => "MP2",
        well_known::CODEC_ID_MP3 => "MP3",
        well_known::CODEC_ID_AAC => "AAC",
        well_known::CODEC_ID_ALAC => "ALAC",
        well_known::CODEC_ID_FLAC => "FLAC",
        well_known::CODEC_ID_VORBIS => "Vorbis",
        well_known::CODEC_ID_OPUS => "Opus",
        well_known::CODEC_ID_SPEEX => "Speex",
        well_known::CODEC_ID_AC3 => "AC-3",
        well_known::CODEC_ID_EAC3 => "E-AC-3",
        well_known::CODEC_ID_DCA => "DTS",
        well_known::CODEC_ID_TRUEHD => "TrueHD",
        well_known::CODEC_ID_WMA => "WMA",
        _ => return None,
    })
}
