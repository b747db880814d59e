//! Batch executor of recordings for Qwen3-ASR checkpoints: the windows of all recordings are written as one batch, token by token; a new
//! window begins beside those that are under way. The words of a text that has ended get their times from the aligner, where there is one.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::shares::in_turn;
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::models::decoder::PageArena;
use crate::models::qwen3_asr::{Aligner, DecodingBatch, Prompt, Qwen3Asr, Written};
use crate::scheduler::{BatchExecutor, SlotTable};

/// Most windows that are under way: they share each pass over the weights.
const MAX_ROWS_CPU: usize = 4;
const MAX_ROWS_GPU: usize = 16;
/// Most windows that are encoded in a step.
const MAX_ENCODED_CPU: usize = 1;
const MAX_ENCODED_GPU: usize = 4;
/// Memory for the keys and values of all windows of a model, bytes, of which as much is taken as they need: 0.3 GB on a CPU for the
/// published sizes.
const KV_BYTES: usize = 8 << 30;

/// Options of a recording.
pub struct Qwen3AsrRequest {
    pub model: Arc<Qwen3Asr>,
    pub prompt: Arc<Prompt>,
}

/// Result of a window.
pub struct WrittenWindow {
    /// Number of the window, from 0, in the order of the input.
    pub window: usize,
    /// The text, or the reason that there is none.
    pub written: Result<Written>,
    /// The times of its words, ms from the start of the window, where they are known.
    pub times: Vec<Option<Range<u64>>>,
}

/// Next step of a slot. Slots with equal keys share a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Qwen3AsrBatchKey {
    /// Encodes windows for this model.
    Encode(usize),
    /// Writes one more token of each window.
    Decode(usize),
    /// Gives the words of a window their times.
    Align(usize),
}

/// The recordings that a device works on.
#[derive(Default)]
pub struct Qwen3AsrExecutor {
    slots: SlotTable<Slot>,
    /// Of the slots.
    models: SlotTable<ModelState>,
    /// The windows of the encoder's step that runs: their slots, numbers and samples.
    in_step: Vec<(usize, usize, Vec<f32>)>,
    /// A step has changed some of its windows.
    committing: bool,
}

struct ModelState {
    model: Arc<Qwen3Asr>,
    batch: DecodingBatch,
    /// Keys and values of a text that is aligned.
    aligned: Option<PageArena>,
}

struct Slot {
    prompt: Arc<Prompt>,
    /// Number of its model.
    model: usize,
    waiting: VecDeque<(usize, Vec<f32>)>,
    /// Number of windows that have arrived.
    arrived: usize,
    /// Number of windows under way.
    under_way: usize,
    /// The samples of these, for the aligner.
    samples: BTreeMap<usize, Vec<f32>>,
    /// Texts that wait for the times of their words.
    untimed: VecDeque<(usize, Vec<f32>, Written)>,
}

impl ModelState {
    fn limit(&self, on_cpu: usize, on_gpu: usize) -> usize {
        if is_cpu(self.model.device()) { on_cpu } else { on_gpu }
    }

    /// Windows that may begin.
    fn room(&self) -> usize {
        self.limit(MAX_ROWS_CPU, MAX_ROWS_GPU).saturating_sub(self.batch.len())
    }

    /// Windows that a step of the encoder takes at most.
    fn encoded(&self) -> usize {
        self.room().min(self.limit(MAX_ENCODED_CPU, MAX_ENCODED_GPU)).max(1)
    }
}

impl Qwen3AsrExecutor {
    fn state(&mut self, number: usize) -> Result<&mut ModelState> {
        let unknown = || Error::internal(format!("model {number} of a step is unknown"));
        self.models.find_mut(number).ok_or_else(unknown)
    }

