//! What the worker runs for checkpoints that write a window of 30 s as text, token by token: windows of all recordings are
//! decoded side by side, and where one is done the next takes its place.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use burn::tensor::Tensor;

use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::models::whisper::{DecodeOptions, DecodedWindow, DecodingBatch, Task, Whisper, compression_ratio};
use crate::scheduler::{BatchExecutor, SlotTable};

/// Windows that are decoded at a time: what is read of the weights serves all of them.
const MAX_ROWS_CPU: usize = 8;
const MAX_ROWS_GPU: usize = 32;
/// Windows that are encoded in a step.
const MAX_ENCODED_CPU: usize = 1;
const MAX_ENCODED_GPU: usize = 8;
/// Tokens of a window at most, as in the published program.
const MOST_TOKENS: usize = 224;
/// A window that was written badly is written again, with more and more left to chance.
const TEMPERATURES: [f32; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
/// What is badly written: it says the same over and over, or the model does not believe it.
const MAX_COMPRESSION_RATIO: f32 = 1.35;
const MIN_MEAN_LOG_PROB: f32 = -1.0;
/// Unlikely text where there is likely no speech is none.
const MAX_NO_SPEECH: f32 = 0.6;
/// Samples of an encoder frame.
pub const SAMPLES_PER_FRAME: usize = 320;

/// What a recording is opened with.
pub struct WhisperRequest {
    pub model: Arc<Whisper>,
    pub language: Language,
    pub task: Task,
    /// Texts that are followed at a time.
    pub beams: usize,
}

/// The language that is spoken, by its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Language {
    /// It is known.
    Known(u32),
    /// The first window in which somebody speaks tells, among these.
    Found(Vec<u32>),
    /// Each window tells for itself, among these.
    Mixed(Vec<u32>),
}

/// A window.
#[derive(Clone, Debug, Default)]
pub struct WhisperInput {
    /// At 16 kHz, 30 s at most.
    pub samples: Vec<f32>,
    /// Tokens that were said before it, or are expected.
    pub previous: Vec<u32>,
    /// Whether somebody speaks in it.
    pub spoken: bool,
}

/// What was said in a window.
#[derive(Clone, Debug)]
pub struct TranscribedWindow {
    /// The window's number, from 0 on, as they came.
    pub window: usize,
    pub said: DecodedWindow,
    /// The token of its language.
    pub language: u32,
    /// How much was left to chance.
    pub temperature: f32,
}

/// What a slot is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhisperBatchKey {
    /// Windows through the encoder, and into the decoder, of this model.
    Encode(usize),
    /// One more token of each window.
    Decode(usize),
    /// What was done in steps of others.
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
    ask: DecodeOptions,
    tries: usize,
}

struct WhisperSlot {
    request: WhisperRequest,
    /// Number of its model.
    model: usize,
    waiting: VecDeque<(usize, WhisperInput)>,
    taken: usize,
    at_work: usize,
    done: Vec<TranscribedWindow>,
}

/// What to make of a window that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    Again,
    NoSpeech,
}

fn judge(said: &DecodedWindow, vocab_size: usize) -> Verdict {
    if said.log_prob < MIN_MEAN_LOG_PROB && said.no_speech > MAX_NO_SPEECH {
        Verdict::NoSpeech
    } else if said.log_prob < MIN_MEAN_LOG_PROB || compression_ratio(&said.tokens, vocab_size) > MAX_COMPRESSION_RATIO {
        Verdict::Again
    } else {
        Verdict::Good
    }
}

impl ModelState {
    fn most(&self, on_cpu: usize, on_gpu: usize) -> usize {
        if is_cpu(self.model.device()) { on_cpu } else { on_gpu }
    }

    fn room(&self) -> usize {
        self.most(MAX_ROWS_CPU, MAX_ROWS_GPU).saturating_sub(self.decoding.rows())
    }

    /// Takes windows into the decoder; those that are done at once.
    fn add(&mut self, frames: &Tensor<3>, windows: Vec<ActiveWindow>) -> Result<Vec<(ActiveWindow, DecodedWindow)>> {
        let first = self.next;
        self.next += windows.len() as u64;
        let asks = windows.iter().enumerate().map(|(at, window)| (first + at as u64, window.ask.clone())).collect();
        self.windows.extend(windows.into_iter().enumerate().map(|(at, window)| (first + at as u64, window)));
        let done = self.decoding.add(&self.model, frames, asks)?;
        self.settle(done)
    }

