//! One worker thread owns the models and the state of every stream; nothing else touches them. Callers submit through
//! bounded lock-free queues and receive results through a channel of their own.
//!
//! An open stream holds a slot of the worker. The worker takes inputs in as they come. Whenever it is free it asks each slot
//! for its next step, chooses one (`choice`), adds all slots with the same batch key up to the batch's limit, and runs it.
//! While live streams are open, a batch of answers or recordings is no larger than what fits between two of their chunks.
//!
//! A step of several streams that fails or panics is undone where the executor can, and each of its streams runs alone until a
//! step has gone well; a step that cannot be undone, or of one stream, ends its streams, and no other. Inputs carry the
//! generation of their slot, so a slot's next stream never receives inputs of the one before; outputs go to the channel of the
//! stream that they were computed for.

mod choice;
mod notify;
mod results;
mod slot_table;
mod worker;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam::queue::ArrayQueue;

use crate::error::{Error, Result};
use notify::Notify;
use results::Outputs;
pub use results::Results;
pub use slot_table::SlotTable;
use worker::Worker;

/// Inputs that wait in each queue at most.
const QUEUE_CAPACITY: usize = if cfg!(miri) { 32 } else { 8192 };

/// Open streams of each priority at most. One priority never takes the room of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// Of [`Priority::Live`].
    pub live: usize,
    /// Of [`Priority::Speech`].
    pub speech: usize,
    /// Of [`Priority::SecondPass`].
    pub second_pass: usize,
    /// Of [`Priority::Agent`].
    pub agent: usize,
    /// Of [`Priority::Offline`].
    pub offline: usize,
}

impl SlotCounts {
    fn by_priority(self) -> [usize; PRIORITIES] {
        [self.live, self.speech, self.second_pass, self.agent, self.offline]
    }

    /// Streams of a priority.
    pub fn of(self, priority: Priority) -> usize {
        self.by_priority()[priority as usize]
    }

    fn total(self) -> usize {
        self.by_priority().iter().sum()
    }
}

/// The number of priorities.
const PRIORITIES: usize = 5;

/// Order of streams, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A person speaks and reads along.
    Live,
    /// A person hears speech as it is made.
    Speech,
    /// A turn of a live session is read again, by a deadline.
    SecondPass,
    /// A person waits for an answer.
    Agent,
    /// A recording.
    Offline,
}

impl Priority {
    /// All, the most urgent first.
    pub const ALL: [Self; PRIORITIES] = [Self::Live, Self::Speech, Self::SecondPass, Self::Agent, Self::Offline];

    fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Speech => "speech",
            Self::SecondPass => "second pass",
            Self::Agent => "agent",
            Self::Offline => "offline",
        }
    }
}

/// Runs batched steps over the streams in its slots. It is made on the worker's thread and stays there.
pub trait BatchExecutor: 'static {
    /// Opens a stream.
    type Request: Send + 'static;
    /// A piece of a stream's input.
    type Input: Send + 'static;
    /// A step's output for one stream.
    type Output: Send + 'static;
    /// Slots whose next steps have equal keys can share a step.
    type BatchKey: Copy + Eq + Hash + Debug;

    /// Begins a stream in this slot.
    ///
    /// # Errors
    /// The stream receives the error and does not begin.
    fn open(&mut self, slot: usize, request: Self::Request) -> Result<()>;

    /// Stores an input; computes nothing yet.
    fn push(&mut self, slot: usize, input: Self::Input);

    /// Marks the end of a slot's input: the rest becomes ready.
    fn finish(&mut self, slot: usize);

    /// Frees a slot whose stream has ended or was dropped.
    fn close(&mut self, slot: usize);

    /// The step that this slot has enough input for, if any.
    fn next_step(&self, slot: usize) -> Option<Self::BatchKey>;

    /// When the input of the slot's next step was complete, where that was before the worker first asked.
    fn waiting_since(&self, _: usize) -> Option<Instant> {
        None
    }

    /// Time from a step's input being complete to its deadline; zero for a step that takes no time.
    fn budget(&self, key: Self::BatchKey) -> Duration;

    /// Slots that a step of this kind takes at most.
    fn max_batch(&self, key: Self::BatchKey) -> usize;

    /// The step's name in metrics.
    fn step_name(&self, key: Self::BatchKey) -> &'static str;

    /// Number of the family that the key belongs to. Recordings take turns by the time that each has had; within the family
    /// whose turn it is, the step that is due soonest runs, because its steps may depend on each other.
    fn family(&self, _: Self::BatchKey) -> usize {
        0
    }

    /// The account of a slot's stream. Recordings of one account that have work share the time that one recording has.
    fn account(&self, _: usize) -> Option<&str> {
        None
    }

    /// The rows that a step of these slots with at most `most` rows computes, by slot; its time is charged in their proportion.
    /// A slot may have none, and a slot outside `slots` may have some.
    fn rows(&self, _: Self::BatchKey, slots: &[usize], _most: usize) -> Vec<(usize, usize)> {
        slots.iter().map(|slot| (*slot, 1)).collect()
    }

    /// Runs one step of these slots, whose next step is `key`, with at most `most` rows and at least one; gives an output or
    /// none for each slot, in their order.
    ///
    /// # Errors
    /// These streams run again, each alone, if [`BatchExecutor::undo`] can; otherwise all receive the error and end.
    fn step(&mut self, key: Self::BatchKey, slots: &[usize], most: usize) -> Result<Vec<Option<Self::Output>>>;

    /// After a step of several slots that failed or panicked: brings them back to where they were before it. False if it
    /// cannot.
    fn undo(&mut self, _: Self::BatchKey, _slots: &[usize]) -> bool {
        false
    }

    /// After a panic: the failure that explains it, where it is not a fault of the program. The streams receive it then.
    fn cause_of_panic(&self) -> Option<Error> {
        None
    }
}

