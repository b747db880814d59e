//! Decoding with symphonia, in this process.
//!
//! Symphonia is safe Rust, but corrupt input may still make it panic. Every call into it goes through [`guarded`];
//! after a panic its objects are not used again, and the audio decoded so far is kept.

use std::collections::VecDeque;
use std::io::{ErrorKind, Seek, SeekFrom};

use symphonia::core::audio::Channels;
use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder};
use symphonia::core::errors::{Error as SymphoniaError, Result as SymphoniaResult};
use symphonia::core::formats::{FormatReader, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::packet::Packet;
use symphonia::core::units::Duration;

use super::container::Container;
use super::frames::AdtsChange;
use super::input::Input;
use super::mono::Mixer;
use super::panic_guard::{PANICKED, guarded};
use super::probe::ProbeResult;
use super::timeline::{LEAST_LEAD_S, LONGEST_S, Timeline};
use super::tracks::{self, OpenFailure, TrackSelection};
use super::{MAX_CHANNELS, resample};
use crate::error::Error;

/// Consecutive packets that may fail before the decoder is created again: after a change of parameters in mid-stream,
/// the old decoder rejects every packet.
const PATIENCE: u32 = 3;

/// Packets that may fail at the start before the file is rejected.
const MAX_FAILED_AT_START: u64 = 100;

/// The longest silence that replaces a packet that cannot be decoded, in seconds. A FLAC packet may be this long.
const MAX_PATCH_S: f64 = 0.6;

/// Most silence that fills gaps in a file, in seconds: a container's clock may hold any value.
const MOST_MISSING_S: f64 = 6.0 * 3600.0;

/// Most that the last packets of an Ogg stream are shortened together, in seconds: what a frame size leaves over. A longer time is that of
/// positions which count something else.
const MAX_OGG_TRIM_S: f64 = 0.25;

/// Most packets that wait for the end of their Ogg stream: those of a page.
const MAX_WAITING: usize = 256;

/// Most tracks of a container. To find the next packet takes a look at each.
const MAX_TRACKS: usize = 128;

/// Looks at tracks that a file may take: at first, and for each second of audio. A film with 40 subtitles takes some thousands a second.
const LOOKS: f64 = 50e6;
const LOOKS_PER_S: f64 = 1e6;

/// Most samples that an MP3 encoder adds at the end. Longer "padding" is audio after a wrong header.
const MAX_PADDING: usize = 4_608;

/// A container and the decoder of one of its tracks.
pub(super) struct NativeDecoder {
    reader: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    params: AudioCodecParameters,
    track: u32,
    container: Container,
    seconds_per_tick: Option<f64>,
    rate: u32,
    channels: usize,
    interleaved: Vec<f32>,
    mixer: Mixer,
    /// Leading samples still to drop, in seconds until the rate is known.
    delay_s: f64,
    /// Seconds to return, if an edit cuts off the rest.
    presented_s: Option<f64>,
    /// True if the decoder removes delay and padding itself; otherwise this type does, for MP3.
    trims: bool,
    /// Samples after the end that the header of an MP3 states; they are audio if too many follow.
    padding: Vec<f32>,
    end_is_known: bool,
    /// The packets' times, after the first packet, for containers that state them.
    timeline: Option<Timeline>,
    /// Samples of silence still to return, and the packet that follows them.
    silence: usize,
    held: Option<Packet>,
    /// Seconds from the start of a video to that of its sound, and the first samples, which follow that much silence.
    lead_s: f64,
    first: Vec<f32>,
    /// The earliest packet of another track so far, in seconds.
    other_s: Option<f64>,
    /// Packets of an Ogg stream that have been read ahead, and what came instead of another.
    ahead: VecDeque<Packet>,
    behind: Option<SymphoniaError>,
    /// Changes of the audio still to come, and the packets so far.
    changes: VecDeque<AdtsChange>,
    packets: u64,
    /// Seconds that were missing, and the position of the first gap.
    missing_s: f64,
    missing_at_s: Option<f64>,
    /// Samples at `rate` returned, for positions in warnings.
    decoded: u64,
    duration_s: Option<f64>,
    /// Seconds that the header states, if it is reliable.
    promised_s: Option<f64>,
    /// Seconds returned at earlier rates.
    earlier_s: f64,
    /// True after any packet was decoded.
    any_decoded: bool,
    skipped: u64,
    failed_in_a_row: u32,
    /// Looks at tracks so far.
    looks: f64,
    state: ReadState,
    cut: bool,
    notes: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum ReadState {
    Running,
    Ended,
}

impl NativeDecoder {
    /// Opens the container and decodes up to the first audio, which is appended to `out`.
    pub(super) fn open(
        mut input: Input,
        found: &ProbeResult,
        choice: TrackSelection,
        name: &str,
        mixer: Mixer,
        out: &mut Vec<f32>,
    ) -> Result<Self, OpenFailure> {
        if let Err(error) = input.seek(SeekFrom::Start(0)) {
            return Err(OpenFailure::Final(super::unreadable(name, &error)));
        }
        let input = Box::new(input.until(found.end));
        let mut stream = MediaSourceStream::new(input, MediaSourceStreamOptions::default());
        let container = found.container;
        let reader = guarded(|| {
            stream.seek(SeekFrom::Start(found.offset))?;
            tracks::read_header(container, stream)
        });
        let is_whole_ogg = container == Container::Ogg && !found.cut;
        let reader = reader.map_err(|error| match error {
            SymphoniaError::Unsupported(what) => OpenFailure::Lacking(format!("{}: {what}", container.label())),
            // Symphonia searches an Ogg file to its end for a codec that it knows.
            SymphoniaError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof && is_whole_ogg => {
                OpenFailure::Lacking("a codec other than Vorbis, Opus or FLAC in Ogg".into())
            }
            SymphoniaError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => {
                OpenFailure::Damaged("it is cut off within its header".into())
            }
            error => OpenFailure::Damaged(format!("its {} header is damaged ({error})", container.label())),
        })?;
        let count = reader.tracks().len();
        if count > MAX_TRACKS {
            let reason = format!("{name} has {count} tracks, and at most {MAX_TRACKS} are read");
            return Err(OpenFailure::Final(Error::UnsupportedMedia(reason)));
        }
        let (track, decoder) = tracks::choose(&*reader, found, choice, name)?;
        let Some(CodecParameters::Audio(params)) = track.codec_params.clone() else {
            return Err(OpenFailure::Lacking("its audio codec".into()));
        };
        let trims = !tracks::is_mpeg_audio(params.codec);
        let seconds_per_tick = track.time_base.map(|base| f64::from(base.numer.get()) / f64::from(base.denom.get()));
        let duration_s = tracks::duration_s(&*reader, track).filter(|_| !found.endless);
        let gap_s = found.mp4.as_ref().map_or(0.0, |index| index.gap_s(track.id));
        let (number, tracks) = tracks::place(&*reader, track.id);
        let edits = found.mp4.as_ref().and_then(|index| index.edits(track.id));
        let (delay_s, presented_s) = edits.unwrap_or_else(|| (tracks::ogg_opus_delay_s(container, track), None));
        let mut this = Self {
            track: track.id,
            container,
            seconds_per_tick,
            rate: params.sample_rate.unwrap_or(0),
            channels: params.channels.as_ref().map_or(0, Channels::count),
            interleaved: Vec::new(),
            mixer,
            delay_s,
            presented_s,
            trims,
            padding: Vec::new(),
            end_is_known: true,
            timeline: None,
            silence: 0,
            held: None,
            lead_s: gap_s,
            first: Vec::new(),
            other_s: None,
            ahead: VecDeque::new(),
            behind: None,
            changes: found.changes.iter().cloned().collect(),
            packets: 0,
            missing_s: 0.0,
            missing_at_s: None,
            decoded: 0,
            duration_s: presented_s.or(duration_s),
            promised_s: presented_s.filter(|_| found.cut).or_else(|| tracks::promised_s(found, track, duration_s)),
            earlier_s: 0.0,
            any_decoded: false,
            skipped: 0,
            failed_in_a_row: 0,
            looks: 0.0,
            state: ReadState::Running,
            cut: found.cut,
            notes: Vec::new(),
            params,
            decoder,
            reader,
        };
        if choice == TrackSelection::Decodable {
            this.notes.push("the default audio track needs ffmpeg; another audio track is decoded instead".into());
        }
        if let (TrackSelection::Default, 2..) = (choice, tracks) {
            this.notes.push(format!("the file has {tracks} audio tracks; number {} is the default one", number + 1));
        }
        this.prime(out)?;
        this.begin_late(out);
        Ok(this)
    }

    /// Decodes until there is audio, to check the file. Silence for failed packets does not count as audio.
    fn prime(&mut self, out: &mut Vec<f32>) -> Result<(), OpenFailure> {
        while out.is_empty() || !self.any_decoded {
            if self.step(out).is_some() && self.skipped <= MAX_FAILED_AT_START {
                continue;
            }
            return Err(OpenFailure::Damaged(match (self.skipped, self.notes.first()) {
                (0, Some(note)) => note.clone(),
                (0, None) if self.cut => "it is cut off before its first sound".into(),
                (0, None) => "its audio track is empty".into(),
                (skipped, _) => {
                    format!("its audio data is damaged (none of the first {skipped} packets can be decoded)")
                }
            }));
        }
        Ok(())
    }

    /// Puts silence before the first samples where the sound of a video begins late, so that times are those of the video.
    fn begin_late(&mut self, out: &mut Vec<f32>) {
        let lead_s = self.lead_s;
        if !(LEAST_LEAD_S..=LONGEST_S).contains(&lead_s) {
            return;
        }
        self.first = std::mem::take(out);
        self.silence += (lead_s * f64::from(self.rate)).round() as usize;
        for time in [&mut self.duration_s, &mut self.presented_s, &mut self.promised_s].into_iter().flatten() {
            *time += lead_s;
        }
    }

    /// Appends mono samples and returns their rate in hertz, or `None` at the end.
    pub(super) fn next_chunk(&mut self, out: &mut Vec<f32>) -> Option<u32> {
        let before = out.len();
        loop {
            let rate = self.step(out)?;
            if out.len() > before {
                return Some(rate);
            }
        }
    }

    pub(super) fn rate(&self) -> u32 {
        self.rate
    }

    pub(super) fn duration_s(&self) -> Option<f64> {
        self.duration_s
    }

    /// Number of channels.
    pub(super) fn channels(&self) -> usize {
        self.channels
    }

    /// `"MP4: AAC, 44100 Hz, 2 channels"`
    pub(super) fn format(&self) -> String {
        let codec = tracks::codec_name(self.params.codec).unwrap_or("PCM");
        let channels = if self.channels == 1 { "mono".into() } else { format!("{} channels", self.channels) };
        format!("{}: {codec}, {} Hz, {channels}", self.container.label(), self.rate)
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.notes.clone();
        if self.skipped > 0 {
            let packets = if self.skipped == 1 { "packet" } else { "packets" };
            warnings.push(format!("{} damaged {packets} replaced by silence", self.skipped));
        }
        warnings.extend(self.mixer.warning());
        if let Some(at) = self.missing_at_s {
            let missing = self.missing_s;
            warnings.push(format!("{missing:.1} s are missing, the first at {at:.1} s; they are replaced by silence"));
        }
        if self.state == ReadState::Ended {
            let got = self.position_s();
            // Less than a tenth of a second is a difference in how encoders count.
            let promised = self.promised_s.filter(|promised| promised - got > 0.1_f64.max(promised * 0.001));
            match promised {
                Some(promised) => {
                    warnings.push(format!("the file is cut off: {got:.1} s of {promised:.1} s are present"))
                }
                None if self.cut => warnings.push(format!("the file is cut off after {got:.1} s")),
                None => {}
            }
        }
        warnings
    }

    fn position_s(&self) -> f64 {
        self.earlier_s + self.decoded as f64 / f64::from(self.rate.max(1))
    }

    /// Handles one packet. `None` at the end.
    fn step(&mut self, out: &mut Vec<f32>) -> Option<u32> {
        if self.state == ReadState::Ended {
            return None;
        }
        if self.presented_s.is_some_and(|presented_s| presented_s - self.position_s() < 1e-3) {
            return self.end(None);
        }
        if self.silence > 0 {
            // At most a second at a time, so that memory stays bounded.
            let silence = self.silence.min(self.rate as usize);
            self.silence -= silence;
            self.put_silence(silence, out);
            return Some(self.rate);
        }
        if !self.first.is_empty() {
            out.append(&mut self.first);
            return Some(self.rate);
        }
        let packet = match self.held.take().map_or_else(|| self.next_packet(), |held| Ok(Some(held))) {
            Ok(Some(packet)) => packet,
            Ok(None) => return self.end(None),
            Err(SymphoniaError::ResetRequired) => match self.restart() {
                Ok(()) => return Some(self.rate),
                Err(reason) => return self.end(Some(reason)),
            },
            Err(SymphoniaError::IoError(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                // A stream without a length in its header was written to a pipe and ends anywhere.
                self.cut |= self.duration_s.is_some();
                return self.end(None);
            }
            Err(error) => return self.end(Some(error.to_string())),
        };
        self.looks += self.reader.tracks().len() as f64;
        if self.looks > LOOKS + LOOKS_PER_S * self.position_s() {
            return self.end(Some("it has too many packets of other tracks".into()));
        }
        if packet.track_id != self.track {
            if !self.any_decoded {
                self.record_other(&packet);
            }
            return Some(self.rate);
        }
        if !self.any_decoded
            && let (Some(start_s), Some(other_s)) = (self.start_s(&packet), self.other_s)
        {
            self.lead_s = start_s - other_s;
        }
        self.packets += 1;
        if let Some(change) = self.changes.pop_front_if(|change| change.frame < self.packets) {
            self.params.with_sample_rate(change.rate).with_channels(Channels::Discrete(change.channels));
            match tracks::decoder(&self.params) {
                Ok(decoder) => self.decoder = decoder,
                Err(error) => return self.end(Some(error.to_string())),
            }
        }
        if let Some(missing_s) = self.missing_before(&packet) {
            self.missing_at_s.get_or_insert(self.position_s());
            self.missing_s += missing_s;
            self.silence = (missing_s * f64::from(self.rate)).round() as usize;
            self.held = Some(packet);
            return Some(self.rate);
        }
        let decoded = guarded(|| {
            let buffer = self.decoder.decode(&packet)?;
            let (rate, channels) = (buffer.spec().rate(), buffer.spec().channels().count());
            buffer.copy_to_vec_interleaved(&mut self.interleaved);
            Ok((rate, channels))
        });
        match decoded {
            Ok((rate, channels)) if resample::RATES.contains(&rate) && (1..=MAX_CHANNELS).contains(&channels) => {
                self.any_decoded = true;
                self.failed_in_a_row = 0;
                self.take(&packet, rate, channels, out);
            }
            Ok((_, 0)) => {}
            Ok((rate, channels)) => {
                return self.end(Some(format!("{channels} channels at {rate} Hz are not supported")));
            }
            Err(SymphoniaError::IoError(error))
                if error.kind() == ErrorKind::Other && error.to_string() == PANICKED =>
            {
                return self.end(Some(error.to_string()));
            }
            Err(_) => self.skip(&packet, out),
        }
        Some(self.rate)
    }

    /// The next packet. Packets of Ogg that are shortened wait for what follows: at the end of the stream they are, by a plausible time;
    /// before it their page's position is wrong.
    fn next_packet(&mut self) -> SymphoniaResult<Option<Packet>> {
        if let Some(packet) = self.ahead.pop_front() {
            return Ok(Some(packet));
        }
        if let Some(error) = self.behind.take() {
            return Err(error);
        }
        let is_shortened = |packet: &Packet| packet.trim_end.get() > 0;
        let Some(first) = guarded(|| self.reader.next_packet())? else { return Ok(None) };
        if self.container != Container::Ogg || !is_shortened(&first) {
            return Ok(Some(first));
        }
        self.ahead.push_back(first);
        let at_end = loop {
            match guarded(|| self.reader.next_packet()) {
                Ok(Some(packet)) => {
                    let goes_on = is_shortened(&packet) && self.ahead.len() < MAX_WAITING;
                    self.ahead.push_back(packet);
                    if !goes_on {
                        break false;
                    }
                }
                Ok(None) => break true,
                // Another stream may follow.
                Err(error) => {
                    self.behind = Some(error);
                    break true;
                }
            }
        };
        let ticks: u64 = self.ahead.iter().map(|packet| packet.trim_end.get()).sum();
        let is_plausible = ticks as f64 * self.seconds_per_tick.unwrap_or(0.0) <= MAX_OGG_TRIM_S;
        let last = self.ahead.len() - 1;
        for (at, packet) in self.ahead.iter_mut().enumerate() {
            if !(at_end && (is_plausible || at == last)) {
                packet.dur = packet.dur.saturating_add(packet.trim_end);
                packet.trim_end = Duration::ZERO;
            }
        }
        Ok(self.ahead.pop_front())
    }

    /// Records the time of another track's packet, in Matroska, where all tracks have one clock.
    fn record_other(&mut self, packet: &Packet) {
        if self.container != Container::Matroska {
            return;
        }
        let track = self.reader.tracks().iter().find(|track| track.id == packet.track_id);
        let Some(base) = track.and_then(|track| track.time_base) else { return };
        let start_s = packet.pts.get() as f64 * f64::from(base.numer.get()) / f64::from(base.denom.get());
        self.other_s = Some(self.other_s.map_or(start_s, |known| known.min(start_s)));
    }

    /// Start of a packet in seconds, if the container's clock is reliable.
    fn start_s(&self, packet: &Packet) -> Option<f64> {
        let timed = matches!(self.container, Container::Matroska | Container::Mp4 | Container::Ogg);
        self.seconds_per_tick.filter(|_| timed).map(|tick| packet.pts.get() as f64 * tick)
    }

    fn missing_before(&mut self, packet: &Packet) -> Option<f64> {
        let start_s = self.start_s(packet)?;
        let left_s = self.duration_s.map_or(f64::INFINITY, |duration| duration - self.position_s());
        let left_s = left_s.min(MOST_MISSING_S - self.missing_s);
        self.timeline.as_mut()?.missing(start_s, left_s)
    }

    /// Records a packet's time.
    fn record_time(&mut self, packet: &Packet, length_s: f64) {
        let Some(start_s) = self.start_s(packet) else { return };
        match &mut self.timeline {
            Some(timeline) => timeline.push(start_s, length_s),
            // A decoder that is not primed yet returns nothing for a packet.
            None if length_s > 0.0 => self.timeline = Some(Timeline::begin(start_s, length_s)),
            None => {}
        }
    }

    fn put_silence(&mut self, samples: usize, out: &mut Vec<f32>) {
        out.resize(out.len() + samples, 0.0);
        self.decoded += samples as u64;
    }

    /// Appends the samples in `interleaved` to the output, without delay and padding.
    fn take(&mut self, packet: &Packet, rate: u32, channels: usize, out: &mut Vec<f32>) {
        if rate != self.rate {
            self.earlier_s = self.position_s();
            self.decoded = 0;
            self.rate = rate;
        }
        self.channels = channels;
        let frames = self.interleaved.len() / channels;
        self.record_time(packet, frames as f64 / f64::from(rate));
        let (mut start, mut end) = (0, frames);
        if !self.trims {
            start = ticks(packet.trim_start.get()).min(frames);
            if self.end_is_known {
                end = frames - ticks(packet.trim_end.get()).min(frames - start);
            }
        }
        if self.container == Container::Matroska && self.decoded == 0 && packet.pts.get() < 0 {
            // Samples before time 0 are delay.
            let before = -(packet.pts.get() as f64) * self.seconds_per_tick.unwrap_or(0.0);
            self.delay_s = before.min(1.0);
        }
        if self.delay_s > 0.0 {
            let delay = (self.delay_s * f64::from(rate)).round() as usize;
            let cut = delay.min(end - start);
            start += cut;
            self.delay_s = (delay - cut) as f64 / f64::from(rate);
        }
        if let Some(presented_s) = self.presented_s {
            let left = (presented_s - self.position_s()).max(0.0) * f64::from(rate);
            end = end.min(start + left.round() as usize);
        }
        let before = out.len();
        self.mixer.mix(&self.interleaved[start * channels..end * channels], channels, rate, out);
        if end < frames && !self.trims && self.presented_s.is_none() {
            self.mixer.mix(&self.interleaved[end * channels..frames * channels], channels, rate, &mut self.padding);
            if self.padding.len() > MAX_PADDING {
                // Audio continues after the end that the header states: two MP3 files joined, or a wrong header.
                self.end_is_known = false;
                self.promised_s = None;
                out.append(&mut self.padding);
            }
        }
        self.decoded += (out.len() - before) as u64;
    }

    /// Replaces a packet that cannot be decoded with silence, to keep the time line.
    fn skip(&mut self, packet: &Packet, out: &mut Vec<f32>) {
        self.skipped += 1;
        self.failed_in_a_row += 1;
        if self.failed_in_a_row == PATIENCE
            && let Ok(fresh) = tracks::decoder(&self.params)
        {
            self.decoder = fresh;
        }
        // Before the first decoded packet, the rate is only the header's claim.
        if !resample::RATES.contains(&self.rate) {
            return;
        }
        let seconds = (packet.dur.get() as f64 * self.seconds_per_tick.unwrap_or(0.0)).min(MAX_PATCH_S);
        self.record_time(packet, seconds);
        self.put_silence((seconds * f64::from(self.rate)).round() as usize, out);
    }

    /// Handles changed tracks: a chained Ogg stream.
    fn restart(&mut self) -> Result<(), String> {
        let track = self.reader.default_track(TrackType::Audio).ok_or("the next part holds no audio")?;
        let Some(CodecParameters::Audio(params)) = track.codec_params.clone() else {
            return Err("the next part's codec is unknown".into());
        };
        let trims = !tracks::is_mpeg_audio(params.codec);
        let delay_s = tracks::ogg_opus_delay_s(self.container, track);
        self.decoder = tracks::decoder(&params).map_err(|error| error.to_string())?;
        self.track = track.id;
        self.seconds_per_tick = track.time_base.map(|base| f64::from(base.numer.get()) / f64::from(base.denom.get()));
        (self.params, self.trims) = (params, trims);
        self.delay_s = delay_s;
        self.timeline = None;
        // The header of the first part stated the duration of that part only.
        self.promised_s = None;
        Ok(())
    }

    fn end(&mut self, reason: Option<String>) -> Option<u32> {
        self.state = ReadState::Ended;
        if let Some(reason) = reason {
            self.notes.push(format!("decoding stopped at {:.1} s: {reason}", self.position_s()));
        }
        None
    }
}

fn ticks(ticks: u64) -> usize {
    usize::try_from(ticks).unwrap_or(usize::MAX)
}
