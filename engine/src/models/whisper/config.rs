//! Reads `config.json` and `generation_config.json` of the published class and checks them against each other and the
//! tokenizer.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::Tokenizer;

use super::block_form::{BlockForm, DecoderConfig};
use crate::error::{Error, Result};
use crate::models::calibration::Calibration;
use crate::models::emission_delay::{EmissionDelay, EmissionDelays};

/// Samples of an encoder frame.
pub const SAMPLES_PER_FRAME: usize = 320;
/// Frames of short windows are multiples of this, so that a GPU meets few shapes.
const FRAMES_GRID: usize = 32;
/// Timestamps of a window: 0.00 to 30.00 s in steps of 20 ms.
pub const TIMESTAMPS: usize = 1501;

/// A checkpoint's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Width of a frame.
    pub size: usize,
    /// Blocks of the encoder.
    pub encoder_layers: usize,
    /// Blocks of the decoder.
    pub decoder_layers: usize,
    /// Attention heads of the encoder.
    pub encoder_heads: usize,
    /// Attention heads of the decoder.
    pub decoder_heads: usize,
    /// Width inside the encoder's feed-forward modules.
    pub encoder_inner: usize,
    /// Width inside the decoder's feed-forward modules.
    pub decoder_inner: usize,
    /// Mel bins.
    pub mels: usize,
    /// Encoder frames of a window of 30 s.
    pub frames: usize,
    /// Windows shorter than 30 s, if the checkpoint is trained for them.
    pub short_windows: Option<ShortWindows>,
    /// Positions of the decoder: the most tokens of a sequence.
    pub positions: usize,
    /// Number of tokens in the vocabulary.
    pub vocab_size: usize,
    /// Width of the median filter over attention, frames.
    pub median_filter: usize,
    /// Decoder layer and head of each attention head that follows the audio; all heads of the upper half if the
    /// checkpoint names none.
    pub alignment_heads: Vec<(usize, usize)>,
    /// Tokens that are always suppressed.
    pub suppressed: Vec<u32>,
    /// Tokens that are suppressed at the first position.
    pub suppressed_first: Vec<u32>,
    /// The latest timestamp allowed at the first position.
    pub latest_first: Option<usize>,
    /// How late, or early, the alignment heads look at a word, by `emission_delay.json`.
    pub emission_delay: EmissionDelay,
    /// The map of the words' confidences, by `confidence.json`.
    pub calibration: Calibration,
    /// The special tokens.
    pub special: SpecialTokens,
}

/// Encoder frames of a window that is shorter than 30 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortWindows {
    /// The fewest frames.
    pub least: usize,
    /// Frames behind the window's audio.
    pub margin: usize,
}

/// The sizes of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderConfig {
    /// Width of a frame.
    pub size: usize,
    /// Blocks.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width inside the feed-forward modules.
    pub inner: usize,
    /// Mel bins.
    pub mels: usize,
    /// Encoder frames of a window.
    pub frames: usize,
}

/// Tokens that are not text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialTokens {
    /// The end of the text.
    pub end: u32,
    /// The start of the transcript.
    pub start: u32,
    /// Task, after the language: transcribe.
    pub transcribe: Option<u32>,
    /// Task, after the language: translate to English.
    pub translate: Option<u32>,
    /// Precedes the text of earlier windows.
    pub previous: Option<u32>,
    /// The window has no speech.
    pub no_speech: u32,
    /// Disables timestamps; the next token is the first timestamp.
    pub no_timestamps: u32,
    /// Language tokens by code, such as `en`. Empty for checkpoints for English only.
    pub languages: BTreeMap<String, u32>,
}

impl SpecialTokens {
    /// The token of 0.00 s.
    pub fn first_timestamp(&self) -> u32 {
        self.no_timestamps + 1
    }

    /// True for timestamps.
    pub fn is_timestamp(&self, token: u32) -> bool {
        token > self.no_timestamps
    }

    /// The code of a language's token.
    pub fn language(&self, token: u32) -> Option<&str> {
        self.languages.iter().find(|(_, id)| **id == token).map(|(code, _)| code.as_str())
    }
}

