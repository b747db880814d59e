//! Batch executor of recordings for Whisper checkpoints: windows of 30 s of all recordings are decoded as one batch,
//! token by token; a new window takes the place of a finished one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use burn::tensor::Tensor;

use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::models::whisper::{DecodeOptions, DecodedWindow, DecodingBatch, Task, Whisper, compression_ratio};
use crate::scheduler::{BatchExecutor, SlotTable};

/// Most windows that are decoded at once: they share each pass over the weights.
const MAX_ROWS_CPU: usize = 8;
const MAX_ROWS_GPU: usize = 32;
/// Most windows that are encoded in a step.
const MAX_ENCODED_CPU: usize = 1;
const MAX_ENCODED_GPU: usize = 8;
/// Most tokens of a window, as in the published program.
const MAX_TOKENS: usize = 224;
/// Temperature fallback: a window with a bad result is decoded again at the next higher temperature.
const TEMPERATURES: [f32; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
/// A result above this compression ratio (repetition) or below this mean log probability is bad.
const MAX_COMPRESSION_RATIO: f32 = 1.35;
const MIN_MEAN_LOG_PROB: f32 = -1.0;
/// An unlikely result is dropped as silence above this no-speech probability.
const MAX_NO_SPEECH: f32 = 0.6;
/// Samples of an encoder frame.
pub const SAMPLES_PER_FRAME: usize = 320;

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
    /// One of these, detected in each window.
    DetectEachWindow(Vec<u32>),
}

/// A window.
#[derive(Clone, Debug, Default)]
pub struct WhisperInput {
    /// At 16 kHz, 30 s at most.
    pub samples: Vec<f32>,
    /// Prompt: tokens of the text before the window, or of the keyterms.
    pub previous: Vec<u32>,
    /// True if the window has speech.
    pub has_speech: bool,
}

/// Result of a window.
#[derive(Clone, Debug)]
pub struct TranscribedWindow {
    /// Number of the window, from 0, in the order of the input.
    pub window: usize,
    pub decoded: DecodedWindow,
    /// Token of its language.
    pub language: u32,
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
    /// Delivers windows that were finished in steps of other slots.
    Deliver,
}

/// The recordings that a device works on.
#[derive(Default)]
pub struct WhisperExecutor {
    slots: SlotTable<WhisperSlot>,
    models: Vec<ModelState>,
}

struct ModelState {
    model: Arc<Whisper>,
    decoding: DecodingBatch,
    windows: BTreeMap<u64, ActiveWindow>,
    next: u64,
}

/// A window in the decoder.
struct ActiveWindow {
    slot: usize,
    number: usize,
    /// `[1, 1500, size]`
    frames: Tensor<3>,
    options: DecodeOptions,
    /// Index of its temperature.
    attempt: usize,
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
}

/// Assessment of a decoded window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Accept,
    Retry,
    NoSpeech,
}

fn assess(decoded: &DecodedWindow, vocab_size: usize) -> Verdict {
    if decoded.log_prob < MIN_MEAN_LOG_PROB && decoded.no_speech > MAX_NO_SPEECH {
        Verdict::NoSpeech
    } else if decoded.log_prob < MIN_MEAN_LOG_PROB
        || compression_ratio(&decoded.tokens, vocab_size) > MAX_COMPRESSION_RATIO
    {
        Verdict::Retry
    } else {
        Verdict::Accept
    }
}

impl ModelState {
    fn limit(&self, on_cpu: usize, on_gpu: usize) -> usize {
        if is_cpu(self.model.device()) { on_cpu } else { on_gpu }
    }

    fn room(&self) -> usize {
        self.limit(MAX_ROWS_CPU, MAX_ROWS_GPU).saturating_sub(self.decoding.rows())
    }

    /// Adds windows to the decoder; returns those that are finished at once.
    fn add(&mut self, frames: &Tensor<3>, windows: Vec<ActiveWindow>) -> Result<Vec<(ActiveWindow, DecodedWindow)>> {
        let first = self.next;
        self.next += windows.len() as u64;
        let options =
            windows.iter().enumerate().map(|(at, window)| (first + at as u64, window.options.clone())).collect();
        self.windows.extend(windows.into_iter().enumerate().map(|(at, window)| (first + at as u64, window)));
        let done = self.decoding.add(&self.model, frames, options)?;
        self.accept_or_retry(done)
    }

