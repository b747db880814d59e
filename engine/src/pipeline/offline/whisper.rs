//! Audio to words with a Whisper checkpoint: windows cut at silence, their tokens, and words with times from
//! cross-attention. Speech that a window's text leaves out is written again by itself.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::progress::ProgressReport;
use super::transducer::dropped_words_warning;
use super::unwritten::MIN_ADVANCE_MS;
use super::whisper_windows::{WindowQueue, Written, WrittenText, input};
use super::whisper_words::{FRAME_MS, words};
use super::window_reader::WindowReader;
use crate::audio::AudioStream;
use crate::decoding::keyterms::Keyterm;
use crate::error::{Error, Result};
use crate::language::{ENGLISH, primary_subtag};
use crate::models::whisper::{Previous, SAMPLES_PER_FRAME, Task, Whisper};
use crate::options::TranscribeOptions;
use crate::pipeline::executors::device::{DeviceExecutor, StreamInput, StreamOutput, StreamRequest};
use crate::pipeline::executors::whisper::{LanguageChoice, WhisperRequest};
use crate::scheduler::{Priority, Results, Scheduler, Stream};
use crate::text::medical;
use crate::text::tokens::joined;
use crate::transcript::{Progress, Transcript};
use crate::vad::chunker::{Chunker, SequentialWindows, WindowLengths};
use crate::vad::shared::SharedVad;

/// Windows that are read ahead of the device.
const WINDOWS_AHEAD: usize = 16;

type OpenStream = (Stream<DeviceExecutor>, Results<StreamOutput>);

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
    let task = match (options.translate, model.config().special.translate) {
        (false, _) => Task::Transcribe,
        (true, Some(_)) => Task::Translate,
        (true, None) => {
            return Err(Error::InvalidOption("the checkpoint is for English only, and translates nothing".into()));
        }
    };
    let request = WhisperRequest {
        model: model.clone(),
        language: language(model, options.language.as_deref(), &options.languages)?,
        task,
        beams: options.beam.unwrap_or(1),
    };
    let medical = options.language.as_deref().filter(|_| options.medical_mode);
    let keyterms = keyterm_prompt(model, &options.keyterms, medical)?;
    let open = worker.open(StreamRequest::Whisper(request), Priority::Offline)?;
    let mut progress = ProgressReport::new(progress, &audio, options);
    let has_detector = detector.is_some();
    let text = if options.sequential {
        transcribe_sequential(open, model, &mut audio, detector, keyterms, &mut progress)?
    } else {
        let several = options.language.is_none() && options.languages.len() > 1;
        let lengths = if several { WindowLengths::STRETCHES } else { WindowLengths::THIRTY_SECONDS };
        let reader = WindowReader::new(&mut audio, Chunker::new(detector, lengths));
        transcribe_parallel(open, model, reader, keyterms, &mut progress)?
    };
    let WrittenText { spoken, coverage, dropped_words, .. } = text;
    let confidence = spoken.confidence();
    let english = || model.config().special.languages.is_empty().then(|| ENGLISH.to_owned());
    let language_code = match task {
        Task::Translate => Some(ENGLISH.to_owned()),
        Task::Transcribe => options.language.clone().or(spoken.language).or_else(english),
    };
    let unwritten = has_detector.then(|| coverage.warning(&spoken.words)).flatten();
    Ok(Transcript {
        text: joined(&spoken.words),
        words: spoken.words,
        utterances: None,
        confidence,
        language_code,
        audio_duration_sec: audio.position_s(),
        model: options.model.clone().unwrap_or_default(),
        warnings: audio.warnings().into_iter().chain(dropped_words_warning(dropped_words)).chain(unwritten).collect(),
    })
}

