//! Smart Turn against transformers' encoder and torch, and its ONNX files against onnxruntime; files that are cut or lie.

use std::path::{Path, PathBuf};

use auricle_engine::unstable::models::smart_turn::SmartTurn;
use auricle_engine::{Error, Precision};
use auricle_tests::{Oracle, devices};
use burn::tensor::{Device, Tensor};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;

fn fixture() -> PathBuf {
    auricle_tests::fixtures().join("smart_turn")
}

/// The windows that the oracle judged: pieces of the recording of all oracles.
fn windows(oracle: &Oracle) -> Vec<Vec<f32>> {
    let recording = auricle_tests::fixtures().join("../oracles/speech.flac");
    let samples = auricle_engine::audio::AudioStream::open(recording).unwrap().read_to_end().unwrap();
    let numbers = |name: &str| -> Vec<usize> { serde_json::from_value(oracle.facts[name].clone()).unwrap() };
    let places = numbers("starts").into_iter().zip(numbers("lengths"));
    places.map(|(start, length)| samples[start..start + length].to_vec()).collect()
}

fn judged(model: &SmartTurn, windows: &[Vec<f32>]) -> Vec<f32> {
    model.probabilities(&windows.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap()
}

/// The largest difference from the oracle.
fn error<const D: usize>(ours: &Tensor<D>, oracle: &Oracle, name: &str) -> f32 {
    let theirs = oracle.tensor::<D>(name, &Device::flex());
    assert_eq!(ours.dims(), theirs.dims(), "{name}");
    difference(&Oracle::values(ours.clone()), &Oracle::values(theirs))
}

fn difference(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn each_stage_equals_the_published_form() {
    let oracle = Oracle::open(&fixture());
    let windows = windows(&oracle);
    for (device, on_cpu) in devices() {
        let model = SmartTurn::load(&fixture(), &device, Precision::F32).unwrap();
        let whole = if on_cpu { 1.0 } else { 10.0 };
        let features = model.features(&windows.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
        let stages = [
            ("features", error(&features, &oracle, "features"), 2e-3),
            ("encoded", error(&model.encode(oracle.tensor("features", &device)), &oracle, "encoded"), 1e-4 * whole),
            ("pooled", error(&model.pool(oracle.tensor("encoded", &device)), &oracle, "pooled"), 1e-5 * whole),
        ];
        for (name, error, tolerance) in stages {
            assert!(error <= tolerance, "{name}: {error}");
        }
        let theirs = Oracle::values(oracle.tensor::<2>("probabilities", &Device::flex()));
        let spread =
            theirs.iter().fold(0f32, |most, p| most.max(*p)) - theirs.iter().fold(1f32, |least, p| least.min(*p));
        assert!(spread > 0.1, "windows that all sound alike tell nothing: {theirs:?}");
        let error = difference(&judged(&model, &windows), &theirs);
        assert!(error <= 1e-3, "probabilities: {error}");
    }
}

#[test]
fn a_window_does_not_depend_on_those_beside_it() {
    let windows = windows(&Oracle::open(&fixture()));
    let model = SmartTurn::load(&fixture(), &Device::flex(), Precision::F32).unwrap();
    let together = judged(&model, &windows);
    for (window, expected) in windows.iter().zip(together) {
        let alone = judged(&model, std::slice::from_ref(window));
        assert!((alone[0] - expected).abs() < 1e-5, "{} against {expected}", alone[0]);
    }
}

/// On another processor the blocks are those of 32 bits.
#[test]
fn blocks_in_8_bits_judge_nearly_the_same() {
    let windows = windows(&Oracle::open(&fixture()));
    let [exact, rounded] = [Precision::F32, Precision::Int8]
        .map(|precision| judged(&SmartTurn::load(&fixture(), &Device::flex(), precision).unwrap(), &windows));
    assert!(difference(&exact, &rounded) < 0.03, "{exact:?} {rounded:?}");
}

#[test]
fn an_onnx_file_gives_what_onnxruntime_gives() {
    let oracle = Oracle::open(&fixture());
    let windows = windows(&oracle);
    // The quantised file rounds what flows between its products, too, which the engine does not.
    for (file, name, tolerance) in
        [("full.onnx", "probabilities_full", 1e-3), ("quantized.onnx", "probabilities_quantized", 0.03)]
    {
        let model = SmartTurn::load(&fixture().join(file), &Device::flex(), Precision::F32).unwrap();
        let theirs = Oracle::values(oracle.tensor::<2>(name, &Device::flex()));
        let ours = judged(&model, &windows);
        assert!(difference(&ours, &theirs) <= tolerance, "{file}: {ours:?} against {theirs:?}");
        let of_folder = SmartTurn::load(&fixture(), &Device::flex(), Precision::F32).unwrap();
        assert_eq!((model.config(), model.parameters()), (of_folder.config(), of_folder.parameters()));
    }
}

#[test]
fn a_folder_with_one_onnx_file_is_that_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(fixture().join("quantized.onnx"), dir.path().join("turn.onnx")).unwrap();
    assert!(SmartTurn::load(dir.path(), &Device::flex(), Precision::F32).is_ok());
    std::fs::copy(fixture().join("full.onnx"), dir.path().join("other.onnx")).unwrap();
    let error = load_error(dir.path());
    assert!(error.contains("2 .onnx files"), "{error}");
}

fn load_error(path: &Path) -> String {
    match SmartTurn::load(path, &Device::flex(), Precision::F32) {
        Err(error @ (Error::Checkpoint { .. } | Error::Weights { .. })) => error.to_string(),
        other => panic!("{} loads: {other:?}", path.display()),
    }
}

fn changed(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".onnx").tempfile().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

#[test]
fn an_onnx_file_that_is_cut_or_lies_is_refused() {
    for name in ["full.onnx", "quantized.onnx"] {
        let whole = std::fs::read(fixture().join(name)).unwrap();
        for parts in 0..40 {
            let error = load_error(changed(&whole[..whole.len() * parts / 40]).path());
            assert!(error.contains(".onnx"), "{error}");
        }
        // A byte of the structure that says another length, type or name; one within values changes only these.
        for at in (0..whole.len()).step_by(97) {
            let mut lying = whole.clone();
            lying[at] ^= 0x55;
            let _ = SmartTurn::load(changed(&lying).path(), &Device::flex(), Precision::F32);
        }
    }
    for (bytes, fault) in
        [(&b""[..], "no ONNX file"), (b"RIFF\xff\xff\xff\xff", "no ONNX file"), (b"\x3a\x7f", "reaches past")]
    {
        let error = load_error(changed(bytes).path());
        assert!(error.contains(fault), "{error}");
    }
}

#[test]
fn a_constant_of_another_shape_than_its_values_is_named() {
    let whole = std::fs::read(fixture().join("full.onnx")).unwrap();
    // The positions' shape, 100 x 64, as the file has it: a field of numbers before the type of floats.
    let shape = [0x08, 100, 0x08, 64, 0x10, 0x01];
    let at = whole.windows(shape.len()).position(|bytes| bytes == shape).unwrap();
    let mut lying = whole;
    lying[at + 1] = 99;
    let error = load_error(changed(&lying).path());
    assert!(error.contains("embed_positions.weight") && error.contains("[99, 64]"), "{error}");
}

/// The fixture's tensors, changed, in a folder with its configuration.
fn with_tensors(change: impl Fn(&str) -> Vec<String>) -> tempfile::TempDir {
    let bytes: &'static [u8] = std::fs::read(fixture().join("model.safetensors")).unwrap().leak();
    let tensors = SafeTensors::deserialize(bytes).unwrap();
    let changed: Vec<(String, TensorView)> = tensors
        .names()
        .into_iter()
        .flat_map(|name| change(name).into_iter().map(|new| (new, tensors.tensor(name).unwrap())))
        .collect();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("model.safetensors"), safetensors::serialize(changed, None).unwrap()).unwrap();
    std::fs::copy(fixture().join("config.json"), dir.path().join("config.json")).unwrap();
    dir
}

#[test]
fn another_network_is_refused() {
    for missing in ["encoder.layers.1.self_attn.k_proj.weight", "pool_attention.2.bias", "classifier.6.weight"] {
        let dir = with_tensors(|name| if name == missing { vec![] } else { vec![name.into()] });
        let error = load_error(dir.path());
        assert!(error.contains(missing) && error.contains("missing"), "{error}");
    }
    let dir = with_tensors(|name| {
        let more = (name == "classifier.6.bias").then(|| "decoder.bias".to_owned());
        more.into_iter().chain([name.to_owned()]).collect()
    });
    let error = load_error(dir.path());
    assert!(error.contains("decoder.bias") && error.contains("no such tensor"), "{error}");
    let error = load_error(&auricle_tests::fixtures().join("silero"));
    assert!(error.contains("config.json"), "{error}");
}

/// A file whose tensors have other names.
#[test]
fn an_onnx_file_of_another_network_is_refused() {
    let whole = std::fs::read(fixture().join("full.onnx")).unwrap();
    let text = b"embed_positions";
    let mut other = whole.clone();
    for at in 0..whole.len() - text.len() {
        if whole[at..].starts_with(text) {
            other[at] = b'E';
        }
    }
    let error = load_error(changed(&other).path());
    assert!(error.contains("no Smart Turn network") && error.contains("embed_positions.weight"), "{error}");
}
