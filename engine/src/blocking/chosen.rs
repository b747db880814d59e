//! The checkpoint of a transcription: that of a model of the catalog, or one that is named by its path.

use std::path::{Path, PathBuf};

use crate::catalog::SelectedCheckpoint;
use crate::error::Result;

/// A checkpoint and what is known of it before it is loaded.
pub(super) enum Chosen<'a> {
    /// The one that serves a model.
    Model(Box<SelectedCheckpoint<'a>>),
    /// One of which nothing but its path is known.
    Path(&'a Path),
}

impl Chosen<'_> {
    /// The file or folder.
    pub fn path(&self) -> &Path {
        match self {
            Self::Model(choice) => &choice.dir,
            Self::Path(path) => path,
        }
    }

    /// The name that a transcript has for its model: the id, or the path's last part.
    pub fn name(&self) -> String {
        match self {
            Self::Model(choice) => choice.model.id.clone(),
            Self::Path(path) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        }
    }

    /// Its language, where it is known to have one alone.
    pub fn only_language(&self) -> Option<&String> {
        match self {
            Self::Model(choice) => match choice.languages {
                [only] => Some(only),
                _ => None,
            },
            Self::Path(_) => None,
        }
    }

    /// Checks that the checkpoint supports a language, where its languages are known; the loaded one checks it again.
    ///
    /// # Errors
    /// As [`SelectedCheckpoint::check_language`].
    pub fn check_language(&self, language: &str) -> Result<()> {
        match self {
            Self::Model(choice) => choice.check_language(language),
            Self::Path(_) => Ok(()),
        }
    }

    /// Longest look-ahead of a live model, ms, where the catalog states one.
    pub fn look_ahead_ms(&self) -> Option<u32> {
        match self {
            Self::Model(choice) => choice.model.look_ahead_ms,
            Self::Path(_) => None,
        }
    }

    /// Beam width on a CPU, where the catalog states one.
    pub fn beam(&self) -> Option<usize> {
        match self {
            Self::Model(choice) => choice.model.starter_beam.filter(|_| choice.is_starter),
            Self::Path(_) => None,
        }
    }

    /// The language model that its search uses.
    pub fn language_model(&self) -> Option<&PathBuf> {
        match self {
            Self::Model(choice) => choice.language_model.as_ref(),
            Self::Path(_) => None,
        }
    }
}
