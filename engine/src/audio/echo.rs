//! Echo cancellation: what a microphone hears of a loudspeaker beside it is taken out of its sound.

use std::collections::VecDeque;
use std::time::Duration;

use sonora::config::EchoCanceller as CancellerConfig;
use sonora::{AudioProcessing, Config, StreamConfig};

use super::{Resampler, SAMPLE_RATE};
use crate::error::{Error, Result};

/// Frames a second of the canceller.
const FRAMES: u32 = 100;
/// Samples of a frame of the microphone, 10 ms.
pub const FRAME: usize = (SAMPLE_RATE / FRAMES) as usize;

/// Time in which at least one piece of the microphone's sound comes without delay.
const CLOCK_WINDOW: Duration = Duration::from_secs(2);

/// A loudspeaker is taken to play this much earlier than the clock tells, s: an echo may seem to come later, but never before its sound.
const MARGIN_S: f64 = 0.03;

/// The longest time that the microphone's sound may be late, in frames. After it a client is taken to have sent none.
const MAX_LATE_FRAMES: f64 = 100.0;

/// Part of a frame's energy below which what is left of it is an echo's. Detectors may take it for speech, as quiet as it is.
const ECHO_LEFT: f32 = 0.01;

/// Frames of the loudspeaker's first sound in which the microphone's level shows whether it hears it at all: the longest way, and some more.
const OPENING: usize = 90;
/// Frames of the loudspeaker's sound after which the canceller has learned that there is no echo. Before, it takes a caller's speech for one.
const LEARNED: usize = 900;
/// Frames after which the loudspeaker's sound has been heard.
const WAY: usize = 60;
/// Mean energy of a frame of the loudspeaker that counts as sound: -60 dB of full scale.
const SOUND: f32 = 1e-6;
/// Part of the loudspeaker's energy, -34 dB, below which a microphone in the opening has no echo that a canceller is needed for. At -26 dB
/// the words of an echo beside a listener's "yeah" become others.
const NO_ECHO: f32 = 4e-4;
/// The least part of the loudspeaker's energy that is taken for its echo, -40 dB.
const LEAST_ECHO: f32 = 1e-4;
/// Sound that exceeds the expected echo's energy by this factor, 6 dB, is no echo.
const ABOVE_ECHO: f32 = 4.0;

/// Tells in the loudspeaker's first seconds whether the microphone hears it. A headset or a telephone does not, and the canceller, which has
/// learned nothing yet, would take out its caller's speech.
#[derive(Debug, Default)]
struct Opening {
    /// Energies of the loudspeaker's last frames.
    recent: VecDeque<f32>,
    /// Frames since its first sound in which it sounded.
    sounded: usize,
    /// The largest energies of a frame of the microphone and of the loudspeaker in the opening.
    peaks: [f32; 2],
}

impl Opening {
    /// Takes a frame of both. If the canceller is not needed: true for echo, false for a caller.
    fn hear(&mut self, heard: f32, played: f32) -> Option<bool> {
        self.recent.push_back(played);
        if self.recent.len() > WAY {
            self.recent.pop_front();
        }
        let loudest = self.recent.iter().copied().fold(0.0, f32::max);
        let sounds = loudest > SOUND;
        self.sounded += usize::from(sounds);
        if self.sounded <= OPENING {
            if sounds {
                self.peaks = [self.peaks[0].max(heard), self.peaks[1].max(played)];
            }
            return None;
        }
        // Of the loudspeaker's energy, what the microphone has heard at most.
        let part = self.peaks[0] / self.peaks[1].max(SOUND);
        let is_trusted = self.sounded <= LEARNED && part < NO_ECHO;
        is_trusted.then(|| sounds && heard < ABOVE_ECHO * part.max(LEAST_ECHO) * loudest)
    }

    /// The loudspeaker has sounded before the microphone's first sound: its client sends sound only while somebody speaks.
    fn skip(&mut self) {
        self.sounded = self.sounded.max(OPENING);
    }
}

