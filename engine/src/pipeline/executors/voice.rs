//! Batch executor of speaker embeddings: windows of one length of all recordings share a step.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use burn::tensor::{Tensor, TensorData};

use super::shares::in_turn;
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::models::voice::VoiceEmbedder;
use crate::scheduler::{BatchExecutor, SlotTable};

/// Most windows of a step: enough to fill the device, few enough that a live stream waits only a short time.
const MAX_ROWS_CPU: usize = 8;
const MAX_ROWS_GPU: usize = 64;

/// Options of a recording.
pub struct VoiceRequest {
    pub model: Arc<VoiceEmbedder>,
}

/// A window: mel rows, `[frames, mels]`.
pub struct VoiceInput(pub Vec<f32>);

/// Embeddings of a recording's next windows, in the order of the input, each of unit length.
pub type Embeddings = Vec<Vec<f32>>;

/// Slots with equal keys share a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VoiceBatchKey {
    model: usize,
    /// Values of a window.
    values: usize,
}

/// The recordings whose speakers a device tells apart.
#[derive(Default)]
pub struct VoiceExecutor {
    slots: SlotTable<VoiceSlot>,
    /// Of the slots.
    models: SlotTable<Arc<VoiceEmbedder>>,
    /// The windows of the step that runs: their slots, the places of these in the step, and the mel rows.
    in_step: Vec<(usize, usize, Vec<f32>)>,
}

struct VoiceSlot {
    model: usize,
    windows: VecDeque<Vec<f32>>,
}

impl VoiceSlot {
    /// Windows at the front whose length is that of the first.
    fn alike(&self) -> usize {
        let length = self.windows.front().map(Vec::len);
        self.windows.iter().take_while(|window| Some(window.len()) == length).count()
    }
}

impl BatchExecutor for VoiceExecutor {
    type Request = VoiceRequest;
    type Input = VoiceInput;
    type Output = Embeddings;
    type BatchKey = VoiceBatchKey;

    fn open(&mut self, slot: usize, request: VoiceRequest) -> Result<()> {
        let VoiceRequest { model } = request;
        let model = self.models.find_or_insert(|known| Arc::ptr_eq(known, &model), || model.clone());
        self.slots.insert(slot, VoiceSlot { model, windows: VecDeque::new() });
        Ok(())
    }

    fn push(&mut self, slot: usize, VoiceInput(window): VoiceInput) {
        if let Some(slot) = self.slots.find_mut(slot) {
            slot.windows.push_back(window);
        }
    }

    fn finish(&mut self, _: usize) {}

    fn close(&mut self, slot: usize) {
        self.slots.remove(slot);
        self.models.retain(|number, _| self.slots.iter().any(|(_, slot)| slot.model == number));
    }

    fn next_step(&self, slot: usize) -> Option<VoiceBatchKey> {
        let slot = self.slots.find(slot)?;
        slot.windows.front().map(|window| VoiceBatchKey { model: slot.model, values: window.len() })
    }

    fn budget(&self, _: VoiceBatchKey) -> Duration {
        // Single steps have no deadline.
        Duration::from_secs(60)
    }

    fn max_batch(&self, key: VoiceBatchKey) -> usize {
        let on_cpu = self.models.find(key.model).is_none_or(|model| is_cpu(&model.device()));
        if on_cpu { MAX_ROWS_CPU } else { MAX_ROWS_GPU }
    }

    fn step_name(&self, _: VoiceBatchKey) -> &'static str {
        "voices"
    }

    fn family(&self, key: VoiceBatchKey) -> usize {
        key.model
    }

    fn rows(&self, key: VoiceBatchKey, slots: &[usize], most: usize) -> Vec<(usize, usize)> {
        let most = most.min(self.max_batch(key));
        let alike = |slot: &usize| self.slots.find(*slot).map_or(0, VoiceSlot::alike);
        let counts = in_turn(&slots.iter().map(alike).collect::<Vec<_>>(), most);
        slots.iter().copied().zip(counts).collect()
    }

    fn step(&mut self, key: VoiceBatchKey, slots: &[usize], most: usize) -> Result<Vec<Option<Embeddings>>> {
        self.in_step.clear();
        let Some(model) = self.models.find(key.model).cloned() else {
            return Err(Error::internal("a step of an unknown embedding"));
        };
        for (at, (index, count)) in self.rows(key, slots, most).into_iter().enumerate() {
            if let Some(slot) = self.slots.find_mut(index) {
                // Kept until the step has gone well: undone, it puts them back.
                self.in_step.extend(slot.windows.drain(..count).map(|window| (index, at, window)));
            }
        }
        let rows = self.in_step.len();
        let values: Vec<f32> = self.in_step.iter().flat_map(|(.., window)| window.iter().copied()).collect();
        let shape = [rows, key.values / model.mels(), model.mels()];
        let embedded = model.embed(Tensor::from_data(TensorData::new(values, shape), &model.device()))?;
        let mut outputs: Vec<Option<Embeddings>> = slots.iter().map(|_| None).collect();
        for ((_, at, _), embedding) in self.in_step.drain(..).zip(embedded.chunks_exact(model.width())) {
            outputs[at].get_or_insert_default().push(embedding.to_vec());
        }
        Ok(outputs)
    }

    fn undo(&mut self, _: VoiceBatchKey, _: &[usize]) -> bool {
        for (index, _, window) in self.in_step.drain(..).rev() {
            if let Some(slot) = self.slots.find_mut(index) {
                slot.windows.push_front(window);
            }
        }
        true
    }
}
