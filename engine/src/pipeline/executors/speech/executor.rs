//! Batch executor of speech: phrases of all streams share the steps of their model. A vocoder takes mels in chunks, so that speech begins
//! before its phrase is computed and no step is long.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clause_steps::{advance_clause, begin_clause};
use super::frame_steps::compute_frames;
use super::phone_voice::PhoneVoice;
use super::phrase::Phrase;
use super::slot::{MelSpeaking, Speaking, SpeechOutput, SpeechRequest, SpeechSlot};
use super::voice_model::{Synthesizer, VoiceModel};
use crate::error::{Error, Result};
use crate::models::fastspeech2::Utterance;
use crate::models::vocos::MelChunk;
use crate::scheduler::{BatchExecutor, SlotTable};

/// Phrases of an acoustic step at most, and streams of a vocoder's step; on a CPU, and on another device.
const MAX_PHRASES: [usize; 2] = [4, 32];
const MAX_CHUNKS: [usize; 2] = [16, 64];
/// Streams of a step that gives a frame to each, on a CPU and on another device.
const MAX_FRAMES: [usize; 2] = [16, 64];
/// Frames of a phrase that are heard first, beyond the vocoder's delay.
const FIRST_FRAMES: usize = 10;
/// Frames of the chunks after it.
const CHUNK_FRAMES: usize = 25;
/// Speech that a paced stream makes ahead of what its reader has, seconds.
const AHEAD_S: f64 = 0.5;
/// Time from a step being ready to its deadline.
const BUDGET: Duration = Duration::from_millis(80);

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
    /// The first frame of a phrase, with its text.
    FirstFrame,
    Frame,
    /// The prosody of a clause, and a part of its samples.
    Prosody,
    Clause,
}

/// The streams that a device speaks.
#[derive(Default)]
pub struct SpeechExecutor {
    slots: SlotTable<SpeechSlot>,
    /// Of the slots.
    models: SlotTable<Arc<VoiceModel>>,
}

impl SpeechExecutor {
    fn most(&self, model: usize, [cpu, gpu]: [usize; 2]) -> usize {
        let on_cpu = self.models.find(model).is_none_or(|model| model.is_on_cpu());
        if on_cpu { cpu } else { gpu }
    }

    fn model(&self, key: SpeechBatchKey) -> Result<Arc<VoiceModel>> {
        self.models.find(key.model).cloned().ok_or_else(|| Error::internal("a step of an unknown voice"))
    }

    /// Computes the mels of the next phrase of each slot. Slots change when all has gone well.
    fn compute_mels(&mut self, model: &PhoneVoice, slots: &[usize]) -> Result<()> {
        let mut utterances = Vec::with_capacity(slots.len());
        for slot in slots {
            let slot = self.slots.find(*slot);
            let next = slot.and_then(|slot| Some((slot, slot.phrases.front()?)));
            let Some((slot, Phrase::Phones(phrase))) = next else {
                return Err(Error::internal("a step without a phrase"));
            };
            let SpeechRequest { voice, speed, .. } = &slot.request;
            utterances.push(Utterance { symbols: &phrase.symbols, voice: voice.listed()?, speed: *speed });
        }
        let computed = model.acoustic.speak(&utterances)?;
        let hop = model.vocoder.config().hop_length;
        for (slot, frames) in slots.iter().zip(computed) {
            let slot = self.slots.get_mut(*slot)?;
            let Some(Phrase::Phones(phrase)) = slot.phrases.pop_front() else { continue };
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
            slot.speaking = Some(Speaking::Mels(MelSpeaking {
                mels: frames.mels,
                next: 0,
                frames: count,
                vocoder: model.vocoder.start(),
                words: words.collect(),
                made: 0,
                total,
            }));
            slot.begin_phrase();
        }
        Ok(())
    }

    /// Computes the next samples of each slot. Slots change when all has gone well.
    fn compute_samples(&mut self, model: &PhoneVoice, slots: &[usize]) -> Result<Vec<Option<SpeechOutput>>> {
        let width = model.vocoder.config().n_mels;
        let (mut chunks, mut states, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for slot in slots {
            let speaking = self.slots.find(*slot).and_then(|slot| slot.speaking.as_ref());
            let Some(Speaking::Mels(speaking)) = speaking else { return Err(Error::internal("a step without mels")) };
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
            let Some(Speaking::Mels(mut speaking)) = slot.speaking.take() else { continue };
            slot.finish(&mut samples, speaking.made, Some(speaking.total));
            slot.made += samples.len() as u64;
            speaking.made += samples.len();
            let words = std::mem::take(&mut speaking.words);
            (speaking.next, speaking.vocoder) = (end, state);
            slot.speaking = (end < speaking.frames).then_some(Speaking::Mels(speaking));
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
            (Some(Speaking::Mels(_)), _) => Part::Vocoder,
            (Some(Speaking::Frames(_)), _) => Part::Frame,
            (Some(Speaking::Clause(_)), _) => Part::Clause,
            (None, Some(Phrase::Phones(_))) if slot.request.model.says_clauses() => Part::Prosody,
            (None, Some(Phrase::Phones(phrase))) => Part::Acoustic(phrase.symbols.len().next_power_of_two()),
            (None, Some(Phrase::Text(_))) => Part::FirstFrame,
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
            // A text takes as long as several frames: other streams do not wait for two.
            Part::FirstFrame | Part::Prosody | Part::Clause => 1,
            Part::Frame => self.most(key.model, MAX_FRAMES),
        }
    }

    fn step_name(&self, key: SpeechBatchKey) -> &'static str {
        match key.part {
            Part::Acoustic(_) => "acoustic",
            Part::Vocoder => "vocoder",
            Part::FirstFrame => "first-frame",
            Part::Frame => "frame",
            Part::Prosody => "prosody",
            Part::Clause => "clause-part",
        }
    }

    fn family(&self, key: SpeechBatchKey) -> usize {
        key.model
    }

    fn account(&self, slot: usize) -> Option<&str> {
        self.slots.find(slot)?.request.account.as_deref()
    }

    fn step(&mut self, key: SpeechBatchKey, slots: &[usize], _: usize) -> Result<Vec<Option<SpeechOutput>>> {
        let model = self.model(key)?;
        match (&model.synthesizer, key.part) {
            (Synthesizer::Phones(model), Part::Acoustic(_)) => {
                self.compute_mels(model, slots).map(|()| slots.iter().map(|_| None).collect())
            }
            (Synthesizer::Phones(model), Part::Vocoder) => self.compute_samples(model, slots),
            (Synthesizer::Frames(model), Part::FirstFrame | Part::Frame) => {
                compute_frames(model, &mut self.slots, slots)
            }
            (Synthesizer::Clauses(voice), Part::Prosody) => {
                let begun = slots.iter().map(|slot| begin_clause(voice, &mut self.slots, *slot).map(|()| None));
                begun.collect()
            }
            (Synthesizer::Clauses(voice), Part::Clause) => {
                slots.iter().map(|slot| advance_clause(voice, &mut self.slots, *slot)).collect()
            }
            _ => Err(Error::internal("a step of another form of voice")),
        }
    }

    fn undo(&mut self, _: SpeechBatchKey, _: &[usize]) -> bool {
        // A step that fails has changed nothing.
        true
    }
}
