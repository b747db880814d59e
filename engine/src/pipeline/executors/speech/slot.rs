//! A stream of speech on its device: what is asked of it, what it says, and what it has made.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::phrase::Phrase;
use super::voice_model::{Measures, ModelVoice, VoiceModel};
use crate::models::kokoro;
use crate::models::pocket_tts::Utterance;
use crate::models::vocos::VocosState;

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
    pub voice: ModelVoice,
    pub speed: f32,
    /// Loudness and pace of the voice.
    pub measures: Measures,
    /// No more is made than the reader needs soon.
    pub paced: bool,
    pub account: Option<String>,
    pub progress: Arc<Progress>,
}

/// The next samples of a stream, at the model's rate.
pub struct SpeechOutput {
    pub samples: Vec<f32>,
    /// Words that begin in these samples or, if it tells as much, later in their phrase, with samples since the phrase's first.
    pub words: Vec<(String, Range<usize>)>,
    /// The phrase ends with them.
    pub ends_phrase: bool,
}

/// A stream.
pub struct SpeechSlot {
    pub model: usize,
    pub request: SpeechRequest,
    pub phrases: VecDeque<Phrase>,
    /// The phrase that is being said.
    pub speaking: Option<Speaking>,
    /// Samples so far.
    pub made: u64,
}

/// A phrase that is being said.
pub enum Speaking {
    Mels(MelSpeaking),
    Frames(FrameSpeaking),
    Clause(ClauseSpeaking),
}

/// A phrase that is made as a whole, in several steps.
pub struct ClauseSpeaking {
    pub utterance: kokoro::Utterance,
    pub words: Vec<(String, Range<usize>)>,
}

/// A phrase between the acoustic model and its last sample.
pub struct MelSpeaking {
    pub mels: Vec<f32>,
    /// The first frame that the vocoder has not taken.
    pub next: usize,
    pub frames: usize,
    pub vocoder: VocosState,
    pub words: Vec<(String, Range<usize>)>,
    /// Samples so far, and in all.
    pub made: usize,
    pub total: usize,
}

/// A phrase whose frames come one by one.
pub struct FrameSpeaking {
    pub utterance: Utterance,
    /// The words that are not said yet, where they are by the voice's pace.
    pub words: VecDeque<(String, Range<usize>)>,
    /// Samples so far.
    pub made: usize,
}

impl FrameSpeaking {
    /// Takes the words that begin in the samples so far; all that are left where the phrase ends with them.
    pub fn begun_words(&mut self, is_last: bool) -> Vec<(String, Range<usize>)> {
        let begun = self.words.iter().take_while(|(_, place)| is_last || place.start < self.made).count();
        let place = |Range { start, end }: Range<usize>| match is_last {
            true => start.min(self.made)..end.min(self.made),
            false => start..end,
        };
        self.words.drain(..begun).map(|(word, at)| (word, place(at))).collect()
    }
}

impl SpeechSlot {
    /// Seconds of speech that the reader has not taken yet.
    pub fn ahead_s(&self) -> f64 {
        let delivered = self.request.progress.delivered.load(Ordering::Acquire);
        self.made.saturating_sub(delivered) as f64 / f64::from(self.request.model.sample_rate())
    }

    /// Counts a phrase that the device has begun.
    pub fn begin_phrase(&self) {
        self.request.progress.begun.fetch_add(1, Ordering::AcqRel);
    }

    /// Brings samples of the phrase, from `first` on, to the voice's loudness, with soft ends; `total` are the phrase's, once its end is
    /// known.
    pub fn finish(&self, samples: &mut [f32], first: usize, total: Option<usize>) {
        let fade = (FADE_S * f64::from(self.request.model.sample_rate())) as usize;
        for (at, sample) in samples.iter_mut().enumerate() {
            let to_end = total.map_or(fade, |total| (total - 1).saturating_sub(first + at));
            let from_end = (first + at).min(to_end);
            if from_end < fade {
                *sample *= from_end as f32 / fade as f32;
            }
            *sample = limited(*sample * self.request.measures.gain);
        }
    }
}

/// A sample with its loudest part compressed to less than 1.
fn limited(sample: f32) -> f32 {
    let over = sample.abs() - KNEE;
    if over <= 0.0 { sample } else { sample.signum() * (KNEE + (1.0 - KNEE) * (over / (1.0 - KNEE)).tanh()) }
}
