//! Windows of live turns on their way through an offline model.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::decoding::Token;
use crate::decoding::keyterms::{ExpectedTerms, Keyterms};
use crate::error::{Error, Result};
use crate::models::whisper::{Task, Whisper};
use crate::options::ListenOptions;
use crate::pipeline::checkpoint::Checkpoint;
use crate::pipeline::executors::device::{DeviceExecutor, StreamInput, StreamOutput, StreamRequest};
use crate::pipeline::executors::groups::BatchGroup;
use crate::pipeline::executors::second_pass::{
    ReaderRequest, SecondPassInput, SecondPassOutput, SecondPassRequest, Urgency,
};
use crate::pipeline::executors::transducer::{SearchPlacement, StepResult, TransducerInput, TransducerRequest};
use crate::pipeline::executors::whisper::{LanguageChoice, WhisperRequest};
use crate::pipeline::offline::whisper::{keyterm_prompt, language};
use crate::pipeline::offline::whisper_windows::{WindowQueue, WrittenText};
use crate::scheduler::{Priority, Results, Stream, StreamOpener};
use crate::text::tokens::{Spoken, joined};
use crate::vad::chunker::WindowLengths;
use crate::vad::seam::join;
use crate::vad::window::Window;

/// A window with less speech takes the language of those before it, ms.
const MIN_LANGUAGE_SPEECH_MS: u64 = 2_000;

/// An offline model with the options of a session.
pub enum OfflineModel {
    /// Whisper.
    Whisper {
        /// The checkpoint.
        model: Arc<Whisper>,
        /// The session's language, or the way to detect it.
        language: LanguageChoice,
        /// The keyterms as a prompt.
        prompt: Vec<u32>,
    },
    /// A transducer, with greedy search.
    Transducer {
        /// The checkpoint and its settings.
        group: BatchGroup,
        /// Words to expect.
        keyterms: Option<Arc<Keyterms>>,
    },
}

impl OfflineModel {
    /// A checkpoint with the options of a session.
    ///
    /// # Errors
    /// [`Error::Language`] for a language that the checkpoint lacks; [`Error::InvalidOption`] for a class that reads recordings alone; those
    /// of its tokenizer for keyterms.
    pub fn new(checkpoint: &Checkpoint, options: &ListenOptions) -> Result<Self> {
        let spoken = options.language.as_deref();
        Ok(match checkpoint {
            Checkpoint::Whisper(model) => Self::Whisper {
                language: language(model, spoken, &options.languages)?,
                prompt: keyterm_prompt(model, &options.keyterms, spoken.filter(|_| options.medical_mode))?,
                model: model.clone(),
            },
            Checkpoint::Qwen3Asr(_) => {
                let reason =
                    "Qwen3-ASR reads no live turns again; the second pass takes a Whisper or FastConformer checkpoint";
                return Err(Error::InvalidOption(reason.into()));
            }
            Checkpoint::FastConformer(model) => {
                let terms = ExpectedTerms::new(&options.keyterms, options.medical_mode, spoken);
                let group = BatchGroup {
                    look_ahead: model.look_ahead(None)?,
                    language: model.language_slot(spoken, false)?,
                    model: model.clone(),
                };
                Self::Transducer { group, keyterms: Keyterms::new(&terms, model.vocabulary())?.0.map(Arc::new) }
            }
        })
    }

    /// Lengths of the windows that it takes.
    pub fn lengths(&self) -> WindowLengths {
        match self {
            Self::Whisper { .. } => WindowLengths::THIRTY_SECONDS,
            Self::Transducer { .. } => WindowLengths::UTTERANCES,
        }
    }

    /// True for a checkpoint that knows English alone.
    pub fn is_english(&self) -> bool {
        match self {
            Self::Whisper { model, .. } => model.config().special.languages.is_empty(),
            Self::Transducer { group, .. } => group.model.vocabulary().is_english(),
        }
    }

    /// Token of a language, where the model finds it among others.
    pub fn token(&self, code: &str) -> Option<u32> {
        let Self::Whisper { model, language, .. } = self else { return None };
        let token = model.config().special.languages.get(code)?;
        match language {
            LanguageChoice::Known(_) => None,
            LanguageChoice::Detect(all) | LanguageChoice::DetectEachWindow(all) => {
                all.contains(token).then_some(*token)
            }
        }
    }

