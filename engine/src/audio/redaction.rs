//! Recordings whose hidden parts cannot be heard: a beep or silence in their place.

use std::io::Write;
use std::ops::Range;

use super::opus_file::OpusFile;
use super::{AudioStream, SAMPLE_RATE};
use crate::error::Result;

/// Sound that is hidden before and after the hidden words, whose times are not exact, ms.
const BEFORE_MS: u64 = 80;
const AFTER_MS: u64 = 120;
/// Length of the fades, which lie within the hidden part, ms.
const FADE_MS: u64 = 10;
/// Frequency of the beep, hertz, and its amplitude.
const BEEP_HZ: f64 = 1_000.0;
const BEEP: f32 = 0.1;

/// The sound in place of hidden words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cover {
    /// A tone of 1 kHz.
    Beep,
    /// Nothing.
    Silence,
}

impl Cover {
    /// The cover of this name: `beep` or `silence`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "beep" => Some(Self::Beep),
            "silence" => Some(Self::Silence),
            _ => None,
        }
    }
}

/// Writes a recording as Ogg Opus, mono, with `cover` in place of the parts from a first to a last moment, in ms.
///
/// # Errors
/// Those of [`AudioStream::next_block`], and [`crate::Error::Write`] if `out` takes nothing more.
pub fn write_redacted(mut audio: AudioStream, hidden_ms: &[(u64, u64)], cover: Cover, out: impl Write) -> Result<()> {
    let mut mask = Mask::new(hidden_ms, cover);
    let mut file = OpusFile::new(out, SAMPLE_RATE)?;
    while let Some(mut block) = audio.next_block()? {
        mask.apply(&mut block);
        file.push(&block)?;
    }
    file.finish().map(drop)
}

/// The hidden parts of a stream of samples.
struct Mask {
    /// In order, apart from each other.
    parts: Vec<Range<u64>>,
    /// The first part that is not over.
    next: usize,
    at: u64,
    cover: Cover,
}

impl Mask {
    fn new(hidden_ms: &[(u64, u64)], cover: Cover) -> Self {
        let samples = |ms: u64| ms * u64::from(SAMPLE_RATE) / 1000;
        let part = |(from, to): &(u64, u64)| samples(from.saturating_sub(BEFORE_MS))..samples(to.max(from) + AFTER_MS);
        let mut found: Vec<Range<u64>> = hidden_ms.iter().map(part).collect();
        found.sort_by_key(|part| part.start);
        let mut parts: Vec<Range<u64>> = Vec::with_capacity(found.len());
        for part in found {
            match parts.last_mut().filter(|last| part.start <= last.end) {
                Some(last) => last.end = last.end.max(part.end),
                None => parts.push(part),
            }
        }
        Self { parts, next: 0, at: 0, cover }
    }

    fn apply(&mut self, samples: &mut [f32]) {
        let fade = (FADE_MS * u64::from(SAMPLE_RATE) / 1000) as f32;
        for sample in samples {
            let at = self.at;
            self.at += 1;
            while self.parts.get(self.next).is_some_and(|part| part.end <= at) {
                self.next += 1;
            }
            let Some(part) = self.parts.get(self.next).filter(|part| part.start <= at) else { continue };
            // From 0 at the edges of a part to 1 within it. A recording that begins hidden has no edge there.
            let from_start = if part.start == 0 { fade } else { (at - part.start) as f32 };
            let hidden = (from_start.min((part.end - 1 - at) as f32) / fade).min(1.0);
            let cover = match self.cover {
                Cover::Silence => 0.0,
                Cover::Beep => {
                    let turns = at as f64 * BEEP_HZ / f64::from(SAMPLE_RATE);
                    BEEP * (turns.fract() * std::f64::consts::TAU).sin() as f32
                }
            };
            *sample = *sample * (1.0 - hidden) + cover * hidden;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::super::OpenOptions;
    use super::*;

    /// A tone of 300 Hz, written and read again.
    fn redacted(hidden_ms: &[(u64, u64)], cover: Cover) -> Vec<f32> {
        let tone =
            (0..48_000).map(|at| ((f64::from(at) * 300.0 / 16_000.0).fract() * std::f64::consts::TAU).sin() * 0.3);
        let pcm: Vec<u8> = tone.flat_map(|sample| ((sample * 32_767.0) as i16).to_le_bytes()).collect();
        let audio = AudioStream::from_pcm_s16le(Cursor::new(pcm), SAMPLE_RATE, 1).unwrap();
        let mut file = Vec::new();
        write_redacted(audio, hidden_ms, cover, &mut file).unwrap();
        assert!(file.len() < 20_000, "{} bytes of 3 s", file.len());
        AudioStream::from_source(Cursor::new(file), &OpenOptions::default()).unwrap().read_to_end().unwrap()
    }

    /// The amplitude of a tone in a part of the sound.
    fn amplitude(samples: &[f32], range: Range<usize>, hertz: f64) -> f64 {
        let (mut real, mut imaginary) = (0.0, 0.0);
        for (at, sample) in samples[range.clone()].iter().enumerate() {
            let angle = at as f64 * hertz / 16_000.0 * std::f64::consts::TAU;
            real += f64::from(*sample) * angle.cos();
            imaginary += f64::from(*sample) * angle.sin();
        }
        2.0 * real.hypot(imaginary) / range.len() as f64
    }

    #[test]
    fn hidden_parts_hold_the_cover_alone_and_the_rest_is_kept() {
        for (cover, beep) in [(Cover::Beep, 0.1), (Cover::Silence, 0.0)] {
            let samples = redacted(&[(1_000, 1_500), (1_400, 1_600), (2_900, 9_000)], cover);
            assert_eq!(samples.len(), 48_000);
            for (range, kept, heard) in [
                (1_600..14_000, 0.3, 0.0),
                // From 80 ms before to 120 ms after, without the fades.
                (15_000..27_200, 0.0, beep),
                (28_000..44_800, 0.3, 0.0),
                (45_500..47_900, 0.0, beep),
            ] {
                let found = [300.0, 1_000.0].map(|hertz| amplitude(&samples, range.clone(), hertz));
                let wrong = |found: f64, wanted: f64| (found - wanted).abs() > 0.02 + wanted / 4.0;
                assert!(!wrong(found[0], kept) && !wrong(found[1], heard), "{cover:?} {range:?}: {found:?}");
            }
        }
    }

    #[test]
    fn a_recording_may_be_hidden_whole_or_not_at_all() {
        assert!(redacted(&[(0, 3_000)], Cover::Silence).iter().all(|sample| sample.abs() < 1e-3));
        // The codec is made for speech, and weakens a lasting pure tone.
        let kept = redacted(&[], Cover::Beep);
        let power = kept.iter().map(|sample| sample * sample).sum::<f32>() / kept.len() as f32;
        assert!(power > 0.01, "{power}");
    }
}
