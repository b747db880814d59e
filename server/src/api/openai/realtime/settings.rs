//! The settings of a session: the `session` object of the protocol, as it is echoed and as updates change it.

use auricle_engine::{Keyterm, SAMPLE_RATES};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::transcriptions::hints;
use super::super::{live_model, no_such_model};
use crate::http::body::Fields;
use crate::http::response::{ApiError, Result};
use crate::live::LiveState;
use crate::live::codec::{AudioFormat, Encoding};
use crate::live::realtime::check_language;

/// The rate of PCM if none is given, and that of mu-law and A-law, in hertz.
const PCM_RATE: u32 = 24_000;
const COMPANDED_RATE: u32 = 8_000;
/// The longest padding, and the longest silence that may end a turn, ms.
const MAX_TURN_MS: i64 = 10_000;
/// The longest prompt, in characters. A client secret holds it within a header.
const MAX_PROMPT: usize = 4_096;
/// The most keywords, and the longest, in characters.
const MAX_KEYWORDS: usize = 100;
const MAX_KEYWORD: usize = 100;
/// Models in whose sessions the client's commits end turns, unless it asks for their detection.
const COMMITTED_MODELS: [&str; 2] = ["gpt-realtime-whisper", "gpt-live-transcribe"];
/// The most languages of a list.
const MAX_LANGUAGES: usize = 16;

const CONVERSATIONS: &str = "A transcription session cannot become a conversation: connect with ?model=svc-agent, or make a secret of the \
                             type realtime.";

/// The settings of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    r#type: SessionType,
    pub audio: Audio,
    pub include: Option<Vec<Include>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SessionType {
    #[default]
    Transcription,
}

/// A field that events have only if the client asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Include {
    #[serde(rename = "item.input_audio_transcription.logprobs")]
    Logprobs,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Audio {
    pub input: Input,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    pub format: Format,
    pub transcription: Transcription,
    /// Audio reaches the models as it comes, so that this is always null.
    noise_reduction: Option<()>,
    pub turn_detection: Option<TurnDetection>,
}

impl Default for Input {
    fn default() -> Self {
        Self {
            format: Format::default(),
            transcription: Transcription::default(),
            noise_reduction: None,
            turn_detection: Some(TurnDetection::default()),
        }
    }
}

/// The format of the client's audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Format {
    #[serde(rename = "audio/pcm")]
    Pcm { rate: u32 },
    #[serde(rename = "audio/pcmu")]
    Mulaw,
    #[serde(rename = "audio/pcma")]
    Alaw,
}

impl Default for Format {
    fn default() -> Self {
        Self::Pcm { rate: PCM_RATE }
    }
}

impl Format {
    pub fn audio(self) -> AudioFormat {
        match self {
            Self::Pcm { rate } => AudioFormat { encoding: Encoding::Pcm, rate },
            Self::Mulaw => AudioFormat { encoding: Encoding::Mulaw, rate: COMPANDED_RATE },
            Self::Alaw => AudioFormat { encoding: Encoding::Alaw, rate: COMPANDED_RATE },
        }
    }

    /// True for the format of calls, whose tracks have an encoding of their own.
    pub fn is_of_tracks(self) -> bool {
        self == Self::default()
    }

    /// # Errors
    /// For a format that is not served.
    pub fn read(value: Value) -> Result<Self> {
        let mut fields = Fields::of("format", value)?;
        let kind = fields.string("type")?;
        let rates = i64::from(*SAMPLE_RATES.start())..=i64::from(*SAMPLE_RATES.end());
        let rate = fields.integer("rate", rates)?.and_then(|rate| u32::try_from(rate).ok());
        let format = match kind.as_deref() {
            None | Some("audio/pcm") => return Ok(Self::Pcm { rate: rate.unwrap_or(PCM_RATE) }),
            Some("audio/pcmu") => Self::Mulaw,
            Some("audio/pcma") => Self::Alaw,
            Some(other) => {
                let message = format!("`format.type` must be audio/pcm, audio/pcmu or audio/pcma, not {other:?}.");
                return Err(ApiError::validation(message));
            }
        };
        match rate {
            None | Some(COMPANDED_RATE) => Ok(format),
            Some(_) => Err(ApiError::validation("`format.rate` must be 8000 for audio/pcmu and audio/pcma.")),
        }
    }

    /// Reads a format of the older endpoint.
    fn read_flat(name: &str) -> Result<Self> {
        match name {
            "pcm16" => Ok(Self::Pcm { rate: PCM_RATE }),
            "g711_ulaw" => Ok(Self::Mulaw),
            "g711_alaw" => Ok(Self::Alaw),
            other => {
                let message = format!("`input_audio_format` must be pcm16, g711_ulaw or g711_alaw, not {other:?}.");
                Err(ApiError::validation(message))
            }
        }
    }