    /// Takes the windows into the decoder again that a step which failed has lost; those that are done at once.
    fn restore(&mut self) -> Result<Vec<(ActiveWindow, DecodedWindow)>> {
        let held: BTreeSet<u64> = self.decoding.numbers().collect();
        let lost: Vec<(&u64, &ActiveWindow)> =
            self.windows.iter().filter(|(number, _)| !held.contains(number)).collect();
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        let frames = Tensor::cat(lost.iter().map(|(_, window)| window.frames.clone()).collect(), 0);
        let asks = lost.into_iter().map(|(number, window)| (*number, window.ask.clone())).collect();
        let done = self.decoding.add(&self.model, &frames, asks)?;
        self.settle(done)
    }

    /// Sorts out what was written: what is to be written again goes back into the decoder.
    fn settle(&mut self, done: Vec<(u64, DecodedWindow)>) -> Result<Vec<(ActiveWindow, DecodedWindow)>> {
        let mut settled = Vec::new();
        let mut waiting = done;
        while let Some((number, mut said)) = waiting.pop() {
            let Some(window) = self.windows.get_mut(&number) else { continue };
            match judge(&said, self.model.config().vocab_size) {
                Verdict::Again if window.tries + 1 < TEMPERATURES.len() => {
                    window.tries += 1;
                    window.ask.temperature = TEMPERATURES[window.tries];
                    let (frames, ask) = (window.frames.clone(), window.ask.clone());
                    waiting.extend(self.decoding.add(&self.model, &frames, vec![(number, ask)])?);
                    continue;
                }
                Verdict::Again => cut_loop(&mut said),
                Verdict::NoSpeech => said = DecodedWindow { no_speech: said.no_speech, ..DecodedWindow::default() },
                Verdict::Good => {}
            }
            settled.push((number, said));
        }
        // Not before nothing can fail any more: they would be done, and nobody would be told.
        Ok(settled.into_iter().filter_map(|(number, said)| Some((self.windows.remove(&number)?, said))).collect())
    }
}

