//! Long audio for checkpoints that hear whole utterances: windows cut at silence, and their words joined again.

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
const LONGEST: usize = 24_000 * MS;
/// A window is not cut before this.
const SHORTEST: usize = 8_000 * MS;
/// Quiet that makes a pause.
const PAUSE: usize = 200 * MS;
/// Chunks whose chance of speech is below this are quiet.
const UNSPOKEN: f32 = 0.35;
/// A frame is quiet when its energy is below the window's noise floor times this (8 dB).
const ABOVE_FLOOR: f32 = 6.3;
/// And below the window's loud frames times this (-17 dB).
const BELOW_LOUD: f32 = 0.02;
/// What two windows share where there is no pause to cut at.
const SHARED: usize = 3_000 * MS;

/// A stretch of audio that is recognised by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Time of the first sample, ms from the start of the audio.
    pub start_ms: u64,
    /// `[samples]` at 16 kHz.
    pub samples: Vec<f32>,
    /// How much of its beginning the window before has as well, ms; 0 after a pause.
    pub shared_ms: u64,
    /// With a detector: how far ahead of the window its first chunk begins, samples, and the chances of speech.
    chances: Option<(usize, Vec<f32>)>,
}

impl Window {
    /// Leaves the first samples, if there are more.
    pub fn truncate(&mut self, samples: usize) {
        if samples < self.samples.len() {
            self.samples.truncate(samples);
            if let Some((before, chances)) = &mut self.chances {
                chances.truncate((*before + samples) / CHUNK);
            }
        }
    }

    /// Where it holds something to write down.
    ///
    /// # Errors
    /// As [`SpeechFilter::new`].
    pub fn heard(&self) -> Result<SpeechSpans> {
        match &self.chances {
            Some((before, chances)) => SpeechSpans::in_chunks(chances, *before, self.samples.len()),
            None => {
                let mut gate = SpeechFilter::new(None)?;
                gate.push(&self.samples)?;
                gate.finish()
            }
        }
    }
}

/// What is at hand of a stream of samples, and where the detector heard speech in it.
#[derive(Debug)]
struct AtHand<'a> {
    buffer: Vec<f32>,
    /// The buffer's first sample.
    start: usize,
    listener: Option<VadStream<'a>>,
    /// Chances of speech from the chunk on in which the buffer begins; none without a detector.
    chances: Option<Vec<f32>>,
}

impl<'a> AtHand<'a> {
    fn new(detector: Option<&'a Silero>) -> Self {
        let chances = detector.map(|_| Vec::new());
        Self { buffer: Vec::new(), start: 0, listener: detector.map(VadStream::new), chances }
    }

    fn push(&mut self, samples: &[f32]) -> Result<()> {
        if let (Some(listener), Some(chances)) = (&mut self.listener, &mut self.chances) {
            chances.extend(listener.push(samples)?);
        }
        self.buffer.extend_from_slice(samples);
        Ok(())
    }

    /// The stream's end.
    fn finish(&mut self) -> Result<()> {
        if let (Some(listener), Some(chances)) = (self.listener.take(), &mut self.chances) {
            chances.extend(listener.finish()?);
        }
        Ok(())
    }

    /// The chances of the chunks that end within the buffer's first `samples`, however many more are known: windows are not
    /// to depend on how samples arrive. At the stream's end the last chunk counts as well.
    fn chances(&self, samples: usize) -> Option<&[f32]> {
        let chances = self.chances.as_ref()?;
        let to_the_end = self.listener.is_none() && samples == self.buffer.len();
        let whole = (self.start % CHUNK + samples) / CHUNK;
        Some(if to_the_end { chances } else { &chances[..whole.min(chances.len())] })
    }

    /// The buffer's first samples, the first `shared` of which the window before has as well.
    fn window(&self, length: usize, shared: usize) -> Window {
        Window {
            start_ms: (self.start / MS) as u64,
            samples: self.buffer[..length].to_vec(),
            shared_ms: (shared / MS) as u64,
            chances: self.chances(length).map(|chances| (self.start % CHUNK, chances.to_vec())),
        }
    }

    /// Leaves samples behind.
    fn pass(&mut self, samples: usize) {
        if let Some(chances) = &mut self.chances {
            let passed = (self.start + samples) / CHUNK - self.start / CHUNK;
            chances.drain(..passed.min(chances.len()));
        }
        self.buffer.drain(..samples);
        self.start += samples;
    }
}

