//! The windows of a Whisper checkpoint in the decoder: added, decoded again where the result is bad, restored after a failed step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use burn::tensor::Tensor;

use crate::decoding::repeated_tail;
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::models::whisper::{DecodeOptions, DecodedWindow, DecodingBatch, Whisper, WindowAudio, compression_ratio};

/// Most windows that are decoded at once: they share each pass over the weights.
const MAX_ROWS_CPU: usize = 8;
const MAX_ROWS_GPU: usize = 32;
/// Temperature fallback: a window with a bad result is decoded again at the next higher temperature.
pub const TEMPERATURES: [f32; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
/// A result above this compression ratio (repetition) or below this mean log probability is bad.
const MAX_COMPRESSION_RATIO: f32 = 1.35;
const MIN_MEAN_LOG_PROB: f32 = -1.0;
/// An unlikely result is dropped as silence above this no-speech probability.
const MAX_NO_SPEECH: f32 = 0.6;
/// A window with less speech than this is not decoded again: other sounds pass as so much speech, and sampled text
/// of them is made up. Its first result has to be good, and above this no-speech probability its language has to be known.
pub const LITTLE_SPEECH_MS: u64 = 1500;
const MAX_NO_SPEECH_UNKNOWN_LANGUAGE: f32 = 0.5;
/// Nobody says more tokens in so little speech than these and so many in each second. Timestamps count.
const MOST_TOKENS: u64 = 6;
const MOST_TOKENS_PER_S: u64 = 12;

/// The decoder of a model, and the windows in it.
pub struct ModelState {
    pub model: Arc<Whisper>,
    decoding: DecodingBatch,
    pub windows: BTreeMap<u64, ActiveWindow>,
    next: u64,
}

/// A window in the decoder.
pub struct ActiveWindow {
    pub slot: usize,
    pub number: usize,
    pub audio: WindowAudio,
    pub options: DecodeOptions,
    /// Token of its language, if it is likely to be the one spoken.
    pub known_language: Option<u32>,
    /// Length of the speech in it, ms.
    pub speech_ms: u64,
    /// Index of its temperature.
    pub attempt: usize,
}

/// Assessment of a decoded window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Accept,
    Retry,
    NoSpeech,
}

fn assess(decoded: &DecodedWindow, window: &ActiveWindow, vocab_size: usize) -> Verdict {
    let is_unlikely = decoded.log_prob < MIN_MEAN_LOG_PROB;
    let is_bad = is_unlikely || compression_ratio(&decoded.tokens, vocab_size) > MAX_COMPRESSION_RATIO;
    let is_silent = decoded.no_speech > MAX_NO_SPEECH;
    // Words without any speech are dropped and counted later.
    let has_little_speech = (1..LITTLE_SPEECH_MS).contains(&window.speech_ms);
    let may_be_silent = decoded.no_speech > MAX_NO_SPEECH_UNKNOWN_LANGUAGE && window.known_language.is_none();
    let has_too_many = decoded.tokens.len() as u64 > MOST_TOKENS + window.speech_ms * MOST_TOKENS_PER_S / 1000;
    match () {
        () if is_unlikely && is_silent => Verdict::NoSpeech,
        () if has_little_speech && (is_bad || may_be_silent || has_too_many) => Verdict::NoSpeech,
        () if is_bad => Verdict::Retry,
        () => Verdict::Accept,
    }
}

/// A decoded window, or why it could not be.
pub type Outcome = (ActiveWindow, Result<DecodedWindow>);

impl ModelState {
    /// A model without windows.
    pub fn new(model: Arc<Whisper>) -> Self {
        Self { model, decoding: DecodingBatch::new(true), windows: BTreeMap::new(), next: 0 }
    }

    pub fn limit(&self, on_cpu: usize, on_gpu: usize) -> usize {
        if is_cpu(self.model.device()) { on_cpu } else { on_gpu }
    }

    pub fn room(&self) -> usize {
        self.limit(MAX_ROWS_CPU, MAX_ROWS_GPU).saturating_sub(self.decoding.rows())
    }

    /// Adds windows to the decoder, in the order of the frames of each length, `[windows, frames, size]`; returns those that are finished at once.
    pub fn add(&mut self, frames: Vec<Tensor<3>>, windows: Vec<ActiveWindow>) -> Result<Vec<Outcome>> {
        let first = self.next;
        self.next += windows.len() as u64;
        let options =
            windows.iter().enumerate().map(|(at, window)| (first + at as u64, window.options.clone())).collect();
        self.windows.extend(windows.into_iter().enumerate().map(|(at, window)| (first + at as u64, window)));
        let (mut started, mut numbers) = (Vec::with_capacity(frames.len()), first..self.next);
        for frames in frames {
            let state = self.model.decoder().start(&frames)?;
            for (audio, number) in state.audio(&frames).into_iter().zip(&mut numbers) {
                self.windows.entry(number).and_modify(|window| window.audio = audio);
            }
            started.push(state);
        }
        let done = self.decoding.add_started(&self.model, started, options)?;
        self.accept_or_retry(done)
    }

    /// Decodes one more token of each window; returns those that are finished.
    pub fn step(&mut self) -> Result<Vec<Outcome>> {
        let done = self.decoding.step(&self.model)?;
        self.accept_or_retry(done)
    }

