//! One worker thread owns the models and the state of every stream; nothing else touches them. Callers submit through
//! bounded lock-free queues and get results through a channel of their own.
//!
//! A stream has a slot of the worker's while it is open. Inputs are taken in as they come; whenever the worker is free it
//! looks at which slots have enough for a step, takes those that fit together, live ones first, the one that is due
//! soonest foremost, and runs one step for all of them. A step that fails or panics ends the streams that were in it, and
//! no other. A slot's next user never sees what was meant for the one before: inputs carry the generation of their slot,
//! and results go to the channel of the stream that they were computed for.

mod notify;
mod worker;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam::queue::ArrayQueue;
use tokio::sync::mpsc;

use crate::error::{Error, Result};
use notify::Bell;
use worker::Worker;

/// What waits in each queue at most.
const QUEUED: usize = if cfg!(miri) { 32 } else { 8192 };

/// How many streams of each priority may be open at a time: those of one never take the room of another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Of [`Priority::Live`].
    pub live: usize,
    /// Of [`Priority::Agent`].
    pub agent: usize,
    /// Of [`Priority::Offline`].
    pub offline: usize,
}

impl Slots {
    fn each(self) -> [usize; 3] {
        [self.live, self.agent, self.offline]
    }

    fn all(self) -> usize {
        self.each().iter().sum()
    }
}

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Somebody speaks and reads along.
    Live,
    /// Somebody waits for an answer to what they said.
    Agent,
    /// Nobody waits for the next step.
    Offline,
}

impl Priority {
    const ALL: [Self; 3] = [Self::Live, Self::Agent, Self::Offline];

    fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Agent => "agent",
            Self::Offline => "offline",
        }
    }
}

/// What the worker runs. It is made on the worker's thread and stays there.
pub trait Machine: 'static {
    /// What a stream is opened with.
    type Kind: Send + 'static;
    /// What it is fed.
    type Input: Send + 'static;
    /// What comes of it.
    type Output: Send + 'static;
    /// Slots that are ready for equal ones can share a step.
    type Bucket: Copy + Eq + Hash + Debug;

    /// A stream begins in this slot.
    ///
    /// # Errors
    /// What is told to the stream, which then does not begin.
    fn open(&mut self, slot: usize, kind: Self::Kind) -> Result<()>;

    /// Takes an input in; computes nothing yet.
    fn take(&mut self, slot: usize, input: Self::Input);

    /// Nothing follows for this slot: what it holds becomes ready.
    fn finish(&mut self, slot: usize);

    /// The stream in this slot has ended, or nobody listens to it any more.
    fn close(&mut self, slot: usize);

    /// What this slot has enough for, if anything.
    fn ready(&self, slot: usize) -> Option<Self::Bucket>;

    /// When what this slot is ready for began to wait, where the machine knows of an earlier moment than that at which the
    /// slot was first seen ready for it.
    fn since(&self, _: usize) -> Option<Instant> {
        None
    }

    /// How long after it became ready a step of this kind is to be done; zero for what takes no time.
    fn budget(&self, bucket: Self::Bucket) -> Duration;

    /// How many slots a step of this kind takes at most.
    fn rows(&self, bucket: Self::Bucket) -> usize;

    /// A name for the figures.
    fn name(&self, bucket: Self::Bucket) -> &'static str;

    /// One step of these slots, which are all ready for `bucket`; what each has to say, in their order.
    ///
    /// # Errors
    /// What is told to all of them; their streams end.
    fn step(&mut self, bucket: Self::Bucket, slots: &[usize]) -> Result<Vec<Option<Self::Output>>>;
}

/// A slot, for one of its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticket {
    slot: usize,
    /// Whose streams the slot is for.
    priority: Priority,
    generation: u64,
}

/// A stream that begins.
struct Opening<M: Machine> {
    ticket: Ticket,
    kind: M::Kind,
    outputs: Outputs<M>,
}

/// What comes of a stream.
pub type Results<M> = mpsc::UnboundedReceiver<Result<<M as Machine>::Output>>;

/// The next result, for a thread that may wait; none once the stream is over.
pub fn wait<M: Machine>(results: &mut Results<M>) -> Option<Result<M::Output>> {
    // The channel's own way of waiting panics on the threads of an asynchronous runtime.
    cubecl::future::block_on(results.recv())
}

type Outputs<M> = mpsc::UnboundedSender<Result<<M as Machine>::Output>>;