    /// Encodes windows, one of each recording in turn, and adds them to the batch.
    fn encode(&mut self, number: usize, slots: &[usize], most: usize) -> Result<()> {
        for (index, count) in self.rows(Qwen3AsrBatchKey::Encode(number), slots, most) {
            if let Some(slot) = self.slots.find_mut(index) {
                let taken = slot.waiting.drain(..count);
                self.in_step.extend(taken.map(|(number, samples)| (index, number, samples)));
            }
        }
        let model = self.state(number)?.model.clone();
        // Kept until the step has gone well: undone, it puts them back.
        let encoded = self.in_step.iter().map(|(.., samples)| model.encode(samples)).collect::<Result<Vec<_>>>()?;
        self.committing = true;
        for ((index, window, samples), frames) in std::mem::take(&mut self.in_step).into_iter().zip(encoded) {
            let slot = self.slots.get_mut(index)?;
            slot.under_way += 1;
            if model.aligner().is_some() {
                slot.samples.insert(window, samples);
            }
            let prompt = slot.prompt.clone();
            self.state(number)?.batch.add(&model, (index, window), prompt, frames);
        }
        Ok(())
    }

    /// Writes a token of each window of the slots: the windows that have ended.
    fn decode(&mut self, number: usize, slots: &[usize]) -> Result<Vec<Option<Vec<WrittenWindow>>>> {
        let state = self.state(number)?;
        let ended = state.batch.step(&state.model, slots)?;
        self.committing = true;
        let mut outputs: Vec<Option<Vec<WrittenWindow>>> = slots.iter().map(|_| None).collect();
        for ((index, window), written) in ended {
            let slot = self.slots.get_mut(index)?;
            slot.under_way -= 1;
            let written = match (slot.samples.remove(&window), written) {
                (Some(samples), Ok(text)) if !text.tokens.is_empty() && Aligner::has(text.language) => {
                    slot.untimed.push_back((window, samples, text));
                    continue;
                }
                (_, written) => written,
            };
            if let Some(at) = slots.iter().position(|slot| *slot == index) {
                outputs[at].get_or_insert_default().push(WrittenWindow { window, written, times: Vec::new() });
            }
        }
        Ok(outputs)
    }

    /// Gives the words of a text of the first slot their times.
    fn align(&mut self, number: usize, slots: &[usize]) -> Result<Vec<Option<Vec<WrittenWindow>>>> {
        let index = slots.first().copied().ok_or_else(|| Error::internal("a step without a slot"))?;
        let model = self.state(number)?.model.clone();
        let (slot, state) = (self.slots.get_mut(index)?, self.models.find_mut(number));
        let (Some((_, samples, written)), Some(aligner)) = (slot.untimed.front(), model.aligner()) else {
            return Err(Error::internal("a step without a text to align"));
        };
        let words = written.words(model.decoder().tokenizer());
        let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let Some(arena) = state.and_then(|state| state.aligned.as_mut()) else {
            return Err(Error::internal("an aligner without memory"));
        };
        let times = aligner.align(arena, samples, &words)?;
        let done = slot.untimed.pop_front();
        let window = |(window, _, written)| vec![WrittenWindow { window, written: Ok(written), times }];
        let mut outputs: Vec<Option<Vec<WrittenWindow>>> = slots.iter().map(|_| None).collect();
        outputs[0] = done.map(window);
        Ok(outputs)
    }
}

impl BatchExecutor for Qwen3AsrExecutor {
    type Request = Qwen3AsrRequest;
    /// The samples of a window.
    type Input = Vec<f32>;
    type Output = Vec<WrittenWindow>;
    type BatchKey = Qwen3AsrBatchKey;

    fn open(&mut self, slot: usize, request: Qwen3AsrRequest) -> Result<()> {
        let Qwen3AsrRequest { model, prompt } = request;
        let made = || ModelState {
            batch: DecodingBatch::new(&model, KV_BYTES),
            aligned: model.aligner().map(|aligner| aligner.model().decoder.arena(KV_BYTES)),
            model: model.clone(),
        };
        let model = self.models.find_or_insert(|known| Arc::ptr_eq(&known.model, &model), made);
        let (waiting, samples, untimed) = (VecDeque::new(), BTreeMap::new(), VecDeque::new());
        self.slots.insert(slot, Slot { prompt, model, waiting, arrived: 0, under_way: 0, samples, untimed });
        Ok(())
    }

    fn push(&mut self, slot: usize, samples: Vec<f32>) {
        if let Some(slot) = self.slots.find_mut(slot) {
            slot.waiting.push_back((slot.arrived, samples));
            slot.arrived += 1;
        }
    }

