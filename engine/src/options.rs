//! Options of the engine, of a transcription and of a live session.

mod second_pass;

use std::path::PathBuf;

use auricle_kernels::product::gemv::Precision;

use crate::audio::SAMPLE_RATE;
use crate::decoding::fusion::FusionWeights;
use crate::decoding::keyterms::Keyterm;
use crate::device::DeviceChoice;
use crate::memory;
use crate::transcript::KnownSpeaker;
use crate::vad::endpointer::EndpointingRules;
pub use second_pass::SecondPass;

/// Writes the setters of options, which take the options and give them back.
macro_rules! setters {
    ($($name:ident: $given:ty => $value:expr),* $(,)?) => { $(
        #[doc = concat!("Sets [`", stringify!($name), "`](Self#structfield.", stringify!($name), ").")]
        #[must_use]
        pub fn $name(mut self, $name: $given) -> Self {
            self.$name = $value;
            self
        }
    )* };
}

pub(crate) use setters;

/// Options of an [`Engine`](crate::Engine).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineOptions {
    /// The folder with `catalog.toml` and the checkpoints.
    pub models: PathBuf,
    /// The devices that compute; several share the work.
    pub devices: Vec<DeviceChoice>,
    /// Takes all GPUs that are like the first one where [`DeviceChoice::Auto`] or [`DeviceChoice::Gpu`] selects that.
    pub every_gpu: bool,
    /// Precision of the weights: 8 bits are for Whisper's decoder and, on a CPU that is faster with them, for the encoders of all
    /// families, for all matrices of Qwen3-ASR, and for what language models multiply with weights that their GGUF file has quantised;
    /// 16 bits are for Whisper, Qwen3-ASR and FastConformer's encoder on a GPU. None is 8 bits for Whisper on a CPU, which costs no words
    /// there, and 32 for the others.
    pub precision: Option<Precision>,
    /// Live streams at a time. Fifty sessions of the service with the starter took 2.5 MB each, sockets included; the
    /// attention's cache grows with the checkpoint, to 14 MB at 0.6 B parameters (by its shapes), and exists only while a turn
    /// goes on.
    pub live_streams: usize,
    /// Recordings at a time.
    pub recordings: usize,
    /// Answers of language models at a time.
    pub chats: usize,
    /// Streams of speech at a time.
    pub speech_streams: usize,
    /// Memory for keys and values of the answers of one language model, in bytes. It bounds their length together; a conversation and
    /// its answer never have more tokens than fit.
    pub kv_memory: usize,
    /// Memory for the weights of loaded models, in bytes, counted with four for each value of a file that is widened as it is loaded,
    /// safetensors among them, and other files with their size. Where another would pass it, models that are not in use are unloaded, the
    /// one that was asked for longest ago first; they load again when they are asked for. Models in use stay, and what does not fit beside
    /// them is refused.
    pub model_memory: u64,
    /// The tagger of personal words.
    pub tagger: TaggerChoice,
    /// The network that hears in live sessions whether a speaker has finished.
    pub turn_detector: TurnDetectorChoice,
}

impl Default for EngineOptions {
    /// The folder that [`models_dir`] finds, else `models`; the GPU if there is one, and all that are like it; three quarters of the
    /// machine's memory for models.
    fn default() -> Self {
        Self {
            models: models_dir().unwrap_or_else(|| "models".into()),
            devices: vec![DeviceChoice::Auto],
            every_gpu: true,
            precision: None,
            live_streams: 256,
            recordings: 64,
            chats: 16,
            speech_streams: 64,
            kv_memory: 1 << 30,
            model_memory: memory::total().map_or(u64::MAX, |total| total / 4 * 3),
            tagger: TaggerChoice::default(),
            turn_detector: TurnDetectorChoice::default(),
        }
    }
}

impl EngineOptions {
    /// Sets one device as [`devices`](Self#structfield.devices).
    #[must_use]
    pub fn device(self, device: DeviceChoice) -> Self {
        self.devices(vec![device])
    }

    setters! {
        models: impl Into<PathBuf> => models.into(),
        devices: Vec<DeviceChoice> => devices,
        every_gpu: bool => every_gpu,
        precision: impl Into<Option<Precision>> => precision.into(),
        live_streams: usize => live_streams,
        recordings: usize => recordings,
        chats: usize => chats,
        speech_streams: usize => speech_streams,
        kv_memory: usize => kv_memory,
        model_memory: u64 => model_memory,
        tagger: TaggerChoice => tagger,
        turn_detector: TurnDetectorChoice => turn_detector,
    }
}

