//! Labels by clustering: the device embeds windows of speech, and alike ones are of one speaker.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::embedded::Embedding;
use crate::error::Result;
use crate::models::voice::VoiceEmbedder;
use crate::pipeline::executors::device::DeviceExecutor;
use crate::scheduler::Scheduler;
use crate::speakers::clustering::Clustering;
use crate::speakers::naming::DirectedWindow;
use crate::speakers::words::Activity;
use crate::vad::shared::SharedVad;

/// The labelling of one recording.
pub struct Labeller {
    embedding: Embedding,
    clustering: Clustering,
}

impl Labeller {
    /// Opens the recording on the device.
    ///
    /// # Errors
    /// [`Error::Busy`](crate::Error::Busy) when the worker has no room.
    pub fn open(
        model: Arc<VoiceEmbedder>,
        worker: &Scheduler<DeviceExecutor>,
        expected: Option<usize>,
    ) -> Result<Self> {
        Ok(Self { embedding: Embedding::open(model, worker)?, clustering: Clustering::new(expected) })
    }

    /// Labels the samples that come; returns the windows too, if they are to be `kept`.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn run(
        self,
        detector: Option<SharedVad>,
        blocks: &Receiver<Vec<f32>>,
        kept: bool,
    ) -> Result<(Vec<Activity>, Vec<DirectedWindow>)> {
        let Self { embedding, mut clustering } = self;
        let mut directions = Vec::new();
        let take = |direction: Vec<f32>| {
            clustering.push(&direction);
            directions.extend(kept.then_some(direction));
        };
        let decided = embedding.run(detector, blocks.iter().map(Ok), take)?;
        let speakers = clustering.finish();
        let activity = |(span, speaker): (&Range<u64>, usize)| Activity { span: span.clone(), speaker };
        let activity = decided.iter().zip(speakers).map(activity).collect();
        Ok((activity, decided.into_iter().zip(directions).collect()))
    }
}
