//! Kokoro against the modules of its package: every stage, the same from a file of PyTorch and from safetensors, and folders that are
//! refused.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use auricle_engine::Precision;
use auricle_engine::unstable::models::kokoro::{Advanced, Kokoro, Network, Spoken};
use auricle_engine::unstable::weights::pytorch;
use auricle_tests::{Oracle, devices, with_config};
use burn::tensor::Device;
use safetensors::tensor::TensorView;
use serde_json::Value;

const UTTERANCES: [&str; 2] = ["first", "second"];

fn fixture() -> PathBuf {
    auricle_tests::fixtures().join("kokoro")
}

fn numbers<const D: usize>(oracle: &Oracle, name: &str) -> Vec<f32> {
    Oracle::values(oracle.tensor::<D>(name, &Device::flex()))
}

/// The error over the norm, of a stage.
fn assert_close(what: &str, ours: &[f32], theirs: &[f32], tolerance: f64) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let norm: f64 = theirs.iter().map(|value| f64::from(*value).powi(2)).sum();
    let error: f64 = ours.iter().zip(theirs).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    assert!((error / norm).sqrt() < tolerance, "{what}: {}", (error / norm).sqrt());
}

fn samples(network: &Network, oracle: &Oracle, name: &str) -> Vec<f32> {
    let row = numbers::<1>(oracle, &format!("{name}_row"));
    let speed = oracle.facts[name]["speed"].as_f64().unwrap() as f32;
    let stages = network.stages(&oracle.integers(&format!("{name}_symbols")), &row, speed).unwrap();
    let mut utterance = network.start(stages, &numbers::<1>(oracle, &format!("{name}_noise")), &row).unwrap();
    loop {
        match network.advance(&utterance).unwrap() {
            Advanced::Unfinished(next) => utterance = next,
            Advanced::Samples(samples) => return samples,
        }
    }
}

#[test]
fn every_stage_is_that_of_the_published_modules() {
    let oracle = Oracle::open(&fixture());
    for (device, on_cpu) in devices() {
        let network = Network::load(&fixture(), &device, Precision::F32).unwrap();
        let tolerance = if on_cpu { 2e-5 } else { 1e-4 };
        for name in UTTERANCES {
            let of = |stage: &str| format!("{name}_{stage}");
            let row = numbers::<1>(&oracle, &of("row"));
            let speed = oracle.facts[name]["speed"].as_f64().unwrap() as f32;
            let stages = network.stages(&oracle.integers(&of("symbols")), &row, speed).unwrap();
            assert_eq!(stages.durations, oracle.integers(&of("durations")), "{name}");
            let close =
                |stage: &str, ours: &[f32], theirs: Vec<f32>| assert_close(&of(stage), ours, &theirs, tolerance);
            close("hidden", &stages.hidden.read().unwrap(), numbers::<2>(&oracle, &of("hidden")));
            close("features", &stages.features.read().unwrap(), numbers::<2>(&oracle, &of("features")));
            close("exact_durations", &stages.exact_durations, numbers::<1>(&oracle, &of("exact_durations")));
            close("pitch", &stages.pitch, numbers::<1>(&oracle, &of("pitch")));
            close("energy", &stages.energy, numbers::<1>(&oracle, &of("energy")));
            close("encoded", &stages.encoded.read().unwrap(), numbers::<2>(&oracle, &of("encoded")));
            let decoded = oracle.tensor::<2>(&of("decoded"), &Device::flex()).transpose();
            close("decoded", &stages.decoded.read().unwrap(), Oracle::values(decoded));
            // The published class adds up turns in 32 bits.
            let (pitch, noise) = (numbers::<1>(&oracle, &of("pitch")), numbers::<1>(&oracle, &of("noise")));
            let excitation = network.excitation(&pitch, &noise).read().unwrap();
            let expected = oracle.tensor::<2>(&of("excitation"), &Device::flex()).transpose();
            assert_close(&of("excitation"), &excitation, &Oracle::values(expected), 1e-3);
            assert_close(name, &samples(&network, &oracle, name), &numbers::<1>(&oracle, &of("samples")), 2e-3);
        }
    }
}

#[test]
fn speech_depends_on_its_symbols_alone_and_lasts_as_long_as_they_do() {
    let oracle = Oracle::open(&fixture());
    let symbols = oracle.integers("first_symbols");
    let mut by_device = Vec::new();
    for (device, _) in devices() {
        let model = Kokoro::load(&fixture(), &device, Precision::F32).unwrap();
        let say = |voice: usize, speed: f32| {
            let mut utterance = model.start(voice, &symbols, speed).unwrap();
            let total: usize = utterance.durations.iter().sum();
            loop {
                match model.advance(&utterance).unwrap() {
                    Spoken::Unfinished(next) => utterance = next,
                    Spoken::Samples(samples) => {
                        assert_eq!(samples.len(), total);
                        return samples;
                    }
                }
            }
        };
        let said = say(0, 1.0);
        assert_eq!(say(0, 1.0), said);
        assert_ne!(say(1, 1.0), said);
        assert!(say(0, 0.5).len() > said.len());
        // The noise is drawn and not the oracle's; the durations are the same.
        assert_eq!(said.len(), numbers::<1>(&oracle, "first_samples").len());
        assert!(model.start(2, &symbols, 1.0).is_err());
        assert!(model.start(0, &[0, 9_999, 0], 1.0).is_err());
        assert!(model.start(0, &[1; 97], 1.0).is_err());
        by_device.push(said);
    }
    // The noise is the same on each device; a phase near half a turn may come out with the other sign.
    by_device.iter().skip(1).for_each(|said| assert_close("another device", said, &by_device[0], 5e-2));
}

