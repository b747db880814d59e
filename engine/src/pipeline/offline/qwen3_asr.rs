//! Audio to words with a Qwen3-ASR checkpoint: windows cut at silence, their texts, and words with times from the aligner.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::progress::ProgressReport;
use super::transducer::dropped_words_warning;
use super::unwritten::Coverage;
use super::window_reader::WindowReader;
use crate::audio::AudioStream;
use crate::decoding::keyterms::Keyterm;
use crate::error::{Error, Result};
use crate::models::decoder::ChatTokenizer;
use crate::models::qwen3_asr::Qwen3Asr;
use crate::options::TranscribeOptions;
use crate::pipeline::executors::device::{DeviceExecutor, StreamInput, StreamOutput, StreamRequest};
use crate::pipeline::executors::qwen3_asr::{Qwen3AsrRequest, WrittenWindow};
use crate::scheduler::{Priority, Scheduler};
use crate::text::Word;
use crate::text::medical;
use crate::text::tokens::{Spoken, joined};
use crate::transcript::{Progress, Transcript};
use crate::vad::chunker::{Chunker, WindowLengths};
use crate::vad::seam::join;
use crate::vad::shared::SharedVad;
use crate::vad::window::Window;

/// Windows that are read ahead of the device.
const WINDOWS_AHEAD: usize = 16;
/// Tokens of the words to expect: each window reads them.
const MOST_CONTEXT_TOKENS: usize = 1_024;

