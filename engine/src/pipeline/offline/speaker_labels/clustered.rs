//! Labels by clustering: the device embeds windows of speech, and alike ones are of one speaker.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::error::{Error, Result};
use crate::models::silero::Silero;
use crate::models::voice::VoiceEmbedder;
use crate::pipeline::executors::device::{DeviceExecutor, StreamInput, StreamOutput, StreamRequest};
use crate::pipeline::executors::voice::{VoiceInput, VoiceRequest};
use crate::scheduler::{Priority, Results, Scheduler, Stream};
use crate::speakers::clustering::Clustering;
use crate::speakers::listener::{HeardWindow, Listener};
use crate::speakers::words::Activity;

/// Windows that wait for the device at most.
const WINDOWS_AHEAD: usize = 64;
/// Milliseconds of a frame.
const FRAME_MS: u64 = 10;

/// The labelling of one recording.
pub struct Labeller {
    model: Arc<VoiceEmbedder>,
    stream: Stream<DeviceExecutor>,
    results: Results<StreamOutput>,
    /// Windows on the device.
    waiting: usize,
    /// The part of the recording that each window decides, in ms.
    decided: Vec<(u64, u64)>,
    clustering: Clustering,
}

impl Labeller {
    /// Opens the recording on the device.
    ///
    /// # Errors
    /// [`Error::Busy`] when the worker has no room.
    pub fn open(
        model: Arc<VoiceEmbedder>,
        worker: &Scheduler<DeviceExecutor>,
        expected: Option<usize>,
    ) -> Result<Self> {
        let request = StreamRequest::Voice(VoiceRequest { model: model.clone() });
        let (stream, results) = worker.open(request, Priority::Offline)?;
        let clustering = Clustering::new(expected);
        Ok(Self { model, stream, results, waiting: 0, decided: Vec::new(), clustering })
    }

    /// Labels the samples that come.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn run(mut self, detector: Option<&Silero>, blocks: &Receiver<Vec<f32>>) -> Result<Vec<Activity>> {
        let mut listener = Listener::new(detector, self.model.stream()?, self.model.mels())?;
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
