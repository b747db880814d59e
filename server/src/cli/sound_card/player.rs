//! Plays samples through the default loudspeaker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use auricle_engine::audio::RateConversion;

use super::{LONGEST_STALL, Output};
use crate::cli::{Failure, Result};

/// Sound that waits for the device before any is played, so that a late piece leaves no gap.
const CUSHION: Duration = Duration::from_millis(40);
/// Sound that waits for the device at most.
const LONGEST_QUEUE: Duration = Duration::from_millis(100);
/// The wait between looks at a full queue.
const POLL: Duration = Duration::from_millis(4);

/// Plays mono samples through the default loudspeaker, from when it is opened until it is dropped.
pub struct Player {
    conversion: RateConversion,
    queue: Queue,
    output: Output,
}

impl Player {
    /// Opens the default loudspeaker for samples of `rate` hertz.
    ///
    /// # Errors
    /// [`Failure::Service`] if there is none, or if it cannot be used.
    pub fn open(rate: u32) -> Result<Self> {
        let mut opened = None;
        let output = Output::open(rate, |device_rate| {
            let samples = |time: Duration| u64::from(device_rate) * time.as_millis() as u64 / 1_000;
            let (queue, source) = queue(samples(LONGEST_QUEUE) as usize, samples(CUSHION));
            opened = Some((device_rate, queue));
            source
        })?;
        let Some((device_rate, queue)) = opened else {
            return Err(Failure::Service("the loudspeaker has no sample rate".into()));
        };
        Ok(Self { conversion: RateConversion::new(rate, device_rate)?, queue, output })
    }

    /// Plays samples after those before; waits while many wait for the device.
    ///
    /// # Errors
    /// [`Failure::Service`] if the device fails.
    pub fn play(&mut self, samples: &[f32]) -> Result<()> {
        self.queue.push(self.conversion.push(samples)?, &self.output)
    }

    /// Waits until everything has been heard.
    ///
    /// # Errors
    /// As [`Player::play`].
    pub fn finish(self) -> Result<()> {
        self.queue.push(self.conversion.finish()?, &self.output)?;
        self.queue.state.is_ending.store(true, Ordering::Release);
        self.queue.wait_for(|state| state.waiting() == 0, &self.output)?;
        self.output.drain()
    }
}

/// A queue of `length` samples and the device's side of it.
fn queue(length: usize, cushion: u64) -> (Queue, Source) {
    let (give, take) = sync_channel(length);
    let state = Arc::new(State::default());
    (Queue { samples: give, state: state.clone() }, Source { samples: take, state, cushion, is_playing: false })
}

/// Samples on their way to the device's thread.
struct Queue {
    samples: SyncSender<f32>,
    state: Arc<State>,
}

/// The part that both threads share.
#[derive(Default)]
struct State {
    /// Samples that the queue was given.
    given: AtomicU64,
    /// Samples that the device took.
    taken: AtomicU64,
    /// True once no more samples come: the rest is played without a cushion.
    is_ending: AtomicBool,
}

impl State {
    fn waiting(&self) -> u64 {
        let taken = self.taken.load(Ordering::Acquire);
        self.given.load(Ordering::Acquire).saturating_sub(taken)
    }
}

impl Queue {
    fn push(&self, samples: Vec<f32>, output: &Output) -> Result<()> {
        for sample in samples {
            let mut is_open = true;
            let mut give = || match self.samples.try_send(sample) {
                Err(TrySendError::Full(_)) => false,
                sent => {
                    is_open = sent.is_ok();
                    true
                }
            };
            // Counted before it is given: the device never takes more than was given.
            self.state.given.fetch_add(1, Ordering::AcqRel);
            if !give() {
                self.wait_for(|_| give(), output)?;
            }
            if !is_open {
                output.check()?;
                return Err(Failure::Service("the loudspeaker is gone".into()));
            }
        }
        Ok(())
    }

    /// # Errors
    /// [`Failure::Service`] if the device fails, or takes no samples.
    fn wait_for(&self, mut done: impl FnMut(&State) -> bool, output: &Output) -> Result<()> {
        let (mut taken, mut since) = (self.state.taken.load(Ordering::Acquire), Instant::now());
        while !done(&self.state) {
            output.check()?;
            let now = self.state.taken.load(Ordering::Acquire);
            if now != taken {
                (taken, since) = (now, Instant::now());
            } else if since.elapsed() > LONGEST_STALL {
                return Err(Failure::Service("the loudspeaker takes no sound".into()));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

/// The device's side of a queue.
pub struct Source {
    samples: Receiver<f32>,
    state: Arc<State>,
    /// Samples that wait before any is played.
    cushion: u64,
    /// False until the cushion is there, and again after the queue has run empty.
    is_playing: bool,
}

impl Source {
    /// Fills `out`, with silence where no sound waits, and returns the samples filled: all, or fewer at the end.
    pub fn fill(&mut self, out: &mut [f32]) -> usize {
        let is_ending = self.state.is_ending.load(Ordering::Acquire);
        self.is_playing |= is_ending || self.state.waiting() >= self.cushion;
        let mut filled = 0;
        if self.is_playing {
            for (place, sample) in out.iter_mut().zip(self.samples.try_iter()) {
                *place = sample;
                filled += 1;
            }
            self.state.taken.fetch_add(filled as u64, Ordering::AcqRel);
            self.is_playing = filled == out.len();
        }
        out[filled..].fill(0.0);
        if is_ending { filled } else { out.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(source: &mut Source, samples: usize) -> Vec<f32> {
        let mut out = vec![9.0; samples];
        let filled = source.fill(&mut out);
        assert!(out[filled..].iter().all(|sample| *sample == 0.0), "{out:?}");
        out.truncate(filled);
        out
    }

    fn give(queue: &Queue, samples: &[f32]) {
        for sample in samples {
            queue.state.given.fetch_add(1, Ordering::AcqRel);
            queue.samples.try_send(*sample).unwrap();
        }
    }

    #[test]
    fn sound_starts_with_a_cushion_and_starts_again_with_one() {
        let (queue, mut source) = queue(8, 4);
        give(&queue, &[1.0, 2.0, 3.0]);
        assert_eq!(filled(&mut source, 2), [0.0, 0.0]);
        give(&queue, &[4.0]);
        assert_eq!(filled(&mut source, 5), [1.0, 2.0, 3.0, 4.0, 0.0]);
        give(&queue, &[5.0]);
        assert_eq!(filled(&mut source, 1), [0.0]);
        give(&queue, &[6.0, 7.0, 8.0]);
        assert_eq!(filled(&mut source, 3), [5.0, 6.0, 7.0]);
        assert_eq!(queue.state.waiting(), 1);
    }

    #[test]
    fn the_rest_is_played_without_a_cushion_and_then_the_source_ends() {
        let (queue, mut source) = queue(8, 4);
        give(&queue, &[1.0, 2.0]);
        queue.state.is_ending.store(true, Ordering::Release);
        assert_eq!(filled(&mut source, 4), [1.0, 2.0]);
        assert_eq!(queue.state.waiting(), 0);
        assert!(filled(&mut source, 4).is_empty());
    }
}
