//! Live transcription: samples in as they are spoken, turns of text out while they are spoken.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use auricle_kernels::spectral::logmel::LogMelStream;
use futures_core::Stream;

use super::reading::OfflineModel;
use super::second_pass::{FirstPass, SecondPass};
use super::turns::{LiveEvent, LiveOutput, Turns};
use crate::audio::{Leveler, Resampler, SAMPLE_RATE, sanitize};
use crate::decoding::fusion::{self, Fusion};
use crate::decoding::keyterms::{ExpectedTerms, Keyterms};
use crate::error::{Error, Result};
use crate::models::fastconformer::FastConformer;
use crate::models::silero::Silero;
use crate::models::smart_turn::SmartTurn;
use crate::options::{ListenOptions, SAMPLE_RATES};
use crate::pipeline::checkpoint::Checkpoint;
use crate::pipeline::executors::device::{DeviceExecutor, StreamInput, StreamOutput, StreamRequest};
use crate::pipeline::executors::groups::BatchGroup;
use crate::pipeline::executors::live::backlog::{Backlog, BacklogReporter};
use crate::pipeline::executors::live::{LiveAudio, LiveRequest, StepOutput, TurnQuestion};
use crate::scheduler::{self, Priority, Results, Scheduler};
use crate::text::lm::LanguageModel;
use crate::vad::stream::VadStream;

/// Audio that [`LiveInput::send`] lets wait for the device, ms.
pub const MAX_AHEAD_MS: u64 = 5_000;

/// Input of a live session. Dropped before [`LiveInput::finish`], it ends the session at once and its remaining events
/// are lost.
pub struct LiveInput {
    stream: scheduler::Stream<DeviceExecutor>,
    resampler: Resampler,
    leveler: Leveler,
    /// None without a first pass.
    mel: Option<LogMelStream>,
    /// It runs on the thread that pushes: the worker's time is the models'.
    detector: Option<VadStream<Arc<Silero>>>,
    has_turn_detector: bool,
    /// First byte of a sample that a push has split.
    odd_byte: Option<u8>,
    /// Audio for which the queue had no room.
    unsent: Option<LiveAudio>,
    samples: u64,
    finished: bool,
    backlog: Arc<Backlog>,
}

/// Events of a live session, a [`Stream`] of them.
pub struct LiveEvents {
    results: Results<StreamOutput>,
    /// The first pass; none where the second alone writes.
    first: Option<(Arc<FastConformer>, Turns)>,
    second: Option<SecondPass>,
    ready: VecDeque<LiveOutput>,
    backlog: Arc<Backlog>,
}

/// The models of a session: the first pass, the second, or both.
pub(crate) struct SessionModels {
    /// The streaming model.
    pub first: Option<StreamingModel>,
    /// The offline model. It needs a detector.
    pub second: Option<Arc<Checkpoint>>,
    /// Tells speech from other sounds.
    pub detector: Option<Arc<Silero>>,
    /// Tells whether a speaker has finished.
    pub turn_detector: Option<Arc<SmartTurn>>,
}

/// The model of a first pass.
pub(crate) struct StreamingModel {
    /// The checkpoint.
    pub model: Arc<FastConformer>,
    /// Its longest look-ahead, ms.
    pub look_ahead_ms: Option<u32>,
    /// Joins its search.
    pub language_model: Option<Arc<LanguageModel>>,
    /// The session's language, or the only one that the checkpoint knows.
    pub language: Option<String>,
}

