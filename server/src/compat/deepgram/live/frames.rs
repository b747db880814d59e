//! Frames of live sessions.

use serde::Serialize;
use serde_json::{Map, Value};

use super::super::common::{AnswerWord, ModelInfo};

/// The longest part of a frame that an error repeats, in characters.
const MAX_REPEATED: usize = 200;

/// A frame from the service.
#[derive(Serialize)]
#[serde(tag = "type")]
pub enum ServerFrame<'a> {
    Results {
        channel_index: [usize; 2],
        /// s, as `start`
        duration: f64,
        start: f64,
        is_final: bool,
        speech_final: bool,
        channel: Channel,
        metadata: ResultsMetadata<'a>,
        from_finalize: bool,
    },
    SpeechStarted {
        channel: [usize; 2],
        /// s
        timestamp: f64,
    },
    UtteranceEnd {
        channel: [usize; 2],
        /// s
        last_word_end: f64,
    },
    Metadata {
        transaction_key: &'static str,
        request_id: &'a str,
        sha256: String,
        created: &'a str,
        /// s
        duration: f64,
        channels: usize,
        models: [String; 1],
        model_info: Map<String, Value>,
    },
    ConfigureFailure {
        request_id: &'a str,
        code: &'static str,
        description: &'static str,
    },
    Error {
        variant: &'a str,
        description: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
}

#[derive(Serialize)]
pub struct Channel {
    pub alternatives: [Alternative; 1],
}

#[derive(Serialize)]
pub struct Alternative {
    pub transcript: String,
    pub confidence: f32,
    pub words: Vec<AnswerWord>,
}

#[derive(Serialize)]
pub struct ResultsMetadata<'a> {
    pub request_id: &'a str,
    pub model_info: &'a ModelInfo,
    pub model_uuid: &'a str,
}

impl<'a> ServerFrame<'a> {
    pub fn error(variant: &'a str, description: &'a str) -> Self {
        Self::Error { variant, description, message: None }
    }

    /// The error for a frame that cannot be read.
    pub fn unreadable(text: &str) -> Self {
        Self::Error {
            variant: "SchemaError",
            description: "The frame is none of Finalize, KeepAlive, CloseStream and Configure.",
            message: Some(text.chars().take(MAX_REPEATED).collect()),
        }
    }

    /// The frame as JSON.
    pub fn to_json(&self) -> String {
        // Serialising strings and numbers does not fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A frame from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientFrame {
    Finalize,
    KeepAlive,
    CloseStream,
    Configure,
}

impl ClientFrame {
    /// Reads a frame; none if it is unknown.
    pub fn read(text: &str) -> Option<Self> {
        let frame: Value = serde_json::from_str(text).ok()?;
        match frame["type"].as_str()? {
            "Finalize" => Some(Self::Finalize),
            "KeepAlive" => Some(Self::KeepAlive),
            "CloseStream" => Some(Self::CloseStream),
            "Configure" => Some(Self::Configure),
            _ => None,
        }
    }
}
