//! Audio of a live session that waits for the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Pushed and processed audio of a session, ms.
#[derive(Debug, Default)]
pub struct Backlog {
    pushed_ms: AtomicU64,
    processed_ms: AtomicU64,
    ended: AtomicBool,
    change: Notify,
}

impl Backlog {
    /// Audio that is pushed and not processed yet, ms.
    pub fn waiting_ms(&self) -> u64 {
        self.pushed_ms.load(Ordering::Relaxed).saturating_sub(self.processed_ms.load(Ordering::Relaxed))
    }

    /// The caller has pushed this much audio in all.
    pub fn pushed(&self, ms: u64) {
        self.pushed_ms.store(ms, Ordering::Relaxed);
    }

    /// True once the worker has closed the stream.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Completes when more audio is processed or the stream is closed.
    pub fn change(&self) -> Notified<'_> {
        self.change.notified()
    }
}

/// The worker's end of a backlog: dropped, it marks the stream as closed.
#[derive(Debug)]
pub struct BacklogReporter(Arc<Backlog>);

impl BacklogReporter {
    /// Reports to this backlog.
    pub fn new(backlog: Arc<Backlog>) -> Self {
        Self(backlog)
    }

    /// The worker has processed this much audio in all.
    pub fn processed(&self, ms: u64) {
        if self.0.processed_ms.fetch_max(ms, Ordering::Relaxed) < ms {
            self.0.change.notify_waiters();
        }
    }
}

impl Drop for BacklogReporter {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
        self.0.change.notify_waiters();
    }
}
