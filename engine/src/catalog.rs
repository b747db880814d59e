//! `models/catalog.toml`: the checkpoints of each service model.

mod folder;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use self::folder::{takes_utterances, whisper_languages};
use crate::error::{Error, Result};
use crate::language::primary_subtag;

/// The models of a models folder.
#[derive(Clone, Debug)]
pub struct Catalog {
    dir: PathBuf,
    models: Vec<CatalogModel>,
    detector: Option<CatalogDetector>,
    diarizer: Option<CatalogDiarizer>,
    tagger: Option<CatalogTagger>,
    turn: Option<CatalogTurnDetector>,
    language: Vec<CatalogLanguageModel>,
    voices: Vec<CatalogVoice>,
}

/// A model that speaks: a starter, or a folder of a published one that lies in the models folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CatalogVoice {
    /// The id of the model: `voice-en`.
    pub id: String,
    /// Its folder, relative to the models folder.
    pub starter: String,
    /// A published checkpoint whose voices come first once it is pulled, by its name on the model hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// Folder of the published checkpoint, relative to the models folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The language that its voices speak.
    pub language: String,
    /// The voice that is used where none is named; the first one if left out, or if another checkpoint's voices come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_voice: Option<String>,
}

/// The models that tell who speaks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CatalogDiarizer {
    /// The published checkpoint, by its name on the model hub.
    pub published: String,
    /// Folder of the published checkpoint, relative to the models folder.
    pub folder: String,
    /// Folder of the speaker embedding that serves until the published checkpoint is pulled, and where more speakers are expected than
    /// that tells apart; relative to the models folder.
    pub starter: String,
}

/// The tagger that finds personal words.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CatalogTagger {
    /// Its folder, relative to the models folder.
    pub starter: String,
}

/// The network that detects whether a speaker has finished. It has no starter.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CatalogTurnDetector {
    /// The published network, by its repository's name on the model hub.
    pub published: String,
    /// The file of the repository.
    pub file: String,
    /// Its folder once it is pulled, relative to the models folder.
    pub folder: String,
    /// Size of the file, bytes.
    pub download_bytes: u64,
}

/// A language model. It has no starter.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CatalogLanguageModel {
    /// The id that users give: `chat`.
    pub id: String,
    /// True for the one that is used where none is named.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
    /// The published checkpoint, by its name on the model hub.
    pub published: String,
    /// The GGUF file of the repository; a folder of safetensors if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Folder of the checkpoint once it is pulled, relative to the models folder.
    pub folder: String,
    /// Size of the weights' file, bytes.
    pub download_bytes: u64,
}

/// The voice activity detector.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CatalogDetector {
    /// The published checkpoint.
    pub published: String,
    /// Folder of the published checkpoint, relative to the models folder.
    pub folder: String,
    /// Folder of the starter that is used until the published checkpoint is pulled, relative to the models folder.
    pub starter: String,
}

/// One service model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CatalogModel {
    /// The id that users give: `svc-best`.
    pub id: String,
    /// The purpose: `prerecorded` or `realtime`.
    pub kind: String,
    /// True for the model that is used where none of its kind is named.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
    /// The published checkpoint to use in production, by its name on the model hub.
    pub published: String,
    /// Folder of the published checkpoint once it is pulled, relative to the models folder.
    pub folder: String,
    /// Languages of the published checkpoint.
    pub languages: Vec<String>,
    /// Folder of the starter that is used until then, relative to the models folder.
    pub starter: String,
    /// Languages of the starter; those that its checkpoint names if omitted.
    #[serde(default)]
    pub starter_languages: Vec<String>,
    /// The language model that the starter's search uses, relative to the models folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starter_language_model: Option<String>,
    /// Beam width of the starter on a CPU; greedy if omitted, and on a GPU, where another path copies the caches of its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starter_beam: Option<usize>,
    /// Live models: longest look-ahead, ms; the longest trained one if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_ahead_ms: Option<u32>,
    /// Word error rate of the starter, as this service model runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starter_word_error_rate: Option<WordErrorRate>,
    /// Published checkpoints of several sizes, the best first. Empty for a model of one size.
    #[serde(default, rename = "size", skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<CatalogSize>,
}

/// One size of a service model's published checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CatalogSize {
    /// The name that users give: `base`.
    pub name: String,
    /// The published checkpoint, by its name on the model hub.
    pub published: String,
    /// Folder of the checkpoint once it is pulled, relative to the models folder.
    pub folder: String,
    /// Size of the weights' file, bytes.
    pub download_bytes: u64,
    /// Memory that the checkpoint needs while it transcribes, bytes.
    pub memory_bytes: u64,
    /// True if it is recommended on a GPU only, because a CPU is slow with it.
    #[serde(default)]
    pub needs_gpu: bool,
    /// Languages of the model that this size lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_languages: Vec<String>,
    /// Word error rate of the checkpoint, if a figure is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word_error_rate: Option<WordErrorRate>,
    /// Languages of the model without the missing ones.
    #[serde(skip)]
    languages: Vec<String>,
}