/// A slot, for one of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotHandle {
    slot: usize,
    /// The priority that the slot is reserved for.
    priority: Priority,
    generation: u64,
}

/// A stream that begins.
struct Opening<E: BatchExecutor> {
    handle: SlotHandle,
    request: E::Request,
    outputs: Outputs<E::Output>,
}

/// State that callers and worker share.
struct Shared<E: BatchExecutor> {
    /// Inputs, one queue a priority.
    queues: [ArrayQueue<(SlotHandle, E::Input)>; PRIORITIES],
    /// Free slots, one queue a priority.
    free: [ArrayQueue<SlotHandle>; PRIORITIES],
    /// Streams that begin, with room for one of each slot: a full input queue refuses no new stream.
    opening: ArrayQueue<Opening<E>>,
    /// Streams whose input has ended, with their last input. There is room for one of each slot.
    finished: ArrayQueue<(SlotHandle, Option<E::Input>)>,
    /// Streams that the caller has dropped. There is room for one of each slot.
    dropped: ArrayQueue<SlotHandle>,
    notify: Arc<Notify>,
    /// A push has found its queue full since the worker last emptied it.
    refused: AtomicBool,
    /// Tells callers that a full queue has room again.
    room: Arc<tokio::sync::Notify>,
    stopping: AtomicBool,
    /// Steps that have failed, by an error or a panic.
    failed_steps: AtomicUsize,
    /// The error that ends every stream, those to come included.
    abandoned: OnceLock<Error>,
    /// The worker's thread has ended.
    ended: AtomicBool,
}

impl<E: BatchExecutor> Shared<E> {
    /// Drops what no worker will take any more, so that the results of those streams end.
    fn drop_openings(&self) {
        while self.opening.pop().is_some() {}
    }
}

/// Marks the end of the worker's thread, however it ends.
struct EndGuard<E: BatchExecutor>(Arc<Shared<E>>);

impl<E: BatchExecutor> Drop for EndGuard<E> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.drop_openings();
        self.0.room.notify_waiters();
    }
}

/// Hands work to the worker. Dropped, it lets submitted work end, and joins the thread.
pub struct Scheduler<E: BatchExecutor> {
    shared: Arc<Shared<E>>,
    worker: Option<JoinHandle<()>>,
}

impl<E: BatchExecutor> Scheduler<E> {
    /// Starts a worker with these slots, over the executor that `make` gives on its thread.
    ///
    /// # Errors
    /// [`Error::Busy`] if the system refuses a thread.
    pub fn start(slots: SlotCounts, make: impl FnOnce() -> E + Send + 'static) -> Result<Self> {
        let (give, given) = std::sync::mpsc::sync_channel::<Arc<Shared<E>>>(1);
        let run = move || {
            if let Ok(shared) = given.recv() {
                let _ended = EndGuard(shared.clone());
                Worker::new(make(), shared, slots.total()).run();
            }
        };
        let worker = std::thread::Builder::new()
            .name("auricle-device".into())
            .spawn(run)
            .map_err(|error| Error::Busy(format!("the device's thread cannot be started: {error}")))?;
        let mut next = 0;
        let free = Priority::ALL.map(|priority| {
            let count = slots.by_priority()[priority as usize];
            let free = ArrayQueue::new(count.max(1));
            for slot in next..next + count {
                let _ = free.push(SlotHandle { slot, priority, generation: 0 });
            }
            next += count;
            free
        });
        let shared = Arc::new(Shared {
            queues: Priority::ALL.map(|_| ArrayQueue::new(QUEUE_CAPACITY)),
            free,
            opening: ArrayQueue::new(slots.total().max(1)),
            finished: ArrayQueue::new(slots.total().max(1)),
            dropped: ArrayQueue::new(slots.total().max(1)),
            notify: Arc::new(Notify::new(worker.thread().clone())),
            refused: AtomicBool::new(false),
            room: Arc::default(),
            stopping: AtomicBool::new(false),
            failed_steps: AtomicUsize::new(0),
            abandoned: OnceLock::new(),
            ended: AtomicBool::new(false),
        });
        let _ = give.send(shared.clone());
        Ok(Self { shared, worker: Some(worker) })
    }

