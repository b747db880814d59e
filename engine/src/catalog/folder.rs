//! A checkpoint folder before it is loaded: its family and its languages.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// A file of a checkpoint folder; none if it is missing or malformed, which loading the checkpoint reports.
fn file<T: DeserializeOwned>(dir: &Path, name: &str) -> Option<T> {
    serde_json::from_str(&std::fs::read_to_string(dir.join(name)).ok()?).ok()
}

#[derive(Deserialize)]
struct Family {
    model_type: String,
}

/// True for Whisper, and for transducers that do not stream.
pub(crate) fn takes_utterances(dir: &Path) -> bool {
    let is_one = |family: Family| family.model_type == "whisper" || family.model_type.starts_with("parakeet");
    file(dir, "config.json").is_some_and(is_one)
}

#[derive(Deserialize)]
struct Generation {
    is_multilingual: Option<bool>,
    lang_to_id: Option<BTreeMap<String, IgnoredAny>>,
}

/// The languages of a Whisper checkpoint; none for another family, and for one that does not name them.
pub(crate) fn whisper_languages(dir: &Path) -> Vec<String> {
    let is_whisper = file(dir, "config.json").is_some_and(|family: Family| family.model_type == "whisper");
    let Some(generation) = file::<Generation>(dir, "generation_config.json").filter(|_| is_whisper) else {
        return Vec::new();
    };
    match (generation.is_multilingual, generation.lang_to_id) {
        (Some(false), _) | (_, None) => vec!["en".into()],
        (_, Some(languages)) => {
            languages.keys().map(|token| token.trim_matches(|c| "<|>".contains(c)).to_owned()).collect()
        }
    }
}
