//! The models of a catalog, and the checkpoint behind each.

use std::path::{Path, PathBuf};

use auricle_engine::Catalog;

/// A model and what serves it.
pub struct ListedModel {
    pub id: String,
    /// The purpose: `prerecorded`, `realtime`, `language`, `voice` and the like.
    pub kind: String,
    /// The folder or file of the checkpoint that serves it, or would.
    pub path: PathBuf,
    pub state: ModelState,
    /// Codes, or `any`.
    pub languages: Vec<String>,
    /// The name on the model hub of the checkpoint that serves it; none for a starter.
    pub published: Option<String>,
    /// The checkpoints that can be pulled for it, the best first.
    pub offers: Vec<Offer>,
}

/// The state of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelState {
    /// A small checkpoint that ships with the program serves it.
    Starter,
    Published,
    Missing,
}

impl ModelState {
    pub fn name(self) -> &'static str {
        match self {
            Self::Starter => "starter",
            Self::Published => "published",
            Self::Missing => "missing",
        }
    }
}

/// A published checkpoint that can be pulled.
pub struct Offer {
    /// None for a model of one size.
    pub size: Option<String>,
    pub published: String,
    /// None where the catalog does not tell.
    pub download_bytes: Option<u64>,
    /// It serves the model already.
    pub serves: bool,
}

/// The models of a catalog in its order: those that transcribe, language models, the detector, the diarizer, the turn detector, the
/// tagger, voices.
///
/// # Errors
/// If the catalog contradicts itself.
pub fn list(catalog: &Catalog) -> auricle_engine::Result<Vec<ListedModel>> {
    let mut models = transcribing(catalog)?;
    let any = || vec!["any".to_owned()];
    for model in catalog.language_models() {
        let is_here = catalog.choose_language_model(Some(&model.id)).is_ok();
        models.push(ListedModel {
            id: model.id.clone(),
            kind: "language".into(),
            path: catalog.language_model_path(model),
            state: if is_here { ModelState::Published } else { ModelState::Missing },
            languages: any(),
            published: is_here.then(|| model.published.clone()),
            offers: vec![Offer {
                size: None,
                published: model.published.clone(),
                download_bytes: Some(model.download_bytes),
                serves: is_here,
            }],
        });
    }
    let detector = catalog.published_detector().map(|detector| (&detector.published, catalog.detector_is_starter()));
    let diarizer = catalog.published_diarizer().map(|diarizer| (&diarizer.published, catalog.diarizer_is_starter()));
    let parts = [
        ("detector", "speech or not", catalog.detector(), detector),
        ("diarizer", "speakers", catalog.diarizer(), diarizer),
    ];
    for (id, kind, path, entry) in parts {
        let (Some(path), Some((published, is_starter))) = (path, entry) else { continue };
        models.push(ListedModel {
            id: id.into(),
            kind: kind.into(),
            state: match has_weights(&path) {
                true if is_starter => ModelState::Starter,
                true => ModelState::Published,
                false => ModelState::Missing,
            },
            path,
            languages: any(),
            published: (!is_starter).then(|| published.clone()),
            offers: vec![Offer { size: None, published: published.clone(), download_bytes: None, serves: !is_starter }],
        });
    }
    if let Some(turn) = catalog.published_turn_detector() {
        let is_here = catalog.turn_detector().is_some();
        models.push(ListedModel {
            id: "turn".into(),
            kind: "ends of turns".into(),
            state: if is_here { ModelState::Published } else { ModelState::Missing },
            path: catalog.turn_detector_path(turn),
            languages: any(),
            published: is_here.then(|| turn.published.clone()),
            offers: vec![Offer {
                size: None,
                published: turn.published.clone(),
                download_bytes: Some(turn.download_bytes),
                serves: is_here,
            }],
        });
    }
    if let Some(path) = catalog.tagger() {
        models.push(ListedModel {
            id: "tagger".into(),
            kind: "names, places".into(),
            state: if has_weights(&path) { ModelState::Starter } else { ModelState::Missing },
            path,
            languages: vec!["en".into()],
            published: None,
            offers: Vec::new(),
        });
    }
    for voice in catalog.voices() {
        let is_pulled = catalog.published_voice_path(voice).is_some();
        let Some(path) = catalog.voice_paths(voice).into_iter().next() else { continue };
        let offer = |published: &String| Offer {
            size: None,
            published: published.clone(),
            download_bytes: None,
            serves: is_pulled,
        };
        models.push(ListedModel {
            id: voice.id.clone(),
            kind: "voice".into(),
            state: match path.is_dir() {
                true if is_pulled => ModelState::Published,
                true => ModelState::Starter,
                false => ModelState::Missing,
            },
            path,
            languages: vec![voice.language.clone()],
            published: voice.published.clone().filter(|_| is_pulled),
            offers: voice.published.iter().map(offer).collect(),
        });
    }
    Ok(models)
}

/// Tells if a folder has weights, in one file or in shards.
fn has_weights(dir: &Path) -> bool {
    ["model.safetensors", "model.safetensors.index.json", "model.gguf"].iter().any(|file| dir.join(file).is_file())
}

fn transcribing(catalog: &Catalog) -> auricle_engine::Result<Vec<ListedModel>> {
    let listed = catalog.models().iter().map(|model| {
        let choice = catalog.choose(&model.id)?;
        let state = match choice.is_starter {
            // It is chosen because it is there, in whichever form.
            false => ModelState::Published,
            true if choice.dir.join("config.json").is_file() => ModelState::Starter,
            true => ModelState::Missing,
        };
        let at_work = choice.published().map(str::to_owned);
        let serves = |published: &str| at_work.as_deref() == Some(published);
        let one = || Offer {
            size: None,
            published: model.published.clone(),
            download_bytes: None,
            serves: serves(&model.published),
        };
        let sizes = model.sizes.iter().map(|size| Offer {
            size: Some(size.name.clone()),
            published: size.published.clone(),
            download_bytes: Some(size.download_bytes),
            serves: serves(&size.published),
        });
        Ok(ListedModel {
            id: model.id.clone(),
            kind: model.kind.clone(),
            state,
            languages: choice.languages.to_vec(),
            offers: if model.sizes.is_empty() { vec![one()] } else { sizes.collect() },
            published: at_work.clone(),
            path: choice.dir,
        })
    });
    listed.collect()
}
