//! A folder that speaks: network and voices.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use auricle_kernels::product::gemv::Precision;
use burn::tensor::Device;

use super::config::Config;
use super::network::{Network, Unfinished};
use super::source::SAMPLE_RATE;
use super::stages::Advanced;
use super::symbols::Symbols;
use crate::error::{Error, Result};
use crate::models::noise::Noise;
use crate::weights::read_only_tensor;

/// Rows of a voice at most.
const MOST_ROWS: usize = 1 << 12;
/// The first letter of a published voice's id is its language, the second its speaker's sex.
const LANGUAGES: [(char, &str); 9] = [
    ('a', "American English"),
    ('b', "British English"),
    ('e', "Spanish"),
    ('f', "French"),
    ('h', "Hindi"),
    ('i', "Italian"),
    ('j', "Japanese"),
    ('p', "Portuguese"),
    ('z', "Mandarin"),
];
/// Languages of [`LANGUAGES`] that text is read in.
const READ: [char; 2] = ['a', 'b'];
/// The voice that its makers call the best.
const BEST: &str = "af_heart";

/// A model with its voices.
#[derive(Debug)]
pub struct Kokoro {
    network: Network,
    symbols: Symbols,
    voices: Vec<Voice>,
    device: Device,
}

#[derive(Debug)]
struct Voice {
    /// A style for each number of symbols, `[rows, 2 style]`.
    rows: Vec<Arc<[f32]>>,
}

/// An utterance whose prosody is known.
#[derive(Clone, Debug)]
pub struct Utterance {
    /// Samples of each symbol.
    pub durations: Vec<usize>,
    samples: Unfinished,
}

/// The result of a step of an utterance.
#[derive(Debug)]
pub enum Spoken {
    /// It goes on.
    Unfinished(Utterance),
    /// All of its samples.
    Samples(Vec<f32>),
}

