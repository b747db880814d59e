//! The batch executor of a device: live streams, recordings of all families, speech, and texts of language models side by side.

use std::time::{Duration, Instant};

use burn::tensor::Device;

use super::diarizer::{self, DiarizerExecutor};
use super::language::{LanguageBatchKey, LanguageExecutor, LanguageOutput, LanguageRequest};
use super::live::{LiveAudio, LiveBatchKey, LiveExecutor, LiveRequest, StepOutput};
use super::qwen3_asr::{self, Qwen3AsrExecutor};
use super::second_pass::{
    SecondPassBatchKey, SecondPassExecutor, SecondPassInput, SecondPassOutput, SecondPassRequest,
};
use super::speech::phrase::Phrase;
use super::speech::{SpeechBatchKey, SpeechExecutor, SpeechOutput, SpeechRequest};
use super::transducer::{self, TransducerExecutor};
use super::voice::{self, VoiceExecutor};
use super::whisper::{self, WhisperExecutor};
use crate::device::{self, is_cpu};
use crate::error::{Error, Result};
use crate::scheduler::{BatchExecutor, SlotTable};

/// Executes the steps of all streams of a device.
#[derive(Default)]
pub struct DeviceExecutor {
    /// The device and its identifier, where it is one that may be lost.
    adapter: Option<(Device, String)>,
    live: LiveExecutor,
    transducer: TransducerExecutor,
    whisper: WhisperExecutor,
    qwen3_asr: Qwen3AsrExecutor,
    voice: VoiceExecutor,
    diarizer: DiarizerExecutor,
    language: LanguageExecutor,
    speech: SpeechExecutor,
    second_pass: SecondPassExecutor,
    families: SlotTable<Family>,
}

/// The executor that a slot belongs to.
#[derive(Clone, Copy)]
enum Family {
    Live,
    Transducer,
    Whisper,
    Qwen3Asr,
    Voice,
    Diarizer,
    Language,
    Speech,
    SecondPass,
}

/// Opens a stream of a device.
pub enum StreamRequest {
    /// A live session.
    Live(LiveRequest),
    /// A recording, by a FastConformer checkpoint.
    Transducer(transducer::TransducerRequest),
    /// A recording, by a Whisper checkpoint.
    Whisper(whisper::WhisperRequest),
    /// A recording, by a Qwen3-ASR checkpoint.
    Qwen3Asr(qwen3_asr::Qwen3AsrRequest),
    /// The voices of a recording.
    Voice(voice::VoiceRequest),
    /// The speakers of a recording, by a diarizer.
    Diarizer(diarizer::DiarizerRequest),
    /// An answer of a language model.
    Language(Box<LanguageRequest>),
    /// Speech.
    Speech(Box<SpeechRequest>),
    /// A window of a live turn, read again.
    SecondPass(Box<SecondPassRequest>),
}

/// Input of a stream.
pub enum StreamInput {
    /// Samples and the features of them.
    Live(LiveAudio),
    /// Features, or the samples of a window.
    Transducer(transducer::TransducerInput),
    /// A window.
    Whisper(whisper::WhisperInput),
    /// The samples of a window.
    Qwen3Asr(Vec<f32>),
    /// A window of a voice.
    Voice(voice::VoiceInput),
    /// Mel frames for a diarizer.
    Diarizer(diarizer::DiarizerInput),
    /// Symbols that are said at once.
    Speech(Phrase),
    /// Of a second pass.
    SecondPass(SecondPassInput),
}

/// Output of a step for one stream.
pub enum StreamOutput {
    /// Of a live session.
    Live(StepOutput),
    /// Of a recording, by a FastConformer checkpoint.
    Transducer(transducer::StepOutput),
    /// Of a recording, by a Whisper checkpoint.
    Whisper(Vec<whisper::TranscribedWindow>),
    /// Of a recording, by a Qwen3-ASR checkpoint.
    Qwen3Asr(Vec<qwen3_asr::WrittenWindow>),
    /// Of the voices of a recording.
    Voice(voice::Embeddings),
    /// Of a diarizer.
    Diarizer(diarizer::Logits),
    /// Of a language model.
    Language(LanguageOutput),
    /// Of speech.
    Speech(SpeechOutput),
    /// Of a second pass.
    SecondPass(SecondPassOutput),
}

