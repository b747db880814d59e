//! Batch executor of recordings for FastConformer checkpoints: encoder steps of streams, batches of windows, and greedy
//! search over both. For beam search the caller gets the frames and searches on its own thread, parallel to the next
//! step.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use burn::tensor::{Tensor, TensorData};

use super::groups::{BatchGroup, BatchGroups};
use super::shares::{by_length, in_turn};
use crate::audio::SAMPLE_RATE;
use crate::decoding::keyterms::Keyterms;
use crate::decoding::{Search, Token};
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::models::fastconformer::{Encoded, Stream};
use crate::scheduler::{BatchExecutor, SlotTable};

/// Approximate number of encoder frames of a step: large enough to fill the device, small enough that attention over
/// masked frames stays cheap and live streams wait only a short time.
const STEP_FRAMES: usize = 112;
/// Most streams or windows of a step on a GPU. One is enough to fill a CPU.
const MAX_ROWS: usize = 32;

/// Samples of padding that cost as much as the launches of another batch: 20 s. On a large card these take the time of 30 s of audio, on
/// smaller ones that of less.
const GROUP_SAMPLES: usize = 20 * SAMPLE_RATE as usize;

/// Options of a recording.
pub struct TransducerRequest {
    pub group: BatchGroup,
    pub search: SearchPlacement,
}

/// Thread that runs the search.
pub enum SearchPlacement {
    /// The worker, by greedy search.
    OnWorker(Option<Arc<Keyterms>>),
    /// The thread that opened the recording.
    OnCaller,
}

impl SearchPlacement {
    fn keyterms(&self) -> Option<&Keyterms> {
        match self {
            Self::OnWorker(keyterms) => keyterms.as_deref(),
            Self::OnCaller => None,
        }
    }
}

/// A piece of a recording. Streaming checkpoints take rows, whole-utterance checkpoints take windows.
pub enum TransducerInput {
    /// Mel rows, `[rows, mels]`.
    Rows(Vec<f32>),
    /// The samples of a window.
    Window(Vec<f32>),
}

/// Output of a step for a recording.
pub struct StepOutput {
    /// One result for a stream, or one for each window, in the order of the input.
    pub results: Vec<StepResult>,
    /// Processed mel rows of a stream.
    pub rows: usize,
}

/// Result for a stream or a window.
pub enum StepResult {
    /// The new tokens.
    Tokens(Vec<Token>),
    /// The frames to search.
    Frames(Box<Encoded>),
}

/// Slots with equal keys share a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransducerBatchKey {
    group: usize,
    /// True if the worker runs the search.
    on_worker: bool,
    /// Mel rows of each stream; none for windows.
    rows: Option<usize>,
}

/// The recordings that a device works on.
#[derive(Default)]
pub struct TransducerExecutor {
    slots: SlotTable<TransducerSlot>,
    groups: BatchGroups,
    /// The windows of the step that runs: their slots, the places of these in the step, and the samples.
    in_step: Vec<(usize, usize, Vec<f32>)>,
}

struct TransducerSlot {
    group: usize,
    /// Mel rows of a full step.
    step_rows: usize,
    /// On a GPU, rows of the shortest step: steps are a power of two times this, so that there are few shapes.
    unit: Option<usize>,
    mels: usize,
    search: SearchPlacement,
    pending: PendingInput,
    finishing: bool,
}

enum PendingInput {
    Stream {
        stream: Box<Stream>,
        rows: Vec<f32>,
        /// The first row after the padding with which an utterance's first chunk begins.
        first: usize,
    },
    Windows(VecDeque<Vec<f32>>),
}

impl TransducerSlot {
    fn new(request: TransducerRequest, group: usize) -> Result<Self> {
        let BatchGroup { model, look_ahead, language } = request.group;
        let config = &model.config().encoder;
        let chunk = (look_ahead + 1) * config.subsampling_factor;
        let pending = if model.config().class.is_streaming() {
            let first = model.encoder().lead();
            let rows = vec![0.0; first * config.num_mel_bins];
            PendingInput::Stream { stream: Box::new(model.stream(1, look_ahead, language)?), rows, first }
        } else {
            PendingInput::Windows(VecDeque::new())
        };
        Ok(Self {
            group,
            step_rows: (STEP_FRAMES / (look_ahead + 1)).max(1) * chunk,
            unit: (!is_cpu(model.device())).then_some(chunk),
            mels: config.num_mel_bins,
            search: request.search,
            pending,
            finishing: false,
        })
    }

    fn on_worker(&self) -> bool {
        matches!(self.search, SearchPlacement::OnWorker(_))
    }