    /// Sends a window to the device. A short one is read in the language `known`, by its token, where the session has none.
    ///
    /// # Errors
    /// [`Error::Busy`] when there is no room.
    pub fn read(
        &self,
        opener: &StreamOpener<DeviceExecutor>,
        window: Window,
        urgency: Urgency,
        known: Option<u32>,
    ) -> Result<Reading> {
        let reader = match self {
            Self::Whisper { model, language, .. } => ReaderRequest::Whisper(WhisperRequest {
                model: model.clone(),
                language: language.clone(),
                task: Task::Transcribe,
                beams: 1,
            }),
            Self::Transducer { group, keyterms } => ReaderRequest::Transducer(TransducerRequest {
                group: group.clone(),
                search: SearchPlacement::OnWorker(keyterms.clone()),
            }),
        };
        let window_ms = window.length_ms();
        let request = StreamRequest::SecondPass(Box::new(SecondPassRequest { reader, urgency, window_ms }));
        let (mut stream, results) = opener.open(request, Priority::SecondPass)?;
        // The words count from the window's start; its place in the turn comes when they are joined.
        let (place, own) = window.apart();
        let reader = match self {
            Self::Whisper { model, prompt, .. } => {
                let to_stream = |input| StreamInput::SecondPass(SecondPassInput::Whisper(input));
                let known =
                    known.filter(|_| own.speech().is_ok_and(|speech| speech.total_ms() < MIN_LANGUAGE_SPEECH_MS));
                let mut queue = WindowQueue::new(stream, model.clone(), prompt.clone(), to_stream);
                queue.send(own, known.map(|token| (token, Some(token))))?;
                Reader::Whisper { queue, text: WrittenText::default() }
            }
            Self::Transducer { group, .. } => {
                let input = if group.model.config().class.is_streaming() {
                    let mut mel = group.model.preprocessor().stream()?;
                    let mut rows = mel.push(&own.samples);
                    rows.extend(mel.finish());
                    TransducerInput::Rows(rows)
                } else {
                    TransducerInput::Window(own.samples.clone())
                };
                stream.finish(Some(StreamInput::SecondPass(SecondPassInput::Transducer(input))));
                Reader::Transducer { _stream: stream, group: group.clone(), tokens: Vec::new(), window: own }
            }
        };
        Ok(Reading { results, reader, place, language: None })
    }
}

/// A window on its way.
pub struct Reading {
    results: Results<StreamOutput>,
    reader: Reader,
    place: Window,
    /// Token of the language that it was likely spoken in.
    language: Option<u32>,
}

enum Reader {
    Whisper { queue: WindowQueue, text: WrittenText },
    Transducer { _stream: Stream<DeviceExecutor>, group: BatchGroup, tokens: Vec<Token>, window: Window },
}

/// The text of a window.
#[derive(Clone, Debug)]
pub struct WindowText {
    spoken: Spoken,
    place: Window,
    /// Token of the language that it was likely spoken in, where the model found it.
    pub language: Option<u32>,
}

impl WindowText {
    /// Adds the words to those of the windows before it, with times from the start of the session.
    pub fn join_to(self, turn: &mut Spoken) {
        join(turn, self.spoken, &self.place);
    }
}

impl Reading {
    /// The text; none if the deadline was missed.
    ///
    /// # Errors
    /// Those of the device, and of a model whose scores are not finite.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<WindowText>>> {
        loop {
            if let Reader::Whisper { queue, text } = &mut self.reader {
                queue.deliver(text)?;
                if queue.is_empty() {
                    let mut spoken = std::mem::take(&mut text.spoken);
                    spoken.text = joined(&spoken.words);
                    return Poll::Ready(Ok(Some(self.text(spoken))));
                }
            }
            let Some(output) = ready!(self.results.poll_next(context)) else {
                return Poll::Ready(self.finished().map(Some));
            };
            match (output?.second_pass()?, &mut self.reader) {
                (SecondPassOutput::Missed, _) => return Poll::Ready(Ok(None)),
                (SecondPassOutput::Whisper(results), Reader::Whisper { queue, .. }) => {
                    for result in results {
                        self.language = self.language.or(result.known_language);
                        queue.receive(result)?;
                    }
                }
                (SecondPassOutput::Transducer(output), Reader::Transducer { tokens, .. }) => {
                    for result in output.results {
                        let StepResult::Tokens(new) = result else {
                            return Poll::Ready(Err(Error::internal("frames of a greedy search")));
                        };
                        tokens.extend(new);
                    }
                }
                _ => return Poll::Ready(Err(Error::internal("a result of another family than the reading's"))),
            }
        }
    }

    /// The text of a transducer when its results have ended.
    fn finished(&mut self) -> Result<WindowText> {
        let Reader::Transducer { group, tokens, window, .. } = &mut self.reader else {
            return Err(Error::internal("the results ended before the windows"));
        };
        let (model, frame_ms) = (&group.model, group.model.frame_ms());
        window.speech()?.keep_near(tokens, frame_ms);
        let mut spoken = model.vocabulary().words(tokens, frame_ms, window.length_ms());
        model.emission_delay(group.look_ahead).correct(&mut spoken.words);
        model.calibration().apply(&mut spoken.words);
        Ok(self.text(spoken))
    }

    fn text(&self, spoken: Spoken) -> WindowText {
        WindowText { spoken, place: self.place.clone(), language: self.language }
    }
}