/// Transcribes windows cut at silence, several at once.
fn transcribe_parallel(
    (stream, mut results): OpenStream,
    model: &Arc<Whisper>,
    mut reader: WindowReader,
    keyterms: Vec<u32>,
    progress: &mut ProgressReport,
) -> Result<WrittenText> {
    let mut text = WrittenText::default();
    let mut queue = WindowQueue::new(stream, model.clone(), keyterms, StreamInput::Whisper);
    loop {
        while !reader.has_ended() && queue.len() < WINDOWS_AHEAD {
            for window in reader.read()? {
                queue.send(window, None)?;
            }
        }
        let before = text.end_ms;
        queue.deliver(&mut text)?;
        if text.end_ms > before {
            let words = progress.new_words(&text.spoken, queue.settled_ms(&text));
            progress.report(text.end_ms as f64 / 1000.0, words)?;
        }
        if queue.is_empty() {
            if reader.has_ended() {
                queue.stream.finish(None);
                return Ok(text);
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
    model: &Whisper,
    audio: &mut AudioStream,
    detector: Option<SharedVad>,
    keyterms: Vec<u32>,
    progress: &mut ProgressReport,
) -> Result<WrittenText> {
    let (mut text, config) = (WrittenText::default(), model.config());
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
        let pushed = stream.push(StreamInput::Whisper(input(&window, previous.tokens(), None)?));
        pushed.map_err(|_| Error::Busy("too many recordings at once".into()))?;
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
            // The next window begins where this one stopped.
            let words = progress.new_words(&text.spoken, text.end_ms);
            progress.report(text.end_ms as f64 / 1000.0, words)?;
            windows.advance(window.samples.len());
        }
    }
    stream.finish(None);
    Ok(text)
}

/// The language of this code, or the way to detect it: one of several, in each window, or any.
///
/// # Errors
/// [`Error::Language`] for one that the checkpoint lacks.
pub(crate) fn language(model: &Whisper, only: Option<&str>, several: &[String]) -> Result<LanguageChoice> {
    let known = &model.config().special.languages;
    if known.is_empty() {
        let mut asked = only.into_iter().chain(several.iter().map(String::as_str));
        return match asked.find(|code| primary_subtag(code) != ENGLISH) {
            None => Ok(LanguageChoice::Known(0)),
            Some(code) => Err(Error::Language(format!("the checkpoint is for English only, not for {code}"))),
        };
    }
    let token = |code: &str| {
        let found = known.get(&primary_subtag(code)).copied();
        found.ok_or_else(|| Error::Language(format!("the checkpoint has no language {code}")))
    };
    match (only, several) {
        (Some(code), _) => token(code).map(LanguageChoice::Known),
        (None, []) => Ok(LanguageChoice::Detect(known.values().copied().collect())),
        (None, codes) => {
            codes.iter().map(|code| token(code)).collect::<Result<_>>().map(LanguageChoice::DetectEachWindow)
        }
    }
}

/// Medical terms of a prompt: it has no room for all, and tells the kind of speech more than its words.
const MEDICAL_PROMPT_TERMS: usize = 24;

/// Prompt with the keyterms, as if they were the text before the audio, after a few medical terms of the language `medical`. A prompt
/// is cut at its start, so keyterms stay.
///
/// # Errors
/// Those of the tokenizer.
pub(crate) fn keyterm_prompt(model: &Whisper, keyterms: &[Keyterm], medical: Option<&str>) -> Result<Vec<u32>> {
    let medical: Vec<&str> = medical.and_then(medical::terms).into_iter().flatten().collect();
    // From all parts of the list: drugs, conditions, anatomy, procedures.
    let medical = medical.iter().copied().step_by(medical.len().div_ceil(MEDICAL_PROMPT_TERMS).max(1));
    let keyterms = keyterms.iter().map(|term| term.text.trim());
    let terms: Vec<&str> = medical.chain(keyterms).filter(|term| !term.is_empty()).collect();
    if terms.is_empty() { Ok(Vec::new()) } else { model.vocabulary().encode(&format!(" {}.", terms.join(", "))) }
}
