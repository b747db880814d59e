//! The offline model that reads live turns again.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::catalog::{Catalog, SelectedCheckpoint, takes_utterances, whisper_languages};
use crate::error::Result;
use crate::language::primary_subtag;

/// The offline model that reads the turns of live sessions again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SecondPass {
    /// The catalog's default for recordings, if it is another checkpoint than the live one and takes whole utterances.
    #[default]
    Auto,
    /// None: the live model alone.
    Off,
    /// A checkpoint folder.
    Path(PathBuf),
}

impl FromStr for SecondPass {
    type Err = Infallible;

    /// `auto`, `off`, or a folder.
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        Ok(match text {
            "auto" => Self::Auto,
            "off" => Self::Off,
            folder => Self::Path(folder.into()),
        })
    }
}

/// A checkpoint that reads turns, and its languages as far as they are known.
pub(crate) struct TurnReader {
    pub dir: PathBuf,
    pub languages: Vec<String>,
}

impl TurnReader {
    pub fn has(&self, language: &str) -> bool {
        self.languages.contains(&primary_subtag(language))
    }
}

impl SecondPass {
    /// The checkpoint for sessions of a live model, whose own is `live`. There is none without a speech detector.
    ///
    /// # Errors
    /// [`Error::UnknownModel`](crate::Error::UnknownModel) if the catalog has no model for recordings.
    pub(crate) fn reader(&self, catalog: &Catalog, live: &Path) -> Result<Option<TurnReader>> {
        if catalog.detector().is_none() {
            return Ok(None);
        }
        let chosen = |choice: SelectedCheckpoint| TurnReader { languages: choice.languages.to_vec(), dir: choice.dir };
        let found = match self {
            Self::Off => None,
            Self::Path(dir) => {
                let all = catalog.models().iter().filter_map(|model| catalog.choose(&model.id).ok());
                let known = all.into_iter().find(|choice| choice.dir == *dir).map(chosen);
                Some(known.unwrap_or_else(|| TurnReader { dir: dir.clone(), languages: whisper_languages(dir) }))
            }
            Self::Auto => match catalog.default_model("prerecorded") {
                Ok(model) => Some(chosen(catalog.choose(&model.id)?)).filter(|found| takes_utterances(&found.dir)),
                Err(_) => None,
            },
        };
        Ok(found.filter(|found| found.dir != live))
    }

    /// The languages of a live model's sessions: those of its own checkpoint, then those of the second pass.
    ///
    /// # Errors
    /// [`Error::UnknownModel`](crate::Error::UnknownModel), which lists the known ids.
    pub fn languages(&self, catalog: &Catalog, model: &str) -> Result<Vec<String>> {
        let live = catalog.choose(model)?;
        let more = self.reader(catalog, &live.dir)?.map(|reader| reader.languages).unwrap_or_default();
        let mut seen = BTreeSet::new();
        let all = live.languages.iter().cloned().chain(more);
        Ok(all.filter(|language| seen.insert(language.clone())).collect())
    }

    /// Checks that sessions of a live model support a language: `en`, or `en_us` by its first part.
    ///
    /// # Errors
    /// [`Error::UnknownModel`](crate::Error::UnknownModel); [`Error::Language`](crate::Error::Language), which names checkpoints
    /// and languages that are available.
    pub fn check_language(&self, catalog: &Catalog, model: &str, language: &str) -> Result<()> {
        if self.languages(catalog, model)?.contains(&primary_subtag(language)) {
            return Ok(());
        }
        catalog.choose(model)?.check_language(language)
    }
}
