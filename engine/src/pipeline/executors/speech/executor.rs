//! Batch executor of speech: phrases of all streams share the steps of the acoustic model, and their mels those of the vocoder. The vocoder
//! takes mels in chunks, so that speech begins before its phrase is computed and no step is long.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::phrase::Phrase;
use super::voice_model::VoiceModel;
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::models::fastspeech2::Utterance;
use crate::models::vocos::{MelChunk, VocosState};
use crate::scheduler::{BatchExecutor, SlotTable};

/// Phrases of an acoustic step at most, and streams of a vocoder's step.
const MAX_PHRASES: [usize; 2] = [4, 32];
const MAX_CHUNKS: [usize; 2] = [16, 64];
/// Frames of a phrase that are heard first, beyond the vocoder's delay.
const FIRST_FRAMES: usize = 10;
/// Frames of the chunks after it.
const CHUNK_FRAMES: usize = 25;
/// Speech that a paced stream makes ahead of what its reader has, seconds.
const AHEAD_S: f64 = 0.5;
/// Time from a step being ready to its deadline.
const BUDGET: Duration = Duration::from_millis(80);
/// The ends of a phrase fade in and out over so many seconds, so that no two phrases meet in a click.
const FADE_S: f64 = 0.005;
/// Values beyond this are compressed, so that none is cut.
const KNEE: f32 = 0.8;

/// Counts of a stream that its two sides share.
#[derive(Debug, Default)]
pub struct Progress {
    /// Phrases that the device has begun.
    pub begun: AtomicUsize,
    /// Samples, at the model's rate, that the reader has.
    pub delivered: AtomicU64,
}

/// Opens a stream of speech.
pub struct SpeechRequest {
    pub model: Arc<VoiceModel>,
    pub voice: usize,
    pub speed: f32,
    /// Factor of all samples.
    pub gain: f32,
    /// No more is made than the reader needs soon.
    pub paced: bool,
    pub progress: Arc<Progress>,
}

/// The next samples of a stream, at the model's rate.
pub struct SpeechOutput {
    pub samples: Vec<f32>,
    /// Words of a phrase that begins with these samples, with samples since the phrase's first.
    pub words: Vec<(String, Range<usize>)>,
    /// The phrase ends with them.
    pub ends_phrase: bool,
}

/// Streams whose steps have equal keys share a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpeechBatchKey {
    model: usize,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// Phrases of up to so many symbols, a power of two.
    Acoustic(usize),
    Vocoder,
}

/// The streams that a device speaks.
#[derive(Default)]
pub struct SpeechExecutor {
    slots: SlotTable<SpeechSlot>,
    /// Of the slots.
    models: SlotTable<Arc<VoiceModel>>,
}

struct SpeechSlot {
    model: usize,
    request: SpeechRequest,
    phrases: VecDeque<Phrase>,
    /// The phrase that is being said.
    speaking: Option<Speaking>,
    /// Samples so far.
    made: u64,
}

/// A phrase between the acoustic model and its last sample.
struct Speaking {
    mels: Vec<f32>,
    /// The first frame that the vocoder has not taken.
    next: usize,
    frames: usize,
    vocoder: VocosState,
    words: Vec<(String, Range<usize>)>,
    /// Samples so far, and in all.
    made: usize,
    total: usize,
}

impl SpeechSlot {
    /// Seconds of speech that the reader has not taken yet.
    fn ahead_s(&self) -> f64 {
        let delivered = self.request.progress.delivered.load(Ordering::Acquire);
        self.made.saturating_sub(delivered) as f64 / f64::from(self.request.model.sample_rate())
    }

    /// Brings samples of the phrase, from `first` of `total` on, to the voice's loudness, with soft ends.
    fn finish(&self, samples: &mut [f32], first: usize, total: usize) {
        let fade = (FADE_S * f64::from(self.request.model.sample_rate())) as usize;
        for (at, sample) in samples.iter_mut().enumerate() {
            let from_end = (first + at).min((total - 1).saturating_sub(first + at));
            if from_end < fade {
                *sample *= from_end as f32 / fade as f32;
            }
            *sample = limited(*sample * self.request.gain);
        }
    }
}