/// Streams whose steps have equal keys can share a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchKey {
    /// Of live streams.
    Live(LiveBatchKey),
    /// Of recordings, by a FastConformer checkpoint.
    Transducer(transducer::TransducerBatchKey),
    /// Of recordings, by a Whisper checkpoint.
    Whisper(whisper::WhisperBatchKey),
    /// Of recordings, by a Qwen3-ASR checkpoint.
    Qwen3Asr(qwen3_asr::Qwen3AsrBatchKey),
    /// Of the voices of recordings.
    Voice(voice::VoiceBatchKey),
    /// Of diarized recordings.
    Diarizer(diarizer::DiarizerBatchKey),
    /// Of language models.
    Language(LanguageBatchKey),
    /// Of speech.
    Speech(SpeechBatchKey),
    /// Of second passes.
    SecondPass(SecondPassBatchKey),
}

impl DeviceExecutor {
    /// The executor of a device.
    pub fn new(device: Device, id: String) -> Self {
        Self { adapter: (!is_cpu(&device)).then_some((device, id)), ..Self::default() }
    }

    fn family(&self, slot: usize) -> Option<Family> {
        self.families.find(slot).copied()
    }

    /// True if nothing waits for the device but what may wait for ever.
    fn is_idle(&self) -> bool {
        self.families.iter().all(|(slot, family)| match family {
            Family::SecondPass => !self.second_pass.is_urgent(slot),
            _ => self.next_step(slot).is_none(),
        })
    }
}

impl BatchExecutor for DeviceExecutor {
    type Request = StreamRequest;
    type Input = StreamInput;
    type Output = StreamOutput;
    type BatchKey = BatchKey;

    fn open(&mut self, slot: usize, request: StreamRequest) -> Result<()> {
        // A model may have been unloaded for the one of this stream.
        self.language.forget_unloaded();
        let family = match request {
            StreamRequest::Live(request) => self.live.open(slot, request).map(|()| Family::Live)?,
            StreamRequest::Transducer(request) => self.transducer.open(slot, request).map(|()| Family::Transducer)?,
            StreamRequest::Whisper(request) => self.whisper.open(slot, request).map(|()| Family::Whisper)?,
            StreamRequest::Qwen3Asr(request) => self.qwen3_asr.open(slot, request).map(|()| Family::Qwen3Asr)?,
            StreamRequest::Voice(request) => self.voice.open(slot, request).map(|()| Family::Voice)?,
            StreamRequest::Diarizer(request) => self.diarizer.open(slot, request).map(|()| Family::Diarizer)?,
            StreamRequest::Language(request) => self.language.open(slot, *request).map(|()| Family::Language)?,
            StreamRequest::Speech(request) => self.speech.open(slot, *request).map(|()| Family::Speech)?,
            StreamRequest::SecondPass(request) => self.second_pass.open(slot, *request).map(|()| Family::SecondPass)?,
        };
        self.families.insert(slot, family);
        Ok(())
    }

    fn push(&mut self, slot: usize, input: StreamInput) {
        match (self.family(slot), input) {
            (Some(Family::Live), StreamInput::Live(input)) => self.live.push(slot, input),
            (Some(Family::Transducer), StreamInput::Transducer(input)) => self.transducer.push(slot, input),
            (Some(Family::Whisper), StreamInput::Whisper(input)) => self.whisper.push(slot, input),
            (Some(Family::Qwen3Asr), StreamInput::Qwen3Asr(input)) => self.qwen3_asr.push(slot, input),
            (Some(Family::Voice), StreamInput::Voice(input)) => self.voice.push(slot, input),
            (Some(Family::Diarizer), StreamInput::Diarizer(input)) => self.diarizer.push(slot, input),
            (Some(Family::Speech), StreamInput::Speech(input)) => self.speech.push(slot, input),
            (Some(Family::SecondPass), StreamInput::SecondPass(input)) => self.second_pass.push(slot, input),
            _ => debug_assert!(false, "input of another family than the stream's"),
        }
    }