    /// Adds the windows again that a failed step has lost; returns those that are finished at once.
    fn restore(&mut self) -> Result<Vec<(ActiveWindow, DecodedWindow)>> {
        let held: BTreeSet<u64> = self.decoding.numbers().collect();
        let lost: Vec<(&u64, &ActiveWindow)> =
            self.windows.iter().filter(|(number, _)| !held.contains(number)).collect();
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        let frames = Tensor::cat(lost.iter().map(|(_, window)| window.frames.clone()).collect(), 0);
        let options = lost.into_iter().map(|(number, window)| (*number, window.options.clone())).collect();
        let done = self.decoding.add(&self.model, &frames, options)?;
        self.accept_or_retry(done)
    }

    /// Accepts results, or adds their windows again at a higher temperature; returns the accepted ones.
    fn accept_or_retry(&mut self, done: Vec<(u64, DecodedWindow)>) -> Result<Vec<(ActiveWindow, DecodedWindow)>> {
        let mut accepted = Vec::new();
        let mut waiting = done;
        while let Some((number, mut decoded)) = waiting.pop() {
            let Some(window) = self.windows.get_mut(&number) else { continue };
            match assess(&decoded, self.model.config().vocab_size) {
                Verdict::Retry if window.attempt + 1 < TEMPERATURES.len() => {
                    window.attempt += 1;
                    window.options.temperature = TEMPERATURES[window.attempt];
                    let (frames, options) = (window.frames.clone(), window.options.clone());
                    waiting.extend(self.decoding.add(&self.model, &frames, vec![(number, options)])?);
                    continue;
                }
                Verdict::Retry => cut_repetition(&mut decoded),
                Verdict::NoSpeech => {
                    decoded = DecodedWindow { no_speech: decoded.no_speech, ..DecodedWindow::default() }
                }
                Verdict::Accept => {}
            }
            accepted.push((number, decoded));
        }
        // Windows are removed only when nothing can fail any more; an error before would lose their results.
        Ok(accepted
            .into_iter()
            .filter_map(|(number, decoded)| Some((self.windows.remove(&number)?, decoded)))
            .collect())
    }
}

/// Cuts repetitions at the end down to one.
fn cut_repetition(decoded: &mut DecodedWindow) {
    let tokens = &decoded.tokens;
    let longest = tokens.len() / 3;
    let repeats = |period: &usize| {
        let last = &tokens[tokens.len() - period..];
        tokens.rchunks_exact(*period).take_while(|chunk| *chunk == last).count()
    };
    let looped = (1..=longest).map(|period| (period, repeats(&period))).find(|(_, times)| *times >= 3);
    if let Some((period, times)) = looped {
        decoded.truncate(tokens.len() - period * (times - 1));
    }
}

impl WhisperExecutor {
    fn deliver(&mut self, slots: &[usize]) -> Vec<Option<Vec<TranscribedWindow>>> {
        let take = |slot: &usize| {
            let done = self.slots.find_mut(*slot).map(|slot| std::mem::take(&mut slot.done))?;
            (!done.is_empty()).then_some(done)
        };
        slots.iter().map(take).collect()
    }

    fn store(&mut self, accepted: Vec<(ActiveWindow, DecodedWindow)>) {
        for (window, decoded) in accepted {
            if let Some(slot) = self.slots.find_mut(window.slot) {
                slot.in_decoder -= 1;
                let DecodeOptions { language, temperature, .. } = window.options;
                slot.done.push(TranscribedWindow { window: window.number, decoded, language, temperature });
            }
        }
    }