/// A measured word error rate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WordErrorRate {
    /// Substituted, deleted and inserted words in percent of the reference's words.
    pub percent: f32,
    /// The recordings that were transcribed.
    pub recordings: String,
    /// The document that states the figure.
    pub source: String,
}

/// The checkpoint that currently serves a model.
#[derive(Clone, Debug)]
pub struct SelectedCheckpoint<'a> {
    /// The catalog's entry.
    pub model: &'a CatalogModel,
    /// The entry whose checkpoint it is: another one where the default of a kind has no published checkpoint of its own.
    pub source: &'a CatalogModel,
    /// The checkpoint's folder.
    pub dir: PathBuf,
    /// The checkpoint's languages.
    pub languages: &'a [String],
    /// True for the starter.
    pub is_starter: bool,
    /// The checkpoint's size in the catalog, for a published checkpoint of a model with sizes.
    pub size: Option<&'a CatalogSize>,
    /// The language model that its search uses.
    pub language_model: Option<PathBuf>,
}

#[derive(Deserialize)]
struct CatalogFile {
    #[serde(default)]
    model: Vec<CatalogModel>,
    detector: Option<CatalogDetector>,
    diarizer: Option<CatalogDiarizer>,
    tagger: Option<CatalogTagger>,
    turn: Option<CatalogTurnDetector>,
    #[serde(default)]
    language: Vec<CatalogLanguageModel>,
    #[serde(default, rename = "voice")]
    voices: Vec<CatalogVoice>,
}

impl Catalog {
    /// Reads `catalog.toml` of a models folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is missing or malformed.
    pub fn read(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = dir.as_ref();
        let path = dir.join("catalog.toml");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let text = std::fs::read_to_string(&path)
            .map_err(|e| bad(format!("{e}; name the models folder with --models or AURICLE_MODELS")))?;
        let mut file: CatalogFile = toml::from_str(&text).map_err(|e| bad(e.to_string().trim().replace('\n', " ")))?;
        for model in &mut file.model {
            if model.starter_languages.is_empty() {
                model.starter_languages = whisper_languages(&dir.join(&model.starter));
            }
            for size in &mut model.sizes {
                let has = |language: &&String| !size.missing_languages.contains(language);
                size.languages = model.languages.iter().filter(has).cloned().collect();
            }
        }
        let CatalogFile { model: models, detector, diarizer, tagger, turn, language, voices } = file;
        Ok(Self { dir: dir.to_path_buf(), models, detector, diarizer, tagger, turn, language, voices })
    }

    /// All models, in the catalog's order.
    pub fn models(&self) -> &[CatalogModel] {
        &self.models
    }

    /// The model of a kind (`prerecorded` or `realtime`) that is used where none is named: the catalog's default, else the first.
    ///
    /// # Errors
    /// [`Error::UnknownModel`] if the catalog has no model of this kind.
    pub fn default_model(&self, kind: &str) -> Result<&CatalogModel> {
        let mut models = self.models.iter().filter(|model| model.kind == kind);
        let first = models.clone().next();
        let none = || Error::UnknownModel(format!("of the kind {kind}: the catalog has none"));
        models.find(|model| model.default).or(first).ok_or_else(none)
    }

    /// The folder of the voice activity detector, if the catalog has one: the published one if it is present, else the
    /// starter.
    pub fn detector(&self) -> Option<PathBuf> {
        let detector = self.detector.as_ref()?;
        let folder = if self.detector_is_starter() { &detector.starter } else { &detector.folder };
        Some(self.dir.join(folder))
    }

    /// The catalog's entry for the voice activity detector, if it has one.
    pub fn published_detector(&self) -> Option<&CatalogDetector> {
        self.detector.as_ref()
    }

    /// True if [`Catalog::detector`] is the starter.
    pub fn detector_is_starter(&self) -> bool {
        let published =
            |detector: &CatalogDetector| self.dir.join(&detector.folder).join("model.safetensors").is_file();
        !self.detector.as_ref().is_some_and(published)
    }

    /// The folder of the model that tells who speaks, if the catalog names one: the published one if it is present, else the starter.
    pub fn diarizer(&self) -> Option<PathBuf> {
        match self.diarizer_is_starter() {
            true => self.starter_diarizer(),
            false => Some(self.dir.join(&self.diarizer.as_ref()?.folder)),
        }
    }