    fn finish(&mut self, slot: usize) {
        match self.family(slot) {
            Some(Family::Live) => self.live.finish(slot),
            Some(Family::Transducer) => self.transducer.finish(slot),
            Some(Family::Whisper) => self.whisper.finish(slot),
            Some(Family::Qwen3Asr) => self.qwen3_asr.finish(slot),
            Some(Family::Voice) => self.voice.finish(slot),
            Some(Family::Diarizer) => self.diarizer.finish(slot),
            Some(Family::Language) => self.language.finish(slot),
            Some(Family::Speech) => self.speech.finish(slot),
            Some(Family::SecondPass) => self.second_pass.finish(slot),
            None => {}
        }
    }

    fn close(&mut self, slot: usize) {
        match self.families.remove(slot) {
            Some(Family::Live) => self.live.close(slot),
            Some(Family::Transducer) => self.transducer.close(slot),
            Some(Family::Whisper) => self.whisper.close(slot),
            Some(Family::Qwen3Asr) => self.qwen3_asr.close(slot),
            Some(Family::Voice) => self.voice.close(slot),
            Some(Family::Diarizer) => self.diarizer.close(slot),
            Some(Family::Language) => self.language.close(slot),
            Some(Family::Speech) => self.speech.close(slot),
            Some(Family::SecondPass) => self.second_pass.close(slot),
            None => {}
        }
    }

    fn next_step(&self, slot: usize) -> Option<BatchKey> {
        match self.family(slot)? {
            Family::Live => self.live.next_step(slot).map(BatchKey::Live),
            Family::Transducer => self.transducer.next_step(slot).map(BatchKey::Transducer),
            Family::Whisper => self.whisper.next_step(slot).map(BatchKey::Whisper),
            Family::Qwen3Asr => self.qwen3_asr.next_step(slot).map(BatchKey::Qwen3Asr),
            Family::Voice => self.voice.next_step(slot).map(BatchKey::Voice),
            Family::Diarizer => self.diarizer.next_step(slot).map(BatchKey::Diarizer),
            Family::Language => self.language.next_step(slot).map(BatchKey::Language),
            Family::Speech => self.speech.next_step(slot).map(BatchKey::Speech),
            Family::SecondPass => {
                let next = self.second_pass.next_step_beside(slot, self.live.speaking_budget(), || self.is_idle());
                next.map(BatchKey::SecondPass)
            }
        }
    }

    fn waiting_since(&self, slot: usize) -> Option<Instant> {
        match self.family(slot)? {
            Family::Live => self.live.waiting_since(slot),
            Family::Speech => self.speech.waiting_since(slot),
            Family::SecondPass => self.second_pass.waiting_since(slot),
            Family::Transducer
            | Family::Whisper
            | Family::Qwen3Asr
            | Family::Voice
            | Family::Diarizer
            | Family::Language => None,
        }
    }

    fn budget(&self, key: BatchKey) -> Duration {
        match key {
            BatchKey::Live(key) => self.live.budget(key),
            BatchKey::Transducer(key) => self.transducer.budget(key),
            BatchKey::Whisper(key) => self.whisper.budget(key),
            BatchKey::Qwen3Asr(key) => self.qwen3_asr.budget(key),
            BatchKey::Voice(key) => self.voice.budget(key),
            BatchKey::Diarizer(key) => self.diarizer.budget(key),
            BatchKey::Language(key) => self.language.budget(key),
            BatchKey::Speech(key) => self.speech.budget(key),
            BatchKey::SecondPass(key) => self.second_pass.budget(key),
        }
    }

    fn max_batch(&self, key: BatchKey) -> usize {
        match key {
            BatchKey::Live(key) => self.live.max_batch(key),
            BatchKey::Transducer(key) => self.transducer.max_batch(key),
            BatchKey::Whisper(key) => self.whisper.max_batch(key),
            BatchKey::Qwen3Asr(key) => self.qwen3_asr.max_batch(key),
            BatchKey::Voice(key) => self.voice.max_batch(key),
            BatchKey::Diarizer(key) => self.diarizer.max_batch(key),
            BatchKey::Language(key) => self.language.max_batch(key),
            BatchKey::Speech(key) => self.speech.max_batch(key),
            BatchKey::SecondPass(key) => self.second_pass.max_batch(key),
        }
    }

