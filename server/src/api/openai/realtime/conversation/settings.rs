//! The settings of a conversation: the `session` object of the protocol, as it is echoed and as updates change it.

use auricle_engine::Engine;
use auricle_engine::converse::Rules;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::super::speech::VOICES;
use super::super::settings::{Format, Transcription, TurnDetection, language_code, read_noise_reduction};
use super::params::{self, Modality, TokenLimit, refuse_unserved};
use crate::billing::{Price, ProductKind};
use crate::http::body::{Fields, wrong_type};
use crate::http::response::{ApiError, Result};
use crate::language::ToolChoice;
use crate::live::LiveState;
use crate::live::agent::settings::{self as agent, MAX_PROMPT, MAX_TOOLS};
use crate::live::agent::voice;

/// The beginnings of the names of OpenAI's models for conversations, for which the agent stands in.
const MODELS: [&str; 4] = ["gpt-realtime", "gpt-4o-realtime", "gpt-4o-mini-realtime", "gpt-audio"];
/// Speeds of the voice.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.5..=1.5;
/// The caller's silence after which the agent speaks again, ms.
const IDLE_TIMEOUTS_MS: std::ops::RangeInclusive<i64> = 5_000..=30_000;
/// The longest duration of a reply, s, where the client sets no limit of tokens.
const MAX_REPLY_S: u32 = 120;
/// The silence that may end a turn whatever its words, ms. A longer `silence_duration_ms` moves it.
const MAX_SILENCE_MS: u32 = 1_500;

/// True for a model whose sessions are conversations.
pub fn is_conversation_model(name: &str) -> bool {
    Price::of(name, ProductKind::Agent).is_some() || MODELS.iter().any(|model| name.starts_with(model))
}

