//! Whisper in the forms that people have, against the published folder and against `transformers` with the weights that each form
//! rounds: whisper.cpp's file, CTranslate2's folder, GGUF in shards.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use auricle_engine::audio::AudioStream;
use auricle_engine::unstable::models::whisper::{DecodeOptions, DecodingBatch, Form, Whisper};
use auricle_engine::unstable::weights::most_bytes;
use auricle_engine::{Precision, check_model};
use auricle_tests::{Oracle, devices, relative_error};
use burn::tensor::{Device, Tensor, TensorData};
use serde_json::Value;
use tempfile::TempDir;

/// Tolerance of the scores: relative error, f32.
const SCORES: f32 = 1e-4;
/// Encoder frames of a window.
const FRAMES: usize = 1500;

pub fn fixture(name: &str) -> PathBuf {
    auricle_tests::fixtures().join("whisper_forms").join(name)
}

/// A folder with the published settings and tokenizer beside the GGUF shards.
pub fn gguf_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture("gguf")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    for name in ["tokenizer.json", "preprocessor_config.json"] {
        fs::copy(fixture("published").join(name), folder.path().join(name)).unwrap();
    }
    folder
}

pub fn load(path: &Path) -> Whisper {
    Whisper::load(path, &Device::flex()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn refused(path: &Path, because: &str) {
    let error = Whisper::load(path, &Device::flex()).err().unwrap_or_else(|| panic!("accepted; expected: {because}"));
    assert!(error.to_string().contains(because), "{error}; expected: {because}");
}

fn speech() -> Vec<f32> {
    let path = auricle_tests::fixtures().join("../oracles/speech.flac");
    AudioStream::open(&path).unwrap().read_to_end().unwrap()
}

/// The tokens of the recording, with timestamps, decoded greedily.
fn decoded(model: &Whisper) -> Vec<u32> {
    let frames = model.encode(&[&speech()]).unwrap();
    let language = model.config().special.languages["en"];
    let ask = DecodeOptions { language, max_tokens: 120, frames: FRAMES, ..DecodeOptions::default() };
    let mut decoding = DecodingBatch::new(true);
    let mut done: BTreeMap<u64, _> = decoding.add(model, &[frames], vec![(0, ask)]).unwrap().into_iter().collect();
    while decoding.rows() > 0 {
        done.extend(decoding.step(model).unwrap());
    }
    done.remove(&0).unwrap().tokens
}

#[test]
fn every_form_has_the_published_configuration_and_tokens() {
    let published = load(&fixture("published"));
    let gguf = gguf_folder();
    let of = |model: &Whisper| format!("{:?}", model.config());
    let texts = [
        "",
        " ",
        " ask not what your country can do",
        "the  der die und\n\tт не 日本の는 ü ß ¿ 12!?",
        "<|en|>",
        "\u{1f600}",
    ];
    for path in [
        fixture("ggml-f16.bin"),
        fixture("ggml-mixed.bin"),
        fixture("ct2-f16"),
        fixture("ct2-int8"),
        gguf.path().into(),
    ] {
        let model = load(&path);
        assert_eq!(of(&model), of(&published), "{}", path.display());
        assert_eq!(model.parameters(), published.parameters(), "{}", path.display());
        for text in texts {
            let encode = |model: &Whisper| model.vocabulary().encode(text).unwrap();
            assert_eq!(encode(&model), encode(&published), "{}: {text:?}", path.display());
        }
        for token in 0..published.config().vocab_size as u32 {
            let text = |model: &Whisper| model.vocabulary().text(&[token]);
            assert_eq!(text(&model), text(&published), "{}: token {token}", path.display());
        }
    }
    let suppressed: Vec<u32> = integers(&Oracle::open(&fixture("")).facts["suppressed"]);
    assert_eq!(published.config().suppressed, suppressed);
}

fn integers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

/// On each device: rounded weights are those that the form states, to the last bit but for the order of sums.
#[test]
fn every_form_has_the_scores_of_the_class() {
    let oracle = Oracle::open(&fixture(""));
    let tokens = integers(&oracle.facts["tokens"]);
    let gguf = gguf_folder();
    let forms = [
        ("published", fixture("published")),
        ("ggml-f16", fixture("ggml-f16.bin")),
        ("ggml-mixed", fixture("ggml-mixed.bin")),
        ("ct2-int8", fixture("ct2-int8")),
        ("gguf", gguf.path().to_path_buf()),
    ];
    for (device, _) in devices() {
        for (name, path) in &forms {
            let model = Whisper::load(path, &device).unwrap();
            let frames = model.encode(&[&speech()]).unwrap();
            let mut steps = model.decoder().start(&frames).unwrap();
            let reference = oracle.tensor::<2>(name, &device);
            for (at, token) in tokens.iter().enumerate() {
                let scores = model.decoder().forward(&mut steps, &[vec![*token]]).unwrap().scores.read().unwrap();
                let scores = Tensor::<2>::from_data(TensorData::new(scores, [1, model.config().vocab_size]), &device);
                let wanted = reference.clone().narrow(0, at, 1);
                let scores = scores.narrow(1, 0, wanted.dims()[1]);
                let rows = |tensor: Tensor<2>| tensor.unsqueeze_dim::<3>(0);
                let error = relative_error(rows(scores), rows(wanted), &[1]);
                assert!(error <= SCORES, "{name}, token {at}: relative error {error:.2e}");
            }
        }
    }
}

#[test]
fn forms_of_the_same_weights_write_the_same_tokens() {
    let wanted = decoded(&load(&fixture("published")));
    assert!(wanted.len() > 10, "{wanted:?}");
    for name in ["ggml-f16.bin", "ct2-f16"] {
        assert_eq!(decoded(&load(&fixture(name))), wanted, "{name}");
    }
}

/// 4 and 8 bits again for weights that have no more: values on the grid of a form stay near it.
#[test]
fn precisions_take_every_form() {
    let gguf = gguf_folder();
    for precision in [Precision::Int8, Precision::Int4] {
        for path in [fixture("ggml-mixed.bin"), fixture("ct2-int8"), gguf.path().into()] {
            let model = Whisper::load_with(&path, &Device::flex(), precision).unwrap();
            assert!(!decoded(&model).is_empty(), "{}", path.display());
        }
    }
}

#[test]
fn a_path_or_a_folder_leads_to_the_form() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::copy(fixture("ggml-f16.bin"), at("ggml-tiny.bin")).unwrap();
    let find = |path: &Path| Form::find(path).unwrap();
    assert_eq!(find(&at("ggml-tiny.bin")), Some(Form::WhisperCpp(at("ggml-tiny.bin"))));
    assert_eq!(find(folder.path()), Some(Form::WhisperCpp(at("ggml-tiny.bin"))));
    fs::copy(fixture("ggml-mixed.bin"), at("ggml-tiny-q5_0.bin")).unwrap();
    refused(folder.path(), "has 2 files of whisper.cpp; name one of them");
    let ct2 = fixture("ct2-f16");
    assert_eq!(find(&ct2), Some(Form::CTranslate2(ct2.clone())));
    assert_eq!(find(&ct2.join("model.bin")), Some(Form::CTranslate2(ct2)));
    let gguf = gguf_folder();
    let published = Some(Form::Published(gguf.path().into()));
    assert_eq!(find(gguf.path()), published);
    assert_eq!(find(&gguf.path().join("model-00001-of-00002.gguf")), published);
    assert_eq!(find(&auricle_tests::fixtures().join("decoder/qwen3")), None);
}

#[test]
fn the_check_names_the_form_and_the_memory_covers_it() {
    let gguf = gguf_folder();
    let forms = [
        (fixture("published"), "safetensors, F16"),
        (fixture("ggml-f16.bin"), "whisper.cpp, F16 and F32"),
        (fixture("ct2-f16"), "CTranslate2, F16"),
        (fixture("ct2-int8"), "CTranslate2, F16 and I8"),
        (gguf.path().into(), "GGUF, F16 and F32 and Q4_0 and Q8_0"),
    ];
    for (path, form) in forms {
        let report = check_model(&path).unwrap();
        assert_eq!((report.form.as_str(), report.class.as_str()), (form, "WhisperForConditionalGeneration"));
        // CTranslate2 has biases of zero for keys, too.
        let (most, least) = (most_bytes(&path), 4 * report.parameters as u64);
        assert!((least..=least + least / 500).contains(&most), "{}: {most} for {least}", path.display());
    }
}