    /// Rows of the next step; none if too few have arrived.
    fn next_rows(&self, factor: usize) -> Option<usize> {
        let PendingInput::Stream { rows, first, .. } = &self.pending else { return None };
        let available = rows.len() / self.mels;
        // On a CPU the last step may take a quarter more: a step of a few frames would read all weights for them.
        let longest = self.step_rows + if self.finishing && self.unit.is_none() { self.step_rows / 4 } else { 0 };
        if available > longest || available >= self.step_rows && !self.finishing {
            return Some(self.step_rows);
        }
        let last = self.finishing && available > *first;
        last.then(|| match self.unit {
            None => available.next_multiple_of(factor),
            Some(unit) => (available.div_ceil(unit).next_power_of_two() * unit).min(self.step_rows),
        })
    }

    /// Moves up to `count` rows to `into`, padded to `count`; returns the range of rows that are not padding.
    fn take_rows(&mut self, count: usize, into: &mut Vec<f32>) -> Range<usize> {
        let PendingInput::Stream { rows, first, .. } = &mut self.pending else { return 0..0 };
        let real = (rows.len() / self.mels).min(count);
        into.extend(rows.drain(..real * self.mels));
        into.resize(into.len() + (count - real) * self.mels, 0.0);
        std::mem::take(first)..real
    }
}

impl TransducerExecutor {
    fn forget_unused_groups(&mut self) {
        self.groups.keep_used(|number| self.slots.iter().any(|(_, slot)| slot.group == number));
    }

    fn step_streams(
        &mut self,
        key: TransducerBatchKey,
        rows: usize,
        slots: &[usize],
    ) -> Result<Vec<Option<StepOutput>>> {
        let Some(BatchGroup { model, .. }) = self.groups.get(key.group).cloned() else {
            return Err(Error::internal("a step of an unknown batch group"));
        };
        let mut slots = self.slots.several_mut(slots)?;
        let (mut mel, mut valid) = (Vec::new(), Vec::with_capacity(slots.len()));
        for slot in &mut slots {
            valid.push(slot.take_rows(rows, &mut mel));
        }
        let shape = [slots.len(), rows, model.config().encoder.num_mel_bins];
        let features = Tensor::from_data(TensorData::new(mel, shape), model.device());
        let mut streams = Vec::with_capacity(slots.len());
        let mut keyterms = Vec::with_capacity(slots.len());
        for TransducerSlot { pending, search, .. } in slots {
            let PendingInput::Stream { stream, .. } = pending else {
                return Err(Error::internal("a step of frames for a recording in windows"));
            };
            streams.push(&mut **stream);
            keyterms.push(search.keyterms());
        }
        let encoded = model.encode(&mut streams, features, &valid)?;
        let results: Vec<StepResult> = if key.on_worker {
            model.search_together(&mut streams, &encoded, &keyterms)?.into_iter().map(StepResult::Tokens).collect()
        } else {
            (0..valid.len()).map(|row| StepResult::Frames(Box::new(encoded.row(row)))).collect()
        };
        let outputs = |(results, valid): (StepResult, Range<usize>)| {
            Some(StepOutput { results: vec![results], rows: valid.len() })
        };
        Ok(results.into_iter().zip(valid).map(outputs).collect())
    }

    fn step_windows(
        &mut self,
        key: TransducerBatchKey,
        slots: &[usize],
        most: usize,
    ) -> Result<Vec<Option<StepOutput>>> {
        let Some(BatchGroup { model, language, .. }) = self.groups.get(key.group).cloned() else {
            return Err(Error::internal("a step of an unknown batch group"));
        };
        let counts: Vec<usize> = self.rows(key, slots, most).into_iter().map(|(_, count)| count).collect();
        let numbers = slots;
        let mut slots = self.slots.several_mut(slots)?;
        // Kept until the step has gone well: undone, it puts them back.
        let batch = &mut self.in_step;
        for (at, (slot, count)) in slots.iter_mut().zip(counts).enumerate() {
            if let PendingInput::Windows(windows) = &mut slot.pending {
                batch.extend(windows.drain(..count).map(|window| (numbers[at], at, window)));
            }
        }
        let lengths: Vec<usize> = batch.iter().map(|(.., window)| window.len()).collect();
        let mut results: Vec<Option<StepResult>> = batch.iter().map(|_| None).collect();
        for group in by_length(&lengths, GROUP_SAMPLES) {
            let samples: Vec<&[f32]> = group.iter().map(|window| batch[*window].2.as_slice()).collect();
            let (features, lengths) = model.preprocessor().utterances(&samples, model.device())?;
            let encoded = model.encode_utterances(features, &lengths, language)?;
            let found: Vec<StepResult> = if key.on_worker {
                let keyterms = |window: &usize| Search::Greedy(slots[batch[*window].1].search.keyterms());
                let searches: Vec<Search> = group.iter().map(keyterms).collect();
                model.search_utterances(&encoded, &searches)?.into_iter().map(StepResult::Tokens).collect()
            } else {
                (0..group.len()).map(|row| StepResult::Frames(Box::new(encoded.row(row)))).collect()
            };
            group.into_iter().zip(found).for_each(|(window, found)| results[window] = Some(found));
        }
        let mut outputs: Vec<Vec<StepResult>> = slots.iter().map(|_| Vec::new()).collect();
        for ((_, at, _), results) in batch.drain(..).zip(results) {
            outputs[at].extend(results);
        }
        Ok(outputs
            .into_iter()
            .map(|results| (!results.is_empty()).then_some(StepOutput { results, rows: 0 }))
            .collect())
    }
}

