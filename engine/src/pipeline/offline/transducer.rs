//! Audio to words with a FastConformer checkpoint: decoded blocks, features, encoder steps, tokens, words; in constant
//! memory. The device's worker runs the encoder steps; this thread runs the other stages at the same time.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::progress::ProgressReport;
use super::unwritten::{Coverage, DOUBTFUL_MARGIN_MS};
use super::window_reader::WindowReader;
use crate::audio::{AudioStream, SAMPLE_RATE};
use crate::decoding::fusion::{BEAM, Fusion};
use crate::decoding::keyterms::{ExpectedTerms, Keyterms};
use crate::decoding::{Beam, Search, Token};
use crate::error::{Error, Result};
use crate::language::ENGLISH;
use crate::models::fastconformer::FastConformer;
use crate::options::TranscribeOptions;
use crate::pipeline::executors::device::{DeviceExecutor, StreamInput, StreamOutput, StreamRequest};
use crate::pipeline::executors::groups::BatchGroup;
use crate::pipeline::executors::transducer::{
    SearchPlacement, StepOutput, StepResult, TransducerInput, TransducerRequest,
};
use crate::scheduler::{Priority, Results, Scheduler, Stream};
use crate::text::lm::LanguageModel;
use crate::text::tokens::{Spoken, joined};
use crate::transcript::{Progress, Transcript};
use crate::vad::chunker::{Chunker, OVERLAP_MS, WindowLengths};
use crate::vad::seam::join;
use crate::vad::shared::SharedVad;
use crate::vad::speech_filter::{SpeechFilter, SpeechSpans};
use crate::vad::window::Window;

/// Input that is read ahead of the device: mel rows of a stream (27 s at 10 ms), and windows.
const ROWS_AHEAD: usize = 2_688;
const WINDOWS_AHEAD: usize = 8;
/// Mel rows that are sent to the worker together, half a step of it, as each sending wakes it.
const ROWS_TOGETHER: usize = 448;

/// Options and state of one transcription.
struct Transcription<'a> {
    keyterms: Option<Arc<Keyterms>>,
    fusion: Option<Fusion>,
    beam: usize,
    group: BatchGroup,
    /// Until the audio is read.
    detector: Option<SharedVad>,
    /// Number of words dropped because they are far from speech.
    dropped_words: usize,
    coverage: Coverage,
    progress: ProgressReport<'a>,
}

impl Transcription<'_> {
    /// Search on this thread: beam search with a language model. Without one the worker searches.
    fn search(&self) -> Option<Search<'_>> {
        self.fusion.as_ref().map(|fusion| Search::Beam(Beam { width: self.beam, fusion: Some(fusion) }))
    }

    /// Opens a stream on the worker.
    ///
    /// # Errors
    /// [`Error::Busy`] when there is no room.
    fn open(&self, worker: &Scheduler<DeviceExecutor>) -> Result<OpenStream> {
        let search = match self.fusion {
            Some(_) => SearchPlacement::OnCaller,
            None => SearchPlacement::OnWorker(self.keyterms.clone()),
        };
        let request = StreamRequest::Transducer(TransducerRequest { group: self.group.clone(), search });
        let (stream, results) = worker.open(request, Priority::Offline)?;
        Ok(OpenStream { stream, results })
    }
}

/// A recording on the worker.
struct OpenStream {
    stream: Stream<DeviceExecutor>,
    results: Results<StreamOutput>,
}

impl OpenStream {
    /// Sends input to the worker.
    ///
    /// # Errors
    /// [`Error::Busy`] when the queue is full.
    fn push(&self, input: TransducerInput) -> Result<()> {
        let pushed = self.stream.push(StreamInput::Transducer(input));
        pushed.map_err(|_| Error::Busy("too many recordings at once".into()))
    }

    fn finish(&mut self, last: Option<TransducerInput>) {
        self.stream.finish(last.map(StreamInput::Transducer));
    }

    /// Waits for the output of the next step; none after the last one.
    ///
    /// # Errors
    /// Errors of the device.
    fn next(&mut self) -> Result<Option<StepOutput>> {
        self.results.wait().map(|output| output.and_then(StreamOutput::transducer)).transpose()
    }
}

