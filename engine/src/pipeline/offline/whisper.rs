//! Audio to words with a Whisper checkpoint: windows cut at silence, their tokens, and words with times from
//! cross-attention.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::transducer::{ProgressReport, dropped_words_warning};
use super::whisper_executor::{LanguageChoice, SAMPLES_PER_FRAME, TranscribedWindow, WhisperInput, WhisperRequest};
use crate::audio::{AudioStream, SAMPLE_RATE};
use crate::error::{Error, Result};
use crate::language::primary_subtag;
use crate::models::silero::Silero;
use crate::models::whisper::{DecodedWindow, Previous, SpecialTokens, Task, Whisper, token_times};
use crate::options::TranscribeOptions;
use crate::pipeline::executor::{DeviceExecutor, StreamInput, StreamOutput, StreamRequest};
use crate::scheduler::{Priority, Results, Scheduler, Stream};
use crate::text::Word;
use crate::text::tokens::{Spoken, joined};
use crate::transcript::{Progress, Transcript};
use crate::vad::chunker::{Chunker, SequentialWindows, Window, join};

/// Windows that are read ahead of the device.
const WINDOWS_AHEAD: usize = 16;
/// Milliseconds of an encoder frame.
const FRAME_MS: u64 = 20;
/// Margin on both sides of detected speech, ms.
const MARGIN_MS: u64 = 200;
/// Least audio by which a window must move on, ms.
const MIN_ADVANCE_MS: u64 = 1000;

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
    detector: Option<&Silero>,
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
    let keyterms = keyterm_prompt(model, &options.keyterms)?;
    let open = worker.open(StreamRequest::Whisper(request), Priority::Offline)?;
    let progress = ProgressReport::new(progress, &audio);
    let mut text =
        TranscriptBuilder { model, spoken: Spoken::default(), silence_language: None, dropped_words: 0, progress };
    if options.sequential {
        transcribe_sequential(open, &mut audio, detector, keyterms, &mut text)?;
    } else {
        transcribe_parallel(open, &mut audio, detector, &keyterms, &mut text)?;
    }
    let TranscriptBuilder { spoken, silence_language, dropped_words, .. } = text;
    let confidence = spoken.confidence();
    Ok(Transcript {
        text: joined(&spoken.words),
        words: spoken.words,
        utterances: None,
        confidence,
        language_code: options.language.clone().or(spoken.language).or(silence_language),
        audio_duration_sec: audio.position_s(),
        model: options.model.clone().unwrap_or_default(),
        warnings: audio.warnings().into_iter().chain(dropped_words_warning(dropped_words)).collect(),
    })
}

/// Transcript so far.
struct TranscriptBuilder<'a> {
    model: &'a Whisper,
    spoken: Spoken,
    /// Language of the first window without words.
    silence_language: Option<String>,
    /// Number of words dropped because they are far from speech.
    dropped_words: usize,
    progress: ProgressReport<'a>,
}

impl TranscriptBuilder<'_> {
    fn add(&mut self, decoded: &DecodedWindow, language: u32, window: &Window) -> Result<()> {
        let (mut part, dropped) = words(self.model, decoded, language, window)?;
        self.dropped_words += dropped;
        if part.words.is_empty() {
            let language = part.language.take();
            self.silence_language = self.silence_language.take().or(language);
        }
        join(&mut self.spoken, part, window);
        self.progress.report(window.start_ms as f64 / 1000.0 + window.samples.len() as f64 / f64::from(SAMPLE_RATE))
    }
}

type OpenStream = (Stream<DeviceExecutor>, Results<StreamOutput>);

fn push(stream: &mut Stream<DeviceExecutor>, window: &Window, previous: Vec<u32>) -> Result<()> {
    let input = WhisperInput { samples: window.samples.clone(), previous, has_speech: !window.speech()?.is_empty() };
    stream.push(StreamInput::Whisper(input)).map_err(|_| Error::Busy("too many recordings at once".into()))
}

