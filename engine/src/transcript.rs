//! The result of a transcription, and its progress.

use serde::Serialize;

use crate::text::Word;

/// Progress of a transcription.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Seconds of audio done.
    pub audio_s: f64,
    /// Seconds of audio in all, where the file tells.
    pub total_s: Option<f64>,
}

/// The transcript of a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Transcript {
    /// The whole text; empty where nothing was said.
    pub text: String,
    /// The words, in order.
    pub words: Vec<Word>,
    /// Runs of one speaker's words, sorted by start, where speaker labels were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utterances: Option<Vec<Utterance>>,
    /// Mean confidence of the words, 0 to 1; none without words.
    pub confidence: Option<f32>,
    /// The language that was given or found.
    pub language_code: Option<String>,
    /// Seconds of audio.
    pub audio_duration_sec: f64,
    /// The service model.
    pub model: String,
    /// Warnings about the audio, a line each.
    pub warnings: Vec<String>,
}

/// A run of one speaker's words.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Utterance {
    /// Label of the speaker: `A`, `B` and so on, by first word.
    pub speaker: String,
    /// Text of the words.
    pub text: String,
    /// First moment of the first word, ms.
    pub start: u64,
    /// Last moment of the last word, ms.
    pub end: u64,
    /// Mean confidence of the words, 0 to 1.
    pub confidence: f32,
}

/// Facts of a checkpoint folder of which every tensor is accounted for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ModelReport {
    /// The published class.
    pub class: String,
    /// Values in its tensors.
    pub parameters: usize,
    /// Encoder blocks and their width.
    pub layers: usize,
    /// Width of the encoder.
    pub hidden_size: usize,
    /// Tokens, the blank included.
    pub vocab_size: usize,
    /// It can transcribe live.
    pub streaming: bool,
    /// Look-aheads it was trained with, in ms; empty where none are named.
    pub look_aheads_ms: Vec<u32>,
}
