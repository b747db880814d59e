//! Speaker labels beside recognition: the samples that a recording's stream decodes are heard once more, on a thread of their
//! own, whose windows the device embeds between the steps of recognition.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::models::silero::Silero;
use crate::models::voice::VoiceEmbedder;
use crate::pipeline::executors::device::{DeviceExecutor, StreamInput, StreamOutput, StreamRequest};
use crate::pipeline::executors::voice::{VoiceInput, VoiceRequest};
use crate::scheduler::{Priority, Results, Scheduler, Stream};
use crate::speakers::clustering::Clustering;
use crate::speakers::listener::{HeardWindow, Listener};
use crate::speakers::words::{self, Activity};
use crate::transcript::Transcript;

/// Blocks of samples that wait for the thread at most.
const BLOCKS_AHEAD: usize = 64;
/// Windows that wait for the device at most.
const WINDOWS_AHEAD: usize = 64;
/// Milliseconds of a frame.
const FRAME_MS: u64 = 10;

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
    /// Starts to label; `expected` is the number of speakers that the caller names. Dropping the samples' end ends the recording.
    ///
    /// # Errors
    /// [`Error::Busy`] when the worker has no room, or the system no thread.
    pub fn start(
        model: Arc<VoiceEmbedder>,
        worker: &Scheduler<DeviceExecutor>,
        detector: Option<Arc<Silero>>,
        expected: Option<usize>,
    ) -> Result<(Self, Samples)> {
        let request = StreamRequest::Voice(VoiceRequest { model: model.clone() });
        let (stream, results) = worker.open(request, Priority::Offline)?;
        let (samples, blocks) = sync_channel(BLOCKS_AHEAD);
        let run = move || {
            let listener = Listener::new(detector.as_deref(), model.stream()?, model.mels())?;
            Labeller { stream, results, waiting: 0, decided: Vec::new(), clustering: Clustering::new(expected) }
                .run(listener, &blocks)
        };
        let thread = std::thread::Builder::new()
            .name("auricle-speakers".into())
            .spawn(run)
            .map_err(|error| Error::Busy(format!("a thread for speaker labels cannot be started: {error}")))?;
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

/// The thread's state.
struct Labeller {
    stream: Stream<DeviceExecutor>,
    results: Results<StreamOutput>,
    /// Windows on the device.
    waiting: usize,
    /// The part of the recording that each window decides, in ms.
    decided: Vec<(u64, u64)>,
    clustering: Clustering,
}

impl Labeller {
    fn run(mut self, mut listener: Listener<'_>, blocks: &Receiver<Vec<f32>>) -> Result<Vec<Activity>> {
        while let Ok(block) = blocks.recv() {
            self.push(listener.push(&block)?)?;
        }
        self.push(listener.finish()?)?;
        self.stream.finish(None);
        while self.take()?.is_continue() {}
        let speakers = self.clustering.finish();
        let activity = |((start, end), speaker)| Activity { span: start..end, speaker };
        Ok(self.decided.into_iter().zip(speakers).map(activity).collect())
    }

    fn push(&mut self, windows: Vec<HeardWindow>) -> Result<()> {
        for window in windows {
            while self.waiting >= WINDOWS_AHEAD {
                if self.take()?.is_break() {
                    return Err(Error::internal("the embeddings ended before the windows"));
                }
            }
            let HeardWindow { mels, decided } = window;
            let busy = |_| Error::Busy("too many recordings at once".into());
            self.stream.push(StreamInput::Voice(VoiceInput(mels))).map_err(busy)?;
            self.decided.push((decided.start as u64 * FRAME_MS, decided.end as u64 * FRAME_MS));
            self.waiting += 1;
        }
        Ok(())
    }

    /// Takes the next embeddings; breaks after the last ones.
    fn take(&mut self) -> Result<ControlFlow<()>> {
        let Some(output) = self.results.wait() else { return Ok(ControlFlow::Break(())) };
        let embeddings = output?.voice()?;
        self.waiting = self.waiting.saturating_sub(embeddings.len());
        embeddings.iter().for_each(|embedding| self.clustering.push(embedding));
        Ok(ControlFlow::Continue(()))
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
