//! Long audio for whole-utterance checkpoints: cuts windows at silence.

use super::shared::SharedVad;
use super::window::{BufferedAudio, Window};
use crate::audio::SAMPLE_RATE;
use crate::error::Result;
use crate::models::silero::CHUNK;

/// Samples in a millisecond.
const MS: usize = SAMPLE_RATE as usize / 1000;
/// Length of an energy frame.
const FRAME: usize = 10 * MS;
/// A chunk whose speech probability is below this is quiet.
const QUIET_PROBABILITY: f32 = 0.35;
/// A frame is quiet when its energy is below the window's noise floor times this (8 dB).
const ABOVE_FLOOR: f32 = 6.3;
/// A quiet frame is also below the energy of the window's loud frames times this (-17 dB).
const BELOW_LOUD: f32 = 0.02;
/// Overlap of two windows that are cut without a pause.
pub const OVERLAP_MS: u64 = 3_000;
const OVERLAP: usize = OVERLAP_MS as usize * MS;

/// Lengths of windows and pauses, in samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLengths {
    longest: usize,
    /// The shortest window and its shortest pause, the most wanted first.
    cuts: &'static [(usize, usize)],
    /// Cut at the first pause, not at the longest one.
    first_pause: bool,
    /// Samples that two windows share where there is no pause between them.
    overlap: usize,
}

impl WindowLengths {
    /// For FastConformer checkpoints.
    pub const UTTERANCES: Self =
        Self { longest: 24_000 * MS, cuts: &[(8_000 * MS, 200 * MS)], first_pause: false, overlap: OVERLAP };
    /// As [`WindowLengths::UTTERANCES`] for texts without times, whose overlap cannot be found.
    pub const APART: Self = Self { overlap: 0, ..Self::UTTERANCES };
    /// Near the 30 s that Whisper checkpoints take, shorter where there is a long pause, or no other.
    pub const THIRTY_SECONDS: Self = Self {
        longest: 30_000 * MS,
        cuts: &[(8_000 * MS, 2_000 * MS), (18_000 * MS, 200 * MS), (8_000 * MS, 200 * MS)],
        first_pause: false,
        overlap: OVERLAP,
    };
    /// A stretch of speech each, up to a pause in which the language may change.
    pub const STRETCHES: Self =
        Self { longest: 30_000 * MS, cuts: &[(1_000 * MS, 300 * MS)], first_pause: true, overlap: OVERLAP };
}

/// Cuts a stream of samples into windows at pauses, which the detector or, without one, the energy shows.
#[derive(Debug)]
pub struct Chunker {
    pub(super) audio: BufferedAudio,
    lengths: WindowLengths,
    pub(super) overlap: usize,
}

/// Windows of a stream of samples, each of which begins where the caller has stopped in the one before.
#[derive(Debug)]
pub struct SequentialWindows {
    audio: BufferedAudio,
    ended: bool,
}

impl SequentialWindows {
    /// Longest window, samples: 30 s.
    const MAX_WINDOW: usize = 30_000 * MS;

    /// A stream without samples.
    pub fn new(detector: Option<SharedVad>) -> Self {
        Self { audio: BufferedAudio::new(detector), ended: false }
    }

    /// True if the next window needs more samples.
    pub fn needs_samples(&self) -> bool {
        !self.ended && self.audio.len() < Self::MAX_WINDOW
    }

    /// Takes samples.
    ///
    /// # Errors
    /// As [`Chunker::push`].
    pub fn push(&mut self, samples: &[f32]) -> Result<()> {
        self.audio.push(samples)
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// As [`Chunker::push`].
    pub fn finish(&mut self) -> Result<()> {
        self.ended = true;
        self.audio.finish()
    }

    /// The next window; none when there are no samples left.
    pub fn window(&self) -> Option<Window> {
        let length = self.audio.len().min(Self::MAX_WINDOW);
        (length > 0).then(|| self.audio.window(length, 0))
    }

    /// Moves on by `samples`, at most the length of the window.
    pub fn advance(&mut self, samples: usize) {
        self.audio.advance(samples.min(self.audio.len()));
    }
}

impl Chunker {
    /// A stream without samples.
    pub fn new(detector: Option<SharedVad>, lengths: WindowLengths) -> Self {
        Self::over(BufferedAudio::new(detector), lengths)
    }

