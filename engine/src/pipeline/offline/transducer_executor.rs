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
use crate::pipeline::groups::{Group, Groups};
use crate::scheduler::Machine;

/// About how many encoder frames a step takes: long enough to fill the device, short enough that attention over frames it
/// may not see stays cheap, and that live streams wait for little.
const STEP_FRAMES: usize = 112;
/// Recordings in a step, or windows, on a GPU. One fills a CPU.
const MOST_ROWS: usize = 32;

/// What a recording is opened with.
pub struct Kind {
    pub group: Group,
    pub search: Searched,
}

/// Who finds the tokens.
pub enum Searched {
    /// The worker, greedily.
    Here(Option<Arc<Keyterms>>),
    /// Whoever opened it.
    Outside,
}

impl Searched {
    fn keyterms(&self) -> Option<&Keyterms> {
        match self {
            Self::Here(keyterms) => keyterms.as_deref(),
            Self::Outside => None,
        }
    }
}

/// A piece of a recording. A checkpoint that hears streams takes the first kind, one that hears utterances the second.
pub enum Input {
    /// Mel rows, `[rows, mels]`.
    Rows(Vec<f32>),
    /// The samples of a window.
    Window(Vec<f32>),
}

/// What a step gives a recording.
pub struct Dealt {
    /// Of a stream, one; of windows, one each, in the order in which they came.
    pub found: Vec<Found>,
    /// Mel rows of a stream that were dealt with.
    pub rows: usize,
}

/// What was found in a step's part of a stream, or in a window.
pub enum Found {
    /// The new tokens.
    Tokens(Vec<Token>),
    /// The frames to search.
    Frames(Box<Encoded>),
}

/// What a slot is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    group: usize,
    /// Whether the worker searches.
    here: bool,
    /// Mel rows of each stream; none for windows.
    rows: Option<usize>,
}

/// The recordings that a device works on.
#[derive(Default)]
pub struct Recordings {
    slots: Vec<Option<Slot>>,
    groups: Groups,
}

struct Slot {
    group: usize,
    /// As many rows as a step takes.
    step_rows: usize,
    /// Rows of the shortest step; on a GPU steps are a power of two of these, so that shapes are few.
    unit: Option<usize>,
    mels: usize,
    search: Searched,
    reading: Reading,
    finishing: bool,
}

enum Reading {
    Stream {
        stream: Box<Stream>,
        rows: Vec<f32>,
        /// The first row that is real: an utterance's first chunk begins with some that are not.
        first: usize,
    },
    Windows(VecDeque<Vec<f32>>),
}

impl Slot {
    fn new(kind: Kind, group: usize) -> Result<Self> {
        let Group { model, look_ahead, language } = kind.group;
        let config = &model.config().encoder;
        let chunk = (look_ahead + 1) * config.subsampling_factor;
        let reading = if model.config().class.is_streaming() {
            let first = model.encoder().lead();
            let rows = vec![0.0; first * config.num_mel_bins];
            Reading::Stream { stream: Box::new(model.stream(1, look_ahead, language)?), rows, first }
        } else {
            Reading::Windows(VecDeque::new())
        };
        Ok(Self {
            group,
            step_rows: (STEP_FRAMES / (look_ahead + 1)).max(1) * chunk,
            unit: (!is_cpu(model.device())).then_some(chunk),
            mels: config.num_mel_bins,
            search: kind.search,
            reading,
            finishing: false,
        })
    }

    fn here(&self) -> bool {
        matches!(self.search, Searched::Here(_))
    }

    /// Rows of its next step.
    fn next_rows(&self, factor: usize) -> Option<usize> {
        let Reading::Stream { rows, first, .. } = &self.reading else { return None };
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
        let Reading::Stream { rows, first, .. } = &mut self.reading else { return 0..0 };
        let real = (rows.len() / self.mels).min(count);
        into.extend(rows.drain(..real * self.mels));
        into.resize(into.len() + (count - real) * self.mels, 0.0);
        std::mem::take(first)..real
    }
}

impl Recordings {
    fn slot(&mut self, slot: usize) -> Result<&mut Slot> {
        self.slots.get_mut(slot).and_then(Option::as_mut).ok_or(Error::Canceled)
    }

