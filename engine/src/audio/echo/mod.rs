//! Echo cancellation: what a microphone hears of a loudspeaker beside it is taken out of its sound.

mod double_talk;
mod frame;
mod opening;

use std::collections::VecDeque;
use std::time::Duration;

use sonora_aec3::block::Block;
use sonora_aec3::block_processor::BlockProcessor;
use sonora_aec3::config::EchoCanceller3Config;

use self::double_talk::{DoubleTalk, Energies};
pub use self::frame::FRAME;
use self::frame::{BLOCK, FRAMES};
use self::opening::{OPENING, Opening};
use super::biquad::Biquad;
use super::{Resampler, SAMPLE_RATE};
use crate::error::{Error, Result};

/// Time in which at least one piece of the microphone's sound comes without delay.
const CLOCK_WINDOW: Duration = Duration::from_secs(2);

/// A loudspeaker is taken to play this much earlier than the clock tells, s: an echo may seem to come later, but never before its sound,
/// which [`LAG`] makes later.
const MARGIN_S: f64 = 0.045;

/// Samples at 16 kHz, 14 ms, by which the loudspeaker's sound is made later, as resampling gives it: in pieces of 10 ms, and a filter's 4 later.
const LAG: usize = 224;

/// The longest time that the microphone's sound may be late, in frames. After it a client is taken to have sent none.
const MAX_LATE_FRAMES: f64 = FRAMES as f64;

/// Corner of the high-pass filter before the canceller, hertz: what is below is no speech, and disturbs it.
const HIGH_PASS_HZ: f64 = 100.0;

/// The canceller's samples have 16 bits; one of a microphone at its limit tells nothing of its echo.
const FULL_SCALE: f32 = 32_768.0;
const SATURATED: f32 = 0.998;

/// Samples from one to the other of two sounds that replace each other, 5 ms.
const FADE: f32 = 80.0;

