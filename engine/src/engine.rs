//! The engine: calls that are awaited.

use std::any::Any;
use std::future::Future;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::audio::AudioStream;
use crate::blocking;
use crate::catalog::Catalog;
use crate::chat::{ChatMessage, ChatOptions};
use crate::device::DeviceInfo;
use crate::error::{Error, Result};
use crate::options::{EngineOptions, ListenOptions, TranscribeOptions};
use crate::pipeline::language::ChatReply;
use crate::pipeline::live::session::{LiveEvents, LiveInput};
use crate::pipeline::speech::session::{SpeechFrames, SpeechInput};
use crate::speech::{ClonedVoice, SpeakOptions, VoiceInfo};
use crate::text::analysis::Tagger;
use crate::transcript::{Progress, Transcript, VoiceProfile};

/// The engine: devices and the models on them, loaded at first use. Clones share it. Its futures run on any asynchronous
/// runtime: the engine computes on threads of its own. [`blocking::Engine`] is the same for threads that may block.
#[derive(Clone)]
pub struct Engine(Arc<blocking::Engine>);

impl From<blocking::Engine> for Engine {
    fn from(engine: blocking::Engine) -> Self {
        Self(Arc::new(engine))
    }
}

impl Engine {
    /// Opens the devices and reads the catalog; loads no model yet. It blocks for the time that a device takes to open, 0.1 to 1 s
    /// for a GPU.
    ///
    /// # Errors
    /// As [`blocking::Engine::open`].
    pub fn open(options: EngineOptions) -> Result<Self> {
        blocking::Engine::open(options).map(Self::from)
    }

    /// The same engine, for threads that may block.
    pub fn blocking(&self) -> &blocking::Engine {
        &self.0
    }

    /// [`blocking::Engine::devices`].
    pub fn devices(&self) -> Vec<&DeviceInfo> {
        self.0.devices()
    }

    /// [`blocking::Engine::device_names`].
    pub fn device_names(&self) -> String {
        self.0.device_names()
    }

    /// The models there are.
    pub fn catalog(&self) -> &Catalog {
        self.0.catalog()
    }

    /// Warnings of opening the devices, a line each.
    pub fn warnings(&self) -> &[String] {
        self.0.warnings()
    }

    /// Transcribes audio to its end, in constant memory. Recordings share the device's steps; live sessions go first.
    pub fn transcribe(&self, audio: AudioStream, options: &TranscribeOptions) -> Transcription {
        self.transcription(Audio::Stream(Box::new(audio)), options)
    }

    /// [`Engine::transcribe`] of a file.
    pub fn transcribe_file(&self, path: impl AsRef<Path>, options: &TranscribeOptions) -> Transcription {
        self.transcription(Audio::File(path.as_ref().to_path_buf()), options)
    }

    fn transcription(&self, audio: Audio, options: &TranscribeOptions) -> Transcription {
        let request = Request { engine: self.0.clone(), audio, options: options.clone(), on_progress: None };
        Transcription { request: Some(request), running: None }
    }

    /// [`blocking::Engine::enroll`], awaited.
    ///
    /// # Errors
    /// As [`blocking::Engine::enroll`].
    pub async fn enroll(&self, audio: AudioStream) -> Result<VoiceProfile> {
        self.run(move |engine| engine.enroll(audio)).await
    }

    /// [`blocking::Engine::enroll_reference`], awaited.
    ///
    /// # Errors
    /// As [`blocking::Engine::enroll_reference`].
    pub async fn enroll_reference(&self, audio: AudioStream) -> Result<VoiceProfile> {
        self.run(move |engine| engine.enroll_reference(audio)).await
    }

    /// [`blocking::Engine::clone_voice`], awaited.
    ///
    /// # Errors
    /// As [`blocking::Engine::clone_voice`].
    pub async fn clone_voice(&self, audio: AudioStream, consent: &str, language: Option<&str>) -> Result<ClonedVoice> {
        let (consent, language) = (consent.to_owned(), language.map(str::to_owned));
        self.run(move |engine| engine.clone_voice(audio, &consent, language.as_deref())).await
    }