/// `config.json` of the published class.
#[derive(Deserialize)]
pub(super) struct ConfigFile {
    pub d_model: usize,
    pub encoder_layers: usize,
    pub decoder_layers: usize,
    pub encoder_attention_heads: usize,
    pub decoder_attention_heads: usize,
    pub encoder_ffn_dim: usize,
    pub decoder_ffn_dim: usize,
    #[serde(default = "mels")]
    pub num_mel_bins: usize,
    #[serde(default = "frames")]
    pub max_source_positions: usize,
    #[serde(default = "positions")]
    pub max_target_positions: usize,
    pub vocab_size: usize,
    #[serde(default)]
    pub activation_function: Option<String>,
    #[serde(default)]
    pub scale_embedding: bool,
    #[serde(default = "median_filter")]
    pub median_filter_width: usize,
}

fn mels() -> usize {
    80
}

fn frames() -> usize {
    1500
}

fn positions() -> usize {
    448
}

pub(super) fn median_filter() -> usize {
    7
}

/// `generation_config.json` of the published class.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct GenerationFile {
    pub alignment_heads: Option<Vec<(usize, usize)>>,
    pub suppress_tokens: Option<Vec<i64>>,
    pub begin_suppress_tokens: Option<Vec<i64>>,
    pub max_initial_timestamp_index: Option<usize>,
    pub is_multilingual: Option<bool>,
    pub lang_to_id: Option<BTreeMap<String, u32>>,
    pub eos_token_id: Value,
    pub audio_context_margin: Option<usize>,
    pub min_audio_context: usize,
}

