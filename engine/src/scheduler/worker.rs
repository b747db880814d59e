//! The worker's thread: takes in what was submitted, forms batches, runs steps, hands results out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{Machine, Opening, Outputs, Priority, Shared, Ticket};
use crate::error::Error;

pub(super) struct Worker<M: Machine> {
    machine: M,
    shared: Arc<Shared<M>>,
    slots: Vec<Slot<M>>,
    /// Slots with a stream in them.
    open: Vec<usize>,
}

struct Slot<M: Machine> {
    generation: u64,
    stream: Option<Open<M>>,
}

struct Open<M: Machine> {
    priority: Priority,
    outputs: Outputs<M>,
    /// What it is ready for, and since when.
    ready: Option<(M::Bucket, Instant)>,
    finishing: bool,
    /// The user has let go of it, so that its slot can be given to the next one.
    abandoned: bool,
}

impl<M: Machine> Worker<M> {
    pub(super) fn new(machine: M, shared: Arc<Shared<M>>, slots: usize) -> Self {
        let slots = (0..slots).map(|_| Slot { generation: 0, stream: None }).collect();
        Self { machine, shared, slots, open: Vec::new() }
    }

    /// Until the scheduler is dropped and nothing is left to do.
    pub(super) fn run(mut self) {
        loop {
            // Read first: whatever was submitted before it was set is taken in below.
            let stopping = self.shared.stopping.load(Ordering::Acquire);
            let took = self.take_in();
            self.look();
            if self.step() || took {
                continue;
            }
            if stopping {
                return;
            }
            self.shared.bell.wait();
        }
    }

    /// Takes in what was submitted; whether there was anything.
    fn take_in(&mut self) -> bool {
        let shared = self.shared.clone();
        // Looked at in the opposite order to that in which a caller fills them: whatever was pushed before a finish that is
        // seen here, or finished before it was let go of, is seen too. (Streams that begin are looked at out of turn where
        // one is fed.)
        let abandoned: Vec<Ticket> = std::iter::from_fn(|| shared.abandoned.pop()).collect();
        let finished: Vec<_> = std::iter::from_fn(|| shared.finished.pop()).collect();
        let opened = self.take_in_openings();
        let mut took = opened || !abandoned.is_empty() || !finished.is_empty();
        for (priority, queue) in Priority::ALL.into_iter().zip(&shared.queues) {
            // No more than what is there now: producers must not keep the worker from its steps.
            let waiting = queue.len();
            if waiting > 0 {
                metrics::histogram!("auricle_queue_depth", "priority" => priority.name()).record(waiting as f64);
            }
            for _ in 0..waiting {
                let Some((ticket, input)) = queue.pop() else { break };
                took = true;
                self.receive(ticket, input);
            }
        }
        for (ticket, last) in finished {
            self.finish(ticket, last);
        }
        for ticket in abandoned {
            self.abandon(ticket);
        }
        took
    }

    /// Begins the streams that are to; whether there were any.
    fn take_in_openings(&mut self) -> bool {
        let shared = self.shared.clone();
        let openings = std::iter::from_fn(|| shared.opening.pop());
        openings.map(|opening| self.begin(opening)).count() > 0
    }

    fn begin(&mut self, Opening { ticket, kind, outputs }: Opening<M>) {
        let opened = catch_unwind(AssertUnwindSafe(|| self.machine.open(ticket.slot, kind)));
        match opened.unwrap_or_else(|_| Err(broken())) {
            Ok(()) => {
                let priority = ticket.priority;
                let open = Open { priority, outputs, ready: None, finishing: false, abandoned: false };
                self.slots[ticket.slot].stream = Some(open);
                self.open.push(ticket.slot);
            }
            Err(error) => {
                let _ = outputs.send(Err(error));
            }
        }
    }

    fn receive(&mut self, ticket: Ticket, input: M::Input) {
        if self.slots[ticket.slot].stream.is_none() {
            // It may have begun since that was looked at.
            self.take_in_openings();
        }
        let slot = &self.slots[ticket.slot];
        if slot.generation == ticket.generation && slot.stream.is_some() {
            self.guarded(ticket.slot, |machine| machine.take(ticket.slot, input));
        }
    }

    fn finish(&mut self, ticket: Ticket, last: Option<M::Input>) {
        let slot = &mut self.slots[ticket.slot];
        if slot.generation == ticket.generation
            && let Some(open) = &mut slot.stream
        {
            open.finishing = true;
            self.guarded(ticket.slot, |machine| {
                if let Some(last) = last {
                    machine.take(ticket.slot, last);
                }
                machine.finish(ticket.slot);
            });
        }
    }

    /// What the machine says about a slot; a panic ends the stream in it, and no other.
    fn guarded<R>(&mut self, slot: usize, ask: impl FnOnce(&mut M) -> R) -> Option<R> {
        let said = catch_unwind(AssertUnwindSafe(|| ask(&mut self.machine)));
        if said.is_err() {
            self.fail(slot, broken());
        }
        said.ok()
    }

