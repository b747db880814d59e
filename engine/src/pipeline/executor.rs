//! Everything that a device's worker runs: live streams and recordings side by side.

use std::time::{Duration, Instant};

use super::live::{self as listen, Listening};
use super::offline::transducer_executor::{self as recordings, Recordings};
use super::offline::whisper_executor::{self as utterances, Utterances};
use crate::error::{Error, Result};
use crate::scheduler::Machine;

/// The streams of a device.
pub struct Streams {
    live: Listening,
    recordings: Recordings,
    utterances: Utterances,
    slots: Vec<Option<Family>>,
}

#[derive(Clone, Copy)]
enum Family {
    Live,
    Recording,
    Utterances,
}

/// What a stream is opened with.
pub enum Kind {
    /// Somebody speaks.
    Live(listen::Kind),
    /// It was spoken before, and is heard frame by frame.
    Recording(recordings::Kind),
    /// It was spoken before, and is written token by token.
    Utterances(utterances::Kind),
}

/// What a stream is fed.
pub enum Input {
    /// Samples and the features of them.
    Live(listen::Input),
    /// Features, or samples.
    Recording(recordings::Input),
    /// Samples.
    Utterances(utterances::Input),
}

/// What comes of a stream.
pub enum Output {
    /// What was heard.
    Live(listen::Heard),
    /// What was found.
    Recording(recordings::Dealt),
    /// What was written.
    Utterances(Vec<utterances::Written>),
}

/// What a slot is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bucket {
    /// A step of live streams.
    Live(listen::Bucket),
    /// A step of recordings.
    Recording(recordings::Bucket),
    /// A step of windows.
    Utterances(utterances::Bucket),
}

impl Streams {
    /// No stream yet.
    pub fn new(live: Listening) -> Self {
        Self { live, recordings: Recordings::default(), utterances: Utterances::default(), slots: Vec::new() }
    }

    fn family(&self, slot: usize) -> Option<Family> {
        self.slots.get(slot).copied().flatten()
    }
}

impl Machine for Streams {
    type Kind = Kind;
    type Input = Input;
    type Output = Output;
    type Bucket = Bucket;

    fn open(&mut self, slot: usize, kind: Kind) -> Result<()> {
        let family = match kind {
            Kind::Live(kind) => self.live.open(slot, kind).map(|()| Family::Live)?,
            Kind::Recording(kind) => self.recordings.open(slot, kind).map(|()| Family::Recording)?,
            Kind::Utterances(kind) => self.utterances.open(slot, kind).map(|()| Family::Utterances)?,
        };
        self.slots.resize(self.slots.len().max(slot + 1), None);
        self.slots[slot] = Some(family);
        Ok(())
    }

    fn take(&mut self, slot: usize, input: Input) {
        match (self.family(slot), input) {
            (Some(Family::Live), Input::Live(input)) => self.live.take(slot, input),
            (Some(Family::Recording), Input::Recording(input)) => self.recordings.take(slot, input),
            (Some(Family::Utterances), Input::Utterances(input)) => self.utterances.take(slot, input),
            _ => debug_assert!(false, "a stream is fed what it was opened for"),
        }
    }

    fn finish(&mut self, slot: usize) {
        match self.family(slot) {
            Some(Family::Live) => self.live.finish(slot),
            Some(Family::Recording) => self.recordings.finish(slot),
            Some(Family::Utterances) => self.utterances.finish(slot),
            None => {}
        }
    }

    fn close(&mut self, slot: usize) {
        match self.slots.get_mut(slot).and_then(Option::take) {
            Some(Family::Live) => self.live.close(slot),
            Some(Family::Recording) => self.recordings.close(slot),
            Some(Family::Utterances) => self.utterances.close(slot),
            None => {}
        }
    }

    fn ready(&self, slot: usize) -> Option<Bucket> {
        match self.family(slot)? {
            Family::Live => self.live.ready(slot).map(Bucket::Live),
            Family::Recording => self.recordings.ready(slot).map(Bucket::Recording),
            Family::Utterances => self.utterances.ready(slot).map(Bucket::Utterances),
        }
    }

    fn since(&self, slot: usize) -> Option<Instant> {
        match self.family(slot)? {
            Family::Live => self.live.since(slot),
            Family::Recording | Family::Utterances => None,
        }
    }

    fn budget(&self, bucket: Bucket) -> Duration {
        match bucket {
            Bucket::Live(bucket) => self.live.budget(bucket),
            Bucket::Recording(bucket) => self.recordings.budget(bucket),
            Bucket::Utterances(bucket) => self.utterances.budget(bucket),
        }
    }

    fn rows(&self, bucket: Bucket) -> usize {
        match bucket {
            Bucket::Live(bucket) => self.live.rows(bucket),
            Bucket::Recording(bucket) => self.recordings.rows(bucket),
            Bucket::Utterances(bucket) => self.utterances.rows(bucket),
        }
    }

    fn name(&self, bucket: Bucket) -> &'static str {
        match bucket {
            Bucket::Live(bucket) => self.live.name(bucket),
            Bucket::Recording(bucket) => self.recordings.name(bucket),
            Bucket::Utterances(bucket) => self.utterances.name(bucket),
        }
    }

    fn step(&mut self, bucket: Bucket, slots: &[usize]) -> Result<Vec<Option<Output>>> {
        match bucket {
            Bucket::Live(bucket) => each(self.live.step(bucket, slots)?, Output::Live),
            Bucket::Recording(bucket) => each(self.recordings.step(bucket, slots)?, Output::Recording),
            Bucket::Utterances(bucket) => each(self.utterances.step(bucket, slots)?, Output::Utterances),
        }
    }
}

fn each<T>(outputs: Vec<Option<T>>, wrap: impl Fn(T) -> Output) -> Result<Vec<Option<Output>>> {
    Ok(outputs.into_iter().map(|output| output.map(&wrap)).collect())
}

impl Output {
    /// What was heard, of a live stream.
    ///
    /// # Errors
    /// [`Error::Canceled`] for another stream's output, which the scheduler never gives.
    pub fn live(self) -> Result<listen::Heard> {
        match self {
            Self::Live(heard) => Ok(heard),
            Self::Recording(_) | Self::Utterances(_) => Err(Error::Canceled),
        }
    }

    /// What was found, of a recording.
    ///
    /// # Errors
    /// As [`Output::live`].
    pub fn recording(self) -> Result<recordings::Dealt> {
        match self {
            Self::Recording(dealt) => Ok(dealt),
            Self::Live(_) | Self::Utterances(_) => Err(Error::Canceled),
        }
    }

    /// What was written, of a recording.
    ///
    /// # Errors
    /// As [`Output::live`].
    pub fn utterances(self) -> Result<Vec<utterances::Written>> {
        match self {
            Self::Utterances(written) => Ok(written),
            Self::Live(_) | Self::Recording(_) => Err(Error::Canceled),
        }
    }
}
