//! The token classifier and the tagger against transformers' class; letters to phones and the dictionary against the voice recipe.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use auricle_engine::Precision;
use auricle_engine::analysis::{Finding, Label, Source, Tagger as _, Turn};
use auricle_engine::unstable::models::bert::{self, BertTagger, G2p, TokenClassifier};
use auricle_engine::unstable::text::speech::{Clause, GraphemeToPhoneme, Phone, Pronouncer, Token, TokenKind};
use auricle_tests::Oracle;
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
    let tokens: Vec<Vec<usize>> = serde_json::from_value(oracle.facts["tokens"].clone()).unwrap();
    let rows: Vec<Vec<bert::Token>> = tokens.iter().map(|row| plain(row)).collect();
    let theirs = Oracle::values(oracle.tensor::<3>("logits", &Device::flex()));
    let model = TokenClassifier::load(&fixture("tagger"), Precision::F32).unwrap();
    let (longest, labels) = (rows[0].len(), model.config().labels());
    let theirs: Vec<&[f32]> =
        theirs.chunks(longest * labels).zip(&rows).map(|(theirs, row)| &theirs[..row.len() * labels]).collect();
    let near = |ours: &[f32], theirs: &[f32]| {
        assert_eq!(ours.len(), theirs.len());
        for (at, (a, b)) in ours.iter().zip(theirs).enumerate() {
            assert!((a - b).abs() <= 2e-5, "{at}: {a} against {b}");
        }
    };
    near(&model.forward(&rows).unwrap(), &theirs.concat());
    for (row, theirs) in rows.iter().zip(theirs) {
        near(&model.forward(std::slice::from_ref(row)).unwrap(), theirs);
    }
}

/// Tokens of type 0.
fn plain(ids: &[usize]) -> Vec<bert::Token> {
    ids.iter().map(|id| bert::Token { id: *id, kind: 0 }).collect()
}

/// Words and the findings in them by transformers, of each sentence of the fixture.
fn sentences() -> Vec<(Vec<String>, Vec<Finding>)> {
    let oracle = Oracle::open(&fixture("words"));
    assert!(oracle.facts["smallest_margin"].as_f64().unwrap() > 1e-3);
    let found = |found: &serde_json::Value| {
        let at = |name: &str| found[name].as_u64().unwrap() as usize;
        Finding {
            words: at("start")..at("end"),
            label: Label::named(found["label"].as_str().unwrap()).unwrap(),
            confidence: found["confidence"].as_f64().unwrap() as f32,
            source: Source::Tagger,
        }
    };
    let sentence = |facts: &serde_json::Value| {
        (strings(&facts["words"]), facts["found"].as_array().unwrap().iter().map(found).collect())
    };
    oracle.facts["sentences"].as_array().unwrap().iter().map(sentence).collect()
}

fn assert_found(ours: &[Finding], theirs: &[Finding]) {
    assert_eq!(ours.len(), theirs.len(), "{ours:?} against {theirs:?}");
    for (a, b) in ours.iter().zip(theirs) {
        let same = (&a.words, a.label, a.source) == (&b.words, b.label, b.source);
        assert!(same && (a.confidence - b.confidence).abs() < 1e-4, "{a:?} against {b:?}");
    }
}

#[test]
fn findings_equal_those_of_the_published_class() {
    let tagger = BertTagger::load(&fixture("words"), Precision::F32).unwrap();
    let sentences = sentences();
    let (mut text, mut all) = (Vec::new(), Vec::new());
    for (words, theirs) in &sentences {
        let mut turns: Vec<Turn<'_>> = words.iter().map(|text| Turn { text, ends: false }).collect();
        assert_found(&tagger.tag(&turns).unwrap(), theirs);
        let shifted = |finding: &Finding| Finding {
            words: finding.words.start + text.len()..finding.words.end + text.len(),
            ..finding.clone()
        };
        all.extend(theirs.iter().map(shifted));
        turns.last_mut().unwrap().ends = true;
        text.extend(turns);
    }
    // A text of many windows, more than one batch of them.
    let (count, once) = (text.len(), all.clone());
    for again in 1..20 {
        text.extend_from_within(..count);
        all.extend(once.iter().map(|finding| Finding {
            words: finding.words.start + again * count..finding.words.end + again * count,
            ..finding.clone()
        }));
    }
    assert_found(&tagger.tag(&text).unwrap(), &all);
    assert_found(&tagger.tag(&[]).unwrap(), &[]);
}