/// Writes the tensors of the fixture's weights as safetensors, under the names of the module.
fn write_tensors(dir: &Path, rename: impl Fn(&str) -> String) {
    let path = fixture().join("kokoro-v1_0.pth");
    let bytes = fs::read(&path).unwrap();
    let (_, places) = pytorch::open(&path).unwrap();
    let tensors: HashMap<String, TensorView> = places
        .iter()
        .map(|place| {
            let data = &bytes[place.start as usize..][..place.bytes];
            (rename(&place.name), TensorView::new(place.dtype, place.shape.clone(), data).unwrap())
        })
        .collect();
    fs::write(dir.join("model.safetensors"), safetensors::serialize(&tensors, None).unwrap()).unwrap();
}

#[test]
fn weights_in_safetensors_give_the_same_samples() {
    let oracle = Oracle::open(&fixture());
    let expected = samples(&Network::load(&fixture(), &Device::flex(), Precision::F32).unwrap(), &oracle, "first");
    let dir = with_config(&fixture(), |_| ());
    fs::remove_file(dir.path().join("kokoro-v1_0.pth")).unwrap();
    let error = Network::load(dir.path(), &Device::flex(), Precision::F32).unwrap_err().to_string();
    assert!(error.contains("neither model.safetensors nor a file that ends in .pth"), "{error}");
    write_tensors(dir.path(), |name| name.replacen(".module.", ".", 1));
    assert_eq!(
        samples(&Network::load(dir.path(), &Device::flex(), Precision::F32).unwrap(), &oracle, "first"),
        expected
    );
    // Newer modules name the two parts of a weight in another way.
    write_tensors(dir.path(), |name| {
        let name = name.replacen(".module.", ".", 1);
        let name = name.replace(".weight_g", ".parametrizations.weight.original0");
        name.replace(".weight_v", ".parametrizations.weight.original1")
    });
    assert_eq!(
        samples(&Network::load(dir.path(), &Device::flex(), Precision::F32).unwrap(), &oracle, "first"),
        expected
    );
}

/// A change of the settings, and what the error says.
type Refused = (fn(&mut Value), &'static str);

#[test]
fn a_network_of_another_shape_is_refused_by_name() {
    let cases: [Refused; 14] = [
        (|config| config["hidden_dim"] = 14.into(), "bert_encoder.weight"),
        (|config| config["hidden_dim"] = 13.into(), "hidden_dim even"),
        (|config| config["style_dim"] = 8.into(), "predictor.text_encoder"),
        (|config| config["n_layer"] = 1.into(), "no such tensor"),
        (|config| config["n_layer"] = 3.into(), "text_encoder"),
        (|config| config["n_token"] = 9.into(), "of 9"),
        (|config| config["max_dur"] = 0.into(), "max_dur"),
        (|config| config["plbert"]["num_attention_heads"] = 3.into(), "num_attention_heads"),
        (|config| config["plbert"]["intermediate_size"] = 25.into(), "bert.encoder"),
        (|config| config["istftnet"]["upsample_rates"] = serde_json::json!([4, 3]), "upsample_rates"),
        (|config| config["istftnet"]["upsample_rates"] = serde_json::json!([]), "upsample_rates"),
        (|config| config["istftnet"]["gen_istft_hop_size"] = 5.into(), "gen_istft_n_fft"),
        (|config| config["istftnet"]["resblock_kernel_sizes"] = serde_json::json!([3, 4]), "must be odd"),
        (
            |config| config["istftnet"]["resblock_dilation_sizes"] = serde_json::json!([[1, 3, 99], [1, 2, 3]]),
            "more frames than are supported",
        ),
    ];
    for (change, expected) in cases {
        let dir = with_config(&fixture(), change);
        let found = Network::load(dir.path(), &Device::flex(), Precision::F32).unwrap_err().to_string();
        assert!(found.contains(expected), "{found}, not {expected}");
    }
    let vocabulary = with_config(&fixture(), |config| {
        config["vocab"].as_object_mut().unwrap().remove("ʒ");
    });
    let found = Kokoro::load(vocabulary.path(), &Device::flex(), Precision::F32).unwrap_err().to_string();
    assert!(found.contains("lacks \"ʒ\""), "{found}");
    let voices = with_config(&fixture(), |_| ());
    fs::copy(fixture().join("kokoro-v1_0.pth"), voices.path().join("voices/af_ann.pt")).unwrap();
    let found = Kokoro::load(voices.path(), &Device::flex(), Precision::F32).unwrap_err().to_string();
    assert!(found.contains("af_ann.pt") && found.contains("one is read"), "{found}");
}
