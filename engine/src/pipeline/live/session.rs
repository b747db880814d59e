//! Live transcription: samples in as they are spoken, turns of text out while they go on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use auricle_kernels::logmel::LogMelStream;

use super::slot::{LiveAudio, LiveRequest, StepOutput};
use super::turns::{LiveEvent, Turns};
use crate::audio::{Resampler, SAMPLE_RATE, sanitize};
use crate::decoding::fusion::{self, Fusion};
use crate::error::{Error, Result};
use crate::models::fastconformer::FastConformer;
use crate::options::{ListenOptions, SAMPLE_RATES};
use crate::pipeline::executor::{DeviceExecutor, StreamInput, StreamOutput, StreamRequest};
use crate::pipeline::groups::BatchGroup;
use crate::scheduler::{Priority, Results, Scheduler, Stream};
use crate::text::lm::LanguageModel;

/// How much of a session's audio was pushed and is dealt with, ms.
#[derive(Debug, Default)]
struct Backlog {
    pushed: AtomicU64,
    heard: AtomicU64,
}

impl Backlog {
    fn waiting_ms(&self) -> u64 {
        self.pushed.load(Ordering::Relaxed).saturating_sub(self.heard.load(Ordering::Relaxed))
    }
}

/// The way into a session. Dropped before it is finished, it ends the session at once, and what was not told yet is lost.
pub struct LiveInput {
    stream: Stream<DeviceExecutor>,
    resampler: Resampler,
    mel: LogMelStream,
    /// Half a sample that a push ended with.
    odd: Option<u8>,
    /// What the queue has had no room for yet.
    unsent: Option<LiveAudio>,
    samples: u64,
    finished: bool,
    progress: Arc<Backlog>,
}

/// What comes out of a session.
pub struct LiveEvents {
    results: Results<StreamOutput>,
    model: Arc<FastConformer>,
    turns: Turns,
    ready: VecDeque<LiveEvent>,
    progress: Arc<Backlog>,
}

/// Opens a session on the worker; `look_ahead_ms` and `language_model` are what the options or the catalog say.
///
/// # Errors
/// [`Error::InvalidOption`], [`Error::Language`] for options; [`Error::Busy`] when there is no room.
pub(crate) fn open(
    scheduler: &Scheduler<DeviceExecutor>,
    model: Arc<FastConformer>,
    options: &ListenOptions,
    look_ahead_ms: Option<u32>,
    language_model: Option<Arc<LanguageModel>>,
    detected: bool,
) -> Result<(LiveInput, LiveEvents)> {
    if !SAMPLE_RATES.contains(&options.sample_rate) {
        return Err(Error::InvalidOption(format!(
            "the sample rate must be {} to {} Hz, not {}",
            SAMPLE_RATES.start(),
            SAMPLE_RATES.end(),
            options.sample_rate
        )));
    }
    if !model.config().class.is_streaming() {
        return Err(Error::InvalidOption("the checkpoint transcribes whole recordings only, not live".into()));
    }
    let mut rules = options.turns;
    if !detected {
        // Blanks are all there is to tell silence by.
        rules.blank_ms = rules.silence_ms;
    }
    let group = BatchGroup {
        look_ahead: model.look_ahead(look_ahead_ms)?,
        language: model.language_slot(options.language.as_deref())?,
        model: model.clone(),
    };
    let fusion = language_model
        .map(|language_model| Arc::new(Fusion::new(language_model, options.fusion, model.vocabulary(), None, &[])));
    let request = StreamRequest::Live(LiveRequest {
        group,
        endpointing: rules,
        detected,
        fusion,
        beam: options.beam.unwrap_or(fusion::BEAM),
    });
    let resampler = Resampler::live(options.sample_rate)?;
    let mel = model.preprocessor().stream()?;
    let (stream, results) = scheduler.open(request, Priority::Live)?;
    let progress = Arc::new(Backlog::default());
    let input = LiveInput {
        stream,
        resampler,
        mel,
        odd: None,
        unsent: None,
        samples: 0,
        finished: false,
        progress: progress.clone(),
    };
    let turns = Turns::new(options.language.clone());
    Ok((input, LiveEvents { results, model, turns, ready: VecDeque::new(), progress }))
}

