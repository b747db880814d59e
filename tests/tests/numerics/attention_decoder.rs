//! Cohere Transcribe and Canary against the published classes: tiny checkpoints and the numbers that `transformers` computes with
//! them, stage by stage and token by token, on the CPU and on a Vulkan adapter.

use std::path::Path;

use auricle_engine::unstable::decoding::{Search, Token};
use auricle_engine::unstable::models::fastconformer::{Config, FastConformer};
use auricle_engine::unstable::models::whisper::{DecoderState, token_times};
use auricle_engine::{Error, Precision};
use auricle_tests::{Oracle, devices, relative_error, with_json};
use burn::tensor::{Device, Tensor, TensorData};
use serde_json::{Value, json};

use crate::fastconformer::{Case, check, check_stages, fixture, numbers};

const NAMES: [&str; 2] = ["cohere", "canary"];
/// Tolerance of the whole network, f32.
const WHOLE: f32 = 1e-4;

/// The projected frames of the first utterance alone.
fn first_frames(case: &Case) -> Tensor<3> {
    let features = case.utterance(0);
    let length = features.dims()[1];
    let (frames, _) = case.model.encoder().forward(features, &[length]).unwrap();
    case.model.head_input(frames, 0)
}

/// Scores after the prompt and after each token, `[1, tokens + 1, vocabulary]`, and the attention at each, `[tokens + 1, heads, frames]`.
fn teacher_forced(case: &Case) -> (Tensor<3>, Vec<f32>) {
    let run = &case.oracle.facts["runs"][0]["utterances"][0];
    let [prompt, tokens] =
        ["prompt", "tokens"].map(|name| numbers(&run[name]).into_iter().map(|id| id as u32).collect::<Vec<u32>>());
    let (frames, decoder) = (first_frames(case), case.model.attention().unwrap().decoder());
    let mut steps: DecoderState = decoder.start(&frames).unwrap();
    let (mut scores, mut weights) = (Vec::new(), Vec::new());
    for next in std::iter::once(prompt.clone()).chain(tokens.iter().map(|token| vec![*token])) {
        let output = decoder.forward(&mut steps, &[next]).unwrap();
        weights.extend(output.weights.into_iter().flatten());
        scores.extend(output.scores.read().unwrap());
    }
    if weights.is_empty() {
        let all = [prompt.as_slice(), &tokens].concat();
        weights = decoder.look_back(&steps, 0, &all, prompt.len(), frames.dims()[1]).unwrap();
    }
    let count = tokens.len() + 1;
    let shape = [1, count, scores.len() / count];
    (Tensor::from_data(TensorData::new(scores, shape), &Device::flex()), weights)
}

fn ids(tokens: &[Token]) -> Vec<usize> {
    tokens.iter().map(|token| token.id as usize).collect()
}

/// Tokens and text of each utterance, in each language and translated, alone and in a batch.
fn check_texts(case: &Case) {
    let (features, lengths) = (case.tensor::<3>("features"), case.oracle.integers("feature_lengths"));
    let prompts = case.model.attention().unwrap().prompts();
    for run in case.oracle.facts["runs"].as_array().unwrap() {
        let [source, target] = ["source", "target"].map(|name| run[name].as_str().unwrap());
        let what = format!("{source} to {target}");
        let slot = case.model.language_slot(Some(source), source != target).unwrap();
        let references = run["utterances"].as_array().unwrap();
        assert_eq!(
            prompts.tokens(slot).iter().map(|id| *id as usize).collect::<Vec<_>>(),
            numbers(&references[0]["prompt"])
        );
        let searches = vec![Search::Greedy(None); lengths.len()];
        let encoded = case.model.encode_utterances(features.clone(), &lengths, slot).unwrap();
        let together = case.model.search_utterances(&encoded, &searches).unwrap();
        for (row, reference) in references.iter().enumerate() {
            assert!(reference["ended"].as_bool().unwrap());
            let one = case.model.encode_utterances(case.utterance(row), &lengths[row..=row], slot).unwrap();
            let alone = case.model.search_utterances(&one, &searches[..1]).unwrap().remove(0);
            assert_eq!(ids(&alone), numbers(&reference["tokens"]), "{what}, row {row}");
            assert_eq!(ids(&together[row]), ids(&alone), "{what}, row {row} of the batch");
            let spoken = case.model.vocabulary().words(&alone, case.model.frame_ms(), u64::MAX);
            assert_eq!(spoken.text, reference["text"].as_str().unwrap(), "{what}, text of row {row}");
            assert!(alone.iter().all(|token| (0.0..=1.0).contains(&token.confidence) && token.span > 0));
            assert!(alone.windows(2).all(|pair| pair[0].frame <= pair[1].frame), "{what}: times go back");
        }
    }
}

#[test]
fn cohere_and_canary_equal_the_published_classes() {
    for (device, on_cpu) in devices() {
        for name in NAMES {
            let case = Case::open(name, &device, on_cpu);
            check_stages(&case);
            let (scores, weights) = teacher_forced(&case);
            let logits: Tensor<2> = case.oracle.tensor("logits", &Device::flex());
            let count = logits.dims()[0];
            check(&format!("{name}: scores"), relative_error(scores, logits.unsqueeze(), &[count]), WHOLE);
            let attention: Tensor<3> = case.oracle.tensor("attention", &Device::flex());
            let [rows, heads, frames] = attention.dims();
            let ours = Tensor::from_data(TensorData::new(weights.clone(), [rows, heads, frames]), &Device::flex());
            check(&format!("{name}: attention"), relative_error(ours, attention.clone(), &vec![heads; rows]), WHOLE);
            let times = token_times(&Oracle::values(attention), rows, heads, frames, 3);
            let slot = case.model.language_slot(case.oracle.facts["runs"][0]["source"].as_str(), false).unwrap();
            let lengths = case.oracle.integers("feature_lengths");
            let encoded = case.model.encode_utterances(case.utterance(0), &lengths[..1], slot).unwrap();
            let found = case.model.search_utterances(&encoded, &[Search::Greedy(None)]).unwrap().remove(0);
            let frames: Vec<usize> = found.iter().map(|token| token.frame).collect();
            assert_eq!(frames, times[..rows - 1], "{name}: frames of the tokens");
            check_texts(&case);
        }
    }
}