/// What callers and worker share.
struct Shared<M: Machine> {
    /// What streams are fed: one a priority.
    queues: [ArrayQueue<(Ticket, M::Input)>; 3],
    /// One a priority.
    free: [ArrayQueue<Ticket>; 3],
    /// Streams that begin. There is room for one of each slot, so that none is turned away for what others are fed.
    opening: ArrayQueue<Opening<M>>,
    /// Streams that nothing follows for, with the last of what they are fed. There is room for one of each slot.
    finished: ArrayQueue<(Ticket, Option<M::Input>)>,
    /// Streams that nobody listens to any more. There is room for one of each slot, so that none is turned away.
    abandoned: ArrayQueue<Ticket>,
    bell: Bell,
    stopping: AtomicBool,
}

/// Hands work to the worker. Dropped, it lets what was submitted end, and joins it.
pub struct Scheduler<M: Machine> {
    shared: Arc<Shared<M>>,
    worker: Option<JoinHandle<()>>,
}

impl<M: Machine> Scheduler<M> {
    /// Starts a worker with these slots, over what `machine` makes on its thread.
    ///
    /// # Errors
    /// [`Error::Busy`] if the system has no thread to give.
    pub fn start(slots: Slots, machine: impl FnOnce() -> M + Send + 'static) -> Result<Self> {
        let (give, given) = std::sync::mpsc::sync_channel::<Arc<Shared<M>>>(1);
        let run = move || {
            if let Ok(shared) = given.recv() {
                Worker::new(machine(), shared, slots.all()).run();
            }
        };
        let worker = std::thread::Builder::new()
            .name("auricle-device".into())
            .spawn(run)
            .map_err(|error| Error::Busy(format!("the device's thread cannot be started: {error}")))?;
        let mut next = 0;
        let free = Priority::ALL.map(|priority| {
            let count = slots.each()[priority as usize];
            let free = ArrayQueue::new(count.max(1));
            for slot in next..next + count {
                let _ = free.push(Ticket { slot, priority, generation: 0 });
            }
            next += count;
            free
        });
        let shared = Arc::new(Shared {
            queues: Priority::ALL.map(|_| ArrayQueue::new(QUEUED)),
            free,
            opening: ArrayQueue::new(slots.all().max(1)),
            finished: ArrayQueue::new(slots.all().max(1)),
            abandoned: ArrayQueue::new(slots.all().max(1)),
            bell: Bell::new(worker.thread().clone()),
            stopping: AtomicBool::new(false),
        });
        let _ = give.send(shared.clone());
        Ok(Self { shared, worker: Some(worker) })
    }

    /// Opens a stream; what comes of it, and why it ended if it failed, is received from the second part.
    ///
    /// # Errors
    /// [`Error::Busy`] when there is no slot left.
    pub fn open(&self, kind: M::Kind, priority: Priority) -> Result<(Stream<M>, Results<M>)> {
        let free = &self.shared.free[priority as usize];
        let ticket = free.pop().ok_or_else(|| Error::Busy("all streams are in use".into()))?;
        let (outputs, received) = mpsc::unbounded_channel();
        if self.shared.opening.push(Opening { ticket, kind, outputs }).is_err() {
            debug_assert!(false, "there is room for every slot");
        }
        self.shared.bell.ring();
        Ok((Stream { shared: self.shared.clone(), ticket, finished: false }, received))
    }

    /// How many streams of a priority can still be opened.
    pub fn free(&self, priority: Priority) -> usize {
        self.shared.free[priority as usize].len()
    }
}

impl<M: Machine> Drop for Scheduler<M> {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.bell.ring();
        if let Some(worker) = self.worker.take() {
            // It catches the panics of steps, so that there is none to learn of here.
            let _ = worker.join();
        }
    }
}

/// A stream's way in. Dropped before it is finished, it ends the stream at once: nothing more is computed for it.
pub struct Stream<M: Machine> {
    shared: Arc<Shared<M>>,
    ticket: Ticket,
    finished: bool,
}

impl<M: Machine> Stream<M> {
    /// Feeds the stream, without waiting.
    ///
    /// # Errors
    /// Gives the input back if the queue is full: nothing was lost, and it may be tried again.
    pub fn push(&self, input: M::Input) -> std::result::Result<(), M::Input> {
        let queue = &self.shared.queues[self.ticket.priority as usize];
        queue.push((self.ticket, input)).map_err(|(_, input)| input)?;
        self.shared.bell.ring();
        Ok(())
    }

    /// Says that nothing follows, but for this: what there is left comes out, then the results end. Always accepted; the
    /// first time counts.
    pub fn finish(&mut self, last: Option<M::Input>) {
        if !self.finished {
            self.finished = true;
            let _ = self.shared.finished.push((self.ticket, last));
            self.shared.bell.ring();
        }
    }
}

impl<M: Machine> Drop for Stream<M> {
    fn drop(&mut self) {
        // There is room for every slot's.
        let _ = self.shared.abandoned.push(self.ticket);
        self.shared.bell.ring();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
