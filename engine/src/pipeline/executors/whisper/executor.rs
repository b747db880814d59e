//! Batch executor of recordings for Whisper checkpoints: windows of 30 s of all recordings are decoded as one batch,
//! token by token; a new window takes the place of a finished one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use burn::tensor::Tensor;

use super::windows::{ActiveWindow, ModelState, Outcome, TEMPERATURES};
use crate::error::{Error, Result};
use crate::models::whisper::{DecodeOptions, DecodedWindow, SAMPLES_PER_FRAME, Task, Whisper, WindowAudio};
use crate::pipeline::executors::shares::in_turn;
use crate::scheduler::{BatchExecutor, SlotTable};

/// Most windows that are encoded in a step.
const MAX_ENCODED_CPU: usize = 1;
const MAX_ENCODED_GPU: usize = 8;
/// Most tokens of a window, as in the published program.
const MAX_TOKENS: usize = 224;
/// Least speech in the window that decides the language of a recording, ms.
const MIN_LANGUAGE_SPEECH_MS: u64 = 1000;
/// Least probability at which a language counts as the one spoken.
const MIN_LANGUAGE_PROBABILITY: f32 = 0.5;

/// Options of a recording.
pub struct WhisperRequest {
    pub model: Arc<Whisper>,
    pub language: LanguageChoice,
    pub task: Task,
    /// Beam width.
    pub beams: usize,
}

/// The language of a recording, by its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LanguageChoice {
    /// A known language.
    Known(u32),
    /// One of these, detected in the first window with speech.
    Detect(Vec<u32>),
    /// One of these, detected in each window; that of the window before where it is unlikely.
    DetectEachWindow(Vec<u32>),
}

/// A window.
#[derive(Clone, Debug, Default)]
pub struct WhisperInput {
    /// At 16 kHz, 30 s at most.
    pub samples: Vec<f32>,
    /// Prompt: tokens of the text before the window, or of the keyterms.
    pub previous: Vec<u32>,
    /// Length of the speech in the window, ms.
    pub speech_ms: u64,
    /// Token of its language and, if that is likely to be the one spoken, the same again; none to detect it.
    pub language: Option<(u32, Option<u32>)>,
    /// Seed of the sampling.
    pub seed: u64,
}

/// Result of a window.
#[derive(Clone, Debug)]
pub struct TranscribedWindow {
    /// Number of the window, from 0, in the order of the input.
    pub window: usize,
    /// The decoded window, or the reason that there is none.
    pub decoded: Result<DecodedWindow>,
    /// Token of the language that it was decoded in.
    pub language: u32,
    /// The same, if it is likely to be the language spoken.
    pub known_language: Option<u32>,
    /// Temperature of the last decoding.
    pub temperature: f32,
}

/// Next step of a slot. Slots with equal keys share a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhisperBatchKey {
    /// Encodes windows and adds them to the decoder of this model.
    Encode(usize),
    /// Decodes one more token of each window.
    Decode(usize),
    /// Encodes and decodes windows of this slot by themselves, because a step that they shared has failed.
    Alone(usize),
    /// Delivers windows that were finished in steps of other slots.
    Deliver,
}

/// The recordings that a device works on.
#[derive(Default)]
pub struct WhisperExecutor {
    slots: SlotTable<WhisperSlot>,
    /// Of the slots.
    models: SlotTable<ModelState>,
    /// The windows of the encoder's step that runs: their slots, numbers and input.
    in_step: Vec<(usize, usize, WhisperInput)>,
}

struct WhisperSlot {
    request: WhisperRequest,
    /// Number of its model.
    model: usize,
    waiting: VecDeque<(usize, WhisperInput)>,
    /// Number of windows that have arrived.
    arrived: usize,
    /// Number of windows in the decoder.
    in_decoder: usize,
    done: Vec<TranscribedWindow>,
    /// The latest language that was detected in a window.
    latest_language: Option<u32>,
    /// A step that it shared has failed: its windows go by themselves until they have gone well.
    alone: bool,
}

