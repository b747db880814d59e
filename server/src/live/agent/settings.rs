//! The settings of a session: what `session.update` says.

use std::collections::HashSet;

use auricle_engine::converse::Rules;
use serde_json::{Value, json};

use super::frames::Fault;
use crate::http::body::Fields;
use crate::http::response::{ApiError, Result};
use crate::language::{ChatOptions, Tool, schema};
use crate::live::codec::{AudioFormat, Encoding};

/// The most tools, and the longest texts, in characters.
pub const MAX_TOOLS: usize = 128;
pub const MAX_PROMPT: usize = 24_000;
const MAX_GREETING: usize = 2_000;
const MAX_DESCRIPTION: usize = 4_096;
const MAX_NAME: usize = 64;
/// The most keyterms, and the longest, in characters.
const MAX_KEYTERMS: usize = 1_000;
const MAX_KEYTERM: usize = 100;
/// The longest silence that may end a turn, ms.
const MAX_SILENCE_MS: i64 = 10_000;
/// The longest reply, s.
const MAX_REPLY_S: i64 = 600;
/// Rates of PCM, and that of mu-law and A-law, in hertz.
const PCM_RATES: std::ops::RangeInclusive<i64> = 8_000..=48_000;
const COMPANDED_RATE: u32 = 8_000;

/// The settings of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub system_prompt: String,
    pub greeting: String,
    pub tools: Vec<Tool>,
    pub input: AudioFormat,
    pub output: AudioFormat,
    /// None for the default voice.
    pub voice: Option<String>,
    /// The speed of the voice, 1 for its own.
    pub speed: f32,
    /// A reply ends at the sentence that reaches this length, s.
    pub max_reply_s: u32,
    pub keyterms: Vec<String>,
    /// Speech probability from which on a piece of audio is speech.
    pub vad_threshold: f32,
    pub rules: Rules,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            system_prompt: String::new(),
            greeting: String::new(),
            tools: Vec::new(),
            input: AudioFormat::default(),
            output: AudioFormat::default(),
            voice: None,
            speed: 1.0,
            max_reply_s: 45,
            keyterms: Vec::new(),
            vad_threshold: 0.5,
            rules: Rules::default(),
        }
    }
}

impl Settings {
    /// The settings after an update. What it leaves out stays as it is. `voices` are the ids that there are.
    ///
    /// # Errors
    /// A fault that says what is wrong with the update.
    pub async fn updated(&self, session: Value, voices: &[String]) -> std::result::Result<Self, Fault> {
        let refused = |error: ApiError| Fault::new(error.code, error.message);
        let settings = self.read(session, voices).map_err(refused)?;
        let options = ChatOptions { tools: settings.tools.clone(), ..ChatOptions::default() };
        schema::check_options(&options).await.map_err(|error| refused(error.into()))?;
        Ok(settings)
    }

    fn read(&self, session: Value, voices: &[String]) -> Result<Self> {
        let mut settings = self.clone();
        let mut fields = Fields::of("session", session)?;
        set(&mut settings.system_prompt, fields.string_of("system_prompt", 0..=MAX_PROMPT)?);
        set(&mut settings.greeting, fields.string_of("greeting", 0..=MAX_GREETING)?);
        if let Some(tools) = fields.values("tools", MAX_TOOLS)? {
            settings.tools = read_tools(tools)?;
        }
        if let Some(input) = fields.take("input") {
            let mut input = Fields::of("input", input)?;
            if let Some(format) = input.take("format") {
                settings.input = read_format("input.format", format)?;
            }
            set(&mut settings.keyterms, input.strings("keyterms", MAX_KEYTERMS, MAX_KEYTERM)?);
            if let Some(turns) = input.take("turn_detection") {
                settings.read_turns(turns)?;
            }
        }
        if let Some(output) = fields.take("output") {
            let mut output = Fields::of("output", output)?;
            if let Some(format) = output.take("format") {
                settings.output = read_format("output.format", format)?;
            }
            let seconds = output.integer("max_seconds", 1..=MAX_REPLY_S)?;
            set(&mut settings.max_reply_s, seconds.and_then(|seconds| u32::try_from(seconds).ok()));
            if let Some(voice) = output.string("voice")? {
                if !voices.contains(&voice) {
                    let known = if voices.is_empty() { "there are none".into() } else { voices.join(", ") };
                    return Err(ApiError::validation(format!("There is no voice {voice:?}; the voices: {known}.")));
                }
                settings.voice = Some(voice);
            }
        }
        Ok(settings)
    }

