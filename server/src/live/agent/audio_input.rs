//! Audio input: recognition of the caller, and the detector that tells speech from other sounds.

use std::collections::VecDeque;
use std::time::Duration;

use auricle_engine::audio::{ECHO_FRAME as FRAME, EchoCanceller, SAMPLE_RATE};
use auricle_engine::converse::{EXPECTED_WORDS, VOICE_RATE};
use auricle_engine::{EndpointingRules, Engine, Error, Keyterm, ListenOptions, LiveEvent, LiveEvents, LiveInput};

use super::settings::Settings;
use crate::billing::{Price, ProductKind};
use crate::live::LiveState;
use crate::live::codec::Decoder;

/// Speech goes on while its probability is this much below the threshold.
const HYSTERESIS: f32 = 0.15;
/// Length of a chunk of the detector, ms.
pub const CHUNK_MS: u32 = 32;
/// Samples of such a chunk.
const CHUNK: usize = (SAMPLE_RATE / 1000 * CHUNK_MS) as usize;
const _: () = assert!(CHUNK.is_multiple_of(FRAME), "a chunk has whole frames");
/// Silence after which recognition ends a turn by itself, ms: the conversation ends its turns long before.
const RECOGNIZER_SILENCE_MS: u32 = 4_000;

/// Time that a reply may wait for the second pass of a turn, ms. Words are asked for early in a pause, so that mostly none of it is lost;
/// where the device is too busy, the first pass's words are answered.
const AGENT_FORMATTED_WITHIN_MS: u32 = 150;

/// The live model that recognises the caller.
pub fn recognizer() -> &'static str {
    Price::default_of(ProductKind::Realtime).model
}

/// A place in the audio. Once all words before it have come, [`auricle_engine::LiveOutput::Settled`] does.
#[derive(Debug, PartialEq, Eq)]
pub enum Cut {
    /// The conversation awaits the words.
    Turn,
    /// It awaits the end of them alone: the turn was dropped meanwhile.
    Dropped,
    /// Nothing awaits the words.
    Cleared,
    /// The client has ended a turn.
    Item(Part),
}

/// Words of a turn that the client ends.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The item that they belong to.
    pub item: String,
    texts: Vec<String>,
}

impl Part {
    /// Takes words that do not change any more, or the last of them as they are written.
    pub fn take(&mut self, event: LiveEvent) {
        match (event, self.texts.last_mut()) {
            (LiveEvent::Final(caption), _) => self.texts.push(caption.text),
            (LiveEvent::Formatted(caption), Some(last)) => *last = caption.text,
            _ => {}
        }
    }

    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.texts.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        texts.join(" ")
    }
}

/// Recognition of the caller.
pub struct AudioInput {
    pub input: LiveInput,
    pub events: LiveEvents,
    pub decoder: Decoder,
    /// Takes the agent's voice out of what is heard.
    pub echo: EchoCanceller,
    pub rate: u32,
    /// True while the detector hears speech.
    is_speech: bool,
    /// Frames of which no chunk has been detected yet: true for echo.
    is_echo: VecDeque<bool>,
    /// Places in the audio whose words are awaited, the oldest first.
    pub cuts: VecDeque<Cut>,
    /// Questions to the turn detector that wait for their answers, the oldest first.
    pub questions: VecDeque<u64>,
}

impl AudioInput {
    /// # Errors
    /// The code and message for the client, and the close code.
    pub async fn open(
        engine: &Engine,
        live: &LiveState,
        settings: &Settings,
    ) -> Result<Self, (&'static str, String, u16)> {
        let mut options = ListenOptions::default()
            .model(recognizer())
            .sample_rate(SAMPLE_RATE)
            .keyterms(expected(settings))
            .refreshed_partials(false)
            .turns(EndpointingRules::default().silence_ms(RECOGNIZER_SILENCE_MS))
            .language_model(live.settings.language_model.clone())
            .second_pass(live.settings.second_pass.clone())
            .formatted_within_ms(AGENT_FORMATTED_WITHIN_MS);
        // A conversation needs words as they are spoken, which the live checkpoint alone gives.
        if let Ok([only]) = engine.catalog().choose(recognizer()).map(|choice| choice.languages) {
            options.language = Some(only.clone());
        }
        let (input, events) = match engine.listen(&options).await {
            Ok(opened) => opened,
            Err(Error::Busy(_)) => {
                let message = "There is no room for another session now. Try again later.";
                return Err(("unavailable", message.into(), 1013));
            }
            Err(error) => {
                tracing::error!(%error, "starting a voice agent failed");
                return Err(("recognition_failed", "The session could not be started. Try again.".into(), 1011));
            }
        };
        if !input.has_detector() {
            tracing::error!("a voice agent needs a speech detector, and the catalog has none");
            let message = "The service has no speech detector, which a voice agent needs.";
            return Err(("recognition_failed", message.into(), 1011));
        }
        let decoder = Decoder::new(settings.input);
        let echo = EchoCanceller::new(settings.input.rate, VOICE_RATE).map_err(|error| {
            tracing::error!(%error, "starting a voice agent failed");
            ("recognition_failed", "The session could not be started. Try again.".to_owned(), 1011)
        })?;
        Ok(Self {
            input,
            events,
            decoder,
            echo,
            rate: settings.input.rate,
            is_speech: false,
            is_echo: VecDeque::new(),
            cuts: VecDeque::new(),
            questions: VecDeque::new(),
        })
    }

    /// Hears samples that came now; true for each chunk that is speech.
    pub fn hear(&mut self, samples: &[f32], now: Duration, threshold: f32) -> auricle_engine::Result<Vec<bool>> {
        let heard = self.echo.hear(samples, now)?;
        self.is_echo.extend(heard.is_echo);
        let probabilities = self.input.push_and_detect(&heard.samples)?;
        let is_speech = probabilities.into_iter().map(|probability| {
            let least = if self.is_speech { threshold - HYSTERESIS } else { threshold };
            self.is_speech = probability >= least;
            let is_echo = self.take_chunk_echo();
            self.is_speech && !is_echo
        });
        Ok(is_speech.collect())
    }

    /// True if most frames of the next chunk of the detector are echo.
    fn take_chunk_echo(&mut self) -> bool {
        let frames = self.is_echo.len().min(CHUNK / FRAME);
        2 * self.is_echo.drain(..frames).filter(|is_echo| *is_echo).count() > frames
    }
}

/// The words that recognition is to expect: the user's keyterms, and those of any conversation.
fn expected(settings: &Settings) -> impl Iterator<Item = Keyterm> {
    let words = EXPECTED_WORDS.iter().map(|(word, weight)| Keyterm::from(*word).weight(*weight));
    settings.keyterms.iter().map(|term| Keyterm::from(term.as_str())).chain(words)
}
