//! Speech: a text, whole or as it is written, and its sound as it is made.

use auricle_engine::{SPEECH_RATE, SpeakOptions, SpeechFrames, SpeechInput};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Wyoming;
use super::event::Event;
use crate::api::openai::speech::{MAX_CHARS, pcm16, refused};
use crate::http::response::{ApiError, Result};
use crate::sharing::Place;

/// The data of `synthesize` and `synthesize-start`.
#[derive(Debug, Deserialize)]
pub struct Synthesis {
    voice: Option<Voice>,
    text_format: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Voice {
    name: Option<String>,
    language: Option<String>,
    speaker: Option<String>,
}

impl Synthesis {
    /// # Errors
    /// For what the voices cannot do.
    fn options(self, state: &Wyoming) -> Result<SpeakOptions> {
        if let Some(other) = self.text_format.filter(|format| format != "text") {
            return Err(ApiError::unsupported_option(format!("`text_format` must be text; it is {other:?}.")));
        }
        let Voice { name, language, speaker } = self.voice.unwrap_or_default();
        if let Some(other) = speaker.filter(|speaker| !speaker.is_empty()) {
            return Err(ApiError::unsupported_option(format!("The voices have no speakers; `speaker` is {other:?}.")));
        }
        let mut options = SpeakOptions::default().account(state.account.as_str());
        options.voice = [name, language].into_iter().flatten().find(|text| !text.is_empty());
        Ok(options)
    }
}

/// Speech under way.
pub struct Speech {
    /// None once the text has ended.
    input: Option<SpeechInput>,
    frames: SpeechFrames,
    chars: usize,
    samples: u64,
    has_begun: bool,
    is_streamed: bool,
    _place: Place,
}

impl Speech {
    /// Speech of a text that follows in chunks.
    ///
    /// # Errors
    /// For a voice that there is not, and if there is no place for another text.
    pub async fn start(state: &Wyoming, wanted: Synthesis) -> Result<Self> {
        let engine = state.speech.engine()?;
        let options = wanted.options(state)?;
        let place = state.speech.place(&state.account)?;
        let (input, frames) = engine.speak(&options).await.map_err(refused)?;
        Ok(Self {
            input: Some(input),
            frames,
            chars: 0,
            samples: 0,
            has_begun: false,
            is_streamed: true,
            _place: place,
        })
    }

    /// Speech of this text.
    ///
    /// # Errors
    /// As [`Speech::start`], and for a text that is too long.
    pub async fn of(state: &Wyoming, wanted: Synthesis, text: &str) -> Result<Self> {
        let mut speech = Self { is_streamed: false, ..Self::start(state, wanted).await? };
        speech.push(text)?;
        speech.finish();
        Ok(speech)
    }

    /// True until the text has ended.
    pub fn takes_text(&self) -> bool {
        self.input.is_some()
    }

    /// # Errors
    /// For a text that is too long.
    pub fn push(&mut self, text: &str) -> Result<()> {
        self.chars += text.chars().count();
        if self.chars > MAX_CHARS {
            return Err(ApiError::validation(format!("A text has at most {MAX_CHARS} characters.")));
        }
        self.input.as_mut().map_or(Ok(()), |input| input.push(text)).map_err(refused)
    }

    /// Ends the text: the rest of it is said.
    pub fn finish(&mut self) {
        if let Some(input) = self.input.take() {
            input.finish();
        }
    }

    /// The next events, and if they are the last. Dropping the future loses nothing.
    ///
    /// # Errors
    /// If the sound cannot be made.
    pub async fn next(&mut self) -> Result<(Vec<Event>, bool)> {
        let frame = self.frames.next().await.transpose().map_err(refused)?;
        let mut events = Vec::new();
        if !self.has_begun {
            self.has_begun = true;
            events.push(Event::new("audio-start", self.format()));
        }
        let Some(frame) = frame else {
            events.push(Event::new("audio-stop", json!({ "timestamp": self.timestamp() })));
            if self.is_streamed {
                events.push(Event::new("synthesize-stopped", Value::Null));
            }
            return Ok((events, true));
        };
        let mut chunk = Event::new("audio-chunk", self.format());
        chunk.payload = pcm16(&frame.samples);
        self.samples += frame.samples.len() as u64;
        events.push(chunk);
        Ok((events, false))
    }

    /// Milliseconds of sound so far.
    fn timestamp(&self) -> u64 {
        self.samples * 1000 / u64::from(SPEECH_RATE)
    }

    fn format(&self) -> Value {
        json!({ "rate": SPEECH_RATE, "width": 2, "channels": 1, "timestamp": self.timestamp() })
    }
}
