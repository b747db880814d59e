//! Speaker labels beside recognition: the samples that a recording's stream decodes are heard once more, on a thread of their
//! own, whose steps the device computes between those of recognition.

mod clustered;
mod diarized;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::models::silero::Silero;
use crate::models::sortformer::{self, Sortformer};
use crate::models::voice::{self, VoiceEmbedder};
use crate::pipeline::executors::device::DeviceExecutor;
use crate::scheduler::Scheduler;
use crate::speakers::words::{self, Activity};
use crate::transcript::Transcript;

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

/// The labelling of one recording, which runs on its own thread.
pub(crate) struct SpeakerLabelling {
    thread: JoinHandle<Result<Vec<Activity>>>,
}

/// The end of a labelling that takes samples.
pub(crate) struct Samples(SyncSender<Vec<f32>>);

impl Samples {
    /// Hands on a block. A labelling that has failed says so when it is finished.
    pub fn push(&self, block: &[f32]) {
        let _ = self.0.send(block.to_vec());
    }
}

impl SpeakerLabelling {
    /// Starts to label; `expected` is the number of speakers that the caller names, and `detector` finds the speech that is clustered.
    /// Dropping the samples' end ends the recording.
    ///
    /// # Errors
    /// [`Error::Busy`] when the worker has no room, or the system no thread.
    pub fn start(
        diarizer: Diarizer,
        worker: &Scheduler<DeviceExecutor>,
        detector: Option<Arc<Silero>>,
        expected: Option<usize>,
    ) -> Result<(Self, Samples)> {
        let (samples, blocks) = sync_channel(BLOCKS_AHEAD);
        let builder = std::thread::Builder::new().name("auricle-speakers".into());
        let thread = match diarizer {
            Diarizer::Clustering(model) => {
                let labeller = clustered::Labeller::open(model, worker, expected)?;
                builder.spawn(move || labeller.run(detector.as_deref(), &blocks))
            }
            Diarizer::EndToEnd(model) => {
                let labeller = diarized::Labeller::open(model, worker)?;
                builder.spawn(move || labeller.run(&blocks))
            }
        };
        let thread =
            thread.map_err(|error| Error::Busy(format!("a thread for speaker labels cannot be started: {error}")))?;
        Ok((Self { thread }, Samples(samples)))
    }

    /// Waits for the labels and writes them into the transcript of the same samples.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn finish(self, transcript: &mut Transcript) -> Result<()> {
        let activity =
            self.thread.join().map_err(|_| Error::internal("the thread of speaker labels has panicked"))??;
        label(transcript, &activity);
        Ok(())
    }
}

/// Gives each word its speaker, and the transcript its utterances.
fn label(transcript: &mut Transcript, activity: &[Activity]) {
    let spans: Vec<_> = transcript.words.iter().map(|word| word.start..word.end).collect();
    let speakers = words::assign(&spans, activity);
    for (word, speaker) in transcript.words.iter_mut().zip(&speakers) {
        word.speaker = Some(words::label(*speaker));
    }
    transcript.cut_utterances(&speakers);
}
