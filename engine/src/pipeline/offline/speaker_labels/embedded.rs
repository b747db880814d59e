//! The windows of speech in a recording on their way through the device, which embeds them.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::error::{Error, Result};
use crate::models::voice::VoiceEmbedder;
use crate::pipeline::executors::device::{DeviceExecutor, StreamInput, StreamOutput, StreamRequest};
use crate::pipeline::executors::voice::{VoiceInput, VoiceRequest};
use crate::scheduler::{Priority, Results, Scheduler, Stream};
use crate::speakers::listener::{HeardWindow, Listener};
use crate::speakers::naming::DirectedWindow;
use crate::vad::shared::SharedVad;

/// Windows that wait for the device at most.
const WINDOWS_AHEAD: usize = 64;
/// Milliseconds of a frame.
const FRAME_MS: u64 = 10;

/// One recording.
pub struct Embedding {
    model: Arc<VoiceEmbedder>,
    stream: Stream<DeviceExecutor>,
    results: Results<StreamOutput>,
    /// Windows on the device.
    waiting: usize,
    /// The part of the recording that each window decides, in ms.
    decided: Vec<Range<u64>>,
}

impl Embedding {
    /// Opens the recording on the device.
    ///
    /// # Errors
    /// [`Error::Busy`] when the worker has no room.
    pub fn open(model: Arc<VoiceEmbedder>, worker: &Scheduler<DeviceExecutor>) -> Result<Self> {
        let request = StreamRequest::Voice(VoiceRequest { model: model.clone() });
        let (stream, results) = worker.open(request, Priority::Offline)?;
        Ok(Self { model, stream, results, waiting: 0, decided: Vec::new() })
    }

    /// Gives the direction of each window in the samples to `take`; returns the part of the recording that each decides, in ms.
    ///
    /// # Errors
    /// Errors of the blocks and of the device.
    pub fn run(
        mut self,
        detector: Option<SharedVad>,
        blocks: impl IntoIterator<Item = Result<Vec<f32>>>,
        mut take: impl FnMut(Vec<f32>),
    ) -> Result<Vec<Range<u64>>> {
        let mut listener = Listener::new(detector, self.model.stream()?, self.model.mels())?;
        for block in blocks {
            self.push(listener.push(&block?)?, &mut take)?;
        }
        self.push(listener.finish()?, &mut take)?;
        self.stream.finish(None);
        while self.next(&mut take)?.is_continue() {}
        Ok(self.decided)
    }

    /// The windows of the samples that come.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn windows(self, detector: Option<SharedVad>, blocks: &Receiver<Vec<f32>>) -> Result<Vec<DirectedWindow>> {
        let mut directions = Vec::new();
        let decided = self.run(detector, blocks.iter().map(Ok), |direction| directions.push(direction))?;
        Ok(decided.into_iter().zip(directions).collect())
    }

    fn push(&mut self, windows: Vec<HeardWindow>, take: &mut impl FnMut(Vec<f32>)) -> Result<()> {
        for window in windows {
            while self.waiting >= WINDOWS_AHEAD {
                if self.next(take)?.is_break() {
                    return Err(Error::internal("the embeddings ended before the windows"));
                }
            }
            let HeardWindow { mels, decided } = window;
            let busy = |_| Error::Busy("too many recordings at once".into());
            self.stream.push(StreamInput::Voice(VoiceInput(mels))).map_err(busy)?;
            self.decided.push(decided.start as u64 * FRAME_MS..decided.end as u64 * FRAME_MS);
            self.waiting += 1;
        }
        Ok(())
    }

    /// Takes the next embeddings; breaks after the last ones.
    fn next(&mut self, take: &mut impl FnMut(Vec<f32>)) -> Result<ControlFlow<()>> {
        let Some(output) = self.results.wait() else { return Ok(ControlFlow::Break(())) };
        let embeddings = output?.voice()?;
        self.waiting = self.waiting.saturating_sub(embeddings.len());
        embeddings.into_iter().for_each(take);
        Ok(ControlFlow::Continue(()))
    }
}