    /// Opens a live session: samples go into the first part, events come out of the second. All sessions share the device's
    /// steps. The first session of a model loads it.
    ///
    /// # Errors
    /// [`Error::UnknownModel`], [`Error::Language`], [`Error::InvalidOption`] for options; [`Error::Busy`] when there are as
    /// many sessions as there may be; what loading reports.
    pub async fn listen(&self, options: &ListenOptions) -> Result<(LiveInput, LiveEvents)> {
        let options = options.clone();
        self.run(move |engine| engine.open_live(&options)).await
    }

    /// Answers a conversation by a language model. The answer comes piece by piece as it is written:
    ///
    /// ```no_run
    /// use auricle_engine::{ChatEvent, ChatMessage, ChatOptions, Engine, EngineOptions};
    ///
    /// # async fn example() -> auricle_engine::Result<()> {
    /// let engine = Engine::open(EngineOptions::default())?;
    /// let messages = [ChatMessage::system("Answer in one sentence."), ChatMessage::user("What is a phoneme?")];
    /// let mut reply = engine.chat(&messages, &ChatOptions::default().max_tokens(100)).await?;
    /// while let Some(event) = reply.next().await {
    ///     if let ChatEvent::Text(text) = event? {
    ///         print!("{text}");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`blocking::Engine::chat`].
    pub async fn chat(&self, messages: &[ChatMessage], options: &ChatOptions) -> Result<ChatReply> {
        let (messages, options) = (messages.to_vec(), options.clone());
        self.run(move |engine| engine.open_chat(&messages, &options)).await
    }

    /// The voices that [`Engine::speak`] has: the catalog's, or those of the options' checkpoint.
    ///
    /// # Errors
    /// As [`blocking::Engine::voices`].
    pub fn voices(&self, options: &SpeakOptions) -> Result<Vec<VoiceInfo>> {
        self.0.voices(options)
    }

    /// Opens a stream of speech: text goes into the first part, frames of 80 ms come out of the second. All streams share the device's
    /// steps. The first stream of a voice loads it. Dropping either part ends it.
    ///
    /// ```no_run
    /// use auricle_engine::{Engine, EngineOptions, SpeakOptions};
    ///
    /// # async fn example() -> auricle_engine::Result<()> {
    /// let engine = Engine::open(EngineOptions::default())?;
    /// let (mut input, mut frames) = engine.speak(&SpeakOptions::default()).await?;
    /// input.push("Good morning. It is a quarter past nine.")?;
    /// input.finish();
    /// while let Some(frame) = frames.next().await {
    ///     for word in frame?.words {
    ///         println!("{:>6} ms  {}", word.start_ms, word.text);
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`blocking::Engine::speak`].
    pub async fn speak(&self, options: &SpeakOptions) -> Result<(SpeechInput, SpeechFrames)> {
        let options = options.clone();
        self.run(move |engine| engine.open_speech(&options)).await
    }

    /// [`blocking::Engine::load_voice`], awaited.
    ///
    /// # Errors
    /// As [`blocking::Engine::load_voice`].
    pub async fn load_voice(&self, options: &SpeakOptions) -> Result<()> {
        let options = options.clone();
        self.run(move |engine| engine.load_voice(&options)).await
    }

    /// [`blocking::Engine::load_chat`], awaited.
    ///
    /// # Errors
    /// As [`blocking::Engine::load_chat`].
    pub async fn load_chat(&self, options: &ChatOptions) -> Result<()> {
        let options = options.clone();
        self.run(move |engine| engine.load_chat(&options)).await
    }

    /// [`blocking::Engine::tagger`], awaited.
    ///
    /// # Errors
    /// As [`blocking::Engine::tagger`].
    pub async fn tagger(&self) -> Result<Option<Arc<dyn Tagger>>> {
        self.run(blocking::Engine::tagger).await
    }

    /// [`blocking::Engine::load_turn_detector`], awaited.
    ///
    /// # Errors
    /// As [`blocking::Engine::load_turn_detector`].
    pub async fn load_turn_detector(&self) -> Result<bool> {
        self.run(blocking::Engine::load_turn_detector).await
    }

    /// Loads the checkpoint and the language model that a transcription with these options takes, so that the first does
    /// not wait for them.
    ///
    /// # Errors
    /// As [`blocking::Engine::load`].
    pub async fn load(&self, options: &TranscribeOptions) -> Result<()> {
        let options = options.clone();
        self.run(move |engine| engine.load(&options)).await
    }

    /// [`Engine::load`] for live sessions.
    ///
    /// # Errors
    /// As [`blocking::Engine::load_live`].
    pub async fn load_live(&self, options: &ListenOptions) -> Result<()> {
        let options = options.clone();
        self.run(move |engine| engine.load_live(&options)).await
    }

    /// [`blocking::Engine::warm_up`], awaited.
    ///
    /// # Errors
    /// As [`blocking::Engine::warm_up`].
    pub async fn warm_up(&self) -> Result<()> {
        self.run(blocking::Engine::warm_up).await
    }

    /// Runs a blocking call on a thread of its own.
    async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&blocking::Engine) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let engine = self.0.clone();
        let finished = on_thread(move || call(&engine))?;
        finished.await.unwrap_or_else(|_| Err(thread_lost()))
    }
}

