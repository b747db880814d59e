//! The worker's thread: takes in submitted work, forms batches, runs steps, hands outputs out.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::choice::{Candidate, Chooser, Costs};
use super::results::Message;
use super::{BatchExecutor, Opening, Outputs, Priority, Shared, SlotHandle};
use crate::error::Error;

/// Seconds that a row is taken to cost before the first step is measured.
const UNKNOWN_COST: f64 = 0.01;

pub(super) struct Worker<E: BatchExecutor> {
    executor: E,
    shared: Arc<Shared<E>>,
    slots: Vec<Slot<E>>,
    /// Slots with an open stream.
    open: Vec<usize>,
    chooser: Chooser,
    costs: Costs<E::BatchKey>,
}

struct Slot<E: BatchExecutor> {
    generation: u64,
    stream: Option<OpenStream<E>>,
}

struct OpenStream<E: BatchExecutor> {
    priority: Priority,
    outputs: Outputs<E::Output>,
    next_step: Option<NextStep<E::BatchKey>>,
    finishing: bool,
    /// The caller has dropped the stream: its slot becomes free when it ends.
    dropped: bool,
    /// Time of the device that the stream has had.
    consumed: f64,
    /// The longest that its steps may be late, as far as they tell; none for a recording.
    patience: Option<Duration>,
    /// A step that it shared has failed: it runs alone until one goes well.
    alone: bool,
}

/// The step that a stream has input for.
#[derive(Clone, Copy)]
struct NextStep<K> {
    key: K,
    since: Instant,
    budget: Duration,
}

impl<E: BatchExecutor> Worker<E> {
    pub(super) fn new(executor: E, shared: Arc<Shared<E>>, slots: usize) -> Self {
        let slots = (0..slots).map(|_| Slot { generation: 0, stream: None }).collect();
        Self { executor, shared, slots, open: Vec::new(), chooser: Chooser::default(), costs: Costs::default() }
    }

    /// Runs until the scheduler is dropped and no work is left.
    pub(super) fn run(mut self) {
        loop {
            // Read first: work that was submitted before it was set is taken in below.
            let stopping = self.shared.stopping.load(Ordering::Acquire);
            let took = self.take_in();
            if let Some(error) = self.shared.abandoned.get().cloned() {
                self.fail_all(&self.open.clone(), &error);
            }
            self.find_next_steps();
            if self.step() || took {
                continue;
            }
            if stopping {
                // The rest has no end of its input and never will.
                for slot in self.open.clone() {
                    self.fail(slot, Error::Canceled);
                }
                return;
            }
            self.shared.notify.wait();
        }
    }

    /// Takes in submitted work; returns whether there was any.
    fn take_in(&mut self) -> bool {
        let shared = self.shared.clone();
        // In the opposite order to that in which a caller fills the queues: an input pushed before a finish that is seen
        // here, or a finish before a drop, is seen too. (Openings are taken out of turn where one of them has input.)
        let dropped: Vec<SlotHandle> = std::iter::from_fn(|| shared.dropped.pop()).collect();
        let finished: Vec<_> = std::iter::from_fn(|| shared.finished.pop()).collect();
        let opened = self.take_in_openings();
        let mut took = opened || !dropped.is_empty() || !finished.is_empty();
        for (priority, queue) in Priority::ALL.into_iter().zip(&shared.queues) {
            // No more than there is now: producers must not keep the worker from its steps.
            let waiting = queue.len();
            if waiting > 0 {
                metrics::histogram!("auricle_queue_depth", "priority" => priority.name()).record(waiting as f64);
            }
            for _ in 0..waiting {
                let Some((handle, input)) = queue.pop() else { break };
                took = true;
                self.push(handle, input);
            }
        }
        if shared.refused.swap(false, Ordering::SeqCst) {
            shared.room.notify_waiters();
        }
        for (handle, last) in finished {
            self.finish(handle, last);
        }
        for handle in dropped {
            self.release(handle);
        }
        took
    }

