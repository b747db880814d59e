//! Audio to words for checkpoints that write windows as text, token by token: windows cut at silence, their tokens, their
//! words with the times at which the model looked.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::transducer::{Report, left_out};
use super::whisper_executor::{Language, SAMPLES_PER_FRAME, TranscribedWindow, WhisperInput, WhisperRequest};
use crate::audio::{AudioStream, SAMPLE_RATE};
use crate::error::{Error, Result};
use crate::models::silero::Silero;
use crate::models::whisper::{Previous, SpecialTokens, Task, Whisper, token_times};
use crate::options::TranscribeOptions;
use crate::pipeline::executor::{DeviceExecutor, StreamInput, StreamOutput, StreamRequest};
use crate::scheduler::{Priority, Results, Scheduler, Stream};
use crate::text::Word;
use crate::text::tokens::{Spoken, joined};
use crate::transcript::{Progress, Transcript};
use crate::vad::chunker::{Chunker, Window, WindowFollower, join};

/// How far ahead of the device a recording is read.
const WINDOWS_AHEAD: usize = 16;
/// Milliseconds of an encoder frame.
const FRAME_MS: u64 = 20;
/// What belongs to speech on both sides of what the detector heard.
const MARGIN_MS: u64 = 200;
/// What a window that stands in part covers at least.
const LEAST_MS: u64 = 1000;

/// Transcribes audio to its end; words count where the detector heard speech, or without one wherever it is not silent.
///
/// # Errors
/// What decoding or the device reports; [`Error::InvalidOption`] and [`Error::Language`] for options that the checkpoint
/// cannot serve; [`Error::Busy`] when the worker has no room.
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
    let expected = expected(model, &options.keyterms)?;
    let open = worker.open(StreamRequest::Whisper(request), Priority::Offline)?;
    let report = Report::new(progress, &audio);
    let mut text = Text { model, spoken: Spoken::default(), guess: None, unheard: 0, report };
    if options.sequential {
        one_after_another(open, &mut audio, detector, expected, &mut text)?;
    } else {
        side_by_side(open, &mut audio, detector, &expected, &mut text)?;
    }
    let Text { spoken, guess, unheard, .. } = text;
    let confidence = spoken.confidence();
    Ok(Transcript {
        text: joined(&spoken.words),
        words: spoken.words,
        confidence,
        language_code: options.language.clone().or(spoken.language).or(guess),
        audio_duration_sec: audio.position_s(),
        model: options.model.clone(),
        warnings: audio.warnings().into_iter().chain(left_out(unheard)).collect(),
    })
}

/// What was written so far.
struct Text<'a> {
    model: &'a Whisper,
    spoken: Spoken,
    /// The language of the first window in which nothing was said.
    guess: Option<String>,
    /// Words left out because no speech was heard near them.
    unheard: usize,
    report: Report<'a>,
}

impl Text<'_> {
    fn add(&mut self, written: &TranscribedWindow, window: &Window) -> Result<()> {
        let (mut part, none) = words(self.model, written, window)?;
        self.unheard += none;
        if part.words.is_empty() {
            let language = part.language.take();
            self.guess = self.guess.take().or(language);
        }
        join(&mut self.spoken, part, window);
        self.report.at(window.start_ms as f64 / 1000.0 + window.samples.len() as f64 / f64::from(SAMPLE_RATE))
    }
}

type Open = (Stream<DeviceExecutor>, Results<StreamOutput>);

fn push(stream: &mut Stream<DeviceExecutor>, window: &Window, previous: Vec<u32>) -> Result<()> {
    let input = WhisperInput { samples: window.samples.clone(), previous, spoken: !window.heard()?.is_empty() };
    stream.push(StreamInput::Whisper(input)).map_err(|_| Error::Busy("too many recordings at once".into()))
}

/// Windows cut at silence, several at a time.
fn side_by_side(
    (mut stream, mut results): Open,
    audio: &mut AudioStream,
    detector: Option<&Silero>,
    expected: &[u32],
    text: &mut Text,
) -> Result<()> {
    let mut chunker = Chunker::new(detector);
    let mut waiting: VecDeque<Window> = VecDeque::new();
    // Windows are done in any order.
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
                push(&mut stream, &window, expected.to_vec())?;
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
            text.add(&written, &window)?;
        }
    }
}

