//! Long audio for whole-utterance checkpoints: cuts windows at silence, and joins their words again.

use std::collections::VecDeque;

use super::speech_filter::{SpeechFilter, SpeechSpans};
use super::stream::VadStream;
use crate::audio::SAMPLE_RATE;
use crate::error::Result;
use crate::models::silero::{CHUNK, Silero};
use crate::text::Word;
use crate::text::tokens::{Spoken, joined};

/// Samples in a millisecond.
const MS: usize = SAMPLE_RATE as usize / 1000;
/// Length of an energy frame.
const FRAME: usize = 10 * MS;
/// Longest window.
const MAX_WINDOW: usize = 24_000 * MS;
/// Shortest window.
const MIN_WINDOW: usize = 8_000 * MS;
/// Shortest pause.
const MIN_PAUSE: usize = 200 * MS;
/// A chunk whose speech probability is below this is quiet.
const QUIET_PROBABILITY: f32 = 0.35;
/// A frame is quiet when its energy is below the window's noise floor times this (8 dB).
const ABOVE_FLOOR: f32 = 6.3;
/// A quiet frame is also below the energy of the window's loud frames times this (-17 dB).
const BELOW_LOUD: f32 = 0.02;
/// Overlap of two windows that are cut without a pause.
const OVERLAP: usize = 3_000 * MS;

/// A piece of audio that is recognised by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Time of the first sample, ms from the start of the audio.
    pub start_ms: u64,
    /// `[samples]` at 16 kHz.
    pub samples: Vec<f32>,
    /// Overlap with the window before, ms; 0 after a pause.
    pub overlap_ms: u64,
    /// With a detector: distance of its first chunk ahead of the window, samples, and the speech probabilities.
    probabilities: Option<(usize, Vec<f32>)>,
}

impl Window {
    /// Keeps at most the first `samples` samples.
    pub fn truncate(&mut self, samples: usize) {
        if samples < self.samples.len() {
            self.samples.truncate(samples);
            if let Some((before, probabilities)) = &mut self.probabilities {
                probabilities.truncate((*before + samples) / CHUNK);
            }
        }
    }

    /// The window's spans of speech.
    ///
    /// # Errors
    /// As [`SpeechFilter::new`].
    pub fn speech(&self) -> Result<SpeechSpans> {
        match &self.probabilities {
            Some((before, probabilities)) => {
                SpeechSpans::from_probabilities(probabilities, *before, self.samples.len())
            }
            None => {
                let mut filter = SpeechFilter::new(None)?;
                filter.push(&self.samples)?;
                filter.finish()
            }
        }
    }
}

/// Buffered samples of a stream, and their speech probabilities.
#[derive(Debug)]
struct BufferedAudio<'a> {
    buffer: Vec<f32>,
    /// Position of the buffer's first sample in the stream.
    start: usize,
    vad: Option<VadStream<&'a Silero>>,
    /// Speech probabilities from the chunk in which the buffer begins; none without a detector.
    probabilities: Option<Vec<f32>>,
}

impl<'a> BufferedAudio<'a> {
    fn new(detector: Option<&'a Silero>) -> Self {
        let probabilities = detector.map(|_| Vec::new());
        Self { buffer: Vec::new(), start: 0, vad: detector.map(VadStream::new), probabilities }
    }

    fn push(&mut self, samples: &[f32]) -> Result<()> {
        if let (Some(vad), Some(probabilities)) = (&mut self.vad, &mut self.probabilities) {
            probabilities.extend(vad.push(samples)?);
        }
        self.buffer.extend_from_slice(samples);
        Ok(())
    }

    /// Ends the stream.
    fn finish(&mut self) -> Result<()> {
        if let (Some(vad), Some(probabilities)) = (self.vad.take(), &mut self.probabilities) {
            probabilities.extend(vad.finish()?);
        }
        Ok(())
    }

