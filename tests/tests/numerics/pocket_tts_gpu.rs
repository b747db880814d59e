//! Pocket TTS and Phonon on a GPU: the stages against the published classes, and speech against the CPU's.

use std::path::Path;

use auricle_engine::Precision;
use auricle_engine::unstable::models::pocket_tts::{Codec, GpuNetwork, PocketTts, SequenceOptions, Utterance};
use auricle_tests::{Oracle, devices, with_config};
use burn::tensor::Device;
use tempfile::TempDir;

use crate::pocket_tts::{MODELS, VOICES, assert_close, decoded, facts, fixture, numbers, with_settings};

fn gpu() -> Option<Device> {
    devices().into_iter().find_map(|(device, on_cpu)| (!on_cpu).then_some(device))
}

/// A copy of a network's folder with other steps of the flow, and an audio tokenizer.
fn folder(name: &str, steps: usize) -> TempDir {
    let dir = with_settings(&fixture(name), "generation_config.json", |settings| {
        settings["num_flow_steps"] = steps.into();
    });
    let (from, to) = (fixture("pocket").join("audio_tokenizer"), dir.path().join("audio_tokenizer"));
    if !to.is_dir() {
        std::fs::create_dir(&to).unwrap();
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(from.join(file), to.join(file)).unwrap();
        }
    }
    dir
}

#[test]
fn hidden_states_latents_and_ends_are_those_of_the_published_class() {
    let Some(gpu) = gpu() else { return };
    for name in MODELS {
        let (dir, oracle) = (folder(name, 1), Oracle::open(&fixture(name)));
        let network = GpuNetwork::load(dir.path(), &gpu, Precision::F32).unwrap();
        let (_, tokens, after) = facts(&oracle);
        for (number, voice) in VOICES.into_iter().enumerate() {
            let what = format!("{name} {voice}");
            let voice_of = |number| network.voice(number, &numbers::<3>(&oracle, &format!("{voice}_voice")));
            let hidden = network.hidden(&voice_of(number), &tokens).unwrap();
            let theirs = numbers::<3>(&oracle, &format!("{voice}_hidden"));
            // The last is that of the first latent.
            assert!(hidden.len() < theirs.len());
            assert_close(&what, &hidden, &theirs[..hidden.len()], 2e-5);
            // A voice whose pages are known, and one that is computed.
            for number in [number, number + 2] {
                let options = SequenceOptions { seed: 0, greedy: true, frames_after_end: after };
                let mut utterance = network.start(&voice_of(number), &tokens, options).unwrap();
                let (mut latents, mut logits, mut is_last) = (Vec::new(), Vec::new(), false);
                while !is_last {
                    let spoken = network.step(&mut [&mut utterance]).unwrap().remove(0);
                    latents.extend(network.latent(&utterance).unwrap());
                    logits.push(spoken.end_logit);
                    is_last = spoken.is_last;
                }
                assert_close(&what, &logits, &numbers::<1>(&oracle, &format!("{voice}_logits")), 1e-4);
                assert_close(&what, &latents, &numbers::<3>(&oracle, &format!("{voice}_latents")), 1e-4);
            }
        }
    }
}

#[test]
fn the_flow_head_brings_noise_to_latents_in_any_number_of_steps() {
    let Some(gpu) = gpu() else { return };
    for name in MODELS {
        let oracle = Oracle::open(&fixture(name));
        let (noise, conditions) = (numbers::<2>(&oracle, "flow_noise"), numbers::<2>(&oracle, "flow_conditions"));
        for steps in [1, 3] {
            let dir = folder(name, steps);
            let network = GpuNetwork::load(dir.path(), &gpu, Precision::F32).unwrap();
            let ours = network.sample(&conditions, &noise).unwrap();
            let expected = numbers::<2>(&oracle, &format!("flow_{steps}"));
            assert_close(&format!("{name}, {steps} steps"), &ours, &expected, 1e-5);
        }
    }
}

#[test]
fn latents_by_latent_sound_like_the_whole_of_the_published_class() {
    let Some(gpu) = gpu() else { return };
    let oracle = Oracle::open(&fixture("pocket"));
    let network = GpuNetwork::load(&fixture("pocket"), &gpu, Precision::F32).unwrap();
    let latents = numbers::<3>(&oracle, "codec_latents");
    // A stream in the place of another.
    for _ in 0..2 {
        let [samples, transformed] = network.decode(&latents).unwrap();
        assert_close("transformed", &transformed, &numbers::<3>(&oracle, "codec_transformed"), 1e-5);
        assert_close("samples", &samples, &numbers::<3>(&oracle, "codec_samples"), 5e-5);
    }
    // More than the window holds.
    let latents = [latents, numbers::<3>(&oracle, "bob_latents")].concat();
    let codec = Codec::load(&fixture("pocket").join("audio_tokenizer")).unwrap();
    let whole = decoded(&codec, &latents, latents.len());
    assert_close("a longer stream", &network.decode(&latents).unwrap()[0], &whole, 5e-5);
}

fn options(seed: u64, frames_after_end: usize) -> SequenceOptions {
    SequenceOptions { seed, greedy: seed == 0, frames_after_end }
}

fn model(dir: &Path, device: &Device, precision: Precision) -> PocketTts {
    PocketTts::load(dir, device, precision).unwrap()
}

/// The samples of an utterance that nothing is said beside.
fn alone(model: &PocketTts, mut utterance: Utterance) -> Vec<f32> {
    let mut samples = Vec::new();
    loop {
        let frame = model.step(&mut [&mut utterance]).unwrap().remove(0);
        samples.extend(frame.samples);
        if frame.is_last {
            return samples;
        }
    }
}

/// Samples are sums of hundreds of products, whose order is the device's.
const TOLERANCE: f32 = 2e-4;

