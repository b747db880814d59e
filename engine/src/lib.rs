//! Auricle's speech engine: audio in, structured text out.
//!
//! ```no_run
//! use auricle_engine::{Engine, EngineOptions, TranscribeOptions, audio::AudioStream};
//!
//! fn main() -> auricle_engine::Result<()> {
//!     let engine = Engine::open(EngineOptions::default())?;
//!     let audio = AudioStream::open("talk.mp3".as_ref())?;
//!     let transcript = engine.transcribe(audio, &TranscribeOptions::default(), &mut |progress| {
//!         eprintln!("{:.0} s", progress.audio_s);
//!         std::ops::ControlFlow::Continue(())
//!     })?;
//!     for word in &transcript.words {
//!         println!("{:>6} ms  {}", word.start, word.text);
//!     }
//!     Ok(())
//! }
//! ```

pub mod audio;
pub mod catalog;
pub mod decoding;
pub mod device;
pub mod error;
pub mod layers;
pub mod models;
pub mod pipeline;
pub mod scheduler;
pub mod text;
pub mod vad;
pub mod weights;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

pub use auricle_kernels::gemv::Precision;
pub use catalog::{Catalog, CatalogDetector, CatalogModel, CatalogSize, WordErrorRate};
pub use decoding::fusion::FusionWeights;
pub use device::{DeviceChoice, DeviceInfo, DeviceKind, devices};
pub use error::{Error, Result};
pub use pipeline::live::session::{ListenOptions, LiveEvents, LiveInput};
pub use pipeline::live::{Caption, LiveEvent};
pub use pipeline::stage_times::StageTimes;
pub use vad::endpointer::EndpointingRules;

use audio::AudioStream;
use burn::tensor::Device;
use catalog::Choice;
use models::fastconformer::FastConformer;
use models::silero::Silero;
use pipeline::checkpoint::Checkpoint;
use pipeline::executor::DeviceExecutor;
use pipeline::live::LiveExecutor;
use scheduler::{Scheduler, SlotCounts};
use text::lm::LanguageModel;

/// The README's example is compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// How to open an [`Engine`].
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The folder with `catalog.toml` and the checkpoints.
    pub models: PathBuf,
    /// The device that computes.
    pub device: DeviceChoice,
    /// How exactly the weights of Whisper's decoder are kept; other checkpoints keep them in full.
    pub precision: Precision,
    /// Live streams at a time. Fifty sessions of the service with the starter took 2.5 MB each, sockets included; the
    /// attention's cache grows with the checkpoint, to 14 MB at 0.6 B parameters (by its shapes), and is there while somebody
    /// speaks.
    pub live_streams: usize,
    /// Recordings at a time.
    pub recordings: usize,
}

impl Default for EngineOptions {
    /// The folder that [`models_dir`] finds; the GPU if there is one.
    fn default() -> Self {
        Self {
            models: models_dir(),
            device: DeviceChoice::Auto,
            precision: Precision::F32,
            live_streams: 256,
            recordings: 64,
        }
    }
}

/// The models folder: `AURICLE_MODELS`, else `models` in the working directory, beside the program or above it, else
/// the one of the source tree that this was built from.
pub fn models_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("AURICLE_MODELS") {
        return dir.into();
    }
    let holds_catalog = |dir: &PathBuf| dir.join("catalog.toml").is_file();
    let program = std::env::current_exe().ok();
    let above = program.iter().flat_map(|program| program.ancestors().skip(1)).map(|dir| dir.join("models"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    let source = source.canonicalize().unwrap_or(source);
    std::iter::once(PathBuf::from("models")).chain(above).find(holds_catalog).unwrap_or(source)
}

/// What to do with audio.
#[derive(Clone, Debug)]
pub struct TranscribeOptions {
    /// A model of the catalog.
    pub model: String,
    /// The language spoken, `en` say; found by the model where it can, if left out.
    pub language: Option<String>,
    /// The languages that may be spoken, one here and another there: each window of a Whisper checkpoint tells for itself
    /// which. Not looked at where `language` is given; left empty, the model finds one for the whole recording.
    pub languages: Vec<String>,
    /// Names and words to expect.
    pub keyterms: Vec<String>,
    /// Streaming checkpoints: at most this much look-ahead, in ms; the longest trained one if left out.
    pub look_ahead_ms: Option<u32>,
    /// The language model that joins the search.
    pub language_model: LanguageModelChoice,
    /// How much the language model counts.
    pub fusion: FusionWeights,
    /// Texts that are followed at a time, at least 1; more is slower and, up to a point, better. If left out, 16 where a
    /// language model joins the search, and 1 for a Whisper checkpoint; no part is played elsewhere.
    pub beam: Option<usize>,
    /// Whisper checkpoints: one window after another, each told what was said before it, in place of windows cut at silence
    /// and written side by side. Slower; names and style may stay the same for longer.
    pub sequential: bool,
}

/// Which language model joins the search; without one it is greedy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LanguageModelChoice {
    /// The one that the catalog names for the starter; none for a published checkpoint.
    #[default]
    Shipped,
    /// None.
    Off,
    /// An ARPA file, or one in the compact form of the shipped one.
    File(PathBuf),
}