    /// Decodes the windows of one slot to their end, without any other's.
    pub fn decode_alone(&mut self, slot: usize) -> Result<Vec<Outcome>> {
        let (own, others): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.windows).into_iter().partition(|(_, window)| window.slot == slot);
        own.keys().for_each(|number| self.decoding.forget(*number));
        let mut alone = Self { model: self.model.clone(), windows: own, ..Self::new(self.model.clone()) };
        self.windows = others;
        let mut accepted = alone.restore(|_| true)?;
        while !alone.windows.is_empty() {
            accepted.extend(alone.step()?);
        }
        Ok(accepted)
    }

    /// Takes the decoder and its windows away, so that a window can be added without the others.
    pub fn set_aside(&mut self) -> (DecodingBatch, BTreeMap<u64, ActiveWindow>) {
        (std::mem::replace(&mut self.decoding, DecodingBatch::new(true)), std::mem::take(&mut self.windows))
    }

    /// Puts them back. A window that was added in between is decoded by [`ModelState::decode_alone`].
    pub fn put_back(&mut self, (decoding, windows): (DecodingBatch, BTreeMap<u64, ActiveWindow>)) {
        self.decoding = decoding;
        self.windows.extend(windows);
    }

    /// Removes the windows of a slot.
    pub fn forget(&mut self, slot: usize) {
        let decoding = &mut self.decoding;
        self.windows.retain(|number, window| {
            if window.slot == slot {
                decoding.forget(*number);
            }
            window.slot != slot
        });
    }

    /// Adds the windows again that a failed step has lost, of these slots; returns those that are finished at once.
    pub fn restore(&mut self, of: impl Fn(usize) -> bool) -> Result<Vec<Outcome>> {
        let held: BTreeSet<u64> = self.decoding.numbers().collect();
        let lost: Vec<(&u64, &ActiveWindow)> =
            self.windows.iter().filter(|(number, window)| !held.contains(number) && of(window.slot)).collect();
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        let started = lost.iter().map(|(_, window)| self.model.decoder().start_again(&window.audio));
        let started = started.collect::<Result<_>>()?;
        let options = lost.into_iter().map(|(number, window)| (*number, window.options.clone())).collect();
        let done = self.decoding.add_started(&self.model, started, options)?;
        self.accept_or_retry(done)
    }

    /// Accepts results, or adds their windows again at a higher temperature; returns the accepted ones.
    fn accept_or_retry(&mut self, done: Vec<(u64, DecodedWindow)>) -> Result<Vec<Outcome>> {
        let mut accepted: Vec<(u64, Result<DecodedWindow>)> = Vec::new();
        let mut waiting = done;
        while let Some((number, mut decoded)) = waiting.pop() {
            if !decoded.log_prob.is_finite() {
                let reason = "the decoder's scores are not finite".into();
                accepted.push((number, Err(Error::Device { device: "in use".into(), reason })));
                continue;
            }
            let Some(window) = self.windows.get_mut(&number) else { continue };
            match assess(&decoded, window, self.model.config().vocab_size) {
                Verdict::Retry if window.attempt + 1 < TEMPERATURES.len() => {
                    window.attempt += 1;
                    window.options.temperature = TEMPERATURES[window.attempt];
                    let started = vec![self.model.decoder().start_again(&window.audio)?];
                    let options = vec![(number, window.options.clone())];
                    waiting.extend(self.decoding.add_started(&self.model, started, options)?);
                    continue;
                }
                Verdict::Retry => {
                    cut_repetition(&mut decoded);
                    decoded.cut_off = false;
                }
                Verdict::NoSpeech => {
                    decoded = DecodedWindow { no_speech: decoded.no_speech, ..DecodedWindow::default() }
                }
                Verdict::Accept => {}
            }
            accepted.push((number, Ok(decoded)));
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
    match repeated_tail(&decoded.tokens) {
        0 => {}
        repeated => decoded.truncate(decoded.tokens.len() - repeated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let assessed = |log_prob: f32, no_speech: f32, tokens: &[u32], speech_ms: u64, known_language: Option<u32>| {
            let decoded = DecodedWindow { tokens: tokens.to_vec(), log_prob, no_speech, ..DecodedWindow::default() };
            let frames = Tensor::zeros([1, 1, 1], &burn::tensor::Device::flex());
            let (options, attempt) = (DecodeOptions::default(), 0);
            let window = ActiveWindow {
                slot: 0,
                number: 0,
                audio: WindowAudio::Frames(Box::new(frames)),
                options,
                known_language,
                speech_ms,
                attempt,
            };
            assess(&decoded, &window, 51_865)
        };
        let plain: Vec<u32> = (0..40).map(|n| n * 997 % 50_000).collect();
        let much = |log_prob, no_speech| assessed(log_prob, no_speech, &plain, 8000, None);
        assert_eq!(much(-0.3, 0.1), Verdict::Accept);
        assert_eq!(much(-0.3, 0.9), Verdict::Accept, "it is sure of the text");
        assert_eq!(much(-1.2, 0.1), Verdict::Retry);
        assert_eq!(much(-1.2, 0.9), Verdict::NoSpeech);
        assert_eq!(assessed(-0.1, 0.1, &[900; 100], 8000, None), Verdict::Retry);
        // A quiet "yes", and what a barking dog and a baby gave.
        let little = |log_prob, no_speech, language| assessed(log_prob, no_speech, &plain[..4], 400, language);
        assert_eq!(little(-0.9, 0.75, Some(1)), Verdict::Accept);
        assert_eq!(little(-0.8, 0.65, None), Verdict::NoSpeech);
        assert_eq!(little(-1.3, 0.25, Some(1)), Verdict::NoSpeech);
        assert_eq!(assessed(-0.1, 0.3, &[900; 100], 400, Some(1)), Verdict::NoSpeech);
        assert_eq!(assessed(-0.6, 0.4, &plain[..20], 256, Some(1)), Verdict::NoSpeech, "80 tokens a second");
    }
}
