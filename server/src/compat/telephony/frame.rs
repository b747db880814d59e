//! The parts that the frames of all providers have in common.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::live::codec::Encoding;

/// The rate of every provider's audio, in hertz.
pub const RATE: u32 = 8_000;

const NOT_JSON: &str = "A frame is not a JSON object with an event.";
const INCOMPLETE: &str = "A frame lacks a field of its event, or the field has another type.";
pub const NOT_BASE64: &str = "The payload of a media frame is not base64.";
const OTHER_TRACK: &str = "Stream the inbound track alone.";
const OTHER_FORMAT: &str = "Stream mu-law or A-law of one channel at 8000 Hz.";
const NO_KEY: &str = "The digit of a DTMF frame is none.";
const LONG_PARAMETERS: &str = "The parameters of a call have more than 4096 bytes.";

/// The longest parameters of a call, bytes.
const MAX_PARAMETERS: usize = 4_096;

/// The reason of a close, for a frame that cannot be used.
pub type Fault = &'static str;

/// A frame of a provider.
#[derive(Debug, PartialEq)]
pub enum CallFrame {
    Start(Start),
    /// Audio of the caller, in base64.
    Audio(String),
    Key(char),
    /// All audio before the mark with this name is played.
    Played(String),
    Stop,
    /// One that needs nothing.
    Other,
}

/// The beginning of a stream.
#[derive(Debug, PartialEq)]
pub struct Start {
    pub stream: String,
    /// The provider's name of the call.
    pub call: String,
    pub encoding: Encoding,
    /// Parameters of the call from the caller's side, by name.
    pub parameters: Vec<(String, String)>,
}

impl Start {
    /// # Errors
    /// For another format than that of telephones, and for too long parameters.
    pub fn new(
        (stream, call): (String, String),
        format: &MediaFormat,
        parameters: Vec<(String, String)>,
    ) -> Result<Self, Fault> {
        let encoding = match format.encoding.as_str() {
            "audio/x-mulaw" | "PCMU" => Encoding::Mulaw,
            "PCMA" => Encoding::Alaw,
            _ => return Err(OTHER_FORMAT),
        };
        if format.sample_rate.is_some_and(|rate| rate != RATE) || format.channels.is_some_and(|channels| channels != 1)
        {
            return Err(OTHER_FORMAT);
        }
        if parameters.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > MAX_PARAMETERS {
            return Err(LONG_PARAMETERS);
        }
        Ok(Self { stream, call, encoding, parameters })
    }
}

#[derive(Deserialize)]
pub struct MediaFormat {
    encoding: String,
    #[serde(alias = "sampleRate")]
    sample_rate: Option<u32>,
    channels: Option<u32>,
}

#[derive(Deserialize)]
pub struct Media {
    track: Option<String>,
    payload: String,
}

impl Media {
    /// # Errors
    /// For audio of another side than the caller's.
    pub fn audio(self) -> Result<CallFrame, Fault> {
        let is_inbound = self.track.is_none_or(|track| track.starts_with("inbound"));
        if is_inbound { Ok(CallFrame::Audio(self.payload)) } else { Err(OTHER_TRACK) }
    }
}

#[derive(Deserialize)]
pub struct Dtmf {
    digit: String,
}

impl Dtmf {
    /// # Errors
    /// For what no telephone has.
    pub fn key(&self) -> Result<CallFrame, Fault> {
        let mut chars = self.digit.chars().map(|char| char.to_ascii_uppercase());
        match (chars.next(), chars.next()) {
            (Some(key @ ('0'..='9' | '*' | '#' | 'A'..='D')), None) => Ok(CallFrame::Key(key)),
            _ => Err(NO_KEY),
        }
    }
}

#[derive(Deserialize)]
pub struct Mark {
    pub name: String,
}

/// Reads the frame of a provider.
///
/// # Errors
/// For one that is none of its frames.
pub fn read<F: DeserializeOwned>(text: &str) -> Result<F, Fault> {
    serde_json::from_str(text).map_err(|error| {
        let is_event = || serde_json::from_str::<Event>(text).is_ok();
        if error.is_data() && is_event() { INCOMPLETE } else { NOT_JSON }
    })
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "event")]
    _event: String,
}
