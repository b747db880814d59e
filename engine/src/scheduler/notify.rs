//! Wake-up of the worker: notified after a caller has put something into a queue, waited for when all queues are empty.

#[cfg(loom)]
use loom::{
    sync::atomic::{AtomicBool, Ordering},
    thread::{Thread, park},
};
#[cfg(not(loom))]
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread::{Thread, park},
};

/// One thread waits, any thread may notify. Notifying takes no lock.
///
/// Writes before a notification are visible after the wait that it ends, and no notification is lost: if the waiter has
/// not consumed the last one yet, the two count as one.
#[derive(Debug)]
pub struct Notify {
    notified: AtomicBool,
    waiter: Thread,
}

impl Notify {
    /// A notification for this thread to wait for.
    pub fn new(waiter: Thread) -> Self {
        Self { notified: AtomicBool::new(false), waiter }
    }

    /// Ends the waiter's wait, or its next one if it does not wait now.
    pub fn notify(&self) {
        // The waiter's swap reads the last of these in one chain of swaps, and so sees the writes before each.
        if !self.notified.swap(true, Ordering::AcqRel) {
            self.waiter.unpark();
        }
    }

    /// Waits for a notification since the last wait.
    pub fn wait(&self) {
        while !self.notified.swap(false, Ordering::AcqRel) {
            park();
        }
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Every interleaving of two threads that write and notify, and one that reads until it has seen both writes.
    #[test]
    fn no_notification_is_lost() {
        loom::model(|| {
            let written = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let notify = Arc::new(Notify::new(thread::current()));
            for at in 0..2 {
                let (written, notify) = (written.clone(), notify.clone());
                // Not joined: the model does not let a thread that waits for another's end be unparked.
                drop(thread::spawn(move || {
                    written[at].store(true, Ordering::Relaxed);
                    notify.notify();
                }));
            }
            // Each write must be visible after its notification at the latest, by the notification alone.
            while !written.iter().all(|written| written.load(Ordering::Relaxed)) {
                notify.wait();
            }
        });
    }
}
