//! Qwen3-ASR against `transformers`: every stage, prompts, tokens one by one and in batches, and folders that do not fit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use auricle_engine::unstable::models::decoder::{Embedded, PageList, Piece};
use auricle_engine::unstable::models::qwen3_asr::{Aligner, DecodingBatch, Prompt, Qwen3Asr, Written};
use auricle_kernels::attention::paged::cpu::PagePrecision;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::product::int8::cpu::Int8Matrix;
use auricle_tests::{Oracle, devices, with_json};
use burn::tensor::{Device, Tensor};
use serde_json::{Value, json};

use crate::decoder::{error, integers, likeliest};

const NAMES: [&str; 2] = ["spoken", "tied"];
const KV_BYTES: usize = 64 << 20;

fn fixture(name: &str) -> PathBuf {
    auricle_tests::fixtures().join("qwen3_asr").join(name)
}

fn clip(oracle: &Oracle, number: usize) -> Vec<f32> {
    Oracle::values(oracle.tensor::<1>(&format!("{number}_audio"), &Device::flex()))
}

fn runs(oracle: &Oracle) -> Vec<Value> {
    oracle.facts["runs"].as_array().unwrap().clone()
}

/// The prompt of a run of the oracle.
fn prompt_of(model: &Qwen3Asr, run: &Value) -> Prompt {
    let language = run["language"].as_str().map(|_| "de");
    let context = run["context"].as_str().unwrap_or_default();
    model.prompts().prompt(model.decoder().tokenizer(), context, language.as_slice()).unwrap()
}

/// All tokens of a prompt around so many frames of audio.
fn prompt_tokens(model: &Qwen3Asr, prompt: &Prompt, frames: usize) -> Vec<u32> {
    [prompt.before.as_slice(), &vec![model.config().audio_token; frames], &prompt.after].concat()
}

/// Scores after the prompt of a run and after each of these tokens, in 32 bits.
fn scores(model: &Qwen3Asr, audio: &Embedded, prompt: &[u32], tokens: &[u32]) -> Vec<Vec<f32>> {
    let decoder = model.decoder();
    let (mut arena, mut pages) = (decoder.arena_of(PagePrecision::F32, KV_BYTES), PageList::default());
    assert!(arena.extend(&mut pages, prompt.len() + tokens.len()));
    // The audio lies in two pieces.
    let (first, rest) = prompt.split_at(prompt.len() / 2);
    let mut compute = |tokens: &[u32], position: usize, scores: bool| {
        let piece = Piece { tokens, position, pages: &pages, embedded: Some(audio), scores };
        decoder.forward(&mut arena, &[piece]).unwrap()
    };
    assert!(compute(first, 0, false).is_empty());
    let mut found = vec![compute(rest, first.len(), true)];
    for (at, token) in tokens.iter().enumerate() {
        found.push(compute(&[*token], prompt.len() + at, true));
    }
    found
}

fn check(what: &str, ours: Tensor<2>, oracle: &Oracle, name: &str, on_cpu: bool) {
    let theirs: Tensor<2> = oracle.tensor(name, &Device::flex());
    assert_eq!(ours.dims(), theirs.dims(), "{what}, {name}");
    let off = error(&Oracle::values(ours), &Oracle::values(theirs));
    assert!(off < if on_cpu { 2e-5 } else { 2e-4 }, "{what}, {name}: {off:e}");
}

#[test]
fn stages_and_tokens_are_those_of_the_published_class() {
    for (device, on_cpu) in devices() {
        for name in NAMES {
            let (oracle, model) = (Oracle::open(&fixture(name)), Qwen3Asr::load(&fixture(name), &device).unwrap());
            let encoder = model.encoder();
            for number in [0, 3] {
                let features = model.features(&clip(&oracle, number)).unwrap();
                let compare = |ours, stage: &str| check(name, ours, &oracle, &format!("{number}_{stage}"), on_cpu);
                compare(features.clone(), "features");
                let embedded = encoder.embed(features.clone());
                compare(embedded.clone(), "embedded");
                compare(encoder.run(embedded, 0..1), "layer0");
                let encoded = encoder.forward(features);
                compare(encoded.clone(), "encoder");
                compare(encoder.project(encoded), "projected");
            }
            for run in runs(&oracle) {
                let number = run["clip"].as_u64().unwrap() as usize;
                let vectors = model.encode(&clip(&oracle, number)).unwrap();
                let theirs: Tensor<2> = oracle.tensor(&format!("{number}_projected"), &Device::flex());
                let [frames, _] = theirs.dims();
                let off = error(&vectors, &Oracle::values(theirs));
                assert!(off < 2e-4, "{name}, clip {number}: {off:e}");
                let prompt = prompt_of(&model, &run);
                let (expected, tokens) = (integers(&run["prompt"]), integers(&run["tokens"]));
                assert_eq!(prompt_tokens(&model, &prompt, frames), expected, "{name}: {run}");
                let audio = Embedded { first: prompt.before.len(), vectors };
                let scores = scores(&model, &audio, &expected, &tokens);
                for (at, (scores, token)) in scores.iter().zip(&tokens).enumerate() {
                    assert_eq!(likeliest(scores), *token, "{name}, token {at}: {run}");
                }
                let last = likeliest(scores.last().unwrap());
                assert!(model.decoder().is_end(last) || run["ended"] == false, "{name}: {run}");
                if number == 0 && run["context"].is_null() && run["language"].is_null() {
                    let theirs = Oracle::values(oracle.tensor::<2>("logits", &Device::flex()));
                    let ours = scores.concat()[..theirs.len()].to_vec();
                    let off = error(&ours, &theirs);
                    assert!(off < if on_cpu { 1e-4 } else { 1e-3 }, "{name}: scores {off:e}");
                }
            }
        }
    }
}

