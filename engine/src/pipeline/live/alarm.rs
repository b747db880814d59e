//! Wakes tasks at given times, on any asynchronous runtime.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::task::Waker;
use std::time::Instant;

/// A task that is to be woken, ordered by its time.
struct Alarm {
    at: Instant,
    waker: Waker,
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Alarm {}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Alarm {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// Wakes a task at a time, or now if the system has no thread for it. One thread of the process does, from the first call on.
pub fn wake_at(at: Instant, waker: &Waker) {
    static ALARMS: OnceLock<Option<Sender<Alarm>>> = OnceLock::new();
    let start = || {
        let (alarms, waiting) = channel();
        std::thread::Builder::new().name("auricle-alarm".into()).spawn(move || run(&waiting)).ok().map(|_| alarms)
    };
    let sent = ALARMS.get_or_init(start).as_ref().map(|alarms| alarms.send(Alarm { at, waker: waker.clone() }));
    if !matches!(sent, Some(Ok(()))) {
        waker.wake_by_ref();
    }
}

fn run(waiting: &Receiver<Alarm>) {
    let mut alarms: BinaryHeap<Reverse<Alarm>> = BinaryHeap::new();
    loop {
        let now = Instant::now();
        while alarms.peek().is_some_and(|Reverse(alarm)| alarm.at <= now) {
            alarms.pop().into_iter().for_each(|Reverse(alarm)| alarm.waker.wake());
        }
        let next = match alarms.peek() {
            Some(Reverse(alarm)) => waiting.recv_timeout(alarm.at.saturating_duration_since(now)),
            None => waiting.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(alarm) => alarms.push(Reverse(alarm)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    struct Note(Sender<Instant>);

    impl Wake for Note {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(Instant::now());
        }
    }

    #[test]
    fn tasks_are_woken_at_their_times_whatever_the_order_of_the_calls() {
        let now = Instant::now();
        let mut alarms = Vec::new();
        for ms in [60, 20, 40] {
            let (sender, woken) = channel();
            wake_at(now + Duration::from_millis(ms), &Waker::from(Arc::new(Note(sender))));
            alarms.push((ms, woken));
        }
        for (ms, woken) in alarms {
            let at = woken.recv_timeout(Duration::from_secs(20)).unwrap();
            assert!(at >= now + Duration::from_millis(ms));
        }
    }
}
