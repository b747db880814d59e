//! The engine for threads that may block.
//!
//! ```no_run
//! use auricle_engine::{EngineOptions, TranscribeOptions, blocking::Engine};
//!
//! fn main() -> auricle_engine::Result<()> {
//!     let engine = Engine::open(EngineOptions::default())?;
//!     let transcript = engine.transcribe_file("talk.mp3", &TranscribeOptions::default())?;
//!     println!("{}", transcript.text);
//!     Ok(())
//! }
//! ```

mod channels;
mod chats;
mod chosen;
mod cloning;
mod devices;
mod diarizers;
mod taggers;
mod turn_detectors;
mod voices;

use std::io::Cursor;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use auricle_kernels::product::gemv::Precision;
use burn::tensor::Device;

use crate::audio::{AudioStream, SAMPLE_RATE};
use crate::catalog::Catalog;
use crate::decoding::fusion::FusionWeights;
use crate::device::{self, DeviceInfo};
use crate::error::{Error, Result};
use crate::load_once::Loaded;
use crate::models::decoder::ChatModel;
use crate::models::silero::Silero;
use crate::models::whisper::Form;
use crate::options::{
    EngineOptions, LanguageModelChoice, ListenOptions, SpeakerLabels, TaggerChoice, TranscribeOptions,
    TurnDetectorChoice,
};
use crate::pipeline::checkpoint::Checkpoint;
use crate::pipeline::executors::speech::voice_model::VoiceModel;
use crate::pipeline::language::ChatLimits;
use crate::pipeline::live::LiveEvent;
use crate::pipeline::live::session::{self, LiveEvents, LiveInput, SessionModels, StreamingModel};
use crate::pipeline::offline;
use crate::pipeline::offline::speaker_labels::SpeakerLabelling;
use crate::pipeline::stage_times::{self, StageTimes};
use crate::scheduler::{Priority, SlotCounts};
use crate::speakers::clustering::MOST_SPEAKERS;
use crate::text::lm::LanguageModel;
use crate::transcript::{ModelReport, Progress, Transcript};
use crate::vad::shared::SharedVad;
use crate::weights::most_bytes;
pub use channels::MAX_SEPARATE_CHANNELS;
pub use chats::Reply;
use chosen::Chosen;
use devices::{EngineDevice, EngineDevices};
pub use diarizers::{check_diarizer, speaker_embedding};
pub use taggers::{check_tagger, load_tagger};
pub use turn_detectors::check_turn_detector;
pub use voices::Speech;

/// Loads a voice activity detector on the CPU to see that every tensor is there, has its shape, and none is left over; gives
/// the number of values in its tensors.
///
/// # Errors
/// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
pub fn check_detector(dir: impl AsRef<Path>) -> Result<usize> {
    Ok(Silero::load(dir.as_ref())?.parameters())
}

/// Loads a model that speaks on the CPU, to see that every tensor is there, has its shape, and none is left over; gives the number of
/// values in the tensors of the networks that make samples.
///
/// # Errors
/// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
pub fn check_voice(dir: impl AsRef<Path>) -> Result<usize> {
    Ok(VoiceModel::load(dir.as_ref(), "en", &Device::flex(), Precision::F32, None)?.parameters())
}

/// Loads a checkpoint on the CPU, a folder or a file, to see that every tensor is there, has its shape, and none is left over.
///
/// # Errors
/// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
pub fn check_model(path: impl AsRef<Path>) -> Result<ModelReport> {
    let path = path.as_ref();
    // A GGUF file of a published folder is no language model by itself.
    let is_whisper = matches!(Form::find(path), Ok(Some(_)));
    if !is_whisper && ChatModel::is_at(path) {
        return Ok(chat_report(&ChatModel::load(path)?));
    }
    Ok(Checkpoint::load(path, &Device::flex(), Some(Precision::F32))?.report())
}