/// Writes all windows of these prompts as one batch, the second half of which begins later.
fn write(model: &Qwen3Asr, windows: &[(Arc<Prompt>, Vec<f32>)]) -> Vec<Written> {
    let mut batch = DecodingBatch::new(model, KV_BYTES);
    let mut found: Vec<Option<Written>> = windows.iter().map(|_| None).collect();
    let (mut steps, mut begun) = (0, 0);
    while begun < windows.len() || !batch.is_empty() {
        while begun < windows.len() && (begun < windows.len().div_ceil(2) || steps > 2 || batch.is_empty()) {
            let (prompt, frames) = &windows[begun];
            batch.add(model, (7, begun), prompt.clone(), frames.clone());
            begun += 1;
        }
        for ((_, number), written) in batch.step(model, &[7]).unwrap() {
            found[number] = Some(written.unwrap());
        }
        steps += 1;
    }
    found.into_iter().map(Option::unwrap).collect()
}

fn code(name: &Value) -> Option<&'static str> {
    [("English", "en"), ("German", "de"), ("Finnish", "fi")].into_iter().find(|(known, _)| name == known).map(|it| it.1)
}

#[test]
fn a_batch_writes_what_each_window_has_alone_with_its_language() {
    for (device, _) in devices() {
        let (oracle, model) = (Oracle::open(&fixture("spoken")), Qwen3Asr::load(&fixture("spoken"), &device).unwrap());
        let runs = runs(&oracle);
        let windows: Vec<(Arc<Prompt>, Vec<f32>)> = runs
            .iter()
            .map(|run| {
                let samples = clip(&oracle, run["clip"].as_u64().unwrap() as usize);
                (Arc::new(prompt_of(&model, run)), model.encode(&samples).unwrap())
            })
            .collect();
        let (mut languages, mut equal) = (Vec::new(), 0);
        for ((run, window), written) in runs.iter().zip(&windows).zip(write(&model, &windows)) {
            assert_eq!(written.tokens, write(&model, std::slice::from_ref(window))[0].tokens, "{run}: alone");
            let (tokens, is_named) = (integers(&run["tokens"]), !run["language"].is_null());
            let begin = if is_named { 0 } else { 3 };
            let expected = &tokens[begin..];
            // Texts that the oracle breaks off go on here, and keys and values may have 16 bits.
            let known = expected.len().min(written.tokens.len());
            equal += usize::from(match run["ended"] == true {
                true => written.tokens == expected,
                false => known > 0 && written.tokens[..known] == expected[..known],
            });
            assert_eq!(written.language, if is_named { Some("de") } else { code(&run["found"]) }, "{run}");
            assert_eq!(written.confidences.len(), written.tokens.len());
            languages.push(written.language);
        }
        assert!(equal >= 9, "{equal} of {} texts", runs.len());
        assert!(languages.contains(&Some("en")) && languages.contains(&Some("de")), "{languages:?}");
    }
}

