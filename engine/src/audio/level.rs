//! Raises quiet speech to the level of the recordings that models are trained on.
//!
//! Models and detectors lose words of speech that is far below it. The gain follows the loudest sounds of the last seconds, and only where
//! they stand out from the background: noise alone is not raised. Sound of a usual level is passed on as it is.

use std::collections::VecDeque;

use super::SAMPLE_RATE;

/// Samples of a frame: 20 ms.
const FRAME: usize = SAMPLE_RATE as usize / 50;
/// Frames whose levels are known: 10 s.
const WINDOW: usize = 500;
/// Frames of a recording that are heard ahead: 3 s.
const LOOKAHEAD: usize = 150;
/// Frames of a window before it says anything: 0.3 s.
const FEWEST: usize = 15;
/// Part of the frames that are louder than the level of speech.
const LOUDEST: f32 = 0.02;
/// Part of the frames that are quieter than the background.
const QUIETEST: f32 = 0.2;
/// Level that quiet speech is raised to, dB of full scale.
const TARGET_DB: f32 = -30.0;
/// Speech stands out from the background by so much, dB.
const CONTRAST_DB: f32 = 12.0;
/// Levels below this are noise of the recorder, dB of full scale.
const LOWEST_DB: f32 = -80.0;
/// The most gain, dB.
const MOST_DB: f32 = 40.0;
/// The most that a gain rises from one frame to the next, dB. It falls at once.
const RISE_DB: f32 = 1.0;
/// Levels are counted in steps of 1 dB from this one up to full scale.
const BOTTOM_DB: f32 = -100.0;
const BINS: usize = 101;

/// Levels a stream of 16 kHz samples.
pub(crate) struct Leveler {
    /// Frames that are heard before one is passed on; none for live sound.
    lookahead: usize,
    /// Samples that wait for frames ahead.
    held: VecDeque<f32>,
    levels: Levels,
    /// Frames that are passed on, with the one that is under way.
    passed: usize,
    /// Samples of the frame under way.
    at: usize,
    /// Gain at its beginning and its end, dB.
    gain_db: [f32; 2],
    raised: u64,
}

impl Leveler {
    /// For sound whose next seconds are there.
    pub fn recorded() -> Self {
        Self::new(LOOKAHEAD)
    }

    /// For sound that is passed on at once.
    pub fn live() -> Self {
        Self::new(0)
    }

    fn new(lookahead: usize) -> Self {
        Self {
            lookahead,
            held: VecDeque::new(),
            levels: Levels::default(),
            passed: 0,
            at: 0,
            gain_db: [0.0; 2],
            raised: 0,
        }
    }

    /// Takes samples and appends those that are ready.
    pub fn push(&mut self, mut samples: &[f32], out: &mut Vec<f32>) {
        while !samples.is_empty() {
            // No further than the end of a frame: its level counts at once.
            let (piece, rest) = samples.split_at(samples.len().min(FRAME - self.levels.samples));
            samples = rest;
            if self.lookahead == 0 {
                self.raise(piece, out);
                self.levels.push(piece);
                continue;
            }
            self.held.extend(piece);
            self.levels.push(piece);
            while self.levels.frames >= self.passed.max(1) + self.lookahead {
                self.pass(FRAME, out);
            }
        }
    }

    /// Appends the samples that were held back.
    pub fn finish(&mut self, out: &mut Vec<f32>) {
        self.pass(usize::MAX, out);
    }

    /// Seconds of sound that were raised.
    pub fn raised_s(&self) -> f64 {
        self.raised as f64 / f64::from(SAMPLE_RATE)
    }

    fn pass(&mut self, most: usize, out: &mut Vec<f32>) {
        let mut held = std::mem::take(&mut self.held);
        let ready = most.min(held.len());
        let (front, back) = held.as_slices();
        let (first, second) = (&front[..ready.min(front.len())], &back[..ready.saturating_sub(front.len())]);
        self.raise(first, out);
        self.raise(second, out);
        held.drain(..ready);
        self.held = held;
    }

    /// Appends samples with their gain.
    fn raise(&mut self, mut samples: &[f32], out: &mut Vec<f32>) {
        while !samples.is_empty() {
            if self.at == 0 {
                self.begin_frame();
            }
            let (piece, rest) = samples.split_at(samples.len().min(FRAME - self.at));
            samples = rest;
            let [from, to] = self.gain_db;
            if from == 0.0 && to == 0.0 {
                out.extend_from_slice(piece);
            } else {
                self.raised += piece.len() as u64;
                out.extend(piece.iter().zip(self.at..).map(|(sample, at)| {
                    let part = at as f32 / FRAME as f32;
                    sample * 10f32.powf((from + (to - from) * part) / 20.0)
                }));
            }
            self.at = (self.at + piece.len()) % FRAME;
        }
    }

    /// Finds the gain of the next frame.
    fn begin_frame(&mut self) {
        self.passed += 1;
        let wanted = self.levels.gain_db();
        self.gain_db = [self.gain_db[1], wanted.min(self.gain_db[1] + RISE_DB)];
        // The gain of a recording's first frame is known at once.
        if self.passed == 1 && self.lookahead > 0 {
            self.gain_db = [wanted; 2];
        }
    }
}

/// Levels of the last frames.
struct Levels {
    /// Sum of squares and samples of the frame under way.
    energy: f32,
    samples: usize,
    window: VecDeque<u8>,
    counts: [u32; BINS],
    /// Frames that were heard in all.
    frames: usize,
}