/// Transcribes windows cut at silence, several at once.
fn transcribe_parallel(
    (mut stream, mut results): OpenStream,
    audio: &mut AudioStream,
    detector: Option<&Silero>,
    keyterms: &[u32],
    text: &mut TranscriptBuilder,
) -> Result<()> {
    let mut chunker = Chunker::new(detector);
    let mut waiting: VecDeque<Window> = VecDeque::new();
    // Windows finish in any order.
    let mut written: BTreeMap<usize, TranscribedWindow> = BTreeMap::new();
    let mut next = 0;
    let mut ended = false;
    loop {
        while !ended && waiting.len() < WINDOWS_AHEAD {
            let cut = match audio.next_block()? {
                Some(block) => chunker.push(&block)?,
                None => {
                    ended = true;
                    chunker.finish()?.into_iter().collect()
                }
            };
            for window in cut {
                push(&mut stream, &window, keyterms.to_vec())?;
                waiting.push_back(window);
            }
            if ended {
                stream.finish(None);
            }
        }
        let Some(output) = results.wait() else { return Ok(()) };
        written.extend(output?.whisper()?.into_iter().map(|written| (written.window, written)));
        while let Some(written) = written.remove(&next) {
            next += 1;
            let Some(window) = waiting.pop_front() else {
                return Err(Error::internal("more results than windows"));
            };
            text.add(&written.decoded?, written.language, &window)?;
        }
    }
}

/// Transcribes windows one after the other: each begins where the one before stopped, and has its text as prompt.
fn transcribe_sequential(
    (mut stream, mut results): OpenStream,
    audio: &mut AudioStream,
    detector: Option<&Silero>,
    keyterms: Vec<u32>,
    text: &mut TranscriptBuilder,
) -> Result<()> {
    let config = text.model.config();
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
        push(&mut stream, &window, previous.tokens().to_vec())?;
        let Some(output) = results.wait() else {
            return Err(Error::internal("the results ended before the windows"));
        };
        for written in output?.whisper()? {
            let mut decoded = written.decoded?;
            // A window that hardly moves on is accepted whole, because a checkpoint could go on so without end.
            let (kept, frames) = match config.special.accepted(&decoded.tokens) {
                (kept, Some(frames)) if frames as u64 * FRAME_MS >= MIN_ADVANCE_MS => (kept, frames),
                _ => (decoded.tokens.len(), usize::MAX),
            };
            decoded.truncate(kept);
            window.truncate(frames.saturating_mul(SAMPLES_PER_FRAME));
            previous.add(&decoded.tokens, written.temperature);
            text.add(&decoded, written.language, &window)?;
            windows.advance(window.samples.len());
        }
    }
    stream.finish(None);
    Ok(())
}

