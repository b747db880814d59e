//! Speaker labels beside recognition: the samples that a recording's stream decodes are heard once more, on a thread of their
//! own, whose steps the device computes between those of recognition.

mod clustered;
mod diarized;
mod embedded;
pub(crate) mod enrolment;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::models::sortformer::{self, Sortformer};
use crate::models::voice::{self, VoiceEmbedder};
use crate::pipeline::executors::device::DeviceExecutor;
use crate::scheduler::Scheduler;
use crate::speakers::clustering::in_order;
use crate::speakers::naming::{DirectedWindow, KnownVoices};
use crate::speakers::sentences::move_changes;
use crate::speakers::words::{self, Activity};
use crate::transcript::{KnownSpeaker, Transcript};
use crate::vad::shared::SharedVad;
use embedded::Embedding;

/// Blocks of samples that wait for the thread at most.
const BLOCKS_AHEAD: usize = 64;

/// The model behind speaker labels.
pub(crate) enum Diarizer {
    /// The embeddings of windows of speech are clustered: any number of speakers, one at a time.
    Clustering(Arc<VoiceEmbedder>),
    /// One network hears the recording and tells the activity of each speaker: a few speakers, who may overlap.
    EndToEnd(Arc<Sortformer>),
}

/// The form of a diarizer's checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiarizerForm {
    /// A speaker embedding.
    Clustering,
    /// A network that tells the activity of each speaker.
    EndToEnd,
}

impl DiarizerForm {
    /// The form of a folder's checkpoint.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when its `config.json` is missing, or of another architecture.
    pub fn of(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|e| bad(format!("cannot read: {e}")))?;
        let config: serde_json::Value = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        match config["model_type"].as_str().unwrap_or_default() {
            voice::MODEL_TYPE => Ok(Self::Clustering),
            sortformer::MODEL_TYPE => Ok(Self::EndToEnd),
            other => Err(bad(format!(
                "model_type {other} tells no speakers apart; {} and {} do",
                sortformer::MODEL_TYPE,
                voice::MODEL_TYPE
            ))),
        }
    }
}

/// Speakers who are to be named.
pub(crate) struct Naming {
    /// The embedding that made the profiles.
    pub model: Arc<VoiceEmbedder>,
    /// The people whom there may be.
    pub known: Vec<KnownSpeaker>,
}

/// The speech that a diarizer has heard.
struct Heard {
    /// When each speaker speaks.
    activity: Vec<Activity>,
    /// The windows of speech, where the diarizer embeds them.
    windows: Vec<DirectedWindow>,
}

/// The labelling of one recording, which runs on threads of its own.
pub(crate) struct SpeakerLabelling {
    thread: JoinHandle<Result<Heard>>,
    /// Hears the voices of speakers whom a diarizer without an embedding tells apart.
    voices: Option<JoinHandle<Result<Vec<DirectedWindow>>>>,
    naming: Option<Naming>,
}

/// The end of a labelling that takes samples.
pub(crate) struct Samples(Vec<SyncSender<Vec<f32>>>);

impl Samples {
    /// Hands on a block. A labelling that has failed says so when it is finished.
    pub fn push(&self, block: &[f32]) {
        for thread in &self.0 {
            let _ = thread.send(block.to_vec());
        }
    }
}

impl SpeakerLabelling {
    /// Starts to label; `expected` is the number of speakers that the caller names, and `detector` finds the speech that is embedded.
    /// Dropping the samples' end ends the recording.
    ///
    /// # Errors
    /// [`Error::Busy`] when the worker has no room, or the system no thread.
    pub fn start(
        diarizer: Diarizer,
        worker: &Scheduler<DeviceExecutor>,
        detector: Option<SharedVad>,
        expected: Option<usize>,
        naming: Option<Naming>,
    ) -> Result<(Self, Samples)> {
        let (samples, blocks) = sync_channel(BLOCKS_AHEAD);
        let mut samples = Samples(vec![samples]);
        let (thread, voices) = match diarizer {
            Diarizer::Clustering(model) => {
                let labeller = clustered::Labeller::open(model, worker, expected)?;
                let names = naming.is_some();
                let label = move || -> Result<Heard> {
                    let (activity, windows) = labeller.run(detector, &blocks, names)?;
                    Ok(Heard { activity, windows })
                };
                (spawn(label)?, None)
            }
            Diarizer::EndToEnd(model) => {
                let labeller = diarized::Labeller::open(model, worker)?;
                let label =
                    move || -> Result<Heard> { Ok(Heard { activity: labeller.run(&blocks)?, windows: Vec::new() }) };
                let thread = spawn(label)?;
                let hear = |naming: &Naming| {
                    let embedding = Embedding::open(naming.model.clone(), worker)?;
                    let (more, blocks) = sync_channel(BLOCKS_AHEAD);
                    samples.0.push(more);
                    spawn(move || embedding.windows(detector, &blocks))
                };
                (thread, naming.as_ref().map(hear).transpose()?)
            }
        };
        Ok((Self { thread, voices, naming }, samples))
    }

    /// Waits for the labels and writes them into the transcript of the same samples, with the names of known people.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn finish(self, transcript: &mut Transcript) -> Result<()> {
        let Heard { activity, mut windows } = joined(self.thread)?;
        if let Some(voices) = self.voices {
            windows = joined(voices)?;
        }
        let spans: Vec<_> = transcript.words.iter().map(|word| word.start..word.end).collect();
        let mut speakers = words::assign(&spans, &activity);
        let texts: Vec<&str> = transcript.words.iter().map(|word| word.text.as_str()).collect();
        move_changes(&texts, &spans, &activity, &mut speakers);
        if let Some(Naming { model, known }) = &self.naming {
            let voices = KnownVoices::new(known.iter().map(|one| &*one.profile.direction), model.cohort());
            let people = words::people(&spans, &speakers, &voices.identify(&windows, &activity));
            for (word, person) in transcript.words.iter_mut().zip(people) {
                word.speaker_name = person.map(|person| known[person].name.clone());
            }
        }
        let speakers = in_order(&speakers);
        for (word, speaker) in transcript.words.iter_mut().zip(&speakers) {
            word.speaker = Some(words::label(*speaker));
        }
        transcript.cut_utterances(&speakers);
        Ok(())
    }
}

fn spawn<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<JoinHandle<Result<T>>> {
    let thread = std::thread::Builder::new().name("auricle-speakers".into()).spawn(work);
    thread.map_err(|error| Error::Busy(format!("a thread for speaker labels cannot be started: {error}")))
}

fn joined<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().map_err(|_| Error::internal("a thread of speaker labels has panicked"))?
}
