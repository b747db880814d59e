//! The engine: a device, and the models on it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use auricle_kernels::gemv::Precision;
use burn::tensor::Device;

use crate::audio::AudioStream;
use crate::catalog::{Catalog, SelectedCheckpoint};
use crate::decoding::fusion::FusionWeights;
use crate::device::{self, DeviceInfo};
use crate::error::{Error, Result};
use crate::models::fastconformer::FastConformer;
use crate::models::silero::Silero;
use crate::options::{EngineOptions, LanguageModelChoice, ListenOptions, TranscribeOptions};
use crate::pipeline::checkpoint::Checkpoint;
use crate::pipeline::executor::DeviceExecutor;
use crate::pipeline::live::LiveExecutor;
use crate::pipeline::live::session::{self, LiveEvents, LiveInput};
use crate::pipeline::offline;
use crate::pipeline::stage_times::{self, StageTimes};
use crate::scheduler::{Scheduler, SlotCounts};
use crate::text::lm::LanguageModel;
use crate::transcript::{ModelReport, Progress, Transcript};

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

/// Values read from files, by path. The lock is held while reading, so that no file is read twice.
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

    /// Warnings of opening the device, a line each.
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
                // The checkpoint finds the language by itself; a language that it lacks is still an error.
                options.languages.iter().try_for_each(|language| choice.check_language(language))?;
                offline::transducer::transcribe(model, &worker, audio, options, language_model, detector, progress)?
            }
            Checkpoint::Whisper(_) if language_model.is_some() => {
                return Err(Error::InvalidOption("a Whisper checkpoint takes no language model".into()));
            }
            Checkpoint::Whisper(model) => {
                offline::whisper::transcribe(model, &worker, audio, options, detector, progress)?
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
        session::open(&*self.worker()?, model, &options, look_ahead_ms, language_model, detected)
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
        stage_times::stages(&model, samples, &self.device)
    }

    fn checkpoint(&self, dir: &Path) -> Result<Arc<Checkpoint>> {
        once(&self.checkpoints, dir, || Checkpoint::load(dir, &self.device, self.precision))
    }

    /// A checkpoint that hears streams of frames.
    fn streaming_model(&self, dir: &Path) -> Result<Arc<FastConformer>> {
        self.checkpoint(dir)?.streaming().cloned()
    }

    fn language_model(
        &self,
        choice: &SelectedCheckpoint,
        wanted: &LanguageModelChoice,
    ) -> Result<Option<Arc<LanguageModel>>> {
        let path = match wanted {
            LanguageModelChoice::Off => None,
            LanguageModelChoice::File(path) => Some(path),
            LanguageModelChoice::Shipped => choice.language_model.as_ref(),
        };
        path.map(|path| once(&self.language_models, path, || LanguageModel::open(path))).transpose()
    }

    /// As [`Self::language_model`], for live sessions.
    fn live_language_model(
        &self,
        choice: &SelectedCheckpoint,
        wanted: &LanguageModelChoice,
    ) -> Result<Option<Arc<LanguageModel>>> {
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

/// The value of `path`: reads it if it was not read before.
fn once<T>(loaded: &Loaded<T>, path: &Path, read: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
    let mut loaded = loaded.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = loaded.get(path) {
        return Ok(found.clone());
    }
    let found = Arc::new(read()?);
    loaded.insert(path.to_path_buf(), found.clone());
    Ok(found)
}
