//! A session with the engine, and what is awaited of it.

use std::collections::VecDeque;
use std::future::pending;

use auricle_engine::{EndpointingRules, Engine, LiveEvents, LiveInput, LiveOutput, Result};

use super::item::Item;
use super::settings::{Settings, language_code};
use super::speech_gate::CHUNK_MS;
use crate::live::LiveState;

/// Silence after which the engine ends a turn by itself, ms: the rules of the session end theirs before, and its parts are joined.
const ENGINE_SILENCE_MS: u32 = 4_000;

/// An end of a turn whose text is awaited.
pub enum Cut {
    Item(Item),
    /// The text is dropped.
    Cleared,
    /// The text is part of the turn that goes on.
    Part,
}

/// A session with the engine.
pub struct Recognizer {
    pub input: LiveInput,
    pub events: LiveEvents,
    /// In the order of the speech. Each ends with [`LiveOutput::Settled`].
    pub cuts: VecDeque<Cut>,
    rate: u32,
    /// Samples pushed.
    samples: u64,
}

impl Recognizer {
    /// # Errors
    /// As [`Engine::listen`].
    pub async fn open(engine: &Engine, state: &LiveState, settings: &Settings) -> Result<Self> {
        let input = &settings.audio.input;
        let rate = input.format.audio().rate;
        let mut options = state
            .settings
            .listen_options(input.transcription.live_model(), rate)
            .keyterms(input.transcription.keyterms())
            .turns(EndpointingRules::default().silence_ms(ENGINE_SILENCE_MS));
        let languages = &input.transcription.languages;
        options.language = input.transcription.language.as_deref().map(language_code);
        match languages.as_slice() {
            [] => {}
            [only] => options.language = options.language.or_else(|| Some(language_code(only))),
            several => options.languages = several.iter().map(|code| language_code(code)).collect(),
        }
        let (input, events) = engine.listen(&options).await?;
        Ok(Self { input, events, cuts: VecDeque::new(), rate, samples: 0 })
    }

    /// Audio so far, ms.
    pub fn pushed_ms(&self) -> u64 {
        self.samples * 1000 / u64::from(self.rate)
    }

    /// Takes samples; returns the speech probabilities of the chunks that they complete.
    ///
    /// # Errors
    /// As [`LiveInput::push`].
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<f32>> {
        self.samples += samples.len() as u64;
        self.input.push_and_detect(samples)
    }

    /// Completes the detector's last chunk by silence, so that a cut leaves no audio behind.
    ///
    /// # Errors
    /// As [`LiveInput::push`].
    pub fn complete_chunk(&mut self) -> Result<()> {
        let samples = self.rate as usize * CHUNK_MS as usize / 1000;
        self.push(&vec![0.0; samples]).map(drop)
    }

    /// Ends the turn here.
    pub fn cut(&mut self, cut: Cut) {
        self.cuts.push_back(cut);
        self.input.end_turn();
    }
}

/// The next output; none ever comes without a session.
pub async fn next(events: Option<&mut LiveEvents>) -> Option<Result<LiveOutput>> {
    match events {
        Some(events) => events.next_output().await,
        None => pending().await,
    }
}

/// As [`LiveInput::caught_up`].
pub async fn caught_up(input: Option<&mut LiveInput>, ahead_ms: u64) {
    match input {
        Some(input) => input.caught_up(ahead_ms).await,
        None => pending().await,
    }
}