impl Default for TranscribeOptions {
    fn default() -> Self {
        Self {
            model: "svc-best".into(),
            language: None,
            languages: Vec::new(),
            keyterms: Vec::new(),
            look_ahead_ms: None,
            language_model: LanguageModelChoice::default(),
            fusion: FusionWeights::default(),
            beam: None,
            sequential: false,
        }
    }
}

impl std::str::FromStr for LanguageModelChoice {
    type Err = std::convert::Infallible;

    /// `off`, or a file.
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(if text == "off" { Self::Off } else { Self::File(text.into()) })
    }
}

/// How far a transcription has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Seconds of audio done.
    pub audio_s: f64,
    /// Seconds of audio in all, where the file tells.
    pub total_s: Option<f64>,
}

/// A word with its place in the audio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Word {
    /// As the model writes it, punctuation included.
    pub text: String,
    /// First moment, ms from the start of the audio.
    pub start: u64,
    /// Last moment, ms from the start of the audio.
    pub end: u64,
    /// 0 to 1: the mean over the word's tokens of one minus the normalised entropy of the model's distribution.
    pub confidence: f32,
}

/// What was said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transcript {
    /// The whole text; empty where nothing was said.
    pub text: String,
    /// The words, in order.
    pub words: Vec<Word>,
    /// Mean confidence of the words, 0 to 1; none without words.
    pub confidence: Option<f32>,
    /// The language that was given or found.
    pub language_code: Option<String>,
    /// Seconds of audio.
    pub audio_duration_sec: f64,
    /// The service model.
    pub model: String,
    /// What was noteworthy about the audio, a line each.
    pub warnings: Vec<String>,
}

/// What a checkpoint folder holds, once every tensor of it is accounted for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelReport {
    /// The published class.
    pub class: String,
    /// Values in its tensors.
    pub parameters: usize,
    /// Encoder blocks and their width.
    pub layers: usize,
    /// Width of the encoder.
    pub hidden_size: usize,
    /// Tokens, the blank included.
    pub vocab_size: usize,
    /// Whether it transcribes live.
    pub streaming: bool,
    /// Look-aheads it was trained with, in ms; empty where none are named.
    pub look_aheads_ms: Vec<u32>,
}

/// Loads a voice activity detector on the CPU to see that every tensor is there, has its shape, and none is left over; gives
/// the number of values in its tensors.
///
/// # Errors
/// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
pub fn check_detector(dir: &Path) -> Result<usize> {
    Ok(Silero::load(dir, &Device::flex())?.parameters())
}

/// Loads a checkpoint on the CPU to see that every tensor is there, has its shape, and none is left over.
///
/// # Errors
/// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
pub fn check_model(dir: &Path) -> Result<ModelReport> {
    Ok(Checkpoint::load(dir, &Device::flex(), Precision::F32)?.report())
}

