//! Batch executor of second passes: windows of live turns, read by an offline model. What would miss its deadline is not begun, by the
//! cost of earlier windows of its length; what nothing waits for is read while the device is idle.
//!
//! The windows have decoders of their own: those of recordings neither take their room nor slow their steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::transducer::{self, TransducerBatchKey, TransducerExecutor, TransducerInput, TransducerRequest};
use super::whisper::{self, WhisperBatchKey, WhisperExecutor, WhisperInput, WhisperRequest};
use crate::error::Result;
use crate::scheduler::{BatchExecutor, SlotTable};

/// Time that a window without a deadline may wait.
const PATIENCE: Duration = Duration::from_secs(2);
/// Readings of a device at most that wait for it to be idle.
const MOST_IDLE: usize = 4;
/// Weight of a window in what is known of the cost of its length: where it was cheaper than known, and where it was dearer.
const CHEAPER: f64 = 0.7;
const DEARER: f64 = 0.3;
/// What is known of a length that was not begun: it is tried again some time, as the device may have had a bad moment.
const FORGETTING: f64 = 0.95;

/// Opens the reading of a window.
pub struct SecondPassRequest {
    pub reader: ReaderRequest,
    pub urgency: Urgency,
    /// Length of the window, ms.
    pub window_ms: u64,
}

/// The request of an offline model's family.
pub enum ReaderRequest {
    Whisper(WhisperRequest),
    Transducer(TransducerRequest),
}

/// When a window is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// By a time, or not at all. The first pass has work of its own at another time, which no step may span.
    By {
        /// The text has to be there by this time.
        due: Instant,
        /// The first pass is to end the turn at this time.
        turn_end: Instant,
    },
    /// In any case, and soon.
    Needed,
    /// While the device is idle.
    Idle,
}

/// Input of a reading.
pub enum SecondPassInput {
    Whisper(WhisperInput),
    Transducer(TransducerInput),
}

/// Output of a step for a reading.
pub enum SecondPassOutput {
    Whisper(Vec<whisper::TranscribedWindow>),
    Transducer(transducer::StepOutput),
    /// The deadline is missed, or would be: nothing follows.
    Missed,
}

/// Readings whose steps have equal keys can share a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecondPassBatchKey {
    Whisper(WhisperBatchKey),
    Transducer(TransducerBatchKey),
    /// Gives a reading up.
    Miss,
}

/// The second passes of a device.
#[derive(Default)]
pub struct SecondPassExecutor {
    whisper: WhisperExecutor,
    transducer: TransducerExecutor,
    slots: SlotTable<ReadingSlot>,
    costs: Costs,
}

struct ReadingSlot {
    family: Family,
    urgency: Urgency,
    opened: Instant,
    length: WindowLength,
    /// Time of the steps so far; none before the first.
    spent: Option<Duration>,
    /// Text of it is out.
    delivered: bool,
    missed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Whisper,
    Transducer,
}

/// A model, by its address, and the length of a window, s.
type WindowLength = (usize, u64);

impl ReadingSlot {
    fn due(&self) -> Instant {
        match self.urgency {
            Urgency::By { due, .. } => due,
            Urgency::Needed => self.opened + PATIENCE,
            Urgency::Idle => self.opened + 10 * PATIENCE,
        }
    }
}

/// What windows cost, by their length.
#[derive(Debug, Default)]
struct Costs {
    /// Seconds of the first step.
    first_step: BTreeMap<WindowLength, f64>,
    /// Seconds of all steps.
    whole: BTreeMap<WindowLength, f64>,
}

fn learn(known: &mut BTreeMap<WindowLength, f64>, length: WindowLength, took: Duration) {
    let took = took.as_secs_f64();
    let known = known.entry(length).or_insert(took);
    *known += if took < *known { CHEAPER } else { DEARER } * (took - *known);
}

/// The cost of a length; zero before its first window, which is tried.
fn cost(known: &BTreeMap<WindowLength, f64>, length: WindowLength) -> Duration {
    Duration::from_secs_f64(known.get(&length).copied().unwrap_or_default())
}

impl Costs {
    fn forget_a_little(&mut self, length: WindowLength) {
        for known in [&mut self.first_step, &mut self.whole] {
            known.entry(length).and_modify(|cost| *cost *= FORGETTING);
        }
    }
}