impl WhisperExecutor {
    /// Windows that a step of the encoder takes of each slot.
    fn encoded_rows(&self, number: usize, slots: &[usize], most: usize) -> Vec<(usize, usize)> {
        let Some(model) = self.models.find(number) else { return Vec::new() };
        let most = most.min(model.room().min(model.limit(MAX_ENCODED_CPU, MAX_ENCODED_GPU)).max(1));
        let waiting = |slot: &usize| self.slots.find(*slot).map_or(0, |slot| slot.waiting.len());
        let counts = in_turn(&slots.iter().map(waiting).collect::<Vec<_>>(), most);
        slots.iter().copied().zip(counts).collect()
    }

    /// Decodes a slot's windows that a failed step has lost, or its next one, by themselves.
    fn alone(&mut self, index: usize) -> Result<()> {
        let slot = self.slots.get_mut(index)?;
        let number = slot.model;
        if slot.in_decoder == 0 {
            let others = model_state(&mut self.models, number)?.set_aside();
            let encoded = self.encode(number, &[index], 1);
            let model = model_state(&mut self.models, number)?;
            model.put_back(others);
            encoded?;
        }
        let accepted = model_state(&mut self.models, number)?.decode_alone(index)?;
        self.store(accepted);
        self.slots.get_mut(index)?.alone = false;
        Ok(())
    }

    fn deliver(&mut self, slots: &[usize]) -> Vec<Option<Vec<TranscribedWindow>>> {
        let take = |slot: &usize| {
            let done = self.slots.find_mut(*slot).map(|slot| std::mem::take(&mut slot.done))?;
            (!done.is_empty()).then_some(done)
        };
        slots.iter().map(take).collect()
    }

    fn store(&mut self, accepted: Vec<Outcome>) {
        for (window, decoded) in accepted {
            if let Some(slot) = self.slots.find_mut(window.slot) {
                slot.in_decoder -= 1;
                let DecodeOptions { language, temperature, .. } = window.options;
                let (window, known_language) = (window.number, window.known_language);
                slot.done.push(TranscribedWindow { window, decoded, language, known_language, temperature });
            }
        }
    }

    /// Encodes up to `most` windows, one of each recording in turn.
    fn encode(&mut self, number: usize, slots: &[usize], most: usize) -> Result<()> {
        let counts = self.encoded_rows(number, slots, most);
        for (index, count) in counts {
            if let Some(slot) = self.slots.find_mut(index) {
                let taken = slot.waiting.drain(..count);
                self.in_step.extend(taken.map(|(number, window)| (index, number, window)));
            }
        }
        let model = model_state(&mut self.models, number)?;
        // Kept until the step has gone well: undone, it puts them back.
        let mut batch: Vec<&(usize, usize, WhisperInput)> = self.in_step.iter().collect();
        // Windows of one length are encoded together.
        let frames_of = |window: &WhisperInput| model.model.config().window_frames(window.samples.len());
        batch.sort_by_key(|(.., window)| frames_of(window));
        let encoded: Vec<Tensor<3>> = batch
            .chunk_by(|(.., one), (.., other)| frames_of(one) == frames_of(other))
            .map(|alike| {
                let samples: Vec<&[f32]> = alike.iter().map(|(.., window)| window.samples.as_slice()).collect();
                model.model.encode(&samples)
            })
            .collect::<Result<_>>()?;
        let rows = encoded.iter().flat_map(|frames| (0..frames.dims()[0]).map(|row| frames.clone().narrow(0, row, 1)));
        let mut windows = Vec::with_capacity(batch.len());
        for ((index, number, input), frames) in batch.into_iter().zip(rows) {
            let slot = self.slots.get_mut(*index)?;
            let (language, known_language) = slot.language(&frames, input)?;
            let options = DecodeOptions {
                language,
                task: slot.request.task,
                previous: input.previous.clone(),
                temperature: TEMPERATURES[0],
                seed: input.seed,
                beams: slot.request.beams,
                pruning: true,
                length_penalty: 1.0,
                max_tokens: MAX_TOKENS,
                frames: input.samples.len().div_ceil(SAMPLES_PER_FRAME),
            };
            windows.push(ActiveWindow {
                slot: *index,
                number: *number,
                audio: WindowAudio::Frames(Box::new(frames)),
                options,
                known_language,
                speech_ms: input.speech_ms,
                attempt: 0,
            });
        }
        for (index, ..) in self.in_step.drain(..) {
            if let Some(slot) = self.slots.find_mut(index) {
                slot.in_decoder += 1;
            }
        }
        let accepted = model.add(encoded, windows)?;
        self.store(accepted);
        Ok(())
    }
}