    pub(super) fn over(audio: BufferedAudio, lengths: WindowLengths) -> Self {
        Self { audio, lengths, overlap: 0 }
    }

    /// Takes samples; returns the windows that are now complete.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the detector's device failed.
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<Window>> {
        self.audio.push(samples)?;
        Ok(std::iter::from_fn(|| self.complete()).collect())
    }

    /// The next window, if it is complete.
    pub(super) fn complete(&mut self) -> Option<Window> {
        let longest = self.lengths.longest;
        (self.audio.len() >= longest).then(|| match self.pause(longest) {
            Some(at) => self.cut(at, 0),
            None => self.cut(longest, self.lengths.overlap),
        })
    }

    /// The last windows, if there are any.
    ///
    /// # Errors
    /// As [`Chunker::push`].
    pub fn finish(&mut self) -> Result<Vec<Window>> {
        self.audio.finish()?;
        let mut ready = Vec::new();
        if self.lengths.first_pause {
            while let Some(at) = self.pause(self.audio.len()) {
                ready.push(self.cut(at, 0));
            }
        }
        let left = self.audio.len();
        // The rest may be no more than the overlap with the last window.
        if left > self.overlap {
            ready.push(self.audio.window(left, self.overlap));
        }
        Ok(ready)
    }

    /// The pause in the first `length` samples at which to cut.
    fn pause(&self, length: usize) -> Option<usize> {
        match self.audio.probabilities(length) {
            Some(probabilities) => {
                let quiet: Vec<bool> =
                    probabilities.iter().map(|probability| *probability < QUIET_PROBABILITY).collect();
                find_cut(&quiet, CHUNK, self.audio.start() % CHUNK, self.lengths)
            }
            None => find_cut(&quiet(self.audio.samples(length)), FRAME, 0, self.lengths),
        }
    }

