//! The published checkpoint that is better than a starter.

use auricle_engine::Catalog;

use super::{Machine, decimal_bytes};

/// A checkpoint to pull in place of a starter.
#[derive(Debug, PartialEq, Eq)]
pub struct Better {
    /// The service model that it is pulled for.
    pub model: String,
    /// Empty for a model of one size.
    pub size: String,
    /// Its name on the model hub, with the bytes to download where the catalog tells.
    pub label: String,
}

/// The recommended checkpoint in place of the starter that serves a model: a size of the model itself, else of another of its kind,
/// else the model's only one. None where another checkpoint serves the model, or the recommended one is there.
pub fn better(catalog: &Catalog, model: &str, machine: &Machine) -> Option<Better> {
    let choice = catalog.choose(model).ok().filter(|choice| choice.is_starter)?;
    let alike = catalog.models().iter().filter(|other| other.kind == choice.model.kind);
    let sized = std::iter::once(choice.model).chain(alike).find(|model| !model.sizes.is_empty());
    let Some((sized, (size, _))) = sized.and_then(|model| Some((model, machine.recommend(&model.sizes)?))) else {
        let label = choice.model.published.clone();
        return Some(Better { model: model.to_owned(), size: String::new(), label });
    };
    // Any of its sizes is better than a starter.
    let is_there = catalog.choose(&sized.id).is_ok_and(|choice| !choice.is_starter);
    (!is_there).then(|| Better {
        model: sized.id.clone(),
        size: size.name.clone(),
        label: format!("{} ({})", size.published, decimal_bytes(size.download_bytes)),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_starter_has_a_better_one_until_that_is_there() {
        let shipped = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../models"));
        let models = tempfile::tempdir().unwrap();
        std::fs::copy(shipped.join("catalog.toml"), models.path().join("catalog.toml")).unwrap();
        let find = |model: &str| better(&Catalog::read(models.path()).unwrap(), model, &Machine::with(&[]));
        for model in ["svc-fast", "svc-best"] {
            let found = find(model).unwrap();
            assert_eq!(found.model, "svc-fast", "the sizes suit machines");
            assert!(
                ["small", "base"].contains(&found.size.as_str()) && found.label.starts_with("openai/whisper-"),
                "{found:?}"
            );
        }
        let live = find("svc-realtime-pro").unwrap();
        assert_eq!((live.model.as_str(), live.size.as_str()), ("svc-realtime-pro", ""));
        assert_eq!(find("nothing"), None);
        std::fs::create_dir(models.path().join("whisper-base")).unwrap();
        std::fs::write(models.path().join("whisper-base/config.json"), "{}").unwrap();
        assert_eq!((find("svc-fast"), find("svc-best")), (None, None));
    }
}