    /// The folder of the speaker embedding that tells any number of speakers apart, if the catalog names one.
    pub fn starter_diarizer(&self) -> Option<PathBuf> {
        Some(self.dir.join(&self.diarizer.as_ref()?.starter))
    }

    /// The catalog's entry for the models that tell who speaks, if it has one.
    pub fn published_diarizer(&self) -> Option<&CatalogDiarizer> {
        self.diarizer.as_ref()
    }

    /// True if [`Catalog::diarizer`] is the starter.
    pub fn diarizer_is_starter(&self) -> bool {
        let published = |diarizer: &CatalogDiarizer| self.dir.join(&diarizer.folder).join("config.json").is_file();
        !self.diarizer.as_ref().is_some_and(published)
    }

    /// The folder of the tagger that finds personal words, if the catalog names one.
    pub fn tagger(&self) -> Option<PathBuf> {
        Some(self.dir.join(&self.tagger.as_ref()?.starter))
    }

    /// The file of the network that detects whether a speaker has finished, if the catalog names one and it is pulled.
    pub fn turn_detector(&self) -> Option<PathBuf> {
        let file = self.turn_detector_path(self.turn.as_ref()?);
        file.is_file().then_some(file)
    }

    /// The file of a network that detects whether a speaker has finished, there or not.
    pub fn turn_detector_path(&self, turn: &CatalogTurnDetector) -> PathBuf {
        self.dir.join(&turn.folder).join(&turn.file)
    }

    /// The catalog's entry for that network, if it has one.
    pub fn published_turn_detector(&self) -> Option<&CatalogTurnDetector> {
        self.turn.as_ref()
    }

    /// The models that speak, in the catalog's order; the first is used where no voice is named.
    pub fn voices(&self) -> &[CatalogVoice] {
        &self.voices
    }

    /// The folders of a model that speaks, there or not: the published one first if it is present, then the starter.
    pub fn voice_paths(&self, voice: &CatalogVoice) -> Vec<PathBuf> {
        let starter = self.dir.join(&voice.starter);
        self.published_voice_path(voice).into_iter().chain([starter]).collect()
    }

    /// The folder of a published checkpoint that speaks, if it is present.
    pub fn published_voice_path(&self, voice: &CatalogVoice) -> Option<PathBuf> {
        voice.published.as_ref()?;
        let folder = self.dir.join(voice.folder.as_ref()?);
        folder.join("config.json").is_file().then_some(folder)
    }

    /// The folder of a G2P model for voices that read phones and have none: that of the first starter.
    pub(crate) fn g2p(&self) -> Option<PathBuf> {
        self.voices.iter().map(|voice| self.dir.join(&voice.starter).join("g2p")).find(|dir| dir.is_dir())
    }

    /// All language models, in the catalog's order.
    pub fn language_models(&self) -> &[CatalogLanguageModel] {
        &self.language
    }

    /// A language model and its file or folder; the catalog's default if none is named.
    ///
    /// # Errors
    /// [`Error::UnknownModel`], which lists the known ids; [`Error::NotPulled`], which names the command that fetches it.
    pub fn choose_language_model(&self, id: Option<&str>) -> Result<(&CatalogLanguageModel, PathBuf)> {
        let mut models = self.language.iter();
        let found = match id {
            Some(id) => models.find(|model| model.id == id),
            None => models.clone().find(|model| model.default).or(models.next()),
        };
        let Some(model) = found else {
            let known: Vec<&str> = self.language.iter().map(|model| model.id.as_str()).collect();
            let known = if known.is_empty() { "no language model".into() } else { known.join(", ") };
            return Err(Error::UnknownModel(format!("{}; there are {known}", id.unwrap_or("for conversations"))));
        };
        let path = self.language_model_path(model);
        let is_there = if model.file.is_some() { path.is_file() } else { path.join("config.json").is_file() };
        if is_there {
            return Ok((model, path));
        }
        let (id, published) = (&model.id, &model.published);
        Err(Error::NotPulled(format!("{id} has no checkpoint yet; fetch {published} with `auricle models pull {id}`")))
    }

    /// The file or folder of a language model, there or not.
    pub fn language_model_path(&self, model: &CatalogLanguageModel) -> PathBuf {
        let folder = self.dir.join(&model.folder);
        model.file.as_ref().map_or(folder.clone(), |file| folder.join(file))
    }

