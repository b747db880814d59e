//! The parameters of a response: fields that a session and a response share, and those of `response.create`.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::items::Items;
use crate::http::body::{Fields, wrong_type};
use crate::http::response::{ApiError, Result};
use crate::language::{Message, Tool, ToolChoice};
use crate::live::agent::llm::MAX_TOKENS;
use crate::live::agent::settings::{self as agent, MAX_PROMPT, MAX_TOOLS};

/// The largest limit of tokens that a client may set.
const MAX_LIMIT: i64 = 4_096;
/// The most pairs of `metadata`, and the longest value, in characters.
const MAX_METADATA: usize = 16;
const MAX_METADATA_CHARS: usize = 512;
/// The most items of `input`.
const MAX_INPUT: usize = 1_000;

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Modality {
    Audio,
    Text,
}

/// The most tokens of a response; none for as many as the agent's replies have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenLimit(Option<u32>);

impl TokenLimit {
    pub fn tokens(self) -> u32 {
        self.0.unwrap_or(MAX_TOKENS).min(MAX_TOKENS)
    }
}

impl Serialize for TokenLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self.0 {
            Some(tokens) => serializer.serialize_u32(tokens),
            None => serializer.serialize_str("inf"),
        }
    }
}

impl<'de> Deserialize<'de> for TokenLimit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Ok(Self(Value::deserialize(deserializer)?.as_u64().and_then(|tokens| u32::try_from(tokens).ok())))
    }
}

/// Reads `output_modalities`.
pub fn modality(fields: &mut Fields) -> Result<Option<Modality>> {
    let Some(names) = fields.strings("output_modalities", 2, 10)? else { return Ok(None) };
    match names.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["audio"] => Ok(Some(Modality::Audio)),
        ["text"] => Ok(Some(Modality::Text)),
        _ => Err(ApiError::validation("`output_modalities` must be [\"audio\"] or [\"text\"].")),
    }
}

/// Reads `max_output_tokens`.
pub fn token_limit(fields: &mut Fields) -> Result<Option<TokenLimit>> {
    match fields.take("max_output_tokens") {
        None => Ok(None),
        Some(Value::String(text)) if text == "inf" => Ok(Some(TokenLimit::default())),
        Some(value) => match value.as_i64().filter(|tokens| (1..=MAX_LIMIT).contains(tokens)) {
            Some(tokens) => Ok(Some(TokenLimit(u32::try_from(tokens).ok()))),
            None => Err(ApiError::validation(format!("`max_output_tokens` must be 1 to {MAX_LIMIT}, or \"inf\"."))),
        },
    }
}

/// Reads `tool_choice`.
pub fn tool_choice(value: &Value) -> Result<ToolChoice> {
    match value.as_str() {
        Some("auto") => return Ok(ToolChoice::Auto),
        Some("none") => return Ok(ToolChoice::None),
        Some("required") => return Ok(ToolChoice::Required),
        _ => {}
    }
    match (value["type"].as_str(), value["name"].as_str()) {
        (Some("function"), Some(name)) => Ok(ToolChoice::Named(name.to_owned())),
        _ => Err(ApiError::validation(
            "`tool_choice` must be auto, none, required, or {\"type\": \"function\", \"name\": ...}.",
        )),
    }
}

/// Refuses what is not served.
pub fn refuse_unserved(fields: &mut Fields, names: &[&str]) -> Result<()> {
    match names.iter().find(|name| fields.take(name).is_some()) {
        Some(name) => Err(ApiError::validation(format!("`{name}` is not served: leave it out."))),
        None => Ok(()),
    }
}

/// The language model itself decides how many tools it calls.
pub fn check_parallel_calls(fields: &mut Fields) -> Result<()> {
    match fields.take("parallel_tool_calls") {
        None | Some(Value::Bool(true)) => Ok(()),
        Some(_) => Err(ApiError::validation("`parallel_tool_calls` is always true: leave it out.")),
    }
}

/// The parameters of `response.create`. None leaves a value to the session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    /// True if the response is none of the conversation.
    pub is_apart: bool,
    pub instructions: Option<String>,
    pub modality: Option<Modality>,
    pub tools: Option<Vec<Tool>>,
    pub tool_choice: Option<ToolChoice>,
    pub limit: Option<TokenLimit>,
    /// The messages that the language model gets in place of the conversation.
    pub input: Option<Vec<Message>>,
    pub metadata: Option<Map<String, Value>>,
}

impl Params {
    /// Reads the `response` of `response.create`. `items` are those of the conversation.
    ///
    /// # Errors
    /// For a value that is not served.
    pub fn read(response: Value, items: &Items) -> Result<Self> {
        let mut fields = Fields::of("response", response)?;
        refuse_unserved(&mut fields, &["prompt", "reasoning"])?;
        if fields.take("audio").is_some() {
            let message = "`response.audio` is not served: session.update sets the voice and the format.";
            return Err(ApiError::validation(message));
        }
        check_parallel_calls(&mut fields)?;
        let is_apart = match fields.string("conversation")?.as_deref() {
            None | Some("auto") => false,
            Some("none") => true,
            Some(other) => {
                return Err(ApiError::validation(format!("`conversation` must be auto or none, not {other:?}.")));
            }
        };
        let tools = fields.values("tools", MAX_TOOLS)?.map(agent::read_tools).transpose()?;
        let input = match fields.values("input", MAX_INPUT)? {
            None => None,
            Some(values) => Some(items.of_input(values).map_err(|fault| ApiError::validation(fault.message()))?),
        };
        Ok(Self {
            is_apart,
            instructions: fields.string_of("instructions", 0..=MAX_PROMPT)?,
            modality: modality(&mut fields)?,
            tools,
            tool_choice: fields.take("tool_choice").as_ref().map(tool_choice).transpose()?,
            limit: token_limit(&mut fields)?,
            input,
            metadata: fields.take("metadata").map(metadata).transpose()?,
        })
    }
}

fn metadata(value: Value) -> Result<Map<String, Value>> {
    let Value::Object(pairs) = value else { return Err(wrong_type("metadata", "an object", &value)) };
    let fits = |value: &Value| value.as_str().is_some_and(|text| text.chars().count() <= MAX_METADATA_CHARS);
    if pairs.len() > MAX_METADATA || !pairs.values().all(fits) {
        let message = format!(
            "`metadata` has at most {MAX_METADATA} pairs, whose values are strings of at most {MAX_METADATA_CHARS} characters."
        );
        return Err(ApiError::validation(message));
    }
    Ok(pairs)
}
