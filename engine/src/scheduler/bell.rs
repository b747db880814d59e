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
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// Every interleaving of two that leave something and ring, and one that takes until it has both.
    #[test]
    fn no_ring_is_missed() {
        loom::model(|| {
            let left = Arc::new(AtomicUsize::new(0));
            let bell = Arc::new(Bell::new(thread::current()));
            let ringers: Vec<_> = (0..2)
                .map(|_| {
                    let (left, bell) = (left.clone(), bell.clone());
                    thread::spawn(move || {
                        left.fetch_add(1, Ordering::Relaxed);
                        bell.ring();
                    })
                })
                .collect();
            let mut taken = 0;
            while taken < 2 {
                bell.wait();
                taken += left.swap(0, Ordering::Relaxed);
            }
            for ringer in ringers {
                ringer.join().unwrap();
            }
        });
    }
}