    /// The slots of a step, in the order of their numbers in `wanted`.
    fn several(&mut self, wanted: &[usize]) -> Result<Vec<&mut Slot>> {
        let mut found: Vec<Option<&mut Slot>> = wanted.iter().map(|_| None).collect();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if let Some(at) = wanted.iter().position(|wanted| *wanted == number) {
                found[at] = slot.as_mut();
            }
        }
        found.into_iter().collect::<Option<_>>().ok_or(Error::Canceled)
    }

    fn step_streams(&mut self, bucket: Bucket, rows: usize, slots: &[usize]) -> Result<Vec<Option<Dealt>>> {
        let Some(Group { model, .. }) = self.groups.get(bucket.group).cloned() else {
            return Err(Error::Canceled);
        };
        let mut slots = self.several(slots)?;
        let (mut mel, mut valid) = (Vec::new(), Vec::with_capacity(slots.len()));
        for slot in &mut slots {
            valid.push(slot.take_rows(rows, &mut mel));
        }
        let shape = [slots.len(), rows, model.config().encoder.num_mel_bins];
        let features = Tensor::from_data(TensorData::new(mel, shape), model.device());
        let mut streams = Vec::with_capacity(slots.len());
        let mut keyterms = Vec::with_capacity(slots.len());
        for Slot { reading, search, .. } in slots {
            let Reading::Stream { stream, .. } = reading else { return Err(Error::Canceled) };
            streams.push(&mut **stream);
            keyterms.push(search.keyterms());
        }
        let encoded = model.encode(&mut streams, features, &valid)?;
        let found: Vec<Found> = if bucket.here {
            model.search_together(&mut streams, &encoded, &keyterms)?.into_iter().map(Found::Tokens).collect()
        } else {
            (0..valid.len()).map(|row| Found::Frames(Box::new(encoded.row(row)))).collect()
        };
        let dealt = |(found, valid): (Found, Range<usize>)| Some(Dealt { found: vec![found], rows: valid.len() });
        Ok(found.into_iter().zip(valid).map(dealt).collect())
    }

    fn step_windows(&mut self, bucket: Bucket, slots: &[usize]) -> Result<Vec<Option<Dealt>>> {
        let Some(Group { model, .. }) = self.groups.get(bucket.group).cloned() else {
            return Err(Error::Canceled);
        };
        let most = self.rows(bucket);
        let mut slots = self.several(slots)?;
        // One of each in turn, so that no long recording keeps the others waiting.
        let mut batch: Vec<(usize, Vec<f32>)> = Vec::new();
        loop {
            let before = batch.len();
            for (at, slot) in slots.iter_mut().enumerate() {
                if batch.len() < most
                    && let Reading::Windows(windows) = &mut slot.reading
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
        let found: Vec<Found> = if bucket.here {
            let searches: Vec<Search> =
                batch.iter().map(|(at, _)| Search::Greedy(slots[*at].search.keyterms())).collect();
            model.search_utterances(&encoded, &searches)?.into_iter().map(Found::Tokens).collect()
        } else {
            (0..batch.len()).map(|row| Found::Frames(Box::new(encoded.row(row)))).collect()
        };
        let mut dealt: Vec<Vec<Found>> = slots.iter().map(|_| Vec::new()).collect();
        for ((at, _), found) in batch.into_iter().zip(found) {
            dealt[at].push(found);
        }
        Ok(dealt.into_iter().map(|found| (!found.is_empty()).then_some(Dealt { found, rows: 0 })).collect())
    }
}

impl Machine for Recordings {
    type Kind = Kind;
    type Input = Input;
    type Output = Dealt;
    type Bucket = Bucket;

    fn open(&mut self, slot: usize, kind: Kind) -> Result<()> {
        let group = self.groups.number(&kind.group);
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(Slot::new(kind, group)?);
        Ok(())
    }

    fn take(&mut self, slot: usize, input: Input) {
        let Ok(slot) = self.slot(slot) else { return };
        match (&mut slot.reading, input) {
            (Reading::Stream { rows, .. }, Input::Rows(new)) => rows.extend(new),
            (Reading::Windows(windows), Input::Window(window)) => windows.push_back(window),
            (Reading::Stream { .. }, Input::Window(_)) | (Reading::Windows(_), Input::Rows(_)) => {
                debug_assert!(false, "a recording is fed what its checkpoint hears");
            }
        }
    }

    fn finish(&mut self, slot: usize) {
        if let Ok(slot) = self.slot(slot) {
            slot.finishing = true;
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = None;
        }
    }

    fn ready(&self, slot: usize) -> Option<Bucket> {
        let slot = self.slots.get(slot)?.as_ref()?;
        let rows = match &slot.reading {
            Reading::Windows(windows) if windows.is_empty() => return None,
            Reading::Windows(_) => None,
            Reading::Stream { .. } => {
                let model = &self.groups.get(slot.group)?.model;
                Some(slot.next_rows(model.config().encoder.subsampling_factor)?)
            }
        };
        Some(Bucket { group: slot.group, here: slot.here(), rows })
    }

    fn budget(&self, _: Bucket) -> Duration {
        // Nobody waits for one step; the recording that has waited longest goes first.
        Duration::from_secs(60)
    }

    fn rows(&self, bucket: Bucket) -> usize {
        let on_cpu = self.groups.get(bucket.group).is_none_or(|group| is_cpu(group.model.device()));
        if on_cpu { 1 } else { MOST_ROWS }
    }

    fn name(&self, _: Bucket) -> &'static str {
        "recording"
    }

    fn step(&mut self, bucket: Bucket, slots: &[usize]) -> Result<Vec<Option<Dealt>>> {
        match bucket.rows {
            Some(rows) => self.step_streams(bucket, rows, slots),
            None => self.step_windows(bucket, slots),
        }
    }
}