#[test]
fn a_language_is_chosen_among_those_that_are_named() {
    let (oracle, model) =
        (Oracle::open(&fixture("spoken")), Qwen3Asr::load(&fixture("spoken"), &Device::flex()).unwrap());
    let window = |number: usize, languages: &[&str]| {
        let prompt = model.prompts().prompt(model.decoder().tokenizer(), "", languages).unwrap();
        (Arc::new(prompt), model.encode(&clip(&oracle, number)).unwrap())
    };
    let free = write(&model, &[window(0, &[])]).remove(0);
    let other = ["en", "de", "fi"].into_iter().find(|code| Some(*code) != free.language).unwrap();
    // French is never what the class finds here, and may be what it has to choose.
    let chosen = write(&model, &[window(0, &["en", "de", "fi"]), window(0, &[other, "fr"])]);
    assert_eq!(chosen[0], free, "the language that it finds is among them");
    assert!([Some(other), Some("fr")].contains(&chosen[1].language), "{:?}", chosen[1]);
    let named = write(&model, &[window(0, chosen[1].language.as_slice())]);
    assert_eq!(chosen[1], named[0]);
    let refused = model.prompts().prompt(model.decoder().tokenizer(), "", &["en", "tlh"]).unwrap_err().to_string();
    assert!(refused.contains("tlh") && refused.contains("yue"), "{refused}");
    // Marks in a context are text.
    let prompt = model.prompts().prompt(model.decoder().tokenizer(), "<|im_end|> <|audio_pad|>", &[]).unwrap();
    assert!(!prompt.before[3..].contains(&model.config().audio_token), "{:?}", prompt.before);
}

#[test]
fn the_aligner_gives_the_times_of_the_published_class() {
    for (device, on_cpu) in devices() {
        let oracle = Oracle::open(&fixture("aligner"));
        let aligner = Aligner::load(&fixture("aligner"), &device, Precision::F32).unwrap();
        let model = aligner.model();
        let mut arena = model.decoder.arena_of(PagePrecision::F32, KV_BYTES);
        for (number, run) in runs(&oracle).iter().enumerate() {
            let samples = clip(&oracle, number);
            let words: Vec<String> =
                run["words"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().into()).collect();
            let (before, parts) = aligner.prompt(&words).unwrap();
            let frames = model.encode(&samples).unwrap().len() / model.decoder.config().size;
            let audio = vec![model.config.audio_token; frames];
            assert_eq!([before, audio, parts.concat()].concat(), integers(&run["prompt"]), "{run}");
            let (classes, scores) = aligner.classes(&mut arena, &samples, &words).unwrap();
            let theirs = Oracle::values(oracle.tensor::<2>(&format!("{number}_logits"), &Device::flex()));
            let off = error(&scores, &theirs);
            assert!(off < if on_cpu { 1e-4 } else { 1e-3 }, "clip {number}: {off:e}");
            assert_eq!(classes.iter().map(|class| *class as u32).collect::<Vec<_>>(), integers(&run["classes"]));
            // Marks around a word change nothing, and one by itself has no time.
            let written: Vec<String> = words.iter().map(|word| format!(" \"{word}, ")).collect();
            let written: Vec<&str> = written.iter().map(String::as_str).chain(["—"]).collect();
            let times = aligner.align(&mut arena, &samples, &written).unwrap();
            assert_eq!(times.last(), Some(&None));
            let found = times.into_iter().flatten();
            let (starts, ends): (Vec<u32>, Vec<u32>) = found.map(|time| (time.start as u32, time.end as u32)).unzip();
            assert_eq!((starts, ends), (integers(&run["starts_ms"]), integers(&run["ends_ms"])), "{run}");
        }
        assert_eq!(arena.held(), 0);
    }
}

/// Weights of 8 bits on the CPU: close to full precision, and not equal. Layers of random weights add their errors up, to 0.11.
#[test]
fn eight_bits_stay_near() {
    for name in NAMES {
        let oracle = Oracle::open(&fixture(name));
        let load = |precision| Qwen3Asr::load_with(&fixture(name), &Device::flex(), precision).unwrap();
        let [exact, rounded] = [load(Precision::F32), load(Precision::Int8)].map(|model| {
            let run = &runs(&oracle)[0];
            let audio = Embedded {
                first: prompt_of(&model, run).before.len(),
                vectors: Oracle::values(oracle.tensor::<2>("0_projected", &Device::flex())),
            };
            let encoded = model.encode(&clip(&oracle, 0)).unwrap();
            (scores(&model, &audio, &integers(&run["prompt"]), &integers(&run["tokens"])).concat(), encoded)
        });
        let (scores, encoded) = (error(&rounded.0, &exact.0), error(&rounded.1, &exact.1));
        assert!(scores > 1e-5 && scores < 0.15, "{name}: {scores:e}");
        // A processor without the instruction keeps 32 bits in the encoder.
        let is_rounded = encoded > 1e-5 || !Int8Matrix::is_fast();
        assert!(is_rounded && encoded < 0.15, "{name}: {encoded:e}");
    }
}

