//! Speech synthesis: options, voices, and what speech consists of.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

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
    /// A voice of a recording, in place of `voice`.
    pub cloned: Option<Arc<ClonedVoice>>,
    /// The language that is spoken: the voice has to speak it, and without a voice the first that does is taken.
    pub language: Option<String>,
    /// Streams of one account share the part of the device's time that one stream has.
    pub account: Option<String>,
}

impl Default for SpeakOptions {
    /// The catalog's default voice, at its own speed, as fast as it is made.
    fn default() -> Self {
        Self { voice: None, speed: 1.0, checkpoint: None, paced: false, cloned: None, language: None, account: None }
    }
}

impl SpeakOptions {
    setters! {
        voice: impl Into<String> => Some(voice.into()),
        speed: f32 => speed,
        checkpoint: impl Into<PathBuf> => Some(checkpoint.into()),
        paced: bool => paced,
        cloned: impl Into<Arc<ClonedVoice>> => Some(cloned.into()),
        language: impl Into<String> => Some(language.into()),
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

/// A voice that [`Engine::clone_voice`](crate::Engine::clone_voice) has made of a recording. It imitates a person, so store it encrypted
/// where others might read it.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ClonedVoice {
    /// The model that it was made for.
    pub model: String,
    /// The language of that model.
    pub language: String,
    /// The fingerprint of the audio tokenizer that made it.
    pub tokenizer: String,
    /// The words in which the person has agreed.
    pub consent: String,
    /// Values of a frame.
    pub width: usize,
    /// `[frames, width]`
    pub latents: Vec<f32>,
}

/// The latents are left out: they are in no log.
impl fmt::Debug for ClonedVoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { language, tokenizer, .. } = self;
        f.debug_struct("ClonedVoice").field("language", language).field("tokenizer", tokenizer).finish_non_exhaustive()
    }
}

/// The tensor of a voice's file.
const LATENTS: &str = "audio_prompt_latents";

impl ClonedVoice {
    /// Seconds of the recording.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.latents.len() as f64 / self.width.max(1) as f64 * SPEECH_FRAME as f64 / f64::from(SPEECH_RATE)
    }

    /// Its file, as models have those of their voices: safetensors, with the words of the consent beside the latents.
    ///
    /// # Errors
    /// [`Error::Internal`] if the latents are no whole frames.
    pub fn to_file(&self) -> Result<Vec<u8>> {
        let bytes: Vec<u8> = self.latents.iter().flat_map(|value| value.to_le_bytes()).collect();
        let shape = vec![self.latents.len() / self.width.max(1), self.width];
        let failed = |error: safetensors::SafeTensorError| Error::internal(error.to_string());
        let tensor = TensorView::new(Dtype::F32, shape, &bytes).map_err(failed)?;
        let Self { model, language, tokenizer, consent, .. } = self;
        let notes = [("model", model), ("language", language), ("tokenizer", tokenizer), ("consent", consent)];
        let notes: HashMap<String, String> = notes.map(|(name, value)| (name.into(), value.clone())).into();
        safetensors::serialize([(LATENTS, tensor)], Some(notes)).map_err(failed)
    }

    /// The voice of a file that [`ClonedVoice::to_file`] has written; none for another.
    #[must_use]
    pub fn from_file(bytes: &[u8]) -> Option<Self> {
        let (_, metadata) = SafeTensors::read_metadata(bytes).ok()?;
        let notes = metadata.metadata().as_ref()?;
        let note = |name: &str| notes.get(name).cloned();
        let tensors = SafeTensors::deserialize(bytes).ok()?;
        let tensor = tensors.tensor(LATENTS).ok()?;
        let [_, width] = *tensor.shape() else { return None };
        let values = tensor.data().as_chunks::<4>().0;
        Some(Self {
            model: note("model")?,
            language: note("language")?,
            tokenizer: note("tokenizer")?,
            consent: note("consent")?,
            width,
            latents: (tensor.dtype() == Dtype::F32)
                .then(|| values.iter().map(|value| f32::from_le_bytes(*value)).collect())?,
        })
    }
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