/// Opens a session on the worker.
///
/// # Errors
/// [`Error::InvalidOption`], [`Error::Language`] for options; [`Error::Busy`] when there is no room.
pub(crate) fn open(
    scheduler: &Scheduler<DeviceExecutor>,
    models: SessionModels,
    options: &ListenOptions,
) -> Result<(LiveInput, LiveEvents)> {
    if !SAMPLE_RATES.contains(&options.sample_rate) {
        return Err(Error::InvalidOption(format!(
            "the sample rate must be {} to {} Hz, not {}",
            SAMPLE_RATES.start(),
            SAMPLE_RATES.end(),
            options.sample_rate
        )));
    }
    let SessionModels { first, second, detector, turn_detector } = models;
    let second = second.filter(|_| detector.is_some());
    let offline = second.map(|checkpoint| OfflineModel::new(&checkpoint, options)).transpose()?;
    // Words of a language that the first pass lacks are known by a model that finds languages.
    let is_spoken = |first: &StreamingModel| match (&options.language, &first.language, &offline) {
        (None, Some(only), Some(offline)) => offline.token(only).is_some(),
        _ => true,
    };
    let first = first.filter(is_spoken);
    let mut rules = options.turns;
    if detector.is_none() {
        // Without a detector only blanks indicate silence.
        rules.blank_ms = rules.silence_ms;
    }
    if turn_detector.is_none() {
        rules.finished_silence_ms = None;
    }
    let backlog = Arc::new(Backlog::default());
    let has_turn_detector = turn_detector.is_some();
    let mut request = LiveRequest {
        group: None,
        second_pass: offline.as_ref().map(OfflineModel::lengths),
        endpointing: rules,
        has_detector: detector.is_some(),
        turn_detector,
        keyterms: None,
        fusion: None,
        beam: options.beam.unwrap_or(fusion::BEAM),
        backlog: BacklogReporter::new(backlog.clone()),
    };
    let (mut mel, mut writes) = (None, None);
    let mut passes = FirstPass::None;
    if let Some(StreamingModel { model, look_ahead_ms, language_model, language }) = first {
        if !model.config().class.is_streaming() {
            return Err(Error::InvalidOption("the checkpoint transcribes whole recordings only, not live".into()));
        }
        let look_ahead = model.look_ahead(look_ahead_ms)?;
        request.group = Some(BatchGroup {
            model: model.clone(),
            look_ahead,
            language: model.language_slot(language.as_deref(), false)?,
        });
        let terms = ExpectedTerms::new(&options.keyterms, options.medical_mode, language.as_deref());
        let (keyterms, _) = Keyterms::new(&terms, model.vocabulary())?;
        request.fusion = language_model.map(|language_model| {
            Arc::new(Fusion::new(language_model, options.fusion, model.vocabulary(), keyterms.clone(), &terms))
        });
        request.keyterms = keyterms.map(Arc::new);
        mel = Some(model.preprocessor().stream()?);
        let only = offline.as_ref().zip(language.as_deref()).and_then(|(offline, code)| offline.token(code));
        let within = Duration::from_millis(options.formatted_within_ms.into());
        passes = FirstPass::Writes { within, only, refreshed: options.refreshed_partials };
        let turns = Turns::new(language, model.emission_delay(look_ahead), options);
        writes = Some((model, turns));
    }
    let resampler = Resampler::live(options.sample_rate)?;
    let (stream, results) = scheduler.open(StreamRequest::Live(request), Priority::Live)?;
    let input = LiveInput {
        stream,
        resampler,
        leveler: Leveler::live(),
        mel,
        detector: detector.map(VadStream::new),
        has_turn_detector,
        odd_byte: None,
        unsent: None,
        samples: 0,
        finished: false,
        backlog: backlog.clone(),
    };
    let second = offline.map(|offline| SecondPass::new(offline, scheduler.opener(), passes, options));
    Ok((input, LiveEvents { results, first: writes, second, ready: VecDeque::new(), backlog }))
}

impl LiveInput {
    /// Pushes any number of samples, -1 to 1, and waits until at most [`MAX_AHEAD_MS`] of audio wait for the device. Events
    /// have to be read at the same time: a session whose events nobody reads stands still.
    ///
    /// # Errors
    /// As [`LiveInput::push`].
    pub async fn send(&mut self, samples: &[f32]) -> Result<()> {
        self.push(samples)?;
        self.caught_up(MAX_AHEAD_MS).await;
        Ok(())
    }

    /// [`LiveInput::send`] for a thread that may block.
    ///
    /// # Errors
    /// As [`LiveInput::push`].
    pub fn blocking_send(&mut self, samples: &[f32]) -> Result<()> {
        cubecl::future::block_on(self.send(samples))
    }

