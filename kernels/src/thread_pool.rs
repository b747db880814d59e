//! A thread pool for many small parallel calls in a row.
//!
//! A step of a decoder is about fifty products of a few hundred microseconds each, with little work between them. Waking a thread
//! takes as long as such a product, so the helper threads stay awake from the first call of a step to the last.
//!
//! Several threads may run steps at a time. Each has a slot with the call that it makes; a helper thread goes from slot to slot and
//! takes a task at each, so that no caller is left alone because of another. Callers and helpers that are awake are together no more
//! than the threads of the pool: with each further caller one helper sleeps, and the processor is not shared out twice.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;

/// Bits of a task number; the other bits of a ticket number the call.
const TASK_BITS: u32 = 24;
const TASK_MASK: u64 = (1 << TASK_BITS) - 1;
/// Number of polls before a waiting thread yields the processor.
const SPINS: u32 = if cfg!(miri) { 4 } else { 4096 };

/// Number of slots: the bits of the set of those that are taken.
const SLOTS: u32 = u64::BITS;

/// Access to the helper threads during [`run`].
pub struct ThreadPool<'a>(Option<&'a Slot>);

/// Runs `work` on this thread; its calls of the pool run on the helper threads too. Where 64 threads do so already, the calls run
/// on this thread alone.
pub fn run<R>(work: impl FnOnce(&ThreadPool) -> R) -> R {
    static SHARED: OnceLock<&'static Shared> = OnceLock::new();
    SHARED.get_or_init(|| Shared::start(rayon::current_num_threads())).run(work)
}

impl ThreadPool<'_> {
    /// A pool without helper threads, for work that is too small to share.
    pub const SINGLE_THREADED: Self = Self(None);

    /// Calls `work` with each index below `count`, on any of the threads.
    ///
    /// # Panics
    /// When `work` panics.
    pub fn for_each_index(&self, count: usize, work: impl Fn(usize) + Sync) {
        match self.0.filter(|_| count > 1 && count as u64 <= TASK_MASK) {
            Some(slot) => slot.call(count, &work),
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
    /// The slots that are taken, a bit each.
    taken: AtomicU64,
    slots: Box<[Slot]>,
    /// Threads of the pool: callers and helpers.
    threads: usize,
    helpers: OnceLock<Vec<Thread>>,
}

/// The calls of one caller at a time. Slots share no cache line.
#[repr(align(128))]
#[derive(Default)]
struct Slot {
    /// The number of the call and, in the lowest bits, of its next task. Between calls no task is left.
    next: AtomicU64,
    count: AtomicU64,
    done: AtomicUsize,
    /// The closure of the call.
    work: AtomicPtr<()>,
    /// The function that calls the closure: a [`Trampoline`].
    trampoline: AtomicPtr<()>,
    panicked: AtomicBool,
}

type Trampoline = unsafe fn(*const (), usize);

/// # Safety
/// `work` points to a `W`.
unsafe fn trampoline<W: Fn(usize)>(work: *const (), task: usize) {
    // SAFETY: the caller guarantees it.
    unsafe { (*work.cast::<W>())(task) }
}

impl Shared {
    /// Starts the helper threads: one fewer than `threads`.
    fn start(threads: usize) -> &'static Self {
        let shared: &'static Self = Box::leak(Box::new(Self {
            taken: AtomicU64::new(0),
            slots: (0..SLOTS).map(|_| Slot::new()).collect(),
            threads,
            helpers: OnceLock::new(),
        }));
        let helper = |number| {
            let builder = std::thread::Builder::new().name(format!("pool-{number}"));
            builder.spawn(move || shared.help(number)).ok().map(|handle| handle.thread().clone())
        };
        // When a thread cannot start, the others do its work.
        let helpers = (1..threads).map_while(helper).collect();
        let _ = shared.helpers.set(helpers);
        shared
    }

    fn run<R>(&self, work: impl FnOnce(&ThreadPool) -> R) -> R {
        let taken = self.take_slot();
        work(&ThreadPool(taken.as_ref().map(TakenSlot::slot)))
    }

    fn helpers(&self) -> &[Thread] {
        self.helpers.get().map_or(&[], Vec::as_slice)
    }

    /// Number of helpers that are awake while these slots are taken: the first ones.
    fn awake(&self, taken: u64) -> usize {
        if taken == 0 { 0 } else { self.threads.saturating_sub(taken.count_ones() as usize) }
    }

    fn wake(&self, helpers: Range<usize>) {
        self.helpers().iter().take(helpers.end).skip(helpers.start).for_each(Thread::unpark);
    }

    /// Takes a free slot and wakes the helpers; none if no slot is free, or there is no helper.
    fn take_slot(&self) -> Option<TakenSlot<'_>> {
        if self.helpers().is_empty() {
            return None;
        }
        // The lowest bit that is not set. All that the caller before has written to the slot is seen by this one.
        let one_more = |taken: u64| (taken != u64::MAX).then_some(taken | (taken + 1));
        let before = self.taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).ok()?;
        self.wake(0..self.awake(before | (before + 1)));
        Some(TakenSlot { shared: self, number: before.trailing_ones() as usize })
    }

    /// The loop of a helper, the first of which has number 1.
    fn help(&self, number: usize) {
        let mut last = 0;
        loop {
            let mut spins = 0;
            loop {
                let taken = self.taken.load(Ordering::Acquire);
                if number > self.awake(taken) {
                    break;
                }
                spins = if self.run_task_after(&mut last, taken) { 0 } else { pause(spins) };
            }
            std::thread::park();
        }
    }

    /// Runs a task of the first taken slot after `last`, in a circle, that has one; returns false when no task is left.
    fn run_task_after(&self, last: &mut u32, taken: u64) -> bool {
        let first = *last + 1;
        let mut left = taken.rotate_right(first);
        while left != 0 {
            let number = (first + left.trailing_zeros()) % SLOTS;
            if self.slots[number as usize].run_next_task() {
                *last = number;
                return true;
            }
            left &= left - 1;
        }
        false
    }
}

