//! Speech synthesis: options, voices, and what speech consists of.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::options::setters;

/// Sample rate of speech, hertz.
pub const SPEECH_RATE: u32 = 24_000;
/// Samples of a frame of speech, 80 ms.
pub const SPEECH_FRAME: usize = 1_920;
/// Slowest and fastest speech.
pub const SPEEDS: std::ops::RangeInclusive<f32> = 0.5..=2.0;

/// Options of speech.
///
/// ```
/// use auricle_engine::SpeakOptions;
///
/// let options = SpeakOptions::default().voice("kathleen").speed(1.2);
/// assert_eq!(options.voice.as_deref(), Some("kathleen"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SpeakOptions {
    /// The voice, by its id, or by a language that it speaks; the catalog's default if left out.
    pub voice: Option<String>,
    /// From 0.5, slow, to 2, fast.
    pub speed: f32,
    /// A folder of a voice model in place of the catalog's.
    pub checkpoint: Option<PathBuf>,
    /// Gives frames no more than 500 ms ahead of real time, as for a conversation: such speech is made before answers are written.
    pub paced: bool,
    /// Streams of one account share the part of the device's time that one stream has.
    pub account: Option<String>,
}

impl Default for SpeakOptions {
    /// The catalog's default voice, at its own speed, as fast as it is made.
    fn default() -> Self {
        Self { voice: None, speed: 1.0, checkpoint: None, paced: false, account: None }
    }
}

impl SpeakOptions {
    setters! {
        voice: impl Into<String> => Some(voice.into()),
        speed: f32 => speed,
        checkpoint: impl Into<PathBuf> => Some(checkpoint.into()),
        paced: bool => paced,
        account: impl Into<String> => Some(account.into()),
    }

    /// # Errors
    /// [`Error::InvalidOption`] for a speed outside [`SPEEDS`].
    pub(crate) fn check(&self) -> Result<()> {
        if SPEEDS.contains(&self.speed) {
            return Ok(());
        }
        let (slowest, fastest) = (SPEEDS.start(), SPEEDS.end());
        Err(Error::InvalidOption(format!("the speed must be {slowest} to {fastest}, not {}", self.speed)))
    }
}

/// A voice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VoiceInfo {
    /// The id that users give: `kathleen`.
    pub id: String,
    /// The language that it speaks: `en`.
    pub language: String,
    /// The model that it belongs to: `voice-en`.
    pub model: String,
}

/// 80 ms of speech.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SpeechFrame {
    /// Mono at 24 kHz, -1 to 1: 1,920 samples; the last frame may have fewer.
    pub samples: Vec<f32>,
    /// The words that begin in this frame.
    pub words: Vec<SpokenWord>,
}

/// A word as it is said.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpokenWord {
    /// As written in the pushed text: a number of several words is one.
    pub text: String,
    /// Begin and end since the stream's first sample, ms.
    pub start_ms: u64,
    /// See `start_ms`.
    pub end_ms: u64,
}
