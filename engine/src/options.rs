//! Options of the engine, of a transcription and of a live session.

use std::path::{Path, PathBuf};

use auricle_kernels::gemv::Precision;

use crate::audio::SAMPLE_RATE;
use crate::decoding::fusion::FusionWeights;
use crate::device::DeviceChoice;
use crate::vad::endpointer::EndpointingRules;

/// Options of an [`Engine`](crate::Engine).
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The folder with `catalog.toml` and the checkpoints.
    pub models: PathBuf,
    /// The device that computes.
    pub device: DeviceChoice,
    /// Precision of the weights of Whisper's decoder; other checkpoints keep full precision.
    pub precision: Precision,
    /// Live streams at a time. Fifty sessions of the service with the starter took 2.5 MB each, sockets included; the
    /// attention's cache grows with the checkpoint, to 14 MB at 0.6 B parameters (by its shapes), and exists only while a turn
    /// goes on.
    pub live_streams: usize,
    /// Recordings at a time.
    pub recordings: usize,
}

impl Default for EngineOptions {
    /// The folder that [`models_dir`] finds; the GPU if there is one.
    fn default() -> Self {
        Self {
            models: models_dir(),
            device: DeviceChoice::Auto,
            precision: Precision::F32,
            live_streams: 256,
            recordings: 64,
        }
    }
}

/// The models folder: `AURICLE_MODELS`, else `models` in the working directory, beside the program or above it, else
/// the one of the source tree that this was built from.
pub fn models_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("AURICLE_MODELS") {
        return dir.into();
    }
    let holds_catalog = |dir: &PathBuf| dir.join("catalog.toml").is_file();
    let program = std::env::current_exe().ok();
    let above = program.iter().flat_map(|program| program.ancestors().skip(1)).map(|dir| dir.join("models"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    let source = source.canonicalize().unwrap_or(source);
    std::iter::once(PathBuf::from("models")).chain(above).find(holds_catalog).unwrap_or(source)
}

/// Options of a transcription.
#[derive(Clone, Debug)]
pub struct TranscribeOptions {
    /// A model of the catalog.
    pub model: String,
    /// The language spoken, `en` say; found by the model where it can, if left out.
    pub language: Option<String>,
    /// The languages that may be spoken, one here and another there: each window of a Whisper checkpoint tells for itself
    /// which. Not looked at where `language` is given; left empty, the model finds one for the whole recording.
    pub languages: Vec<String>,
    /// Names and words to expect.
    pub keyterms: Vec<String>,
    /// Streaming checkpoints: at most this much look-ahead, in ms; the longest trained one if left out.
    pub look_ahead_ms: Option<u32>,
    /// The language model that joins the search.
    pub language_model: LanguageModelChoice,
    /// Weights of the fusion with the language model.
    pub fusion: FusionWeights,
    /// Texts that are followed at a time, at least 1; more is slower and, up to a point, better. If left out, 16 where a
    /// language model joins the search, and 1 for a Whisper checkpoint; no part is played elsewhere.
    pub beam: Option<usize>,
    /// Whisper checkpoints: one window after another, each told what was said before it, in place of windows cut at silence
    /// and written side by side. Slower; names and style may stay the same for longer.
    pub sequential: bool,
}

/// The language model of the search; without one the search is greedy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LanguageModelChoice {
    /// The one that the catalog names for the starter; none for a published checkpoint.
    #[default]
    Shipped,
    /// None.
    Off,
    /// An ARPA file, or one in the compact form of the shipped one.
    File(PathBuf),
}

impl Default for TranscribeOptions {
    fn default() -> Self {
        Self {
            model: "svc-best".into(),
            language: None,
            languages: Vec::new(),
            keyterms: Vec::new(),
            look_ahead_ms: None,
            language_model: LanguageModelChoice::default(),
            fusion: FusionWeights::default(),
            beam: None,
            sequential: false,
        }
    }
}

impl std::str::FromStr for LanguageModelChoice {
    type Err = std::convert::Infallible;

    /// `off`, or a file.
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(if text == "off" { Self::Off } else { Self::File(text.into()) })
    }
}

/// Sample rates of a live session, in hertz.
pub const SAMPLE_RATES: std::ops::RangeInclusive<u32> = 8_000..=48_000;

/// Options of a live session.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// A live model of the catalog.
    pub model: String,
    /// The language spoken, `en` say; found by the model where it can, if left out.
    pub language: Option<String>,
    /// Of the samples that will be pushed, in hertz: [`SAMPLE_RATES`].
    pub sample_rate: u32,
    /// At most this much look-ahead, ms; the catalog's for the model if left out.
    pub look_ahead_ms: Option<u32>,
    /// When turns end.
    pub turns: EndpointingRules,
    /// The language model that joins the search. [`LanguageModelChoice::Shipped`] does on a CPU; on a GPU sessions are greedy
    /// unless a file is named, as a beam's small steps would each wait for the device.
    pub language_model: LanguageModelChoice,
    /// Weights of the fusion with the language model.
    pub fusion: FusionWeights,
    /// Texts that are followed at a time where a language model joins the search, at least 1; 16 if left out.
    pub beam: Option<usize>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            model: "svc-realtime-pro".into(),
            language: None,
            sample_rate: SAMPLE_RATE,
            look_ahead_ms: None,
            turns: EndpointingRules::default(),
            language_model: LanguageModelChoice::default(),
            fusion: FusionWeights::default(),
            beam: None,
        }
    }
}