    /// The probabilities of the chunks that end within the buffer's first `samples`, even if more are known: windows
    /// must not depend on the size of pushes. At the end of the stream an incomplete last chunk counts too.
    fn probabilities(&self, samples: usize) -> Option<&[f32]> {
        let probabilities = self.probabilities.as_ref()?;
        let at_end = self.vad.is_none() && samples == self.buffer.len();
        let whole = (self.start % CHUNK + samples) / CHUNK;
        Some(if at_end { probabilities } else { &probabilities[..whole.min(probabilities.len())] })
    }

    /// A window of the buffer's first samples, of which `overlap` overlap with the window before.
    fn window(&self, length: usize, overlap: usize) -> Window {
        Window {
            start_ms: (self.start / MS) as u64,
            samples: self.buffer[..length].to_vec(),
            overlap_ms: (overlap / MS) as u64,
            probabilities: self.probabilities(length).map(|probabilities| (self.start % CHUNK, probabilities.to_vec())),
        }
    }

    /// Drops the first samples of the buffer.
    fn advance(&mut self, samples: usize) {
        if let Some(probabilities) = &mut self.probabilities {
            let whole = (self.start + samples) / CHUNK - self.start / CHUNK;
            probabilities.drain(..whole.min(probabilities.len()));
        }
        self.buffer.drain(..samples);
        self.start += samples;
    }
}

/// Cuts a stream of samples into windows at pauses, which the detector or, without one, the energy shows.
#[derive(Debug)]
pub struct Chunker<'a> {
    audio: BufferedAudio<'a>,
    overlap: usize,
    ready: VecDeque<Window>,
}

/// Windows of a stream of samples, each of which begins where the caller has stopped in the one before.
#[derive(Debug)]
pub struct SequentialWindows<'a> {
    audio: BufferedAudio<'a>,
    ended: bool,
}

impl<'a> SequentialWindows<'a> {
    /// Longest window, samples: 30 s.
    const MAX_WINDOW: usize = 30_000 * MS;

    /// A stream without samples.
    pub fn new(detector: Option<&'a Silero>) -> Self {
        Self { audio: BufferedAudio::new(detector), ended: false }
    }

    /// True if the next window needs more samples.
    pub fn needs_samples(&self) -> bool {
        !self.ended && self.audio.buffer.len() < Self::MAX_WINDOW
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
        let length = self.audio.buffer.len().min(Self::MAX_WINDOW);
        (length > 0).then(|| self.audio.window(length, 0))
    }

    /// Moves on by `samples`, at most the length of the window.
    pub fn advance(&mut self, samples: usize) {
        self.audio.advance(samples.min(self.audio.buffer.len()));
    }
}

impl<'a> Chunker<'a> {
    /// A stream without samples.
    pub fn new(detector: Option<&'a Silero>) -> Self {
        Self { audio: BufferedAudio::new(detector), overlap: 0, ready: VecDeque::new() }
    }

    /// Takes samples; returns the windows that are now complete.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the detector's device failed.
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<Window>> {
        self.audio.push(samples)?;
        while self.audio.buffer.len() >= MAX_WINDOW {
            let pause = match self.audio.probabilities(MAX_WINDOW) {
                Some(probabilities) => {
                    let quiet: Vec<bool> =
                        probabilities.iter().map(|probability| *probability < QUIET_PROBABILITY).collect();
                    longest_pause(&quiet, CHUNK, self.audio.start % CHUNK)
                }
                None => longest_pause(&quiet(&self.audio.buffer[..MAX_WINDOW]), FRAME, 0),
            };
            match pause {
                Some(at) => self.cut(at, 0),
                None => self.cut(MAX_WINDOW, OVERLAP),
            }
        }
        Ok(self.ready.drain(..).collect())
    }

    /// The last window, if there is one.
    ///
    /// # Errors
    /// As [`Chunker::push`].
    pub fn finish(&mut self) -> Result<Option<Window>> {
        self.audio.finish()?;
        let left = self.audio.buffer.len();
        // The rest may be no more than the overlap with the last window.
        Ok((left > self.overlap).then(|| self.audio.window(left, self.overlap)))
    }

