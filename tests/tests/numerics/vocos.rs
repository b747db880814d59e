//! The vocoder against the published module, whole and in chunks, and checkpoints that are refused.

use std::path::{Path, PathBuf};

use auricle_engine::unstable::models::vocos::{MelChunk, Vocos};
use auricle_tests::{Oracle, devices, with_config};
use burn::tensor::Device;

const NAMES: [&str; 3] = ["first", "second", "third"];

fn fixture() -> PathBuf {
    auricle_tests::fixtures().join("vocos")
}

fn assert_close(what: &str, ours: &[f32], theirs: &[f32], tolerance: f32) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (at, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}, value {at}: {a} against {b}");
    }
}

fn whole(model: &Vocos, mels: &[f32]) -> Vec<f32> {
    model.forward(&[MelChunk { mels, is_last: true }], &mut [&mut model.start()]).unwrap().remove(0)
}

#[test]
fn outputs_and_samples_are_those_of_the_published_module() {
    let oracle = Oracle::open(&fixture());
    let values = |name: String| Oracle::values(oracle.tensor::<3>(&name, &Device::flex()));
    for (device, on_cpu) in devices() {
        let model = Vocos::load(&fixture(), &device).unwrap();
        let tolerance = if on_cpu { 5e-5 } else { 1e-3 };
        for name in NAMES {
            let mels = values(format!("{name}_mels"));
            assert_close(name, &model.spectra(&mels).unwrap(), &values(format!("{name}_outputs")), tolerance);
            assert_close(name, &whole(&model, &mels), &values(format!("{name}_samples")), tolerance);
        }
    }
}

#[test]
fn chunks_sound_like_the_whole() {
    let oracle = Oracle::open(&fixture());
    let model = Vocos::load(&fixture(), &Device::flex()).unwrap();
    let width = model.config().n_mels;
    for name in NAMES {
        let mels = Oracle::values(oracle.tensor::<3>(&format!("{name}_mels"), &Device::flex()));
        let expected = whole(&model, &mels);
        for frames in [1, 2, 5, 13, 17, 40] {
            let mut state = model.start();
            let mut samples = Vec::new();
            let chunks: Vec<&[f32]> = mels.chunks(frames * width).collect();
            for (at, mels) in chunks.iter().enumerate() {
                let chunk = MelChunk { mels, is_last: at + 1 == chunks.len() };
                samples.extend(model.forward(&[chunk], &mut [&mut state]).unwrap().remove(0));
                let known = (at + 1) * frames;
                assert!(samples.len() <= known * model.config().hop_length, "{name}: samples before their mels");
            }
            assert_close(&format!("{name} by {frames}"), &samples, &expected, 1e-5);
        }
    }
}

#[test]
fn an_utterance_sounds_the_same_beside_others() {
    let oracle = Oracle::open(&fixture());
    for (device, on_cpu) in devices() {
        let model = Vocos::load(&fixture(), &device).unwrap();
        let mels = NAMES.map(|name| Oracle::values(oracle.tensor::<3>(&format!("{name}_mels"), &Device::flex())));
        let chunks = mels.each_ref().map(|mels| MelChunk { mels, is_last: true });
        let mut states = [model.start(), model.start(), model.start()];
        let together = model.forward(&chunks, &mut states.iter_mut().collect::<Vec<_>>()).unwrap();
        for (mels, samples) in mels.iter().zip(together) {
            assert_close("samples", &samples, &whole(&model, mels), if on_cpu { 1e-5 } else { 1e-3 });
        }
    }
}

fn load_error(dir: &Path) -> String {
    Vocos::load(dir, &Device::flex()).unwrap_err().to_string()
}

#[test]
fn a_checkpoint_of_another_shape_is_refused_by_name() {
    let wider = with_config(&fixture(), |config| config["channels"] = 32.into());
    assert!(load_error(wider.path()).contains("backbone.embed.weight"), "{}", load_error(wider.path()));
    let fewer = with_config(&fixture(), |config| config["layers"] = 2.into());
    assert!(load_error(fewer.path()).contains("backbone.convnext.2"), "{}", load_error(fewer.path()));
    let same = with_config(&fixture(), |config| config["padding"] = "same".into());
    assert!(load_error(same.path()).contains("center"), "{}", load_error(same.path()));
    let hop = with_config(&fixture(), |config| config["hop_length"] = 300.into());
    assert!(load_error(hop.path()).contains("hop_length"), "{}", load_error(hop.path()));
    let rate = with_config(&fixture(), |config| config["sample_rate"] = 1.into());
    assert!(load_error(rate.path()).contains("sample_rate"), "{}", load_error(rate.path()));
    let other = with_config(&fixture(), |config| config["model_type"] = "bert".into());
    assert!(load_error(other.path()).contains("vocos"), "{}", load_error(other.path()));
    assert!(load_error(tempfile::tempdir().unwrap().path()).contains("config.json"));
}

#[test]
fn mels_that_are_no_numbers_are_an_error() {
    let model = Vocos::load(&fixture(), &Device::flex()).unwrap();
    let mels = vec![f32::NAN; 10 * 10];
    let error = model.forward(&[MelChunk { mels: &mels, is_last: true }], &mut [&mut model.start()]).unwrap_err();
    assert!(error.to_string().contains("no numbers"), "{error}");
    let odd = model.forward(&[MelChunk { mels: &mels[..13], is_last: true }], &mut [&mut model.start()]);
    assert!(odd.unwrap_err().to_string().contains("10 mels"));
}