/// Takes the sound of a loudspeaker out of that of a microphone.
///
/// It learns the way from one to the other: its delay, up to about half a second, and its reflections. The loudspeaker plays what is passed
/// to [`EchoCanceller::play`] when it is passed, or after the sound before it. Times are those of a clock that does not go back; they tell
/// where in the microphone's sound that is, though the microphone's sound may come late.
pub struct EchoCanceller {
    processing: AudioProcessing,
    microphone_rate: u32,
    resampler: Resampler,
    /// Sound of the microphone that fills no frame yet, at 16 kHz.
    heard: Vec<f32>,
    /// Sound that the loudspeaker has still to play.
    playing: VecDeque<f32>,
    /// Samples of a frame of the loudspeaker.
    played_frame: usize,
    /// Frames of the microphone that were processed.
    frames: u64,
    clock: MicrophoneClock,
    opening: Opening,
    /// Time of the loudspeaker's first sound, until the microphone's.
    first_play: Option<Duration>,
}

/// What a microphone hears beside the echo.
#[derive(Clone, Debug, Default)]
pub struct Cleaned {
    /// At 16 kHz.
    pub samples: Vec<f32>,
    /// For each [`FRAME`] of them: true if hardly anything but echo was heard.
    pub is_echo: Vec<bool>,
}

/// Tells where the microphone is at a time: its sound comes late at times, but never early.
#[derive(Debug, Default)]
struct MicrophoneClock {
    /// Sound that has come.
    heard_s: f64,
    /// The least delay between the clock and the sound in this window and in the one before, and the window's end.
    delays: [Option<f64>; 2],
    until: Duration,
}

impl MicrophoneClock {
    fn hear(&mut self, seconds: f64, now: Duration) {
        self.heard_s += seconds;
        if now >= self.until {
            self.delays = [None, self.delays[0]];
            self.until = now + CLOCK_WINDOW;
        }
        let delay = now.as_secs_f64() - self.heard_s;
        self.delays[0] = Some(self.delays[0].map_or(delay, |least| least.min(delay)));
    }

    /// The second of the microphone's sound that is recorded at this time.
    fn position(&self, now: Duration) -> f64 {
        let delay = self.delays.iter().flatten().copied().reduce(f64::min);
        delay.map_or(0.0, |delay| now.as_secs_f64() - delay)
    }
}

impl EchoCanceller {
    /// A canceller for a microphone and a loudspeaker with these sample rates in hertz; the loudspeaker's is a multiple of 100.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for other rates.
    pub fn new(microphone_rate: u32, loudspeaker_rate: u32) -> Result<Self> {
        if !loudspeaker_rate.is_multiple_of(FRAMES) || !(8_000..=48_000).contains(&loudspeaker_rate) {
            return Err(Error::InvalidOption(format!("a loudspeaker at {loudspeaker_rate} Hz")));
        }
        let config = Config { echo_canceller: Some(CancellerConfig::default()), ..Config::default() };
        let processing = AudioProcessing::builder()
            .config(config)
            .capture_config(StreamConfig::new(SAMPLE_RATE, 1))
            .render_config(StreamConfig::new(loudspeaker_rate, 1))
            .build();
        Ok(Self {
            processing,
            microphone_rate,
            resampler: Resampler::live(microphone_rate)?,
            heard: Vec::new(),
            playing: VecDeque::new(),
            played_frame: (loudspeaker_rate / FRAMES) as usize,
            frames: 0,
            clock: MicrophoneClock::default(),
            opening: Opening::default(),
            first_play: None,
        })
    }

