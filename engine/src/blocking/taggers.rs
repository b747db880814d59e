//! The tagger of personal words.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use auricle_kernels::product::gemv::Precision;

use super::Engine;
use crate::catalog::Catalog;
use crate::error::Result;
use crate::models::bert::BertTagger;
use crate::options::TaggerChoice;
use crate::text::analysis::Tagger;

/// On a CPU that is faster with it, 8 bits take half the time; the findings in the recipe's sentences are those of 32.
const PRECISION: Precision = Precision::Int8;

/// Loads a tagger, to see that every tensor is there, has its shape, and none is left over; gives the number of values in its tensors.
///
/// # Errors
/// [`Error::Checkpoint`](crate::Error::Checkpoint) and [`Error::Weights`](crate::Error::Weights), which name the file or tensor at fault.
pub fn check_tagger(dir: impl AsRef<Path>) -> Result<usize> {
    Ok(BertTagger::load(dir.as_ref(), PRECISION)?.parameters())
}

/// Loads the tagger of a choice without an engine, for text alone; none where the choice is none or the catalog names none.
///
/// # Errors
/// As [`check_tagger`].
pub fn load_tagger(catalog: &Catalog, choice: &TaggerChoice) -> Result<Option<Arc<dyn Tagger>>> {
    let dir = chosen(catalog, choice);
    dir.map(|dir| Ok(Arc::new(BertTagger::load(&dir, PRECISION)?) as Arc<dyn Tagger>)).transpose()
}

/// The folder of a choice.
fn chosen(catalog: &Catalog, choice: &TaggerChoice) -> Option<PathBuf> {
    match choice {
        TaggerChoice::Shipped => catalog.tagger(),
        TaggerChoice::Off => None,
        TaggerChoice::Folder(dir) => Some(dir.clone()),
    }
}

impl Engine {
    /// The tagger of [`EngineOptions::tagger`](crate::EngineOptions::tagger), loaded at first use; none where that is off or the catalog
    /// names none.
    ///
    /// # Errors
    /// As [`check_tagger`], and [`Error::Busy`](crate::Error::Busy) where models in use leave no memory for it.
    pub fn tagger(&self) -> Result<Option<Arc<dyn Tagger>>> {
        let Some(dir) = chosen(&self.catalog, &self.tagger) else { return Ok(None) };
        let tagger = self.shared(&dir, || BertTagger::load(&dir, PRECISION))?;
        Ok(Some(tagger))
    }
}
