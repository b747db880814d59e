//! A model that speaks, by phones, frame by frame or a clause at once, and its voices.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use auricle_kernels::product::gemv::Precision;
use burn::tensor::Device;

use super::clause_voice::ClauseVoice;
use super::phone_voice::{self, PhoneVoice};
use super::phrase::Phrase;
use super::text_phrase::TextPhrase;
use crate::audio::loudness;
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::load_once::Loaded;
use crate::models::kokoro::{self, Kokoro};
use crate::models::pocket_tts::{self, PocketTts, Utterance};
use crate::text::speech::{Clause, ClauseSplitter};
use crate::weights::read_only_tensor;

/// Loudness of speech, LUFS.
const LOUDNESS: f64 = -20.0;
/// Decibels that a voice is made louder or quieter at most.
const MOST_GAIN_DB: f64 = 18.0;
/// Text whose speech is measured: the first two of the Harvard sentences.
const MEASURED: &str = "The birch canoe slid on the smooth planks. Glue the sheet to the dark blue background.";

/// Voices beside those of the folder that are kept with what their utterances share; the last ones used stay.
const MOST_RECORDED: usize = 16;

/// A loaded model that speaks.
pub struct VoiceModel {
    /// Text to samples.
    pub synthesizer: Synthesizer,
    voices: Vec<Voice>,
    recorded: Mutex<Vec<Arc<RecordedVoice>>>,
    /// The language that its voices speak.
    language: String,
}

/// The form of a model.
pub enum Synthesizer {
    /// Phones to mels, and mels to samples.
    Phones(Box<PhoneVoice>),
    /// Text to a frame after another.
    Frames(Box<PocketTts>),
    /// Phones to the samples of a clause.
    Clauses(Box<ClauseVoice>),
}

struct Voice {
    id: String,
    measures: OnceLock<Measures>,
}

/// A voice of a loaded model.
#[derive(Clone)]
pub enum ModelVoice {
    /// One of its folder, by the number.
    Listed(usize),
    /// One beside them.
    Recorded(Arc<RecordedVoice>),
}

/// A voice that was made of a recording.
pub struct RecordedVoice {
    voice: pocket_tts::Voice,
    measures: OnceLock<Measures>,
}

impl ModelVoice {
    /// Its number in the folder.
    ///
    /// # Errors
    /// [`Error::Internal`] for a voice beside those of the folder.
    pub fn listed(&self) -> Result<usize> {
        match self {
            Self::Listed(number) => Ok(*number),
            Self::Recorded(_) => Err(Error::internal("a recorded voice of a model that has none")),
        }
    }

    /// Begins an utterance.
    ///
    /// # Errors
    /// As [`PocketTts::start`].
    pub fn start(&self, model: &PocketTts, phrase: &TextPhrase) -> Result<Utterance> {
        match self {
            Self::Listed(number) => model.start(*number, &phrase.tokens, phrase.options()),
            Self::Recorded(recorded) => model.start_as(&recorded.voice, &phrase.tokens, phrase.options()),
        }
    }
}

/// Properties of a voice, measured on its own speech.
#[derive(Clone, Copy, Debug)]
pub struct Measures {
    /// Factor that brings it to the common loudness.
    pub gain: f32,
    /// Samples of a written character.
    pub pace: f32,
}

/// The ids of a folder's voices, in their order.
///
/// # Errors
/// [`Error::Checkpoint`] when the folder names none.
pub fn voice_ids(dir: &Path) -> Result<Vec<String>> {
    match Form::of(dir) {
        Form::Phones => phone_voice::voice_ids(dir),
        Form::Frames => pocket_tts::voice_ids(dir),
        Form::Clauses => kokoro::voice_ids(dir),
    }
}

/// The language of a voice of a folder that is there and not among its [`voice_ids`], as its text is not read.
pub fn other_language(dir: &Path, id: &str) -> Option<&'static str> {
    match Form::of(dir) {
        Form::Clauses => kokoro::other_language(id).filter(|_| kokoro::has_voice(dir, id)),
        _ => None,
    }
}