    fn cut(&mut self, at: usize, overlap: usize) {
        self.ready.push_back(self.audio.window(at, self.overlap));
        self.audio.advance(at - overlap);
        self.overlap = overlap;
    }
}

/// A flag for each frame of 10 ms: true if it is quiet.
fn quiet(samples: &[f32]) -> Vec<bool> {
    let energies: Vec<f32> =
        samples.chunks_exact(FRAME).map(|f| f.iter().map(|s| s * s).sum::<f32>() / FRAME as f32).collect();
    let mut sorted = energies.clone();
    sorted.sort_by(f32::total_cmp);
    // The quietest 2 % of the frames are the noise floor, and quiet is well below the loudest 2 %: a steady sound has
    // no pauses. Digital silence is always quiet.
    let (floor, loud) = (sorted[sorted.len() / 50], sorted[sorted.len() - 1 - sorted.len() / 50]);
    let limit = (floor * ABOVE_FLOOR).min(loud * BELOW_LOUD).max(1e-8);
    energies.iter().map(|energy| *energy <= limit).collect()
}

/// The middle of the longest pause, in samples; of two pauses of nearly equal length, the later one. `quiet` has a flag
/// for each frame of `frame` samples; the first frame begins `before` samples ahead.
fn longest_pause(quiet: &[bool], frame: usize, before: usize) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    let mut run = 0usize;
    for (at, quiet) in quiet.iter().chain([&false]).enumerate() {
        if *quiet {
            run += 1;
            continue;
        }
        let middle = ((at - run.div_ceil(2)) * frame).saturating_sub(before);
        let longest = best.map_or(0, |(length, _)| length);
        if run * frame >= MIN_PAUSE && middle >= MIN_WINDOW && run * 5 >= longest * 4 {
            best = Some((run.max(longest), middle));
        }
        run = 0;
    }
    best.map(|(_, middle)| middle)
}

/// Adds the words of a window to those before it.
///
/// After a pause they are appended. Windows that overlap may both have the words of the overlap: the common word
/// nearest to the middle of the overlap is the seam, the first window gives the words before it and the second those
/// after it. A word that the edge of one window cuts is thus taken whole from the other.
pub fn join(spoken: &mut Spoken, mut part: Spoken, window: &Window) {
    for word in &mut part.words {
        word.start += window.start_ms;
        word.end += window.start_ms;
    }
    spoken.language = spoken.language.take().or(part.language);
    if window.overlap_ms > 0 {
        seam(&mut spoken.words, &mut part.words, window);
        spoken.words.append(&mut part.words);
        spoken.text = joined(&spoken.words);
    } else {
        spoken.words.append(&mut part.words);
        if !spoken.text.is_empty() && !part.text.is_empty() {
            spoken.text.push(' ');
        }
        spoken.text.push_str(&part.text);
    }
}

/// Largest distance between the times that two windows give the same word, ms.
const SAME_WORD_MS: u64 = 400;

/// Cuts `before` and `after` at the seam.
fn seam(before: &mut Vec<Word>, after: &mut Vec<Word>, window: &Window) {
    let middle = window.start_ms + window.overlap_ms / 2;
    let end = window.start_ms + window.overlap_ms;
    let centre = |word: &Word| word.start.midpoint(word.end);
    let first_overlapping = before.partition_point(|word| word.end <= window.start_ms);
    let last_overlapping = after.partition_point(|word| word.start < end);
    let mut best: Option<(u64, usize, usize)> = None;
    for (i, left) in before.iter().enumerate().skip(first_overlapping) {
        for (j, right) in after.iter().enumerate().take(last_overlapping) {
            let apart = left.start.abs_diff(right.start);
            if apart > SAME_WORD_MS || !same_word(&left.text, &right.text) {
                continue;
            }
            // For a word said twice in a row, equal times count for more than a place near the middle.
            let cost = centre(left).midpoint(centre(right)).abs_diff(middle) + 10 * apart;
            if best.is_none_or(|(least, _, _)| cost < least) {
                best = Some((cost, i, j));
            }
        }
    }
    match best {
        Some((_, i, j)) => {
            before.truncate(i + 1);
            after.drain(..=j);
        }
        None => {
            // Without a common word the middle is the seam: each window has more context on its side.
            before.retain(|word| centre(word) < middle);
            after.retain(|word| centre(word) >= middle);
        }
    }
}