/// On another processor these are the products of 32 bits.
#[test]
fn products_in_8_bits_find_nearly_the_same() {
    let [exact, rounded] = [Precision::F32, Precision::Int8].map(|precision| {
        let tagger = BertTagger::load(&fixture("words"), precision).unwrap();
        let sentences = sentences().into_iter().map(|(words, _)| words);
        let found = sentences.flat_map(|words| {
            let turns: Vec<Turn<'_>> = words.iter().map(|text| Turn { text, ends: false }).collect();
            tagger.tag(&turns).unwrap()
        });
        found.map(|finding| (finding.words, finding.label, finding.confidence)).collect::<Vec<_>>()
    });
    for (words, label, confidence) in &exact {
        let near = rounded
            .iter()
            .any(|(other, its, near)| (other.start, its) == (words.start, label) && (near - confidence).abs() < 0.05);
        assert!(near || *confidence < 0.5, "{words:?} {label:?} {confidence} in {rounded:?}");
    }
}

#[test]
fn words_without_tokens_and_of_any_length_are_no_obstacle() {
    let tagger = BertTagger::load(&fixture("words"), Precision::F32).unwrap();
    let (long, wide) = ("supercalifragilistic".repeat(5_000), "東京都渋谷区".repeat(3_000));
    let mut text = Vec::new();
    for word in ["\u{200b}", "", &long, "my", "\u{7}", &wide, "name", "…", "—"].iter().cycle().take(500) {
        text.push(Turn { text: word, ends: false });
    }
    let mut end = 0;
    for finding in tagger.tag(&text).unwrap() {
        assert!(finding.words.start >= end && finding.words.end <= text.len() && !finding.words.is_empty());
        let edges = [finding.words.start, finding.words.end - 1];
        assert!(edges.iter().all(|at| text[*at].text.contains(char::is_alphanumeric)), "{finding:?}");
        end = finding.words.end;
    }
    assert!(end > 0);
}

/// The names of other checkpoints mean the same labels here, and what means none is not found.
#[test]
fn labels_of_published_taggers_are_known() {
    let (words, theirs) = &sentences()[0];
    let turns: Vec<Turn<'_>> = words.iter().map(|text| Turn { text, ends: false }).collect();
    let renamed = with_config("words", |config| {
        for (id, name) in ["O", "B-PER", "I-PER", "B-MISC", "I-MISC", "B-ORG", "I-ORG"].iter().enumerate() {
            config["id2label"][id.to_string()] = (*name).into();
        }
    });
    let tagger = BertTagger::load(renamed.path(), Precision::F32).unwrap();
    assert_eq!(tagger.ignored_labels(), ["MISC"]);
    let kept: Vec<Finding> = theirs.iter().filter(|finding| finding.label != Label::Location).cloned().collect();
    let found = tagger.tag(&turns).unwrap();
    assert!(kept.iter().all(|finding| found.iter().any(|other| other.label == finding.label)), "{found:?}");
    assert!(found.iter().all(|finding| finding.label != Label::Location), "{found:?}");
}