/// Ten utterances of two voices that begin one after another, so that streams join and leave, take the places of others, and fill more than
/// one block of rows: each sounds like it does alone on the CPU.
#[test]
fn utterances_side_by_side_sound_like_each_alone_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let oracle = Oracle::open(&fixture("pocket"));
    let (_, tokens, after) = facts(&oracle);
    let [there, here] = [&gpu, &Device::flex()].map(|device| model(&fixture("pocket"), device, Precision::F32));
    assert_close(
        "bob",
        &alone(&there, there.start(1, &tokens, options(0, after)).unwrap()),
        &numbers::<3>(&oracle, "bob_samples"),
        1e-3,
    );
    // Texts of several lengths.
    let text = |n: usize| &tokens[..tokens.len() - n % 4];
    let start = |model: &PocketTts, n: usize| model.start(n % 2, text(n), options(n as u64, after)).unwrap();
    let expected: Vec<Vec<f32>> = (0..10).map(|n| alone(&here, start(&here, n))).collect();
    let (mut speaking, mut said): (Vec<(usize, Utterance)>, Vec<Vec<f32>>) = (Vec::new(), vec![Vec::new(); 10]);
    let mut next = 0;
    while next < 10 || !speaking.is_empty() {
        // The first two begin together.
        for _ in 0..if next == 0 { 2 } else { 1 } {
            if next < 10 {
                speaking.push((next, start(&there, next)));
                next += 1;
            }
        }
        let mut step: Vec<&mut Utterance> = speaking.iter_mut().map(|(_, utterance)| utterance).collect();
        let frames = there.step(&mut step).unwrap();
        let mut ended = Vec::new();
        for ((number, _), frame) in speaking.iter().zip(frames) {
            said[*number].extend(frame.samples);
            ended.extend(frame.is_last.then_some(*number));
        }
        speaking.retain(|(number, _)| !ended.contains(number));
    }
    for (n, (said, expected)) in said.iter().zip(&expected).enumerate() {
        assert_close(&format!("utterance {n}"), said, expected, TOLERANCE);
    }
}

#[test]
fn a_step_that_runs_again_gives_the_same_frame() {
    let Some(gpu) = gpu() else { return };
    let (_, tokens, after) = facts(&Oracle::open(&fixture("pocket")));
    let model = model(&fixture("pocket"), &gpu, Precision::F32);
    let expected = alone(&model, model.start(0, &tokens, options(7, after)).unwrap());
    let (mut utterance, mut samples) = (model.start(0, &tokens, options(7, after)).unwrap(), Vec::new());
    loop {
        // As after a step that failed.
        let mut copy = utterance.clone();
        let first = model.step(&mut [&mut copy]).unwrap();
        let again = model.step(&mut [&mut utterance]).unwrap();
        assert_eq!(first, again);
        samples.extend_from_slice(&again[0].samples);
        if again[0].is_last {
            break;
        }
    }
    assert_close("speech", &samples, &expected, 1e-6);
}

#[test]
fn weights_of_fewer_bits_speak_alike() {
    let Some(gpu) = gpu() else { return };
    let (_, tokens, after) = facts(&Oracle::open(&fixture("pocket")));
    let first = |model: &PocketTts| {
        let mut utterance = model.start(0, &tokens, options(0, after)).unwrap();
        model.step(&mut [&mut utterance]).unwrap().remove(0).samples
    };
    let full = first(&model(&fixture("pocket"), &gpu, Precision::F32));
    let square = |values: &mut dyn Iterator<Item = f32>| values.map(|value| value * value).sum::<f32>();
    for precision in [Precision::F16, Precision::Int8] {
        let less = first(&model(&fixture("pocket"), &gpu, precision));
        let off = square(&mut less.iter().zip(&full).map(|(a, b)| a - b)) / square(&mut full.iter().copied());
        let is_rounded = precision == Precision::Int8 || gpu.supports_dtype(burn::tensor::DType::F16);
        assert!(off.sqrt() < 0.1 && (off > 0.0) == is_rounded, "{precision:?}: {}", off.sqrt());
    }
}

#[test]
fn a_network_whose_heads_no_kernel_takes_runs_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let narrow = with_config(&fixture("pocket"), |config| {
        for name in ["num_attention_heads", "num_key_value_heads"] {
            config[name] = 16.into();
        }
        config["head_dim"] = 2.into();
    });
    assert_eq!(*model(narrow.path(), &gpu, Precision::F32).device(), Device::flex());
    assert_eq!(*model(&fixture("pocket"), &gpu, Precision::F32).device(), gpu);
}

#[test]
fn utterances_of_a_voice_share_its_beginning() {
    let Some(gpu) = gpu() else { return };
    let oracle = Oracle::open(&fixture("pocket"));
    let (_, tokens, after) = facts(&oracle);
    let network = GpuNetwork::load(&fixture("pocket"), &gpu, Precision::F32).unwrap();
    // As many frames as fill a page and more.
    let frames = numbers::<3>(&oracle, "bob_voice").repeat(9);
    let voice = network.voice(0, &frames);
    let first = |voice| {
        let mut utterance = network.start(voice, &tokens, options(0, after)).unwrap();
        (network.step(&mut [&mut utterance]).unwrap().remove(0), network.known(&utterance))
    };
    let (spoken, known) = first(&voice);
    assert_eq!(known, 0);
    let (again, known) = first(&voice);
    assert!(known >= 32 && known.is_multiple_of(32), "{known} positions");
    assert_close("the end", &[again.end_logit], &[spoken.end_logit], 1e-5);
    assert_close("samples", &again.samples, &spoken.samples, TOLERANCE);
    assert_eq!(first(&network.voice(1, &frames)).1, 0, "another voice");
}