/// A sample with its loudest part compressed to less than 1.
fn limited(sample: f32) -> f32 {
    let over = sample.abs() - KNEE;
    if over <= 0.0 { sample } else { sample.signum() * (KNEE + (1.0 - KNEE) * (over / (1.0 - KNEE)).tanh()) }
}

impl SpeechExecutor {
    fn most(&self, model: usize, [cpu, gpu]: [usize; 2]) -> usize {
        let on_cpu = self.models.find(model).is_none_or(|model| is_cpu(model.acoustic.device()));
        if on_cpu { cpu } else { gpu }
    }

    fn model(&self, key: SpeechBatchKey) -> Result<Arc<VoiceModel>> {
        self.models.find(key.model).cloned().ok_or_else(|| Error::internal("a step of an unknown voice"))
    }

    /// Computes the mels of the next phrase of each slot. Slots change when all has gone well.
    fn compute_mels(&mut self, model: &VoiceModel, slots: &[usize]) -> Result<()> {
        let mut utterances = Vec::with_capacity(slots.len());
        for slot in slots {
            let slot = self.slots.find(*slot);
            let next = slot.and_then(|slot| Some((slot, slot.phrases.front()?)));
            let Some((slot, phrase)) = next else { return Err(Error::internal("a step without a phrase")) };
            let SpeechRequest { voice, speed, .. } = slot.request;
            utterances.push(Utterance { symbols: &phrase.symbols, voice, speed });
        }
        let computed = model.acoustic.speak(&utterances)?;
        let hop = model.vocoder.config().hop_length;
        for (slot, frames) in slots.iter().zip(computed) {
            let slot = self.slots.get_mut(*slot)?;
            let Some(phrase) = slot.phrases.pop_front() else { continue };
            let ends = frames.durations.iter().scan(0, |sum, count| {
                *sum += count;
                Some(*sum)
            });
            let ends: Vec<usize> = ends.collect();
            let count = ends.last().copied().unwrap_or(0);
            let total = count.saturating_sub(1) * hop;
            // A frame is around its sample, the first around sample 0.
            let sample = |frame: usize| (frame * hop).saturating_sub(hop / 2).min(total);
            let place = |at: usize| at.checked_sub(1).map_or(0, |before| sample(ends[before]));
            let words = phrase.words.into_iter().map(|word| {
                let place = place(word.symbols.start)..place(word.symbols.end);
                (word.text, place)
            });
            slot.speaking = Some(Speaking {
                mels: frames.mels,
                next: 0,
                frames: count,
                vocoder: model.vocoder.start(),
                words: words.collect(),
                made: 0,
                total,
            });
            slot.request.progress.begun.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Computes the next samples of each slot. Slots change when all has gone well.
    fn compute_samples(&mut self, model: &VoiceModel, slots: &[usize]) -> Result<Vec<Option<SpeechOutput>>> {
        let width = model.vocoder.config().n_mels;
        let (mut chunks, mut states, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for slot in slots {
            let speaking = self.slots.find(*slot).and_then(|slot| slot.speaking.as_ref());
            let Some(speaking) = speaking else { return Err(Error::internal("a step without mels")) };
            let wanted = match speaking.next {
                _ if !model.vocoder.streams() => speaking.frames,
                0 => model.vocoder.delay() + FIRST_FRAMES,
                _ => CHUNK_FRAMES,
            };
            let end = (speaking.next + wanted).min(speaking.frames);
            let mels = &speaking.mels[speaking.next * width..end * width];
            chunks.push(MelChunk { mels, is_last: end == speaking.frames });
            states.push(speaking.vocoder.clone());
            ends.push(end);
        }
        let computed = model.vocoder.forward(&chunks, &mut states.iter_mut().collect::<Vec<_>>())?;
        let mut outputs = Vec::with_capacity(slots.len());
        for (((slot, state), end), mut samples) in slots.iter().zip(states).zip(ends).zip(computed) {
            let slot = self.slots.get_mut(*slot)?;
            let Some(mut speaking) = slot.speaking.take() else { continue };
            slot.finish(&mut samples, speaking.made, speaking.total);
            slot.made += samples.len() as u64;
            speaking.made += samples.len();
            let words = std::mem::take(&mut speaking.words);
            (speaking.next, speaking.vocoder) = (end, state);
            slot.speaking = (end < speaking.frames).then_some(speaking);
            outputs.push(Some(SpeechOutput { samples, words, ends_phrase: slot.speaking.is_none() }));
        }
        Ok(outputs)
    }
}

impl BatchExecutor for SpeechExecutor {
    type Request = SpeechRequest;
    type Input = Phrase;
    type Output = SpeechOutput;
    type BatchKey = SpeechBatchKey;

    fn open(&mut self, slot: usize, request: SpeechRequest) -> Result<()> {
        let model = self.models.find_or_insert(|known| Arc::ptr_eq(known, &request.model), || request.model.clone());
        self.slots.insert(slot, SpeechSlot { model, request, phrases: VecDeque::new(), speaking: None, made: 0 });
        Ok(())
    }

    fn push(&mut self, slot: usize, phrase: Phrase) {
        if let Some(slot) = self.slots.find_mut(slot) {
            slot.phrases.push_back(phrase);
        }
    }

    fn finish(&mut self, _: usize) {}

    fn close(&mut self, slot: usize) {
        self.slots.remove(slot);
        self.models.retain(|number, _| self.slots.iter().any(|(_, slot)| slot.model == number));
    }

    fn next_step(&self, slot: usize) -> Option<SpeechBatchKey> {
        let slot = self.slots.find(slot)?;
        if slot.request.paced && slot.ahead_s() >= AHEAD_S {
            return None;
        }
        let part = match (&slot.speaking, slot.phrases.front()) {
            (Some(_), _) => Part::Vocoder,
            (None, Some(phrase)) => Part::Acoustic(phrase.symbols.len().next_power_of_two()),
            (None, None) => return None,
        };
        Some(SpeechBatchKey { model: slot.model, part })
    }

    fn waiting_since(&self, slot: usize) -> Option<Instant> {
        // A voice that has speech ahead is due when that ends.
        let slot = self.slots.find(slot).filter(|slot| slot.request.paced)?;
        Some(Instant::now() + Duration::from_secs_f64(slot.ahead_s()))
    }

    fn budget(&self, _: SpeechBatchKey) -> Duration {
        BUDGET
    }

    fn max_batch(&self, key: SpeechBatchKey) -> usize {
        match key.part {
            Part::Acoustic(_) => self.most(key.model, MAX_PHRASES),
            Part::Vocoder => self.most(key.model, MAX_CHUNKS),
        }
    }

    fn step_name(&self, key: SpeechBatchKey) -> &'static str {
        match key.part {
            Part::Acoustic(_) => "acoustic",
            Part::Vocoder => "vocoder",
        }
    }

    fn family(&self, key: SpeechBatchKey) -> usize {
        key.model
    }

    fn step(&mut self, key: SpeechBatchKey, slots: &[usize], _: usize) -> Result<Vec<Option<SpeechOutput>>> {
        let model = self.model(key)?;
        match key.part {
            Part::Acoustic(_) => self.compute_mels(&model, slots).map(|()| slots.iter().map(|_| None).collect()),
            Part::Vocoder => self.compute_samples(&model, slots),
        }
    }

    fn undo(&mut self, _: SpeechBatchKey, _: &[usize]) -> bool {
        // A step that fails has changed nothing.
        true
    }
}
