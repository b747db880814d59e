//! A voice by phones: a folder with an acoustic model, a vocoder and a G2P model.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use super::phrase::{PhonePhrase, Symbols, phrases};
use crate::error::{Error, Result};
use crate::models::bert::G2p;
use crate::models::fastspeech2::{FastSpeech2, Utterance};
use crate::models::vocos::{MelChunk, Vocos};
use crate::text::speech::{Clause, PHONES, Phone, Pronouncer};

/// Marks of the vocabulary.
const MARKS: [&str; 4] = [",", ".", "?", "!"];
/// Symbols of a phrase at most.
const MOST_SYMBOLS: usize = 400;
/// The silence before a phrase.
const EDGE: &str = "<sos/eos>";

/// The models.
pub struct PhoneVoice {
    /// Symbols to mels.
    pub acoustic: FastSpeech2,
    /// Mels to samples.
    pub vocoder: Vocos,
    pronouncer: Pronouncer,
    vocabulary: Vocabulary,
}

struct Vocabulary {
    phones: Vec<usize>,
    marks: [usize; MARKS.len()],
    edge: usize,
}

impl Symbols for Vocabulary {
    fn most(&self) -> usize {
        MOST_SYMBOLS
    }

    fn edge(&self) -> usize {
        self.edge
    }

    fn word(&self, _: &str, phones: &[Phone]) -> Vec<usize> {
        phones.iter().map(|phone| self.phones.get(phone.index()).copied().unwrap_or(self.edge)).collect()
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

impl PhoneVoice {
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
        let count = voice_ids(dir)?.len();
        let expected = acoustic.config().voices.max(1);
        if count != expected {
            let reason = format!("{count} voices are named, the model has {expected}");
            return Err(bad(acoustic_dir.join("voices.json"), reason));
        }
        Ok(Self {
            vocabulary: Vocabulary::read(&acoustic_dir.join("vocab.json"), acoustic.config().symbols)?,
            // It reads a word now and then, on the caller's thread.
            pronouncer: Pronouncer::new(Some(Arc::new(G2p::load(&dir.join("g2p"))?))),
            acoustic,
            vocoder,
        })
    }

    /// The phrases of a clause; `written` gives the text of a range.
    ///
    /// # Errors
    /// As [`Pronouncer::phones`].
    pub fn phrases(&self, clause: &Clause, written: impl Fn(Range<usize>) -> String) -> Result<Vec<PhonePhrase>> {
        let phones = self.pronouncer.phones(clause)?;
        Ok(phrases(clause, &phones, &self.vocabulary, written))
    }

    /// All samples of a phrase.
    ///
    /// # Errors
    /// As [`FastSpeech2::speak`].
    pub fn say(&self, phrase: &PhonePhrase, voice: usize) -> Result<Vec<f32>> {
        let frames = self.acoustic.speak(&[Utterance { symbols: &phrase.symbols, voice, speed: 1.0 }])?;
        let mut spoken = Vec::new();
        for frames in frames {
            let chunk = MelChunk { mels: &frames.mels, is_last: true };
            spoken.extend(self.vocoder.forward(&[chunk], &mut [&mut self.vocoder.start()])?.concat());
        }
        Ok(spoken)
    }
}