/// Windows one after another, each from where the one before stopped, and told what was said there.
fn one_after_another(
    (mut stream, mut results): Open,
    audio: &mut AudioStream,
    detector: Option<&Silero>,
    expected: Vec<u32>,
    text: &mut Text,
) -> Result<()> {
    let config = text.model.config();
    let mut follower = WindowFollower::new(detector);
    let mut previous = Previous::new(expected, config.positions / 2 - 1);
    loop {
        while follower.is_hungry() {
            match audio.next_block()? {
                Some(block) => follower.push(&block)?,
                None => follower.finish()?,
            }
        }
        let Some(mut window) = follower.window() else { break };
        push(&mut stream, &window, previous.tokens().to_vec())?;
        let Some(output) = results.wait() else {
            return Err(Error::internal("the results ended before the windows"));
        };
        for mut written in output?.whisper()? {
            // One that hardly moves on is done with as it is: a checkpoint could go on so without end.
            let (kept, frames) = match config.special.settled(&written.said.tokens) {
                (kept, Some(frames)) if frames as u64 * FRAME_MS >= LEAST_MS => (kept, frames),
                _ => (written.said.tokens.len(), usize::MAX),
            };
            written.said.truncate(kept);
            window.truncate(frames.saturating_mul(SAMPLES_PER_FRAME));
            previous.add(&written.said.tokens, written.temperature);
            text.add(&written, &window)?;
            follower.pass(window.samples.len());
        }
    }
    stream.finish(None);
    Ok(())
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
fn expected(model: &Whisper, terms: &[String]) -> Result<Vec<u32>> {
    let terms: Vec<&str> = terms.iter().map(|term| term.trim()).filter(|term| !term.is_empty()).collect();
    if terms.is_empty() { Ok(Vec::new()) } else { model.vocabulary().encode(&format!(" {}.", terms.join(", "))) }
}

/// The words of a window, their times from its start, and how many there were besides where nobody spoke.
///
/// The checkpoint's own timestamps tell which of its sentences lie where something was heard; the others are none. Where the
/// words of those that are kept were said is looked for in what was heard alone: attention that strays into a pause would
/// take words along.
fn words(model: &Whisper, written: &TranscribedWindow, window: &Window) -> Result<(Spoken, usize)> {
    let (config, said) = (model.config(), &written.said);
    let heard = window.heard()?;
    let code = config.special.language(written.language);
    let end_ms = window.samples.len() as u64 * 1000 / u64::from(SAMPLE_RATE);
    let spelled = model.vocabulary().words(&said.tokens, code.unwrap_or("en"));
    let (rows, heads) = (said.tokens.len() + 1, config.alignment_heads.len());
    let frames = said.weights.len() / (rows * heads.max(1));
    // What stands of a window may end before what was looked at.
    let kept = heard.frames(frames.min(window.samples.len().div_ceil(SAMPLES_PER_FRAME)), FRAME_MS, MARGIN_MS);
    let spoken = spoken_tokens(&config.special, &said.tokens, end_ms, |from, to| heard.is_near(from as f64, to as f64));
    // The end is where the last word ends.
    let places: Vec<usize> = (0..rows).filter(|place| spoken.get(*place).copied().unwrap_or(true)).collect();
    let of = |place: &usize| {
        let rows = said.weights[place * heads * frames..][..heads * frames].chunks_exact(frames.max(1));
        rows.flat_map(|row| kept.iter().map(|frame| row[*frame])).collect::<Vec<f32>>()
    };
    let times = match kept.is_empty() || heads == 0 {
        true => vec![0; places.len()],
        false => {
            let weights: Vec<f32> = places.iter().flat_map(of).collect();
            token_times(&weights, places.len(), heads, kept.len(), config.median_filter)
        }
    };
    // Of a place, or of the next one that is kept: a number in `kept`.
    let time = |place: usize| times[places.partition_point(|other| *other < place).min(places.len() - 1)];
    let (mut found, mut unheard) = (Vec::with_capacity(spelled.len()), 0);
    for word in spelled {
        let span = word.span();
        if kept.is_empty() || !spoken.get(span.start).copied().unwrap_or(false) {
            unheard += 1;
            continue;
        }
        let sum: f32 = word.tokens.iter().filter_map(|token| said.confidences.get(*token)).sum();
        let (start, end) = in_one_piece(&kept, time(span.start), time(span.end));
        found.push(Word {
            confidence: sum / word.tokens.len().max(1) as f32,
            text: word.text.trim().to_owned(),
            start: (start as u64 * FRAME_MS).min(end_ms),
            end: (end as u64 * FRAME_MS).min(end_ms),
        });
    }
    Ok((Spoken { words: found, language: code.map(str::to_owned), ..Spoken::default() }, unheard))
}

/// For each token whether it belongs to what was said where something was heard: stretches of text between timestamps.
fn spoken_tokens(special: &SpecialTokens, tokens: &[u32], end_ms: u64, near: impl Fn(u64, u64) -> bool) -> Vec<bool> {
    let time = |token: u32| u64::from(token - special.first_timestamp()) * FRAME_MS;
    let mut spoken = vec![true; tokens.len()];
    let (mut from, mut at) = (0, 0);
    while at < tokens.len() {
        if special.is_timestamp(tokens[at]) {
            from = time(tokens[at]);
            at += 1;
            continue;
        }
        let next = tokens[at..].iter().position(|token| special.is_timestamp(*token)).map(|length| at + length);
        let to = next.map_or(end_ms, |next| time(tokens[next]));
        spoken[at..next.unwrap_or(tokens.len())].fill(near(from, to.max(from)));
        at = next.unwrap_or(tokens.len());
    }
    spoken
}

/// The frames of a word from one of the kept ones to another, without what is not kept between them: the longest piece, the
/// first of equals.
fn in_one_piece(kept: &[usize], from: usize, to: usize) -> (usize, usize) {
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
        assert_eq!(in_one_piece(&kept, 1, 3), (1, 3));
        assert_eq!(in_one_piece(&kept, 2, 4), (2, 4), "it ends where the pause begins");
        assert_eq!(in_one_piece(&kept, 1, 6), (1, 4));
        assert_eq!(in_one_piece(&kept, 3, 6), (50, 52));
        assert_eq!(in_one_piece(&kept, 4, 4), (50, 50));
        assert_eq!(in_one_piece(&kept, 6, 6), (52, 52));
    }
}