impl WhisperSlot {
    /// Token of the language in which a window is decoded; the same again if it is likely to be the one spoken. A window
    /// with little speech does not decide the language of the others.
    fn language(&mut self, frames: &Tensor<3>, input: &WhisperInput) -> Result<(u32, Option<u32>)> {
        let candidates = match (&self.request.language, input.language) {
            (LanguageChoice::Known(token), _) => return Ok((*token, Some(*token))),
            (_, Some(language)) => return Ok(language),
            (LanguageChoice::Detect(candidates) | LanguageChoice::DetectEachWindow(candidates), _) => candidates,
        };
        let probabilities = self.request.model.languages(frames, candidates)?;
        let probabilities = probabilities.first().into_iter().flatten().copied();
        let likeliest = candidates.iter().copied().zip(probabilities).max_by(|(_, a), (_, b)| a.total_cmp(b));
        let (token, probability) = likeliest.unwrap_or_default();
        let is_likely = probability >= MIN_LANGUAGE_PROBABILITY;
        let is_long = input.speech_ms >= MIN_LANGUAGE_SPEECH_MS;
        match (&self.request.language, self.latest_language) {
            (LanguageChoice::DetectEachWindow(_), Some(latest)) if !is_likely || !is_long => {
                return Ok((latest, Some(latest)));
            }
            (LanguageChoice::DetectEachWindow(_), _) => self.latest_language = Some(token),
            _ if is_likely && is_long => self.request.language = LanguageChoice::Known(token),
            _ => {}
        }
        Ok((token, is_likely.then_some(token)))
    }
}

fn model_state(models: &mut SlotTable<ModelState>, number: usize) -> Result<&mut ModelState> {
    match models.find_mut(number) {
        Some(model) => Ok(model),
        None => Err(Error::internal(format!("model {number} of a step is unknown"))),
    }
}

impl BatchExecutor for WhisperExecutor {
    type Request = WhisperRequest;
    type Input = WhisperInput;
    type Output = Vec<TranscribedWindow>;
    type BatchKey = WhisperBatchKey;

    fn open(&mut self, slot: usize, request: WhisperRequest) -> Result<()> {
        let is_same = |known: &ModelState| Arc::ptr_eq(&known.model, &request.model);
        let model = self.models.find_or_insert(is_same, || ModelState::new(request.model.clone()));
        let (waiting, done) = (VecDeque::new(), Vec::new());
        self.slots.insert(
            slot,
            WhisperSlot {
                request,
                model,
                waiting,
                arrived: 0,
                in_decoder: 0,
                done,
                latest_language: None,
                alone: false,
            },
        );
        Ok(())
    }

    fn push(&mut self, slot: usize, window: WhisperInput) {
        if let Some(slot) = self.slots.find_mut(slot) {
            slot.waiting.push_back((slot.arrived, window));
            slot.arrived += 1;
        }
    }

    fn finish(&mut self, _: usize) {}

    fn close(&mut self, index: usize) {
        let Some(slot) = self.slots.remove(index) else { return };
        if let Some(model) = self.models.find_mut(slot.model) {
            model.forget(index);
        }
        self.models.retain(|number, _| self.slots.iter().any(|(_, slot)| slot.model == number));
    }

