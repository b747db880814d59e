//! Any audio or video file in, 16 kHz mono `f32` out, as a stream: memory stays constant for a ten-hour file.
//!
//! Data flow: `probe` identifies the file from its first bytes (or says why it is no media) -> `native` decodes with
//! symphonia, `ffmpeg` starts a confined process for the other formats -> `mono` mixes the channels -> `resample`
//! converts the rate to [`SAMPLE_RATE`] -> `level` raises quiet speech, for recognition -> blocks.
//!
//! Time 0 of the output is the first sample of the audio track, or in a video whose sound begins later, that of the video: encoder delay
//! is removed if the file declares it, the resampler's own delay always.

mod biquad;
mod container;
mod conversion;
mod echo;
mod excerpt;
mod ffmpeg;
mod frames;
mod input;
mod isolation;
mod level;
pub(crate) mod loudness;
mod matroska;
mod mono;
mod mp4;
mod mpeg;
mod native;
mod opus;
mod opus_file;
mod panic_guard;
mod pcm;
mod probe;
mod redaction;
mod resample;
mod timeline;
mod tracks;

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
pub use conversion::RateConversion;
pub use echo::{Cleaned, EchoCanceller, FRAME as ECHO_FRAME};
use excerpt::Cutter;
pub use excerpt::Excerpt;
use input::Input;
pub(crate) use level::Leveler;
use mono::Mixer;
pub(crate) use mono::sanitize;
use native::NativeDecoder;
pub use redaction::{Cover, write_redacted};
pub(crate) use resample::Resampler;
use tracks::{OpenFailure, TrackSelection};

/// The one sample rate of the engine, in hertz.
pub const SAMPLE_RATE: u32 = 16_000;

/// Samples in a block of [`AudioStream::next_block`] unless [`AudioStream::with_block`] says otherwise: 0.5 s.
pub const BLOCK: usize = SAMPLE_RATE as usize / 2;

/// The most channels that are mixed; a file with more is refused.
pub const MAX_CHANNELS: usize = 64;

/// Largest absolute sample value in the output, 24 dB over full scale. Larger values come from corrupt data only.
pub const LIMIT: f32 = 16.0;

/// Selects the `ffmpeg` for the formats that symphonia lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ffmpeg {
    /// The program named by the variable `AURICLE_FFMPEG`, else the first `ffmpeg` on `PATH`.
    #[default]
    Find,
    /// This program.
    At(PathBuf),
    /// None: such files fail with [`Error::FfmpegMissing`].
    Never,
}

/// The `ffmpeg` that [`Ffmpeg::Find`] selects, if it is installed.
pub fn ffmpeg_program() -> Option<PathBuf> {
    ffmpeg::locate(&Ffmpeg::Find)
}

/// Options to open an [`AudioStream`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// The file's name in messages. Without it, its own file name (never its folder).
    pub name: Option<String>,
    /// The `ffmpeg` to use.
    pub ffmpeg: Ffmpeg,
    /// The one channel to take, counted from 0, instead of mixing all of them.
    pub channel: Option<usize>,
    /// The audio track to take, counted from 0, instead of the default one.
    pub track: Option<usize>,
    /// The part of the recording to take.
    pub excerpt: Excerpt,
}

impl OpenOptions {
    /// Sets the file's name in messages.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the `ffmpeg` to use.
    #[must_use]
    pub fn ffmpeg(mut self, ffmpeg: Ffmpeg) -> Self {
        self.ffmpeg = ffmpeg;
        self
    }

    /// Takes one channel alone, counted from 0.
    #[must_use]
    pub fn channel(mut self, channel: usize) -> Self {
        self.channel = Some(channel);
        self
    }

    /// Takes one audio track, counted from 0.
    #[must_use]
    pub fn track(mut self, track: usize) -> Self {
        self.track = Some(track);
        self
    }

    /// Takes a part of the recording alone. A recording that ends before it is an error at its end.
    #[must_use]
    pub fn excerpt(mut self, excerpt: Excerpt) -> Self {
        self.excerpt = excerpt;
        self
    }
}