    /// Begins the streams that wait to be opened; returns whether there were any.
    fn take_in_openings(&mut self) -> bool {
        let shared = self.shared.clone();
        let openings = std::iter::from_fn(|| shared.opening.pop());
        openings.map(|opening| self.begin(opening)).count() > 0
    }

    fn begin(&mut self, Opening { handle, request, outputs }: Opening<E>) {
        let opened = catch_unwind(AssertUnwindSafe(|| self.executor.open(handle.slot, request)));
        match opened.unwrap_or_else(|panic| Err(self.panicked(&*panic))) {
            Ok(()) => {
                let priority = handle.priority;
                let stream = OpenStream {
                    priority,
                    outputs,
                    next_step: None,
                    finishing: false,
                    dropped: false,
                    consumed: 0.0,
                    patience: None,
                    alone: false,
                };
                self.slots[handle.slot].stream = Some(stream);
                self.open.push(handle.slot);
            }
            Err(error) => {
                outputs.send(Message::Failed(error));
            }
        }
    }

    fn push(&mut self, handle: SlotHandle, input: E::Input) {
        if self.slots[handle.slot].stream.is_none() {
            // The stream may have been opened since the last look.
            self.take_in_openings();
        }
        let slot = &self.slots[handle.slot];
        if slot.generation == handle.generation && slot.stream.is_some() {
            self.guarded(handle.slot, |executor| executor.push(handle.slot, input));
        }
    }

    fn finish(&mut self, handle: SlotHandle, last: Option<E::Input>) {
        let slot = &mut self.slots[handle.slot];
        if slot.generation == handle.generation
            && let Some(stream) = &mut slot.stream
        {
            stream.finishing = true;
            self.guarded(handle.slot, |executor| {
                if let Some(last) = last {
                    executor.push(handle.slot, last);
                }
                executor.finish(handle.slot);
            });
        }
    }