    /// The loudspeaker plays these samples, -1 to 1, from now on or after those before.
    pub fn play(&mut self, samples: &[f32], now: Duration) {
        let queued = self.frames as f64 + self.playing.len() as f64 / self.played_frame as f64;
        let silent_frames = (self.clock.position(now) - MARGIN_S) * f64::from(FRAMES) - queued;
        let silence = (silent_frames.clamp(0.0, MAX_LATE_FRAMES) * self.played_frame as f64) as usize;
        if self.clock.heard_s == 0.0 {
            self.first_play.get_or_insert(now);
        }
        self.playing.extend(std::iter::repeat_n(0.0, silence));
        self.playing.extend(samples);
    }

    /// The loudspeaker stops: what it has not played yet will not be played.
    pub fn stop(&mut self) {
        self.playing.clear();
    }

    /// Takes samples of the microphone, -1 to 1, that come now. Up to 10 ms are kept for the next call.
    ///
    /// # Errors
    /// [`Error::Internal`] if the samples cannot be processed.
    pub fn hear(&mut self, samples: &[f32], now: Duration) -> Result<Cleaned> {
        if let Some(first) = self.first_play.take() {
            self.begin_late(
                now.saturating_sub(first).as_secs_f64() - samples.len() as f64 / f64::from(self.microphone_rate),
            );
        }
        self.clock.hear(samples.len() as f64 / f64::from(self.microphone_rate), now);
        self.resampler.push(samples, &mut self.heard)?;
        let mut clean = vec![0.0; self.heard.len() / FRAME * FRAME];
        let mut is_echo = Vec::with_capacity(self.heard.len() / FRAME);
        let failed = |error: sonora::Error| Error::internal(format!("echo cancellation: {error}"));
        for (heard, clean) in self.heard.chunks_exact(FRAME).zip(clean.chunks_exact_mut(FRAME)) {
            let mut played: Vec<f32> = self.playing.drain(..self.played_frame.min(self.playing.len())).collect();
            played.resize(self.played_frame, 0.0);
            let mut unused = vec![0.0; self.played_frame];
            self.processing.process_render_f32(&[&played], &mut [&mut unused]).map_err(failed)?;
            self.processing.process_capture_f32(&[heard], &mut [&mut *clean]).map_err(failed)?;
            let played = energy(&played) / self.played_frame as f32;
            is_echo.push(match self.opening.hear(energy(heard) / FRAME as f32, played) {
                Some(is_echo) => {
                    clean.copy_from_slice(heard);
                    is_echo
                }
                None => energy(clean) < ECHO_LEFT * energy(heard),
            });
        }
        self.frames += (clean.len() / FRAME) as u64;
        self.heard.drain(..clean.len());
        Ok(Cleaned { samples: clean, is_echo })
    }

    /// The microphone's first sound begins this many seconds after the loudspeaker's, whose beginning it has not heard.
    fn begin_late(&mut self, seconds: f64) {
        let frames = (seconds * f64::from(FRAMES)) as usize;
        if frames > OPENING {
            self.playing.drain(..(frames * self.played_frame).min(self.playing.len()));
            self.opening.skip();
        }
    }
}