/// True if the words are equal but for case and punctuation.
fn same_word(a: &str, b: &str) -> bool {
    let letters =
        |text: &str| text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>();
    letters(a) == letters(b)
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

    fn windows(samples: &[f32], push: usize) -> Vec<Window> {
        let mut chunker = Chunker::new(None);
        let mut windows: Vec<Window> = samples.chunks(push).flat_map(|chunk| chunker.push(chunk).unwrap()).collect();
        windows.extend(chunker.finish().unwrap());
        windows
    }

    #[test]
    fn every_sample_is_in_a_window_once_except_in_overlaps() {
        for samples in [audio(70.0, |t| t % 5.0 < 4.4), audio(70.0, |_| true), audio(3.0, |_| true), Vec::new()] {
            let cut = windows(&samples, 8000);
            let mut joined: Vec<f32> = Vec::new();
            for window in &cut {
                assert!(window.samples.len() <= MAX_WINDOW);
                let at = window.start_ms as usize * MS;
                assert_eq!(at + window.overlap_ms as usize * MS, joined.len());
                joined.truncate(at);
                joined.extend(&window.samples);
            }
            assert_eq!(joined, samples);
            assert_eq!(cut, windows(&samples, 333), "the size of pushes changes nothing");
        }
    }

    #[test]
    fn cuts_lie_in_pauses_where_there_are_any() {
        let spoken = |t: f32| t % 5.0 < 4.4;
        for window in windows(&audio(70.0, spoken), 8000).iter().skip(1) {
            assert_eq!(window.overlap_ms, 0);
            assert!(!spoken(window.start_ms as f32 / 1000.0), "cut at {} ms", window.start_ms);
        }
    }

    fn word(text: &str, start: u64, end: u64) -> Word {
        Word { text: text.into(), start, end, confidence: 0.9, speaker: None }
    }

    #[test]
    fn no_word_is_lost_or_said_twice_wherever_the_cut_falls() {
        // Words of odd lengths, with repeats side by side.
        let names = ["ask", "not", "what", "your", "country", "can", "do", "for", "you", "you", "ask", "what"];
        let mut said = Vec::new();
        let mut t = 0;
        for n in 0..60 {
            let length = 120 + (n * 97) % 450;
            said.push(word(names[n as usize % names.len()], t, t + length));
            t += length + (n * 53) % 180;
        }
        for cut in (3000..t - 1000).step_by(100) {
            let overlap = 3000;
            // Each window recognises whole words, with slightly different times, and distorts words that its edge cuts.
            let recognised = |from: u64, to: u64, shift: u64| -> Vec<Word> {
                said.iter()
                    .filter(|w| w.end > from && w.start < to)
                    .map(|w| {
                        let whole = w.start >= from && w.end <= to;
                        let text = if whole { w.text.clone() } else { format!("{}x", &w.text[..1]) };
                        word(&text, w.start.max(from) + shift, w.end.min(to) + shift)
                    })
                    .collect()
            };
            let mut spoken = Spoken { words: recognised(0, cut, 0), ..Spoken::default() };
            let mut part = recognised(cut - overlap, t, 40);
            part.iter_mut().for_each(|w| {
                w.start -= cut - overlap;
                w.end -= cut - overlap;
            });
            let window =
                Window { start_ms: cut - overlap, samples: Vec::new(), overlap_ms: overlap, probabilities: None };
            join(&mut spoken, Spoken { words: part, ..Spoken::default() }, &window);
            let texts = |words: &[Word]| words.iter().map(|w| w.text.clone()).collect::<Vec<_>>();
            assert_eq!(texts(&spoken.words), texts(&said), "cut at {cut} ms");
        }
    }
}