impl SecondPassExecutor {
    /// The next step of a reading. `is_idle` tells whether nothing else waits for the device; `first_pass_waits` is the least time
    /// that steps of live streams can wait now.
    pub fn next_step_beside(
        &self,
        slot: usize,
        first_pass_waits: Option<Duration>,
        is_idle: impl Fn() -> bool,
    ) -> Option<SecondPassBatchKey> {
        let reading = self.slots.find(slot).filter(|reading| !reading.missed)?;
        let next = match reading.family {
            Family::Whisper => self.whisper.next_step(slot).map(SecondPassBatchKey::Whisper),
            Family::Transducer => self.transducer.next_step(slot).map(SecondPassBatchKey::Transducer),
        };
        // What is done is handed out whenever it was done: its reader knows the time.
        let next = next?;
        if matches!(next, SecondPassBatchKey::Whisper(WhisperBatchKey::Deliver)) {
            return Some(next);
        }
        let step = if reading.spent.is_none() { cost(&self.costs.first_step, reading.length) } else { Duration::ZERO };
        let fits = first_pass_waits.is_none_or(|time| step <= time);
        let may = match reading.urgency {
            Urgency::By { due, turn_end } => {
                let now = Instant::now();
                let begun = reading.spent.is_some();
                if now >= due || (!begun && now + self.waiting(reading) > due) {
                    return Some(SecondPassBatchKey::Miss);
                }
                fits && (now >= turn_end || now + step <= turn_end)
            }
            Urgency::Needed => true,
            Urgency::Idle => fits && is_idle(),
        };
        may.then_some(next)
    }

    /// True if a reading is to be done by a time.
    pub fn is_urgent(&self, slot: usize) -> bool {
        self.slots.find(slot).is_some_and(|reading| reading.urgency != Urgency::Idle && !reading.missed)
    }

    /// Time that this reading takes with those that are due before it.
    fn waiting(&self, of: &ReadingSlot) -> Duration {
        let left = |reading: &ReadingSlot| {
            cost(&self.costs.whole, reading.length).saturating_sub(reading.spent.unwrap_or_default())
        };
        let before = self
            .slots
            .iter()
            .map(|(_, reading)| reading)
            .filter(|reading| reading.urgency != Urgency::Idle && !reading.missed && reading.due() < of.due());
        before.map(left).sum::<Duration>() + left(of)
    }
}

impl BatchExecutor for SecondPassExecutor {
    type Request = SecondPassRequest;
    type Input = SecondPassInput;
    type Output = SecondPassOutput;
    type BatchKey = SecondPassBatchKey;

    fn open(&mut self, slot: usize, request: SecondPassRequest) -> Result<()> {
        let idle = self.slots.iter().filter(|(_, reading)| reading.urgency == Urgency::Idle).count();
        let (family, model) = match &request.reader {
            ReaderRequest::Whisper(request) => (Family::Whisper, Arc::as_ptr(&request.model).addr()),
            ReaderRequest::Transducer(request) => (Family::Transducer, Arc::as_ptr(&request.group.model).addr()),
        };
        match request.reader {
            ReaderRequest::Whisper(request) => self.whisper.open(slot, request)?,
            ReaderRequest::Transducer(request) => self.transducer.open(slot, request)?,
        }
        let reading = ReadingSlot {
            family,
            urgency: request.urgency,
            opened: Instant::now(),
            length: (model, request.window_ms.div_ceil(1000)),
            spent: None,
            delivered: false,
            missed: request.urgency == Urgency::Idle && idle >= MOST_IDLE,
        };
        self.slots.insert(slot, reading);
        Ok(())
    }

    fn push(&mut self, slot: usize, input: SecondPassInput) {
        match input {
            SecondPassInput::Whisper(input) => self.whisper.push(slot, input),
            SecondPassInput::Transducer(input) => self.transducer.push(slot, input),
        }
    }

    fn finish(&mut self, slot: usize) {
        match self.slots.find(slot).map(|reading| reading.family) {
            Some(Family::Whisper) => self.whisper.finish(slot),
            Some(Family::Transducer) => self.transducer.finish(slot),
            None => {}
        }
    }

    fn close(&mut self, slot: usize) {
        let Some(reading) = self.slots.remove(slot) else { return };
        match (reading.spent, reading.urgency) {
            // One that was broken off cost at least so much.
            (Some(spent), _) if reading.delivered || spent > cost(&self.costs.whole, reading.length) => {
                learn(&mut self.costs.whole, reading.length, spent);
            }
            (None, Urgency::By { .. } | Urgency::Idle) => self.costs.forget_a_little(reading.length),
            _ => {}
        }
        match reading.family {
            Family::Whisper => self.whisper.close(slot),
            Family::Transducer => self.transducer.close(slot),
        }
    }

