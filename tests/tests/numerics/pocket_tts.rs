//! Pocket TTS and Phonon against the published classes: the network, the audio decoder whole and in chunks, and folders that are refused. On
//! GPUs in `pocket_tts_gpu`.

use std::fs;
use std::path::{Path, PathBuf};

use auricle_engine::Precision;
use auricle_engine::unstable::models::pocket_tts::{
    Codec, Encoder, Network, PocketTts, SequenceOptions, ending_on_pause,
};
use auricle_kernels::thread_pool;
use auricle_tests::{Oracle, with_config, without_tensors};
use burn::tensor::Device;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const MODELS: [&str; 3] = ["pocket", "phonon", "drifting"];
pub(crate) const VOICES: [&str; 2] = ["ann", "bob"];

pub(crate) fn fixture(name: &str) -> PathBuf {
    auricle_tests::fixtures().join("pocket_tts").join(name)
}

pub(crate) fn numbers<const D: usize>(oracle: &Oracle, name: &str) -> Vec<f32> {
    Oracle::values(oracle.tensor::<D>(name, &Device::flex()))
}

/// The text, its tokens, and the frames that follow the end of speech.
pub(crate) fn facts(oracle: &Oracle) -> (String, Vec<u32>, usize) {
    let facts = &oracle.facts;
    let tokens = facts["tokens"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as u32);
    (facts["text"].as_str().unwrap().into(), tokens.collect(), facts["after"].as_u64().unwrap() as usize)
}

pub(crate) fn assert_close(what: &str, ours: &[f32], theirs: &[f32], tolerance: f32) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (at, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}, value {at}: {a} against {b}");
    }
}

/// A greedy utterance's latents and logits, to its end.
fn generate(network: &Network, voice: &[f32], tokens: &[u32], frames_after_end: usize) -> (Vec<f32>, Vec<f32>) {
    let options = SequenceOptions { seed: 0, greedy: true, frames_after_end };
    let mut sequence = network.start(&network.prefix(voice), tokens, options).unwrap();
    let (mut latents, mut logits) = (Vec::new(), Vec::new());
    loop {
        let mut step = thread_pool::run(|pool| network.step(pool, &mut [&mut sequence])).unwrap();
        let latent = step.remove(0);
        latents.extend(latent.values);
        logits.push(latent.end_logit);
        if latent.is_last {
            return (latents, logits);
        }
    }
}

#[test]
fn hidden_states_latents_and_ends_are_those_of_the_published_class() {
    for name in MODELS {
        let (dir, oracle) = (fixture(name), Oracle::open(&fixture(name)));
        let network = Network::load(&dir, Precision::F32).unwrap();
        let (_, tokens, after) = facts(&oracle);
        for voice in VOICES {
            let what = format!("{name} {voice}");
            let prompt = numbers::<3>(&oracle, &format!("{voice}_voice"));
            assert_close(
                &what,
                &network.hidden(&prompt, &tokens),
                &numbers::<3>(&oracle, &format!("{voice}_hidden")),
                2e-5,
            );
            let (latents, logits) = generate(&network, &prompt, &tokens, after);
            assert_close(&what, &logits, &numbers::<1>(&oracle, &format!("{voice}_logits")), 1e-4);
            assert_close(&what, &latents, &numbers::<3>(&oracle, &format!("{voice}_latents")), 1e-4);
        }
    }
}

#[test]
fn the_flow_head_brings_noise_to_latents_in_any_number_of_steps() {
    for name in MODELS {
        let oracle = Oracle::open(&fixture(name));
        let (noise, conditions) = (numbers::<2>(&oracle, "flow_noise"), numbers::<2>(&oracle, "flow_conditions"));
        for steps in [1, 3] {
            let dir = with_settings(&fixture(name), "generation_config.json", |settings| {
                settings["num_flow_steps"] = steps.into();
            });
            let network = Network::load(dir.path(), Precision::F32).unwrap();
            let expected = numbers::<2>(&oracle, &format!("flow_{steps}"));
            assert_close(&format!("{name}, {steps} steps"), &network.sample(&conditions, &noise), &expected, 1e-5);
        }
    }
}

/// Samples of latents that come in chunks of `count`.
pub(crate) fn decoded(codec: &Codec, latents: &[f32], count: usize) -> Vec<f32> {
    let mut state = codec.start();
    let chunks = latents.chunks(count * codec.config().latent);
    thread_pool::run(|pool| {
        chunks.flat_map(|chunk| codec.forward(pool, &[chunk], &mut [&mut state]).remove(0)).collect()
    })
}

