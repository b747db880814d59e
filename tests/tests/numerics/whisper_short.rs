//! Whisper windows that are cut behind their audio: the numbers of the published class with as few positions, and windows of several
//! lengths in one batch.

use std::collections::BTreeMap;
use std::fs;

use auricle_engine::audio::AudioStream;
use auricle_engine::unstable::models::whisper::{DecodeOptions, DecodedWindow, DecodingBatch, Whisper};
use auricle_tests::{Oracle, devices, fixtures, relative_error};
use burn::tensor::{Device, Tensor};
use serde_json::Value;
use tempfile::TempDir;

/// A checkpoint of the fixtures, as one that is trained for short windows.
fn short(name: &str, margin: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(fixtures().join("whisper").join(name)).unwrap().map(Result::unwrap) {
        if file.path().is_file() {
            fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
        }
    }
    let path = folder.path().join("generation_config.json");
    let mut settings: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    settings["audio_context_margin"] = margin.into();
    fs::write(path, settings.to_string()).unwrap();
    folder
}

fn speech() -> Vec<f32> {
    AudioStream::open(fixtures().join("../oracles/speech.flac")).unwrap().read_to_end().unwrap()
}

fn decode(model: &Whisper, frames: &[Tensor<3>], asks: Vec<DecodeOptions>) -> Vec<DecodedWindow> {
    let mut decoding = DecodingBatch::new(true);
    let asks = asks.into_iter().enumerate().map(|(at, ask)| (at as u64, ask)).collect();
    let mut done: BTreeMap<u64, DecodedWindow> = decoding.add(model, frames, asks).unwrap().into_iter().collect();
    while decoding.rows() > 0 {
        done.extend(decoding.step(model).unwrap());
    }
    done.into_values().collect()
}

#[test]
fn a_short_window_has_the_numbers_of_the_class() {
    let folder = short("multi", 64);
    let oracle = Oracle::open(&fixtures().join("whisper/short_window"));
    let clip = &speech()[..39_840];
    let wanted = |of: &Value| -> Vec<u32> {
        of.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as u32).collect()
    };
    for (device, on_cpu) in devices() {
        let model = Whisper::load(folder.path(), &device).unwrap();
        let frames = model.encode(&[clip]).unwrap();
        assert_eq!(frames.dims()[1] as u64, oracle.facts["frames"].as_u64().unwrap());
        let reference: Tensor<3> = oracle.tensor("encoder", &device);
        let off = relative_error(frames.clone(), reference, &[frames.dims()[1]]);
        assert!(off < 1e-4, "encoder: {off:.2e}");
        let among = wanted(&oracle.facts["language_tokens"]);
        let chances = model.languages(&frames, &among).unwrap().remove(0);
        let reference = oracle.tensor::<2>("languages", &Device::flex()).into_data().try_into_vec_as::<f32>().unwrap();
        assert!(chances.iter().zip(&reference).all(|(ours, theirs)| (ours - theirs).abs() < 1e-4));
        // Elsewhere small differences may choose another token of this random network.
        for run in oracle.facts["runs"].as_array().unwrap().iter().filter(|_| on_cpu) {
            let ask = DecodeOptions {
                language: model.config().special.languages[run["language"].as_str().unwrap()],
                beams: run["beams"].as_u64().unwrap() as usize,
                max_tokens: 40,
                frames: 125,
                ..DecodeOptions::default()
            };
            let decoded = decode(&model, std::slice::from_ref(&frames), vec![ask]).remove(0);
            assert_eq!(decoded.tokens, wanted(&run["tokens"]), "{run}");
            let columns = model.config().alignment_heads.len() * 125;
            assert_eq!(decoded.weights.len(), (decoded.tokens.len() + 1) * columns);
        }
    }
}

#[test]
fn windows_of_several_lengths_in_one_batch_equal_single_ones() {
    let folder = short("taught", 64);
    let sounds = ["english.flac", "german.flac"].map(|name| {
        AudioStream::open(fixtures().join("whisper/taught/sounds").join(name)).unwrap().read_to_end().unwrap()
    });
    let windows: [&[f32]; 3] = [&sounds[0], &sounds[1], &sounds[0][..20_000]];
    for (device, _) in devices() {
        let model = Whisper::load(folder.path(), &device).unwrap();
        let ask = |at: usize| DecodeOptions {
            language: model.config().special.languages[["en", "de", "en"][at]],
            max_tokens: 40,
            frames: windows[at].len().div_ceil(320),
            ..DecodeOptions::default()
        };
        let frames: Vec<Tensor<3>> = windows.iter().map(|window| model.encode(&[window]).unwrap()).collect();
        assert!(frames[0].dims()[1] < 1500 && frames[2].dims()[1] < frames[0].dims()[1]);
        let together = decode(&model, &frames, (0..3).map(ask).collect());
        for (at, together) in together.iter().enumerate() {
            let alone = decode(&model, std::slice::from_ref(&frames[at]), vec![ask(at)]).remove(0);
            assert_eq!(together.tokens, alone.tokens, "window {at}");
            assert_eq!(together.weights.len(), alone.weights.len());
            let near = |(a, b): (&f32, &f32)| (a - b).abs() < 2e-3;
            assert!(together.weights.iter().zip(&alone.weights).all(near), "window {at}: attention");
            assert!((together.log_prob - alone.log_prob).abs() < 2e-3);
        }
    }
}

#[test]
fn a_window_has_at_least_the_least_frames_and_at_most_all() {
    let folder = short("multi", 64);
    let config = Whisper::load(folder.path(), &Device::flex()).unwrap().config().clone();
    assert_eq!(config.window_frames(0), 64);
    assert_eq!(config.window_frames(16_000), 128);
    assert_eq!(config.window_frames(Whisper::WINDOW), 1500);
    let full = Whisper::load(&fixtures().join("whisper/multi"), &Device::flex()).unwrap();
    assert_eq!(full.config().window_frames(16_000), 1500, "a checkpoint that says nothing needs the whole window");
}
