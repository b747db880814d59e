//! Audio to words with a Whisper checkpoint: windows cut at silence, their tokens, and words with times from
//! cross-attention. Speech that a window's text leaves out is written again by itself.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::transducer::{ProgressReport, dropped_words_warning};
use super::unwritten::{Coverage, MIN_ADVANCE_MS, unwritten, wordless};
use super::whisper_words::{FRAME_MS, words};
use super::window_reader::WindowReader;
use crate::audio::{AudioStream, SAMPLE_RATE};
use crate::error::{Error, Result};
use crate::language::primary_subtag;
use crate::models::whisper::{DecodedWindow, Previous, SAMPLES_PER_FRAME, Task, Whisper};
use crate::options::TranscribeOptions;
use crate::pipeline::executors::device::{DeviceExecutor, StreamInput, StreamOutput, StreamRequest};
use crate::pipeline::executors::whisper::{LanguageChoice, TranscribedWindow, WhisperInput, WhisperRequest};
use crate::scheduler::{Priority, Results, Scheduler, Stream};
use crate::text::tokens::{Spoken, joined};
use crate::text::{Word, medical};
use crate::transcript::{Progress, Transcript};
use crate::vad::chunker::{Chunker, SequentialWindows, WindowLengths};
use crate::vad::seam::join;
use crate::vad::shared::SharedVad;
use crate::vad::window::Window;

/// Windows that are read ahead of the device.
const WINDOWS_AHEAD: usize = 16;
/// Times that parts of parts of a window are written again.
const MAX_DEPTH: usize = 8;
/// Samples in a millisecond.
const MS: usize = SAMPLE_RATE as usize / 1000;

/// Transcribes audio to its end. Drops words far from speech, or from sound without a detector.
///
/// # Errors
/// Errors of decoding and of the device; [`Error::InvalidOption`] and [`Error::Language`] for options that the
/// checkpoint cannot serve; [`Error::Busy`] when the worker has no room.
pub(crate) fn transcribe(
    model: &Arc<Whisper>,
    worker: &Scheduler<DeviceExecutor>,
    mut audio: AudioStream,
    options: &TranscribeOptions,
    detector: Option<SharedVad>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Transcript> {
    if options.look_ahead_ms.is_some() {
        return Err(Error::InvalidOption("a look-ahead needs a streaming checkpoint".into()));
    }
    let request = WhisperRequest {
        model: model.clone(),
        language: language(model, options)?,
        task: Task::Transcribe,
        beams: options.beam.unwrap_or(1),
    };
    let keyterms = keyterm_prompt(model, options)?;
    let open = worker.open(StreamRequest::Whisper(request), Priority::Offline)?;
    let progress = ProgressReport::new(progress, &audio);
    let has_detector = detector.is_some();
    let mut text = TranscriptBuilder {
        model,
        spoken: Spoken::default(),
        coverage: Coverage::default(),
        dropped_words: 0,
        reported_s: 0.0,
        progress,
    };
    if options.sequential {
        transcribe_sequential(open, &mut audio, detector, keyterms, &mut text)?;
    } else {
        let several = options.language.is_none() && options.languages.len() > 1;
        let lengths = if several { WindowLengths::STRETCHES } else { WindowLengths::THIRTY_SECONDS };
        let reader = WindowReader::new(&mut audio, Chunker::new(detector, lengths));
        transcribe_parallel(open, reader, &keyterms, &mut text)?;
    }
    let TranscriptBuilder { spoken, coverage, dropped_words, .. } = text;
    let confidence = spoken.confidence();
    let english = || model.config().special.languages.is_empty().then(|| ENGLISH.to_owned());
    let unwritten = has_detector.then(|| coverage.warning(&spoken.words)).flatten();
    Ok(Transcript {
        text: joined(&spoken.words),
        words: spoken.words,
        utterances: None,
        confidence,
        language_code: options.language.clone().or(spoken.language).or_else(english),
        audio_duration_sec: audio.position_s(),
        model: options.model.clone().unwrap_or_default(),
        warnings: audio.warnings().into_iter().chain(dropped_words_warning(dropped_words)).chain(unwritten).collect(),
    })
}

/// Transcript so far.
struct TranscriptBuilder<'a> {
    model: &'a Whisper,
    spoken: Spoken,
    coverage: Coverage,
    /// Number of words dropped because they are far from speech.
    dropped_words: usize,
    reported_s: f64,
    progress: ProgressReport<'a>,
}