    fn next_step(&self, index: usize) -> Option<WhisperBatchKey> {
        let slot = self.slots.find(index)?;
        let room = self.models.find(slot.model)?.room();
        match () {
            () if !slot.done.is_empty() => Some(WhisperBatchKey::Deliver),
            () if slot.alone && (slot.in_decoder > 0 || !slot.waiting.is_empty()) => {
                Some(WhisperBatchKey::Alone(index))
            }
            () if !slot.waiting.is_empty() && room > 0 => Some(WhisperBatchKey::Encode(slot.model)),
            // A slot whose windows wait for room takes part in decoding until there is room.
            () if !slot.waiting.is_empty() || slot.in_decoder > 0 => Some(WhisperBatchKey::Decode(slot.model)),
            () => None,
        }
    }

    fn budget(&self, key: WhisperBatchKey) -> Duration {
        match key {
            WhisperBatchKey::Deliver => Duration::ZERO,
            // Encoding goes first, to keep the decoder full.
            WhisperBatchKey::Encode(_) => Duration::from_secs(1),
            WhisperBatchKey::Decode(_) | WhisperBatchKey::Alone(_) => Duration::from_secs(2),
        }
    }

    fn max_batch(&self, key: WhisperBatchKey) -> usize {
        match key {
            WhisperBatchKey::Encode(number) => self
                .models
                .find(number)
                .map_or(1, |model| model.room().min(model.limit(MAX_ENCODED_CPU, MAX_ENCODED_GPU)).max(1)),
            WhisperBatchKey::Alone(_) => 1,
            WhisperBatchKey::Decode(_) | WhisperBatchKey::Deliver => usize::MAX,
        }
    }

    fn family(&self, key: WhisperBatchKey) -> usize {
        match key {
            WhisperBatchKey::Encode(number) | WhisperBatchKey::Decode(number) => number,
            WhisperBatchKey::Alone(index) => self.slots.find(index).map_or(0, |slot| slot.model),
            WhisperBatchKey::Deliver => 0,
        }
    }

    fn rows(&self, key: WhisperBatchKey, slots: &[usize], most: usize) -> Vec<(usize, usize)> {
        match key {
            WhisperBatchKey::Encode(number) => self.encoded_rows(number, slots, most),
            // All windows in the decoder move on, whatever the next step of their slots is.
            WhisperBatchKey::Decode(number) => self
                .slots
                .iter()
                .filter(|(_, slot)| slot.model == number && slot.in_decoder > 0 && !slot.alone)
                .map(|(index, slot)| (index, slot.in_decoder))
                .collect(),
            WhisperBatchKey::Alone(_) | WhisperBatchKey::Deliver => slots.iter().map(|slot| (*slot, 1)).collect(),
        }
    }

