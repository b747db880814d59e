//! Labels by a diarizer: the device tells the activity of each speaker, frame by frame.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::error::{Error, Result};
use crate::models::sortformer::Sortformer;
use crate::pipeline::executors::device::{DeviceExecutor, StreamInput, StreamOutput, StreamRequest};
use crate::pipeline::executors::diarizer::{DiarizerInput, DiarizerRequest};
use crate::scheduler::{Priority, Results, Scheduler, Stream};
use crate::speakers::activity::ActiveSpans;
use crate::speakers::words::Activity;

/// The labelling of one recording.
pub struct Labeller {
    model: Arc<Sortformer>,
    stream: Stream<DeviceExecutor>,
    results: Results<StreamOutput>,
    /// Mel frames on the device that no output has covered.
    waiting: usize,
    spans: ActiveSpans,
}

impl Labeller {
    /// Opens the recording on the device.
    ///
    /// # Errors
    /// [`Error::Busy`] when the worker has no room.
    pub fn open(model: Arc<Sortformer>, worker: &Scheduler<DeviceExecutor>) -> Result<Self> {
        let request = StreamRequest::Diarizer(DiarizerRequest { model: model.clone() });
        let (stream, results) = worker.open(request, Priority::Offline)?;
        let spans = ActiveSpans::new(model.speakers(), model.frame_ms());
        Ok(Self { model, stream, results, waiting: 0, spans })
    }

    /// Labels the samples that come.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn run(mut self, blocks: &Receiver<Vec<f32>>) -> Result<Vec<Activity>> {
        let mut front_end = self.model.log_mels()?;
        let encoder = &self.model.config().encoder;
        let bands = encoder.num_mel_bins;
        let chunking = self.model.config().offline();
        let piece = chunking.chunk * encoder.subsampling_factor;
        // With so many frames a step is ready or runs: its output comes.
        let ahead = (chunking.chunk + chunking.look_ahead) * encoder.subsampling_factor;
        let mut mels: Vec<f32> = Vec::new();
        while let Ok(block) = blocks.recv() {
            mels.extend(front_end.push(&block));
            if mels.len() >= piece * bands {
                while self.waiting > ahead {
                    if self.take()?.is_break() {
                        return Err(Error::internal("the diarizer ended before the recording"));
                    }
                }
                self.push(std::mem::take(&mut mels), bands)?;
            }
        }
        mels.extend(front_end.finish());
        self.push(mels, bands)?;
        self.stream.finish(None);
        while self.take()?.is_continue() {}
        Ok(self.spans.finish())
    }

    fn push(&mut self, mels: Vec<f32>, bands: usize) -> Result<()> {
        self.waiting += mels.len() / bands;
        let busy = |_| Error::Busy("too many recordings at once".into());
        self.stream.push(StreamInput::Diarizer(DiarizerInput(mels))).map_err(busy)
    }

    /// Takes the next output; breaks after the last one.
    fn take(&mut self) -> Result<ControlFlow<()>> {
        let Some(output) = self.results.wait() else { return Ok(ControlFlow::Break(())) };
        let logits = output?.diarizer()?;
        self.waiting = self.waiting.saturating_sub(logits.len() / self.model.speakers());
        self.spans.push(&logits);
        Ok(ControlFlow::Continue(()))
    }
}