/// The settings of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    r#type: SessionType,
    /// As the client names it.
    pub model: String,
    pub output_modalities: [Modality; 1],
    pub instructions: String,
    /// As the client defines them.
    pub tools: Vec<Value>,
    pub tool_choice: Value,
    pub max_output_tokens: TokenLimit,
    pub audio: Audio,
    /// Traces of OpenAI's dashboard, which this service does not have, so that this is always null.
    tracing: Option<()>,
    /// The oldest turns of a conversation that is longer than the model's context are left out.
    truncation: Truncation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SessionType {
    Realtime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Truncation {
    Auto,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Audio {
    pub input: Input,
    pub output: Output,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    pub format: Format,
    /// None if the client gets no transcripts of the caller's turns.
    pub transcription: Option<Transcription>,
    noise_reduction: Option<()>,
    /// None if the client alone ends turns.
    pub turn_detection: Option<Turns>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Output {
    pub format: Format,
    pub voice: String,
    pub speed: f64,
}

/// The rules of turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turns {
    #[serde(flatten)]
    pub detection: TurnDetection,
    /// True if a turn is answered without being asked for.
    pub create_response: bool,
    /// True if the caller's speech may stop a response.
    pub interrupt_response: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u32>,
}

impl Turns {
    fn read(value: Value) -> Result<Self> {
        let mut fields = Fields::of("turn_detection", value.clone())?;
        let mut flag = |name: &str| match fields.take(name) {
            None => Ok(true),
            Some(Value::Bool(on)) => Ok(on),
            Some(other) => Err(wrong_type(name, "true or false", &other)),
        };
        let (create_response, interrupt_response) = (flag("create_response")?, flag("interrupt_response")?);
        let idle_timeout_ms = fields.integer("idle_timeout_ms", IDLE_TIMEOUTS_MS)?;
        let detection = TurnDetection::read(value)?;
        if idle_timeout_ms.is_some() && matches!(detection, TurnDetection::SemanticVad { .. }) {
            return Err(ApiError::validation("`idle_timeout_ms` is one of server_vad alone."));
        }
        let idle_timeout_ms = idle_timeout_ms.and_then(|ms| u32::try_from(ms).ok());
        Ok(Self { detection, create_response, interrupt_response, idle_timeout_ms })
    }

    /// The audio before a turn's speech that counts as the turn's, ms.
    pub fn padding_ms(&self) -> u64 {
        match self.detection {
            TurnDetection::ServerVad { prefix_padding_ms, .. } => prefix_padding_ms.into(),
            TurnDetection::SemanticVad { .. } => 300,
        }
    }

    /// The silences that end a turn which sounds finished, and any turn, ms.
    fn silences_ms(&self) -> (u32, u32) {
        match &self.detection {
            TurnDetection::ServerVad { silence_duration_ms, .. } => {
                (*silence_duration_ms, MAX_SILENCE_MS.max(*silence_duration_ms))
            }
            TurnDetection::SemanticVad { eagerness } => (eagerness.least_pause_ms(), eagerness.longest_pause_ms()),
        }
    }
}

impl Settings {
    pub fn new(model: &str) -> Self {
        Self {
            r#type: SessionType::Realtime,
            model: model.to_owned(),
            output_modalities: [Modality::Audio],
            instructions: String::new(),
            tools: Vec::new(),
            tool_choice: json!("auto"),
            max_output_tokens: TokenLimit::default(),
            audio: Audio {
                input: Input {
                    format: Format::default(),
                    transcription: None,
                    noise_reduction: None,
                    turn_detection: Some(Turns {
                        detection: TurnDetection::default(),
                        create_response: true,
                        interrupt_response: true,
                        idle_timeout_ms: None,
                    }),
                },
                output: Output { format: Format::default(), voice: "alloy".into(), speed: 1.0 },
            },
            tracing: None,
            truncation: Truncation::Auto,
        }
    }

    /// The settings after an update. What it leaves out stays as it is.
    ///
    /// # Errors
    /// For a value that is not served.
    pub fn updated(&self, session: Value) -> Result<Self> {
        let mut fields = Fields::of("session", session)?;
        match fields.string("type")?.as_deref() {
            None | Some("realtime") => {}
            Some(other) => {
                let message = format!(
                    "`session.type` of a conversation is realtime; it cannot become {other:?}: open another session."
                );
                return Err(ApiError::validation(message));
            }
        }
        refuse_unserved(&mut fields, &["prompt", "reasoning"])?;
        check_tracing(fields.take("tracing"))?;
        let mut settings = self.clone();
        if let Some(model) = fields.string("model")? {
            if !is_conversation_model(&model) {
                return Err(no_such_model(&model));
            }
            settings.model = model;
        }
        if let Some(modality) = params::modality(&mut fields)? {
            settings.output_modalities = [modality];
        }
        if fields.has("instructions") {
            settings.instructions = fields.string_of("instructions", 0..=MAX_PROMPT)?.unwrap_or_default();
        }
        if fields.has("tools") {
            let tools = fields.values("tools", MAX_TOOLS)?.unwrap_or_default();
            agent::read_tools(tools.clone())?;
            settings.tools = tools;
        }
        if fields.has("tool_choice") {
            let choice = fields.take("tool_choice").unwrap_or_else(|| json!("auto"));
            params::tool_choice(&choice)?;
            settings.tool_choice = choice;
        }
        if fields.has("max_output_tokens") {
            settings.max_output_tokens = params::token_limit(&mut fields)?.unwrap_or_default();
        }
        params::check_parallel_calls(&mut fields)?;
        if fields.take("truncation").is_some_and(|truncation| truncation != "auto") {
            return Err(ApiError::validation(
                "`truncation` must be auto: the oldest turns are left out where the model's context ends.",
            ));
        }
        if fields.values("include", 1)?.is_some_and(|include| !include.is_empty()) {
            return Err(ApiError::validation("`include` is not served in conversations: it must be empty."));
        }
        if let Some(audio) = fields.take("audio") {
            let mut audio = Fields::of("audio", audio)?;
            if let Some(input) = audio.take("input") {
                settings.audio.input.update(Fields::of("input", input)?)?;
            }
            if let Some(output) = audio.take("output") {
                settings.audio.output.update(Fields::of("output", output)?)?;
            }
        }
        Ok(settings)
    }

    /// True if the audio has the form of calls.
    pub fn is_for_call(&self) -> bool {
        self.audio.input.format.is_of_tracks() && self.audio.output.format.is_of_tracks()
    }

    pub fn tool_choice(&self) -> ToolChoice {
        // It was checked as it came.
        params::tool_choice(&self.tool_choice).unwrap_or_default()
    }

    pub fn modality(&self) -> Modality {
        self.output_modalities[0]
    }

    /// The settings of the agent.
    ///
    /// # Errors
    /// For a voice or a language that the service does not have.
    pub fn agent(&self, engine: &Engine, live: &LiveState, rules: &Rules) -> Result<agent::Settings> {
        let Audio { input, output } = &self.audio;
        let voice = Some(output.voice.clone()).filter(|voice| !VOICES.contains(&voice.as_str()));
        if let Some(voice) = &voice {
            let voices = voice::ids(engine);
            if !voices.contains(voice) {
                let known = if voices.is_empty() { "there are none".into() } else { voices.join(", ") };
                return Err(ApiError::validation(format!("There is no voice {voice:?}; the voices: {known}.")));
            }
        }
        let mut rules = Rules { fillers: false, ..rules.clone() };
        let mut vad_threshold = agent::Settings::default().vad_threshold;
        if let Some(turns) = &input.turn_detection {
            (rules.min_silence_ms, rules.max_silence_ms) = turns.silences_ms();
            (rules.answers, rules.interruptible) = (turns.create_response, turns.interrupt_response);
            if let TurnDetection::ServerVad { threshold, .. } = turns.detection {
                vad_threshold = threshold as f32;
            }
        }
        let mut keyterms = Vec::new();
        if let Some(transcription) = &input.transcription {
            check_languages(live, transcription)?;
            keyterms = transcription.terms().map(str::to_owned).collect();
            rules.language = transcription.language.as_deref().map(language_code).or(rules.language);
        }
        Ok(agent::Settings {
            system_prompt: self.instructions.clone(),
            tools: agent::read_tools(self.tools.clone())?,
            input: input.format.audio(),
            output: output.format.audio(),
            voice,
            speed: output.speed as f32,
            max_reply_s: MAX_REPLY_S,
            keyterms,
            vad_threshold,
            rules,
            ..agent::Settings::default()
        })
    }
}

impl Input {
    fn update(&mut self, mut fields: Fields) -> Result<()> {
        if let Some(format) = fields.take("format") {
            self.format = Format::read(format)?;
        }
        if fields.has("transcription") {
            let before = self.transcription.clone().unwrap_or_default();
            self.transcription = fields.take("transcription").map(|value| before.updated(value)).transpose()?;
        }
        if fields.has("turn_detection") {
            self.turn_detection = fields.take("turn_detection").map(Turns::read).transpose()?;
        }
        read_noise_reduction(&mut fields, "noise_reduction")
    }
}

impl Output {
    fn update(&mut self, mut fields: Fields) -> Result<()> {
        if let Some(format) = fields.take("format") {
            self.format = Format::read(format)?;
        }
        match fields.take("voice") {
            None => {}
            Some(Value::String(voice)) => self.voice = voice,
            // The newest clients name custom voices by an object.
            Some(voice) => self.voice = Fields::of("voice", voice)?.required_string("id", 1..=100)?,
        }
        if let Some(speed) = fields.number("speed", SPEEDS)? {
            self.speed = speed;
        }
        Ok(())
    }
}

/// Checks the tracing. OpenAI's Agents SDK asks for it in every session.
fn check_tracing(tracing: Option<Value>) -> Result<()> {
    match tracing {
        None | Some(Value::Object(_)) => Ok(()),
        Some(Value::String(name)) if name == "auto" => Ok(()),
        Some(_) => Err(ApiError::validation("`tracing` must be auto, an object, or null.")),
    }
}

/// Checks that the agent's recogniser has the languages of a transcription.
fn check_languages(live: &LiveState, transcription: &Transcription) -> Result<()> {
    let Ok(choice) = live.catalog.choose(crate::live::agent::recognizer()) else { return Ok(()) };
    for code in transcription.language.iter().chain(&transcription.languages) {
        choice
            .check_language(&language_code(code))
            .map_err(|error| ApiError::validation(format!("Conversations have no language {code:?}: {error}.")))?;
    }
    Ok(())
}

/// The error for a model without conversations.
pub fn no_such_model(name: &str) -> ApiError {
    let message = format!(
        "There are no conversations with {name:?}: take svc-agent, or a name of OpenAI's such as gpt-realtime."
    );
    ApiError::new(hyper::StatusCode::NOT_FOUND, "model_not_found", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(turns: Value) -> Result<Settings> {
        Settings::new("svc-agent").updated(json!({ "audio": { "input": { "turn_detection": turns } } }))
    }

    #[test]
    fn settings_come_back_from_a_secret_and_keep_what_an_update_leaves_out() {
        let first = json!({
            "type": "realtime", "instructions": "Be brief.", "max_output_tokens": 200, "tool_choice": { "type": "function", "name": "weather" },
            "tools": [{ "type": "function", "name": "weather", "description": "d" }],
            "audio": {
                "input": { "format": { "type": "audio/pcmu" }, "transcription": { "model": "whisper-1", "language": "en" },
                    "turn_detection": { "type": "server_vad", "silence_duration_ms": 700, "create_response": false, "idle_timeout_ms": 6_000 } },
                "output": { "voice": { "id": "zed" }, "speed": 1.25 },
            },
        });
        let settings = Settings::new("gpt-realtime").updated(first).unwrap();
        let again: Settings = serde_json::from_value(serde_json::to_value(&settings).unwrap()).unwrap();
        assert_eq!(again, settings);
        assert_eq!((settings.max_output_tokens.tokens(), settings.audio.output.voice.as_str()), (200, "zed"));
        assert_eq!(settings.tool_choice(), ToolChoice::Named("weather".into()));
        let second = json!({ "output_modalities": ["text"], "max_output_tokens": "inf", "audio": { "input": { "transcription": null } } });
        let mut expected = settings.clone();
        (expected.output_modalities, expected.max_output_tokens) = ([Modality::Text], TokenLimit::default());
        expected.audio.input.transcription = None;
        assert_eq!(settings.updated(second).unwrap(), expected);
    }

    #[test]
    fn turns_have_the_silences_of_their_detection() {
        for (detection, least, most) in [
            (json!({ "type": "server_vad" }), 500, 1_500),
            (json!({ "type": "server_vad", "silence_duration_ms": 2_000 }), 2_000, 2_000),
            (json!({ "type": "semantic_vad", "eagerness": "high" }), 200, 2_000),
            (json!({ "type": "semantic_vad" }), 400, 4_000),
            (json!({ "type": "semantic_vad", "eagerness": "low" }), 800, 8_000),
        ] {
            let settings = turns(detection.clone()).unwrap();
            let read = settings.audio.input.turn_detection.as_ref().unwrap();
            assert_eq!(read.silences_ms(), (least, most), "{detection}");
            assert!(read.create_response && read.interrupt_response, "{detection}");
        }
        assert_eq!(turns(Value::Null).unwrap().audio.input.turn_detection, None);
        for wrong in [
            json!({ "type": "semantic_vad", "idle_timeout_ms": 6_000 }),
            json!({ "type": "server_vad", "idle_timeout_ms": 1_000 }),
            json!({ "type": "server_vad", "create_response": 1 }),
            json!({ "type": "push_to_talk" }),
        ] {
            assert_eq!(turns(wrong.clone()).unwrap_err().status, 422, "{wrong}");
        }
    }
}