/// Takes the sound of a loudspeaker out of that of a microphone.
///
/// Next to nothing is left of sound that is the loudspeaker's alone. Of sound in which a caller speaks over it, the estimated echo is subtracted
/// and no more, as suppression would take the caller's words with it.
///
/// It learns the way from one to the other: its delay, up to about half a second, and its reflections. The loudspeaker plays what is passed
/// to [`EchoCanceller::play`] when it is passed, or after the sound before it. Times are those of a clock that does not go back; they tell
/// where in the microphone's sound that is, though the microphone's sound may come late.
pub struct EchoCanceller {
    processor: BlockProcessor,
    microphone_rate: u32,
    resampler: Resampler,
    high_pass: Biquad,
    /// Sound of the microphone that fills no frame yet, at 16 kHz.
    heard: Vec<f32>,
    /// Sound that the loudspeaker has still to play.
    playing: VecDeque<f32>,
    /// Samples of a frame of the loudspeaker.
    played_frame: usize,
    played_resampler: Resampler,
    /// Played sound at 16 kHz, from [`LAG`] samples of silence on.
    played: Vec<f32>,
    /// What the last block's subtraction left: suppression gives its sound a block later.
    last_left: [f32; BLOCK],
    double_talk: DoubleTalk,
    /// Part of what subtraction left in the sound, beside what is suppressed.
    unsuppressed: f32,
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
    /// A canceller for a microphone and a loudspeaker with these sample rates in hertz; the loudspeaker's is a multiple of 125.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for other rates.
    pub fn new(microphone_rate: u32, loudspeaker_rate: u32) -> Result<Self> {
        if !loudspeaker_rate.is_multiple_of(FRAMES) || !(8_000..=48_000).contains(&loudspeaker_rate) {
            return Err(Error::InvalidOption(format!("a loudspeaker at {loudspeaker_rate} Hz")));
        }
        let mut config = EchoCanceller3Config::default();
        config.filter.export_linear_aec_output = true;
        Ok(Self {
            processor: BlockProcessor::new(&config, SAMPLE_RATE as usize, 1, 1),
            microphone_rate,
            resampler: Resampler::live(microphone_rate)?,
            high_pass: Biquad::high_pass(HIGH_PASS_HZ, std::f64::consts::FRAC_1_SQRT_2, SAMPLE_RATE.into()),
            heard: Vec::new(),
            playing: VecDeque::new(),
            played_frame: (loudspeaker_rate / FRAMES) as usize,
            played_resampler: Resampler::live(loudspeaker_rate)?,
            played: vec![0.0; LAG],
            last_left: [0.0; BLOCK],
            double_talk: DoubleTalk::default(),
            unsuppressed: 0.0,
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

    /// Takes samples of the microphone, -1 to 1, that come now. Up to 8 ms are kept for the next call.
    ///
    /// # Errors
    /// [`Error::Internal`] if the samples cannot be processed.
    pub fn hear(&mut self, samples: &[f32], now: Duration) -> Result<Cleaned> {
        let seconds = samples.len() as f64 / f64::from(self.microphone_rate);
        if let Some(first) = self.first_play.take() {
            self.begin_late(now.saturating_sub(first).as_secs_f64() - seconds);
        }
        self.clock.hear(seconds, now);
        let mut heard = std::mem::take(&mut self.heard);
        self.resampler.push(samples, &mut heard)?;
        let mut clean = Cleaned::default();
        for frame in heard.chunks_exact(FRAME) {
            let played: Vec<f32> = self.playing.drain(..self.played_frame.min(self.playing.len())).collect();
            let level = energy(&played) / self.played_frame as f32;
            let is_echo = self.clean(frame, played, level, &mut clean.samples)?;
            clean.is_echo.push(match self.opening.hear(energy(frame) / FRAME as f32, level) {
                Some(is_echo) => {
                    let from = clean.samples.len() - FRAME;
                    clean.samples[from..].copy_from_slice(frame);
                    is_echo
                }
                None => is_echo,
            });
        }
        self.frames += clean.is_echo.len() as u64;
        heard.drain(..clean.samples.len());
        self.heard = heard;
        Ok(clean)
    }

    /// Takes a frame of both, the loudspeaker's with its mean energy, and appends the residual; true if that is hardly anything but echo.
    fn clean(&mut self, heard: &[f32], mut played: Vec<f32>, level: f32, clean: &mut Vec<f32>) -> Result<bool> {
        played.resize(self.played_frame, 0.0);
        self.played_resampler.push(&played, &mut self.played)?;
        let missing = FRAME.saturating_sub(self.played.len());
        self.played.extend(std::iter::repeat_n(0.0, missing));
        let (mut kept, mut left) = ([0.0; FRAME], [0.0; FRAME]);
        let mut energies = Energies { played: level, ..Energies::default() };
        for (at, part) in heard.chunks_exact(BLOCK).enumerate() {
            let part: Vec<f32> = part.iter().map(|sample| self.high_pass.next(f64::from(*sample)) as f32).collect();
            let (subtracted, suppressed) = self.process(&part, at);
            let of_echo: Vec<f32> = part.iter().zip(&subtracted).map(|(heard, left)| heard - left).collect();
            energies.heard += energy(&part) / FRAME as f32;
            energies.echo += energy(&of_echo) / FRAME as f32;
            energies.left += energy(&subtracted) / FRAME as f32;
            energies.suppressed += energy(&suppressed) / FRAME as f32;
            kept[at * BLOCK..][..BLOCK].copy_from_slice(&suppressed);
            left[at * BLOCK..][..BLOCK].copy_from_slice(&std::mem::replace(&mut self.last_left, subtracted));
        }
        self.played.drain(..FRAME);
        self.double_talk.hear(energies);
        let wanted = if self.double_talk.may_speak() { 1.0 } else { 0.0 };
        clean.extend(kept.iter().zip(&left).map(|(kept, left)| {
            self.unsuppressed += (wanted - self.unsuppressed).clamp(-1.0 / FADE, 1.0 / FADE);
            kept + self.unsuppressed * (left - kept)
        }));
        Ok(!self.double_talk.speaks() && energies.is_echo())
    }

    /// What subtraction and what suppression leave of a block, which is the given one of its frame.
    fn process(&mut self, heard: &[f32], at: usize) -> ([f32; BLOCK], [f32; BLOCK]) {
        let [mut render, mut capture, mut linear] = std::array::from_fn(|_| Block::new(1, 1));
        let scaled = |to: &mut Block, from: &[f32]| {
            to.view_mut(0, 0).iter_mut().zip(from).for_each(|(to, from)| *to = from * FULL_SCALE);
        };
        scaled(&mut render, &self.played[at * BLOCK..][..BLOCK]);
        scaled(&mut capture, heard);
        // It is not written before the first sound.
        scaled(&mut linear, heard);
        self.processor.buffer_render(&render);
        let saturated = heard.iter().any(|sample| sample.abs() > SATURATED);
        self.processor.process_capture(false, saturated, Some(&mut linear), &mut capture);
        [linear, capture].map(|block| std::array::from_fn(|at| block.view(0, 0)[at] / FULL_SCALE)).into()
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
    use super::frame::SOUND;
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
        // 6 dB louder than the echo, as loud, and 6 dB quieter.
        for loudness in [0.5, 0.25, 0.125] {
            // A second of the same sentences, upside down: another speaker for the canceller.
            let (from, second) = (11 * SAMPLE_RATE as usize / 2, SAMPLE_RATE as usize);
            let said: Vec<f32> = played[second / 2..][..second].iter().map(|sample| -loudness * sample).collect();
            let mut heard = echo.clone();
            heard[from..].iter_mut().zip(&said).for_each(|(heard, said)| *heard += said);
            let mut canceller = EchoCanceller::new(SAMPLE_RATE, SAMPLE_RATE).unwrap();
            let clean = cleaned(&mut canceller, &heard, &played);
            // The residual comes a block late.
            let left = &clean[from + BLOCK..][..second];
            let together: f32 = left.iter().zip(&said).map(|(left, said)| left * said).sum();
            let kept = 20.0 * (together / energy(&said)).log10();
            assert!(kept > -2.0, "{kept} dB are kept of a speaker at {loudness}");
        }
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

    /// The little that a headset lets through is echo, and differs from its caller.
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
        let echoes = sounding.iter().filter(|frame| is_echo[**frame]).count();
        assert!(sounding.len() > 100 && echoes * 100 > 95 * sounding.len(), "{echoes} of {}", sounding.len());
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