    fn next_step(&self, slot: usize) -> Option<SecondPassBatchKey> {
        self.next_step_beside(slot, None, || true)
    }

    fn waiting_since(&self, slot: usize) -> Option<Instant> {
        self.slots.find(slot)?.due().checked_sub(PATIENCE)
    }

    fn budget(&self, key: SecondPassBatchKey) -> Duration {
        match key {
            SecondPassBatchKey::Whisper(key) if self.whisper.budget(key).is_zero() => Duration::ZERO,
            SecondPassBatchKey::Whisper(_) | SecondPassBatchKey::Transducer(_) => PATIENCE,
            SecondPassBatchKey::Miss => Duration::ZERO,
        }
    }

    fn max_batch(&self, key: SecondPassBatchKey) -> usize {
        match key {
            SecondPassBatchKey::Whisper(key) => self.whisper.max_batch(key),
            SecondPassBatchKey::Transducer(key) => self.transducer.max_batch(key),
            SecondPassBatchKey::Miss => usize::MAX,
        }
    }

    fn step_name(&self, key: SecondPassBatchKey) -> &'static str {
        match key {
            SecondPassBatchKey::Whisper(WhisperBatchKey::Encode(_)) => "turn window",
            SecondPassBatchKey::Whisper(WhisperBatchKey::Decode(_)) => "turn token",
            SecondPassBatchKey::Whisper(key) => self.whisper.step_name(key),
            SecondPassBatchKey::Transducer(_) => "turn",
            SecondPassBatchKey::Miss => "miss",
        }
    }

    fn family(&self, key: SecondPassBatchKey) -> usize {
        match key {
            SecondPassBatchKey::Whisper(key) => 2 * self.whisper.family(key),
            SecondPassBatchKey::Transducer(key) => 2 * self.transducer.family(key) + 1,
            SecondPassBatchKey::Miss => 0,
        }
    }

    fn rows(&self, key: SecondPassBatchKey, slots: &[usize], most: usize) -> Vec<(usize, usize)> {
        match key {
            SecondPassBatchKey::Whisper(key) => self.whisper.rows(key, slots, most),
            SecondPassBatchKey::Transducer(key) => self.transducer.rows(key, slots, most),
            SecondPassBatchKey::Miss => slots.iter().map(|slot| (*slot, 1)).collect(),
        }
    }

    fn step(&mut self, key: SecondPassBatchKey, slots: &[usize], most: usize) -> Result<Vec<Option<SecondPassOutput>>> {
        let rows = self.rows(key, slots, most);
        let began = Instant::now();
        let outputs: Vec<Option<SecondPassOutput>> = match key {
            SecondPassBatchKey::Whisper(key) => {
                let outputs = self.whisper.step(key, slots, most)?;
                outputs.into_iter().map(|output| output.map(SecondPassOutput::Whisper)).collect()
            }
            SecondPassBatchKey::Transducer(key) => {
                let outputs = self.transducer.step(key, slots, most)?;
                outputs.into_iter().map(|output| output.map(SecondPassOutput::Transducer)).collect()
            }
            SecondPassBatchKey::Miss => {
                for slot in slots {
                    self.slots.get_mut(*slot)?.missed = true;
                }
                return Ok(slots.iter().map(|_| Some(SecondPassOutput::Missed)).collect());
            }
        };
        let took = began.elapsed();
        for (slot, _) in rows.into_iter().filter(|(_, rows)| *rows > 0) {
            let Some(reading) = self.slots.find_mut(slot) else { continue };
            if reading.spent.is_none() {
                learn(&mut self.costs.first_step, reading.length, took);
            }
            reading.spent = Some(reading.spent.unwrap_or_default() + took);
        }
        for (slot, output) in slots.iter().zip(&outputs) {
            if let (Some(reading), Some(_)) = (self.slots.find_mut(*slot), output) {
                reading.delivered = true;
            }
        }
        Ok(outputs)
    }

    fn undo(&mut self, key: SecondPassBatchKey, slots: &[usize]) -> bool {
        match key {
            SecondPassBatchKey::Whisper(key) => self.whisper.undo(key, slots),
            SecondPassBatchKey::Transducer(key) => self.transducer.undo(key, slots),
            SecondPassBatchKey::Miss => true,
        }
    }
}