/// The engine: a device and the models on it, loaded at first use.
pub struct Engine {
    catalog: Catalog,
    device: Device,
    precision: Precision,
    info: DeviceInfo,
    warnings: Vec<String>,
    checkpoints: Loaded<Checkpoint>,
    language_models: Loaded<LanguageModel>,
    detector: Mutex<Option<Arc<Silero>>>,
    slots: SlotCounts,
    worker: Mutex<Option<Arc<Scheduler<DeviceExecutor>>>>,
}

/// What was read from files so far. The lock is held while reading: two callers must not read the same twice.
type Loaded<T> = Mutex<BTreeMap<PathBuf, Arc<T>>>;

impl Engine {
    /// Opens a device and reads the catalog; loads no model yet.
    ///
    /// # Errors
    /// [`Error::Device`] when the device asked for is not there or does not work, [`Error::Checkpoint`] when the
    /// catalog is missing or malformed.
    pub fn open(options: EngineOptions) -> Result<Self> {
        let catalog = Catalog::read(&options.models)?;
        let opened = device::open(options.device)?;
        Ok(Self {
            catalog,
            device: opened.device,
            precision: options.precision,
            info: opened.info,
            warnings: opened.warning.into_iter().collect(),
            checkpoints: Mutex::default(),
            language_models: Mutex::default(),
            detector: Mutex::default(),
            slots: SlotCounts { live: options.live_streams, agent: 0, offline: options.recordings },
            worker: Mutex::default(),
        })
    }

    /// The device that computes.
    pub fn device(&self) -> &DeviceInfo {
        &self.info
    }

    /// The models there are.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What was noteworthy at opening, a line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Loads the checkpoint and the language model that a transcription with these options takes, so that the first does
    /// not wait for them.
    ///
    /// # Errors
    /// [`Error::UnknownModel`], [`Error::Checkpoint`], [`Error::Weights`], [`Error::LanguageModel`].
    pub fn load(&self, options: &TranscribeOptions) -> Result<()> {
        let choice = self.catalog.choose(&options.model)?;
        self.detector()?;
        self.language_model(&choice, &options.language_model)?;
        self.checkpoint(&choice.dir).map(|_| ())
    }