    /// The format's name at the older endpoint.
    pub fn flat_name(self) -> &'static str {
        match self {
            Self::Pcm { .. } => "pcm16",
            Self::Mulaw => "g711_ulaw",
            Self::Alaw => "g711_alaw",
        }
    }
}

/// The model and what it is to expect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcription {
    /// As the client names it.
    pub model: String,
    pub language: Option<String>,
    pub prompt: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub languages: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
}

impl Default for Transcription {
    fn default() -> Self {
        Self {
            model: "svc-realtime-pro".into(),
            language: None,
            prompt: None,
            languages: Vec::new(),
            keywords: Vec::new(),
        }
    }
}

impl Transcription {
    /// The live model that serves the session.
    pub fn live_model(&self) -> &'static str {
        live_model(&self.model).unwrap_or("svc-realtime-pro")
    }

    /// The words to expect: the keywords, and the short phrases of the prompt.
    pub fn terms(&self) -> impl Iterator<Item = &str> {
        let phrases = hints(self.prompt.as_deref().unwrap_or_default());
        self.keywords.iter().map(String::as_str).chain(phrases)
    }

    pub fn keyterms(&self) -> impl Iterator<Item = Keyterm> + '_ {
        self.terms().map(Keyterm::from)
    }

    /// What an update makes of this. The model stays if none is named.
    ///
    /// # Errors
    /// For a value that is not served.
    pub fn updated(&self, value: Value) -> Result<Self> {
        let mut fields = Fields::of("transcription", value)?;
        let model = fields.string("model")?.unwrap_or_else(|| self.model.clone());
        if live_model(&model).is_none() {
            return Err(no_such_model(&model));
        }
        Ok(Self {
            model,
            language: fields.string("language")?.filter(|code| !code.is_empty()),
            prompt: fields.string_of("prompt", 0..=MAX_PROMPT)?.filter(|prompt| !prompt.is_empty()),
            languages: fields.strings("languages", MAX_LANGUAGES, MAX_KEYWORD)?.unwrap_or_default(),
            keywords: fields.strings("keywords", MAX_KEYWORDS, MAX_KEYWORD)?.unwrap_or_default(),
        })
    }
}

/// A language's code in the form of the models: `en-US` is `en_us`.
pub fn language_code(code: &str) -> String {
    code.replace('-', "_").to_lowercase()
}

/// The rules that end turns. Without any, only `input_audio_buffer.commit` does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnDetection {
    ServerVad { threshold: f64, prefix_padding_ms: u32, silence_duration_ms: u32 },
    SemanticVad { eagerness: Eagerness },
}

/// How soon a turn ends whose speaker pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Eagerness {
    Low,
    Medium,
    High,
    #[default]
    Auto,
}

impl Default for TurnDetection {
    fn default() -> Self {
        Self::ServerVad { threshold: 0.5, prefix_padding_ms: 300, silence_duration_ms: 500 }
    }
}

impl TurnDetection {
    /// # Errors
    /// For rules that are not served.
    pub fn read(value: Value) -> Result<Self> {
        let mut fields = Fields::of("turn_detection", value)?;
        let kind = fields.string("type")?;
        let threshold = fields.number("threshold", 0.0..=1.0)?.unwrap_or(0.5);
        let mut ms = |name: &str, otherwise: u32| -> Result<u32> {
            let given = fields.integer(name, 0..=MAX_TURN_MS)?;
            Ok(given.and_then(|ms| u32::try_from(ms).ok()).unwrap_or(otherwise))
        };
        let prefix_padding_ms = ms("prefix_padding_ms", 300)?;
        let silence_duration_ms = ms("silence_duration_ms", 500)?;
        let eagerness = match fields.string("eagerness")?.as_deref() {
            None | Some("auto") => Eagerness::Auto,
            Some("low") => Eagerness::Low,
            Some("medium") => Eagerness::Medium,
            Some("high") => Eagerness::High,
            Some(other) => {
                let message = format!("`eagerness` must be low, medium, high or auto, not {other:?}.");
                return Err(ApiError::validation(message));
            }
        };
        match kind.as_deref() {
            None | Some("server_vad") => Ok(Self::ServerVad { threshold, prefix_padding_ms, silence_duration_ms }),
            Some("semantic_vad") => Ok(Self::SemanticVad { eagerness }),
            Some(other) => {
                let message = format!("`turn_detection.type` must be server_vad or semantic_vad, not {other:?}.");
                Err(ApiError::validation(message))
            }
        }
    }
}

