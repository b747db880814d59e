//! Echo cancellation: what a microphone hears of a loudspeaker beside it is taken out of its sound.

use std::collections::VecDeque;

use sonora::config::EchoCanceller as CancellerConfig;
use sonora::{AudioProcessing, Config, StreamConfig};

use super::{Resampler, SAMPLE_RATE};
use crate::error::{Error, Result};

/// Frames a second of the canceller.
const FRAMES: u32 = 100;
/// Samples of a frame of the microphone.
const FRAME: usize = (SAMPLE_RATE / FRAMES) as usize;

/// Takes the sound of a loudspeaker out of that of a microphone.
///
/// It learns the way from one to the other: its delay, up to about half a second, and its reflections. Both sounds advance together: a
/// second of the microphone is a second in which the loudspeaker plays what was passed to [`EchoCanceller::play`], from its first sample on, and
/// silence after it.
pub struct EchoCanceller {
    processing: AudioProcessing,
    resampler: Resampler,
    /// Sound of the microphone that fills no frame yet, at 16 kHz.
    heard: Vec<f32>,
    /// Sound that the loudspeaker has still to play.
    playing: VecDeque<f32>,
    /// Samples of a frame of the loudspeaker.
    played_frame: usize,
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
            resampler: Resampler::live(microphone_rate)?,
            heard: Vec::new(),
            playing: VecDeque::new(),
            played_frame: (loudspeaker_rate / FRAMES) as usize,
        })
    }

    /// The loudspeaker plays these samples, -1 to 1, after those before.
    pub fn play(&mut self, samples: &[f32]) {
        self.playing.extend(samples);
    }

    /// The loudspeaker stops: what it has not played yet will not be played.
    pub fn stop(&mut self) {
        self.playing.clear();
    }

    /// Takes samples of the microphone, -1 to 1; returns those that are finished, without echo, at 16 kHz. Up to 10 ms are kept for the next
    /// call.
    ///
    /// # Errors
    /// [`Error::Internal`] if the samples cannot be processed.
    pub fn hear(&mut self, samples: &[f32]) -> Result<Vec<f32>> {
        self.resampler.push(samples, &mut self.heard)?;
        let mut clean = vec![0.0; self.heard.len() / FRAME * FRAME];
        let failed = |error: sonora::Error| Error::internal(format!("echo cancellation: {error}"));
        for (heard, clean) in self.heard.chunks_exact(FRAME).zip(clean.chunks_exact_mut(FRAME)) {
            let mut played: Vec<f32> = self.playing.drain(..self.played_frame.min(self.playing.len())).collect();
            played.resize(self.played_frame, 0.0);
            let mut unused = vec![0.0; self.played_frame];
            self.processing.process_render_f32(&[&played], &mut [&mut unused]).map_err(failed)?;
            self.processing.process_capture_f32(&[heard], &mut [clean]).map_err(failed)?;
        }
        self.heard.drain(..clean.len());
        Ok(clean)
    }
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
        let clean = pieces.map(|(heard, played)| {
            canceller.play(played);
            canceller.hear(heard).unwrap()
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