/// The requested language, or the way to detect it.
fn language(model: &Whisper, options: &TranscribeOptions) -> Result<LanguageChoice> {
    let known = &model.config().special.languages;
    if known.is_empty() {
        return Ok(LanguageChoice::Known(0));
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

/// Prompt with the keyterms, as if they were the text before the audio.
fn keyterm_prompt(model: &Whisper, terms: &[String]) -> Result<Vec<u32>> {
    let terms: Vec<&str> = terms.iter().map(|term| term.trim()).filter(|term| !term.is_empty()).collect();
    if terms.is_empty() { Ok(Vec::new()) } else { model.vocabulary().encode(&format!(" {}.", terms.join(", "))) }
}

/// The words of a window, with times from its start, and the number of words dropped because they are far from speech.
///
/// Sentences are kept if the checkpoint's own timestamps place them near speech. Word times come from cross-attention
/// over frames with speech only: attention that strays into a pause would move words there.
fn words(model: &Whisper, decoded: &DecodedWindow, language: u32, window: &Window) -> Result<(Spoken, usize)> {
    let config = model.config();
    let speech = window.speech()?;
    let code = config.special.language(language);
    let end_ms = window.samples.len() as u64 * 1000 / u64::from(SAMPLE_RATE);
    let spelled = model.vocabulary().words(&decoded.tokens, code.unwrap_or("en"));
    let (rows, heads) = (decoded.tokens.len() + 1, config.alignment_heads.len());
    let frames = decoded.weights.len() / (rows * heads.max(1));
    // The kept part of a window may end before its attention weights.
    let kept = speech.frames(frames.min(window.samples.len().div_ceil(SAMPLES_PER_FRAME)), FRAME_MS, MARGIN_MS);
    let near_speech =
        tokens_near_speech(&config.special, &decoded.tokens, end_ms, |from, to| speech.is_near(from as f64, to as f64));
    // The last place is the end of the text, where the last word ends.
    let places: Vec<usize> = (0..rows).filter(|place| near_speech.get(*place).copied().unwrap_or(true)).collect();
    let of = |place: &usize| {
        let rows = decoded.weights[place * heads * frames..][..heads * frames].chunks_exact(frames.max(1));
        rows.flat_map(|row| kept.iter().map(|frame| row[*frame])).collect::<Vec<f32>>()
    };
    let times = match kept.is_empty() || heads == 0 {
        true => vec![0; places.len()],
        false => {
            let weights: Vec<f32> = places.iter().flat_map(of).collect();
            token_times(&weights, places.len(), heads, kept.len(), config.median_filter)
        }
    };
    // Time of a place, or of the next kept place, as an index into `kept`.
    let time = |place: usize| times[places.partition_point(|other| *other < place).min(places.len() - 1)];
    let (mut found, mut dropped) = (Vec::with_capacity(spelled.len()), 0);
    for word in spelled {
        let span = word.span();
        if kept.is_empty() || !near_speech.get(span.start).copied().unwrap_or(false) {
            dropped += 1;
            continue;
        }
        let sum: f32 = word.tokens.iter().filter_map(|token| decoded.confidences.get(*token)).sum();
        let (start, end) = longest_run(&kept, time(span.start), time(span.end));
        found.push(Word {
            confidence: sum / word.tokens.len().max(1) as f32,
            text: word.text.trim().to_owned(),
            start: (start as u64 * FRAME_MS).min(end_ms),
            end: (end as u64 * FRAME_MS).min(end_ms),
            speaker: None,
        });
    }
    Ok((Spoken { words: found, language: code.map(str::to_owned), ..Spoken::default() }, dropped))
}

/// A flag for each token: true if the text between the timestamps around it lies near speech.
fn tokens_near_speech(
    special: &SpecialTokens,
    tokens: &[u32],
    end_ms: u64,
    near: impl Fn(u64, u64) -> bool,
) -> Vec<bool> {
    let time = |token: u32| u64::from(token - special.first_timestamp()) * FRAME_MS;
    let mut near_speech = vec![true; tokens.len()];
    let (mut from, mut at) = (0, 0);
    while at < tokens.len() {
        if special.is_timestamp(tokens[at]) {
            from = time(tokens[at]);
            at += 1;
            continue;
        }
        let next = tokens[at..].iter().position(|token| special.is_timestamp(*token)).map(|length| at + length);
        let to = next.map_or(end_ms, |next| time(tokens[next]));
        near_speech[at..next.unwrap_or(tokens.len())].fill(near(from, to.max(from)));
        at = next.unwrap_or(tokens.len());
    }
    near_speech
}

/// The longest run of consecutive frames of a word, which lies between two indexes into `kept`; the first of equal
/// runs.
fn longest_run(kept: &[usize], from: usize, to: usize) -> (usize, usize) {
    let (mut best, mut first) = (from..from, from);
    for at in from..to {
        let breaks = at + 1 == to || kept[at + 1] != kept[at] + 1;
        if breaks {
            if at + 1 - first > best.len() {
                best = first..at + 1;
            }
            first = at + 1;
        }
    }
    match best.is_empty() {
        true => (kept[from], kept[from]),
        false => (kept[best.start], kept[best.end - 1] + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_does_not_reach_over_a_pause() {
        let kept = [0, 1, 2, 3, 50, 51, 52];
        assert_eq!(longest_run(&kept, 1, 3), (1, 3));
        assert_eq!(longest_run(&kept, 2, 4), (2, 4), "it ends where the pause begins");
        assert_eq!(longest_run(&kept, 1, 6), (1, 4));
        assert_eq!(longest_run(&kept, 3, 6), (50, 52));
        assert_eq!(longest_run(&kept, 4, 4), (50, 50));
        assert_eq!(longest_run(&kept, 6, 6), (52, 52));
    }
}