    /// Waits until at most `ahead_ms` of pushed audio wait for the device, or the session has ended. It may be dropped and
    /// called again at any time.
    pub async fn caught_up(&mut self, ahead_ms: u64) {
        loop {
            // Both count from here on: nothing that happens between the look and the wait is missed.
            let backlog = self.backlog.clone();
            let (mut room, mut change) = (pin!(self.stream.room()), pin!(backlog.change()));
            change.as_mut().enable();
            let room_again = self.send_waiting();
            let over = backlog.has_ended() || self.stream.worker_ended();
            if over || (room_again && self.waiting_ms() <= ahead_ms) {
                return;
            }
            let either = |context: &mut Context<'_>| match room.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => change.as_mut().poll(context),
            };
            poll_fn(either).await;
        }
    }

    /// [`LiveInput::caught_up`] for a thread that may block.
    pub fn blocking_caught_up(&mut self, ahead_ms: u64) {
        cubecl::future::block_on(self.caught_up(ahead_ms));
    }

    /// Pushes any number of samples, -1 to 1, without waiting; NaN counts as 0. Samples that the device has not
    /// processed take memory ([`LiveInput::waiting_ms`]), so a caller that pushes faster than real time waits
    /// ([`LiveInput::send`], [`LiveInput::caught_up`]). After [`LiveInput::finish`], samples are ignored.
    ///
    /// # Errors
    /// [`Error::UnsupportedMedia`] when the samples cannot be brought to 16 kHz.
    pub fn push(&mut self, samples: &[f32]) -> Result<()> {
        self.push_and_detect(samples).map(drop)
    }

    /// [`LiveInput::push`], which also returns the speech probability, 0 to 1, of every chunk of 32 ms that the samples complete. There
    /// are none without a detector.
    ///
    /// # Errors
    /// As [`LiveInput::push`].
    pub fn push_and_detect(&mut self, samples: &[f32]) -> Result<Vec<f32>> {
        if self.finished {
            return Ok(Vec::new());
        }
        let mut input = self.unsent.take().unwrap_or_default();
        let before = input.samples.len();
        let samples: Vec<f32> = samples.iter().copied().map(sanitize).collect();
        let mut resampled = Vec::new();
        self.resampler.push(&samples, &mut resampled)?;
        self.leveler.push(&resampled, &mut input.samples);
        if let Some(mel) = &mut self.mel {
            input.mel.extend(mel.push(&input.samples[before..]));
        }
        let detected = match &mut self.detector {
            Some(detector) => detector.push(&input.samples[before..])?,
            None => Vec::new(),
        };
        input.probabilities.extend_from_slice(&detected);
        self.count(input.samples.len() - before);
        if !input.samples.is_empty() || !input.cuts.is_empty() || !input.questions.is_empty() {
            self.unsent = Some(input);
        }
        self.send_waiting();
        Ok(detected)
    }

    /// Ends the current turn here, whatever the rules of its end say. [`LiveOutput::Settled`] comes when everything that was pushed is
    /// final, also if there was no turn.
    pub fn end_turn(&mut self) {
        if !self.finished {
            let input = self.unsent.get_or_insert_default();
            input.cuts.push(input.probabilities.len());
            self.send_waiting();
        }
    }

    /// Asks the turn detector whether the speaker has finished, at the end of all that was pushed, in a turn whose audio is `turn_ms` long.
    /// [`LiveOutput::Judged`] is the answer; answers come in the order of the questions. False if there is none to ask.
    pub fn judge_turn(&mut self, turn_ms: u64) -> bool {
        if self.finished || !self.has_turn_detector {
            return false;
        }
        let input = self.unsent.get_or_insert_default();
        let turn = usize::try_from(turn_ms).unwrap_or(usize::MAX).saturating_mul(SAMPLE_RATE as usize / 1000);
        input.questions.push(TurnQuestion { at: input.samples.len(), turn });
        self.send_waiting();
        true
    }

    /// True if a turn detector detects whether the speaker has finished.
    pub fn has_turn_detector(&self) -> bool {
        self.has_turn_detector
    }

    /// True if a detector tells speech from other sounds.
    pub fn has_detector(&self) -> bool {
        self.detector.is_some()
    }

    /// Sends audio for which the device's queue had no room; false if there is still none.
    fn send_waiting(&mut self) -> bool {
        if let Some(input) = self.unsent.take() {
            self.unsent = match self.stream.push(StreamInput::Live(input)) {
                Err(StreamInput::Live(input)) => Some(input),
                _ => None,
            };
        }
        self.unsent.is_none()
    }

    /// True if the device's queue had no room for the last audio: [`LiveInput::caught_up`] sends it.
    pub fn is_refused(&self) -> bool {
        self.unsent.is_some()
    }

    /// Pushes 16-bit samples, little-endian; a push may end within a sample.
    ///
    /// # Errors
    /// As [`LiveInput::push`].
    pub fn push_pcm16(&mut self, bytes: &[u8]) -> Result<()> {
        let joined = self.odd_byte.take().into_iter().chain(bytes.iter().copied());
        let mut samples = Vec::with_capacity(bytes.len() / 2 + 1);
        let mut low = None;
        for byte in joined {
            match low.take() {
                None => low = Some(byte),
                Some(low) => samples.push(f32::from(i16::from_le_bytes([low, byte])) / 32_768.0),
            }
        }
        self.odd_byte = low;
        self.push(&samples)
    }

    /// Ends the input: the current turn is completed, then the events end.
    ///
    /// # Errors
    /// As [`LiveInput::push`].
    pub fn finish(&mut self) -> Result<()> {
        if self.finished {
            return Ok(());
        }
        self.finished = true;
        let mut rest = self.unsent.take().unwrap_or_default();
        let before = rest.samples.len();
        let mut resampled = Vec::new();
        self.resampler.finish(&mut resampled)?;
        self.leveler.push(&resampled, &mut rest.samples);
        if let Some(mel) = &mut self.mel {
            rest.mel.extend(mel.push(&rest.samples[before..]));
            rest.mel.extend(mel.finish());
        }
        if let Some(mut detector) = self.detector.take() {
            rest.probabilities.extend(detector.push(&rest.samples[before..])?);
            rest.probabilities.extend(detector.finish()?);
        }
        self.count(rest.samples.len() - before);
        self.stream.finish(Some(StreamInput::Live(rest)));
        Ok(())
    }

    /// Audio that is pushed and not processed yet, ms.
    pub fn waiting_ms(&self) -> u64 {
        self.backlog.waiting_ms()
    }

    fn count(&mut self, samples: usize) {
        self.samples += samples as u64;
        self.backlog.pushed(self.samples * 1000 / u64::from(SAMPLE_RATE));
    }
}