impl Slot {
    fn new() -> Self {
        Self { next: AtomicU64::new(TASK_MASK), ..Self::default() }
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
        // SAFETY: the exchange succeeds only while this call runs and this task is open: after the call, on any thread, `next` has a
        // later number. The fields of a call are written before its number and stay unchanged until all its tasks are done. So count,
        // closure and trampoline, which are read between the two reads of the number, belong to this call, and the closure lives until
        // `done` counts this task. A caller that takes the slot later goes on from what the one before has written, as it reads `taken`.
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

/// A slot that this caller has taken; dropped, it is free again.
struct TakenSlot<'a> {
    shared: &'a Shared,
    number: usize,
}

impl TakenSlot<'_> {
    fn slot(&self) -> &Slot {
        &self.shared.slots[self.number]
    }
}

impl Drop for TakenSlot<'_> {
    fn drop(&mut self) {
        let bit = 1 << self.number;
        let before = self.shared.taken.fetch_and(!bit, Ordering::AcqRel);
        // A helper that slept for this caller has work with the others.
        self.shared.wake(self.shared.awake(before)..self.shared.awake(before & !bit));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::time::{Duration, Instant};

    use super::*;

    const ROUNDS: usize = if cfg!(miri) { 2 } else { 20 };
    const PATIENCE: Duration = Duration::from_secs(20);

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
        let shared = Shared::start(2);
        let mut values = [0usize; 2];
        for round in 1..=10 * ROUNDS {
            shared.run(|pool| {
                let begun = AtomicUsize::new(0);
                pool.for_each_item(&mut values, |_, value| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    while begun.load(Ordering::Relaxed) < 2 {
                        std::thread::yield_now();
                    }
                    *value += 1;
                });
            });
            assert_eq!(values, [round; 2]);
        }
    }

    #[test]
    fn concurrent_runs_do_not_mix() {
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..10 * ROUNDS {
                        let mut values = vec![0u64; if cfg!(miri) { 10 } else { 100 }];
                        run(|pool| {
                            (0..10).for_each(|_| pool.for_each_item(&mut values, |at, value| *value += at as u64))
                        });
                        assert!(values.iter().enumerate().all(|(at, value)| *value == 10 * at as u64));
                    }
                });
            }
        });
    }

    /// Runs tasks that wait for each other; true if they ran at the same time, so each on a thread of its own.
    fn run_together(pool: &ThreadPool, count: usize) -> bool {
        let (begun, met) = (AtomicUsize::new(0), AtomicUsize::new(0));
        pool.for_each_index(count, |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            let until = Instant::now() + PATIENCE;
            while begun.load(Ordering::Relaxed) < count && Instant::now() < until {
                std::thread::yield_now();
            }
            met.fetch_add(usize::from(begun.load(Ordering::Relaxed) == count), Ordering::Relaxed);
        });
        met.into_inner() == count
    }

    #[test]
    fn callers_at_once_have_several_threads_each() {
        let shared = Shared::start(4);
        let inside = Barrier::new(2);
        let of_one = || {
            shared.run(|pool| {
                inside.wait();
                let together = (0..ROUNDS).filter(|_| run_together(pool, 2)).count();
                // Neither leaves before the other is done.
                inside.wait();
                together
            })
        };
        std::thread::scope(|threads| {
            let callers = [threads.spawn(of_one), threads.spawn(of_one)];
            callers.into_iter().for_each(|caller| assert_eq!(caller.join().unwrap(), ROUNDS));
        });
    }

    #[test]
    fn a_helper_sleeps_for_each_further_caller_and_works_again_when_it_leaves() {
        let shared = Shared::start(3);
        let of_callers = |count: u32| shared.awake((1 << count) - 1);
        assert_eq!([0, 1, 2, 3, 4].map(of_callers), [0, 2, 1, 0, 0]);
        let inside = Barrier::new(2);
        for _ in 0..ROUNDS {
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    shared.run(|_| {
                        inside.wait();
                    });
                });
                shared.run(|pool| {
                    inside.wait();
                    // Three threads are there as soon as the other caller has left.
                    assert!(run_together(pool, 3));
                });
            });
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "so many threads take Miri too long")]
    fn more_callers_than_slots_get_their_work_done() {
        let (shared, callers) = (Shared::start(2), SLOTS as usize + 2);
        let inside = Barrier::new(callers);
        std::thread::scope(|threads| {
            for _ in 0..callers {
                threads.spawn(|| {
                    shared.run(|pool| {
                        inside.wait();
                        let mut values = [0; 10];
                        pool.for_each_item(&mut values, |at, value| *value = at);
                        assert_eq!(values, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
                    });
                });
            }
        });
        assert_eq!(shared.taken.load(Ordering::Relaxed), 0);
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
