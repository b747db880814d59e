//! Audio to words for checkpoints that write windows as text, token by token: windows cut at silence, their tokens, their
//! words with the times at which the model looked.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::transcribe::{Report, left_out};
use super::utterances::{Kind, Language, Written};
use super::windows::{Cutter, Window, join};
use crate::audio::{AudioStream, SAMPLE_RATE};
use crate::error::{Error, Result};
use crate::models::silero::Silero;
use crate::models::whisper::{Task, Whisper, token_times};
use crate::scheduler::{Priority, Scheduler, wait};
use crate::tasks::streams::{self, Streams};
use crate::text::tokens::{Spoken, joined};
use crate::{Progress, TranscribeOptions, Transcript, Word};

/// How far ahead of the device a recording is read.
const WINDOWS_AHEAD: usize = 16;
/// Milliseconds of an encoder frame.
const FRAME_MS: u64 = 20;

/// Transcribes audio to its end; words count where the detector heard speech, or without one wherever it is not silent.
///
/// # Errors
/// What decoding or the device reports; [`Error::InvalidOption`] and [`Error::Language`] for options that the checkpoint
/// cannot serve; [`Error::Busy`] when the worker has no room.
pub(crate) fn transcribe(
    model: &Arc<Whisper>,
    worker: &Scheduler<Streams>,
    mut audio: AudioStream,
    options: &TranscribeOptions,
    detector: Option<&Silero>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Transcript> {
    if options.look_ahead_ms.is_some() {
        return Err(Error::InvalidOption("a look-ahead needs a streaming checkpoint".into()));
    }
    let kind = Kind {
        model: model.clone(),
        language: language(model, options)?,
        task: Task::Transcribe,
        previous: previous(model, &options.keyterms)?,
        beams: options.beam.unwrap_or(1),
    };
    let (mut stream, mut results) = worker.open(streams::Kind::Utterances(kind), Priority::Offline)?;
    let mut report = Report::new(progress, &audio);
    let mut cutter = Cutter::new(detector);
    let mut waiting: VecDeque<Window> = VecDeque::new();
    // Windows are done in any order.
    let mut written: BTreeMap<usize, Written> = BTreeMap::new();
    let (mut next, mut unheard) = (0, 0);
    let mut spoken = Spoken::default();
    let mut ended = false;
    loop {
        while !ended && waiting.len() < WINDOWS_AHEAD {
            let cut = match audio.next_block()? {
                Some(block) => cutter.push(&block)?,
                None => {
                    ended = true;
                    cutter.finish()?.into_iter().collect()
                }
            };
            for window in cut {
                let busy = |_| Error::Busy("too many recordings at once".into());
                stream.push(streams::Input::Utterances(window.samples.clone())).map_err(busy)?;
                waiting.push_back(window);
            }
            if ended {
                stream.finish(None);
            }
        }
        let Some(output) = wait::<Streams>(&mut results) else { break };
        written.extend(output?.utterances()?.into_iter().map(|written| (written.window, written)));
        while let Some(written) = written.remove(&next) {
            next += 1;
            let Some(window) = waiting.pop_front() else { return Err(Error::Canceled) };
            let mut part = words(model, &written, &window);
            let heard = window.heard()?;
            let before = part.words.len();
            part.words.retain(|word| heard.is_near(word.start as f64, word.end as f64));
            unheard += before - part.words.len();
            join(&mut spoken, part, &window);
            let length_ms = window.samples.len() as u64 * 1000 / u64::from(SAMPLE_RATE);
            report.at((window.start_ms + length_ms) as f64 / 1000.0)?;
        }
    }
    let confidence = spoken.confidence();
    Ok(Transcript {
        text: joined(&spoken.words),
        words: spoken.words,
        confidence,
        language_code: options.language.clone().or(spoken.language),
        audio_duration_sec: audio.position_s(),
        model: options.model.clone(),
        warnings: audio.warnings().into_iter().chain(left_out(unheard)).collect(),
    })
}

/// The language that is spoken, or how to find it.
fn language(model: &Whisper, options: &TranscribeOptions) -> Result<Language> {
    let known = &model.config().special.languages;
    if known.is_empty() {
        return Ok(Language::Known(0));
    }
    let token = |code: &String| {
        let base = code.split(['-', '_']).next().unwrap_or(code).to_lowercase();
        let found = known.get(&base).copied();
        found.ok_or_else(|| Error::Language(format!("the checkpoint has no language {code}")))
    };
    match (&options.language, options.languages.as_slice()) {
        (Some(code), _) => token(code).map(Language::Known),
        (None, []) => Ok(Language::Found(known.values().copied().collect())),
        (None, codes) => codes.iter().map(token).collect::<Result<_>>().map(Language::Mixed),
    }
}

/// Terms to expect, as if they had just been said.
fn previous(model: &Whisper, terms: &[String]) -> Result<Vec<u32>> {
    let terms: Vec<&str> = terms.iter().map(|term| term.trim()).filter(|term| !term.is_empty()).collect();
    if terms.is_empty() { Ok(Vec::new()) } else { model.vocabulary().encode(&format!(" {}.", terms.join(", "))) }
}

/// The words of a window, their times from its start.
fn words(model: &Whisper, written: &Written, window: &Window) -> Spoken {
    let (config, said) = (model.config(), &written.said);
    let code = config.special.language(written.language);
    let rows = said.tokens.len() + 1;
    let heads = config.alignment_heads.len();
    let frames = said.weights.len() / (rows * heads.max(1));
    let times = match frames {
        0 => vec![0; rows],
        _ => token_times(&said.weights, rows, heads, frames, config.median_filter),
    };
    let end_ms = window.samples.len() as u64 * 1000 / u64::from(SAMPLE_RATE);
    let ms = |row: usize| times.get(row).map_or(end_ms, |frame| *frame as u64 * FRAME_MS).min(end_ms);
    let spelled = model.vocabulary().words(&said.tokens, code.unwrap_or("en"));
    let mut found = Vec::with_capacity(spelled.len());
    for word in spelled {
        let span = word.span();
        let sum: f32 = word.tokens.iter().filter_map(|token| said.confidences.get(*token)).sum();
        let (start, end) = (ms(span.start), ms(span.end));
        found.push(Word {
            confidence: sum / word.tokens.len().max(1) as f32,
            text: word.text.trim().to_owned(),
            start,
            end: end.max(start),
        });
    }
    Spoken { words: found, language: code.map(str::to_owned), ..Spoken::default() }
}