impl BatchExecutor for TransducerExecutor {
    type Request = TransducerRequest;
    type Input = TransducerInput;
    type Output = StepOutput;
    type BatchKey = TransducerBatchKey;

    fn open(&mut self, slot: usize, request: TransducerRequest) -> Result<()> {
        let group = self.groups.number(&request.group);
        let opened = TransducerSlot::new(request, group).map(|opened| self.slots.insert(slot, opened));
        self.forget_unused_groups();
        opened
    }

    fn push(&mut self, slot: usize, input: TransducerInput) {
        let Some(slot) = self.slots.find_mut(slot) else { return };
        match (&mut slot.pending, input) {
            (PendingInput::Stream { rows, .. }, TransducerInput::Rows(new)) => rows.extend(new),
            (PendingInput::Windows(windows), TransducerInput::Window(window)) => windows.push_back(window),
            (PendingInput::Stream { .. }, TransducerInput::Window(_))
            | (PendingInput::Windows(_), TransducerInput::Rows(_)) => {
                debug_assert!(false, "input of the wrong kind for the checkpoint");
            }
        }
    }

    fn finish(&mut self, slot: usize) {
        if let Some(slot) = self.slots.find_mut(slot) {
            slot.finishing = true;
        }
    }

    fn close(&mut self, slot: usize) {
        self.slots.remove(slot);
        self.forget_unused_groups();
    }

    fn next_step(&self, slot: usize) -> Option<TransducerBatchKey> {
        let slot = self.slots.find(slot)?;
        let rows = match &slot.pending {
            PendingInput::Windows(windows) if windows.is_empty() => return None,
            PendingInput::Windows(_) => None,
            PendingInput::Stream { .. } => {
                let model = &self.groups.get(slot.group)?.model;
                Some(slot.next_rows(model.config().encoder.subsampling_factor)?)
            }
        };
        Some(TransducerBatchKey { group: slot.group, on_worker: slot.on_worker(), rows })
    }

    fn budget(&self, _: TransducerBatchKey) -> Duration {
        // Single steps have no deadline; the recording with the longest wait goes first.
        Duration::from_secs(60)
    }

    fn max_batch(&self, key: TransducerBatchKey) -> usize {
        let on_cpu = self.groups.get(key.group).is_none_or(|group| is_cpu(group.model.device()));
        if on_cpu { 1 } else { MAX_ROWS }
    }

    fn step_name(&self, _: TransducerBatchKey) -> &'static str {
        "recording"
    }

    fn family(&self, key: TransducerBatchKey) -> usize {
        key.group
    }

    fn rows(&self, _: TransducerBatchKey, slots: &[usize], most: usize) -> Vec<(usize, usize)> {
        let windows = |slot: &usize| match self.slots.find(*slot).map(|slot| &slot.pending) {
            Some(PendingInput::Windows(windows)) => windows.len(),
            _ => 1,
        };
        let counts = in_turn(&slots.iter().map(windows).collect::<Vec<_>>(), most);
        slots.iter().copied().zip(counts).collect()
    }

    fn step(&mut self, key: TransducerBatchKey, slots: &[usize], most: usize) -> Result<Vec<Option<StepOutput>>> {
        self.in_step.clear();
        match key.rows {
            Some(rows) => self.step_streams(key, rows, slots),
            None => self.step_windows(key, slots, most),
        }
    }

    fn undo(&mut self, key: TransducerBatchKey, _: &[usize]) -> bool {
        for (slot, _, window) in self.in_step.drain(..).rev() {
            if let Some(PendingInput::Windows(windows)) = self.slots.find_mut(slot).map(|slot| &mut slot.pending) {
                windows.push_front(window);
            }
        }
        // The caches of a stream have moved on.
        key.rows.is_none()
    }
}