fn chat_report(model: &ChatModel) -> ModelReport {
    let config = model.config();
    ModelReport {
        class: config.family.class().into(),
        parameters: model.parameters(),
        layers: config.layers,
        hidden_size: config.size,
        vocab_size: config.vocabulary,
        streaming: false,
        look_aheads_ms: Vec::new(),
        form: model.form().into(),
    }
}

/// The number of speakers to expect where labels are asked for.
///
/// # Errors
/// [`Error::InvalidOption`] for a number that is not 1 to 20.
fn expected_speakers(speakers: SpeakerLabels) -> Result<Option<Option<usize>>> {
    match speakers {
        SpeakerLabels::Off => Ok(None),
        SpeakerLabels::Found => Ok(Some(None)),
        SpeakerLabels::Expected(count) if (1..=MOST_SPEAKERS).contains(&count) => Ok(Some(Some(count))),
        SpeakerLabels::Expected(count) => {
            Err(Error::InvalidOption(format!("{count} speakers are expected; it must be 1 to {MOST_SPEAKERS}")))
        }
    }
}

/// Room for one recording, given back when dropped.
struct RecordingPermit<'a>(&'a AtomicUsize);

impl<'a> RecordingPermit<'a> {
    /// # Errors
    /// [`Error::Busy`] when there are as many recordings as there may be.
    fn take((most, running): &'a (usize, AtomicUsize)) -> Result<Self> {
        let one_more = |count: usize| (count < *most).then_some(count + 1);
        match running.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more) {
            Ok(_) => Ok(Self(running)),
            Err(_) => Err(Error::Busy("all streams are in use".into())),
        }
    }
}

impl Drop for RecordingPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The engine: devices and the models on them, loaded at first use. Every call blocks its thread until it is done.
pub struct Engine {
    catalog: Catalog,
    devices: EngineDevices,
    warnings: Vec<String>,
    detector: Mutex<Option<Arc<Silero>>>,
    /// Recordings that may be transcribed at a time, and those that are.
    recordings: (usize, AtomicUsize),
    tagger: TaggerChoice,
    turn_detector: TurnDetectorChoice,
    chat_limits: ChatLimits,
    /// Streams of speech that may be open, and those that are.
    speech: (usize, Arc<AtomicUsize>),
}

/// Kinds of the catalog's models.
const RECORDINGS: &str = "prerecorded";
const LIVE: &str = "realtime";

/// Events of a live session, as an iterator that waits for the next one.
pub struct Events(LiveEvents);

impl Events {
    /// Audio that is pushed and not processed yet, ms.
    pub fn waiting_ms(&self) -> u64 {
        self.0.waiting_ms()
    }
}

impl Iterator for Events {
    type Item = Result<LiveEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        cubecl::future::block_on(self.0.next())
    }
}

impl Engine {
    /// Opens the devices and reads the catalog; loads no model yet.
    ///
    /// # Errors
    /// [`Error::Device`] when a device asked for is not there or does not work, [`Error::Checkpoint`] when the
    /// catalog is missing or malformed.
    pub fn open(options: EngineOptions) -> Result<Self> {
        let catalog = Catalog::read(&options.models)?;
        let mut opened = device::open_all(&options.devices, options.every_gpu)?;
        let warnings = opened.iter_mut().filter_map(|opened| opened.warning.take()).collect();
        let slots = SlotCounts {
            live: options.live_streams,
            // Twice as many as may be open: the device takes a moment to free the slot of a stream that was dropped.
            speech: 2 * options.speech_streams,
            // A turn's last part, a part before it or the turn so far; and one that was dropped and is not free yet.
            second_pass: 3 * options.live_streams,
            agent: options.chats,
            // A recording with named speakers takes up to three streams; speech that is not paced is as urgent as a recording.
            offline: 3 * options.recordings + 2 * options.speech_streams,
        };
        Ok(Self {
            catalog,
            devices: EngineDevices::new(opened, options.precision, options.model_memory, slots),
            warnings,
            detector: Mutex::default(),
            recordings: (options.recordings, AtomicUsize::new(0)),
            tagger: options.tagger,
            turn_detector: options.turn_detector,
            chat_limits: ChatLimits { kv_bytes: options.kv_memory },
            speech: (options.speech_streams, Arc::default()),
        })
    }