    /// Ends the stream in a slot, which is told why.
    fn fail(&mut self, slot: usize, error: Error) {
        let Some(open) = &self.slots[slot].stream else { return };
        let _ = open.outputs.send(Err(error));
        let (abandoned, priority) = (open.abandoned, open.priority);
        self.end(slot);
        if abandoned {
            self.free(self.ticket(slot, priority));
        }
    }

    /// The user of a slot has let go of it: it goes to the next one, under a new generation.
    fn abandon(&mut self, ticket: Ticket) {
        let slot = &mut self.slots[ticket.slot];
        if slot.generation != ticket.generation {
            return;
        }
        match &mut slot.stream {
            // What it was told is still on its way out.
            Some(open) if open.finishing => open.abandoned = true,
            _ => {
                self.end(ticket.slot);
                self.free(ticket);
            }
        }
    }

    fn free(&mut self, ticket: Ticket) {
        let generation = ticket.generation + 1;
        self.slots[ticket.slot].generation = generation;
        let _ = self.shared.free[ticket.priority as usize].push(Ticket { generation, ..ticket });
    }

    /// The ticket of the stream that is in a slot.
    fn ticket(&self, slot: usize, priority: Priority) -> Ticket {
        Ticket { slot, priority, generation: self.slots[slot].generation }
    }

    /// The stream in a slot is over.
    fn end(&mut self, slot: usize) {
        if self.slots[slot].stream.take().is_some() {
            self.open.retain(|open| *open != slot);
            // The stream is gone already: there is nobody to tell of a panic.
            let _ = catch_unwind(AssertUnwindSafe(|| self.machine.close(slot)));
        }
    }

    /// Looks at what every stream is ready for; ends those that were told to finish and have nothing left.
    fn look(&mut self) {
        let now = Instant::now();
        for at in (0..self.open.len()).rev() {
            let index = self.open[at];
            let ask = |machine: &mut M| (machine.ready(index), machine.since(index));
            let Some((ready, since)) = self.guarded(index, ask) else { continue };
            let Some(open) = &mut self.slots[index].stream else { continue };
            // Once nobody can be told, nothing more is computed.
            let ready = ready.filter(|_| !(open.abandoned && open.outputs.is_closed()));
            match (ready, open.ready) {
                (Some(bucket), Some((before, _))) if before == bucket => {}
                (Some(bucket), _) => open.ready = Some((bucket, since.unwrap_or(now))),
                (None, _) if open.finishing => {
                    let (abandoned, priority) = (open.abandoned, open.priority);
                    self.end(index);
                    if abandoned {
                        self.free(self.ticket(index, priority));
                    }
                }
                (None, _) => open.ready = None,
            }
        }
    }

    /// Runs the step that is due soonest among those of the highest priority; false if nothing is ready.
    fn step(&mut self) -> bool {
        let mut first: Option<(Priority, Instant, M::Bucket)> = None;
        for slot in &self.open {
            let Some(open) = &self.slots[*slot].stream else { continue };
            let Some((bucket, since)) = open.ready else { continue };
            let due = since + self.machine.budget(bucket);
            if first.is_none_or(|(priority, soonest, _)| (open.priority, due) < (priority, soonest)) {
                first = Some((open.priority, due, bucket));
            }
        }
        let Some((_, due, bucket)) = first else { return false };
        let has_time = !self.machine.budget(bucket).is_zero();
        // All that fit share it, of whatever priority: those of the highest first.
        let mut rows: Vec<(Priority, Instant, usize)> = Vec::new();
        for slot in &self.open {
            if let Some(Open { priority, ready: Some((ready, since)), .. }) = &self.slots[*slot].stream
                && *ready == bucket
            {
                rows.push((*priority, *since, *slot));
            }
        }
        rows.sort_unstable();
        rows.truncate(self.machine.rows(bucket).max(1));
        let slots: Vec<usize> = rows.into_iter().map(|(_, _, slot)| slot).collect();
        let began = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| self.machine.step(bucket, &slots)));
        let name = self.machine.name(bucket);
        metrics::histogram!("auricle_step_rows", "step" => name).record(slots.len() as f64);
        metrics::histogram!("auricle_step_seconds", "step" => name).record(began.elapsed());
        if has_time && due < Instant::now() {
            metrics::counter!("auricle_steps_late_total", "step" => name).increment(1);
        }
        match done.unwrap_or_else(|_| Err(broken())) {
            Ok(outputs) => {
                for (slot, output) in slots.iter().zip(outputs) {
                    let Some(open) = &mut self.slots[*slot].stream else { continue };
                    open.ready = None;
                    if let Some(output) = output {
                        // Nobody may be listening any more: then the stream is let go of soon.
                        let _ = open.outputs.send(Ok(output));
                    }
                }
            }
            Err(error) => {
                metrics::counter!("auricle_steps_failed_total", "step" => name).increment(1);
                for slot in slots {
                    self.fail(slot, error.clone());
                }
            }
        }
        true
    }
}

/// What is told to those whose step panicked. (The panic itself is on standard error.)
fn broken() -> Error {
    Error::Device { device: "the worker".into(), reason: "a step broke off; this is a fault of Auricle".into() }
}