/// Checks the noise reduction, which has this name.
///
/// # Errors
/// For one that is not known.
pub fn read_noise_reduction(fields: &mut Fields, name: &str) -> Result<()> {
    let Some(value) = fields.take(name) else { return Ok(()) };
    match Fields::of(name, value)?.string("type")?.as_deref() {
        None | Some("near_field" | "far_field") => Ok(()),
        Some(kind) => {
            Err(ApiError::validation(format!("`{name}.type` must be near_field or far_field, not {kind:?}.")))
        }
    }
}

impl Settings {
    /// True if the client asked for the logarithms of confidences.
    pub fn has_logprobs(&self) -> bool {
        self.include.as_ref().is_some_and(|include| include.contains(&Include::Logprobs))
    }

    /// True if other settings need no other session with the engine.
    pub fn has_same_recognition(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.audio.input, &other.audio.input);
        ours.transcription == theirs.transcription && ours.format.audio().rate == theirs.format.audio().rate
    }

    /// The settings after an update. What it leaves out stays as it is.
    ///
    /// # Errors
    /// For a value that is not served.
    pub fn updated(&self, session: Value, state: &LiveState) -> Result<Self> {
        let mut fields = Fields::of("session", session)?;
        match fields.string("type")?.as_deref() {
            None | Some("transcription") => {}
            Some("realtime") => return Err(ApiError::unsupported_option(CONVERSATIONS)),
            Some(other) => {
                return Err(ApiError::validation(format!("`session.type` must be transcription, not {other:?}.")));
            }
        }
        let mut settings = self.clone();
        if let Some(audio) = fields.take("audio")
            && let Some(input) = Fields::of("audio", audio)?.take("input")
        {
            let mut input = Fields::of("input", input)?;
            if let Some(format) = input.take("format") {
                settings.audio.input.format = Format::read(format)?;
            }
            settings.read_rest(&mut input, ["transcription", "turn_detection", "noise_reduction"])?;
        }
        settings.read_include(&mut fields)?;
        settings.check_languages(state)?;
        Ok(settings)
    }

    /// The settings of a request to the older endpoint, whose fields are flat.
    ///
    /// # Errors
    /// As [`Settings::updated`].
    pub fn of_flat(fields: &mut Fields, state: &LiveState) -> Result<Self> {
        let mut settings = Self::default();
        if let Some(format) = fields.string("input_audio_format")? {
            settings.audio.input.format = Format::read_flat(&format)?;
        }
        let names = ["input_audio_transcription", "turn_detection", "input_audio_noise_reduction"];
        settings.read_rest(fields, names)?;
        settings.read_include(fields)?;
        settings.check_languages(state)?;
        Ok(settings)
    }

    /// Sets the model. With some of them the client ends the turns, unless it asks for their detection.
    pub fn set_model(&mut self, model: &str) {
        let input = &mut self.audio.input;
        if input.transcription.model != model && COMMITTED_MODELS.contains(&model) {
            input.turn_detection = None;
        }
        model.clone_into(&mut input.transcription.model);
    }

    /// Reads the transcription, the detection of turns and the noise reduction, which have these names. Null resets the first, and turns the
    /// second off.
    fn read_rest(&mut self, fields: &mut Fields, [transcription, turns, noise]: [&str; 3]) -> Result<()> {
        if fields.has(transcription) {
            let transcription = match fields.take(transcription) {
                Some(value) => self.audio.input.transcription.updated(value)?,
                None => Transcription::default(),
            };
            self.set_model(&transcription.model);
            self.audio.input.transcription = transcription;
        }
        let input = &mut self.audio.input;
        if fields.has(turns) {
            input.turn_detection = fields.take(turns).map(TurnDetection::read).transpose()?;
        }
        read_noise_reduction(fields, noise)
    }

    fn read_include(&mut self, fields: &mut Fields) -> Result<()> {
        if !fields.has("include") {
            return Ok(());
        }
        let names = fields.strings("include", MAX_KEYWORDS, MAX_KEYWORD)?;
        let include = |name: String| match name.as_str() {
            "item.input_audio_transcription.logprobs" => Ok(Include::Logprobs),
            other => {
                let message =
                    format!("`include` may have item.input_audio_transcription.logprobs alone, not {other:?}.");
                Err(ApiError::validation(message))
            }
        };
        self.include = names.map(|names| names.into_iter().map(include).collect::<Result<_>>()).transpose()?;
        Ok(())
    }

    fn check_languages(&self, state: &LiveState) -> Result<()> {
        let transcription = &self.audio.input.transcription;
        for code in transcription.language.iter().chain(&transcription.languages) {
            check_language(state, transcription.live_model(), &language_code(code))
                .map_err(|reason| ApiError::validation(format!("The language {code:?} is not served: {reason}.")))?;
        }
        Ok(())
    }
}
