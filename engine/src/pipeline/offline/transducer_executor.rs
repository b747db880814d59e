//! What the worker runs for recordings: encoder steps of streams, batches of windows, and greedy search over both. Whoever
//! searches with a beam is handed the frames instead: that is work for their own thread, beside the next step.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use burn::tensor::{Tensor, TensorData};

use crate::decoding::keyterms::Keyterms;
use crate::decoding::{Search, Token};
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::models::fastconformer::{Encoded, Stream};
use crate::pipeline::groups::{BatchGroup, BatchGroups};
use crate::scheduler::{BatchExecutor, SlotTable};

/// About how many encoder frames a step takes: long enough to fill the device, short enough that attention over frames it
/// may not see stays cheap, and that live streams wait for little.
const STEP_FRAMES: usize = 112;
/// TransducerExecutor in a step, or windows, on a GPU. One fills a CPU.
const MOST_ROWS: usize = 32;

/// What a recording is opened with.
pub struct TransducerRequest {
    pub group: BatchGroup,
    pub search: SearchPlacement,
}

/// Who finds the tokens.
pub enum SearchPlacement {
    /// The worker, greedily.
    OnWorker(Option<Arc<Keyterms>>),
    /// Whoever opened it.
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

/// A piece of a recording. A checkpoint that hears streams takes the first kind, one that hears utterances the second.
pub enum TransducerInput {
    /// Mel rows, `[rows, mels]`.
    Rows(Vec<f32>),
    /// The samples of a window.
    Window(Vec<f32>),
}

/// What a step gives a recording.
pub struct StepOutput {
    /// Of a stream, one; of windows, one each, in the order in which they came.
    pub results: Vec<StepResult>,
    /// Mel rows of a stream that were outputs with.
    pub rows: usize,
}

/// What was results in a step's part of a stream, or in a window.
pub enum StepResult {
    /// The new tokens.
    Tokens(Vec<Token>),
    /// The frames to search.
    Frames(Box<Encoded>),
}

/// What a slot is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransducerBatchKey {
    group: usize,
    /// Whether the worker searches.
    on_worker: bool,
    /// Mel rows of each stream; none for windows.
    rows: Option<usize>,
}

/// The recordings that a device works on.
#[derive(Default)]
pub struct TransducerExecutor {
    slots: SlotTable<TransducerSlot>,
    groups: BatchGroups,
}

struct TransducerSlot {
    group: usize,
    /// As many rows as a step takes.
    step_rows: usize,
    /// Rows of the shortest step; on a GPU steps are a power of two of these, so that shapes are few.
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
        /// The first row that is real: an utterance's first chunk begins with some that are not.
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

    /// Rows of its next step.
    fn next_rows(&self, factor: usize) -> Option<usize> {
        let PendingInput::Stream { rows, first, .. } = &self.pending else { return None };
        let there = rows.len() / self.mels;
        if there >= self.step_rows {
            return Some(self.step_rows);
        }
        let last = self.finishing && there > *first;
        last.then(|| match self.unit {
            None => there.next_multiple_of(factor),
            Some(unit) => (there.div_ceil(unit).next_power_of_two() * unit).min(self.step_rows),
        })
    }

    /// Takes up to `count` rows out, filled up with rows that are not real; which are real.
    fn take_rows(&mut self, count: usize, into: &mut Vec<f32>) -> Range<usize> {
        let PendingInput::Stream { rows, first, .. } = &mut self.pending else { return 0..0 };
        let real = (rows.len() / self.mels).min(count);
        into.extend(rows.drain(..real * self.mels));
        into.resize(into.len() + (count - real) * self.mels, 0.0);
        std::mem::take(first)..real
    }
}

impl TransducerExecutor {
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

    fn step_windows(&mut self, key: TransducerBatchKey, slots: &[usize]) -> Result<Vec<Option<StepOutput>>> {
        let Some(BatchGroup { model, .. }) = self.groups.get(key.group).cloned() else {
            return Err(Error::internal("a step of an unknown batch group"));
        };
        let most = self.max_batch(key);
        let mut slots = self.slots.several_mut(slots)?;
        // One of each in turn, so that no long recording keeps the others waiting.
        let mut batch: Vec<(usize, Vec<f32>)> = Vec::new();
        loop {
            let before = batch.len();
            for (at, slot) in slots.iter_mut().enumerate() {
                if batch.len() < most
                    && let PendingInput::Windows(windows) = &mut slot.pending
                {
                    batch.extend(windows.pop_front().map(|window| (at, window)));
                }
            }
            if batch.len() == before {
                break;
            }
        }
        let samples: Vec<&[f32]> = batch.iter().map(|(_, window)| window.as_slice()).collect();
        let (features, lengths) = model.preprocessor().utterances(&samples, model.device())?;
        let encoded = model.encode_utterances(features, &lengths)?;
        let results: Vec<StepResult> = if key.on_worker {
            let searches: Vec<Search> =
                batch.iter().map(|(at, _)| Search::Greedy(slots[*at].search.keyterms())).collect();
            model.search_utterances(&encoded, &searches)?.into_iter().map(StepResult::Tokens).collect()
        } else {
            (0..batch.len()).map(|row| StepResult::Frames(Box::new(encoded.row(row)))).collect()
        };
        let mut outputs: Vec<Vec<StepResult>> = slots.iter().map(|_| Vec::new()).collect();
        for ((at, _), results) in batch.into_iter().zip(results) {
            outputs[at].push(results);
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
        self.slots.insert(slot, TransducerSlot::new(request, group)?);
        Ok(())
    }

    fn push(&mut self, slot: usize, input: TransducerInput) {
        let Some(slot) = self.slots.find_mut(slot) else { return };
        match (&mut slot.pending, input) {
            (PendingInput::Stream { rows, .. }, TransducerInput::Rows(new)) => rows.extend(new),
            (PendingInput::Windows(windows), TransducerInput::Window(window)) => windows.push_back(window),
            (PendingInput::Stream { .. }, TransducerInput::Window(_))
            | (PendingInput::Windows(_), TransducerInput::Rows(_)) => {
                debug_assert!(false, "a recording is fed what its checkpoint hears");
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
        // Nobody waits for one step; the recording that has waited longest goes first.
        Duration::from_secs(60)
    }

    fn max_batch(&self, key: TransducerBatchKey) -> usize {
        let on_cpu = self.groups.get(key.group).is_none_or(|group| is_cpu(group.model.device()));
        if on_cpu { 1 } else { MOST_ROWS }
    }

    fn step_name(&self, _: TransducerBatchKey) -> &'static str {
        "recording"
    }

    fn step(&mut self, key: TransducerBatchKey, slots: &[usize]) -> Result<Vec<Option<StepOutput>>> {
        match key.rows {
            Some(rows) => self.step_streams(key, rows, slots),
            None => self.step_windows(key, slots),
        }
    }
}
