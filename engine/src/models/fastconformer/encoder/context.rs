//! Attention context of frames, and position embeddings of their distances.

use std::ops::Range;

/// The frames that a query attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// Every real frame of its utterance.
    Full,
    /// Its own chunk of `look_ahead + 1` frames and as many whole chunks to the left as fit into `left` frames.
    Chunked {
        /// Frames of left context that the checkpoint was trained with.
        left: usize,
        /// Frames of look-ahead.
        look_ahead: usize,
    },
}

impl Context {
    /// Frames per chunk; 1 without chunks.
    pub fn chunk(self) -> usize {
        match self {
            Self::Full => 1,
            Self::Chunked { look_ahead, .. } => look_ahead + 1,
        }
    }

    /// Frames of keys and values that a stream keeps: the whole chunks of left context.
    pub fn kept(self) -> usize {
        match self {
            Self::Full => 0,
            Self::Chunked { left, look_ahead } => left / (look_ahead + 1) * (look_ahead + 1),
        }
    }

    /// Largest distances into the past and the future that a frame attends to, in a step of `frames` frames.
    pub fn reach(self, frames: usize) -> (usize, usize) {
        match self {
            Self::Full => (frames.saturating_sub(1), frames.saturating_sub(1)),
            Self::Chunked { look_ahead, .. } => (self.kept() + look_ahead, look_ahead),
        }
    }

    /// The first frame that `frame`, or a later one, attends to.
    pub fn first_seen(self, frame: usize) -> usize {
        match self {
            Self::Full => 0,
            Self::Chunked { .. } => (frame / self.chunk() * self.chunk()).saturating_sub(self.kept()),
        }
    }

    /// Range of frames that `frame` attends to, in a stream whose real frames end at `end`.
    pub fn seen(self, frame: usize, end: usize) -> Range<usize> {
        let last = match self {
            Self::Full => end,
            Self::Chunked { .. } => ((frame / self.chunk() + 1) * self.chunk()).min(end),
        };
        self.first_seen(frame)..last
    }
}

/// Sinusoidal embeddings of the distances from `farthest` frames in the past down to `nearest` frames ahead:
/// `[farthest + nearest + 1, hidden]`, sine and cosine interleaved.
pub fn position_embeddings(farthest: usize, nearest: usize, hidden: usize) -> Vec<f32> {
    let count = farthest + nearest + 1;
    let mut values = Vec::with_capacity(count * hidden);
    for at in 0..count {
        let distance = (farthest as i64 - at as i64) as f32;
        for pair in 0..hidden / 2 {
            // f32 throughout, as the published class computes it.
            let frequency = 1.0 / 10000f32.powf(2.0 * pair as f32 / hidden as f32);
            let (sin, cos) = (distance * frequency).sin_cos();
            values.extend([sin, cos]);
        }
    }
    values
}