impl LiveInput {
    /// Pushes samples, -1 to 1, of any number, without waiting; what is no number counts as 0. [`LiveInput::waiting_ms`]
    /// says how far ahead of the device they are: who pushes faster than it works should wait for it (see
    /// [`LiveInput::send_on`]), for what waits takes memory. After [`LiveInput::finish`] nothing is taken any more.
    ///
    /// # Errors
    /// [`Error::UnsupportedMedia`] when the samples cannot be brought to 16 kHz.
    pub fn push(&mut self, samples: &[f32]) -> Result<()> {
        if self.finished {
            return Ok(());
        }
        let mut input = self.unsent.take().unwrap_or_default();
        let before = input.samples.len();
        let samples: Vec<f32> = samples.iter().copied().map(sanitize).collect();
        self.resampler.push(&samples, &mut input.samples)?;
        input.mel.extend(self.mel.push(&input.samples[before..]));
        self.count(input.samples.len() - before);
        if !input.samples.is_empty() {
            self.unsent = Some(input);
        }
        self.send_on();
        Ok(())
    }

    /// Hands over what the device's queue had no room for when it was pushed, as every push does; false if there is no room
    /// still. Who waits for [`LiveInput::waiting_ms`] to fall calls this each time they look.
    pub fn send_on(&mut self) -> bool {
        if let Some(input) = self.unsent.take() {
            self.unsent = match self.stream.push(StreamInput::Live(input)) {
                Err(StreamInput::Live(input)) => Some(input),
                _ => None,
            };
        }
        self.unsent.is_none()
    }

    /// Pushes 16-bit samples, little-endian, cut anywhere: half a sample waits for its other half.
    ///
    /// # Errors
    /// As [`LiveInput::push`].
    pub fn push_pcm16(&mut self, bytes: &[u8]) -> Result<()> {
        let joined = self.odd.take().into_iter().chain(bytes.iter().copied());
        let mut samples = Vec::with_capacity(bytes.len() / 2 + 1);
        let mut low = None;
        for byte in joined {
            match low.take() {
                None => low = Some(byte),
                Some(low) => samples.push(f32::from(i16::from_le_bytes([low, byte])) / 32_768.0),
            }
        }
        self.odd = low;
        self.push(&samples)
    }

    /// Says that nothing follows: the turn that goes on is completed, then the events end.
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
        self.resampler.finish(&mut rest.samples)?;
        rest.mel.extend(self.mel.push(&rest.samples[before..]));
        rest.mel.extend(self.mel.finish());
        self.count(rest.samples.len() - before);
        self.stream.finish(Some(StreamInput::Live(rest)));
        Ok(())
    }

    /// Audio that was pushed and is not dealt with yet, ms.
    pub fn waiting_ms(&self) -> u64 {
        self.progress.waiting_ms()
    }

    fn count(&mut self, samples: usize) {
        self.samples += samples as u64;
        self.progress.pushed.store(self.samples * 1000 / u64::from(SAMPLE_RATE), Ordering::Relaxed);
    }
}

impl LiveEvents {
    /// The next event; none once everything was told.
    ///
    /// # Errors
    /// [`Error::Device`] and the like end the session.
    pub async fn next(&mut self) -> Option<Result<LiveEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            match self.results.next().await?.and_then(StreamOutput::live) {
                Ok(heard) => self.take(heard),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// As [`LiveEvents::next`], for threads that may wait.
    ///
    /// # Errors
    /// As [`LiveEvents::next`].
    pub fn blocking_next(&mut self) -> Option<Result<LiveEvent>> {
        cubecl::future::block_on(self.next())
    }

    /// As [`LiveInput::waiting_ms`].
    pub fn waiting_ms(&self) -> u64 {
        self.progress.waiting_ms()
    }

    fn take(&mut self, heard: StepOutput) {
        self.progress.heard.fetch_max(heard.heard_ms, Ordering::Relaxed);
        self.ready.extend(self.turns.take(heard, &self.model));
    }
}