/// Leaves one of what is said over and over at the end.
fn cut_loop(said: &mut DecodedWindow) {
    let tokens = &said.tokens;
    let longest = tokens.len() / 3;
    let repeats = |period: &usize| {
        let last = &tokens[tokens.len() - period..];
        tokens.rchunks_exact(*period).take_while(|chunk| *chunk == last).count()
    };
    let looped = (1..=longest).map(|period| (period, repeats(&period))).find(|(_, times)| *times >= 3);
    if let Some((period, times)) = looped {
        said.truncate(tokens.len() - period * (times - 1));
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

    fn keep(&mut self, settled: Vec<(ActiveWindow, DecodedWindow)>) {
        for (window, said) in settled {
            if let Some(slot) = self.slots.find_mut(window.slot) {
                slot.at_work -= 1;
                let DecodeOptions { language, temperature, .. } = window.ask;
                slot.done.push(TranscribedWindow { window: window.number, said, language, temperature });
            }
        }
    }

    fn encode(&mut self, number: usize, slots: &[usize]) -> Result<()> {
        let model = model_state(&mut self.models, number)?;
        let most = model.room().min(model.most(MAX_ENCODED_CPU, MAX_ENCODED_GPU)).max(1);
        // One of each in turn, so that no long recording keeps the others waiting.
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
        for (row, (index, number, WhisperInput { samples, previous, spoken })) in batch.into_iter().enumerate() {
            let slot = self.slots.get_mut(index)?;
            let frames = frames.clone().narrow(0, row, 1);
            let language = slot.language(&frames, spoken)?;
            slot.at_work += 1;
            let ask = DecodeOptions {
                language,
                task: slot.request.task,
                previous,
                temperature: TEMPERATURES[0],
                seed: number as u64,
                beams: slot.request.beams,
                length_penalty: 1.0,
                max_tokens: MOST_TOKENS,
                frames: samples.len().div_ceil(SAMPLES_PER_FRAME),
            };
            windows.push(ActiveWindow { slot: index, number, frames, ask, tries: 0 });
        }
        let settled = model.add(&frames, windows)?;
        self.keep(settled);
        Ok(())
    }
}

impl WhisperSlot {
    /// The token of the language of a window. One in which nobody speaks says nothing about the others.
    fn language(&mut self, frames: &Tensor<3>, spoken: bool) -> Result<u32> {
        let among = match &self.request.language {
            Language::Known(token) => return Ok(*token),
            Language::Found(among) | Language::Mixed(among) => among,
        };
        let chances = self.request.model.languages(frames, among)?;
        let chances = chances.first().into_iter().flatten().copied();
        let likeliest = among.iter().copied().zip(chances).max_by(|(_, a), (_, b)| a.total_cmp(b));
        let token = likeliest.map_or(0, |(token, _)| token);
        if spoken && matches!(self.request.language, Language::Found(_)) {
            self.request.language = Language::Known(token);
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
        self.slots.insert(slot, WhisperSlot { request, model, waiting, taken: 0, at_work: 0, done });
        Ok(())
    }

    fn push(&mut self, slot: usize, window: WhisperInput) {
        if let Some(slot) = self.slots.find_mut(slot) {
            slot.waiting.push_back((slot.taken, window));
            slot.taken += 1;
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
            // One whose windows wait for room goes along, until there is some.
            () if !slot.waiting.is_empty() || slot.at_work > 0 => Some(WhisperBatchKey::Decode(slot.model)),
            () => None,
        }
    }

    fn budget(&self, key: WhisperBatchKey) -> Duration {
        match key {
            WhisperBatchKey::Deliver => Duration::ZERO,
            // The decoder is kept full.
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
            let settled = model.restore()?;
            self.keep(settled);
        }
        match key {
            WhisperBatchKey::Encode(model) => self.encode(model, slots)?,
            WhisperBatchKey::Decode(number) => {
                let model = model_state(&mut self.models, number)?;
                let whisper = model.model.clone();
                let done = model.decoding.step(&whisper)?;
                let settled = model.settle(done)?;
                self.keep(settled);
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

    /// Steps over this slot until it has nothing left; what was written.
    fn run(executor: &mut WhisperExecutor, slot: usize) -> Vec<(Vec<u32>, u32)> {
        let mut written = Vec::new();
        while let Some(key) = executor.next_step(slot) {
            written.extend(executor.step(key, &[slot]).unwrap().into_iter().flatten().flatten());
        }
        written.into_iter().map(|written: TranscribedWindow| (written.said.tokens, written.language)).collect()
    }

    #[test]
    fn a_step_that_fails_costs_no_other_recording_its_windows() {
        let taught = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/whisper/taught");
        let model = Arc::new(Whisper::load(&taught, &Device::flex()).unwrap());
        let sound = AudioStream::open(&taught.join("sounds/english.flac")).unwrap().read_to_end().unwrap();
        let input =
            |samples: &[f32]| WhisperInput { samples: samples.to_vec(), spoken: true, ..WhisperInput::default() };
        let languages: Vec<u32> = model.config().special.languages.values().copied().collect();
        let kind = || WhisperRequest {
            model: model.clone(),
            language: Language::Found(languages.clone()),
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
        // Its scores are no numbers, which is found out once the step has begun.
        let begun = &mut executor.models[0];
        let window = begun.windows.values().next().unwrap();
        let frames = Tensor::full(window.frames.dims(), f32::NAN, &Device::flex());
        let window = ActiveWindow { slot: 1, number: 0, frames: frames.clone(), ask: window.ask.clone(), tries: 0 };
        assert!(begun.add(&frames, vec![window]).is_err());
        executor.close(1);
        executor.open(1, kind()).unwrap();
        executor.push(1, input(&sound));
        assert_eq!(run(&mut executor, 1), alone);
        assert_eq!(run(&mut executor, 0), alone);
    }

    #[test]
    fn what_is_said_over_and_over_is_said_once() {
        let weights = |rows: usize| (0..rows).flat_map(|row| [row as f32; 4]).collect::<Vec<f32>>();
        let cut = |tokens: &[u32]| {
            let tokens = tokens.to_vec();
            let confidences = vec![0.5; tokens.len()];
            let mut said =
                DecodedWindow { weights: weights(tokens.len() + 1), tokens, confidences, ..DecodedWindow::default() };
            cut_loop(&mut said);
            assert_eq!(said.confidences.len(), said.tokens.len());
            assert_eq!(said.weights, weights(said.tokens.len() + 1));
            said.tokens
        };
        assert_eq!(cut(&[1, 2, 3, 7, 8, 7, 8, 7, 8]), [1, 2, 3, 7, 8]);
        assert_eq!(cut(&[5, 5, 5, 5]), [5]);
        assert_eq!(cut(&[1, 2, 1, 2, 3]), [1, 2, 1, 2, 3], "twice is no loop");
        assert!(cut(&[]).is_empty());
    }

    #[test]
    fn what_is_badly_written_is_written_again_and_silence_is_none() {
        let said = |log_prob: f32, no_speech: f32, tokens: Vec<u32>| DecodedWindow {
            tokens,
            log_prob,
            no_speech,
            ..DecodedWindow::default()
        };
        let plain: Vec<u32> = (0..40).map(|n| n * 997 % 50_000).collect();
        assert_eq!(judge(&said(-0.3, 0.1, plain.clone()), 51_865), Verdict::Good);
        assert_eq!(judge(&said(-0.3, 0.9, plain.clone()), 51_865), Verdict::Good, "it is sure of the text");
        assert_eq!(judge(&said(-1.2, 0.1, plain.clone()), 51_865), Verdict::Again);
        assert_eq!(judge(&said(-1.2, 0.9, plain), 51_865), Verdict::NoSpeech);
        assert_eq!(judge(&said(-0.1, 0.1, vec![900; 100]), 51_865), Verdict::Again);
    }
}
