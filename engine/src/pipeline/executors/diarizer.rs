//! Batch executor of diarized recordings: steps of equal lengths of all recordings are one.

use std::sync::Arc;
use std::time::Duration;

use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::models::sortformer::{Sortformer, SpeakerStream, StartedStep, Step};
use crate::scheduler::{BatchExecutor, SlotTable};

/// Most recordings of a step.
const MAX_ROWS_GPU: usize = 16;
/// On a CPU a step is one of so many blocks of the encoder, for one recording, since a live stream waits for its end.
const BLOCKS_CPU: usize = 4;

/// Options of a recording.
pub struct DiarizerRequest {
    pub model: Arc<Sortformer>,
}

/// The next mel frames of a recording, row-major.
pub struct DiarizerInput(pub Vec<f32>);

/// Logits of a recording's next mel frames, `[frames][speakers]`.
pub type Logits = Vec<f32>;

/// Slots with equal keys share a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DiarizerBatchKey {
    model: usize,
    /// Encoder frames of cache and queue.
    kept: usize,
    /// Encoder frames of look-back, chunk and look-ahead.
    heard: usize,
}

/// The recordings that a device diarizes.
#[derive(Default)]
pub struct DiarizerExecutor {
    slots: SlotTable<DiarizerSlot>,
    /// Of the slots.
    models: SlotTable<Arc<Sortformer>>,
}

struct DiarizerSlot {
    model: usize,
    stream: SpeakerStream,
    /// On a CPU: the step that goes on.
    started: Option<StartedStep>,
}

impl BatchExecutor for DiarizerExecutor {
    type Request = DiarizerRequest;
    type Input = DiarizerInput;
    type Output = Logits;
    type BatchKey = DiarizerBatchKey;

    fn open(&mut self, slot: usize, request: DiarizerRequest) -> Result<()> {
        let DiarizerRequest { model } = request;
        let stream = model.stream(model.config().offline());
        let model = self.models.find_or_insert(|known| Arc::ptr_eq(known, &model), || model.clone());
        self.slots.insert(slot, DiarizerSlot { model, stream, started: None });
        Ok(())
    }

    fn push(&mut self, slot: usize, DiarizerInput(mels): DiarizerInput) {
        if let Some(slot) = self.slots.find_mut(slot) {
            slot.stream.push(&mels);
        }
    }

    fn finish(&mut self, slot: usize) {
        if let Some(slot) = self.slots.find_mut(slot) {
            slot.stream.finish();
        }
    }

    fn close(&mut self, slot: usize) {
        self.slots.remove(slot);
        self.models.retain(|number, _| self.slots.iter().any(|(_, slot)| slot.model == number));
    }

    fn next_step(&self, slot: usize) -> Option<DiarizerBatchKey> {
        let slot = self.slots.find(slot)?;
        let step = slot.stream.next_step()?;
        Some(DiarizerBatchKey { model: slot.model, kept: step.kept(), heard: step.heard() })
    }

    fn budget(&self, _: DiarizerBatchKey) -> Duration {
        // Single steps have no deadline.
        Duration::from_secs(60)
    }

    fn max_batch(&self, key: DiarizerBatchKey) -> usize {
        let on_cpu = self.models.find(key.model).is_none_or(|model| is_cpu(&model.device()));
        if on_cpu { 1 } else { MAX_ROWS_GPU }
    }

    fn step_name(&self, _: DiarizerBatchKey) -> &'static str {
        "diarized chunk"
    }

    fn family(&self, key: DiarizerBatchKey) -> usize {
        key.model
    }

    fn rows(&self, key: DiarizerBatchKey, slots: &[usize], most: usize) -> Vec<(usize, usize)> {
        let most = most.min(self.max_batch(key)).max(1);
        slots.iter().take(most).map(|slot| (*slot, 1)).collect()
    }

    fn step(&mut self, key: DiarizerBatchKey, slots: &[usize], most: usize) -> Result<Vec<Option<Logits>>> {
        let Some(model) = self.models.find(key.model).cloned() else {
            return Err(Error::internal("a step of an unknown diarizer"));
        };
        let rows = self.rows(key, slots, most);
        let next = |slot: usize| self.slots.find(slot).and_then(|slot| Some((slot, slot.stream.next_step()?)));
        let streams: Option<Vec<_>> = rows.iter().map(|(slot, _)| next(*slot)).collect();
        let streams = streams.ok_or_else(|| Error::internal("a step of a recording that has none"))?;
        let steps: Vec<Step> = streams.iter().map(|(_, step)| *step).collect();
        let inputs = || -> Vec<_> {
            streams.iter().map(|(slot, step)| (slot.stream.kept(), slot.stream.heard(*step))).collect()
        };
        let mut outputs: Vec<Option<Logits>> = slots.iter().map(|_| None).collect();
        let scored = if is_cpu(&model.device())
            && let [(slot, _)] = rows[..]
        {
            let started = streams.first().and_then(|(slot, _)| slot.started.clone());
            let mut started = started.map_or_else(|| model.start(&inputs()), Ok)?;
            if !started.go_on(&model, BLOCKS_CPU) {
                self.slots.get_mut(slot)?.started = Some(started);
                return Ok(outputs);
            }
            started.finish(&model)?
        } else {
            model.step(&inputs())?
        };
        // Streams go on only now: a step that fails has changed nothing.
        for ((((slot, _), step), scored), output) in rows.into_iter().zip(steps).zip(&scored).zip(&mut outputs) {
            let slot = self.slots.get_mut(slot)?;
            slot.started = None;
            *output = Some(slot.stream.advance(step, scored));
        }
        Ok(outputs)
    }

    fn undo(&mut self, _: DiarizerBatchKey, _: &[usize]) -> bool {
        true
    }
}