/// A stream of 16 kHz mono samples decoded from a file, buffer or pipe.
///
/// Samples are nominally within -1..=1. A decoder may overshoot, and float files may hold any value: values that are
/// not finite become 0, larger values are clipped at [`LIMIT`]. Several channels (at most [`MAX_CHANNELS`]) become one
/// by their mean; where they cancel each other, the loudest is taken, and a warning says so.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut audio = auricle_engine::audio::AudioStream::open("talk.mp3")?;
/// while let Some(block) = audio.next_block()? {
///     // `block`: [samples], at 16 kHz
/// }
/// # Ok(()) }
/// ```
pub struct AudioStream {
    source: Source,
    format: String,
    /// The rate that `resampler` was created for; a chained stream may change it midway.
    rate: u32,
    resampler: Option<Resampler>,
    /// Mono samples at `rate` that `open` decoded to check the file.
    primed: Option<Vec<f32>>,
    excerpt: Excerpt,
    cutter: Cutter,
    /// Raises quiet speech.
    leveler: Option<Leveler>,
    /// 16 kHz samples not yet returned.
    ready: Vec<f32>,
    block: usize,
    emitted: u64,
    ended: bool,
    /// They hear every block that is returned.
    listeners: Vec<BlockListener>,
}

/// Hears blocks of 16 kHz samples.
type BlockListener = Box<dyn FnMut(&[f32]) + Send>;

enum Source {
    Native(Box<NativeDecoder>),
    Ffmpeg(Box<ffmpeg::FfmpegDecoder>),
    Pcm(Box<pcm::PcmReader>),
}

impl Source {
    /// Appends mono samples to `out` and returns their rate in hertz, or `None` at the end.
    fn next_chunk(&mut self, out: &mut Vec<f32>) -> Result<Option<u32>> {
        match self {
            Source::Native(source) => Ok(source.next_chunk(out)),
            Source::Ffmpeg(source) => source.next_chunk(out),
            Source::Pcm(source) => source.next_chunk(out),
        }
    }
}

