//! Frames no more than half a second ahead of real time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Speech that a reader has before it is due, at most.
pub const MAX_AHEAD: Duration = Duration::from_millis(500);

/// The clock of one stream. It starts with the first frame, and again where the reader has run out of speech.
#[derive(Debug, Default)]
pub struct Pace {
    /// When what was given so far has been played.
    played: Option<Instant>,
}

impl Pace {
    /// When a frame of this length may be given: at `now`, or the time to wait for.
    pub fn due(&self, length: Duration, now: Instant) -> Option<Instant> {
        let earliest = (self.played? + length).checked_sub(MAX_AHEAD)?;
        (earliest > now).then_some(earliest)
    }

    /// Counts a frame of this length, given at `now`.
    pub fn given(&mut self, length: Duration, now: Instant) {
        self.played = Some(self.played.map_or(now, |played| played.max(now)) + length);
    }
}

/// Wakes a task at a time. All streams share a thread, which starts with the first.
///
/// # Errors
/// [`Error::Busy`] if the system refuses a thread.
pub fn wake_at(at: Instant, waker: Waker) -> Result<()> {
    static TIMER: OnceLock<Option<Sender<(Instant, Waker)>>> = OnceLock::new();
    let busy = || Error::Busy("a thread cannot be started".into());
    let timer = TIMER.get_or_init(start).as_ref().ok_or_else(busy)?;
    timer.send((at, waker)).map_err(|_| Error::internal("the timer's thread has ended"))
}

/// A task to wake, the soonest greatest.
struct Waiting(Reverse<Instant>, Waker);

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

fn start() -> Option<Sender<(Instant, Waker)>> {
    let (sender, waiting) = channel::<(Instant, Waker)>();
    let run = move || {
        let mut heap = BinaryHeap::new();
        loop {
            while let Some(Waiting(Reverse(at), waker)) = heap.pop() {
                if at > Instant::now() {
                    heap.push(Waiting(Reverse(at), waker));
                    break;
                }
                waker.wake();
            }
            let next = heap.peek().map(|Waiting(Reverse(at), _)| at.saturating_duration_since(Instant::now()));
            let received = match next {
                Some(time) => waiting.recv_timeout(time),
                None => waiting.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok((at, waker)) => heap.push(Waiting(Reverse(at), waker)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    };
    std::thread::Builder::new().name("auricle-pace".into()).spawn(run).ok()?;
    Some(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_half_a_second_ahead_and_no_more() {
        let (frame, start) = (Duration::from_millis(80), Instant::now());
        let mut pace = Pace::default();
        for _ in 0..6 {
            assert_eq!(pace.due(frame, start), None);
            pace.given(frame, start);
        }
        assert_eq!(pace.due(frame, start), Some(start + Duration::from_millis(60)));
        let later = start + Duration::from_millis(60);
        assert_eq!(pace.due(frame, later), None);
        // The reader has waited for text: nothing is made up for.
        let late = start + Duration::from_secs(9);
        pace.given(frame, late);
        assert_eq!(pace.played, Some(late + frame));
    }
}
