//! The windows of a Whisper checkpoint on their way through the device: their words, and the parts of them whose speech the words leave
//! out, which are written again by themselves.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::unwritten::{Coverage, MIN_ADVANCE_MS, unwritten, wordless};
use super::whisper_words::words;
use crate::audio::SAMPLE_RATE;
use crate::error::{Error, Result};
use crate::models::whisper::{DecodedWindow, Whisper};
use crate::pipeline::executors::device::{DeviceExecutor, StreamInput};
use crate::pipeline::executors::whisper::{TranscribedWindow, WhisperInput};
use crate::scheduler::Stream;
use crate::text::Word;
use crate::text::tokens::Spoken;
use crate::vad::chunker::OVERLAP_MS;
use crate::vad::seam::join;
use crate::vad::window::Window;

/// Times that parts of parts of a window are written again.
const MAX_DEPTH: usize = 8;
/// Samples in a millisecond.
const MS: usize = SAMPLE_RATE as usize / 1000;

/// Text so far.
#[derive(Default)]
pub struct WrittenText {
    pub spoken: Spoken,
    pub coverage: Coverage,
    /// Number of words dropped because they are far from speech.
    pub dropped_words: usize,
    /// Start of the window that was added last, ms.
    start_ms: u64,
    /// End of the audio that is written, ms.
    pub end_ms: u64,
}

impl WrittenText {
    /// Adds the words of a window.
    pub fn add(&mut self, written: Written, window: &Window) -> Result<()> {
        self.dropped_words += written.dropped;
        self.coverage.add(&window.speech()?, window.start_ms);
        join(&mut self.spoken, written.spoken, window);
        self.start_ms = window.start_ms;
        self.end_ms = self.end_ms.max(window.start_ms + window.length_ms());
        Ok(())
    }

    /// Adds the words of a part of the window that was added last.
    fn add_part(&mut self, written: Written, part: &Window) {
        self.dropped_words += written.dropped;
        let mut words = written.spoken.words;
        for word in &mut words {
            word.start += part.start_ms;
            word.end += part.start_ms;
        }
        // A word of no length may end where the part begins.
        let is_before = |word: &Word| word.start < part.start_ms || word.end <= part.start_ms;
        let at = self.spoken.words.partition_point(is_before);
        if is_repetition(&words, &self.spoken.words, at, &self.coverage) {
            return;
        }
        self.spoken.words.splice(at..at, words);
        self.spoken.language = self.spoken.language.take().or(written.spoken.language);
    }
}

/// Least number of words of a part that may count as a repetition of those beside it.
const MIN_REPEATED: usize = 3;

/// True if the words of a part stand beside its place already, on less than half the speech that they have in the part: with
/// wrong timestamps, speech looks unwritten that is written.
fn is_repetition(words: &[Word], all: &[Word], at: usize, coverage: &Coverage) -> bool {
    let bare = |word: &Word| word.text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let spoken_ms = |words: &[Word]| match words {
        [] => 0,
        [first, .., last] => coverage.spoken_ms(first.start, last.end),
        [only] => coverage.spoken_ms(only.start, only.end),
    };
    let count = words.len();
    let near = &all[at.saturating_sub(count)..(at + count).min(all.len())];
    count >= MIN_REPEATED
        && near
            .windows(count)
            .any(|run| run.iter().map(bare).eq(words.iter().map(bare)) && 2 * spoken_ms(run) < spoken_ms(words))
}

/// As [`WhisperInput::language`].
pub type Language = Option<(u32, Option<u32>)>;

/// The input of a window.
///
/// # Errors
/// As [`Window::speech`].
pub fn input(window: &Window, previous: &[u32], language: Language) -> Result<WhisperInput> {
    Ok(WhisperInput {
        samples: window.samples.clone(),
        previous: previous.to_vec(),
        speech_ms: window.speech()?.total_ms(),
        language,
        seed: window.start_ms,
    })
}

/// True if a detector heard no speech in the window.
fn is_silent(window: &Window) -> Result<bool> {
    Ok(window.has_detector() && window.speech()?.is_empty())
}

/// The words of a window, and the parts of it that its text leaves out.
#[derive(Default)]
pub struct Written {
    pub spoken: Spoken,
    /// Number of words dropped because they are far from speech.
    pub dropped: usize,
    /// Parts to be written again, in order, ms from the window's start.
    pub parts: Vec<Range<u64>>,
}