/// True for a folder whose voices are the latents of its audio tokenizer, so that recordings can become some.
pub fn clones(dir: &Path) -> bool {
    matches!(Form::of(dir), Form::Frames)
        && pocket_tts::Config::read(dir).is_ok_and(|config| config.condition.is_none())
}

/// The form of a folder.
enum Form {
    Phones,
    Frames,
    Clauses,
}

impl Form {
    /// A folder of parts has no settings itself.
    fn of(dir: &Path) -> Self {
        match dir.join("config.json").is_file() {
            false => Self::Phones,
            true if Kokoro::is_in(dir) => Self::Clauses,
            true => Self::Frames,
        }
    }
}

impl Loaded for VoiceModel {}

impl VoiceModel {
    /// Loads a folder of any form, which speaks a language. A form that reads phones and has no G2P model takes that of the folder `g2p`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, language: &str, device: &Device, precision: Precision, g2p: Option<&Path>) -> Result<Self> {
        let synthesizer = match Form::of(dir) {
            Form::Phones => Synthesizer::Phones(Box::new(PhoneVoice::load(dir, device)?)),
            Form::Frames => Synthesizer::Frames(Box::new(PocketTts::load(dir, device, precision)?)),
            Form::Clauses => Synthesizer::Clauses(Box::new(ClauseVoice::load(dir, device, precision, g2p)?)),
        };
        let voice = |id| Voice { id, measures: OnceLock::new() };
        let voices = voice_ids(dir)?.into_iter().map(voice).collect();
        Ok(Self { synthesizer, voices, recorded: Mutex::default(), language: language.into() })
    }

    /// Number of values in the tensors of the networks that make samples.
    pub fn parameters(&self) -> usize {
        match &self.synthesizer {
            Synthesizer::Phones(voice) => voice.acoustic.parameters() + voice.vocoder.parameters(),
            Synthesizer::Frames(model) => model.parameters(),
            Synthesizer::Clauses(voice) => voice.model.parameters(),
        }
    }

    /// A voice of the folder `dir`, also one that was made since the model was loaded.
    ///
    /// # Errors
    /// [`Error::Internal`] for one that is not there; [`Error::Checkpoint`] for a file that is no voice.
    pub fn voice(&self, dir: &Path, id: &str) -> Result<ModelVoice> {
        if let Synthesizer::Frames(_) = self.synthesizer {
            return self.recorded(read_only_tensor(&pocket_tts::voice_path(dir, id))?.1);
        }
        let number = self.voices.iter().position(|voice| voice.id == id);
        number.map(ModelVoice::Listed).ok_or_else(|| Error::internal("a voice is listed and not loaded"))
    }

    /// The voice of latents.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for latents that are none of this model's.
    pub fn recorded(&self, latents: Vec<f32>) -> Result<ModelVoice> {
        let Synthesizer::Frames(model) = &self.synthesizer else {
            return Err(Error::internal("a recorded voice of a model that has none"));
        };
        if let Some(number) = model.number_of(&latents) {
            return Ok(ModelVoice::Listed(number));
        }
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let voice = match recorded.iter().position(|one| one.voice.latents() == latents) {
            Some(at) => recorded.remove(at),
            None => Arc::new(RecordedVoice { voice: model.recorded_voice(latents)?, measures: OnceLock::new() }),
        };
        if recorded.len() >= MOST_RECORDED {
            recorded.remove(0);
        }
        recorded.push(voice.clone());
        Ok(ModelVoice::Recorded(voice))
    }

    /// Of the samples, hertz.
    pub fn sample_rate(&self) -> u32 {
        match &self.synthesizer {
            Synthesizer::Phones(voice) => voice.vocoder.config().sample_rate,
            Synthesizer::Frames(model) => model.sample_rate(),
            Synthesizer::Clauses(voice) => voice.model.sample_rate(),
        }
    }

    /// True if its steps run on the CPU.
    pub fn is_on_cpu(&self) -> bool {
        match &self.synthesizer {
            Synthesizer::Phones(voice) => is_cpu(voice.acoustic.device()),
            Synthesizer::Clauses(voice) => is_cpu(voice.model.device()),
            Synthesizer::Frames(model) => is_cpu(model.device()),
        }
    }

    /// True if it says a clause at once.
    pub fn says_clauses(&self) -> bool {
        matches!(self.synthesizer, Synthesizer::Clauses(_))
    }

    /// True if it speaks slower and faster than it was trained to.
    pub fn has_speeds(&self) -> bool {
        matches!(self.synthesizer, Synthesizer::Phones(_) | Synthesizer::Clauses(_))
    }

    /// The phrases of a clause; `written` gives the text of a range.
    ///
    /// # Errors
    /// As [`PhoneVoice::phrases`] and [`PocketTts::tokens`].
    pub fn phrases(&self, clause: &Clause, written: impl Fn(Range<usize>) -> String) -> Result<Vec<Phrase>> {
        match &self.synthesizer {
            Synthesizer::Phones(voice) => Ok(voice.phrases(clause, written)?.into_iter().map(Phrase::Phones).collect()),
            Synthesizer::Clauses(voice) => {
                Ok(voice.phrases(clause, written)?.into_iter().map(Phrase::Phones).collect())
            }
            Synthesizer::Frames(model) => {
                let phrase = TextPhrase::of(clause, &self.language, written, |text| model.tokens(text))?;
                Ok(phrase.into_iter().map(Phrase::Text).collect())
            }
        }
    }

    /// Loudness and pace of a voice. The first call says two sentences to measure them, which takes as long as five seconds of speech do,
    /// and compiles what a GPU needs.
    ///
    /// # Errors
    /// Those of a step, such as [`Error::Checkpoint`] for a voice that makes no sound.
    pub fn measures(&self, voice: &ModelVoice) -> Result<Measures> {
        let measures = match voice {
            ModelVoice::Recorded(recorded) => &recorded.measures,
            ModelVoice::Listed(number) => match self.voices.get(*number) {
                Some(voice) => &voice.measures,
                None => return Err(Error::internal(format!("voice {number} of {}", self.voices.len()))),
            },
        };
        if let Some(measures) = measures.get() {
            return Ok(*measures);
        }
        let mut splitter = ClauseSplitter::new();
        let mut clauses = splitter.push(MEASURED);
        clauses.extend(splitter.finish());
        let mut spoken = Vec::new();
        for clause in clauses {
            for phrase in self.phrases(&clause, |range| MEASURED.get(range).unwrap_or_default().to_owned())? {
                spoken.extend(self.say(&phrase, voice)?);
            }
        }
        let decibels = loudness::integrated(&spoken, self.sample_rate()).map_or(0.0, |loudness| LOUDNESS - loudness);
        let gain = 10f64.powf(decibels.clamp(-MOST_GAIN_DB, MOST_GAIN_DB) / 20.0) as f32;
        let pace = spoken.len() as f32 / MEASURED.len() as f32;
        Ok(*measures.get_or_init(|| Measures { gain, pace }))
    }

    fn say(&self, phrase: &Phrase, voice: &ModelVoice) -> Result<Vec<f32>> {
        match (&self.synthesizer, phrase) {
            (Synthesizer::Phones(model), Phrase::Phones(phrase)) => model.say(phrase, voice.listed()?),
            (Synthesizer::Clauses(model), Phrase::Phones(phrase)) => model.say(phrase, voice.listed()?),
            (Synthesizer::Frames(model), Phrase::Text(phrase)) => {
                let mut utterance = voice.start(model, phrase)?;
                let mut spoken = Vec::new();
                loop {
                    for frame in model.step(&mut [&mut utterance])? {
                        spoken.extend(frame.samples);
                        if frame.is_last {
                            return Ok(spoken);
                        }
                    }
                }
            }
            _ => Err(Error::internal("a phrase of another form of voice")),
        }
    }
}