impl Default for Levels {
    fn default() -> Self {
        Self { energy: 0.0, samples: 0, window: VecDeque::with_capacity(WINDOW), counts: [0; BINS], frames: 0 }
    }
}

impl Levels {
    /// Takes samples, none beyond the end of the frame under way.
    fn push(&mut self, samples: &[f32]) {
        self.energy = samples.iter().fold(self.energy, |energy, sample| energy + sample * sample);
        self.samples += samples.len();
        if self.samples < FRAME {
            return;
        }
        let level_db = 10.0 * (self.energy / FRAME as f32).max(1e-12).log10();
        let bin = (level_db - BOTTOM_DB).round().clamp(0.0, (BINS - 1) as f32) as u8;
        if self.window.len() == WINDOW
            && let Some(oldest) = self.window.pop_front()
        {
            self.counts[usize::from(oldest)] -= 1;
        }
        self.window.push_back(bin);
        self.counts[usize::from(bin)] += 1;
        (self.energy, self.samples) = (0.0, 0);
        self.frames += 1;
    }

    /// The level that this part of the frames does not exceed, dB.
    fn percentile(&self, part: f32) -> f32 {
        let wanted = (part * self.window.len() as f32) as u32;
        let mut sum = 0;
        let reached = self.counts.iter().position(|count| {
            sum += count;
            sum > wanted
        });
        BOTTOM_DB + reached.unwrap_or(BINS - 1) as f32
    }

    /// The gain that the sound needs, dB.
    fn gain_db(&self) -> f32 {
        if self.window.len() < FEWEST {
            return 0.0;
        }
        let (speech, background) = (self.percentile(1.0 - LOUDEST), self.percentile(QUIETEST));
        if speech < LOWEST_DB || speech - background < CONTRAST_DB {
            return 0.0;
        }
        (TARGET_DB - speech).clamp(0.0, MOST_DB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise that is loud for 0.3 s of every second.
    fn talk(seconds: usize, loud_db: f32, quiet_db: f32) -> Vec<f32> {
        let mut random = 1u32;
        let noise = move |at: usize| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let db = if at % 16_000 < 4_800 { loud_db } else { quiet_db };
            (random as i32 as f32 / i32::MAX as f32) * 3f32.sqrt() * 10f32.powf(db / 20.0)
        };
        (0..seconds * 16_000).map(noise).collect()
    }

    fn level(mut leveler: Leveler, samples: &[f32], block: usize) -> Vec<f32> {
        let mut out = Vec::new();
        samples.chunks(block).for_each(|block| leveler.push(block, &mut out));
        leveler.finish(&mut out);
        out
    }

    fn rms_db(samples: &[f32]) -> f32 {
        10.0 * (samples.iter().map(|sample| sample * sample).sum::<f32>() / samples.len() as f32).log10()
    }

    #[test]
    fn usual_levels_noise_and_silence_are_passed_on_as_they_are() {
        for samples in
            [talk(20, -25.0, -60.0), talk(20, -50.0, -55.0), talk(20, -85.0, -99.0), vec![0.0; 50_000], vec![0.1]]
        {
            for leveler in [Leveler::recorded, Leveler::live] {
                assert_eq!(level(leveler(), &samples, 777), samples);
            }
        }
    }

    #[test]
    fn quiet_speech_is_raised_from_its_first_sample_in_recordings() {
        for loud_db in [-45.0, -55.0, -65.0] {
            let samples = talk(20, loud_db, loud_db - 30.0);
            let out = level(Leveler::recorded(), &samples, 1000);
            assert_eq!(out.len(), samples.len());
            for second in [0, 5, 19] {
                let heard = rms_db(&out[second * 16_000..][..4_000]);
                assert!(
                    (heard - TARGET_DB.min(loud_db + MOST_DB)).abs() < 2.0,
                    "{loud_db} dB in second {second}: {heard}"
                );
            }
            let live = level(Leveler::live(), &samples, 320);
            assert!((rms_db(&live[5 * 16_000..][..4_000]) - TARGET_DB).abs() < 2.0);
        }
    }

    #[test]
    fn live_sound_is_passed_on_at_once() {
        for samples in [talk(2, -25.0, -60.0), talk(2, -55.0, -85.0)] {
            let (mut leveler, mut out) = (Leveler::live(), Vec::new());
            for (number, block) in samples.chunks(160).enumerate() {
                leveler.push(block, &mut out);
                assert_eq!(out.len(), number * 160 + block.len());
            }
        }
    }

    #[test]
    fn the_blocks_do_not_matter_and_loud_sound_is_never_raised() {
        let mut samples = talk(8, -55.0, -85.0);
        let loud = talk(8, -20.0, -85.0);
        samples.extend(&loud);
        for leveler in [Leveler::recorded, Leveler::live] {
            let whole = level(leveler(), &samples, usize::MAX);
            assert_eq!(level(leveler(), &samples, 1), whole);
            assert_eq!(level(leveler(), &samples, 12_345), whole);
            let late = &whole[10 * 16_000..];
            assert_eq!(late, &samples[10 * 16_000..]);
        }
        // A recording is heard ahead: no sample of the loud part is raised.
        let out = level(Leveler::recorded(), &samples, 1000);
        assert_eq!(out[8 * 16_000..], samples[8 * 16_000..]);
    }
}