/// Turns tokens to words; drops the tokens that belong to a part that is to be written again.
fn write(model: &Whisper, decoded: &mut DecodedWindow, language: Option<u32>, window: &Window) -> Result<Written> {
    let speech = window.speech()?;
    let end_ms = window.length_ms();
    let found = unwritten(&model.config().special, decoded, &speech, end_ms, window.has_detector());
    let complete = found.kept == decoded.tokens.len();
    decoded.truncate(found.kept);
    let (mut spoken, dropped) = words(model, decoded, language, window, &speech, &found.parts)?;
    let mut parts = found.parts;
    // Cut off within a segment that began with the window: the last word tells how far the text goes.
    if decoded.cut_off
        && complete
        && !found.at_end
        && spoken.words.last().is_some_and(|last| last.start >= MIN_ADVANCE_MS)
    {
        parts.extend(spoken.words.pop().map(|last| last.start..end_ms));
    }
    if window.has_detector() {
        parts.extend(wordless(&mut spoken.words, &speech, end_ms, &parts));
        parts.sort_unstable_by_key(|part| part.start);
    }
    Ok(Written { spoken, dropped, parts })
}

/// The part of a window in a range, ms.
fn part(window: &Window, range: &Range<u64>) -> Window {
    window.part(range.start as usize * MS..range.end as usize * MS)
}

/// A window on its way through the device.
struct Pending {
    /// Its number among the windows of the stream; none for a window without speech.
    number: Option<usize>,
    window: Window,
    /// How often parts were taken: 0 for a window, 1 for a part of it.
    depth: usize,
    written: Option<Written>,
}

/// The windows of a recording, or of a live turn, on their way, in the order of the recording.
pub struct WindowQueue {
    pub stream: Stream<DeviceExecutor>,
    pub model: Arc<Whisper>,
    keyterms: Vec<u32>,
    to_stream: fn(WhisperInput) -> StreamInput,
    /// Number of windows pushed to the stream.
    pushed: usize,
    pending: VecDeque<Pending>,
}

impl WindowQueue {
    /// No windows on the way to this stream, whose inputs are made by `to_stream`.
    pub fn new(
        stream: Stream<DeviceExecutor>,
        model: Arc<Whisper>,
        keyterms: Vec<u32>,
        to_stream: fn(WhisperInput) -> StreamInput,
    ) -> Self {
        Self { stream, model, keyterms, to_stream, pushed: 0, pending: VecDeque::new() }
    }

    /// Windows on the way.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// True if no window is on the way.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Sends a window after those on the way.
    ///
    /// # Errors
    /// [`Error::Busy`] when the queue is full.
    pub fn send(&mut self, window: Window, language: Language) -> Result<()> {
        self.push(self.pending.len(), window, 0, language)
    }

    fn push(&mut self, at: usize, window: Window, depth: usize, language: Language) -> Result<()> {
        let mut pending = Pending { number: None, window, depth, written: None };
        if is_silent(&pending.window)? {
            pending.written = Some(Written::default());
        } else {
            let input = (self.to_stream)(input(&pending.window, &self.keyterms, language)?);
            self.stream.push(input).map_err(|_| Error::Busy("too many recordings at once".into()))?;
            pending.number = Some(self.pushed);
            self.pushed += 1;
        }
        self.pending.insert(at, pending);
        Ok(())
    }

    /// Takes a result, and pushes the parts of its window that are to be written again.
    ///
    /// # Errors
    /// That of the window; [`Error::Busy`] when the queue is full.
    pub fn receive(&mut self, result: TranscribedWindow) -> Result<()> {
        let at = self.pending.iter().position(|pending| pending.number == Some(result.window));
        let Some((at, pending)) = at.and_then(|at| Some((at, self.pending.get_mut(at)?))) else {
            return Err(Error::internal("a result without a window"));
        };
        let mut written = write(&self.model, &mut result.decoded?, result.known_language, &pending.window)?;
        let depth = pending.depth + 1;
        let taken = if depth <= MAX_DEPTH { std::mem::take(&mut written.parts) } else { Vec::new() };
        let parts: Vec<Window> = taken.iter().map(|range| part(&pending.window, range)).collect();
        pending.written = Some(written);
        for (number, part) in parts.into_iter().enumerate() {
            self.push(at + 1 + number, part, depth, Some((result.language, result.known_language)))?;
        }
        Ok(())
    }

    /// The moment before which nothing on the way changes the text, ms.
    pub fn settled_ms(&self, text: &WrittenText) -> u64 {
        match self.pending.front() {
            Some(Pending { depth: 0, window, .. }) => window.start_ms,
            Some(_) => text.start_ms,
            None => text.end_ms.saturating_sub(OVERLAP_MS),
        }
    }

    /// Adds the first windows to the text as far as they are written.
    ///
    /// # Errors
    /// As [`Window::speech`].
    pub fn deliver(&mut self, text: &mut WrittenText) -> Result<()> {
        while let Some(written) = self.pending.front_mut().and_then(|first| first.written.take()) {
            if let Some(Pending { window, depth, .. }) = self.pending.pop_front() {
                match depth {
                    0 => text.add(written, &window)?,
                    _ => text.add_part(written, &window),
                }
            }
        }
        Ok(())
    }
}
