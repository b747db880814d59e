//! The waveform of a recording, measured while it is decoded for its transcript.

use auricle_engine::audio::SAMPLE_RATE;

use crate::store::{LOUDEST, Waveform};

/// The most levels. A recording that needs more has longer ones.
const MOST: usize = 600;

/// Samples of a level at first: 10 ms.
const FIRST_SAMPLES: usize = SAMPLE_RATE as usize / 100;

/// The peaks of what was heard so far.
pub struct Peaks {
    samples: usize,
    peaks: Vec<f32>,
    /// The peak of the level that is not full yet, and its samples.
    last: (f32, usize),
}

impl Default for Peaks {
    fn default() -> Self {
        Self { samples: FIRST_SAMPLES, peaks: Vec::with_capacity(MOST), last: (0.0, 0) }
    }
}

impl Peaks {
    /// Hears the next samples, at 16 kHz.
    pub fn push(&mut self, mut block: &[f32]) {
        while !block.is_empty() {
            let (now, rest) = block.split_at(block.len().min(self.samples - self.last.1));
            block = rest;
            let peak = now.iter().fold(self.last.0, |peak, sample| peak.max(sample.abs()));
            self.last = (peak, self.last.1 + now.len());
            if self.last.1 == self.samples {
                self.peaks.push(std::mem::take(&mut self.last).0);
                self.halve_if_full();
            }
        }
    }

    fn halve_if_full(&mut self) {
        if self.peaks.len() == MOST {
            self.peaks = self.peaks.chunks(2).map(|pair| pair.iter().copied().fold(0.0, f32::max)).collect();
            self.samples *= 2;
        }
    }

    /// The waveform of all that was heard. Levels grow with the square root, so that quiet speech is seen beside loud speech.
    pub fn waveform(&self) -> Waveform {
        let open = Some(self.last.0).filter(|_| self.last.1 > 0);
        let level = |peak: f32| (peak.clamp(0.0, 1.0).sqrt() * f32::from(LOUDEST)).round() as u8;
        Waveform {
            level_ms: (self.samples * 1000 / SAMPLE_RATE as usize) as i64,
            levels: self.peaks.iter().copied().chain(open).map(level).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waveform(samples: &[f32], block: usize) -> Waveform {
        let mut peaks = Peaks::default();
        samples.chunks(block).for_each(|block| peaks.push(block));
        peaks.waveform()
    }

    #[test]
    fn a_short_recording_has_a_level_for_each_10_ms() {
        let mut samples = vec![0.0; 400];
        samples[170] = -0.25;
        samples[399] = 7.0;
        for block in [1, 7, 160, 400] {
            assert_eq!(waveform(&samples, block), Waveform { level_ms: 10, levels: vec![0, 32, 63] }, "{block}");
        }
        assert!(waveform(&[], 1).levels.is_empty());
    }

    #[test]
    fn a_long_recording_has_few_levels_that_hold_every_peak() {
        // An hour and a bit, with a click in each minute.
        let mut peaks = Peaks::default();
        let mut minute = vec![0.0; 60 * 16_000];
        minute[30 * 16_000] = 1.0;
        for _ in 0..61 {
            minute.chunks(16_000).for_each(|block| peaks.push(block));
        }
        let waveform = peaks.waveform();
        let length_ms = waveform.level_ms * waveform.levels.len() as i64;
        assert!((MOST / 2..=MOST).contains(&waveform.levels.len()), "{}", waveform.levels.len());
        assert!((0..waveform.level_ms).contains(&(length_ms - 61 * 60_000)), "{length_ms}");
        for at in 0..61 {
            let level = (at * 60_000 + 30_000) / waveform.level_ms;
            assert_eq!(waveform.levels[level as usize], LOUDEST, "minute {at}");
        }
        assert_eq!(waveform.levels.iter().filter(|level| **level > 0).count(), 61);
    }
}