fn energy(samples: &[f32]) -> f32 {
    samples.iter().map(|sample| sample * sample).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::AudioStream;

    /// Speech at 16 kHz, that of the sample.
    fn speech() -> Vec<f32> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/samples/jfk.flac");
        AudioStream::open(path).unwrap().read_to_end().unwrap()
    }

    /// Reflections of a room: delay after the first in samples, gain. A quarter of the amplitude together.
    const PATHS: [(usize, f32); 4] = [(0, 0.21), (380, 0.1), (1_030, -0.07), (1_780, 0.04)];

    /// The echo of a loudspeaker, whose first sound comes after this time.
    fn echo_of(played: &[f32], delay_ms: usize) -> Vec<f32> {
        let at =
            |index: usize, delay: usize| index.checked_sub(16 * delay_ms + delay).map_or(0.0, |index| played[index]);
        (0..played.len()).map(|index| PATHS.iter().map(|(delay, gain)| gain * at(index, *delay)).sum()).collect()
    }

    fn decibels(part: &[f32], whole: &[f32]) -> f32 {
        let energy = |samples: &[f32]| samples.iter().map(|sample| sample * sample).sum::<f32>() + 1e-9;
        10.0 * (energy(part) / energy(whole)).log10()
    }

    /// The rest of `heard` while the loudspeaker plays `played`, in pieces as a client sends them.
    fn cleaned(canceller: &mut EchoCanceller, heard: &[f32], played: &[f32]) -> Vec<f32> {
        let pieces = heard.chunks(800).zip(played.chunks(800));
        let clean = pieces.enumerate().map(|(index, (heard, played))| {
            canceller.play(played, Duration::from_millis(50 * index as u64));
            canceller.hear(heard, Duration::from_millis(50 * (index as u64 + 1))).unwrap().samples
        });
        clean.collect::<Vec<_>>().concat()
    }

    #[test]
    fn the_loudspeakers_voice_is_taken_out() {
        let played = speech();
        for delay_ms in [20, 120, 300, 450] {
            let heard = echo_of(&played, delay_ms);
            let mut canceller = EchoCanceller::new(SAMPLE_RATE, SAMPLE_RATE).unwrap();
            let clean = cleaned(&mut canceller, &heard, &played);
            assert_eq!(clean.len(), heard.len() / FRAME * FRAME);
            // Once the way is learned.
            let rest = SAMPLE_RATE as usize * 3..clean.len();
            let left = decibels(&clean[rest.clone()], &heard[rest]);
            assert!(left < -15.0, "{left} dB are left of an echo after {delay_ms} ms");
        }
    }

    #[test]
    fn sound_that_comes_late_is_told_from_a_longer_way() {
        // A reply of a second every two seconds. The microphone's sound comes in pieces of 50 ms, and while a reply begins up to 400 ms late.
        let spoken = speech();
        let second = SAMPLE_RATE as usize;
        let replies = spoken.len() / second;
        let mut played = vec![0.0; 2 * replies * second];
        for (reply, to) in spoken.chunks_exact(second).zip(played.chunks_exact_mut(2 * second)) {
            to[..second].copy_from_slice(reply);
        }
        let heard = echo_of(&played, 60);
        let mut canceller = EchoCanceller::new(SAMPLE_RATE, SAMPLE_RATE).unwrap();
        let (mut clean, mut came) = (Vec::new(), 0);
        for at_ms in (0..2_000 * replies).step_by(50) {
            if at_ms % 2_000 == 0 {
                canceller.play(&played[16 * at_ms..16 * (at_ms + 1_000)], Duration::from_millis(at_ms as u64));
            }
            // From 800 ms before the reply to 600 ms after its beginning.
            let late = if (at_ms + 800) % 2_000 < 1_400 { (at_ms + 800) / 2_000 % 3 * 200 } else { 0 };
            let until = came.max((at_ms + 50).saturating_sub(late));
            let piece = &heard[16 * came..16 * until];
            clean.extend(canceller.hear(piece, Duration::from_millis(at_ms as u64 + 50)).unwrap().samples);
            came = until;
        }
        let rest = 6 * second..clean.len();
        let left = decibels(&clean[rest.clone()], &heard[rest]);
        assert!(left < -15.0, "{left} dB are left");
    }

    #[test]
    fn a_speaker_beside_it_is_heard() {
        let played = speech();
        let echo = echo_of(&played, 120);
        // The same sentences, later and upside down: another speaker for the canceller.
        let mut spoken = played.clone();
        spoken.rotate_right(SAMPLE_RATE as usize * 4);
        let heard: Vec<f32> = echo.iter().zip(&spoken).map(|(echo, spoken)| echo - spoken).collect();
        let mut canceller = EchoCanceller::new(SAMPLE_RATE, SAMPLE_RATE).unwrap();
        let clean = cleaned(&mut canceller, &heard, &played);
        let rest = SAMPLE_RATE as usize * 2..clean.len();
        let kept = decibels(&clean[rest.clone()], &spoken[rest]);
        assert!(kept > -6.0, "{kept} dB are kept");
    }

    /// A caller with a headset, in a quiet room and in one with noise, talks over the loudspeaker's first sentence.
    #[test]
    fn a_speaker_without_echo_is_heard_from_the_start() {
        let played = speech();
        let mut spoken = played.clone();
        spoken.rotate_right(SAMPLE_RATE as usize * 4);
        for (noise, begins) in [(0.0, 1.0), (0.001, 1.0), (0.001, 2.5), (0.003, 1.5)] {
            let begins = (begins * f64::from(SAMPLE_RATE)) as usize;
            let hiss = |at: usize| noise * ((at * 7_919 % 1_009) as f32 / 504.5 - 1.0);
            let heard: Vec<f32> =
                (0..played.len()).map(|at| hiss(at) + if at < begins { 0.0 } else { 0.3 * spoken[at] }).collect();
            let mut canceller = EchoCanceller::new(SAMPLE_RATE, SAMPLE_RATE).unwrap();
            let clean = cleaned(&mut canceller, &heard, &played);
            let rest = begins..begins + 2 * SAMPLE_RATE as usize;
            let kept = decibels(&clean[rest.clone()], &heard[rest]);
            assert!(kept > -3.0, "{kept} dB are kept, noise {noise}, from sample {begins}");
        }
    }

    /// A client that sends sound only while its user speaks.
    #[test]
    fn a_microphone_that_begins_late_is_heard() {
        let played = speech();
        let mut canceller = EchoCanceller::new(SAMPLE_RATE, SAMPLE_RATE).unwrap();
        let mut spoken = played.clone();
        spoken.rotate_right(SAMPLE_RATE as usize * 4);
        let (mut clean, mut heard) = (Vec::new(), Vec::new());
        for (index, (played, spoken)) in played.chunks(800).zip(spoken.chunks(800)).enumerate() {
            canceller.play(played, Duration::from_millis(50 * index as u64));
            if index >= 30 {
                heard.extend(spoken);
                let now = Duration::from_millis(50 * (index as u64 + 1));
                clean.extend(canceller.hear(spoken, now).unwrap().samples);
            }
        }
        let kept = decibels(&clean[..32_000], &heard[..32_000]);
        assert!(kept > -3.0, "{kept} dB are kept");
    }

    /// The little that a headset lets through is echo, and is told from its caller.
    #[test]
    fn a_faint_echo_is_told_from_its_caller() {
        let played = speech();
        let faint: Vec<f32> = echo_of(&played, 60).iter().map(|sample| 0.06 * sample).collect();
        let mut canceller = EchoCanceller::new(SAMPLE_RATE, SAMPLE_RATE).unwrap();
        let mut is_echo = Vec::new();
        for (index, (heard, played)) in faint.chunks(800).zip(played.chunks(800)).enumerate() {
            canceller.play(played, Duration::from_millis(50 * index as u64));
            is_echo.extend(canceller.hear(heard, Duration::from_millis(50 * (index as u64 + 1))).unwrap().is_echo);
        }
        let loud = |frame: &usize| energy(&faint[frame * FRAME..][..FRAME]) > SOUND * FRAME as f32;
        let sounding: Vec<usize> = (100..500).filter(loud).collect();
        let told = sounding.iter().filter(|frame| is_echo[**frame]).count();
        assert!(sounding.len() > 100 && told * 100 > 95 * sounding.len(), "{told} of {}", sounding.len());
    }

    #[test]
    fn without_a_loudspeaker_nothing_is_lost() {
        let spoken = speech();
        let mut canceller = EchoCanceller::new(SAMPLE_RATE, 24_000).unwrap();
        let clean = cleaned(&mut canceller, &spoken, &vec![0.0; spoken.len()]);
        let kept = decibels(&clean, &spoken);
        assert!(kept.abs() < 1.0, "{kept} dB");
        assert!(EchoCanceller::new(SAMPLE_RATE, 24_001).is_err());
    }
}