    /// The devices that compute. Work goes to the one with the fewest open streams.
    pub fn devices(&self) -> Vec<&DeviceInfo> {
        self.devices.infos().collect()
    }

    /// The names of the devices, each with their number if that is more than one.
    pub fn device_names(&self) -> String {
        let mut names: Vec<(&str, usize)> = Vec::new();
        for info in self.devices.infos() {
            match names.iter_mut().find(|(name, _)| *name == info.name) {
                Some((_, count)) => *count += 1,
                None => names.push((&info.name, 1)),
            }
        }
        let named = |(name, count): (&str, usize)| if count > 1 { format!("{count} x {name}") } else { name.into() };
        names.into_iter().map(named).collect::<Vec<String>>().join(", ")
    }

    /// Streams that are open on each device that computes, in the order of [`Engine::devices`]: live sessions, recordings, answers and
    /// speech. A device that was lost is opened again, or is not there.
    ///
    /// # Errors
    /// [`Error::Device`] if all are lost and none can be opened again.
    pub fn open_streams(&self) -> Result<Vec<usize>> {
        let all = self.devices.all()?;
        Ok(all.iter().map(|device| device.open_streams(Priority::Live).1).collect())
    }

    /// The models there are.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Warnings of opening the devices, a line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Loads the checkpoint and the language model that a transcription with these options takes, so that the first does
    /// not wait for them.
    ///
    /// # Errors
    /// [`Error::UnknownModel`], [`Error::Checkpoint`], [`Error::Weights`], [`Error::LanguageModel`].
    pub fn load(&self, options: &TranscribeOptions) -> Result<()> {
        let choice = self.choose_for(options)?;
        self.detector()?;
        self.language_model(&choice, &options.language_model)?;
        for on in self.devices.all()? {
            if let Some(expected) = expected_speakers(options.speakers)? {
                self.diarizer(&on, expected)?;
            }
            on.checkpoint(choice.path())?;
        }
        Ok(())
    }

    /// Transcribes audio to its end, in constant memory. Recordings share the device's steps; live sessions go first.
    ///
    /// # Errors
    /// [`Error::Busy`] when there are as many recordings as there may be; [`Error::UnknownModel`], [`Error::Language`],
    /// [`Error::InvalidOption`] for options; what loading, decoding or the device reports.
    pub fn transcribe(&self, audio: AudioStream, options: &TranscribeOptions) -> Result<Transcript> {
        self.transcribe_with(audio, options, |_| ControlFlow::Continue(()))
    }

    /// [`Engine::transcribe`] of a file.
    ///
    /// # Errors
    /// As [`AudioStream::open`] and [`Engine::transcribe`].
    pub fn transcribe_file(&self, path: impl AsRef<Path>, options: &TranscribeOptions) -> Result<Transcript> {
        self.transcribe(AudioStream::open(path)?, options)
    }