    /// Calls the executor about one slot. A panic ends the stream in it, and no other.
    fn guarded<R>(&mut self, slot: usize, call: impl FnOnce(&mut E) -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(|| call(&mut self.executor))) {
            Ok(value) => Some(value),
            Err(panic) => {
                let error = self.panicked(&*panic);
                self.fail(slot, error);
                None
            }
        }
    }

    /// Ends the stream in a slot with an error.
    fn fail(&mut self, slot: usize, error: Error) {
        self.end(slot, Message::Failed(error));
    }

    /// The caller has dropped a stream: its slot goes to the next one, under a new generation.
    fn release(&mut self, handle: SlotHandle) {
        let slot = &mut self.slots[handle.slot];
        if slot.generation != handle.generation {
            return;
        }
        match &mut slot.stream {
            // Its last outputs are still to come.
            Some(stream) if stream.finishing => stream.dropped = true,
            _ => {
                self.end(handle.slot, Message::Done);
                self.free(handle);
            }
        }
    }

    fn free(&mut self, handle: SlotHandle) {
        let generation = handle.generation + 1;
        self.slots[handle.slot].generation = generation;
        let _ = self.shared.free[handle.priority as usize].push(SlotHandle { generation, ..handle });
    }

    /// Ends the stream in a slot, with its last message. The slot is free at once if the caller has dropped the stream.
    fn end(&mut self, slot: usize, last: Message<E::Output>) {
        let Some(stream) = self.slots[slot].stream.take() else { return };
        self.open.retain(|open| *open != slot);
        // Of a panic here the stream has nothing to learn: it has ended.
        let _ = catch_unwind(AssertUnwindSafe(|| self.executor.close(slot)));
        stream.outputs.send(last);
        if stream.dropped {
            let generation = self.slots[slot].generation;
            self.free(SlotHandle { slot, priority: stream.priority, generation });
        }
    }

    /// Asks every stream for its next step; ends those whose input has ended and that have none.
    fn find_next_steps(&mut self) {
        let now = Instant::now();
        // At the end nobody may be left to read: what was submitted is computed all the same.
        let stopping = self.shared.stopping.load(Ordering::Acquire);
        for at in (0..self.open.len()).rev() {
            let slot = self.open[at];
            if let Some(stream) = &mut self.slots[slot].stream
                && stream.outputs.is_full()
                && !stopping
            {
                stream.next_step = None;
                continue;
            }
            let ask = |executor: &mut E| {
                let key = executor.next_step(slot)?;
                Some((key, executor.waiting_since(slot), executor.budget(key)))
            };
            let Some(found) = self.guarded(slot, ask) else { continue };
            let Some(stream) = &mut self.slots[slot].stream else { continue };
            if let Some((.., budget)) = found
                && stream.priority != Priority::Offline
                && !budget.is_zero()
            {
                stream.patience = Some(stream.patience.map_or(budget, |known| known.min(budget)));
            }
            // Without a receiver no further step runs.
            let found = found.filter(|_| !(stream.dropped && stream.outputs.is_closed()));
            match (found, &mut stream.next_step) {
                (Some((key, _, budget)), Some(known)) if known.key == key => known.budget = budget,
                (Some((key, since, budget)), next_step) => {
                    *next_step = Some(NextStep { key, since: since.unwrap_or(now), budget });
                }
                (None, _) if stream.finishing => self.end(slot, Message::Done),
                (None, next_step) => *next_step = None,
            }
        }
    }

    /// The streams that have a next step, for the choice among them.
    fn candidates(&self) -> Vec<Candidate<E::BatchKey>> {
        let candidate = |slot: &usize| {
            let stream = self.slots[*slot].stream.as_ref()?;
            let NextStep { key, since, budget } = stream.next_step?;
            let family = self.executor.family(key);
            let ready = self.executor.rows(key, &[*slot], 1).iter().any(|(of, rows)| of == slot && *rows > 0);
            Some(Candidate {
                slot: *slot,
                key,
                priority: stream.priority,
                due: since + budget,
                takes_time: !budget.is_zero(),
                family,
                ready,
                consumed: stream.consumed,
                cost: self.costs.of(key).unwrap_or(UNKNOWN_COST),
            })
        };
        self.open.iter().filter_map(candidate).collect()
    }

    /// Chooses a step and runs it; false if no stream has one.
    fn step(&mut self) -> bool {
        let found = catch_unwind(AssertUnwindSafe(|| self.candidates()));
        let Ok(mut candidates) = found else {
            // The streams of a step cannot be distinguished here.
            self.fail_all(&self.open.clone(), &Error::internal("the executor cannot tell what its steps compute"));
            return true;
        };
        let Some(first) = self.chooser.choose(&mut candidates) else { return false };
        for candidate in &candidates {
            if let Some(stream) = &mut self.slots[candidate.slot].stream {
                stream.consumed = candidate.consumed;
            }
        }
        let Candidate { slot: first, key, due, takes_time, .. } = candidates[first];
        let forced = self.chooser.forced(&candidates, first);
        let mut slots = self.batch(key, first);
        let limits = || (self.executor.max_batch(key), self.executor.step_name(key));
        let (most, name) = match catch_unwind(AssertUnwindSafe(limits)) {
            Ok((most, name)) => (self.costs.limit(key, most, self.patience(first)), name),
            Err(panic) => {
                self.fail_all(&slots, &self.panicked(&*panic));
                return true;
            }
        };
        slots.truncate(most);
        let rows = catch_unwind(AssertUnwindSafe(|| self.executor.rows(key, &slots, most))).unwrap_or_default();
        let began = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| self.executor.step(key, &slots, most)));
        let took = began.elapsed();
        metrics::histogram!("auricle_step_rows", "step" => name).record(slots.len() as f64);
        metrics::histogram!("auricle_step_seconds", "step" => name).record(took);
        if takes_time && due < Instant::now() {
            metrics::counter!("auricle_steps_late_total", "step" => name).increment(1);
        }
        if takes_time {
            self.charge(key, &rows, took.as_secs_f64());
            self.chooser.ran(forced, took.as_secs_f64());
        }
        match done.unwrap_or_else(|panic| Err(self.panicked(&*panic))) {
            Ok(outputs) => {
                for (slot, output) in slots.iter().zip(outputs) {
                    let Some(stream) = &mut self.slots[*slot].stream else { continue };
                    (stream.next_step, stream.alone) = (None, false);
                    if let Some(output) = output {
                        stream.outputs.send(Message::Output(output));
                    }
                }
            }
            Err(error) => {
                metrics::counter!("auricle_steps_failed_total", "step" => name).increment(1);
                self.shared.failed_steps.fetch_add(1, Ordering::AcqRel);
                self.retry_or_fail(key, &slots, &error);
            }
        }
        true
    }

    /// The slots that share a step with `first`: all with its key, of any priority, those of the highest first and among them
    /// those that have had the least. The limit comes later.
    fn batch(&self, key: E::BatchKey, first: usize) -> Vec<usize> {
        let alone = |slot: usize| self.slots[slot].stream.as_ref().is_some_and(|stream| stream.alone);
        if alone(first) {
            return vec![first];
        }
        let mut batch: Vec<(Priority, f64, Instant, usize)> = Vec::new();
        for slot in &self.open {
            if let Some(stream) = &self.slots[*slot].stream
                && let Some(next) = &stream.next_step
                && next.key == key
                && !stream.alone
            {
                // A live stream has no part in the shares: the one that waits longest goes first.
                let consumed = if stream.priority == Priority::Offline { stream.consumed } else { 0.0 };
                batch.push((stream.priority, consumed, next.since, *slot));
            }
        }
        batch.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then((a.2, a.3).cmp(&(b.2, b.3))));
        batch.into_iter().map(|(.., slot)| slot).collect()
    }

    /// How long a step with this slot may take for the sake of streams that are more urgent; none if there are none.
    fn patience(&self, first: usize) -> Option<Duration> {
        let stream = |slot: &usize| self.slots[*slot].stream.as_ref();
        let own = stream(&first)?.priority;
        let urgent = self.open.iter().filter_map(stream).filter(|stream| stream.priority < own);
        urgent.filter_map(|stream| stream.patience).min()
    }

    /// Charges the streams for a step, and learns from it what a row costs.
    fn charge(&mut self, key: E::BatchKey, rows: &[(usize, usize)], seconds: f64) {
        let total: usize = rows.iter().map(|(_, rows)| rows).sum();
        if total == 0 {
            return;
        }
        let row = seconds / total as f64;
        self.costs.learn(key, row);
        for (slot, rows) in rows {
            let sharing = self.sharing(*slot) as f64;
            if let Some(stream) = self.slots.get_mut(*slot).and_then(|slot| slot.stream.as_mut()) {
                stream.consumed += row * *rows as f64 * sharing;
            }
        }
    }

    /// Streams that have work and share the time of one: those of the slot's account, or the slot's alone.
    fn sharing(&self, slot: usize) -> usize {
        let Ok(Some(account)) = catch_unwind(AssertUnwindSafe(|| self.executor.account(slot))) else { return 1 };
        let has_work = |other: &&usize| self.slots[**other].stream.as_ref().is_some_and(|it| it.next_step.is_some());
        let others = self.open.iter().filter(has_work).filter(|other| self.executor.account(**other) == Some(account));
        others.count().max(1)
    }

    /// Runs the streams of a failed step again, each alone, or ends them.
    fn retry_or_fail(&mut self, key: E::BatchKey, slots: &[usize], error: &Error) {
        let undone =
            slots.len() > 1 && catch_unwind(AssertUnwindSafe(|| self.executor.undo(key, slots))).unwrap_or(false);
        if !undone {
            return self.fail_all(slots, error);
        }
        for slot in slots {
            if let Some(stream) = &mut self.slots[*slot].stream {
                (stream.next_step, stream.alone) = (None, true);
            }
        }
    }

    fn fail_all(&mut self, slots: &[usize], error: &Error) {
        for slot in slots {
            self.fail(*slot, error.clone());
        }
    }

    /// The error for streams whose executor panicked. (The default hook has printed the panic with its place.)
    #[track_caller]
    fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        if let Ok(Some(cause)) = catch_unwind(AssertUnwindSafe(|| self.executor.cause_of_panic())) {
            return cause;
        }
        let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
        Error::internal(format!("a step panicked: {}", message.as_deref().unwrap_or("no message")))
    }
}