fn fault(dir: &Path) -> String {
    match Qwen3Asr::load(dir, &Device::flex()) {
        Ok(_) => panic!("{} loads", dir.display()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_folder_that_does_not_fit_is_refused_by_name() {
    let with = |file: &str, change: &dyn Fn(&mut Value), because: &[&str]| {
        let found = fault(with_json(&fixture("spoken"), file, change).path());
        assert!(because.iter().all(|part| found.contains(part)), "{found}; expected: {because:?}");
    };
    let audio = |key: &str, value: Value, because: &str| {
        with("config.json", &|config| config["audio_config"][key] = value.clone(), &["config.json", because]);
    };
    audio("activation_function", json!("relu"), "activation_function");
    audio("n_window", json!(40), "n_window");
    audio("max_position_embeddings", json!(12), "max_position_embeddings");
    audio("n_window_infer", json!(150), "n_window_infer");
    audio("n_window_infer", json!(0), "n_window_infer");
    audio("d_model", json!(0), "d_model");
    audio("encoder_attention_heads", json!(5), "encoder_attention_heads");
    audio("output_dim", json!(32), "output_dim 32 is not hidden_size 64");
    audio("encoder_layers", json!("two"), "invalid type");
    let tensor = |key: &str, value: Value, because: &str| {
        with("config.json", &|config| config["audio_config"][key] = value.clone(), &[because]);
    };
    tensor("encoder_layers", json!(3), "model.audio_tower.layers.2.");
    tensor("encoder_layers", json!(1), "model.audio_tower.layers.1.");
    tensor("downsample_hidden_size", json!(6), "conv2d1.weight");
    with("config.json", &|config| config["text_config"]["num_hidden_layers"] = json!(3), &["model.layers.2."]);
    with("config.json", &|config| config["text_config"]["model_type"] = json!("llama"), &["config.json", "llama"]);
    with("config.json", &|config| config["text_config"] = Value::Null, &["config.json", "text_config"]);
    let untied = with_json(&fixture("tied"), "config.json", |config| config["tie_word_embeddings"] = json!(false));
    assert!(fault(untied.path()).contains("lm_head.weight"));
    with("config.json", &|config| config["audio_token_id"] = json!(3), &["tokenizer.json", "audio_token_id"]);
    with("config.json", &|config| config["audio_token_id"] = json!(1_000_000), &["audio_token_id", "vocabulary"]);
    with("config.json", &|config| config["eos_token_id"] = json!([1_000_000]), &["end token 1000000"]);
    with("config.json", &|config| config["thinker_config"] = json!({}), &["config.json", "-hf"]);
    // A tokenizer of another size.
    with("config.json", &|config| config["text_config"]["vocab_size"] = json!(400), &["vocabulary of 400"]);
    with(
        "tokenizer.json",
        &|file| {
            let added = file["added_tokens"].as_array().unwrap().iter();
            file["added_tokens"] = added.filter(|token| token["content"] != "<asr_text>").cloned().collect();
        },
        &["tokenizer.json", "<asr_text>"],
    );
    with("tokenizer.json", &|file| file["model"]["type"] = json!("WordPiece"), &["tokenizer.json", "byte-level"]);
    for (key, value) in [("n_fft", json!(512)), ("feature_size", json!(80)), ("dither", json!(0.1))] {
        let change = |file: &mut Value| file["feature_extractor"][key] = value.clone();
        with("processor_config.json", &change, &["processor_config.json", key]);
    }
    with("generation_config.json", &|file| file["eos_token_id"] = json!("end"), &["generation_config.json"]);
    let aligner = |file: &str, change: &dyn Fn(&mut Value)| {
        let found = Aligner::load(with_json(&fixture("aligner"), file, change).path(), &Device::flex(), Precision::F32);
        found.err().unwrap().to_string()
    };
    let found = aligner("processor_config.json", &|file| file["timestamp_segment_time"] = json!("long"));
    assert!(found.contains("processor_config.json") && found.contains("timestamp_segment_time"), "{found}");
    let found = aligner("tokenizer.json", &|file| {
        let text = file.to_string().replace("<timestamp>", "<other>");
        *file = serde_json::from_str(&text).unwrap();
    });
    assert!(found.contains("tokenizer.json") && found.contains("<timestamp>"), "{found}");
    assert!(fault(&fixture("aligner")).contains("score.weight"), "an aligner writes no text");
    let found = Aligner::load(&fixture("tied"), &Device::flex(), Precision::F32).err().unwrap().to_string();
    assert!(found.contains("score.weight"), "{found}");
    for file in ["config.json", "tokenizer.json", "model.safetensors", "processor_config.json"] {
        let dir = with_json(&fixture("spoken"), "config.json", |_| {});
        std::fs::write(dir.path().join(file), b"{\"cut").unwrap();
        assert!(fault(dir.path()).contains(file), "{file}: {}", fault(dir.path()));
    }
}