    /// [`Engine::transcribe`] that calls `progress` after every step, which says whether to go on.
    ///
    /// # Errors
    /// As [`Engine::transcribe`]; [`Error::Canceled`] if `progress` broke off.
    pub fn transcribe_with(
        &self,
        audio: AudioStream,
        options: &TranscribeOptions,
        mut progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Transcript> {
        let detector = self.detector()?;
        let _permit = RecordingPermit::take(&self.recordings)?;
        let on = self.devices.choose(Priority::Offline)?;
        on.suspect(self.transcribe_spoken(&on, audio, options, detector, &mut progress))
    }

    fn transcribe_spoken(
        &self,
        on: &EngineDevice,
        audio: AudioStream,
        options: &TranscribeOptions,
        detector: Option<Arc<Silero>>,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Transcript> {
        let choice = self.choose_for(options)?;
        let mut options = options.clone().model(choice.name());
        // Medical terms are those of the language.
        if options.medical_mode
            && options.language.is_none()
            && let Some(only) = choice.only_language()
        {
            options.language = Some(only.clone());
        }
        if device::is_cpu(&on.device) {
            options.beam = options.beam.or(choice.beam());
        }
        let options = &options;
        if let Some(language) = &options.language {
            choice.check_language(language)?;
        }
        check_search(&options.fusion, options.beam)?;
        let language_model = self.language_model(&choice, &options.language_model)?;
        let (checkpoint, worker) = (on.checkpoint(choice.path())?, on.worker()?);
        let start_ms = audio.excerpt().start_ms;
        let audio = audio.with_leveling();
        let detector = detector.map(SharedVad::new);
        let naming = self.naming(on, options)?;
        let (labelling, audio) = match expected_speakers(options.speakers)? {
            None => (None, audio),
            Some(expected) => {
                let diarizer = self.diarizer(on, expected)?;
                let (labelling, samples) =
                    SpeakerLabelling::start(diarizer, &worker, detector.clone(), expected, naming)?;
                (Some(labelling), audio.with_listener(move |block| samples.push(block)))
            }
        };
        let mut transcript = match &*checkpoint {
            Checkpoint::FastConformer(_) | Checkpoint::Qwen3Asr(_) if options.sequential => {
                return Err(Error::InvalidOption("windows one after another are for Whisper checkpoints".into()));
            }
            Checkpoint::FastConformer(model) => {
                // The checkpoint finds the language by itself; a language that it lacks is still an error.
                options.languages.iter().try_for_each(|language| choice.check_language(language))?;
                offline::transducer::transcribe(model, &worker, audio, options, language_model, detector, progress)?
            }
            Checkpoint::Whisper(_) if language_model.is_some() => {
                return Err(Error::InvalidOption("a Whisper checkpoint takes no language model".into()));
            }
            Checkpoint::Qwen3Asr(_) if language_model.is_some() => {
                return Err(Error::InvalidOption("a Qwen3-ASR checkpoint takes no language model".into()));
            }
            Checkpoint::Whisper(model) => {
                offline::whisper::transcribe(model, &worker, audio, options, detector, progress)?
            }
            Checkpoint::Qwen3Asr(model) => {
                offline::qwen3_asr::transcribe(model, &worker, audio, options, detector, progress)?
            }
        };
        if transcript.language_code.is_none()
            && let Some(only) = choice.only_language()
        {
            transcript.language_code = Some(only.clone());
        }
        if let Some(labelling) = labelling {
            labelling.finish(&mut transcript)?;
        }
        // Behind the labels, so that no number is of two speakers.
        if options.format_numbers {
            transcript.format_numbers();
        }
        transcript.begin_at(start_ms);
        Ok(transcript)
    }

    /// Loads what live sessions of a model take, so that the first does not wait for it.
    ///
    /// # Errors
    /// [`Error::UnknownModel`], [`Error::Checkpoint`], [`Error::Weights`], [`Error::LanguageModel`].
    pub fn load_live(&self, options: &ListenOptions) -> Result<()> {
        let choice = self.choose(options.model.as_deref(), LIVE)?;
        let reader = options.second_pass.reader(&self.catalog, choice.path())?;
        for on in self.devices.all()? {
            on.worker()?;
            self.live_language_model(&on, &choice, &options.language_model)?;
            on.streaming_model(choice.path())?;
            if let Some(reader) = &reader {
                on.checkpoint(&reader.dir)?;
            }
        }
        Ok(())
    }

    /// Opens a live session: samples go into the first part, turns of text come out of the second. All sessions share the
    /// device's steps.
    ///
    /// # Errors
    /// [`Error::UnknownModel`], [`Error::Language`], [`Error::InvalidOption`] for options; [`Error::Busy`] when there are as
    /// many sessions as there may be; what loading reports.
    pub fn listen(&self, options: &ListenOptions) -> Result<(LiveInput, Events)> {
        self.open_live(options).map(|(input, events)| (input, Events(events)))
    }

    pub(crate) fn open_live(&self, options: &ListenOptions) -> Result<(LiveInput, LiveEvents)> {
        self.open_spoken(&*self.devices.choose(Priority::Live)?, options, self.detector()?)
    }

    fn open_spoken(
        &self,
        on: &EngineDevice,
        options: &ListenOptions,
        detector: Option<Arc<Silero>>,
    ) -> Result<(LiveInput, LiveEvents)> {
        let choice = self.choose(options.model.as_deref(), LIVE)?;
        check_search(&options.fusion, options.beam)?;
        let mut options = options.clone();
        let mut reader = options.second_pass.reader(&self.catalog, choice.path())?.filter(|_| detector.is_some());
        let only = choice.only_language();
        // The second pass hears which of its languages each turn has.
        let finds_language =
            options.language.is_none() && only.is_some() && reader.as_ref().is_some_and(|it| it.languages.len() > 1);
        if finds_language {
            options.languages.retain(|language| reader.as_ref().is_some_and(|reader| reader.has(language)));
        } else {
            options.languages.clear();
        }
        let writes_alone = options.language.as_ref().is_some_and(|language| {
            choice.check_language(language).is_err() && reader.as_ref().is_some_and(|reader| reader.has(language))
        });
        let first = if writes_alone {
            None
        } else {
            if let Some(language) = &options.language {
                choice.check_language(language)?;
            } else if !finds_language {
                options.language = only.cloned();
            }
            if let Some(language) = &options.language {
                reader = reader.filter(|reader| reader.languages.is_empty() || reader.has(language));
            }
            let look_ahead_ms = options.look_ahead_ms.or(choice.look_ahead_ms());
            let model = on.streaming_model(choice.path())?;
            let language_model = self.live_language_model(on, &choice, &options.language_model)?;
            let language = options.language.clone().or_else(|| only.cloned());
            Some(StreamingModel { model, look_ahead_ms, language_model, language })
        };
        let second = match reader.map(|reader| on.checkpoint(&reader.dir)).transpose() {
            // Models in use leave no memory for it.
            Err(Error::Busy(_)) if first.is_some() => None,
            second => second?,
        };
        // Without a speech detector there are no pauses.
        let turn_detector = if detector.is_some() { self.turn_detector_on(on)? } else { None };
        session::open(&*on.worker()?, SessionModels { first, second, detector, turn_detector }, &options)
    }

    /// Compiles what the device needs for the models loaded so far, so that the first request does not wait for it: runs two
    /// seconds of sound through each, as its users will. A CPU has nothing to compile: there it only costs that time.
    ///
    /// # Errors
    /// As [`Engine::transcribe`].
    pub fn warm_up(&self) -> Result<()> {
        self.devices.all()?.iter().try_for_each(|on| self.warm_up_on(on))
    }

    fn warm_up_on(&self, on: &EngineDevice) -> Result<()> {
        for model in self.catalog.models() {
            let choice = self.catalog.choose(&model.id)?;
            let dir = &choice.dir;
            if !on.has::<Checkpoint>(dir) {
                continue;
            }
            // Without a detector: it would not take the sound for speech, and nothing would be computed.
            let sound: Vec<f32> = (0..2 * SAMPLE_RATE).map(|at| (at as f32 * 0.2).sin() * 0.3).collect();
            if model.kind == LIVE {
                let (mut input, events) = self.open_spoken(on, &ListenOptions::default().model(&model.id), None)?;
                input.push(&sound)?;
                input.finish()?;
                Events(events).try_for_each(|event| event.map(drop))?;
            } else {
                let pcm: Vec<u8> = sound.iter().flat_map(|s| ((s * 32_767.0) as i16).to_le_bytes()).collect();
                let audio = AudioStream::from_pcm_s16le(Cursor::new(pcm), SAMPLE_RATE, 1)?;
                let mut options = TranscribeOptions::default().model(&model.id);
                if let Checkpoint::FastConformer(model) = &*on.checkpoint(dir)?
                    && let Some(decoder) = model.attention()
                {
                    let mut languages = decoder.prompts().languages();
                    let known = languages.find(|language| choice.check_language(language).is_ok());
                    // Without a language that both know it serves nothing.
                    let Some(known) = known else { continue };
                    options.language = Some(known.to_owned());
                }
                self.transcribe_spoken(on, audio, &options, None, &mut |_| ControlFlow::Continue(()))?;
            }
        }
        if let Some(turn_detector) = self.turn_detector_on(on)? {
            turn_detector.probabilities(&[&[]])?;
        }
        Ok(())
    }

    /// The voice activity detector, if the catalog names one. It runs on the CPU wherever the models run: it is too small
    /// for a GPU to be worth the way there and back.
    ///
    /// # Errors
    /// [`Error::Checkpoint`], [`Error::Weights`].
    pub fn detector(&self) -> Result<Option<Arc<Silero>>> {
        let Some(dir) = self.catalog.detector() else { return Ok(None) };
        let mut loaded = self.detector.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.is_none() {
            *loaded = Some(Arc::new(Silero::load(&dir)?));
        }
        Ok(loaded.clone())
    }

    /// Times the stages of a model over a recording: `samples` at 16 kHz.
    ///
    /// # Errors
    /// [`Error::UnknownModel`], [`Error::Checkpoint`], [`Error::Weights`], and what the device reports.
    pub fn measure(&self, model: &str, samples: &[f32]) -> Result<StageTimes> {
        let on = self.devices.choose(Priority::Offline)?;
        let model = on.streaming_model(&self.catalog.choose(model)?.dir)?;
        on.suspect(stage_times::stages(&model, samples, &on.device))
    }

    /// A file's value for all devices: read, if it is not there.
    fn shared<T: Loaded>(&self, path: &Path, load: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        self.devices.shared.get(path, || most_bytes(path), load)
    }

    /// The paths of the models that are loaded, once for each device, and the bytes that the weights of each take at most. Those that
    /// nobody uses leave as others need [`EngineOptions::model_memory`], or the machine's.
    pub fn loaded_models(&self) -> Vec<(PathBuf, u64)> {
        self.devices.loaded_models()
    }

    /// The checkpoint of a model; of the catalog's default of its kind where none is named.
    fn choose(&self, model: Option<&str>, kind: &str) -> Result<Chosen<'_>> {
        let choice = match model {
            Some(model) => self.catalog.choose(model),
            None => self.catalog.choose(&self.catalog.default_model(kind)?.id),
        };
        Ok(Chosen::Model(Box::new(choice?)))
    }

    /// The checkpoint of a transcription.
    fn choose_for<'a>(&'a self, options: &'a TranscribeOptions) -> Result<Chosen<'a>> {
        match &options.checkpoint {
            Some(path) => Ok(Chosen::Path(path)),
            None => self.choose(options.model.as_deref(), RECORDINGS),
        }
    }

    fn language_model(&self, choice: &Chosen, wanted: &LanguageModelChoice) -> Result<Option<Arc<LanguageModel>>> {
        let path = match wanted {
            LanguageModelChoice::Off => None,
            LanguageModelChoice::File(path) => Some(path),
            LanguageModelChoice::Shipped => choice.language_model(),
        };
        path.map(|path| self.shared(path, || LanguageModel::open(path))).transpose()
    }

    /// As [`Self::language_model`], for live sessions.
    fn live_language_model(
        &self,
        on: &EngineDevice,
        choice: &Chosen,
        wanted: &LanguageModelChoice,
    ) -> Result<Option<Arc<LanguageModel>>> {
        match wanted {
            LanguageModelChoice::Shipped if !device::is_cpu(&on.device) => Ok(None),
            _ => self.language_model(choice, wanted),
        }
    }
}

/// # Errors
/// [`Error::InvalidOption`] for a search that cannot be meant.
fn check_search(fusion: &FusionWeights, beam: Option<usize>) -> Result<()> {
    if beam == Some(0) {
        return Err(Error::InvalidOption("a beam has at least one text".into()));
    }
    fusion.check()
}