impl TranscriptBuilder<'_> {
    /// Adds the words of a window.
    fn add(&mut self, written: Written, window: &Window) -> Result<()> {
        self.dropped_words += written.dropped;
        self.coverage.add(&window.speech()?, window.start_ms);
        join(&mut self.spoken, written.spoken, window);
        self.reported_s = self.reported_s.max((window.start_ms + length_ms(window)) as f64 / 1000.0);
        self.progress.report(self.reported_s)
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

/// Words of a part that are taken for a repetition of those beside it, at least.
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

/// Length of a window, ms.
fn length_ms(window: &Window) -> u64 {
    (window.samples.len() / MS) as u64
}

/// As [`WhisperInput::language`].
type Language = Option<(u32, Option<u32>)>;
type OpenStream = (Stream<DeviceExecutor>, Results<StreamOutput>);

fn push(stream: &Stream<DeviceExecutor>, window: &Window, previous: &[u32], language: Language) -> Result<()> {
    let input = WhisperInput {
        samples: window.samples.clone(),
        previous: previous.to_vec(),
        speech_ms: window.speech()?.total_ms(),
        language,
        seed: window.start_ms,
    };
    stream.push(StreamInput::Whisper(input)).map_err(|_| Error::Busy("too many recordings at once".into()))
}

/// True if a detector heard no speech in the window.
fn is_silent(window: &Window) -> Result<bool> {
    Ok(window.has_detector() && window.speech()?.is_empty())
}

/// The words of a window, and the parts of it that its text leaves out.
#[derive(Default)]
struct Written {
    spoken: Spoken,
    /// Number of words dropped because they are far from speech.
    dropped: usize,
    /// In order, ms from the window's start.
    parts: Vec<Range<u64>>,
}

/// Turns tokens to words; drops the tokens that belong to a part that is to be written again.
fn write(model: &Whisper, decoded: &mut DecodedWindow, language: Option<u32>, window: &Window) -> Result<Written> {
    let speech = window.speech()?;
    let end_ms = length_ms(window);
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

/// The windows of a recording on their way, in the order of the recording.
struct WindowQueue<'a> {
    stream: Stream<DeviceExecutor>,
    model: &'a Whisper,
    keyterms: &'a [u32],
    /// Number of windows pushed to the stream.
    pushed: usize,
    pending: VecDeque<Pending>,
}

impl WindowQueue<'_> {
    fn push(&mut self, at: usize, window: Window, depth: usize, language: Language) -> Result<()> {
        let mut pending = Pending { number: None, window, depth, written: None };
        if is_silent(&pending.window)? {
            pending.written = Some(Written::default());
        } else {
            push(&self.stream, &pending.window, self.keyterms, language)?;
            pending.number = Some(self.pushed);
            self.pushed += 1;
        }
        self.pending.insert(at, pending);
        Ok(())
    }

    /// Takes a result, and pushes the parts of its window that are to be written again.
    fn receive(&mut self, result: TranscribedWindow) -> Result<()> {
        let at = self.pending.iter().position(|pending| pending.number == Some(result.window));
        let Some((at, pending)) = at.and_then(|at| Some((at, self.pending.get_mut(at)?))) else {
            return Err(Error::internal("a result without a window"));
        };
        let mut written = write(self.model, &mut result.decoded?, result.known_language, &pending.window)?;
        let depth = pending.depth + 1;
        let taken = if depth <= MAX_DEPTH { std::mem::take(&mut written.parts) } else { Vec::new() };
        let parts: Vec<Window> = taken.iter().map(|range| part(&pending.window, range)).collect();
        pending.written = Some(written);
        for (number, part) in parts.into_iter().enumerate() {
            self.push(at + 1 + number, part, depth, Some((result.language, result.known_language)))?;
        }
        Ok(())
    }

    /// Adds the first windows to the text as far as they are written.
    fn deliver(&mut self, text: &mut TranscriptBuilder) -> Result<()> {
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

/// Transcribes windows cut at silence, several at once.
fn transcribe_parallel(
    (stream, mut results): OpenStream,
    mut reader: WindowReader,
    keyterms: &[u32],
    text: &mut TranscriptBuilder,
) -> Result<()> {
    let mut queue = WindowQueue { stream, model: text.model, keyterms, pushed: 0, pending: VecDeque::new() };
    loop {
        while !reader.has_ended() && queue.pending.len() < WINDOWS_AHEAD {
            for window in reader.read()? {
                queue.push(queue.pending.len(), window, 0, None)?;
            }
        }
        queue.deliver(text)?;
        if queue.pending.is_empty() {
            if reader.has_ended() {
                queue.stream.finish(None);
                return Ok(());
            }
            continue;
        }
        let Some(output) = results.wait() else {
            return Err(Error::internal("the results ended before the windows"));
        };
        for result in output?.whisper()? {
            queue.receive(result)?;
        }
    }
}

/// Transcribes windows one after the other: each begins where the one before stopped, and has its text as prompt.
fn transcribe_sequential(
    (mut stream, mut results): OpenStream,
    audio: &mut AudioStream,
    detector: Option<SharedVad>,
    keyterms: Vec<u32>,
    text: &mut TranscriptBuilder,
) -> Result<()> {
    let (model, config) = (text.model, text.model.config());
    let mut windows = SequentialWindows::new(detector);
    let mut previous = Previous::new(keyterms, config.positions / 2 - 1);
    loop {
        while windows.needs_samples() {
            match audio.next_block()? {
                Some(block) => windows.push(&block)?,
                None => windows.finish()?,
            }
        }
        let Some(mut window) = windows.window() else { break };
        push(&stream, &window, previous.tokens(), None)?;
        let Some(output) = results.wait() else {
            return Err(Error::internal("the results ended before the windows"));
        };
        for result in output?.whisper()? {
            let mut decoded = result.decoded?;
            // A window that hardly moves on is accepted whole, because a checkpoint could go on so without end.
            if let (kept, Some(frames)) = config.special.accepted(&decoded.tokens)
                && frames as u64 * FRAME_MS >= MIN_ADVANCE_MS
            {
                decoded.truncate(kept);
                window.truncate(frames * SAMPLES_PER_FRAME);
            }
            previous.add(&decoded.tokens, result.temperature);
            let (spoken, dropped) = words(model, &decoded, result.known_language, &window, &window.speech()?, &[])?;
            text.add(Written { spoken, dropped, ..Written::default() }, &window)?;
            windows.advance(window.samples.len());
        }
    }
    stream.finish(None);
    Ok(())
}

/// The language of checkpoints that have no tokens for others.
const ENGLISH: &str = "en";

/// The requested language, or the way to detect it.
fn language(model: &Whisper, options: &TranscribeOptions) -> Result<LanguageChoice> {
    let known = &model.config().special.languages;
    if known.is_empty() {
        let mut asked = options.language.iter().chain(&options.languages);
        return match asked.find(|code| primary_subtag(code) != ENGLISH) {
            None => Ok(LanguageChoice::Known(0)),
            Some(code) => Err(Error::Language(format!("the checkpoint is for English only, not for {code}"))),
        };
    }
    let token = |code: &String| {
        let found = known.get(&primary_subtag(code)).copied();
        found.ok_or_else(|| Error::Language(format!("the checkpoint has no language {code}")))
    };
    match (&options.language, options.languages.as_slice()) {
        (Some(code), _) => token(code).map(LanguageChoice::Known),
        (None, []) => Ok(LanguageChoice::Detect(known.values().copied().collect())),
        (None, codes) => codes.iter().map(token).collect::<Result<_>>().map(LanguageChoice::DetectEachWindow),
    }
}

/// Medical terms of a prompt: it has no room for all, and tells the kind of speech more than its words.
const MEDICAL_PROMPT_TERMS: usize = 24;

/// Prompt with the keyterms, as if they were the text before the audio; with medical mode after a few medical terms of the
/// language, if it is given. A prompt is cut at its start, so keyterms stay.
fn keyterm_prompt(model: &Whisper, options: &TranscribeOptions) -> Result<Vec<u32>> {
    let language = options.language.as_deref().filter(|_| options.medical_mode);
    let medical: Vec<&str> = language.and_then(medical::terms).into_iter().flatten().collect();
    // From all parts of the list: drugs, conditions, anatomy, procedures.
    let medical = medical.iter().copied().step_by(medical.len().div_ceil(MEDICAL_PROMPT_TERMS).max(1));
    let keyterms = options.keyterms.iter().map(|term| term.text.trim());
    let terms: Vec<&str> = medical.chain(keyterms).filter(|term| !term.is_empty()).collect();
    if terms.is_empty() { Ok(Vec::new()) } else { model.vocabulary().encode(&format!(" {}.", terms.join(", "))) }
}
