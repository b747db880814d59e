//! The words for what is being loaded, and how large it is. A terminal shows them until it is loaded.

use std::collections::BTreeSet;
use std::path::Path;

use auricle_engine::blocking::Engine;
use auricle_engine::{Catalog, SpeakOptions};

use crate::checkpoints::{self, ListedModel, ModelState, bytes_in, decimal_bytes};

/// A model of a models folder by its id: `svc-best (starter, 71 MB)`; the id alone where the catalog lacks it.
pub fn model(models: &Path, id: &str) -> String {
    let listed = Catalog::read(models).and_then(|catalog| checkpoints::list(&catalog)).unwrap_or_default();
    match listed.into_iter().find(|model| model.id == id) {
        Some(ListedModel { published, path, .. }) => {
            let from = published.unwrap_or_else(|| "starter".into());
            format!("{id} ({from}, {})", decimal_bytes(bytes_in(&path)))
        }
        None => id.to_owned(),
    }
}

/// The models that the service loads before it serves: all but language models and voices.
pub fn service(models: &Path) -> String {
    let listed = Catalog::read(models).and_then(|catalog| checkpoints::list(&catalog)).unwrap_or_default();
    let is_loaded = |model: &ListedModel| {
        model.state != ModelState::Missing && !["language", "voice"].contains(&model.kind.as_str())
    };
    // Several models may share a checkpoint.
    let paths: BTreeSet<_> = listed.into_iter().filter(is_loaded).map(|model| model.path).collect();
    let bytes = paths.iter().map(|path| bytes_in(path)).sum();
    format!("the models of {} ({})", models.display(), decimal_bytes(bytes))
}

/// A checkpoint by its path: `ggml-small-q5_1.bin (190 MB)`.
pub fn checkpoint(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    format!("{name} ({})", decimal_bytes(bytes_in(path)))
}

/// A language model: a path, an id, or the catalog's first that is here.
pub fn language_model(models: &Path, named: Option<&str>) -> String {
    match named {
        Some(named) if Path::new(named).exists() => checkpoint(Path::new(named)),
        Some(id) => model(models, id),
        None => {
            let catalog = Catalog::read(models);
            let first =
                catalog.as_ref().ok().and_then(|catalog| Some(catalog.choose_language_model(None).ok()?.0.id.clone()));
            first.map_or_else(|| "the language model".into(), |id| model(models, &id))
        }
    }
}

/// The model of a voice, by the voice's id or its language; of the first voice where none is named.
pub fn voice(engine: &Engine, models: &Path, named: Option<&str>) -> String {
    let voices = engine.voices(&SpeakOptions::default()).unwrap_or_default();
    let is_named = |id: &str, language: &str| named.is_none_or(|named| named == id || named == language);
    let found = voices.iter().find(|voice| is_named(&voice.id, &voice.language));
    found.map_or_else(|| "the voice".into(), |voice| model(models, &voice.model))
}