/// The tagger that finds personal words beside patterns and lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TaggerChoice {
    /// The one that the catalog names; none if it names none.
    #[default]
    Shipped,
    /// None: patterns and lists alone.
    Off,
    /// A folder with a `BertForTokenClassification` and its `tokenizer.json`.
    Folder(PathBuf),
}

impl std::str::FromStr for TaggerChoice {
    type Err = std::convert::Infallible;

    /// `off`, or a folder.
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(if text == "off" { Self::Off } else { Self::Folder(text.into()) })
    }
}

/// The network that detects whether a speaker has finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TurnDetectorChoice {
    /// The catalog's, once it is pulled.
    #[default]
    Pulled,
    /// None: silence and words alone.
    Off,
    /// A Smart Turn network: an `.onnx` file, or a folder.
    Path(PathBuf),
}

impl std::str::FromStr for TurnDetectorChoice {
    type Err = std::convert::Infallible;

    /// `off`, or a path.
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(if text == "off" { Self::Off } else { Self::Path(text.into()) })
    }
}

/// The models folder: `AURICLE_MODELS`, else the first `models` with a `catalog.toml` in the working directory, beside the
/// program or above it.
pub fn models_dir() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os("AURICLE_MODELS") {
        return Some(dir.into());
    }
    let program = std::env::current_exe().ok();
    let above = program.iter().flat_map(|program| program.ancestors().skip(1)).map(|dir| dir.join("models"));
    std::iter::once(PathBuf::from("models")).chain(above).find(|dir| dir.join("catalog.toml").is_file())
}

/// Options of a transcription.
///
/// ```
/// use auricle_engine::TranscribeOptions;
///
/// let options = TranscribeOptions::default().model("svc-fast").language("en").keyterms(["Auricle"]);
/// assert_eq!(options.language.as_deref(), Some("en"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TranscribeOptions {
    /// A model of the catalog; its default for recordings if left out.
    pub model: Option<String>,
    /// A checkpoint in place of a model of the catalog: a folder, or Whisper in a file of whisper.cpp or a folder of CTranslate2.
    pub checkpoint: Option<PathBuf>,
    /// The language spoken, `en` say; found by the model where it can, if left out.
    pub language: Option<String>,
    /// The languages that may be spoken, one here and another there: a Whisper checkpoint tells for each stretch of speech
    /// which, and writes it by itself, which takes longer; Qwen3-ASR chooses one of them for each window. Not looked at where `language` is given; left empty, the model
    /// finds one for the whole recording.
    pub languages: Vec<String>,
    /// Names and words to expect.
    pub keyterms: Vec<Keyterm>,
    /// True to expect medical terms, in English, Spanish, German and French; it changes nothing in other languages.
    pub medical_mode: bool,
    /// Streaming checkpoints: at most this much look-ahead, in ms; the longest trained one if left out.
    pub look_ahead_ms: Option<u32>,
    /// The language model that joins the search.
    pub language_model: LanguageModelChoice,
    /// Weights of the fusion with the language model.
    pub fusion: FusionWeights,
    /// Texts that are followed at a time, at least 1; more is slower and, up to a point, better. If left out, 16 where a
    /// language model joins the search, and for a Whisper checkpoint 1, or on a CPU what the catalog states for its model.
    pub beam: Option<usize>,
    /// Whisper checkpoints: one window after another, each with the text before it, in place of windows cut at silence
    /// and written side by side. Slower; names and style may stay the same for longer.
    pub sequential: bool,
    /// True to write English, whatever language is spoken: for Whisper checkpoints of many languages, and Canary.
    pub translate: bool,
    /// Speaker labels: off, found, or for an expected number of speakers.
    pub speakers: SpeakerLabels,
    /// People whom speakers are named after where the voice is surely theirs. It needs speaker labels.
    pub known_speakers: Vec<KnownSpeaker>,
    /// True to write spoken numbers in digits, "twelve thousand dollars" as "$12,000": in English, Spanish, German, French, Portuguese,
    /// Italian and Dutch. Else they are as the model writes them.
    pub format_numbers: bool,
}