/// Transcribes audio to its end, by beam search if there is a language model. Drops words far from speech, or from
/// sound without a detector.
///
/// # Errors
/// Errors of decoding and of the device; [`Error::InvalidOption`] and [`Error::Language`] for options that the
/// checkpoint cannot serve; [`Error::Busy`] when the worker has no room.
pub(crate) fn transcribe(
    model: &Arc<FastConformer>,
    worker: &Scheduler<DeviceExecutor>,
    mut audio: AudioStream,
    options: &TranscribeOptions,
    language_model: Option<Arc<LanguageModel>>,
    detector: Option<SharedVad>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Transcript> {
    if model.attention().is_some() && (language_model.is_some() || options.beam.is_some_and(|beam| beam > 1)) {
        let message = format!("{} has greedy search, without a language model", model.config().class.name());
        return Err(Error::InvalidOption(message));
    }
    let vocabulary = model.vocabulary();
    let has_detector = detector.is_some();
    let language = match options.languages.as_slice() {
        [only] if model.attention().is_some() => options.language.as_deref().or(Some(only)),
        _ => options.language.as_deref(),
    };
    let terms = ExpectedTerms::new(&options.keyterms, options.medical_mode, language);
    let (keyterms, unwritable) = Keyterms::new(&terms, vocabulary)?;
    let fusion = language_model
        .map(|language_model| Fusion::new(language_model, options.fusion, vocabulary, keyterms.clone(), &terms));
    let mut run = Transcription {
        keyterms: keyterms.map(Arc::new),
        fusion,
        beam: options.beam.unwrap_or(BEAM),
        group: BatchGroup {
            model: model.clone(),
            look_ahead: model.look_ahead(options.look_ahead_ms)?,
            language: model.language_slot(language, options.translate)?,
        },
        detector,
        dropped_words: 0,
        coverage: Coverage::default(),
        progress: ProgressReport::new(progress, &audio, options),
    };
    let mut spoken = if model.config().class.is_streaming() {
        transcribe_stream(model, worker, &mut audio, &mut run)?
    } else {
        transcribe_windows(model, worker, &mut audio, &mut run)?
    };
    model.emission_delay(run.group.look_ahead).correct(&mut spoken.words);
    if has_detector {
        let dropped = run.coverage.drop_doubtful(&mut spoken.words);
        if dropped > 0 {
            run.dropped_words += dropped;
            spoken.text = joined(&spoken.words);
        }
    }
    model.calibration().apply(&mut spoken.words);
    let confidence = spoken.confidence();
    let english = || model.vocabulary().is_english().then(|| ENGLISH.to_owned());
    let warnings = audio
        .warnings()
        .into_iter()
        .chain(dropped_words_warning(run.dropped_words))
        .chain(has_detector.then(|| run.coverage.warning(&spoken.words)).flatten())
        .chain(unwritable.into_iter().map(|term| format!("the model cannot write the keyterm {term:?}: left out")))
        .collect();
    Ok(Transcript {
        text: spoken.text,
        words: spoken.words,
        utterances: None,
        confidence,
        language_code: match options.translate {
            true => Some(ENGLISH.to_owned()),
            false => spoken.language.or_else(|| language.map(str::to_owned)).or_else(english),
        },
        audio_duration_sec: audio.position_s(),
        model: options.model.clone().unwrap_or_default(),
        warnings,
    })
}

/// Transcribes with a cache-aware checkpoint: one stream from the first sample to the last.
fn transcribe_stream(
    model: &FastConformer,
    worker: &Scheduler<DeviceExecutor>,
    audio: &mut AudioStream,
    run: &mut Transcription,
) -> Result<Spoken> {
    let mut mel = model.preprocessor().stream()?;
    let mels = model.config().encoder.num_mel_bins;
    let row_s = model.preprocessor().hop_ms() / 1000.0;
    let mut open = run.open(worker)?;
    let mut searching = model.searching(1)?;
    let mut filter = SpeechFilter::new(run.detector.take())?;
    let mut tokens: Vec<Token> = Vec::new();
    let (mut pushed, mut processed) = (0, 0);
    let mut ended = false;
    // Blocks in which speech has not been detected yet.
    let mut unheard: Vec<Vec<f32>> = Vec::new();
    loop {
        let mut rows: Vec<f32> = Vec::new();
        while !ended && pushed - processed < ROWS_AHEAD {
            match audio.next_block()? {
                Some(block) => {
                    let new = mel.push(&block);
                    pushed += new.len() / mels;
                    rows.extend(new);
                    unheard.push(block);
                    if rows.len() >= ROWS_TOGETHER * mels {
                        open.push(TransducerInput::Rows(std::mem::take(&mut rows)))?;
                    }
                }
                None => {
                    let new = mel.finish();
                    pushed += new.len() / mels;
                    rows.extend(new);
                    open.finish(Some(TransducerInput::Rows(std::mem::take(&mut rows))));
                    ended = true;
                }
            }
        }
        if !rows.is_empty() {
            open.push(TransducerInput::Rows(rows))?;
        }
        // After the rows are sent, so that the device has a step while speech is detected.
        for block in unheard.drain(..) {
            filter.push(&block)?;
        }
        let Some(output) = open.next()? else { break };
        processed += output.rows;
        for result in output.results {
            match (result, run.search()) {
                (StepResult::Tokens(new), _) => tokens.extend(new),
                (StepResult::Frames(frames), Some(search)) => {
                    tokens.extend(model.search(&mut searching, &frames, &[search])?.into_iter().flatten());
                }
                (StepResult::Frames(_), None) => return Err(Error::internal("frames to search without a search")),
            }
        }
        run.progress.report((processed as f64 * row_s).min(audio.position_s()), &[])?;
    }
    if let Some(search) = run.search() {
        tokens.extend(model.finish_search(searching, &[search]).into_iter().flatten());
    }
    drop_far_tokens(model, &filter.finish()?, 0, &mut tokens, run);
    let end_ms = (audio.position_s() * 1000.0).round() as u64;
    Ok(model.vocabulary().words(&tokens, model.frame_ms(), end_ms))
}

/// Transcribes with a whole-utterance checkpoint: windows cut at silence, several at once.
fn transcribe_windows(
    model: &FastConformer,
    worker: &Scheduler<DeviceExecutor>,
    audio: &mut AudioStream,
    run: &mut Transcription,
) -> Result<Spoken> {
    let has_detector = run.detector.is_some();
    let mut reader = WindowReader::new(audio, Chunker::new(run.detector.take(), WindowLengths::UTTERANCES));
    let mut open = run.open(worker)?;
    let mut waiting: VecDeque<Window> = VecDeque::new();
    let mut spoken = Spoken::default();
    loop {
        while !reader.has_ended() && waiting.len() < WINDOWS_AHEAD {
            for window in reader.read()? {
                open.push(TransducerInput::Window(window.samples.clone()))?;
                waiting.push_back(window);
            }
            if reader.has_ended() {
                open.finish(None);
            }
        }
        let Some(output) = open.next()? else { break };
        for result in output.results {
            let mut tokens = match (result, run.search()) {
                (StepResult::Tokens(tokens), _) => tokens,
                (StepResult::Frames(frames), Some(search)) => {
                    model.search_utterances(&frames, &[search])?.into_iter().flatten().collect()
                }
                (StepResult::Frames(_), None) => return Err(Error::internal("frames to search without a search")),
            };
            let Some(window) = waiting.pop_front() else {
                return Err(Error::internal("more results than windows"));
            };
            drop_far_tokens(model, &window.speech()?, window.start_ms, &mut tokens, run);
            let length_ms = window.samples.len() as u64 * 1000 / u64::from(SAMPLE_RATE);
            let part = model.vocabulary().words(&tokens, model.frame_ms(), length_ms);
            join(&mut spoken, part, &window);
            let end_ms = window.start_ms + length_ms;
            let settled_ms = waiting.front().map_or_else(|| end_ms.saturating_sub(OVERLAP_MS), |next| next.start_ms);
            // Speech that follows may keep a word.
            let settled_ms = settled_ms.saturating_sub(if has_detector { DOUBTFUL_MARGIN_MS } else { 0 });
            let mut words = run.progress.new_words(&spoken, settled_ms).to_vec();
            model.emission_delay(run.group.look_ahead).correct(&mut words);
            if has_detector {
                run.coverage.drop_doubtful(&mut words);
            }
            run.progress.report(end_ms as f64 / 1000.0, &words)?;
        }
    }
    Ok(spoken)
}

/// Drops the tokens far from speech, and counts their words. The audio begins at `start_ms`.
fn drop_far_tokens(
    model: &FastConformer,
    speech: &SpeechSpans,
    start_ms: u64,
    tokens: &mut Vec<Token>,
    run: &mut Transcription,
) {
    run.coverage.add(speech, start_ms);
    let dropped = speech.keep_near(tokens, model.frame_ms());
    run.dropped_words += model.vocabulary().words(&dropped, model.frame_ms(), u64::MAX).words.len();
}

/// Warning about dropped words.
pub(crate) fn dropped_words_warning(words: usize) -> Option<String> {
    match words {
        0 => None,
        1 => Some("1 word where no speech was detected was left out".into()),
        _ => Some(format!("{words} words where no speech was detected were left out")),
    }
}