    /// Transcribes audio to its end, in constant memory; `progress` is called after every step, and says whether to go
    /// on. Recordings share the device's steps; live sessions go first.
    ///
    /// # Errors
    /// [`Error::Busy`] when there are as many recordings as there may be; [`Error::Canceled`] if `progress` broke off; [`Error::UnknownModel`], [`Error::Language`], [`Error::InvalidOption`]
    /// for options; what loading, decoding or the device reports.
    pub fn transcribe(
        &self,
        audio: AudioStream,
        options: &TranscribeOptions,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Transcript> {
        let choice = self.catalog.choose(&options.model)?;
        if let Some(language) = &options.language {
            choice.check_language(language)?;
        }
        check_search(&options.fusion, options.beam)?;
        let language_model = self.language_model(&choice, &options.language_model)?;
        let detector = self.detector()?;
        let (checkpoint, worker, detector) = (self.checkpoint(&choice.dir)?, self.worker()?, detector.as_deref());
        let mut transcript = match &*checkpoint {
            Checkpoint::FastConformer(_) if options.sequential => {
                return Err(Error::InvalidOption("windows one after another are for Whisper checkpoints".into()));
            }
            Checkpoint::FastConformer(model) => {
                // Which is spoken it finds by itself; one that it lacks is refused all the same.
                options.languages.iter().try_for_each(|language| choice.check_language(language))?;
                pipeline::offline::transducer::transcribe(
                    model,
                    &worker,
                    audio,
                    options,
                    language_model,
                    detector,
                    progress,
                )?
            }
            Checkpoint::Whisper(_) if language_model.is_some() => {
                return Err(Error::InvalidOption("a Whisper checkpoint takes no language model".into()));
            }
            Checkpoint::Whisper(model) => {
                pipeline::offline::whisper::transcribe(model, &worker, audio, options, detector, progress)?
            }
        };
        if transcript.language_code.is_none()
            && let [only] = choice.languages
        {
            transcript.language_code = Some(only.clone());
        }
        Ok(transcript)
    }

    /// Loads what live sessions of a model take, so that the first does not wait for it.
    ///
    /// # Errors
    /// [`Error::UnknownModel`], [`Error::Checkpoint`], [`Error::Weights`], [`Error::LanguageModel`].
    pub fn load_live(&self, options: &ListenOptions) -> Result<()> {
        let choice = self.catalog.choose(&options.model)?;
        self.worker()?;
        self.live_language_model(&choice, &options.language_model)?;
        self.streaming_model(&choice.dir).map(|_| ())
    }

    /// Opens a live session: samples go into the first part, turns of text come out of the second. All sessions share the
    /// device's steps.
    ///
    /// # Errors
    /// [`Error::UnknownModel`], [`Error::Language`], [`Error::InvalidOption`] for options; [`Error::Busy`] when there are as
    /// many sessions as there may be; what loading reports.
    pub fn listen(&self, options: &ListenOptions) -> Result<(LiveInput, LiveEvents)> {
        let choice = self.catalog.choose(&options.model)?;
        if let Some(language) = &options.language {
            choice.check_language(language)?;
        }
        check_search(&options.fusion, options.beam)?;
        let mut options = options.clone();
        let look_ahead_ms = options.look_ahead_ms.or(choice.model.look_ahead_ms);
        let model = self.streaming_model(&choice.dir)?;
        if options.language.is_none()
            && let [only] = choice.languages
        {
            options.language = Some(only.clone());
        }
        let language_model = self.live_language_model(&choice, &options.language_model)?;
        let detected = self.detector()?.is_some();
        pipeline::live::session::open(&*self.worker()?, model, &options, look_ahead_ms, language_model, detected)
    }

    /// The device's worker, started at first use.
    fn worker(&self) -> Result<Arc<Scheduler<DeviceExecutor>>> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = worker.as_ref() {
            return Ok(worker.clone());
        }
        let detector = self.detector()?;
        let started = Arc::new(Scheduler::start(self.slots, move || DeviceExecutor::new(LiveExecutor::new(detector)))?);
        *worker = Some(started.clone());
        Ok(started)
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
            *loaded = Some(Arc::new(Silero::load(&dir, &Device::flex())?));
        }
        Ok(loaded.clone())
    }

    /// Times the stages of a model over a recording: `samples` at 16 kHz.
    ///
    /// # Errors
    /// [`Error::UnknownModel`], [`Error::Checkpoint`], [`Error::Weights`], and what the device reports.
    pub fn measure(&self, model: &str, samples: &[f32]) -> Result<StageTimes> {
        let model = self.streaming_model(&self.catalog.choose(model)?.dir)?;
        pipeline::stage_times::stages(&model, samples, &self.device)
    }

    fn checkpoint(&self, dir: &Path) -> Result<Arc<Checkpoint>> {
        once(&self.checkpoints, dir, || Checkpoint::load(dir, &self.device, self.precision))
    }

    /// A checkpoint that hears streams of frames.
    fn streaming_model(&self, dir: &Path) -> Result<Arc<FastConformer>> {
        self.checkpoint(dir)?.streaming().cloned()
    }

    fn language_model(&self, choice: &Choice, wanted: &LanguageModelChoice) -> Result<Option<Arc<LanguageModel>>> {
        let path = match wanted {
            LanguageModelChoice::Off => None,
            LanguageModelChoice::File(path) => Some(path),
            LanguageModelChoice::Shipped => choice.language_model.as_ref(),
        };
        path.map(|path| once(&self.language_models, path, || LanguageModel::open(path))).transpose()
    }

    /// As [`Self::language_model`], for live sessions.
    fn live_language_model(&self, choice: &Choice, wanted: &LanguageModelChoice) -> Result<Option<Arc<LanguageModel>>> {
        match wanted {
            LanguageModelChoice::Shipped if !device::is_cpu(&self.device) => Ok(None),
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

/// What was read from `path`, read now if it was not yet.
fn once<T>(loaded: &Loaded<T>, path: &Path, read: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
    let mut loaded = loaded.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = loaded.get(path) {
        return Ok(found.clone());
    }
    let found = Arc::new(read()?);
    loaded.insert(path.to_path_buf(), found.clone());
    Ok(found)
}