impl Default for TranscribeOptions {
    fn default() -> Self {
        Self {
            model: None,
            checkpoint: None,
            language: None,
            languages: Vec::new(),
            keyterms: Vec::new(),
            medical_mode: false,
            look_ahead_ms: None,
            language_model: LanguageModelChoice::default(),
            fusion: FusionWeights::default(),
            beam: None,
            sequential: false,
            translate: false,
            speakers: SpeakerLabels::default(),
            known_speakers: Vec::new(),
            format_numbers: true,
        }
    }
}

/// Speaker labels of a transcription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpeakerLabels {
    /// None.
    #[default]
    Off,
    /// As many speakers as are found.
    Found,
    /// About this many speakers, 1 to 20: a hint.
    Expected(usize),
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

impl TranscribeOptions {
    setters! {
        model: impl Into<String> => Some(model.into()),
        checkpoint: impl Into<PathBuf> => Some(checkpoint.into()),
        language: impl Into<String> => Some(language.into()),
        languages: impl IntoIterator<Item = impl Into<String>> => languages.into_iter().map(Into::into).collect(),
        keyterms: impl IntoIterator<Item = impl Into<Keyterm>> => keyterms.into_iter().map(Into::into).collect(),
        medical_mode: bool => medical_mode,
        look_ahead_ms: u32 => Some(look_ahead_ms),
        language_model: LanguageModelChoice => language_model,
        fusion: FusionWeights => fusion,
        beam: usize => Some(beam),
        sequential: bool => sequential,
        translate: bool => translate,
        speakers: SpeakerLabels => speakers,
        known_speakers: impl IntoIterator<Item = KnownSpeaker> => known_speakers.into_iter().collect(),
        format_numbers: bool => format_numbers,
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
#[non_exhaustive]
pub struct ListenOptions {
    /// A live model of the catalog; its default for live sessions if left out.
    pub model: Option<String>,
    /// The language spoken, `en` say; found by the model where it can, if left out.
    pub language: Option<String>,
    /// The languages that may be spoken where none is given and the live model knows one alone; any that the second pass has, if left
    /// empty.
    pub languages: Vec<String>,
    /// Names and words to expect. Those that the model cannot write are left out.
    pub keyterms: Vec<Keyterm>,
    /// True to expect medical terms, in English, Spanish, German and French; it changes nothing in other languages.
    pub medical_mode: bool,
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
    /// False for partials that are the first pass's alone, which come at an even pace; else they get the words on which readings of the second
    /// pass agree.
    pub refreshed_partials: bool,
    /// The offline model that reads each turn again when it ends, and whose text is the formatted one then. It also writes what the live
    /// model lacks: sessions in another language and, where a session has none and the live model knows one alone, turns in others. It needs
    /// a speech detector.
    pub second_pass: SecondPass,
    /// The longest time from a turn's final to its formatted text, ms: a second pass that would take longer is not begun, and one that
    /// does is not waited for.
    pub formatted_within_ms: u32,
    /// True to write spoken numbers in digits in the formatted text, as
    /// [`TranscribeOptions::format_numbers`](TranscribeOptions#structfield.format_numbers) does.
    pub format_numbers: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            model: None,
            language: None,
            languages: Vec::new(),
            keyterms: Vec::new(),
            medical_mode: false,
            sample_rate: SAMPLE_RATE,
            look_ahead_ms: None,
            turns: EndpointingRules::default(),
            language_model: LanguageModelChoice::default(),
            fusion: FusionWeights::default(),
            beam: None,
            refreshed_partials: true,
            second_pass: SecondPass::default(),
            formatted_within_ms: 300,
            format_numbers: true,
        }
    }
}

impl ListenOptions {
    setters! {
        model: impl Into<String> => Some(model.into()),
        language: impl Into<String> => Some(language.into()),
        languages: impl IntoIterator<Item = impl Into<String>> => languages.into_iter().map(Into::into).collect(),
        keyterms: impl IntoIterator<Item = impl Into<Keyterm>> => keyterms.into_iter().map(Into::into).collect(),
        medical_mode: bool => medical_mode,
        sample_rate: u32 => sample_rate,
        look_ahead_ms: u32 => Some(look_ahead_ms),
        turns: EndpointingRules => turns,
        language_model: LanguageModelChoice => language_model,
        fusion: FusionWeights => fusion,
        beam: usize => Some(beam),
        refreshed_partials: bool => refreshed_partials,
        second_pass: SecondPass => second_pass,
        formatted_within_ms: u32 => formatted_within_ms,
        format_numbers: bool => format_numbers,
    }
}
