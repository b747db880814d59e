//! The silero detector against the published package: speech probabilities, segments, streams, and incomplete checkpoints.

use std::path::{Path, PathBuf};

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::unstable::models::silero::{CHUNK, Silero, VadState};
use auricle_engine::unstable::vad::segmenter::{SegmentationParameters, Segmenter, SpeechBoundary, SpeechSegment};
use auricle_engine::unstable::vad::stream::{SegmentStream, VadStream, speech};
use auricle_engine::{Catalog, Error};
use auricle_tests::Oracle;
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

/// Speech probabilities of the oracle's two rows.
fn chances(model: &Silero, oracle: &Oracle) -> Vec<Vec<f32>> {
    let audio = rows(oracle, "audio");
    let audio: Vec<&[f32]> = audio.iter().map(Vec::as_slice).collect();
    model.probabilities(&audio, &mut [VadState::default(), VadState::default()]).unwrap()
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
fn speech_probabilities_equal_the_published_package() {
    let oracle = Oracle::open(&fixture());
    let model = Silero::load(&fixture()).unwrap();
    assert_eq!(model.parameters(), 309_633);
    assert_close(&chances(&model, &oracle), &rows(&oracle, "chances"), 1e-5);
}

/// The published weights are not kept here: `AURICLE_SILERO` names the file.
#[test]
fn the_published_weights_give_the_published_probabilities() {
    let Some(file) = std::env::var_os("AURICLE_SILERO") else {
        return auricle_tests::skip(
            "silero_vad_16k.safetensors of the Python package silero-vad (AURICLE_SILERO=FILE)",
        );
    };
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(file, dir.path().join("model.safetensors")).unwrap();
    let oracle = Oracle::open(&fixture());
    let model = Silero::load(dir.path()).unwrap();
    assert_close(&chances(&model, &oracle), &rows(&oracle, "chances_published"), 1e-5);
}

#[test]
fn a_stream_in_pieces_of_any_size_gives_what_the_whole_gives() {
    let oracle = Oracle::open(&fixture());
    let model = Silero::load(&fixture()).unwrap();
    let (audio, whole) = (rows(&oracle, "audio"), chances(&model, &oracle));
    for (audio, whole) in audio.iter().zip(whole) {
        for size in [1, 100, CHUNK, 8000, 20_011] {
            let mut listener = VadStream::new(&model);
            let mut pieces: Vec<f32> = audio.chunks(size).flat_map(|piece| listener.push(piece).unwrap()).collect();
            pieces.extend(listener.finish().unwrap());
            // The order of sums in a product may depend on the number of rows.
            assert_close(&[pieces], std::slice::from_ref(&whole), 1e-6);
        }
    }
}

#[test]
fn rows_of_different_lengths_do_not_touch_each_other() {
    let oracle = Oracle::open(&fixture());
    let model = Silero::load(&fixture()).unwrap();
    let audio = rows(&oracle, "audio");
    let mut memories = [VadState::default(), VadState::default(), VadState::default()];
    let together = model.probabilities(&[&audio[0][..70 * CHUNK], &[], &audio[1][..3 * CHUNK]], &mut memories).unwrap();
    assert_eq!(memories[1], VadState::default());
    let whole = chances(&model, &oracle);
    assert_close(&together, &[whole[0][..70].to_vec(), Vec::new(), whole[1][..3].to_vec()], 1e-6);
    assert!(matches!(model.probabilities(&[&audio[0][..100]], &mut memories[..1]), Err(Error::InvalidOption(_))));
    assert!(matches!(model.probabilities(&[&audio[0][..CHUNK]], &mut memories), Err(Error::InvalidOption(_))));
}

#[test]
fn segments_are_those_of_the_published_package() {
    let oracle = Oracle::open(&fixture());
    for case in oracle.facts["segments"].as_array().unwrap() {
        let rule = |name: &str| case["rules"][name].as_f64().unwrap();
        let rules = SegmentationParameters {
            on: rule("threshold") as f32,
            off: rule("neg_threshold") as f32,
            least_speech_ms: rule("min_speech_duration_ms") as usize,
            least_silence_ms: rule("min_silence_duration_ms") as usize,
            padding_ms: rule("speech_pad_ms") as usize,
        };
        let chances: Vec<f32> =
            case["chances"].as_array().unwrap().iter().map(|c| c.as_f64().unwrap() as f32).collect();
        let number = |value: &serde_json::Value| value.as_u64().unwrap() as usize;
        let expected: Vec<SpeechSegment> = case["segments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| SpeechSegment { start: number(&s[0]), end: number(&s[1]) })
            .collect();
        let mut segmenter = Segmenter::new(rules).unwrap();
        let mut boundaries: Vec<SpeechBoundary> =
            chances.iter().flat_map(|chance| segmenter.push(&[*chance])).collect();
        boundaries.extend(segmenter.finish(number(&case["samples"])));
        assert_eq!(SpeechSegment::between(&boundaries), expected, "{case}");
    }
}

#[test]
fn a_file_gives_the_segments_of_its_live_stream() {
    let models = Catalog::read(auricle_tests::models()).unwrap();
    let model = Silero::load(&models.detector().unwrap()).unwrap();
    let open = || AudioStream::open(auricle_tests::speech()).unwrap();
    let segments = speech(&model, &mut open(), SegmentationParameters::default()).unwrap();
    let samples = open().read_to_end().unwrap();
    let mut stream = SegmentStream::new(&model, SegmentationParameters::default()).unwrap();
    let mut boundaries: Vec<SpeechBoundary> =
        samples.chunks(160).flat_map(|piece| stream.push(piece).unwrap()).collect();
    boundaries.extend(stream.finish().unwrap());
    assert_eq!(SpeechSegment::between(&boundaries), segments);
    // "And so, my fellow Americans ... for your country", from 0.3 s to 10.5 s, in phrases with pauses.
    let second = SAMPLE_RATE as usize;
    assert!((3..=8).contains(&segments.len()), "{segments:?}");
    assert!(segments[0].start < second && segments[segments.len() - 1].end > 10 * second, "{segments:?}");
    let spoken: usize = segments.iter().map(|s| s.end - s.start).sum();
    assert!((5 * second..10 * second).contains(&spoken), "{segments:?}");
}

/// 16-bit samples of one channel as a WAV file.
fn wav(path: &Path, samples: impl Iterator<Item = f32>) {
    let data: Vec<u8> = samples.flat_map(|s| ((s * 32_767.0).round() as i16).to_le_bytes()).collect();
    let rate = SAMPLE_RATE;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + data.len() as u32).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    file.extend(rate.to_le_bytes().into_iter().chain((2 * rate).to_le_bytes()));
    file.extend(b"\x02\0\x10\0data");
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(data);
    std::fs::write(path, file).unwrap();
}

#[test]
fn audio_without_speech_gives_no_text() {
    let place = tempfile::tempdir().unwrap();
    let seconds = |count: f32| (0..(count * SAMPLE_RATE as f32) as usize).map(|n| n as f32 / SAMPLE_RATE as f32);
    let tone = |hertz: f32, t: f32| (std::f32::consts::TAU * (hertz * t).fract()).sin();
    let mut state = 7u32;
    let mut noise = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    // Notes that die away, two a second, up a scale.
    let melody = |t: f32| {
        let hertz = 220.0 * 2f32.powf(((t * 2.0) as u32 * 5 % 12) as f32 / 12.0);
        (1..7).map(|k| 0.3 * tone(hertz * k as f32, t) / k as f32).sum::<f32>() * (-(t * 2.0).fract() * 3.0).exp()
    };
    let file = |name: &str| place.path().join(name);
    wav(&file("silence.wav"), seconds(20.0).map(|_| 0.0));
    wav(&file("noise.wav"), seconds(20.0).map(|_| 0.2 * noise()));
    wav(&file("tones.wav"), seconds(20.0).map(|t| 0.3 * tone(300.0 + 200.0 * t.floor(), t)));
    wav(&file("melody.wav"), seconds(20.0).map(melody));
    for name in ["silence.wav", "noise.wav", "tones.wav", "melody.wav"] {
        let mut command = auricle_tests::command();
        command
            .args(["transcribe", "--device", "cpu", "--format", "json", "--models"])
            .arg(auricle_tests::models())
            .arg(file(name));
        let run = auricle_tests::ended(command.output().unwrap());
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!((&document["text"], &document["words"]), (&"".into(), &serde_json::json!([])), "{name}");
        // A warning counts the words that were dropped.
        for warning in document["warnings"].as_array().unwrap() {
            assert!(warning.as_str().unwrap().contains("no speech was detected"), "{warning}");
        }
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
    Silero::load(dir).unwrap_err().to_string()
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