    fn step_name(&self, key: WhisperBatchKey) -> &'static str {
        match key {
            WhisperBatchKey::Encode(_) => "window",
            WhisperBatchKey::Decode(_) => "token",
            WhisperBatchKey::Alone(_) => "window alone",
            WhisperBatchKey::Deliver => "deliver",
        }
    }

    fn step(
        &mut self,
        key: WhisperBatchKey,
        slots: &[usize],
        most: usize,
    ) -> Result<Vec<Option<Vec<TranscribedWindow>>>> {
        self.in_step.clear();
        if let WhisperBatchKey::Encode(number) | WhisperBatchKey::Decode(number) = key
            && let Some(model) = self.models.find_mut(number)
        {
            let accepted = model.restore(|slot| self.slots.find(slot).is_some_and(|slot| !slot.alone))?;
            self.store(accepted);
        }
        match key {
            WhisperBatchKey::Encode(model) => self.encode(model, slots, most)?,
            WhisperBatchKey::Decode(number) => {
                let accepted = model_state(&mut self.models, number)?.step()?;
                self.store(accepted);
            }
            WhisperBatchKey::Alone(index) => self.alone(index)?,
            WhisperBatchKey::Deliver => {}
        }
        Ok(self.deliver(slots))
    }

    /// Every window that shared the step goes by itself from now on.
    fn undo(&mut self, key: WhisperBatchKey, slots: &[usize]) -> bool {
        for (index, number, window) in self.in_step.drain(..).rev() {
            if let Some(slot) = self.slots.find_mut(index) {
                slot.waiting.push_front((number, window));
            }
        }
        if let WhisperBatchKey::Encode(number) | WhisperBatchKey::Decode(number) = key {
            for (index, slot) in self.slots.iter_mut() {
                slot.alone |= slot.model == number && (slot.in_decoder > 0 || slots.contains(&index));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {

    use burn::tensor::Device;
    use std::env;
    use std::path::PathBuf;

    use super::*;
    use crate::audio::AudioStream;

    /// Runs steps of this slot until it has none left; returns the results.
    fn run(executor: &mut WhisperExecutor, slot: usize) -> Vec<(Vec<u32>, u32)> {
        let mut results = Vec::new();
        while let Some(key) = executor.next_step(slot) {
            results.extend(executor.step(key, &[slot], usize::MAX).unwrap().into_iter().flatten().flatten());
        }
        results.into_iter().map(|window: TranscribedWindow| (window.decoded.unwrap().tokens, window.language)).collect()
    }

    #[test]
    fn a_step_that_fails_costs_no_other_recording_its_windows() {
        let taught = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../tests/fixtures/whisper/taught");
        let model = Arc::new(Whisper::load(&taught, &Device::flex()).unwrap());
        let sound = AudioStream::open(taught.join("sounds/english.flac")).unwrap().read_to_end().unwrap();
        let input =
            |samples: &[f32]| WhisperInput { samples: samples.to_vec(), speech_ms: 3000, ..WhisperInput::default() };
        let languages: Vec<u32> = model.config().special.languages.values().copied().collect();
        let kind = || WhisperRequest {
            model: model.clone(),
            language: LanguageChoice::Detect(languages.clone()),
            task: Task::Transcribe,
            beams: 1,
        };
        let mut executor = WhisperExecutor::default();
        executor.open(0, kind()).unwrap();
        executor.push(0, input(&sound));
        let alone = run(&mut executor, 0);
        assert!(alone.len() == 1 && alone[0].0.len() > 3, "{alone:?}");

        let mut executor = WhisperExecutor::default();
        executor.open(0, kind()).unwrap();
        executor.push(0, input(&sound));
        for _ in 0..3 {
            let key = executor.next_step(0).unwrap();
            executor.step(key, &[0], usize::MAX).unwrap();
        }
        executor.open(1, kind()).unwrap();
        // A window whose scores are NaN is the only one that suffers.
        let begun = executor.models.get_mut(0).unwrap();
        let window = begun.windows.values().next().unwrap();
        let frames = Tensor::full(model.encode(&[&sound]).unwrap().dims(), f32::NAN, &Device::flex());
        let audio = WindowAudio::Frames(Box::new(frames.clone()));
        let window = ActiveWindow { slot: 1, audio, options: window.options.clone(), ..*window };
        let outcomes = begun.add(vec![frames], vec![window]).unwrap();
        assert!(matches!(outcomes.as_slice(), [(ActiveWindow { slot: 1, .. }, Err(Error::Device { .. }))]));
        // After a step that failed as a whole each goes by itself, to the same results.
        assert!(executor.undo(WhisperBatchKey::Decode(0), &[0]));
        assert_eq!(executor.next_step(0), Some(WhisperBatchKey::Alone(0)));
        executor.close(1);
        executor.open(1, kind()).unwrap();
        executor.push(1, input(&sound));
        assert_eq!(run(&mut executor, 1), alone);
        assert_eq!(run(&mut executor, 0), alone);
    }
}