/// Cuts a stream of samples into windows: where nobody speaks, by the detector, or where it is quiet, without one.
#[derive(Debug)]
pub struct Chunker<'a> {
    audio: AtHand<'a>,
    shared: usize,
    ready: VecDeque<Window>,
}

/// Gives windows of a stream of samples that each begin where the one before was done with.
#[derive(Debug)]
pub struct WindowFollower<'a> {
    audio: AtHand<'a>,
    ended: bool,
}

impl<'a> WindowFollower<'a> {
    /// Longest window, samples: 30 s.
    const LONGEST: usize = 30_000 * MS;

    /// Before the first sample.
    pub fn new(detector: Option<&'a Silero>) -> Self {
        Self { audio: AtHand::new(detector), ended: false }
    }

    /// Whether more samples are needed for the next window.
    pub fn is_hungry(&self) -> bool {
        !self.ended && self.audio.buffer.len() < Self::LONGEST
    }

    /// Takes samples.
    ///
    /// # Errors
    /// As [`Chunker::push`].
    pub fn push(&mut self, samples: &[f32]) -> Result<()> {
        self.audio.push(samples)
    }

    /// The stream's end.
    ///
    /// # Errors
    /// As [`Chunker::push`].
    pub fn finish(&mut self) -> Result<()> {
        self.ended = true;
        self.audio.finish()
    }

    /// The next window; none when there are no samples left.
    pub fn window(&self) -> Option<Window> {
        let length = self.audio.buffer.len().min(Self::LONGEST);
        (length > 0).then(|| self.audio.window(length, 0))
    }

    /// Samples are done with, at most those of the window.
    pub fn pass(&mut self, samples: usize) {
        self.audio.pass(samples.min(self.audio.buffer.len()));
    }
}

impl<'a> Chunker<'a> {
    /// Before the first sample.
    pub fn new(detector: Option<&'a Silero>) -> Self {
        Self { audio: AtHand::new(detector), shared: 0, ready: VecDeque::new() }
    }

    /// Takes samples, gives the windows that are now complete.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the detector's device failed.
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<Window>> {
        self.audio.push(samples)?;
        while self.audio.buffer.len() >= LONGEST {
            let pause = match self.audio.chances(LONGEST) {
                Some(chances) => {
                    let unspoken: Vec<bool> = chances.iter().map(|chance| *chance < UNSPOKEN).collect();
                    longest_pause(&unspoken, CHUNK, self.audio.start % CHUNK)
                }
                None => longest_pause(&quiet(&self.audio.buffer[..LONGEST]), FRAME, 0),
            };
            match pause {
                Some(at) => self.cut(at, 0),
                None => self.cut(LONGEST, SHARED),
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
        // What is left may be no more than what the last window already had.
        Ok((left > self.shared).then(|| self.audio.window(left, self.shared)))
    }

    fn cut(&mut self, at: usize, shared: usize) {
        self.ready.push_back(self.audio.window(at, self.shared));
        self.audio.pass(at - shared);
        self.shared = shared;
    }
}

/// Whether each frame of 10 ms is quiet.
fn quiet(samples: &[f32]) -> Vec<bool> {
    let energies: Vec<f32> =
        samples.chunks_exact(FRAME).map(|f| f.iter().map(|s| s * s).sum::<f32>() / FRAME as f32).collect();
    let mut sorted = energies.clone();
    sorted.sort_by(f32::total_cmp);
    // The quietest fiftieth of the frames is taken for the noise floor, and quiet is well below what is loudest: a steady
    // sound has no pauses. Digital silence is quiet anyway.
    let (floor, loud) = (sorted[sorted.len() / 50], sorted[sorted.len() - 1 - sorted.len() / 50]);
    let limit = (floor * ABOVE_FLOOR).min(loud * BELOW_LOUD).max(1e-8);
    energies.iter().map(|energy| *energy <= limit).collect()
}

/// The middle of the best pause to cut at, in samples: the longest, a later one over an earlier one of nearly its length.
/// `quiet` has a flag a frame of this many samples; the first frame begins `before` samples ahead.
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
        if run * frame >= PAUSE && middle >= SHORTEST && run * 5 >= longest * 4 {
            best = Some((run.max(longest), middle));
        }
        run = 0;
    }
    best.map(|(_, middle)| middle)
}