impl Config {
    /// Reads the configuration of a checkpoint folder and checks it against the folder's tokenizer.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing, malformed or of another family.
    pub fn read(dir: &Path, tokenizer: &Tokenizer) -> Result<Self> {
        let path = dir.join("config.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path).map_err(|error| bad(error.to_string()))?;
        let file: ConfigFile = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let config = Self::new(file, generation(dir)?, tokenizer).map_err(bad)?;
        let (emission_delay, calibration) = (EmissionDelays::read(dir)?.at(0), Calibration::read(dir)?);
        Ok(Self { emission_delay, calibration, ..config })
    }

    /// Checks what a checkpoint states about itself against its tokenizer.
    ///
    /// # Errors
    /// The fault.
    pub(super) fn new(
        file: ConfigFile,
        generation: GenerationFile,
        tokenizer: &Tokenizer,
    ) -> std::result::Result<Self, String> {
        if file.activation_function.as_deref().is_some_and(|name| name != "gelu") {
            return Err("its activation function is not gelu".into());
        }
        if file.scale_embedding {
            return Err("it scales its embeddings, which no published checkpoint does".into());
        }
        for (what, heads) in [("encoder", file.encoder_attention_heads), ("decoder", file.decoder_attention_heads)] {
            if heads == 0 || !file.d_model.is_multiple_of(heads) {
                return Err(format!("{heads} {what} heads do not divide a width of {}", file.d_model));
            }
        }
        let special = SpecialTokens::read(tokenizer, &generation)?;
        let timestamps = file.vocab_size.checked_sub(special.first_timestamp() as usize);
        if timestamps != Some(TIMESTAMPS) {
            return Err(format!(
                "a vocabulary of {} tokens does not end in {TIMESTAMPS} timestamps after token {}",
                file.vocab_size, special.no_timestamps
            ));
        }
        let upper_half = || {
            (file.decoder_layers / 2..file.decoder_layers)
                .flat_map(|layer| (0..file.decoder_attention_heads).map(move |head| (layer, head)))
                .collect()
        };
        let alignment_heads = generation.alignment_heads.unwrap_or_else(upper_half);
        let there =
            |(layer, head): &(usize, usize)| *layer < file.decoder_layers && *head < file.decoder_attention_heads;
        if !alignment_heads.iter().all(there) {
            return Err("generation_config.json names an alignment head that the decoder does not have".into());
        }
        let tokens = |list: Option<Vec<i64>>| -> Vec<u32> {
            let known = |id: i64| u32::try_from(id).ok().filter(|id| (*id as usize) < file.vocab_size);
            list.unwrap_or_default().into_iter().filter_map(known).collect()
        };
        Ok(Self {
            size: file.d_model,
            encoder_layers: file.encoder_layers,
            decoder_layers: file.decoder_layers,
            encoder_heads: file.encoder_attention_heads,
            decoder_heads: file.decoder_attention_heads,
            encoder_inner: file.encoder_ffn_dim,
            decoder_inner: file.decoder_ffn_dim,
            mels: file.num_mel_bins,
            frames: file.max_source_positions,
            short_windows: generation
                .audio_context_margin
                .map(|margin| ShortWindows { least: generation.min_audio_context, margin }),
            positions: file.max_target_positions,
            vocab_size: file.vocab_size,
            median_filter: file.median_filter_width,
            alignment_heads,
            suppressed: tokens(generation.suppress_tokens),
            suppressed_first: tokens(generation.begin_suppress_tokens),
            latest_first: generation.max_initial_timestamp_index,
            emission_delay: EmissionDelay::default(),
            calibration: Calibration::default(),
            special,
        })
    }

    /// Encoder frames of a window of so many samples, 30 s at most.
    pub fn window_frames(&self, samples: usize) -> usize {
        let frames = self.short_windows.map_or(self.frames, |short| {
            (samples.div_ceil(SAMPLES_PER_FRAME) + short.margin).max(short.least).next_multiple_of(FRAMES_GRID)
        });
        frames.min(self.frames)
    }

    /// The sizes of the encoder.
    pub fn encoder(&self) -> EncoderConfig {
        EncoderConfig {
            size: self.size,
            layers: self.encoder_layers,
            heads: self.encoder_heads,
            inner: self.encoder_inner,
            mels: self.mels,
            frames: self.frames,
        }
    }

    /// The sizes of the decoder.
    pub fn decoder(&self) -> DecoderConfig {
        DecoderConfig {
            form: &BlockForm::WHISPER,
            size: self.size,
            layers: self.decoder_layers,
            heads: self.decoder_heads,
            inner: self.decoder_inner,
            vocab_size: self.vocab_size,
            alignment_heads: self.alignment_heads.clone(),
        }
    }

    /// True if the checkpoint has language tokens.
    pub fn is_multilingual(&self) -> bool {
        !self.special.languages.is_empty()
    }
}

/// Reads `generation_config.json`; a folder may lack it.
fn generation(dir: &Path) -> Result<GenerationFile> {
    let path = dir.join("generation_config.json");
    let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
    match std::fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| bad(error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(GenerationFile::default()),
        Err(error) => Err(bad(error.to_string())),
    }
}

impl SpecialTokens {
    fn read(tokenizer: &Tokenizer, generation: &GenerationFile) -> std::result::Result<Self, String> {
        let id = |text: &str| tokenizer.token_to_id(text);
        let needed = |text: &str| id(text).ok_or_else(|| format!("its tokenizer has no {text}"));
        let (start, no_timestamps) = (needed("<|startoftranscript|>")?, needed("<|notimestamps|>")?);
        let translate = id("<|translate|>");
        let multilingual = generation.is_multilingual.unwrap_or(generation.lang_to_id.is_some());
        let named = |(text, id): (String, u32)| Some((text.strip_prefix("<|")?.strip_suffix("|>")?.to_owned(), id));
        let languages = match (&generation.lang_to_id, multilingual) {
            (_, false) => BTreeMap::new(),
            (Some(languages), true) => languages.clone().into_iter().filter_map(named).collect(),
            // The languages are between the start token and the first task token.
            (None, true) => {
                let between = start + 1..translate.unwrap_or(start + 1);
                between.filter_map(|id| named((tokenizer.id_to_token(id)?, id))).collect()
            }
        };
        let end = generation.eos_token_id.as_u64().and_then(|id| u32::try_from(id).ok());
        Ok(Self {
            end: end.map_or_else(|| needed("<|endoftext|>"), Ok)?,
            start,
            transcribe: id("<|transcribe|>").filter(|_| multilingual),
            translate: translate.filter(|_| multilingual),
            previous: id("<|startofprev|>"),
            no_speech: no_timestamps.saturating_sub(1),
            no_timestamps,
            languages,
        })
    }
}
