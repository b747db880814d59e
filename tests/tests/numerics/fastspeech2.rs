//! The acoustic model against `FastSpeech2ConformerModel`, stage by stage, and checkpoints that are refused.

use std::path::{Path, PathBuf};

use auricle_engine::unstable::models::fastspeech2::{FastSpeech2, MelFrames, Utterance};
use auricle_tests::{Oracle, devices, with_config};
use burn::tensor::Device;

fn fixture() -> PathBuf {
    auricle_tests::fixtures().join("fastspeech2")
}

/// Symbols and voice of each utterance.
fn utterances(oracle: &Oracle) -> Vec<(String, Vec<usize>, usize)> {
    let voices = oracle.facts["voices"].as_object().unwrap();
    let utterance = |(name, voice): (&String, &serde_json::Value)| {
        (name.clone(), oracle.integers(&format!("{name}_symbols")), voice.as_u64().unwrap() as usize)
    };
    voices.iter().map(utterance).collect()
}

fn assert_close(what: &str, ours: &[f32], theirs: &[f32], tolerance: f32) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (at, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}, value {at}: {a} against {b}");
    }
}

#[test]
fn every_stage_is_that_of_the_published_class() {
    let oracle = Oracle::open(&fixture());
    let flex = Device::flex();
    let values = |name: String| Oracle::values(oracle.tensor::<3>(&name, &flex));
    for (device, on_cpu) in devices() {
        let model = FastSpeech2::load(&fixture(), &device).unwrap();
        let tolerance = if on_cpu { 1e-4 } else { 2e-3 };
        for (name, symbols, voice) in utterances(&oracle) {
            let utterance = Utterance { symbols: &symbols, voice, speed: 1.0 };
            let (frames, stages) = model.speak_in_stages(&[utterance]).unwrap();
            let close = |what: &str, ours: &[f32]| {
                assert_close(&format!("{name} {what}"), ours, &values(format!("{name}_{what}")), tolerance);
            };
            close("encoded", &stages[0].encoded);
            close("log_durations", &stages[0].log_durations);
            close("pitch", &stages[0].pitch);
            close("energy", &stages[0].energy);
            assert_eq!(frames[0].durations, oracle.integers(&format!("{name}_durations")));
            close("mels", &frames[0].mels);
            let speed = 1.0 / oracle.facts["slower"].as_f64().unwrap() as f32;
            let slower = model.speak(&[Utterance { speed, ..utterance }]).unwrap();
            close("slower", &slower[0].mels);
        }
    }
}

#[test]
fn an_utterance_sounds_the_same_beside_others() {
    let oracle = Oracle::open(&fixture());
    for (device, on_cpu) in devices() {
        let model = FastSpeech2::load(&fixture(), &device).unwrap();
        let all = utterances(&oracle);
        let all: Vec<Utterance> =
            all.iter().map(|(_, symbols, voice)| Utterance { symbols, voice: *voice, speed: 1.3 }).collect();
        let together = model.speak(&all).unwrap();
        for (utterance, MelFrames { mels, durations }) in all.iter().zip(together) {
            let alone = model.speak(&[*utterance]).unwrap().remove(0);
            assert_eq!(alone.durations, durations);
            assert_close("mels", &mels, &alone.mels, if on_cpu { 1e-5 } else { 2e-3 });
        }
    }
}

#[test]
fn symbols_and_voices_that_are_not_there_are_refused() {
    let model = FastSpeech2::load(&fixture(), &Device::flex()).unwrap();
    let error =
        |symbols: &[usize], voice, speed| model.speak(&[Utterance { symbols, voice, speed }]).unwrap_err().to_string();
    assert!(error(&[], 0, 1.0).contains("symbols from 0 to 75"));
    assert!(error(&[76], 0, 1.0).contains("symbols from 0 to 75"));
    assert!(error(&[1], 3, 1.0).contains("voice 3 of 3"));
    assert!(error(&[1], 0, f32::NAN).contains("speed"));
    assert!(model.speak(&[]).unwrap().is_empty());
}

fn load_error(dir: &Path) -> String {
    FastSpeech2::load(dir, &Device::flex()).unwrap_err().to_string()
}

#[test]
fn settings_that_are_not_computed_are_refused_by_name() {
    let settings = [
        ("encoder_normalize_before", serde_json::json!(false)),
        ("decoder_concat_after", serde_json::json!(true)),
        ("use_macaron_style_in_conformer", serde_json::json!(false)),
        ("speech_decoder_postnet_layers", serde_json::json!(5)),
        ("reduction_factor", serde_json::json!(2)),
        ("num_languages", serde_json::json!(4)),
        ("speaker_embed_dim", serde_json::json!(64)),
        ("convolution_bias", serde_json::json!(false)),
        ("model_type", serde_json::json!("bert")),
    ];
    for (name, value) in settings {
        let dir = with_config(&fixture(), |config| config[name] = value.clone());
        assert!(load_error(dir.path()).contains(name), "{name}: {}", load_error(dir.path()));
    }
    let wider = with_config(&fixture(), |config| config["hidden_size"] = 48.into());
    assert!(load_error(wider.path()).contains("speaker_id_embedding.weight"), "{}", load_error(wider.path()));
    let fewer = with_config(&fixture(), |config| config["encoder_layers"] = 1.into());
    assert!(load_error(fewer.path()).contains("conformer_layers.1"), "{}", load_error(fewer.path()));
    let huge = with_config(&fixture(), |config| config["hidden_size"] = (1u64 << 40).into());
    assert!(load_error(huge.path()).contains("widths"), "{}", load_error(huge.path()));
    let even = with_config(&fixture(), |config| config["decoder_kernel_size"] = 4.into());
    assert!(load_error(even.path()).contains("odd"), "{}", load_error(even.path()));
    assert!(load_error(tempfile::tempdir().unwrap().path()).contains("config.json"));
}

/// Replaces the first values of a tensor of 16-bit floats.
fn with_values(name: &str, value: [u8; 2]) -> tempfile::TempDir {
    let dir = with_config(&fixture(), |_| {});
    let path = dir.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let first = 8 + length + header[name]["data_offsets"][0].as_u64().unwrap() as usize;
    bytes[first..first + 2].copy_from_slice(&value);
    std::fs::write(path, bytes).unwrap();
    dir
}

#[test]
fn weights_that_are_no_numbers_are_an_error() {
    let oracle = Oracle::open(&fixture());
    let nan = 0x7e00u16.to_le_bytes();
    let many = 0x4e00u16.to_le_bytes();
    let places = [
        ("duration_predictor.linear.bias", nan),
        ("speech_decoder_postnet.feat_out.bias", nan),
        ("encoder.conformer_layers.0.final_layer_norm.weight", nan),
        // 24 nats: an utterance of years.
        ("duration_predictor.linear.bias", many),
    ];
    for (name, value) in places {
        let dir = with_values(name, value);
        for (device, _) in devices() {
            let model = FastSpeech2::load(dir.path(), &device).unwrap();
            for (_, symbols, voice) in utterances(&oracle) {
                let error = model.speak(&[Utterance { symbols: &symbols, voice, speed: 1.0 }]).unwrap_err();
                assert!(error.to_string().contains("no numbers"), "{name}: {error}");
            }
        }
    }
}
