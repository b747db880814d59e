//! The silero detector against the published package: chances of speech, segments, streams, and checkpoints that are not whole.

use std::path::{Path, PathBuf};

use auricle_engine::Error;
use auricle_engine::models::silero::{CHUNK, Edge, Memory, Rules, Segment, Segmenter, Silero};
use auricle_engine::tasks::activity::Listener;
use auricle_tests::{Oracle, devices};
use burn::tensor::Device;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;

fn fixture() -> PathBuf {
    auricle_tests::fixtures().join("silero")
}

fn rows(oracle: &Oracle, name: &str) -> Vec<Vec<f32>> {
    let tensor = oracle.tensor::<2>(name, &Device::flex());
    let width = tensor.dims()[1];
    Oracle::values(tensor).chunks(width).map(<[f32]>::to_vec).collect()
}

/// Chances of the oracle's two rows, together.
fn chances(model: &Silero, oracle: &Oracle) -> Vec<Vec<f32>> {
    let audio = rows(oracle, "audio");
    let audio: Vec<&[f32]> = audio.iter().map(Vec::as_slice).collect();
    model.chances(&audio, &mut [Memory::default(), Memory::default()]).unwrap()
}

fn assert_close(ours: &[Vec<f32>], theirs: &[Vec<f32>], tolerance: f32) {
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!(ours.len(), theirs.len());
        for (at, (a, b)) in ours.iter().zip(theirs).enumerate() {
            assert!((a - b).abs() <= tolerance, "chunk {at}: {a} against {b}");
        }
    }
}

#[test]
fn chances_are_those_of_the_published_package() {
    let oracle = Oracle::open(&fixture());
    for (device, on_cpu) in devices() {
        let model = Silero::load(&fixture(), &device).unwrap();
        assert_eq!(model.parameters(), 309_633);
        assert_close(&chances(&model, &oracle), &rows(&oracle, "chances"), if on_cpu { 1e-5 } else { 1e-4 });
    }
}

/// The published weights are not kept here: runs where `AURICLE_SILERO` names the published `silero_vad_16k.safetensors`.
#[test]
fn the_published_weights_give_the_published_chances() {
    let Some(file) = std::env::var_os("AURICLE_SILERO") else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(file, dir.path().join("model.safetensors")).unwrap();
    let oracle = Oracle::open(&fixture());
    let model = Silero::load(dir.path(), &Device::flex()).unwrap();
    assert_close(&chances(&model, &oracle), &rows(&oracle, "chances_published"), 1e-5);
}

#[test]
fn a_stream_in_pieces_of_any_size_gives_what_the_whole_gives() {
    let oracle = Oracle::open(&fixture());
    let model = Silero::load(&fixture(), &Device::flex()).unwrap();
    let (audio, whole) = (rows(&oracle, "audio"), chances(&model, &oracle));
    for (audio, whole) in audio.iter().zip(whole) {
        for size in [1, 100, CHUNK, 8000, 20_011] {
            let mut listener = Listener::new(&model);
            let mut pieces: Vec<f32> = audio.chunks(size).flat_map(|piece| listener.push(piece).unwrap()).collect();
            pieces.extend(listener.finish().unwrap());
            // Rows of a product may be added up in another order when there are others.
            assert_close(&[pieces], std::slice::from_ref(&whole), 1e-6);
        }
    }
}

#[test]
fn rows_of_different_lengths_do_not_touch_each_other() {
    let oracle = Oracle::open(&fixture());
    let model = Silero::load(&fixture(), &Device::flex()).unwrap();
    let audio = rows(&oracle, "audio");
    let mut memories = [Memory::default(), Memory::default(), Memory::default()];
    let together = model.chances(&[&audio[0][..70 * CHUNK], &[], &audio[1][..3 * CHUNK]], &mut memories).unwrap();
    assert_eq!(memories[1], Memory::default());
    let whole = chances(&model, &oracle);
    assert_close(&together, &[whole[0][..70].to_vec(), Vec::new(), whole[1][..3].to_vec()], 1e-6);
    assert!(matches!(model.chances(&[&audio[0][..100]], &mut memories[..1]), Err(Error::InvalidOption(_))));
    assert!(matches!(model.chances(&[&audio[0][..CHUNK]], &mut memories), Err(Error::InvalidOption(_))));
}