    fn read_turns(&mut self, turns: Value) -> Result<()> {
        let mut turns = Fields::of("turn_detection", turns)?;
        set(&mut self.vad_threshold, turns.number("vad_threshold", 0.0..=1.0)?.map(|number| number as f32));
        let mut silence = |name: &str| -> Result<Option<u32>> {
            Ok(turns.integer(name, 0..=MAX_SILENCE_MS)?.and_then(|ms| u32::try_from(ms).ok()))
        };
        set(&mut self.rules.min_silence_ms, silence("min_silence_ms")?);
        set(&mut self.rules.max_silence_ms, silence("max_silence_ms")?);
        if self.rules.max_silence_ms < self.rules.min_silence_ms {
            let message = "`max_silence_ms` must not be less than `min_silence_ms`.";
            return Err(ApiError::validation(message));
        }
        if turns.has("interrupt_response") {
            self.rules.interruptible = match turns.take("interrupt_response") {
                None => self.rules.interruptible,
                Some(Value::Bool(on)) => on,
                Some(_) => return Err(ApiError::validation("`interrupt_response` must be true or false.")),
            };
        }
        Ok(())
    }
}

fn set<T>(to: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *to = value;
    }
}

fn read_format(name: &str, format: Value) -> Result<AudioFormat> {
    let mut fields = Fields::of(name, format)?;
    let encoding = fields.string("encoding")?;
    let rate = fields.integer("sample_rate", PCM_RATES)?.and_then(|rate| u32::try_from(rate).ok());
    let encoding = match encoding.as_deref() {
        None | Some("audio/pcm") => Encoding::Pcm,
        Some("audio/pcmu") => Encoding::Mulaw,
        Some("audio/pcma") => Encoding::Alaw,
        Some(other) => {
            let message = format!("`encoding` of `{name}` must be audio/pcm, audio/pcmu or audio/pcma, not {other:?}.");
            return Err(ApiError::validation(message));
        }
    };
    let rate = match (encoding, rate) {
        (Encoding::Pcm, rate) => rate.unwrap_or(AudioFormat::default().rate),
        (_, None | Some(COMPANDED_RATE)) => COMPANDED_RATE,
        (_, Some(_)) => {
            let message = format!("`sample_rate` of `{name}` must be {COMPANDED_RATE} for audio/pcmu and audio/pcma.");
            return Err(ApiError::validation(message));
        }
    };
    Ok(AudioFormat { encoding, rate })
}

/// Reads definitions of tools.
///
/// # Errors
/// For a definition that is none of a function, and for two of one name.
pub fn read_tools(tools: Vec<Value>) -> Result<Vec<Tool>> {
    let tools: Vec<Tool> = tools.into_iter().map(read_tool).collect::<Result<_>>()?;
    let mut names = HashSet::new();
    if let Some(twice) = tools.iter().find(|tool| !names.insert(&tool.name)) {
        return Err(ApiError::validation(format!("`tools` has {:?} twice.", twice.name)));
    }
    Ok(tools)
}

