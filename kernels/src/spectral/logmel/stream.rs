//! Frames of live audio, as they complete.

use std::sync::Arc;

use super::LogMel;
use super::config::{LogMelError, Normalization, Padding};
use super::cpu::{AudioRow, Extent, Plan};

/// The log-mel front end of one live stream.
///
/// Frames are bit-equal to those of the whole audio on the same device, whatever the sizes of the pushes. Between
/// pushes it holds only the samples that the next frame needs: at most `win_length + hop`. After `finish` the stream starts again.
#[derive(Clone, Debug)]
pub struct LogMelStream {
    plan: Arc<Plan>,
    /// Samples from the one before the next frame's window on, with zeros before the audio.
    pending: Vec<f32>,
    received: usize,
    emitted: usize,
}

/// Samples of one stream with some complete frames, for [`LogMel::forward_blocks`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogMelBlock {
    pub(crate) samples: Vec<f32>,
    /// Number of complete frames; 0 if none has completed.
    pub frames: usize,
}

impl LogMelStream {
    /// A stream through `front_end`.
    ///
    /// # Errors
    ///
    /// [`LogMelError::NotStreamable`] when the front end normalises over the utterance or mirrors its end.
    pub fn new(front_end: &LogMel) -> Result<Self, LogMelError> {
        let plan = front_end.plan.clone();
        if plan.config.normalization != Normalization::None {
            return Err(LogMelError::NotStreamable("its normalisation"));
        }
        if plan.config.padding != Padding::Zero {
            return Err(LogMelError::NotStreamable("its reflective padding"));
        }
        let mut stream = Self { plan, pending: Vec::new(), received: 0, emitted: 0 };
        stream.restart();
        Ok(stream)
    }

    /// Appends samples and returns the frames that they complete, `[frames, mels]`, computed on this CPU.
    pub fn push(&mut self, samples: &[f32]) -> Vec<f32> {
        let frames = self.receive(samples);
        self.take(frames, |plan, samples| compute(plan, samples, frames))
    }

    /// Ends the stream: returns the remaining frames, `[frames, mels]`, computed on this CPU.
    ///
    /// The stream has then returned `samples / hop` frames in all, the valid ones of the whole audio.
    pub fn finish(&mut self) -> Vec<f32> {
        let frames = self.remaining();
        let rest = self.take(frames, |plan, samples| compute(plan, samples, frames));
        self.restart();
        rest
    }

    /// Appends samples and returns a block with the frames that they complete, to be computed on a device.
    pub fn push_block(&mut self, samples: &[f32]) -> LogMelBlock {
        let frames = self.receive(samples);
        self.take(frames, |_, samples| LogMelBlock { samples: samples.to_vec(), frames })
    }

    /// Ends the stream: returns a block with the remaining frames, to be computed on a device.
    pub fn finish_block(&mut self) -> LogMelBlock {
        let frames = self.remaining();
        let rest = self.take(frames, |_, samples| LogMelBlock { samples: samples.to_vec(), frames });
        self.restart();
        rest
    }

    /// Appends samples and returns the number of complete frames: those whose window lies within the samples.
    fn receive(&mut self, samples: &[f32]) -> usize {
        self.pending.extend_from_slice(samples);
        self.received += samples.len();
        let (window, hop) = (self.plan.config.win_length, self.plan.config.hop);
        let complete = self.pending.len().checked_sub(window + 1).map_or(0, |beyond| beyond / hop + 1);
        complete.min(self.remaining())
    }

    /// Number of valid frames of the samples that were not returned yet.
    fn remaining(&self) -> usize {
        self.received / self.plan.config.hop - self.emitted
    }

    /// Passes the samples of the next `frames` frames to `with` and drops those that no later frame needs.
    fn take<R>(&mut self, frames: usize, with: impl FnOnce(&Plan, &[f32]) -> R) -> R {
        let (window, hop) = (self.plan.config.win_length, self.plan.config.hop);
        let needed = frames.checked_sub(1).map_or(0, |hops| hops * hop + window + 1);
        let result = with(&self.plan, &self.pending[..needed.min(self.pending.len())]);
        self.pending.drain(..(frames * hop).min(self.pending.len()));
        self.emitted += frames;
        result
    }

    /// The state before the first sample: half a window of silence, and the sample before it for the pre-emphasis.
    fn restart(&mut self) {
        let config = &self.plan.config;
        self.pending.clear();
        self.pending.resize(config.n_fft / 2 - config.window_offset() + 1, 0.0);
        (self.received, self.emitted) = (0, 0);
    }
}

/// Index of the first sample of the transform of frame 0 in a block. Its window begins at the second sample of the block.
pub(crate) fn block_left(plan: &Plan) -> isize {
    1 - plan.config.window_offset() as isize
}

fn compute(plan: &Plan, samples: &[f32], frames: usize) -> Vec<f32> {
    let mut out = vec![0.0; frames * plan.config.mels];
    let extent = Extent { samples: samples.len(), frames };
    plan.row(AudioRow { samples, left: block_left(plan), extent }, &mut out);
    out
}