    fn encode(&mut self, number: usize, slots: &[usize]) -> Result<()> {
        let model = model_state(&mut self.models, number)?;
        let most = model.room().min(model.limit(MAX_ENCODED_CPU, MAX_ENCODED_GPU)).max(1);
        // One window of each recording in turn, so that a long recording does not delay the others.
        let mut batch: Vec<(usize, usize, WhisperInput)> = Vec::new();
        loop {
            let before = batch.len();
            for index in slots {
                if batch.len() < most
                    && let Some(slot) = self.slots.find_mut(*index)
                {
                    batch.extend(slot.waiting.pop_front().map(|(number, window)| (*index, number, window)));
                }
            }
            if batch.len() == before {
                break;
            }
        }
        let samples: Vec<&[f32]> = batch.iter().map(|(_, _, window)| window.samples.as_slice()).collect();
        let frames = model.model.encode(&samples)?;
        let mut windows = Vec::with_capacity(batch.len());
        for (row, (index, number, WhisperInput { samples, previous, has_speech })) in batch.into_iter().enumerate() {
            let slot = self.slots.get_mut(index)?;
            let frames = frames.clone().narrow(0, row, 1);
            let language = slot.language(&frames, has_speech)?;
            slot.in_decoder += 1;
            let options = DecodeOptions {
                language,
                task: slot.request.task,
                previous,
                temperature: TEMPERATURES[0],
                seed: number as u64,
                beams: slot.request.beams,
                length_penalty: 1.0,
                max_tokens: MAX_TOKENS,
                frames: samples.len().div_ceil(SAMPLES_PER_FRAME),
            };
            windows.push(ActiveWindow { slot: index, number, frames, options, attempt: 0 });
        }
        let accepted = model.add(&frames, windows)?;
        self.store(accepted);
        Ok(())
    }
}

impl WhisperSlot {
    /// Token of the language of a window. A window without speech does not decide the language of the others.
    fn language(&mut self, frames: &Tensor<3>, has_speech: bool) -> Result<u32> {
        let candidates = match &self.request.language {
            LanguageChoice::Known(token) => return Ok(*token),
            LanguageChoice::Detect(candidates) | LanguageChoice::DetectEachWindow(candidates) => candidates,
        };
        let probabilities = self.request.model.languages(frames, candidates)?;
        let probabilities = probabilities.first().into_iter().flatten().copied();
        let likeliest = candidates.iter().copied().zip(probabilities).max_by(|(_, a), (_, b)| a.total_cmp(b));
        let token = likeliest.map_or(0, |(token, _)| token);
        if has_speech && matches!(self.request.language, LanguageChoice::Detect(_)) {
            self.request.language = LanguageChoice::Known(token);
        }
        Ok(token)
    }
}