    fn cut(&mut self, at: usize, overlap: usize) -> Window {
        let window = self.audio.window(at, self.overlap);
        self.audio.advance(at - overlap);
        self.overlap = overlap;
        window
    }
}

/// A flag for each frame of 10 ms: true if it is quiet.
fn quiet(samples: &[f32]) -> Vec<bool> {
    let energies: Vec<f32> =
        samples.chunks_exact(FRAME).map(|f| f.iter().map(|s| s * s).sum::<f32>() / FRAME as f32).collect();
    let mut sorted = energies.clone();
    sorted.sort_by(f32::total_cmp);
    if sorted.is_empty() {
        return Vec::new();
    }
    // The quietest 2 % of the frames are the noise floor, and quiet is well below the loudest 2 %: a steady sound has
    // no pauses. Digital silence is always quiet.
    let (floor, loud) = (sorted[sorted.len() / 50], sorted[sorted.len() - 1 - sorted.len() / 50]);
    let limit = (floor * ABOVE_FLOOR).min(loud * BELOW_LOUD).max(1e-8);
    energies.iter().map(|energy| *energy <= limit).collect()
}

/// The middle of the most wanted pause, in samples. `quiet` has a flag for each frame of `frame` samples; the first frame
/// begins `before` samples ahead.
fn find_cut(quiet: &[bool], frame: usize, before: usize, lengths: WindowLengths) -> Option<usize> {
    let pause = |cut: &(usize, usize)| find_pause(quiet, frame, before, *cut, lengths.first_pause);
    lengths.cuts.iter().find_map(pause)
}

/// The middle of the first pause or of the longest; of two of nearly equal length, the later one.
fn find_pause(
    quiet: &[bool],
    frame: usize,
    before: usize,
    (shortest, shortest_pause): (usize, usize),
    first: bool,
) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    let mut run = 0usize;
    // Where the first pause will do, one that goes on beyond the end is cut when its length is known.
    let end = (!first).then_some(&false);
    for (at, quiet) in quiet.iter().chain(end).enumerate() {
        if *quiet {
            run += 1;
            continue;
        }
        let middle = ((at - run.div_ceil(2)) * frame).saturating_sub(before);
        let longest = best.map_or(0, |(length, _)| length);
        if run * frame >= shortest_pause && middle >= shortest && run * 5 >= longest * 4 {
            best = Some((run.max(longest), middle));
            if first {
                break;
            }
        }
        run = 0;
    }
    best.map(|(_, middle)| middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tone where `loud`, faint noise elsewhere.
    fn audio(seconds: f32, loud: impl Fn(f32) -> bool) -> Vec<f32> {
        (0..(seconds * SAMPLE_RATE as f32) as usize)
            .map(|n| {
                let t = n as f32 / SAMPLE_RATE as f32;
                let noise = ((n * 7919) % 101) as f32 / 101.0 * 1e-3;
                if loud(t) { (t * 2000.0).sin() * 0.3 } else { noise }
            })
            .collect()
    }

    fn windows(samples: &[f32], push: usize, lengths: WindowLengths) -> Vec<Window> {
        let mut chunker = Chunker::new(None, lengths);
        let mut windows: Vec<Window> = samples.chunks(push).flat_map(|chunk| chunker.push(chunk).unwrap()).collect();
        windows.extend(chunker.finish().unwrap());
        windows
    }

    const ALL: [WindowLengths; 4] =
        [WindowLengths::UTTERANCES, WindowLengths::APART, WindowLengths::THIRTY_SECONDS, WindowLengths::STRETCHES];

    #[test]
    fn every_sample_is_in_a_window_once_except_in_overlaps() {
        let recordings = [audio(70.0, |t| t % 5.0 < 4.4), audio(70.0, |_| true), audio(3.0, |_| true), Vec::new()];
        for (samples, lengths) in recordings.iter().flat_map(|samples| ALL.map(|lengths| (samples, lengths))) {
            let cut = windows(samples, 8000, lengths);
            let mut joined: Vec<f32> = Vec::new();
            for window in &cut {
                assert!(window.samples.len() <= lengths.longest);
                let at = window.start_ms as usize * MS;
                assert_eq!(at + window.overlap_ms as usize * MS, joined.len());
                joined.truncate(at);
                joined.extend(&window.samples);
            }
            assert_eq!(&joined, samples);
            assert_eq!(cut, windows(samples, 333, lengths), "the size of pushes changes nothing");
        }
    }

    #[test]
    fn cuts_lie_in_pauses_where_there_are_any() {
        let spoken = |t: f32| t % 5.0 < 4.4;
        for lengths in ALL {
            for window in windows(&audio(70.0, spoken), 8000, lengths).iter().skip(1) {
                assert_eq!(window.overlap_ms, 0);
                assert!(!spoken(window.start_ms as f32 / 1000.0), "cut at {} ms", window.start_ms);
            }
        }
    }

    #[test]
    fn stretches_of_speech_have_windows_of_their_own() {
        let cut = windows(&audio(68.0, |t| t % 5.0 < 4.4), 8000, WindowLengths::STRETCHES);
        assert_eq!(cut.len(), 14);
        assert!(cut[..13].iter().all(|window| window.samples.len() <= 5_300 * MS));
        let cut = windows(&audio(70.0, |t| t % 5.0 < 4.4), 8000, WindowLengths::THIRTY_SECONDS);
        assert_eq!(cut.len(), 3, "their lengths are near 30 s");
        let cut = windows(&audio(40.0, |t| !(10.0..13.0).contains(&t)), 8000, WindowLengths::THIRTY_SECONDS);
        assert_eq!(cut[0].samples.len() / MS / 100, 115, "a long pause is no part of a window");
    }
}