    /// Opens a stream: its input, and its results.
    ///
    /// # Errors
    /// [`Error::Busy`] when no slot is free.
    pub fn open(&self, request: E::Request, priority: Priority) -> Result<(Stream<E>, Results<E::Output>)> {
        self.opener().open(request, priority)
    }

    /// Opens streams for its holder, who keeps neither the scheduler nor its worker.
    pub fn opener(&self) -> StreamOpener<E> {
        StreamOpener(self.shared.clone())
    }

    /// Steps that have failed so far, by an error or a panic.
    pub fn failed_steps(&self) -> usize {
        self.shared.failed_steps.load(Ordering::Acquire)
    }

    /// Ends every stream with this error, those that wait for input and those to come included. The first error counts.
    pub fn abandon(&self, error: Error) {
        let _ = self.shared.abandoned.set(error);
        self.shared.notify.notify();
    }

    /// Streams of a priority that can still be opened.
    pub fn free(&self, priority: Priority) -> usize {
        self.shared.free[priority as usize].len()
    }
}

impl<E: BatchExecutor> Drop for Scheduler<E> {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.notify.notify();
        if let Some(worker) = self.worker.take() {
            // Panics of the executor are caught and go to the streams; there is none to report here.
            let _ = worker.join();
        }
    }
}

/// Opens streams of a scheduler. Once that is dropped, their results end with an error.
pub struct StreamOpener<E: BatchExecutor>(Arc<Shared<E>>);

impl<E: BatchExecutor> StreamOpener<E> {
    /// As [`Scheduler::open`].
    ///
    /// # Errors
    /// [`Error::Busy`] when no slot is free.
    pub fn open(&self, request: E::Request, priority: Priority) -> Result<(Stream<E>, Results<E::Output>)> {
        let shared = &self.0;
        let handle =
            shared.free[priority as usize].pop().ok_or_else(|| Error::Busy("all streams are in use".into()))?;
        let (outputs, results) = Results::channel(shared.notify.clone());
        if shared.opening.push(Opening { handle, request, outputs }).is_err() {
            debug_assert!(false, "there is room for every slot");
        }
        shared.notify.notify();
        if shared.ended.load(Ordering::SeqCst) {
            // The worker may have ended before it could see this one.
            shared.drop_openings();
        }
        Ok((Stream { shared: shared.clone(), handle, finished: false }, results))
    }
}

/// The input of a stream. Dropped before [`Stream::finish`], it ends the stream at once: no further step runs for it.
pub struct Stream<E: BatchExecutor> {
    shared: Arc<Shared<E>>,
    handle: SlotHandle,
    finished: bool,
}

impl<E: BatchExecutor> Stream<E> {
    /// Pushes an input without waiting.
    ///
    /// # Errors
    /// Gives the input back if the queue is full: nothing was lost, and the caller may try again.
    pub fn push(&self, input: E::Input) -> std::result::Result<(), E::Input> {
        let queue = &self.shared.queues[self.handle.priority as usize];
        if let Err(refused) = queue.push((self.handle, input)) {
            // Tried again after the wait is registered: the worker that makes room later than this sees it, and says so.
            self.shared.refused.store(true, Ordering::SeqCst);
            queue.push(refused).map_err(|(_, input)| input)?;
        }
        self.shared.notify.notify();
        Ok(())
    }

    /// Completes when a queue that refused an input has room again, or the worker has ended. It counts from the call on,
    /// not from the first poll.
    pub fn room(&self) -> tokio::sync::futures::OwnedNotified {
        self.shared.room.clone().notified_owned()
    }

    /// Tells the worker that the stream may have a next step without a new input.
    pub fn wake(&self) {
        self.shared.notify.notify();
    }

    /// True if the worker's thread has ended.
    pub fn worker_ended(&self) -> bool {
        self.shared.ended.load(Ordering::SeqCst)
    }

    /// Ends the input, with a last piece. The remaining outputs follow, then the results end. It is always accepted; the
    /// first call counts.
    pub fn finish(&mut self, last: Option<E::Input>) {
        if !self.finished {
            self.finished = true;
            let _ = self.shared.finished.push((self.handle, last));
            self.shared.notify.notify();
        }
    }
}

impl<E: BatchExecutor> Drop for Stream<E> {
    fn drop(&mut self) {
        // There is room for every slot.
        let _ = self.shared.dropped.push(self.handle);
        self.shared.notify.notify();
    }
}

#[cfg(all(test, not(loom)))]
mod shares_tests;
#[cfg(all(test, not(loom)))]
mod tests;
