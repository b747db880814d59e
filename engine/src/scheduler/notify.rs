//! Wakes the worker: rung after something was put where the worker looks, waited for when it has found nothing.

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

/// A bell that one thread waits for and any may ring. Ringing takes no lock.
///
/// What was written before a ring is seen after the wait that it ends, and no ring is missed: if the waiter has not yet
/// taken the last one, it will find this one with it.
#[derive(Debug)]
pub struct Bell {
    rung: AtomicBool,
    waiter: Thread,
}

impl Bell {
    /// A bell for this thread to wait at.
    pub fn new(waiter: Thread) -> Self {
        Self { rung: AtomicBool::new(false), waiter }
    }

    /// Ends the waiter's wait, the next one if it does not wait now.
    pub fn ring(&self) {
        // The swap of the waiter reads the last of these in one chain of swaps, and so sees what came before each.
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.waiter.unpark();
        }
    }

    /// Waits until it was rung since the last wait.
    pub fn wait(&self) {
        while !self.rung.swap(false, Ordering::AcqRel) {
            park();
        }
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Every interleaving of two that leave something and ring, and one that looks until it has seen both.
    #[test]
    fn no_ring_is_missed() {
        loom::model(|| {
            let left = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let bell = Arc::new(Bell::new(thread::current()));
            for at in 0..2 {
                let (left, bell) = (left.clone(), bell.clone());
                // Not joined: the model does not let a thread that waits for another's end be unparked.
                drop(thread::spawn(move || {
                    left[at].store(true, Ordering::Relaxed);
                    bell.ring();
                }));
            }
            // Each is to be seen at the latest after its ring, and nothing but the bell makes it so.
            while !left.iter().all(|left| left.load(Ordering::Relaxed)) {
                bell.wait();
            }
        });
    }
}