fn model_state(models: &mut [ModelState], number: usize) -> Result<&mut ModelState> {
    match models.get_mut(number) {
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
        let known = self.models.iter().position(|model| Arc::ptr_eq(&model.model, &request.model));
        let model = known.unwrap_or_else(|| {
            let model = request.model.clone();
            self.models.push(ModelState {
                model,
                decoding: DecodingBatch::new(true),
                windows: BTreeMap::new(),
                next: 0,
            });
            self.models.len() - 1
        });
        let (waiting, done) = (VecDeque::new(), Vec::new());
        self.slots.insert(slot, WhisperSlot { request, model, waiting, arrived: 0, in_decoder: 0, done });
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
        let Some(model) = self.models.get_mut(slot.model) else { return };
        let decoding = &mut model.decoding;
        model.windows.retain(|number, window| {
            if window.slot == index {
                decoding.forget(*number);
            }
            window.slot != index
        });
    }

    fn next_step(&self, slot: usize) -> Option<WhisperBatchKey> {
        let slot = self.slots.find(slot)?;
        let room = self.models.get(slot.model)?.room();
        match () {
            () if !slot.done.is_empty() => Some(WhisperBatchKey::Deliver),
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
            WhisperBatchKey::Decode(_) => Duration::from_secs(2),
        }
    }

    fn max_batch(&self, _: WhisperBatchKey) -> usize {
        usize::MAX
    }

    fn step_name(&self, key: WhisperBatchKey) -> &'static str {
        match key {
            WhisperBatchKey::Encode(_) => "window",
            WhisperBatchKey::Decode(_) => "token",
            WhisperBatchKey::Deliver => "deliver",
        }
    }

    fn step(&mut self, key: WhisperBatchKey, slots: &[usize]) -> Result<Vec<Option<Vec<TranscribedWindow>>>> {
        if let WhisperBatchKey::Encode(number) | WhisperBatchKey::Decode(number) = key
            && let Some(model) = self.models.get_mut(number)
        {
            let accepted = model.restore()?;
            self.store(accepted);
        }
        match key {
            WhisperBatchKey::Encode(model) => self.encode(model, slots)?,
            WhisperBatchKey::Decode(number) => {
                let model = model_state(&mut self.models, number)?;
                let whisper = model.model.clone();
                let done = model.decoding.step(&whisper)?;
                let accepted = model.accept_or_retry(done)?;
                self.store(accepted);
            }
            WhisperBatchKey::Deliver => {}
        }
        Ok(self.deliver(slots))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use burn::tensor::Device;

    use super::*;
    use crate::audio::AudioStream;

    /// Runs steps of this slot until it has none left; returns the results.
    fn run(executor: &mut WhisperExecutor, slot: usize) -> Vec<(Vec<u32>, u32)> {
        let mut results = Vec::new();
        while let Some(key) = executor.next_step(slot) {
            results.extend(executor.step(key, &[slot]).unwrap().into_iter().flatten().flatten());
        }
        results.into_iter().map(|window: TranscribedWindow| (window.decoded.tokens, window.language)).collect()
    }

    #[test]
    fn a_step_that_fails_costs_no_other_recording_its_windows() {
        let taught = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/whisper/taught");
        let model = Arc::new(Whisper::load(&taught, &Device::flex()).unwrap());
        let sound = AudioStream::open(taught.join("sounds/english.flac")).unwrap().read_to_end().unwrap();
        let input =
            |samples: &[f32]| WhisperInput { samples: samples.to_vec(), has_speech: true, ..WhisperInput::default() };
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
            executor.step(key, &[0]).unwrap();
        }
        executor.open(1, kind()).unwrap();
        // NaN scores make the step fail after it has begun.
        let begun = &mut executor.models[0];
        let window = begun.windows.values().next().unwrap();
        let frames = Tensor::full(window.frames.dims(), f32::NAN, &Device::flex());
        let window =
            ActiveWindow { slot: 1, number: 0, frames: frames.clone(), options: window.options.clone(), attempt: 0 };
        assert!(begun.add(&frames, vec![window]).is_err());
        executor.close(1);
        executor.open(1, kind()).unwrap();
        executor.push(1, input(&sound));
        assert_eq!(run(&mut executor, 1), alone);
        assert_eq!(run(&mut executor, 0), alone);
    }

    #[test]
    fn repetitions_at_the_end_are_cut_to_one() {
        let weights = |rows: usize| (0..rows).flat_map(|row| [row as f32; 4]).collect::<Vec<f32>>();
        let cut = |tokens: &[u32]| {
            let tokens = tokens.to_vec();
            let confidences = vec![0.5; tokens.len()];
            let mut decoded =
                DecodedWindow { weights: weights(tokens.len() + 1), tokens, confidences, ..DecodedWindow::default() };
            cut_repetition(&mut decoded);
            assert_eq!(decoded.confidences.len(), decoded.tokens.len());
            assert_eq!(decoded.weights, weights(decoded.tokens.len() + 1));
            decoded.tokens
        };
        assert_eq!(cut(&[1, 2, 3, 7, 8, 7, 8, 7, 8]), [1, 2, 3, 7, 8]);
        assert_eq!(cut(&[5, 5, 5, 5]), [5]);
        assert_eq!(cut(&[1, 2, 1, 2, 3]), [1, 2, 1, 2, 3], "twice is no loop");
        assert!(cut(&[]).is_empty());
    }

    #[test]
    fn bad_results_are_decoded_again_and_silence_is_dropped() {
        let decoded = |log_prob: f32, no_speech: f32, tokens: Vec<u32>| DecodedWindow {
            tokens,
            log_prob,
            no_speech,
            ..DecodedWindow::default()
        };
        let plain: Vec<u32> = (0..40).map(|n| n * 997 % 50_000).collect();
        assert_eq!(assess(&decoded(-0.3, 0.1, plain.clone()), 51_865), Verdict::Accept);
        assert_eq!(assess(&decoded(-0.3, 0.9, plain.clone()), 51_865), Verdict::Accept, "it is sure of the text");
        assert_eq!(assess(&decoded(-1.2, 0.1, plain.clone()), 51_865), Verdict::Retry);
        assert_eq!(assess(&decoded(-1.2, 0.9, plain), 51_865), Verdict::NoSpeech);
        assert_eq!(assess(&decoded(-0.1, 0.1, vec![900; 100]), 51_865), Verdict::Retry);
    }
}