    fn finish(&mut self, _: usize) {}

    fn close(&mut self, index: usize) {
        let Some(slot) = self.slots.remove(index) else { return };
        if let Some(state) = self.models.find_mut(slot.model) {
            state.batch.forget(index);
        }
        self.models.retain(|number, _| self.slots.iter().any(|(_, slot)| slot.model == number));
    }

    fn next_step(&self, index: usize) -> Option<Qwen3AsrBatchKey> {
        let slot = self.slots.find(index)?;
        let has_room = self.models.find(slot.model)?.room() > 0;
        match () {
            () if !slot.waiting.is_empty() && has_room => Some(Qwen3AsrBatchKey::Encode(slot.model)),
            () if !slot.untimed.is_empty() => Some(Qwen3AsrBatchKey::Align(slot.model)),
            () if slot.under_way > 0 => Some(Qwen3AsrBatchKey::Decode(slot.model)),
            () => None,
        }
    }

    fn budget(&self, key: Qwen3AsrBatchKey) -> Duration {
        match key {
            // Encoding goes first, to keep the batch full.
            Qwen3AsrBatchKey::Encode(_) => Duration::from_secs(1),
            Qwen3AsrBatchKey::Decode(_) | Qwen3AsrBatchKey::Align(_) => Duration::from_secs(2),
        }
    }

    fn max_batch(&self, key: Qwen3AsrBatchKey) -> usize {
        match key {
            Qwen3AsrBatchKey::Encode(number) => self.models.find(number).map_or(1, ModelState::encoded),
            Qwen3AsrBatchKey::Decode(_) => usize::MAX,
            Qwen3AsrBatchKey::Align(_) => 1,
        }
    }

    fn step_name(&self, key: Qwen3AsrBatchKey) -> &'static str {
        match key {
            Qwen3AsrBatchKey::Encode(_) => "window",
            Qwen3AsrBatchKey::Decode(_) => "token",
            Qwen3AsrBatchKey::Align(_) => "word times",
        }
    }

    fn family(&self, key: Qwen3AsrBatchKey) -> usize {
        match key {
            Qwen3AsrBatchKey::Encode(number) | Qwen3AsrBatchKey::Decode(number) | Qwen3AsrBatchKey::Align(number) => {
                number
            }
        }
    }

    fn rows(&self, key: Qwen3AsrBatchKey, slots: &[usize], most: usize) -> Vec<(usize, usize)> {
        let count = |of: &dyn Fn(&Slot) -> usize| -> Vec<usize> {
            slots.iter().map(|slot| self.slots.find(*slot).map_or(0, of)).collect()
        };
        let counts = match key {
            Qwen3AsrBatchKey::Encode(number) => {
                let most = most.min(self.models.find(number).map_or(1, ModelState::encoded));
                in_turn(&count(&|slot| slot.waiting.len()), most)
            }
            Qwen3AsrBatchKey::Decode(_) => count(&|slot| slot.under_way),
            Qwen3AsrBatchKey::Align(_) => count(&|slot| slot.untimed.len().min(1)),
        };
        slots.iter().copied().zip(counts).collect()
    }

    fn step(&mut self, key: Qwen3AsrBatchKey, slots: &[usize], most: usize) -> Result<Vec<Option<Vec<WrittenWindow>>>> {
        self.in_step.clear();
        self.committing = false;
        let outputs = match key {
            Qwen3AsrBatchKey::Encode(number) => {
                self.encode(number, slots, most)?;
                slots.iter().map(|_| None).collect()
            }
            Qwen3AsrBatchKey::Decode(number) => self.decode(number, slots)?,
            Qwen3AsrBatchKey::Align(number) => self.align(number, slots)?,
        };
        self.committing = false;
        Ok(outputs)
    }

    /// A step changes windows only after everything is computed.
    fn undo(&mut self, _: Qwen3AsrBatchKey, _: &[usize]) -> bool {
        for (index, number, samples) in self.in_step.drain(..).rev() {
            if let Some(slot) = self.slots.find_mut(index) {
                slot.waiting.push_front((number, samples));
            }
        }
        !self.committing
    }
}