#[test]
fn a_tagger_that_does_not_fit_is_refused_by_name() {
    let error = |dir: &Path| BertTagger::load(dir, Precision::F32).unwrap_err().to_string();
    let refused = |change: &dyn Fn(&mut serde_json::Value), name: &str| {
        let changed = with_config("words", change);
        assert!(error(changed.path()).contains(name), "{}", error(changed.path()));
    };
    refused(&|config| config["auricle_token_types"] = "shape".into(), "auricle_token_types shape");
    refused(&|config| config["type_vocab_size"] = 2.into(), "casing");
    refused(&|config| config["auricle_least_confidence"] = 50.into(), "auricle_least_confidence");
    refused(&|config| config["num_hidden_layers"] = 1.into(), "layer.1");
    refused(&|config| config["model_type"] = "roberta".into(), "roberta");
    refused(&|config| config["id2label"]["6"] = serde_json::Value::Null, "config.json");
    refused(&|config| drop(config["id2label"].as_object_mut().unwrap().remove("6")), "classifier");
    refused(
        &|config| config["id2label"].as_object_mut().unwrap().values_mut().for_each(|name| *name = "B-MISC".into()),
        "personal",
    );
    let dir = with_config("words", |_| {});
    std::fs::remove_file(dir.path().join("tokenizer.json")).unwrap();
    assert!(error(dir.path()).contains("tokenizer.json"), "{}", error(dir.path()));
    let text = std::fs::read_to_string(fixture("words").join("tokenizer.json")).unwrap();
    std::fs::write(dir.path().join("tokenizer.json"), text.replace("\"you\": 84", "\"you\": 99")).unwrap();
    assert!(error(dir.path()).contains("100 tokens"), "{}", error(dir.path()));
    std::fs::write(dir.path().join("tokenizer.json"), "{").unwrap();
    assert!(error(dir.path()).contains("tokenizer.json"), "{}", error(dir.path()));
    assert!(error(&fixture("tagger")).contains("tokenizer.json"), "{}", error(&fixture("tagger")));
}

#[test]
fn pronunciations_equal_those_of_the_recipe() {
    let oracle = Oracle::open(&fixture("g2p"));
    assert!(oracle.facts["smallest_margin"].as_f64().unwrap() > 1e-3);
    let words = oracle.facts["words"].as_object().unwrap();
    let written: Vec<&str> = words.keys().map(String::as_str).collect();
    let model = G2p::load(&fixture("g2p")).unwrap();
    for (said, (word, theirs)) in model.pronounce(&written).unwrap().iter().zip(words) {
        assert_eq!(names(said), strings(theirs), "{word}");
    }
    assert_eq!(model.pronounce(&[]).unwrap(), Vec::<Vec<Phone>>::new());
    assert_eq!(model.pronounce(&["", "\u{e9}"]).unwrap(), [vec![], vec![]]);
}

#[test]
fn dictionary_genitives_and_unknown_words_equal_those_of_the_recipe() {
    let oracle = Oracle::open(&fixture("g2p"));
    let words = oracle.facts["lexicon"].as_object().unwrap();
    assert!(words.len() > 100);
    let pronouncer = Pronouncer::new(Some(Arc::new(G2p::load(&fixture("g2p")).unwrap())));
    for (word, theirs) in words {
        let token = Token { text: word.clone(), kind: TokenKind::Word, written: 0..word.len() };
        let said = pronouncer.phones(&Clause { tokens: vec![token] }).unwrap();
        assert_eq!(names(&said[0]), strings(theirs), "{word}");
    }
}

/// A fixture with another `config.json`.
fn with_config(name: &str, change: impl Fn(&mut serde_json::Value)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in ["model.safetensors", "tokenizer.json"].iter().filter(|file| fixture(name).join(file).is_file()) {
        std::fs::copy(fixture(name).join(file), dir.path().join(file)).unwrap();
    }
    let text = std::fs::read_to_string(fixture(name).join("config.json")).unwrap();
    let mut config = serde_json::from_str(&text).unwrap();
    change(&mut config);
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    dir
}

#[test]
fn a_checkpoint_of_another_shape_is_refused_by_name() {
    let error = |dir: &Path| TokenClassifier::load(dir, Precision::F32).unwrap_err().to_string();
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
    let error = |dir: &Path| G2p::load(dir).unwrap_err().to_string();
    let slots = with_config("g2p", |config| config["slots"] = 4.into());
    assert!(error(slots.path()).contains("labels"), "{}", error(slots.path()));
    let phone = with_config("g2p", |config| config["phones"][0] = "XX".into());
    assert!(error(phone.path()).contains("XX"), "{}", error(phone.path()));
    assert!(error(&fixture("tagger")).contains("slots"), "{}", error(&fixture("tagger")));
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let model = TokenClassifier::load(&fixture("tagger"), Precision::F32).unwrap();
    for row in [plain(&[]), plain(&[1; 17]), plain(&[40]), vec![bert::Token { id: 1, kind: 2 }]] {
        assert!(model.forward(&[plain(&[1]), row.clone()]).is_err(), "{row:?}");
    }
    assert!(model.forward(&[]).unwrap().is_empty());
}
