//! A voice model: a folder with an acoustic model, a vocoder and a G2P model, and its voices.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use burn::tensor::Device;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use super::phrase::{Phrase, Symbols, phrases};
use crate::audio::loudness;
use crate::error::{Error, Result};
use crate::load_once::Loaded;
use crate::models::bert::G2p;
use crate::models::fastspeech2::{FastSpeech2, Utterance};
use crate::models::vocos::{MelChunk, Vocos};
use crate::text::speech::{Clause, ClauseSplitter, PHONES, Phone, Pronouncer};

/// Loudness of speech, LUFS.
const LOUDNESS: f64 = -20.0;
/// Decibels that a voice is made louder or quieter at most.
const MOST_GAIN_DB: f64 = 18.0;
/// Text whose speech is measured: the first two of the Harvard sentences.
const MEASURED: &str = "The birch canoe slid on the smooth planks. Glue the sheet to the dark blue background.";
/// Marks of the vocabulary.
const MARKS: [&str; 4] = [",", ".", "?", "!"];
/// The silence before a phrase.
const EDGE: &str = "<sos/eos>";

/// A loaded voice model.
pub struct VoiceModel {
    /// Symbols to mels.
    pub acoustic: FastSpeech2,
    /// Mels to samples.
    pub vocoder: Vocos,
    pronouncer: Pronouncer,
    vocabulary: Vocabulary,
    voices: Vec<Voice>,
}

struct Voice {
    id: String,
    /// Factor that brings it to the common loudness, once it is measured.
    gain: OnceLock<f32>,
}

struct Vocabulary {
    phones: Vec<usize>,
    marks: [usize; MARKS.len()],
    edge: usize,
}

impl Symbols for Vocabulary {
    fn edge(&self) -> usize {
        self.edge
    }

    fn phone(&self, phone: Phone) -> usize {
        self.phones.get(phone.index()).copied().unwrap_or(self.edge)
    }

    fn mark(&self, mark: &str) -> Option<usize> {
        MARKS.iter().position(|known| *known == mark).map(|at| self.marks[at])
    }
}

impl Vocabulary {
    /// Reads `vocab.json`, a number for each symbol.
    fn read(path: &Path, symbols: usize) -> Result<Self> {
        let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
        let text = std::fs::read_to_string(path).map_err(|e| bad(format!("cannot read: {e}")))?;
        let numbers: BTreeMap<String, usize> = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        let number = |symbol: &str| match numbers.get(symbol) {
            Some(number) if *number < symbols => Ok(*number),
            Some(number) => Err(bad(format!("symbol {symbol} has the number {number} of {symbols}"))),
            None => Err(bad(format!("symbol {symbol} is missing"))),
        };
        let [comma, stop, question, exclamation] = MARKS.map(number);
        Ok(Self {
            phones: PHONES.iter().map(|phone| number(phone)).collect::<Result<_>>()?,
            marks: [comma?, stop?, question?, exclamation?],
            edge: number(EDGE)?,
        })
    }
}

/// The ids of a folder's voices, in their order.
///
/// # Errors
/// [`Error::Checkpoint`] when `acoustic/voices.json` is missing or malformed.
pub fn voice_ids(dir: &Path) -> Result<Vec<String>> {
    let path = dir.join("acoustic").join("voices.json");
    let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
    let text = std::fs::read_to_string(&path).map_err(|e| bad(format!("cannot read: {e}")))?;
    let Keys(ids) = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
    if ids.is_empty() {
        return Err(bad("there is no voice".into()));
    }
    Ok(ids)
}

/// The keys of a map, in the order of the file: a voice's place is its number.
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Keys;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a map of voices")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, IgnoredAny)) = map.next_entry()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_map(KeyVisitor)
    }
}

impl Loaded for VoiceModel {}

impl VoiceModel {
    /// Loads the folders `acoustic`, `vocoder` and `g2p` of a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device) -> Result<Self> {
        let bad = |path: PathBuf, reason: String| Error::Checkpoint { path, reason };
        let acoustic_dir = dir.join("acoustic");
        let acoustic = FastSpeech2::load(&acoustic_dir, device)?;
        let vocoder = Vocos::load(&dir.join("vocoder"), device)?;
        if acoustic.config().mels != vocoder.config().n_mels {
            let (made, read) = (acoustic.config().mels, vocoder.config().n_mels);
            return Err(bad(dir.join("vocoder"), format!("it reads {read} mels, the acoustic model makes {made}")));
        }
        let ids = voice_ids(dir)?;
        let expected = acoustic.config().voices.max(1);
        if ids.len() != expected {
            let reason = format!("{} voices are named, the model has {expected}", ids.len());
            return Err(bad(acoustic_dir.join("voices.json"), reason));
        }
        Ok(Self {
            vocabulary: Vocabulary::read(&acoustic_dir.join("vocab.json"), acoustic.config().symbols)?,
            // On the CPU wherever the models run: it reads a word now and then, on the caller's thread.
            pronouncer: Pronouncer::new(Some(Arc::new(G2p::load(&dir.join("g2p"), &Device::flex())?))),
            voices: ids.into_iter().map(|id| Voice { id, gain: OnceLock::new() }).collect(),
            acoustic,
            vocoder,
        })
    }

    /// Number of values in the tensors of acoustic model and vocoder.
    pub fn parameters(&self) -> usize {
        self.acoustic.parameters() + self.vocoder.parameters()
    }

    /// Number of a voice.
    pub fn voice(&self, id: &str) -> Option<usize> {
        self.voices.iter().position(|voice| voice.id == id)
    }

    /// Sample rate of the vocoder, hertz.
    pub fn sample_rate(&self) -> u32 {
        self.vocoder.config().sample_rate
    }

    /// The phrases of a clause; `written` gives the text of a range.
    ///
    /// # Errors
    /// As [`Pronouncer::phones`].
    pub fn phrases(&self, clause: &Clause, written: impl Fn(std::ops::Range<usize>) -> String) -> Result<Vec<Phrase>> {
        let phones = self.pronouncer.phones(clause)?;
        Ok(phrases(clause, &phones, &self.vocabulary, written))
    }

    /// The factor that brings a voice to -20 LUFS. The first call says a sentence to measure it, which takes about as long as two
    /// seconds of speech do, and compiles what a GPU needs.
    ///
    /// # Errors
    /// As [`FastSpeech2::speak`].
    pub fn gain(&self, voice: usize) -> Result<f32> {
        let Some(slot) = self.voices.get(voice) else {
            return Err(Error::internal(format!("voice {voice} of {}", self.voices.len())));
        };
        if let Some(gain) = slot.gain.get() {
            return Ok(*gain);
        }
        let mut splitter = ClauseSplitter::new();
        let mut clauses = splitter.push(MEASURED);
        clauses.extend(splitter.finish());
        let mut spoken = Vec::new();
        for clause in clauses {
            for Phrase { symbols, .. } in self.phrases(&clause, |_| String::new())? {
                let frames = self.acoustic.speak(&[Utterance { symbols: &symbols, voice, speed: 1.0 }])?;
                for frames in frames {
                    let chunk = MelChunk { mels: &frames.mels, is_last: true };
                    spoken.extend(self.vocoder.forward(&[chunk], &mut [&mut self.vocoder.start()])?.concat());
                }
            }
        }
        let decibels = loudness::integrated(&spoken, self.sample_rate()).map_or(0.0, |loudness| LOUDNESS - loudness);
        let gain = 10f64.powf(decibels.clamp(-MOST_GAIN_DB, MOST_GAIN_DB) / 20.0) as f32;
        Ok(*slot.gain.get_or_init(|| gain))
    }
}