fn read_tool(tool: Value) -> Result<Tool> {
    let mut fields = Fields::of("tools", tool)?;
    let kind = fields.string("type")?;
    if kind.as_deref().is_some_and(|kind| kind != "function") {
        return Err(ApiError::validation("`type` of a tool must be function."));
    }
    let name = fields.required_string("name", 1..=MAX_NAME)?;
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
        let message = format!("`name` of a tool has letters, digits, _ and - alone; {name:?} has others.");
        return Err(ApiError::validation(message));
    }
    let description = fields.string_of("description", 0..=MAX_DESCRIPTION)?;
    let parameters = match fields.take("parameters") {
        None => json!({ "type": "object", "properties": {} }),
        Some(parameters @ Value::Object(_)) => parameters,
        Some(_) => return Err(ApiError::validation(format!("`parameters` of the tool {name:?} must be an object."))),
    };
    // A schema without a type would let the model write arguments that are no object.
    if parameters.get("type").is_some_and(|kind| kind != "object") {
        return Err(ApiError::validation(format!("`parameters` of the tool {name:?} must have the type object.")));
    }
    Ok(Tool { name, description, parameters })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voices() -> Vec<String> {
        vec!["kathleen".into()]
    }

    #[tokio::test]
    async fn an_update_changes_what_it_names() {
        let first = json!({
            "system_prompt": "Be kind.", "greeting": "Hello.",
            "input": { "format": { "encoding": "audio/pcmu" }, "keyterms": ["Auricle"],
                "turn_detection": { "vad_threshold": 0.6, "min_silence_ms": 400, "max_silence_ms": 2000, "interrupt_response": false } },
            "output": { "format": { "encoding": "audio/pcm", "sample_rate": 16000 }, "voice": "kathleen", "max_seconds": 20 },
            "tools": [{ "type": "function", "name": "weather", "description": "d", "parameters": { "type": "object", "properties": { "place": { "type": "string" } }, "required": ["place"] } }],
        });
        let settings = Settings::default().updated(first, &voices()).await.unwrap();
        assert_eq!(settings.input, AudioFormat { encoding: Encoding::Mulaw, rate: 8_000 });
        assert_eq!(settings.output, AudioFormat { encoding: Encoding::Pcm, rate: 16_000 });
        assert_eq!((settings.rules.min_silence_ms, settings.rules.max_silence_ms), (400, 2_000));
        assert!(!settings.rules.interruptible && settings.tools[0].name == "weather");
        assert_eq!(settings.max_reply_s, 20);
        let second = settings.updated(json!({ "system_prompt": "Be brief.", "tools": null }), &voices()).await.unwrap();
        assert_eq!(second, Settings { system_prompt: "Be brief.".into(), ..settings });
    }

    #[tokio::test]
    async fn a_bad_update_is_refused() {
        for (session, code) in [
            (json!([]), "validation_error"),
            (json!({ "system_prompt": 5 }), "validation_error"),
            (json!({ "greeting": "x".repeat(2_001) }), "validation_error"),
            (json!({ "input": { "format": { "encoding": "audio/opus" } } }), "validation_error"),
            (json!({ "input": { "format": { "sample_rate": 7_999 } } }), "validation_error"),
            (json!({ "input": { "format": { "encoding": "audio/pcma", "sample_rate": 16_000 } } }), "validation_error"),
            (json!({ "output": { "voice": "nobody" } }), "validation_error"),
            (json!({ "output": { "max_seconds": 0 } }), "validation_error"),
            (json!({ "input": { "turn_detection": { "vad_threshold": 2 } } }), "validation_error"),
            (json!({ "input": { "turn_detection": { "min_silence_ms": 3_000 } } }), "validation_error"),
            (json!({ "input": { "turn_detection": { "interrupt_response": 1 } } }), "validation_error"),
            (json!({ "tools": [{ "type": "function" }] }), "invalid_request"),
            (json!({ "tools": [{ "name": "a b" }] }), "validation_error"),
            (json!({ "tools": [{ "name": "a" }, { "name": "a" }] }), "validation_error"),
            (json!({ "tools": [{ "name": "a", "parameters": { "type": "strange" } }] }), "validation_error"),
            (
                json!({ "tools": [{ "name": "a", "parameters": { "properties": { "b": { "type": "strange" } } } }] }),
                "unsupported_schema",
            ),
            (
                json!({ "tools": [{ "name": "a", "parameters": { "properties": { "b": { "patternProperties": {} } } } }] }),
                "unsupported_schema",
            ),
        ] {
            let fault = Settings::default().updated(session.clone(), &voices()).await.unwrap_err();
            assert_eq!(fault.code, code, "{session}: {}", fault.message);
        }
    }
}
