//! The steps over one recording or live stream, and what goes on from step to step: the speaker cache, the queue, and the mel frames that
//! wait. The memory is constant.

use super::config::{Chunking, Config};
use super::speaker_cache::{CachePolicy, frames_moved, pool};

/// The parts of a step, in encoder frames, in the order of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// Of the speaker cache.
    pub cache: usize,
    /// Of the queue.
    pub queue: usize,
    /// Before the chunk, heard again.
    pub look_back: usize,
    /// Scored.
    pub chunk: usize,
    /// After the chunk.
    pub look_ahead: usize,
}

impl Step {
    /// Frames of the cache and the queue.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.cache + self.queue
    }

    /// Frames whose mels are new to the step.
    #[must_use]
    pub fn heard(&self) -> usize {
        self.look_back + self.chunk + self.look_ahead
    }
}

/// The result of a step for one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// Vectors of the frames that were heard: `[heard][size]`.
    pub embedded: Vec<f32>,
    /// Of all frames, those of the cache first: `[mel frames][speakers]`. A sigmoid makes probabilities of them.
    pub logits: Vec<f32>,
}

/// One recording or live stream.
#[derive(Clone, Debug)]
pub struct SpeakerStream {
    chunking: Chunking,
    policy: CachePolicy,
    /// Values of an encoder frame.
    size: usize,
    /// Values of the mel frames of an encoder frame.
    group: usize,
    factor: usize,
    speakers: usize,
    /// The learned silence, `[size]`.
    silence: Vec<f32>,
    /// `[frames][size]`
    cache: Vec<f32>,
    /// Of the cache's frames, `[frames][speakers]`.
    activity: Vec<f32>,
    /// The cache's frames are chosen ones, no longer the first of the stream.
    chosen: bool,
    /// `[frames][size]`
    queue: Vec<f32>,
    /// Mel frames from the look-back of the next chunk on.
    mels: Vec<f32>,
    /// Encoder frames of these that are look-back.
    look_back: usize,
    /// Mel frames that fill up the last encoder frame; none before the end.
    padding: Option<usize>,
}

impl SpeakerStream {
    /// A stream without frames; `silence` is the checkpoint's.
    #[must_use]
    pub fn new(config: &Config, chunking: Chunking, silence: &[f32]) -> Self {
        let (factor, speakers) = (config.encoder.subsampling_factor, config.head.num_speakers);
        Self {
            chunking,
            policy: CachePolicy::new(&config.cache, speakers),
            size: config.encoder.hidden_size,
            group: factor * config.encoder.num_mel_bins,
            factor,
            speakers,
            silence: silence.to_vec(),
            cache: Vec::new(),
            activity: Vec::new(),
            chosen: false,
            queue: Vec::new(),
            mels: Vec::new(),
            look_back: 0,
            padding: None,
        }
    }

    /// Takes the next mel frames, row-major.
    pub fn push(&mut self, mels: &[f32]) {
        self.mels.extend_from_slice(mels);
    }

    /// Ends the stream. An incomplete last encoder frame is filled with zeros.
    pub fn finish(&mut self) {
        let bands = self.group / self.factor;
        let missing = self.mels.len().next_multiple_of(self.group) - self.mels.len();
        self.mels.resize(self.mels.len() + missing, 0.0);
        self.padding = Some(missing / bands);
    }

    /// The next step, if its frames are there. The last steps have fewer frames.
    #[must_use]
    pub fn next_step(&self) -> Option<Step> {
        let Chunking { chunk, look_ahead, .. } = self.chunking;
        let there = self.mels.len() / self.group - self.look_back;
        let is_last = self.padding.is_some();
        if there == 0 || (!is_last && there < chunk + look_ahead) {
            return None;
        }
        let chunk = chunk.min(there);
        Some(Step {
            cache: self.cache.len() / self.size,
            queue: self.queue.len() / self.size,
            look_back: self.look_back,
            chunk,
            look_ahead: look_ahead.min(there - chunk),
        })
    }

    /// The frames of cache and queue that a step begins with: `[step.kept()][size]`.
    #[must_use]
    pub fn kept(&self) -> Vec<f32> {
        [self.cache.as_slice(), &self.queue].concat()
    }

    /// The mel frames of a step: `[step.heard() * factor][bands]`.
    #[must_use]
    pub fn heard(&self, step: Step) -> &[f32] {
        &self.mels[..step.heard() * self.group]
    }

    /// Goes on by a step, which [`SpeakerStream::next_step`] gave, with what the model said of it. Returns the logits of its chunk,
    /// `[mel frames][speakers]`.
    pub fn advance(&mut self, step: Step, scored: &Scored) -> Vec<f32> {
        self.enqueue(step, scored);
        let done = step.look_back + step.chunk;
        self.look_back = self.chunking.look_back.min(done);
        self.mels.drain(..(done - self.look_back) * self.group);
        let first = (step.kept() + step.look_back) * self.factor;
        let is_last = self.mels.len() == self.look_back * self.group;
        let padding = self.padding.filter(|_| is_last).unwrap_or_default();
        let frames = first..first + step.chunk * self.factor - padding;
        scored.logits[frames.start * self.speakers..frames.end * self.speakers].to_vec()
    }

    /// Puts the chunk into the queue. What leaves the queue goes into the cache, which keeps the best of its frames.
    fn enqueue(&mut self, step: Step, scored: &Scored) {
        let (size, speakers) = (self.size, self.speakers);
        let chunk = step.look_back..step.look_back + step.chunk;
        self.queue.extend_from_slice(&scored.embedded[chunk.start * size..chunk.end * size]);
        let moved = frames_moved(step.queue + step.chunk, self.chunking.queue, self.chunking.moved);
        if moved == 0 {
            return;
        }
        let activity = pool(&scored.logits, speakers, self.factor);
        let of = |first: usize, count: usize| &activity[first * speakers..(first + count) * speakers];
        if !self.chosen {
            // Frames in the stream's order: this step knows more of them than those before.
            self.activity = of(0, step.cache).to_vec();
        }
        let queued = [of(step.cache, step.queue), of(step.kept() + step.look_back, step.chunk)].concat();
        self.activity.extend_from_slice(&queued[..moved * speakers]);
        self.cache.extend(self.queue.drain(..moved * size));
        if step.cache + moved > self.policy.length() {
            self.choose();
        }
    }

    /// Cuts the cache to its length.
    fn choose(&mut self) {
        let kept = self.policy.keep(&self.activity);
        let (size, speakers) = (self.size, self.speakers);
        let (mut cache, mut activity) = (Vec::new(), Vec::new());
        for frame in kept {
            match frame {
                Some(frame) => {
                    cache.extend_from_slice(&self.cache[frame * size..(frame + 1) * size]);
                    activity.extend_from_slice(&self.activity[frame * speakers..(frame + 1) * speakers]);
                }
                None => {
                    cache.extend_from_slice(&self.silence);
                    activity.resize(activity.len() + speakers, 0.0);
                }
            }
        }
        (self.cache, self.activity, self.chosen) = (cache, activity, true);
    }

    /// The frames of cache and queue and the activities of the cache's, for tests.
    #[must_use]
    pub fn state(&self) -> [&[f32]; 3] {
        [&self.cache, &self.activity, &self.queue]
    }
}
