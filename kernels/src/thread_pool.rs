//! Threads that share many small pieces of work, one after another, without going to sleep in between.
//!
//! A step of a decoder is some fifty products of a few hundred microseconds each, with little between them. Waking a thread
//! takes as long as such a product, so helpers that have been called stay awake until the step is over.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};
use std::thread::Thread;

/// Pieces of a call are numbered in so many bits; the others number the call.
const BITS: u32 = 24;
const PIECES: u64 = (1 << BITS) - 1;
/// Looks for work before others get the processor.
const SPINS: u32 = if cfg!(miri) { 4 } else { 4096 };

/// Threads that work together until the work is over.
pub struct ThreadPool<'a>(Option<&'a Shared>);

/// Runs `work` on this thread, with the help of others that it calls through the thread pool. Where the helpers are busy with other
/// work, it runs alone.
pub fn run<R>(work: impl FnOnce(&ThreadPool) -> R) -> R {
    static HELPERS: OnceLock<(Mutex<()>, &'static Shared)> = OnceLock::new();
    let (busy, shared) = HELPERS.get_or_init(|| (Mutex::new(()), Shared::start()));
    let _mine = match busy.try_lock() {
        Ok(mine) => mine,
        // A piece of work that panicked left nothing behind.
        Err(TryLockError::Poisoned(mine)) => mine.into_inner(),
        Err(TryLockError::WouldBlock) => return work(&ThreadPool(None)),
    };
    let _awake = Awake::new(shared);
    work(&ThreadPool(Some(shared)))
}

impl ThreadPool<'_> {
    /// No one but this thread: for work that is too little to share.
    pub const SINGLE_THREADED: Self = Self(None);

    /// Calls `work` with each number below `count`, on any of the threads.
    ///
    /// # Panics
    /// When `work` does.
    pub fn for_each_index(&self, count: usize, work: impl Fn(usize) + Sync) {
        match self.0.filter(|shared| count > 1 && count as u64 <= PIECES && !shared.helpers().is_empty()) {
            Some(shared) => shared.call(count, &work),
            None => (0..count).for_each(work),
        }
    }

    /// Calls `work` with each item and its number.
    ///
    /// # Panics
    /// When `work` does.
    pub fn for_each_item<T: Send>(&self, items: &mut [T], work: impl Fn(usize, &mut T) + Sync) {
        let items: Items<T> = Items(items.as_mut_ptr(), items.len());
        self.for_each_index(items.1, |at| {
            // SAFETY: `for_each_index` calls with every number below the count once, so this item is lent to this call alone.
            work(at, unsafe { &mut *items.at(at) });
        });
    }
}

struct Items<T>(*mut T, usize);

// SAFETY: items may go to other threads, and `for_each_item` lends each to one call.
unsafe impl<T: Send> Sync for Items<T> {}

impl<T> Items<T> {
    fn at(&self, at: usize) -> *mut T {
        debug_assert!(at < self.1);
        self.0.wrapping_add(at)
    }
}

/// What the threads see.
struct Shared {
    /// The number of the call, and that of the next piece of it. Between calls the pieces are at their end.
    next: AtomicU64,
    count: AtomicU64,
    done: AtomicUsize,
    /// The closure, and how to call it.
    work: AtomicPtr<()>,
    call: AtomicPtr<()>,
    panicked: AtomicBool,
    awake: AtomicBool,
    helpers: OnceLock<Vec<Thread>>,
}

type Call = unsafe fn(*const (), usize);

/// # Safety
/// `work` points to a `W`.
unsafe fn call<W: Fn(usize)>(work: *const (), piece: usize) {
    // SAFETY: the caller's promise.
    unsafe { (*work.cast::<W>())(piece) }
}