    fn step_name(&self, key: BatchKey) -> &'static str {
        match key {
            BatchKey::Live(key) => self.live.step_name(key),
            BatchKey::Transducer(key) => self.transducer.step_name(key),
            BatchKey::Whisper(key) => self.whisper.step_name(key),
            BatchKey::Qwen3Asr(key) => self.qwen3_asr.step_name(key),
            BatchKey::Voice(key) => self.voice.step_name(key),
            BatchKey::Diarizer(key) => self.diarizer.step_name(key),
            BatchKey::Language(key) => self.language.step_name(key),
            BatchKey::Speech(key) => self.speech.step_name(key),
            BatchKey::SecondPass(key) => self.second_pass.step_name(key),
        }
    }

    fn family(&self, key: BatchKey) -> usize {
        // No number of one executor is another's.
        match key {
            BatchKey::Live(key) => 9 * self.live.family(key),
            BatchKey::Transducer(key) => 9 * self.transducer.family(key) + 1,
            BatchKey::Whisper(key) => 9 * self.whisper.family(key) + 2,
            BatchKey::Qwen3Asr(key) => 9 * self.qwen3_asr.family(key) + 8,
            BatchKey::Voice(key) => 9 * self.voice.family(key) + 3,
            BatchKey::Language(key) => 9 * self.language.family(key) + 4,
            BatchKey::Speech(key) => 9 * self.speech.family(key) + 5,
            BatchKey::Diarizer(key) => 9 * self.diarizer.family(key) + 6,
            BatchKey::SecondPass(key) => 9 * self.second_pass.family(key) + 7,
        }
    }

    fn account(&self, slot: usize) -> Option<&str> {
        match self.family(slot) {
            Some(Family::Speech) => self.speech.account(slot),
            _ => None,
        }
    }

    fn rows(&self, key: BatchKey, slots: &[usize], most: usize) -> Vec<(usize, usize)> {
        match key {
            BatchKey::Live(key) => self.live.rows(key, slots, most),
            BatchKey::Transducer(key) => self.transducer.rows(key, slots, most),
            BatchKey::Whisper(key) => self.whisper.rows(key, slots, most),
            BatchKey::Qwen3Asr(key) => self.qwen3_asr.rows(key, slots, most),
            BatchKey::Voice(key) => self.voice.rows(key, slots, most),
            BatchKey::Diarizer(key) => self.diarizer.rows(key, slots, most),
            BatchKey::Language(key) => self.language.rows(key, slots, most),
            BatchKey::Speech(key) => self.speech.rows(key, slots, most),
            BatchKey::SecondPass(key) => self.second_pass.rows(key, slots, most),
        }
    }

    fn step(&mut self, key: BatchKey, slots: &[usize], most: usize) -> Result<Vec<Option<StreamOutput>>> {
        match key {
            BatchKey::Live(key) => wrap(self.live.step(key, slots, most)?, StreamOutput::Live),
            BatchKey::Transducer(key) => wrap(self.transducer.step(key, slots, most)?, StreamOutput::Transducer),
            BatchKey::Whisper(key) => wrap(self.whisper.step(key, slots, most)?, StreamOutput::Whisper),
            BatchKey::Qwen3Asr(key) => wrap(self.qwen3_asr.step(key, slots, most)?, StreamOutput::Qwen3Asr),
            BatchKey::Voice(key) => wrap(self.voice.step(key, slots, most)?, StreamOutput::Voice),
            BatchKey::Diarizer(key) => wrap(self.diarizer.step(key, slots, most)?, StreamOutput::Diarizer),
            BatchKey::Language(key) => wrap(self.language.step(key, slots, most)?, StreamOutput::Language),
            BatchKey::Speech(key) => wrap(self.speech.step(key, slots, most)?, StreamOutput::Speech),
            BatchKey::SecondPass(key) => wrap(self.second_pass.step(key, slots, most)?, StreamOutput::SecondPass),
        }
    }

    fn undo(&mut self, key: BatchKey, slots: &[usize]) -> bool {
        match key {
            BatchKey::Live(key) => self.live.undo(key, slots),
            BatchKey::Transducer(key) => self.transducer.undo(key, slots),
            BatchKey::Whisper(key) => self.whisper.undo(key, slots),
            BatchKey::Qwen3Asr(key) => self.qwen3_asr.undo(key, slots),
            BatchKey::Voice(key) => self.voice.undo(key, slots),
            BatchKey::Diarizer(key) => self.diarizer.undo(key, slots),
            BatchKey::Language(key) => self.language.undo(key, slots),
            BatchKey::Speech(key) => self.speech.undo(key, slots),
            BatchKey::SecondPass(key) => self.second_pass.undo(key, slots),
        }
    }

    /// A driver's calls panic on a device that is lost until the driver has reported the loss.
    fn cause_of_panic(&self) -> Option<Error> {
        let (device, id) = self.adapter.as_ref()?;
        let reason = device::check(device).err()?;
        Some(Error::Device { device: id.clone(), reason: format!("it was lost: {reason}") })
    }
}