/// Runs a call on a thread of its own. A panic reaches the waiting caller as an error.
///
/// # Errors
/// [`Error::Busy`] if the system refuses a thread.
fn on_thread<T: Send + 'static>(
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<oneshot::Receiver<Result<T>>> {
    let (give, finished) = oneshot::channel();
    let run = move || {
        let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(&*panic)));
        // Nobody may wait any more.
        let _ = give.send(result);
    };
    let started = std::thread::Builder::new().name("auricle-call".into()).spawn(run);
    started.map_err(|error| Error::Busy(format!("a thread cannot be started: {error}")))?;
    Ok(finished)
}

fn thread_lost() -> Error {
    Error::internal("a thread of the engine ended without a result")
}

/// The error of a thread that panicked. (The default hook has printed the panic with its place.)
fn panicked(panic: &(dyn Any + Send)) -> Error {
    let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
    Error::internal(format!("a thread panicked: {}", message.as_deref().unwrap_or("no message")))
}

enum Audio {
    File(PathBuf),
    Stream(Box<AudioStream>),
}

type OnProgress = Box<dyn FnMut(Progress) + Send>;

struct Request {
    engine: Arc<blocking::Engine>,
    audio: Audio,
    options: TranscribeOptions,
    on_progress: Option<OnProgress>,
}

/// A transcription: a future of its [`Transcript`]. It starts when it is first polled, on a thread of its own; dropped, it
/// ends with the step that the device is in.
///
/// # Errors
/// As [`blocking::Engine::transcribe_file`].
#[must_use = "it starts when it is awaited"]
pub struct Transcription {
    /// Until the first poll.
    request: Option<Request>,
    running: Option<Running>,
}

struct Running {
    result: oneshot::Receiver<Result<Transcript>>,
    dropped: Arc<AtomicBool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Relaxed);
    }
}

impl Transcription {
    /// Calls `progress` after every step, on the transcription's thread.
    pub fn on_progress(mut self, progress: impl FnMut(Progress) + Send + 'static) -> Self {
        if let Some(request) = &mut self.request {
            request.on_progress = Some(Box::new(progress));
        }
        self
    }
}

impl Future for Transcription {
    type Output = Result<Transcript>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(request) = self.request.take() {
            match request.start() {
                Ok(running) => self.running = Some(running),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let Some(running) = &mut self.running else {
            return Poll::Ready(Err(Error::internal("a transcription is polled after its end")));
        };
        let result = std::task::ready!(Pin::new(&mut running.result).poll(context));
        self.running = None;
        Poll::Ready(result.unwrap_or_else(|_| Err(thread_lost())))
    }
}

impl Request {
    fn start(self) -> Result<Running> {
        let Self { engine, audio, options, mut on_progress } = self;
        let dropped = Arc::new(AtomicBool::new(false));
        let canceled = dropped.clone();
        let result = on_thread(move || {
            let audio = match audio {
                Audio::File(path) => AudioStream::open(path)?,
                Audio::Stream(audio) => *audio,
            };
            engine.transcribe_with(audio, &options, |progress| {
                if canceled.load(Ordering::Relaxed) {
                    return ControlFlow::Break(());
                }
                if let Some(on_progress) = &mut on_progress {
                    on_progress(progress);
                }
                ControlFlow::Continue(())
            })
        })?;
        Ok(Running { result, dropped })
    }
}
