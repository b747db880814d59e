//! A thread pool for many small parallel calls in a row.
//!
//! A step of a decoder is about fifty products of a few hundred microseconds each, with little work between them. Waking a thread
//! takes as long as such a product, so the helper threads stay awake from the first call of a step to the last.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};
use std::thread::Thread;

/// Bits of a task number; the other bits of a ticket number the call.
const TASK_BITS: u32 = 24;
const TASK_MASK: u64 = (1 << TASK_BITS) - 1;
/// Number of polls before a waiting thread yields the processor.
const SPINS: u32 = if cfg!(miri) { 4 } else { 4096 };

/// Access to the helper threads during [`run`].
pub struct ThreadPool<'a>(Option<&'a Shared>);

/// Runs `work` on this thread; its calls of the pool run on the helper threads too. When another thread has the helpers, the calls
/// run on this thread alone.
pub fn run<R>(work: impl FnOnce(&ThreadPool) -> R) -> R {
    static HELPERS: OnceLock<(Mutex<()>, &'static Shared)> = OnceLock::new();
    let (busy, shared) = HELPERS.get_or_init(|| (Mutex::new(()), Shared::start()));
    let _lock = match busy.try_lock() {
        Ok(lock) => lock,
        // The mutex guards no data, so a panic leaves nothing inconsistent.
        Err(TryLockError::Poisoned(lock)) => lock.into_inner(),
        Err(TryLockError::WouldBlock) => return work(&ThreadPool(None)),
    };
    let _awake = AwakeGuard::new(shared);
    work(&ThreadPool(Some(shared)))
}

impl ThreadPool<'_> {
    /// A pool without helper threads, for work that is too small to share.
    pub const SINGLE_THREADED: Self = Self(None);

    /// Calls `work` with each index below `count`, on any of the threads.
    ///
    /// # Panics
    /// When `work` panics.
    pub fn for_each_index(&self, count: usize, work: impl Fn(usize) + Sync) {
        match self.0.filter(|shared| count > 1 && count as u64 <= TASK_MASK && !shared.helpers().is_empty()) {
            Some(shared) => shared.call(count, &work),
            None => (0..count).for_each(work),
        }
    }

    /// Calls `work` with each item and its index, on any of the threads.
    ///
    /// # Panics
    /// When `work` panics.
    pub fn for_each_item<T: Send>(&self, items: &mut [T], work: impl Fn(usize, &mut T) + Sync) {
        let items: Items<T> = Items(items.as_mut_ptr(), items.len());
        self.for_each_index(items.1, |at| {
            // SAFETY: `for_each_index` passes each index below the length exactly once, so no other call borrows this item.
            work(at, unsafe { &mut *items.at(at) });
        });
    }
}

struct Items<T>(*mut T, usize);

// SAFETY: the items are `Send`, and `for_each_item` gives each of them to one call only.
unsafe impl<T: Send> Sync for Items<T> {}

impl<T> Items<T> {
    fn at(&self, at: usize) -> *mut T {
        debug_assert!(at < self.1);
        self.0.wrapping_add(at)
    }
}

/// State that all threads of the pool share.
struct Shared {
    /// The number of the call and, in the lowest bits, of its next task. Between calls no task is left.
    next: AtomicU64,
    count: AtomicU64,
    done: AtomicUsize,
    /// The closure of the call.
    work: AtomicPtr<()>,
    /// The function that calls the closure: a [`Trampoline`].
    trampoline: AtomicPtr<()>,
    panicked: AtomicBool,
    awake: AtomicBool,
    helpers: OnceLock<Vec<Thread>>,
}

type Trampoline = unsafe fn(*const (), usize);

/// # Safety
/// `work` points to a `W`.
unsafe fn trampoline<W: Fn(usize)>(work: *const (), task: usize) {
    // SAFETY: the caller guarantees it.
    unsafe { (*work.cast::<W>())(task) }
}