#[test]
fn the_decoder_gives_the_samples_of_the_published_class() {
    let oracle = Oracle::open(&fixture("pocket"));
    let codec = Codec::load(&fixture("pocket").join("audio_tokenizer")).unwrap();
    let latents = numbers::<3>(&oracle, "codec_latents");
    let (samples, stages) =
        thread_pool::run(|pool| codec.forward_in_stages(pool, &[&latents], &mut [&mut codec.start()]));
    assert_close("upsampled", &stages.upsampled, &numbers::<3>(&oracle, "codec_upsampled"), 1e-5);
    assert_close("transformed", &stages.transformed, &numbers::<3>(&oracle, "codec_transformed"), 1e-5);
    assert_close("samples", &samples[0], &numbers::<3>(&oracle, "codec_samples"), 5e-5);
}

#[test]
fn the_encoder_gives_the_latents_of_the_published_class() {
    let oracle = Oracle::open(&fixture("pocket"));
    let encoder = Encoder::load(&fixture("pocket").join("audio_tokenizer")).unwrap();
    let mut prompt = ending_on_pause(&numbers::<1>(&oracle, "clip"), encoder.sample_rate());
    let expected = numbers::<1>(&oracle, "clip_prompt");
    assert!(expected.len() - prompt.len() < 1_920, "the published class pads to a latent");
    let padding = vec![0.0; expected.len() - prompt.len()];
    assert_close("prompt", &[prompt.clone(), padding].concat(), &expected, 1e-6);
    let (latents, stages) = thread_pool::run(|pool| encoder.forward_in_stages(pool, &prompt));
    assert_close("convolved", &stages.convolved, &numbers::<3>(&oracle, "clip_convolved"), 2e-5);
    assert_close("transformed", &stages.transformed, &numbers::<3>(&oracle, "clip_transformed"), 2e-5);
    assert_close("latents", &latents, &numbers::<3>(&oracle, "clip_latents"), 5e-5);
    // A chunk is encoded as the part of the whole that it is.
    prompt.extend_from_within(..);
    let whole = thread_pool::run(|pool| encoder.forward_in_stages(pool, &prompt).0);
    assert_eq!(thread_pool::run(|pool| encoder.forward(pool, &prompt)), whole);
}

#[test]
fn an_audio_tokenizer_without_an_encoder_makes_no_voice() {
    let dir = with_config(&fixture("pocket").join("audio_tokenizer"), |_| ());
    without_tensors(&dir.path().join("model.safetensors"), "encoder.");
    assert!(Codec::load(dir.path()).is_ok());
    let found = Encoder::load(dir.path()).unwrap_err().to_string();
    assert!(found.contains("it has no encoder"), "{found}");
}

#[test]
fn latents_by_latent_sound_like_the_whole_to_the_last_bit() {
    let oracle = Oracle::open(&fixture("pocket"));
    let codec = Codec::load(&fixture("pocket").join("audio_tokenizer")).unwrap();
    let latents = [numbers::<3>(&oracle, "bob_latents"), numbers::<3>(&oracle, "codec_latents")].concat();
    let whole = decoded(&codec, &latents, latents.len());
    for count in [1, 2, 3, 5] {
        assert_eq!(decoded(&codec, &latents, count), whole, "by {count}");
    }
}