/// Transcribes audio to its end. Stretches without speech are not read.
///
/// # Errors
/// Errors of decoding and of the device; [`Error::InvalidOption`] and [`Error::Language`] for options that the
/// checkpoint cannot serve; [`Error::Busy`] when the worker has no room.
pub(crate) fn transcribe(
    model: &Arc<Qwen3Asr>,
    worker: &Scheduler<DeviceExecutor>,
    mut audio: AudioStream,
    options: &TranscribeOptions,
    detector: Option<SharedVad>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Transcript> {
    check(options)?;
    let tokenizer = model.decoder().tokenizer();
    let medical = options.language.as_deref().filter(|_| options.medical_mode);
    let (context, left_out) = context(tokenizer, &options.keyterms, medical)?;
    let languages: Vec<&str> = match &options.language {
        Some(language) => vec![language],
        None => options.languages.iter().map(String::as_str).collect(),
    };
    let prompt = Arc::new(model.prompts().prompt(tokenizer, &context, &languages)?);
    let request = StreamRequest::Qwen3Asr(Qwen3AsrRequest { model: model.clone(), prompt });
    let (mut stream, mut results) = worker.open(request, Priority::Offline)?;
    let mut progress = ProgressReport::new(progress, &audio, options);
    let has_detector = detector.is_some();
    let mut reader = WindowReader::new(&mut audio, Chunker::new(detector, WindowLengths::APART));
    let (mut spoken, mut coverage) = (Spoken::default(), Coverage::default());
    let (mut has_untimed, mut dropped_words) = (false, 0);
    // Windows on their way, the results that have arrived before their turn, and the number of the next to be joined.
    let (mut waiting, mut done, mut sent, mut next) = (BTreeMap::new(), BTreeMap::new(), 0, 0);
    loop {
        while !reader.has_ended() && sent - next < WINDOWS_AHEAD {
            for window in reader.read()? {
                let speech = window.speech()?;
                coverage.add(&speech, window.start_ms);
                if speech.is_empty() {
                    continue;
                }
                let pushed = stream.push(StreamInput::Qwen3Asr(window.samples.clone()));
                pushed.map_err(|_| Error::Busy("too many recordings at once".into()))?;
                waiting.insert(sent, window);
                sent += 1;
            }
        }
        while let Some((window, text)) = done.remove(&next).and_then(|text| Some((waiting.remove(&next)?, text))) {
            let WindowWords { spoken: part, is_timed, dropped } = words(model, text, &window)?;
            has_untimed |= !is_timed && !part.words.is_empty();
            dropped_words += dropped;
            join(&mut spoken, part, &window);
            // Windows do not overlap: no later one changes these words.
            let end_ms = window.start_ms + window.length_ms();
            let words = progress.new_words(&spoken, end_ms);
            progress.report(end_ms as f64 / 1000.0, words)?;
            next += 1;
        }
        if next == sent {
            if reader.has_ended() {
                break;
            }
            continue;
        }
        let Some(output) = results.wait() else {
            return Err(Error::internal("the results ended before the windows"));
        };
        done.extend(output.and_then(StreamOutput::qwen3_asr)?.into_iter().map(|text| (text.window, text)));
    }
    stream.finish(None);
    let unwritten = has_detector.then(|| coverage.warning(&spoken.words)).flatten();
    let untimed = has_untimed.then(|| UNTIMED.to_owned());
    let dropped = dropped_words_warning(dropped_words);
    let left_out = left_out.then(|| "the keyterms are too long together: the last are left out".to_owned());
    Ok(Transcript {
        text: joined(&spoken.words),
        confidence: spoken.confidence(),
        language_code: options.language.clone().or(spoken.language),
        words: spoken.words,
        utterances: None,
        audio_duration_sec: audio.position_s(),
        model: options.model.clone().unwrap_or_default(),
        warnings: audio.warnings().into_iter().chain(left_out).chain(untimed).chain(dropped).chain(unwritten).collect(),
    })
}

/// Without the aligner, or in a language that it lacks, a word has the time of its window.
const UNTIMED: &str = "the model has no aligner of this language, so single words have no times: each has that of its window of at most 24 s";

/// Refuses the options that the class lacks.
fn check(options: &TranscribeOptions) -> Result<()> {
    let refused = [
        (options.translate, "translation is for Whisper and Canary checkpoints of many languages"),
        (options.look_ahead_ms.is_some(), "a look-ahead needs a streaming checkpoint"),
        (options.beam.is_some_and(|beam| beam > 1), "Qwen3ASRForConditionalGeneration has greedy search only"),
    ];
    match refused.into_iter().find(|(is_asked, _)| *is_asked) {
        Some((_, reason)) => Err(Error::InvalidOption(reason.into())),
        None => Ok(()),
    }
}

/// The words to expect, the keyterms first, as a context; true if the last did not fit.
fn context(tokenizer: &ChatTokenizer, keyterms: &[Keyterm], medical: Option<&str>) -> Result<(String, bool)> {
    let named = keyterms.iter().map(|term| term.text.trim()).filter(|term| !term.is_empty());
    let (mut context, mut count) = (String::new(), 0);
    let medical = medical.and_then(medical::terms).into_iter().flatten();
    for (term, is_named) in named.map(|term| (term, true)).chain(medical.map(|term| (term, false))) {
        let more = if context.is_empty() { term.to_owned() } else { format!(", {term}") };
        let mut tokens = Vec::new();
        tokenizer.encode_text(&more, &mut tokens)?;
        count += tokens.len();
        if count > MOST_CONTEXT_TOKENS {
            return Ok((context, is_named));
        }
        context.push_str(&more);
    }
    Ok((context, false))
}

/// The words of a window.
struct WindowWords {
    spoken: Spoken,
    /// They have times of their own; else all have that of the window, from its first speech to its last.
    is_timed: bool,
    /// Number of words that were left out because they are far from speech.
    dropped: usize,
}

fn words(model: &Qwen3Asr, text: WrittenWindow, window: &Window) -> Result<WindowWords> {
    let (written, speech, length_ms) = (text.written?, window.speech()?, window.length_ms());
    let mut spans = speech.spans_ms();
    let first = spans.next().unwrap_or(0..length_ms);
    let whole = first.start..spans.last().map_or(first.end, |last| last.end);
    let (is_timed, mut times) = (!text.times.is_empty(), text.times.into_iter());
    let (mut words, mut dropped, mut before): (Vec<Word>, usize, u64) = (Vec::new(), 0, whole.start);
    for word in written.words(model.decoder().tokenizer()) {
        let time = match (is_timed, times.next().flatten()) {
            (false, _) => whole.clone(),
            (true, Some(time)) => time.start.min(length_ms)..time.end.min(length_ms),
            // Marks stand where the word before them ends.
            (true, None) => before..before,
        };
        before = time.end;
        if is_timed && !speech.is_near(time.start as f64, time.end as f64) {
            dropped += 1;
            continue;
        }
        let sum: f32 = word.tokens.iter().filter_map(|token| written.confidences.get(*token)).sum();
        words.push(Word {
            confidence: sum / word.tokens.len().max(1) as f32,
            text: word.text.trim().to_owned(),
            start: time.start,
            end: time.end,
            speaker: None,
            speaker_name: None,
            channel: None,
        });
    }
    let spoken = Spoken { words, language: written.language.map(str::to_owned), ..Spoken::default() };
    Ok(WindowWords { spoken, is_timed, dropped })
}
