//! The models that tell who speaks.

use std::path::{Path, PathBuf};

use burn::tensor::Device;

use super::Engine;
use crate::error::{Error, Result};
use crate::models::sortformer::{self, Sortformer};
use crate::models::voice::VoiceEmbedder;
use crate::pipeline::offline::speaker_labels::{Diarizer, DiarizerForm};

/// Loads a model that tells who speaks on the CPU, a diarizer or a speaker embedding, to see that every tensor is there, has its shape,
/// and none is left over; gives the number of values in its tensors.
///
/// # Errors
/// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
pub fn check_diarizer(dir: impl AsRef<Path>) -> Result<usize> {
    let (dir, device) = (dir.as_ref(), Device::flex());
    match DiarizerForm::of(dir)? {
        DiarizerForm::Clustering => Ok(VoiceEmbedder::load(dir, &device)?.parameters()),
        DiarizerForm::EndToEnd => Ok(Sortformer::load(dir, &device)?.parameters()),
    }
}

impl Engine {
    /// The model that tells `expected` speakers apart: the catalog's, or its starter for more than that can tell apart.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the catalog names none, [`Error::Checkpoint`], [`Error::Weights`].
    pub(super) fn diarizer(&self, expected: Option<usize>) -> Result<Diarizer> {
        let none =
            || Error::InvalidOption("the models folder has no speaker labels: catalog.toml names no diarizer".into());
        let dir = self.catalog.diarizer().ok_or_else(none)?;
        let clustering =
            |dir: PathBuf| Ok(Diarizer::Clustering(self.model(&dir, || VoiceEmbedder::load(&dir, &self.device))?));
        if DiarizerForm::of(&dir)? == DiarizerForm::Clustering {
            return clustering(dir);
        }
        let most = sortformer::Config::read(&dir)?.head.num_speakers;
        if expected.is_some_and(|count| count > most) {
            return clustering(self.catalog.starter_diarizer().ok_or_else(none)?);
        }
        Ok(Diarizer::EndToEnd(self.model(&dir, || Sortformer::load(&dir, &self.device))?))
    }
}