#[test]
fn segments_are_those_of_the_published_package() {
    let oracle = Oracle::open(&fixture());
    for case in oracle.facts["segments"].as_array().unwrap() {
        let rule = |name: &str| case["rules"][name].as_f64().unwrap();
        let rules = Rules {
            on: rule("threshold") as f32,
            off: rule("neg_threshold") as f32,
            least_speech_ms: rule("min_speech_duration_ms") as usize,
            least_silence_ms: rule("min_silence_duration_ms") as usize,
            padding_ms: rule("speech_pad_ms") as usize,
        };
        let chances: Vec<f32> =
            case["chances"].as_array().unwrap().iter().map(|c| c.as_f64().unwrap() as f32).collect();
        let number = |value: &serde_json::Value| value.as_u64().unwrap() as usize;
        let expected: Vec<Segment> = case["segments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| Segment { start: number(&s[0]), end: number(&s[1]) })
            .collect();
        let mut segmenter = Segmenter::new(rules).unwrap();
        let mut edges: Vec<Edge> = chances.iter().flat_map(|chance| segmenter.push(&[*chance])).collect();
        edges.extend(segmenter.finish(number(&case["samples"])));
        assert_eq!(Segment::between(&edges), expected, "{case}");
    }
}

/// The fixture's tensors, changed, in a folder of their own.
fn changed(change: impl Fn(&str, TensorView<'static>) -> Vec<(String, TensorView<'static>)>) -> tempfile::TempDir {
    let bytes: &'static [u8] = std::fs::read(fixture().join("model.safetensors")).unwrap().leak();
    let tensors = SafeTensors::deserialize(bytes).unwrap();
    let changed: Vec<(String, TensorView)> =
        tensors.names().into_iter().flat_map(|name| change(name, tensors.tensor(name).unwrap())).collect();
    let dir = tempfile::tempdir().unwrap();
    let file = safetensors::serialize(changed, None).unwrap();
    std::fs::write(dir.path().join("model.safetensors"), file).unwrap();
    dir
}

fn load_error(dir: &Path) -> String {
    Silero::load(dir, &Device::flex()).unwrap_err().to_string()
}

#[test]
fn a_tensor_that_is_missing_misshapen_or_left_over_is_named() {
    let view = |shape: &[usize], view: &TensorView<'static>| {
        TensorView::new(view.dtype(), shape.to_vec(), &view.data()[..2 * shape.iter().product::<usize>()]).unwrap()
    };
    let names: Vec<String> = {
        let bytes = std::fs::read(fixture().join("model.safetensors")).unwrap();
        SafeTensors::deserialize(&bytes).unwrap().names().into_iter().map(String::from).collect()
    };
    assert_eq!(names.len(), 15);
    for missing in &names {
        let dir = changed(|name, tensor| if name == missing { vec![] } else { vec![(name.into(), tensor)] });
        let error = load_error(dir.path());
        assert!(error.contains(missing) && error.contains("missing"), "{error}");
    }
    let dir = changed(|name, tensor| {
        let tensor = if name == "conv3.weight" { view(&[64, 63, 3], &tensor) } else { tensor };
        vec![(name.into(), tensor)]
    });
    let error = load_error(dir.path());
    assert!(error.contains("conv3.weight") && error.contains("[64, 63, 3]"), "{error}");
    let dir = changed(|name, tensor| {
        let extra = (name == "conv1.bias").then(|| ("conv5.bias".to_string(), tensor.clone()));
        std::iter::once((name.to_string(), tensor)).chain(extra).collect()
    });
    let error = load_error(dir.path());
    assert!(error.contains("conv5.bias") && error.contains("no such tensor"), "{error}");
}