/// Weights of 8 bits, on all devices: close to f32, and not equal.
#[test]
fn an_eight_bit_decoder_is_close_to_full_precision() {
    for (device, on_cpu) in devices() {
        for name in NAMES {
            let full = Case::open(name, &device, on_cpu);
            let model = FastConformer::load_with(&fixture(name), &device, Precision::Int8).unwrap();
            let less = Case { model, ..Case::open(name, &device, on_cpu) };
            let ((full, _), (less, _)) = (teacher_forced(&full), teacher_forced(&less));
            let count = full.dims()[1];
            let off = relative_error(less, full, &[count]);
            assert!(off > 1e-5 && off < 0.05, "{name}: {off}");
        }
    }
}

fn edited(name: &str, file: &str, edit: impl Fn(&mut Value)) -> tempfile::TempDir {
    with_json(&fixture(name), file, edit)
}

fn fault(dir: &Path) -> String {
    match FastConformer::load(dir, &Device::flex()) {
        Ok(_) => panic!("{} loads", dir.display()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_setting_that_changes_the_text_is_refused_by_name() {
    let config = |name: &str, key: &str, value: Value| {
        edited(name, "config.json", |json| match name {
            "canary" => json["decoder_config"][key] = value.clone(),
            _ => json[key] = value.clone(),
        })
    };
    for name in NAMES {
        for (key, value) in [
            ("hidden_act", json!("gelu")),
            ("attention_bias", json!(false)),
            ("num_key_value_heads", json!(1)),
            ("head_dim", json!(4)),
            ("num_attention_heads", json!(5)),
            ("max_position_embeddings", json!(8)),
            ("num_hidden_layers", json!("two")),
        ] {
            let found = fault(config(name, key, value).path());
            let named = if key == "num_hidden_layers" { "config.json" } else { key };
            assert!(found.contains(named), "{name}, {key}: {found}");
        }
        for (key, value) in
            [("suppress_tokens", json!([1])), ("num_beams", json!(4)), ("eos_token_id", json!(1_000_000))]
        {
            let found = fault(edited(name, "generation_config.json", |json| json[key] = value.clone()).path());
            assert!(found.contains(key), "{name}, {key}: {found}");
        }
        let encoder = edited(name, "config.json", |json| json["encoder_config"] = json!(1));
        assert!(fault(encoder.path()).contains("encoder_config"));
        let more = edited(name, "config.json", |json| match name {
            "canary" => json["decoder_config"]["num_hidden_layers"] = json!(9),
            _ => json["num_hidden_layers"] = json!(9),
        });
        let found = fault(more.path());
        assert!(found.contains("decoder.layers.") && found.contains("missing"), "{found}");
        let fewer = edited(name, "config.json", |json| match name {
            "canary" => json["decoder_config"]["num_hidden_layers"] = json!(1),
            _ => json["num_hidden_layers"] = json!(1),
        });
        let found = fault(fewer.path());
        assert!(found.contains("decoder.layers.1."), "{found}");
        let without = edited(name, "tokenizer.json", |json| {
            let text = json.to_string().replace("<|nodiarize|>", "<|other|>");
            *json = serde_json::from_str(&text).unwrap();
        });
        let found = fault(without.path());
        assert!(found.contains("tokenizer.json") && found.contains("<|nodiarize|>"), "{found}");
    }
}

/// Cohere's published `config.json` may lack what the class's defaults state.
#[test]
fn the_defaults_are_those_of_the_published_checkpoints() {
    let of = |config: Value| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        Config::read(dir.path()).unwrap()
    };
    for (name, size, layers, inner) in [("cohere_asr", 1280, 48, 5120), ("canary", 1024, 32, 4096)] {
        let config = of(json!({"model_type": name}));
        let (encoder, decoder) = (config.encoder, config.attention.unwrap());
        assert_eq!((encoder.hidden_size, encoder.num_hidden_layers, encoder.intermediate_size), (size, layers, inner));
        assert_eq!((encoder.num_mel_bins, encoder.scale_input, config.vocab_size), (128, false, 16_384));
        assert_eq!((decoder.size, decoder.layers, decoder.heads, decoder.inner), (1024, 8, 8, 4096));
        assert_eq!((decoder.positions, decoder.end), (1024, 3));
        assert_eq!(decoder.tied, name == "canary");
    }
}

#[test]
fn languages_are_named_and_translation_is_canarys() {
    let load = |name: &str| FastConformer::load(&fixture(name), &Device::flex()).unwrap();
    let (cohere, canary) = (load("cohere"), load("canary"));
    for model in [&cohere, &canary] {
        assert_eq!(model.language_slot(Some("en-US"), false).unwrap(), model.language_slot(Some("en"), false).unwrap());
        assert!(matches!(model.language_slot(None, false), Err(Error::Language(why)) if why.contains("en")));
        assert!(matches!(model.language_slot(Some("ko"), false), Err(Error::Language(why)) if why.contains("ko")));
    }
    assert!(matches!(cohere.language_slot(Some("de"), true), Err(Error::InvalidOption(_))));
    assert!(canary.language_slot(Some("fr"), true).is_ok());
}