impl Shared {
    /// As many helpers as make one thread for each that rayon has.
    fn start() -> &'static Self {
        let shared: &'static Self = Box::leak(Box::new(Self {
            next: AtomicU64::new(PIECES),
            count: AtomicU64::new(0),
            done: AtomicUsize::new(0),
            work: AtomicPtr::default(),
            call: AtomicPtr::default(),
            panicked: AtomicBool::new(false),
            awake: AtomicBool::new(false),
            helpers: OnceLock::new(),
        }));
        let helper = |number| {
            let builder = std::thread::Builder::new().name(format!("pool-{number}"));
            builder.spawn(|| shared.help()).ok().map(|handle| handle.thread().clone())
        };
        // Where no thread can be had, the others do its work.
        let helpers = (1..rayon::current_num_threads()).filter_map(helper).collect();
        let _ = shared.helpers.set(helpers);
        shared
    }

    fn helpers(&self) -> &[Thread] {
        self.helpers.get().map_or(&[], Vec::as_slice)
    }

    /// A helper's life.
    fn help(&self) {
        loop {
            let mut spins = 0;
            while self.awake.load(Ordering::Acquire) {
                spins = if self.take_a_piece() { 0 } else { rest(spins) };
            }
            std::thread::park();
        }
    }

    /// Does one piece of what there is, if there is one.
    fn take_a_piece(&self) -> bool {
        let next = self.next.load(Ordering::Acquire);
        // Whoever sees the count of a later call sees its number as well, and the exchange below fails.
        if next & PIECES >= self.count.load(Ordering::Acquire) {
            return false;
        }
        let (work, run) = (self.work.load(Ordering::Relaxed), self.call.load(Ordering::Relaxed));
        if self.next.compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return true;
        }
        // SAFETY: the exchange says that this call was still under way with this piece to do. What belongs to a call is written
        // before its number is, and not again before all its pieces are done; so count, closure and function, read between
        // the two looks at the number, are this call's, and the closure lives until `done` counts this piece.
        let outcome = catch_unwind(AssertUnwindSafe(|| unsafe {
            let run: Call = std::mem::transmute::<*mut (), Call>(run);
            run(work, (next & PIECES) as usize);
        }));
        if outcome.is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
        self.done.fetch_add(1, Ordering::Release);
        true
    }

    fn call<W: Fn(usize) + Sync>(&self, count: usize, work: &W) {
        let number = (self.next.load(Ordering::Relaxed) >> BITS) + 1;
        self.done.store(0, Ordering::Relaxed);
        self.work.store(std::ptr::from_ref(work).cast_mut().cast(), Ordering::Relaxed);
        self.call.store(call::<W> as Call as *mut (), Ordering::Relaxed);
        self.count.store(count as u64, Ordering::Release);
        self.next.store(number << BITS, Ordering::Release);
        while self.take_a_piece() {}
        let mut spins = 0;
        while self.done.load(Ordering::Acquire) < count {
            spins = rest(spins);
        }
        // No piece is left for one who still looks at this call, when the next call writes how many it has.
        self.next.store(((number + 1) << BITS) | PIECES, Ordering::Release);
        if self.panicked.swap(false, Ordering::Relaxed) {
            resume_unwind(Box::new("a piece of work panicked"));
        }
    }
}

fn rest(spins: u32) -> u32 {
    if spins < SPINS {
        std::hint::spin_loop();
        spins + 1
    } else {
        std::thread::yield_now();
        spins
    }
}

/// Keeps the helpers awake.
struct Awake<'a>(&'a Shared);

impl<'a> Awake<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.awake.store(true, Ordering::Release);
        shared.helpers().iter().for_each(Thread::unpark);
        Self(shared)
    }
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.0.awake.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: usize = if cfg!(miri) { 2 } else { 20 };

    #[test]
    fn every_piece_is_done_once_whoever_does_it() {
        let counts: &[usize] = if cfg!(miri) { &[0, 1, 2, 3, 50] } else { &[0, 1, 2, 3, 100, 10_000] };
        for &count in counts {
            let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            run(|pool| {
                for round in 1..=ROUNDS {
                    pool.for_each_index(count, |at| {
                        done[at].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == round));
                }
            });
        }
    }

    #[test]
    fn items_are_lent_one_by_one() {
        let mut values: Vec<usize> = (0..1000).collect();
        run(|pool| {
            pool.for_each_item(&mut values, |at, value| *value += at);
        });
        assert!(values.iter().enumerate().all(|(at, value)| *value == 2 * at));
    }

    /// The call's thread and a helper are in the same call at once, so that what either writes has to reach the other.
    #[test]
    fn what_a_helper_wrote_is_seen_after_the_call() {
        if rayon::current_num_threads() == 1 {
            return;
        }
        let mut values = [0usize; 2];
        for round in 1..=10 * ROUNDS {
            let mut together = false;
            while !together {
                run(|pool| {
                    // Another test has the helpers.
                    if pool.0.is_none() {
                        return std::thread::yield_now();
                    }
                    let begun = AtomicUsize::new(0);
                    pool.for_each_item(&mut values, |_, value| {
                        begun.fetch_add(1, Ordering::Relaxed);
                        while begun.load(Ordering::Relaxed) < 2 {
                            std::thread::yield_now();
                        }
                        *value += 1;
                    });
                    together = true;
                });
            }
            assert_eq!(values, [round; 2]);
        }
    }

    #[test]
    fn pools_at_the_same_time_do_not_mix() {
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..10 * ROUNDS {
                        let mut values = vec![0u64; 100];
                        run(|pool| {
                            (0..10).for_each(|_| pool.for_each_item(&mut values, |at, value| *value += at as u64))
                        });
                        assert!(values.iter().enumerate().all(|(at, value)| *value == 10 * at as u64));
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_is_passed_on_and_the_pool_goes_on() {
        let panics = catch_unwind(|| run(|pool| pool.for_each_index(64, |at| assert!(at != 40, "as wanted"))));
        assert!(panics.is_err());
        let mut values = vec![0; 64];
        run(|pool| pool.for_each_item(&mut values, |at, value| *value = at));
        assert_eq!(values, (0..64).collect::<Vec<_>>());
    }
}