/// The ids of a folder's voices that speak English, the best first, then in alphabetical order.
///
/// # Errors
/// [`Error::Checkpoint`] when there is none.
pub fn voice_ids(dir: &Path) -> Result<Vec<String>> {
    let path = dir.join("voices");
    let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
    let files = std::fs::read_dir(&path).map_err(|e| bad(format!("cannot read: {e}")))?;
    let mut ids = Vec::new();
    for file in files {
        let file = file.map_err(|e| bad(format!("cannot read: {e}")))?.path();
        if file.extension().is_some_and(|extension| extension == "pt" || extension == "safetensors") {
            ids.extend(file.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    ids.retain(|id| other_language(id).is_none());
    ids.sort_by_key(|id| (id != BEST, id.clone()));
    ids.dedup();
    if ids.is_empty() {
        return Err(bad("there is no English voice: a voice is a .pt or .safetensors file of its styles".into()));
    }
    Ok(ids)
}

/// The language of a published voice whose text is not read.
pub fn other_language(id: &str) -> Option<&'static str> {
    let mut letters = id.chars();
    let (Some(language), Some('f' | 'm'), Some('_')) = (letters.next(), letters.next(), letters.next()) else {
        return None;
    };
    let (_, name) = LANGUAGES.iter().find(|(letter, _)| *letter == language && !READ.contains(letter))?;
    Some(name)
}

/// The file of a voice, if it is there.
fn voice_file(dir: &Path, id: &str) -> Option<PathBuf> {
    let files = ["pt", "safetensors"].map(|extension| dir.join("voices").join(format!("{id}.{extension}")));
    files.into_iter().find(|path| path.is_file())
}

/// True if a folder has a voice, in whatever language.
pub fn has_voice(dir: &Path, id: &str) -> bool {
    // An id is no path.
    !id.contains(['/', '\\']) && voice_file(dir, id).is_some()
}

impl Voice {
    fn read(dir: &Path, id: &str, config: &Config) -> Result<Self> {
        let path = voice_file(dir, id).ok_or_else(|| Error::internal("a voice is listed and not there"))?;
        let (shape, values) = read_only_tensor(&path)?;
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let width = 2 * config.style;
        let rows = match shape.as_slice() {
            [rows, values] | [rows, 1, values] if *values == width => *rows,
            _ => return Err(bad(format!("its shape is {shape:?}, and a voice has rows of {width} values"))),
        };
        if !(1..=MOST_ROWS).contains(&rows) {
            return Err(bad(format!("it has {rows} rows, and a voice from 1 to {MOST_ROWS}")));
        }
        if values.iter().any(|value| !value.is_finite()) {
            return Err(bad("its values are no numbers".into()));
        }
        Ok(Self { rows: values.chunks_exact(width).map(Arc::from).collect() })
    }
}

impl Kokoro {
    /// True for a folder of this form.
    pub fn is_in(dir: &Path) -> bool {
        Config::is_in(dir)
    }

    /// Loads the network of a folder, and the voices in its `voices`.
    ///
    /// # Errors
    /// As [`Network::load`]; [`Error::Checkpoint`] for a voice, and a vocabulary that lacks a symbol of English.
    pub fn load(dir: &Path, device: &Device, precision: Precision) -> Result<Self> {
        let network = Network::load(dir, device, precision)?;
        let bad = |reason| Error::Checkpoint { path: dir.join("config.json"), reason };
        let symbols = Symbols::new(&network.config().vocab).map_err(bad)?;
        let voice = |id: String| Voice::read(dir, &id, network.config());
        let voices = voice_ids(dir)?.into_iter().map(voice).collect::<Result<_>>()?;
        Ok(Self { network, symbols, voices, device: device.clone() })
    }

    /// Number of values in the network's tensors.
    pub fn parameters(&self) -> usize {
        self.network.parameters()
    }

    /// Of the samples, hertz.
    pub fn sample_rate(&self) -> u32 {
        SAMPLE_RATE
    }

    /// The device that holds the weights.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Numbers of what it reads.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Symbols of an utterance at most, the silences at its ends among them.
    pub fn most_symbols(&self) -> usize {
        self.network.config().albert.positions
    }

    /// Begins an utterance: its prosody. `symbols` have the silences at both ends. Equal symbols are said alike.
    ///
    /// # Errors
    /// As [`Network::stages`]; [`Error::Internal`] for a voice that is not there.
    pub fn start(&self, voice: usize, symbols: &[usize], speed: f32) -> Result<Utterance> {
        let voice = self.voices.get(voice);
        let voice = voice.ok_or_else(|| Error::internal("an utterance of a voice that is not there"))?;
        // The row of a number of symbols without the silences, from one on.
        let row = symbols.len().saturating_sub(3).min(voice.rows.len() - 1);
        let style = &voice.rows[row];
        let stages = self.network.stages(symbols, style, speed)?;
        let durations = stages.durations.iter().map(|frames| frames * self.network.frame()).collect();
        let mixed = |state: u64, symbol: &usize| (state ^ *symbol as u64).wrapping_mul(0x0100_0000_01b3);
        let seed = symbols.iter().fold(0xcbf2_9ce4_8422_2325, mixed);
        let noise = Noise::new(seed, 1.0).draw(self.network.sample_count(&stages.pitch));
        Ok(Utterance { durations, samples: self.network.start(stages, &noise, style)? })
    }

    /// Computes the next part of an utterance.
    ///
    /// # Errors
    /// As [`Network::advance`].
    pub fn advance(&self, utterance: &Utterance) -> Result<Spoken> {
        Ok(match self.network.advance(&utterance.samples)? {
            Advanced::Unfinished(samples) => {
                Spoken::Unfinished(Utterance { durations: utterance.durations.clone(), samples })
            }
            Advanced::Samples(samples) => Spoken::Samples(samples),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voices_of_other_languages_are_known_by_their_names() {
        assert_eq!(other_language("ff_siwis"), Some("French"));
        assert_eq!(other_language("zm_yunxi"), Some("Mandarin"));
        for id in ["af_heart", "bm_george", "heart", "fx_other", "zoe", "f"] {
            assert_eq!(other_language(id), None, "{id}");
        }
    }
}
