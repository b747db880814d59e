//! The speaker embedding against the recipe's class, and checkpoints of another shape.

use std::path::{Path, PathBuf};

use auricle_engine::unstable::models::voice::VoiceEmbedder;
use auricle_kernels::product::gemv::Precision;
use auricle_tests::{Oracle, devices, with_config};
use burn::tensor::Device;

fn fixture() -> PathBuf {
    auricle_tests::fixtures().join("voice")
}

fn assert_close(ours: &[f32], theirs: &[f32], tolerance: f32) {
    assert_eq!(ours.len(), theirs.len());
    for (at, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= tolerance, "value {at}: {a} against {b}");
    }
}

#[test]
fn embeddings_equal_those_of_the_recipe() {
    let oracle = Oracle::open(&fixture());
    for (device, on_cpu) in devices() {
        let model = VoiceEmbedder::load(&fixture(), &device, Precision::F32).unwrap();
        assert_eq!(model.width(), 12);
        let tolerance = if on_cpu { 2e-5 } else { 2e-4 };
        for length in oracle.facts["lengths"].as_array().unwrap() {
            let ours = model.embed(oracle.tensor(&format!("windows_{length}"), &device)).unwrap();
            let theirs = Oracle::values(oracle.tensor::<3>(&format!("embeddings_{length}"), &Device::flex()));
            assert_close(&ours, &theirs, tolerance);
        }
        let audio = Oracle::values(oracle.tensor::<2>("audio", &Device::flex()));
        let mels = Oracle::values(oracle.tensor::<3>("mels", &Device::flex()));
        assert_close(&model.log_mels(&audio, &device).unwrap(), &mels, 2e-3);
    }
}

/// Of each row of one side the cosine to that of the other, the least of all.
fn least_cosine(ours: &[f32], theirs: &[f32], width: usize) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let rows = ours.chunks_exact(width).zip(theirs.chunks_exact(width));
    rows.map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * b).sum()).fold(1.0, f32::min)
}

#[test]
fn eight_bits_keep_the_directions_of_the_recipe() {
    let oracle = Oracle::open(&fixture());
    let model = VoiceEmbedder::load(&fixture(), &Device::flex(), Precision::Int8).unwrap();
    for length in oracle.facts["lengths"].as_array().unwrap() {
        let ours = model.embed(oracle.tensor(&format!("windows_{length}"), &Device::flex())).unwrap();
        let theirs = Oracle::values(oracle.tensor::<3>(&format!("embeddings_{length}"), &Device::flex()));
        let cosine = least_cosine(&ours, &theirs, model.width());
        assert!(cosine > 0.999, "{length} frames: {cosine}");
    }
}

fn load_error(dir: &Path) -> String {
    VoiceEmbedder::load(dir, &Device::flex(), Precision::F32).unwrap_err().to_string()
}

#[test]
fn a_checkpoint_of_another_shape_is_refused_by_name() {
    let wider = with_config(&fixture(), |config| config["channels"] = 32.into());
    let error = load_error(wider.path());
    assert!(error.contains("front.weight") && error.contains("[32, 80, 5]"), "{error}");
    let shorter = with_config(&fixture(), |config| config["dilations"] = serde_json::json!([2]));
    assert!(load_error(shorter.path()).contains("join.weight"), "{}", load_error(shorter.path()));
    let odd = with_config(&fixture(), |config| config["parts"] = 3.into());
    assert!(load_error(odd.path()).contains("multiple"), "{}", load_error(odd.path()));
    let huge = with_config(&fixture(), |config| config["channels"] = (1u64 << 40).into());
    assert!(load_error(huge.path()).contains("widths"), "{}", load_error(huge.path()));
    let other = with_config(&fixture(), |config| config["model_type"] = "whisper".into());
    assert!(load_error(other.path()).contains("ecapa_tdnn"), "{}", load_error(other.path()));
    assert!(load_error(tempfile::tempdir().unwrap().path()).contains("config.json"));
}