fn wrap<T>(outputs: Vec<Option<T>>, wrap: impl Fn(T) -> StreamOutput) -> Result<Vec<Option<StreamOutput>>> {
    Ok(outputs.into_iter().map(|output| output.map(&wrap)).collect())
}

impl StreamOutput {
    /// The output of a live session's stream.
    ///
    /// # Errors
    /// [`Error::Internal`] for the output of another family.
    pub fn live(self) -> Result<StepOutput> {
        match self {
            Self::Live(output) => Ok(output),
            _ => Err(Error::internal("the output is not of a live stream")),
        }
    }

    /// The output for a recording by a FastConformer checkpoint.
    ///
    /// # Errors
    /// As [`StreamOutput::live`].
    pub fn transducer(self) -> Result<transducer::StepOutput> {
        match self {
            Self::Transducer(output) => Ok(output),
            _ => Err(Error::internal("the output is not of a transducer's recording")),
        }
    }

    /// The output for a recording by a Whisper checkpoint.
    ///
    /// # Errors
    /// As [`StreamOutput::live`].
    pub fn whisper(self) -> Result<Vec<whisper::TranscribedWindow>> {
        match self {
            Self::Whisper(windows) => Ok(windows),
            _ => Err(Error::internal("the output is not of a Whisper recording")),
        }
    }

    /// The output for a recording by a Qwen3-ASR checkpoint.
    ///
    /// # Errors
    /// As [`StreamOutput::live`].
    pub fn qwen3_asr(self) -> Result<Vec<qwen3_asr::WrittenWindow>> {
        match self {
            Self::Qwen3Asr(windows) => Ok(windows),
            _ => Err(Error::internal("the output is not of a Qwen3-ASR recording")),
        }
    }

    /// The output for the voices of a recording.
    ///
    /// # Errors
    /// As [`StreamOutput::live`].
    pub fn voice(self) -> Result<voice::Embeddings> {
        match self {
            Self::Voice(embeddings) => Ok(embeddings),
            _ => Err(Error::internal("the output is not of a recording's voices")),
        }
    }

    /// The output of a diarizer.
    ///
    /// # Errors
    /// As [`StreamOutput::live`].
    pub fn diarizer(self) -> Result<diarizer::Logits> {
        match self {
            Self::Diarizer(logits) => Ok(logits),
            _ => Err(Error::internal("the output is not of a diarizer")),
        }
    }

    /// The output for an answer of a language model.
    ///
    /// # Errors
    /// As [`StreamOutput::live`].
    pub fn language(self) -> Result<LanguageOutput> {
        match self {
            Self::Language(output) => Ok(output),
            _ => Err(Error::internal("the output is not of a language model")),
        }
    }

    /// The output of a second pass.
    ///
    /// # Errors
    /// As [`StreamOutput::live`].
    pub fn second_pass(self) -> Result<SecondPassOutput> {
        match self {
            Self::SecondPass(output) => Ok(output),
            _ => Err(Error::internal("the output is not of a second pass")),
        }
    }

    /// The output for speech.
    ///
    /// # Errors
    /// As [`StreamOutput::live`].
    pub fn speech(self) -> Result<SpeechOutput> {
        match self {
            Self::Speech(output) => Ok(output),
            _ => Err(Error::internal("the output is not of speech")),
        }
    }
}