#[test]
fn speech_is_that_of_the_published_classes_alone_and_beside_others() {
    let (dir, oracle) = (fixture("pocket"), Oracle::open(&fixture("pocket")));
    let model = PocketTts::load(&dir, &Device::flex(), Precision::F32).unwrap();
    let (text, tokens, after) = facts(&oracle);
    let prepared = model.tokens(&text).unwrap().unwrap();
    assert_eq!((prepared.tokens.clone(), prepared.frames_after_end), (tokens, after));
    assert_eq!(model.voices().collect::<Vec<_>>(), VOICES);
    let start = |voice, seed, greedy| {
        let options = SequenceOptions { seed, greedy, frames_after_end: after };
        model.start(voice, &prepared.tokens, options).unwrap()
    };
    let alone = |voice, seed, greedy| {
        let (mut utterance, mut samples) = (start(voice, seed, greedy), Vec::new());
        loop {
            let frame = model.step(&mut [&mut utterance]).unwrap().remove(0);
            samples.extend(frame.samples);
            if frame.is_last {
                return samples;
            }
        }
    };
    let bob = alone(1, 0, true);
    assert_close("bob", &bob, &numbers::<3>(&oracle, "bob_samples"), 1e-3);
    // Noise is drawn from the seed, and speech ends by itself.
    assert_eq!(alone(0, 7, false), alone(0, 7, false));
    assert_ne!(alone(0, 7, false), alone(0, 8, false));
    // Two utterances share steps; the second begins later.
    let (mut first, mut second) = (start(1, 0, true), start(0, 7, false));
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..2 {
        samples[0].extend(model.step(&mut [&mut first]).unwrap().remove(0).samples);
    }
    for _ in 0..3 {
        let frames = model.step(&mut [&mut first, &mut second]).unwrap();
        samples.iter_mut().zip(frames).for_each(|(samples, frame)| samples.extend(frame.samples));
    }
    assert_eq!(samples[0], bob[..samples[0].len()]);
    assert_eq!(samples[1], alone(0, 7, false)[..samples[1].len()]);
}

/// A copy of a folder with one of its files of settings changed.
pub(crate) fn with_settings(dir: &Path, file: &str, change: impl FnOnce(&mut Value)) -> TempDir {
    let copy = with_config(dir, |_| ());
    let path = copy.path().join(file);
    let mut settings = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut settings);
    fs::write(&path, settings.to_string()).unwrap();
    copy
}

/// A change of the settings, and what the error says.
type Refused = (fn(&mut Value), &'static str);

#[test]
fn a_network_of_another_shape_is_refused_by_name() {
    let error = |change: fn(&mut Value)| {
        let dir = with_config(&fixture("pocket"), change);
        Network::load(dir.path(), Precision::F32).unwrap_err().to_string()
    };
    let cases: [Refused; 8] = [
        (|config| config["model_type"] = "bert".into(), "neither pocket_tts nor gradium_phonon_tts"),
        (|config| config["intermediate_size"] = 50.into(), "model.layers.0.mlp.fc1.weight"),
        (|config| config["num_hidden_layers"] = 1.into(), "model.layers.1"),
        (|config| config["num_key_value_heads"] = 2.into(), "fewer heads of keys"),
        (|config| config["hidden_act"] = "relu".into(), "relu"),
        (|config| config["rope_parameters"]["rope_type"] = "yarn".into(), "yarn"),
        (|config| config["flow_head_config"]["flow_type"] = "other".into(), "other"),
        (|config| config["audio_bos_token_id"] = 9_999.into(), "outside the vocabulary"),
    ];
    for (change, expected) in cases {
        let found = error(change);
        assert!(found.contains(expected), "{found}, not {expected}");
    }
    let steps = with_settings(&fixture("pocket"), "generation_config.json", |settings| {
        settings["num_flow_steps"] = 0.into();
    });
    let found = Network::load(steps.path(), Precision::F32).unwrap_err().to_string();
    assert!(found.contains("num_flow_steps"), "{found}");
    let phonon = with_config(&fixture("phonon"), |config| config["num_speakers"] = 9.into());
    let found = Network::load(phonon.path(), Precision::F32).unwrap_err().to_string();
    assert!(found.contains("num_speakers"), "{found}");
}

#[test]
fn an_audio_tokenizer_of_another_shape_is_refused_by_name() {
    let error = |change: fn(&mut Value)| {
        let dir = with_config(&fixture("pocket").join("audio_tokenizer"), change);
        Codec::load(dir.path()).unwrap_err().to_string()
    };
    let cases: [Refused; 6] = [
        (|config| config["model_type"] = "mimi".into(), "pocket_tts_audio_tokenizer"),
        (|config| config["use_causal_conv"] = false.into(), "use_causal_conv"),
        (|config| config["upsampling_ratios"] = serde_json::json!([6, 5]), "decoder.decoder_seanet"),
        (|config| config["latent_stride"] = 8.into(), "decoder.upsample.conv.weight"),
        (|config| config["sampling_rate"] = 1.into(), "sampling_rate"),
        (|config| config["upsampling_ratios"] = serde_json::json!([600, 500, 400]), "at most 65536"),
    ];
    for (change, expected) in cases {
        let found = error(change);
        assert!(found.contains(expected), "{found}, not {expected}");
    }
}