impl AudioStream {
    /// Opens a file and decodes its first packets, so that a file that cannot be decoded fails here.
    ///
    /// # Errors
    /// [`Error::Read`] for a missing file, a directory or no permission; [`Error::UnsupportedMedia`] for input that is
    /// not media, is empty, corrupt or encrypted; [`Error::NoAudioTrack`]; [`Error::FfmpegMissing`]; [`Error::Ffmpeg`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &OpenOptions::default())
    }

    /// [`AudioStream::open`] with options.
    ///
    /// # Errors
    /// As [`AudioStream::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        let cannot = |reason: String| Error::Read { path: path.to_path_buf(), reason };
        let metadata = std::fs::metadata(path).map_err(|error| cannot(plain_reason(&error)))?;
        if metadata.is_dir() {
            return Err(cannot("it is a directory".into()));
        }
        if !metadata.is_file() && !is_pipe(&metadata) {
            // A device may have no end.
            return Err(cannot("it is not a regular file".into()));
        }
        let mut file = File::open(path).map_err(|error| cannot(plain_reason(&error)))?;
        let name = options.name.clone().unwrap_or_else(|| {
            let name = path.file_name().unwrap_or(OsStr::new("the file"));
            name.to_string_lossy().into_owned()
        });
        if is_pipe(&metadata) {
            // It cannot be read again from its start after probing.
            let copied = tempfile::tempfile().and_then(|mut copy| io::copy(&mut file, &mut copy).map(|_| copy));
            let copy = copied.map_err(|error| cannot(format!("it could not be copied: {}", plain_reason(&error))))?;
            return Self::take(Input::from_source(Box::new(copy), &name)?, &name, options);
        }
        Self::take(Input::from_file(file, path.to_path_buf(), &name)?, &name, options)
    }

    /// Decodes from memory or any other source that can be read and sought, from its start.
    ///
    /// A format that symphonia lacks is first copied to a temporary file for `ffmpeg`.
    ///
    /// # Errors
    /// As [`AudioStream::open`].
    pub fn from_source<S>(source: S, options: &OpenOptions) -> Result<Self>
    where
        S: Read + Seek + Send + 'static,
    {
        let name = options.name.as_deref().unwrap_or("the audio");
        Self::take(Input::from_source(Box::new(source), name)?, name, options)
    }

    /// Reads raw PCM, signed 16-bit little-endian, interleaved, such as from standard input.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the rate is outside 100 Hz..=768 kHz or there are no channels or more than 64.
    pub fn from_pcm_s16le<R>(reader: R, rate: u32, channels: usize) -> Result<Self>
    where
        R: Read + Send + 'static,
    {
        if !resample::RATES.contains(&rate) {
            return Err(Error::InvalidOption(format!(
                "a sample rate of {rate} Hz is outside {} to {} Hz",
                resample::RATES.start(),
                resample::RATES.end()
            )));
        }
        if !(1..=MAX_CHANNELS).contains(&channels) {
            return Err(Error::InvalidOption(format!("{channels} channels; it must be 1 to {MAX_CHANNELS}")));
        }
        let source = Source::Pcm(Box::new(pcm::PcmReader::new(Box::new(reader), rate, channels)));
        Ok(Self::new(source, format!("raw PCM, {rate} Hz"), rate, None))
    }

    /// Sets the number of samples of a block, at least 1; the last block of a stream may be shorter.
    #[must_use]
    pub fn with_block(mut self, samples: usize) -> Self {
        self.block = samples.max(1);
        self
    }

    /// Also gives every block that is returned to `listener`, so that several can hear what is decoded once. It is dropped with
    /// the stream.
    #[must_use]
    pub fn with_listener(mut self, listener: impl FnMut(&[f32]) + Send + 'static) -> Self {
        self.listeners.push(Box::new(listener));
        self
    }

    /// Raises speech that is too quiet for recognition. Its warning says for how long.
    #[must_use]
    pub(crate) fn with_leveling(mut self) -> Self {
        self.leveler = Some(Leveler::recorded());
        self
    }

    /// The next block: 16 kHz mono, [`BLOCK`] samples (the last may have fewer), or `None` at the end.
    ///
    /// Damage inside a file is no error: the decodable parts are returned, and [`AudioStream::warnings`] lists the
    /// damage.
    ///
    /// # Errors
    /// [`Error::Ffmpeg`] if the process fails or stalls, [`Error::Read`] if raw PCM cannot be read, [`Error::UnsupportedMedia`] if the
    /// recording ends before the excerpt that is to be taken.
    pub fn next_block(&mut self) -> Result<Option<Vec<f32>>> {
        while self.ready.len() < self.block && !self.ended {
            let mut chunk = self.primed.take().unwrap_or_default();
            let rate = match chunk.is_empty() {
                true if self.cutter.is_over() => None,
                true => self.source.next_chunk(&mut chunk)?,
                false => Some(self.rate),
            };
            match rate {
                Some(rate) => self.take_in(rate, &chunk)?,
                None => {
                    self.ended = true;
                    self.end_resampler()?;
                    if self.cutter.is_before() {
                        let start_s = self.excerpt.start_ms as f64 / 1e3;
                        let reason = format!("the recording ends before the start that is asked for, {start_s} s");
                        return Err(Error::UnsupportedMedia(reason));
                    }
                    if let Some(leveler) = &mut self.leveler {
                        leveler.finish(&mut self.ready);
                    }
                }
            }
        }
        if self.ready.is_empty() {
            return Ok(None);
        }
        let rest = self.ready.split_off(self.ready.len().min(self.block));
        let block = std::mem::replace(&mut self.ready, rest);
        self.emitted += block.len() as u64;
        for listener in &mut self.listeners {
            listener(&block);
        }
        Ok(Some(block))
    }

    /// The rest of the audio as one vector. For short clips; an hour is 230 MB.
    ///
    /// # Errors
    /// As [`AudioStream::next_block`].
    pub fn read_to_end(&mut self) -> Result<Vec<f32>> {
        let mut all = Vec::new();
        while let Some(block) = self.next_block()? {
            all.extend_from_slice(&block);
        }
        Ok(all)
    }

    /// The rest of the audio at another rate than 16 kHz; none if it is longer than `most_s` seconds, of which no more is decoded. Nothing is
    /// levelled, and no listener takes part.
    ///
    /// # Errors
    /// As [`AudioStream::next_block`].
    pub(crate) fn read_at(mut self, rate: u32, most_s: f64) -> Result<Option<Vec<f32>>> {
        let most = (most_s * f64::from(rate)) as usize;
        let (mut samples, mut from, mut resampler) = (Vec::new(), self.rate, Resampler::between(self.rate, rate)?);
        loop {
            let mut chunk = self.primed.take().unwrap_or_default();
            let next = if chunk.is_empty() { self.source.next_chunk(&mut chunk)? } else { Some(self.rate) };
            if next.is_none_or(|next| next != from) {
                resampler.finish(&mut samples)?;
            }
            let Some(next) = next else { break };
            if next != from {
                (from, resampler) = (next, Resampler::between(next, rate)?);
            }
            resampler.push(&chunk, &mut samples)?;
            if samples.len() > most {
                return Ok(None);
            }
        }
        Ok(Some(samples).filter(|samples| samples.len() <= most))
    }

    /// The total length in seconds as the container states it: a hint for progress bars, absent for many files.
    #[must_use]
    pub fn duration_s(&self) -> Option<f64> {
        let recording_s = match &self.source {
            Source::Native(source) => source.duration_s(),
            Source::Ffmpeg(source) => source.duration_s(),
            Source::Pcm(_) => None,
        };
        recording_s.map(|seconds| self.excerpt.length_s(seconds))
    }

    /// The part of the recording that is taken.
    #[must_use]
    pub(crate) fn excerpt(&self) -> Excerpt {
        self.excerpt
    }

    /// Seconds of audio returned so far; after the end, the exact length of the audio.
    #[must_use]
    pub fn position_s(&self) -> f64 {
        self.emitted as f64 / f64::from(SAMPLE_RATE)
    }

    /// Problems that decoding recovered from, one line each: a cut-off file, damaged packets. Complete after the end.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = match &self.source {
            Source::Native(source) => source.warnings(),
            Source::Ffmpeg(source) => source.warnings(),
            Source::Pcm(source) => source.warnings(),
        };
        let raised_s = self.leveler.as_ref().map_or(0.0, Leveler::raised_s);
        if raised_s >= 1.0 {
            warnings.push(format!("the speech is very quiet; {raised_s:.0} s of it were raised"));
        }
        warnings
    }

    /// Number of channels in the file.
    #[must_use]
    pub fn channels(&self) -> usize {
        match &self.source {
            Source::Native(source) => source.channels(),
            Source::Ffmpeg(source) => source.channels(),
            Source::Pcm(source) => source.channels(),
        }
    }

    /// The format being decoded, for logs: `"MP3, 44100 Hz, 2 channels"`.
    #[must_use]
    pub fn format(&self) -> &str {
        &self.format
    }

    fn new(source: Source, format: String, rate: u32, primed: Option<Vec<f32>>) -> Self {
        Self {
            source,
            format,
            rate,
            resampler: None,
            primed,
            excerpt: Excerpt::default(),
            cutter: Cutter::default(),
            leveler: None,
            ready: Vec::new(),
            block: BLOCK,
            emitted: 0,
            ended: false,
            listeners: Vec::new(),
        }
    }

    fn take_in(&mut self, rate: u32, chunk: &[f32]) -> Result<()> {
        if rate != self.rate {
            self.end_resampler()?;
        }
        self.rate = rate;
        let resampler = match &mut self.resampler {
            Some(resampler) => resampler,
            empty => empty.insert(Resampler::new(rate)?),
        };
        let mut samples = Vec::new();
        resampler.push(chunk, &mut samples)?;
        self.make_ready(samples);
        Ok(())
    }

    fn end_resampler(&mut self) -> Result<()> {
        if let Some(mut last) = self.resampler.take() {
            let mut samples = Vec::new();
            last.finish(&mut samples)?;
            self.make_ready(samples);
        }
        Ok(())
    }

    fn make_ready(&mut self, mut samples: Vec<f32>) {
        self.cutter.cut(&mut samples);
        match &mut self.leveler {
            Some(leveler) => leveler.push(&samples, &mut self.ready),
            None => self.ready.append(&mut samples),
        }
    }

    /// The excerpt of what is decoded.
    fn take(input: Input, name: &str, options: &OpenOptions) -> Result<Self> {
        let excerpt = options.excerpt;
        Ok(Self { excerpt, cutter: Cutter::new(excerpt), ..Self::decode(input, name, options)? })
    }

    fn decode(mut input: Input, name: &str, options: &OpenOptions) -> Result<Self> {
        let found = probe::probe(&mut input, name)?;
        let mut primed = Vec::new();
        let mut open =
            |choice| NativeDecoder::open(input.clone(), &found, choice, name, Mixer::of(options.channel), &mut primed);
        let failure = if found.container.is_native() {
            match open(options.track.map_or(TrackSelection::Default, TrackSelection::At)) {
                Ok(decoder) => return Ok(Self::native(decoder, primed)),
                Err(failure) => failure,
            }
        } else {
            OpenFailure::Lacking(found.container.label().to_owned())
        };
        let program = ffmpeg::locate(&options.ffmpeg);
        match (failure, program) {
            (OpenFailure::Final(error), _) => Err(error),
            (OpenFailure::Damaged(reason), program) => {
                let damaged = Error::UnsupportedMedia(format!("{name} cannot be decoded: {reason}"));
                let Some(program) = program else { return Err(damaged) };
                // ffmpeg may be more tolerant; if it fails too, the reason found here is more precise than its own.
                Self::ffmpeg(&program, &input, found.container, name, options).map_err(|_| damaged)
            }
            (OpenFailure::Lacking(_), Some(program)) => Self::ffmpeg(&program, &input, found.container, name, options),
            (OpenFailure::Lacking(what), None) if options.track.is_some() => {
                Err(Error::FfmpegMissing(format!("decoding {name} ({what})")))
            }
            (OpenFailure::Lacking(what), None) => match open(TrackSelection::Decodable) {
                Ok(decoder) => Ok(Self::native(decoder, primed)),
                Err(_) => Err(Error::FfmpegMissing(format!("decoding {name} ({what})"))),
            },
        }
    }

    fn native(decoder: NativeDecoder, primed: Vec<f32>) -> Self {
        let (format, rate) = (decoder.format(), decoder.rate());
        Self::new(Source::Native(Box::new(decoder)), format, rate, Some(primed))
    }

    fn ffmpeg(
        program: &Path,
        input: &Input,
        container: container::Container,
        name: &str,
        options: &OpenOptions,
    ) -> Result<Self> {
        let decoder = ffmpeg::FfmpegDecoder::start(program, input.to_file(name)?, container, name, options.track)?;
        let mut decoder = decoder.with_channel(options.channel);
        let mut primed = Vec::new();
        let rate = decoder.next_chunk(&mut primed)?.unwrap_or(SAMPLE_RATE);
        let format = format!("{}, {rate} Hz, by ffmpeg", container.label());
        Ok(Self::new(Source::Ffmpeg(Box::new(decoder)), format, rate, Some(primed)))
    }
}

impl Iterator for AudioStream {
    type Item = Result<Vec<f32>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_block().transpose()
    }
}

/// True for a FIFO, such as the shell's `<(command)`.
#[cfg(unix)]
fn is_pipe(metadata: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: &Metadata) -> bool {
    false
}

fn unreadable(name: &str, error: &io::Error) -> Error {
    Error::Read { path: name.into(), reason: plain_reason(error) }
}

/// The system's error message without its error number.
fn plain_reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file".into(),
        ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    }
}