impl Shared {
    /// Starts the helper threads: one fewer than rayon has threads.
    fn start() -> &'static Self {
        let shared: &'static Self = Box::leak(Box::new(Self {
            next: AtomicU64::new(TASK_MASK),
            count: AtomicU64::new(0),
            done: AtomicUsize::new(0),
            work: AtomicPtr::default(),
            trampoline: AtomicPtr::default(),
            panicked: AtomicBool::new(false),
            awake: AtomicBool::new(false),
            helpers: OnceLock::new(),
        }));
        let helper = |number| {
            let builder = std::thread::Builder::new().name(format!("pool-{number}"));
            builder.spawn(|| shared.help()).ok().map(|handle| handle.thread().clone())
        };
        // When a thread cannot start, the others do its work.
        let helpers = (1..rayon::current_num_threads()).filter_map(helper).collect();
        let _ = shared.helpers.set(helpers);
        shared
    }

    fn helpers(&self) -> &[Thread] {
        self.helpers.get().map_or(&[], Vec::as_slice)
    }

    /// The loop of a helper thread.
    fn help(&self) {
        loop {
            let mut spins = 0;
            while self.awake.load(Ordering::Acquire) {
                spins = if self.run_next_task() { 0 } else { pause(spins) };
            }
            std::thread::park();
        }
    }

    /// Runs one task of the current call; returns false when no task is left.
    fn run_next_task(&self) -> bool {
        let next = self.next.load(Ordering::Acquire);
        // A thread that reads the count of a later call also reads its number, and then the exchange below fails.
        if next & TASK_MASK >= self.count.load(Ordering::Acquire) {
            return false;
        }
        let (work, run) = (self.work.load(Ordering::Relaxed), self.trampoline.load(Ordering::Relaxed));
        if self.next.compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return true;
        }
        // SAFETY: the exchange succeeds only while this call runs and this task is open. The fields of a call are written before
        // its number and stay unchanged until all its tasks are done. So count, closure and trampoline, which are read between
        // the two reads of the number, belong to this call, and the closure lives until `done` counts this task.
        let outcome = catch_unwind(AssertUnwindSafe(|| unsafe {
            let run: Trampoline = std::mem::transmute::<*mut (), Trampoline>(run);
            run(work, (next & TASK_MASK) as usize);
        }));
        if outcome.is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
        self.done.fetch_add(1, Ordering::Release);
        true
    }

    fn call<W: Fn(usize) + Sync>(&self, count: usize, work: &W) {
        let number = (self.next.load(Ordering::Relaxed) >> TASK_BITS) + 1;
        self.done.store(0, Ordering::Relaxed);
        self.work.store(std::ptr::from_ref(work).cast_mut().cast(), Ordering::Relaxed);
        self.trampoline.store(trampoline::<W> as Trampoline as *mut (), Ordering::Relaxed);
        self.count.store(count as u64, Ordering::Release);
        self.next.store(number << TASK_BITS, Ordering::Release);
        while self.run_next_task() {}
        let mut spins = 0;
        while self.done.load(Ordering::Acquire) < count {
            spins = pause(spins);
        }
        // A thread that still polls this call finds no task when the next call writes its count.
        self.next.store(((number + 1) << TASK_BITS) | TASK_MASK, Ordering::Release);
        if self.panicked.swap(false, Ordering::Relaxed) {
            resume_unwind(Box::new("a task of the thread pool panicked"));
        }
    }
}

/// Waits a moment: spins first, then yields the processor. Returns the next number of spins.
fn pause(spins: u32) -> u32 {
    if spins < SPINS {
        std::hint::spin_loop();
        spins + 1
    } else {
        std::thread::yield_now();
        spins
    }
}

/// Keeps the helper threads awake while it lives.
struct AwakeGuard<'a>(&'a Shared);

impl<'a> AwakeGuard<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.awake.store(true, Ordering::Release);
        shared.helpers().iter().for_each(Thread::unpark);
        Self(shared)
    }
}

impl Drop for AwakeGuard<'_> {
    fn drop(&mut self) {
        self.0.awake.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: usize = if cfg!(miri) { 2 } else { 20 };

    #[test]
    fn every_task_runs_once() {
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
    fn every_item_is_passed_once() {
        let mut values: Vec<usize> = (0..1000).collect();
        run(|pool| {
            pool.for_each_item(&mut values, |at, value| *value += at);
        });
        assert!(values.iter().enumerate().all(|(at, value)| *value == 2 * at));
    }

    /// The calling thread and a helper run in the same call at the same time, and each must see the writes of the other.
    #[test]
    fn writes_of_a_helper_are_visible_after_the_call() {
        if rayon::current_num_threads() == 1 {
            return;
        }
        let mut values = [0usize; 2];
        for round in 1..=10 * ROUNDS {
            let mut together = false;
            while !together {
                run(|pool| {
                    // Another test has the helper threads.
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
    fn concurrent_runs_do_not_mix() {
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
    fn a_panic_reaches_the_caller_and_the_pool_keeps_working() {
        let panics = catch_unwind(|| run(|pool| pool.for_each_index(64, |at| assert!(at != 40, "as wanted"))));
        assert!(panics.is_err());
        let mut values = vec![0; 64];
        run(|pool| pool.for_each_item(&mut values, |at, value| *value = at));
        assert_eq!(values, (0..64).collect::<Vec<_>>());
    }
}
