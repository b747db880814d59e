//! The token classifier against transformers' class; letters to phones and the dictionary against the voice recipe.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use auricle_engine::unstable::models::bert::{G2p, TokenClassifier};
use auricle_engine::unstable::text::speech::{Clause, GraphemeToPhoneme, Phone, Pronouncer, Token, TokenKind};
use auricle_tests::{Oracle, devices};
use burn::tensor::Device;

fn fixture(name: &str) -> PathBuf {
    auricle_tests::fixtures().join("bert").join(name)
}

fn strings(value: &serde_json::Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn names(phones: &[Phone]) -> Vec<&str> {
    phones.iter().map(|phone| phone.name()).collect()
}

#[test]
fn scores_equal_those_of_the_published_class() {
    let oracle = Oracle::open(&fixture("tagger"));
    let rows: Vec<Vec<usize>> = serde_json::from_value(oracle.facts["tokens"].clone()).unwrap();
    let theirs = Oracle::values(oracle.tensor::<3>("logits", &Device::flex()));
    for (device, on_cpu) in devices() {
        let model = TokenClassifier::load(&fixture("tagger"), &device).unwrap();
        let ours = Oracle::values(model.forward(&rows).unwrap());
        let tolerance = if on_cpu { 2e-5 } else { 2e-4 };
        let (longest, labels) = (rows[0].len(), model.config().labels());
        for (row, tokens) in rows.iter().enumerate() {
            for at in row * longest * labels..(row * longest + tokens.len()) * labels {
                assert!((ours[at] - theirs[at]).abs() <= tolerance, "{at}: {} against {}", ours[at], theirs[at]);
            }
            // A row alone has no padding.
            let alone = Oracle::values(model.forward(std::slice::from_ref(tokens)).unwrap());
            let start = row * longest * labels;
            for (a, b) in alone.iter().zip(&theirs[start..]) {
                assert!((a - b).abs() <= tolerance, "row {row}: {a} against {b}");
            }
        }
    }
}

#[test]
fn pronunciations_equal_those_of_the_recipe() {
    let oracle = Oracle::open(&fixture("g2p"));
    assert!(oracle.facts["smallest_margin"].as_f64().unwrap() > 1e-3);
    let words = oracle.facts["words"].as_object().unwrap();
    let written: Vec<&str> = words.keys().map(String::as_str).collect();
    for (device, _) in devices() {
        let model = G2p::load(&fixture("g2p"), &device).unwrap();
        for (said, (word, theirs)) in model.pronounce(&written).unwrap().iter().zip(words) {
            assert_eq!(names(said), strings(theirs), "{word}");
        }
        assert_eq!(model.pronounce(&[]).unwrap(), Vec::<Vec<Phone>>::new());
        assert_eq!(model.pronounce(&["", "\u{e9}"]).unwrap(), [vec![], vec![]]);
    }
}

#[test]
fn dictionary_genitives_and_unknown_words_equal_those_of_the_recipe() {
    let oracle = Oracle::open(&fixture("g2p"));
    let words = oracle.facts["lexicon"].as_object().unwrap();
    assert!(words.len() > 100);
    let pronouncer = Pronouncer::new(Some(Arc::new(G2p::load(&fixture("g2p"), &Device::flex()).unwrap())));
    for (word, theirs) in words {
        let token = Token { text: word.clone(), kind: TokenKind::Word, written: 0..word.len() };
        let said = pronouncer.phones(&Clause { tokens: vec![token] }).unwrap();
        assert_eq!(names(&said[0]), strings(theirs), "{word}");
    }
}

/// A fixture with another `config.json`.
fn with_config(name: &str, change: impl Fn(&mut serde_json::Value)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(fixture(name).join("model.safetensors"), dir.path().join("model.safetensors")).unwrap();
    let text = std::fs::read_to_string(fixture(name).join("config.json")).unwrap();
    let mut config = serde_json::from_str(&text).unwrap();
    change(&mut config);
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    dir
}

#[test]
fn a_checkpoint_of_another_shape_is_refused_by_name() {
    let error = |dir: &Path| TokenClassifier::load(dir, &Device::flex()).unwrap_err().to_string();
    let wider = with_config("tagger", |config| config["intermediate_size"] = 44.into());
    assert!(error(wider.path()).contains("intermediate.dense"), "{}", error(wider.path()));
    let shorter = with_config("tagger", |config| config["num_hidden_layers"] = 2.into());
    assert!(error(shorter.path()).contains("layer.2"), "{}", error(shorter.path()));
    let odd = with_config("tagger", |config| config["num_attention_heads"] = 5.into());
    assert!(error(odd.path()).contains("divide"), "{}", error(odd.path()));
    let other = with_config("tagger", |config| config["hidden_act"] = "relu".into());
    assert!(error(other.path()).contains("gelu"), "{}", error(other.path()));
    let huge = with_config("tagger", |config| config["hidden_size"] = (1u64 << 40).into());
    assert!(error(huge.path()).contains("widths"), "{}", error(huge.path()));
    let error = |dir: &Path| G2p::load(dir, &Device::flex()).unwrap_err().to_string();
    let slots = with_config("g2p", |config| config["slots"] = 4.into());
    assert!(error(slots.path()).contains("labels"), "{}", error(slots.path()));
    let phone = with_config("g2p", |config| config["phones"][0] = "XX".into());
    assert!(error(phone.path()).contains("XX"), "{}", error(phone.path()));
    assert!(error(&fixture("tagger")).contains("slots"), "{}", error(&fixture("tagger")));
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let model = TokenClassifier::load(&fixture("tagger"), &Device::flex()).unwrap();
    for rows in [vec![], vec![vec![]], vec![vec![1; 17]], vec![vec![40]]] {
        assert!(model.forward(&rows).is_err(), "{rows:?}");
    }
}