impl LiveEvents {
    /// The next event; none at the end of the session.
    ///
    /// # Errors
    /// [`Error::Device`] and the like end the session.
    pub async fn next(&mut self) -> Option<Result<LiveEvent>> {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// [`LiveEvents::next`], with the answers to [`LiveInput::end_turn`] between the events.
    ///
    /// # Errors
    /// As [`LiveEvents::next`].
    pub async fn next_output(&mut self) -> Option<Result<LiveOutput>> {
        poll_fn(|context| self.poll_output(context)).await
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<LiveEvent>>> {
        loop {
            return Poll::Ready(match ready!(self.poll_output(context)) {
                Some(Ok(LiveOutput::Event(event))) => Some(Ok(event)),
                Some(Ok(LiveOutput::Settled | LiveOutput::Judged(_))) => continue,
                Some(Err(error)) => Some(Err(error)),
                None => None,
            });
        }
    }

    fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<LiveOutput>>> {
        loop {
            if let Some(output) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(output)));
            }
            if let Some(second) = &mut self.second {
                match second.poll(context) {
                    Poll::Ready(Ok(outputs)) => {
                        self.ready.extend(outputs);
                        continue;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                    Poll::Pending if second.is_closing() => return Poll::Pending,
                    Poll::Pending => {}
                }
            }
            let Some(output) = ready!(self.results.poll_next(context)) else { return Poll::Ready(None) };
            if let Err(error) = output.and_then(StreamOutput::live).and_then(|output| self.take(output)) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    /// Takes the output of a step of the session's stream.
    fn take(&mut self, mut output: StepOutput) -> Result<()> {
        let (windows, ended) = (std::mem::take(&mut output.windows), output.ended);
        let marks =
            (0..output.settled).map(|_| LiveOutput::Settled).chain(output.judged.map(LiveOutput::Judged)).collect();
        let events = match &mut self.first {
            Some((model, turns)) => turns.take(output, model),
            None => Vec::new(),
        };
        match &mut self.second {
            Some(second) => {
                windows.into_iter().try_for_each(|window| second.follow(window))?;
                self.ready.extend(second.take(events, ended, marks));
            }
            None => self.ready.extend(events.into_iter().map(LiveOutput::Event).chain(marks)),
        }
        Ok(())
    }

    /// As [`LiveInput::waiting_ms`].
    pub fn waiting_ms(&self) -> u64 {
        self.backlog.waiting_ms()
    }
}

impl Stream for LiveEvents {
    type Item = Result<LiveEvent>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(context)
    }
}