    /// The checkpoint that serves `id`: the published one if its folder is present, else the best of its sizes that is present, else,
    /// for the default of a kind, the published one of another model of that kind, else the starter.
    ///
    /// # Errors
    /// [`Error::UnknownModel`], which lists the known ids.
    pub fn choose(&self, id: &str) -> Result<SelectedCheckpoint<'_>> {
        let model = self.models.iter().find(|model| model.id == id).ok_or_else(|| {
            let known: Vec<&str> = self.models.iter().map(|model| model.id.as_str()).collect();
            Error::UnknownModel(format!("{id}; there are {}", known.join(", ")))
        })?;
        let is_default = self.default_model(&model.kind).is_ok_and(|default| default.id == model.id);
        let others = self.models.iter().filter(|other| is_default && other.kind == model.kind);
        let pulled = std::iter::once(model).chain(others).find_map(|source| Some((source, self.pulled(source)?)));
        let is_starter = pulled.is_none();
        let (source, folder, size) = match pulled {
            Some((source, (folder, size))) => (source, folder, size),
            None => (model, &model.starter, None),
        };
        Ok(SelectedCheckpoint {
            model,
            source,
            dir: self.dir.join(folder),
            languages: match size {
                _ if is_starter => &model.starter_languages,
                Some(size) => &size.languages,
                None => &source.languages,
            },
            is_starter,
            size,
            language_model: model
                .starter_language_model
                .as_ref()
                .filter(|_| is_starter)
                .map(|file| self.dir.join(file)),
        })
    }

    /// The folder of the best published checkpoint of a model that is present, and its size if it comes in sizes.
    fn pulled<'a>(&self, model: &'a CatalogModel) -> Option<(&'a String, Option<&'a CatalogSize>)> {
        let is_there = |folder: &str| has_checkpoint(&self.dir.join(folder));
        if is_there(&model.folder) {
            return Some((&model.folder, model.sizes.iter().find(|size| size.folder == model.folder)));
        }
        let size = model.sizes.iter().find(|size| is_there(&size.folder))?;
        Some((&size.folder, Some(size)))
    }
}

/// True for a folder with a checkpoint: the settings of the published form or of CTranslate2, or a file of whisper.cpp.
fn has_checkpoint(dir: &Path) -> bool {
    let files = || std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_ggml = |name: &str| name.starts_with("ggml-") && name.ends_with(".bin");
    dir.join("config.json").is_file() || files().any(|name| name.to_str().is_some_and(is_ggml))
}

impl SelectedCheckpoint<'_> {
    /// The published checkpoint's name on the model hub; none for the starter.
    pub fn published(&self) -> Option<&str> {
        let published = self.size.map_or(&self.source.published, |size| &size.published);
        (!self.is_starter).then_some(published)
    }

    /// The checkpoint's word error rate, if the catalog states one.
    pub fn word_error_rate(&self) -> Option<&WordErrorRate> {
        match self.is_starter {
            true => self.model.starter_word_error_rate.as_ref(),
            false => self.size?.word_error_rate.as_ref(),
        }
    }

    /// Checks that the checkpoint supports a language: `en`, or `en_us` by its first part.
    ///
    /// # Errors
    /// [`Error::Language`], which names checkpoints and languages that are available.
    pub fn check_language(&self, language: &str) -> Result<()> {
        let base = primary_subtag(language);
        if self.languages.contains(&base) {
            return Ok(());
        }
        let (id, published) = (&self.model.id, &self.model.published);
        Err(Error::Language(if self.is_starter && self.model.languages.contains(&base) {
            format!(
                "{id} runs on its starter checkpoint, which has no {language} (it has: {}); the published checkpoint \
                 {published} has it: `auricle models pull {id}`",
                self.languages.join(", "),
            )
        } else {
            format!("{id} has no {language}; it has: {}", self.languages.join(", "))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_without_its_own_checkpoint_takes_the_best_of_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/catalog.toml");
        std::fs::copy(models, folder.path().join("catalog.toml")).unwrap();
        let pull = |name: &str| {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("config.json"), "{}").unwrap();
        };
        let catalog = Catalog::read(folder.path()).unwrap();
        let chosen = |id: &str| {
            let choice = catalog.choose(id).unwrap();
            (choice.source.id.clone(), choice.published().map(str::to_owned), choice.languages.len())
        };
        assert_eq!(chosen("svc-best"), ("svc-best".into(), None, 0));
        pull("whisper-base");
        pull("whisper-small");
        let small = ("svc-fast".into(), Some("openai/whisper-small".into()), 99);
        assert_eq!((chosen("svc-best"), chosen("svc-fast")), (small.clone(), small.clone()));
        pull("parakeet-tdt-0.6b-v3");
        assert_eq!(chosen("svc-best"), ("svc-best".into(), Some("nvidia/parakeet-tdt-0.6b-v3".into()), 25));
        assert_eq!(chosen("svc-fast"), small, "which is no default");
        assert_eq!(chosen("svc-realtime-pro").1, None, "which is of another kind");
    }
}