/// Adds the words of a window to those before it.
///
/// After a pause they simply follow. Where two windows share audio, both may have heard its words: the word that both
/// heard nearest to the middle of what they share becomes the seam, the first window's words before it are kept and
/// the second's after it. A word cut at one window's edge is thus taken from the window that heard it whole.
pub fn join(spoken: &mut Spoken, mut part: Spoken, window: &Window) {
    for word in &mut part.words {
        word.start += window.start_ms;
        word.end += window.start_ms;
    }
    spoken.language = spoken.language.take().or(part.language);
    if window.shared_ms > 0 {
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

/// How far apart two windows may place the same word, ms.
const SAME_WORD_MS: u64 = 400;

/// Cuts `before` and `after` to one side each of the seam.
fn seam(before: &mut Vec<Word>, after: &mut Vec<Word>, window: &Window) {
    let middle = window.start_ms + window.shared_ms / 2;
    let end = window.start_ms + window.shared_ms;
    let centre = |word: &Word| word.start.midpoint(word.end);
    let first_shared = before.partition_point(|word| word.end <= window.start_ms);
    let last_shared = after.partition_point(|word| word.start < end);
    let mut best: Option<(u64, usize, usize)> = None;
    for (i, left) in before.iter().enumerate().skip(first_shared) {
        for (j, right) in after.iter().enumerate().take(last_shared) {
            let apart = left.start.abs_diff(right.start);
            if apart > SAME_WORD_MS || !same(&left.text, &right.text) {
                continue;
            }
            // Where a word is said twice in a row, agreeing in time counts for more than lying near the middle.
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
            // Nothing in common: each side of the middle from the window that has more around it.
            before.retain(|word| centre(word) < middle);
            after.retain(|word| centre(word) >= middle);
        }
    }
}

/// Equal but for case and punctuation.
fn same(a: &str, b: &str) -> bool {
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
        let mut cutter = Chunker::new(None);
        let mut windows: Vec<Window> = samples.chunks(push).flat_map(|chunk| cutter.push(chunk).unwrap()).collect();
        windows.extend(cutter.finish().unwrap());
        windows
    }

    #[test]
    fn every_sample_is_in_a_window_once_but_for_what_is_shared() {
        for samples in [audio(70.0, |t| t % 5.0 < 4.4), audio(70.0, |_| true), audio(3.0, |_| true), Vec::new()] {
            let cut = windows(&samples, 8000);
            let mut joined: Vec<f32> = Vec::new();
            for window in &cut {
                assert!(window.samples.len() <= LONGEST);
                let at = window.start_ms as usize * MS;
                assert_eq!(at + window.shared_ms as usize * MS, joined.len());
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
            assert_eq!(window.shared_ms, 0);
            assert!(!spoken(window.start_ms as f32 / 1000.0), "cut at {} ms", window.start_ms);
        }
    }

    fn word(text: &str, start: u64, end: u64) -> Word {
        Word { text: text.into(), start, end, confidence: 0.9 }
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
            let shared = 3000;
            // Each window hears whole words right, gives them its own slightly different times, and mangles what its
            // edge cuts through.
            let heard = |from: u64, to: u64, shift: u64| -> Vec<Word> {
                said.iter()
                    .filter(|w| w.end > from && w.start < to)
                    .map(|w| {
                        let whole = w.start >= from && w.end <= to;
                        let text = if whole { w.text.clone() } else { format!("{}x", &w.text[..1]) };
                        word(&text, w.start.max(from) + shift, w.end.min(to) + shift)
                    })
                    .collect()
            };
            let mut spoken = Spoken { words: heard(0, cut, 0), ..Spoken::default() };
            let mut part = heard(cut - shared, t, 40);
            part.iter_mut().for_each(|w| {
                w.start -= cut - shared;
                w.end -= cut - shared;
            });
            let window = Window { start_ms: cut - shared, samples: Vec::new(), shared_ms: shared, chances: None };
            join(&mut spoken, Spoken { words: part, ..Spoken::default() }, &window);
            let texts = |words: &[Word]| words.iter().map(|w| w.text.clone()).collect::<Vec<_>>();
            assert_eq!(texts(&spoken.words), texts(&said), "cut at {cut} ms");
        }
    }
}
