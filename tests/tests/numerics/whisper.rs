//! The Whisper family against the published class: tiny checkpoints and the numbers that `transformers` computes with them,
//! stage by stage and token by token, on the CPU and on a Vulkan adapter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use auricle_engine::Precision;
use auricle_engine::audio::AudioStream;
use auricle_engine::unstable::device;
use auricle_engine::unstable::models::whisper::{
    Config, DecodeOptions, DecodedWindow, DecodingBatch, Previous, SpecialTokens, Task, TokenRules, Whisper,
    compression_ratio, median_filter, token_times, warp,
};
use auricle_kernels::product::gemv::FourBitRun;
use auricle_kernels::product::int8::cpu::Int8Matrix;
use auricle_kernels::spectral::logmel::{LogMel, LogMelConfig};
use auricle_tests::{Oracle, devices, relative_error};
use burn::tensor::{Device, Tensor, TensorData};
use serde_json::Value;

const NAMES: [&str; 3] = ["multi", "large", "english"];
/// Tolerance of one stage and of all stages: relative error, f32, on the CPU and on another device.
const STAGE: f32 = 1e-5;
const WHOLE: f32 = 1e-4;

fn fixture(name: &str) -> PathBuf {
    auricle_tests::fixtures().join("whisper").join(name)
}

fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|n| n.as_f64().unwrap() as f32).collect()
}

fn pairs(value: &Value) -> Vec<[usize; 2]> {
    value.as_array().unwrap().iter().map(numbers).map(|p| [p[0] as usize, p[1] as usize]).collect()
}

/// `tensor` at some stretches of a dimension.
fn kept<const D: usize>(tensor: &Tensor<D>, dim: usize, stretches: &[[usize; 2]]) -> Tensor<D> {
    let parts = stretches.iter().map(|[first, end]| tensor.clone().narrow(dim, *first, end - first));
    Tensor::cat(parts.collect(), dim)
}

/// ‖a - b‖ / ‖b‖ over all values.
fn error<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> f32 {
    assert_eq!(a.dims(), b.dims());
    let count = b.dims().iter().product();
    let rows = |tensor: Tensor<D>| tensor.reshape([1, 1, count]);
    relative_error(rows(a), rows(b), &[1])
}

struct Case {
    name: &'static str,
    model: Whisper,
    oracle: Oracle,
    device: Device,
    stage: f32,
}

impl Case {
    fn open(name: &'static str, device: &Device, on_cpu: bool) -> Self {
        let model = Whisper::load(&fixture(name), device).unwrap();
        let stage = if on_cpu { STAGE } else { WHOLE };
        Self { name, model, oracle: Oracle::open(&fixture(name)), device: device.clone(), stage }
    }

    fn each(test: impl Fn(&Self)) {
        for (device, on_cpu) in devices() {
            for name in NAMES {
                test(&Self::open(name, &device, on_cpu));
            }
        }
    }

    /// On the CPU alone: decisions by small differences may change where sums are added in another order.
    fn each_on_cpu(test: impl Fn(&Self)) {
        NAMES.into_iter().for_each(|name| test(&Self::open(name, &Device::flex(), true)));
    }

    fn tensor<const D: usize>(&self, name: &str) -> Tensor<D> {
        self.oracle.tensor(name, &self.device)
    }

    fn facts(&self, name: &str) -> &[Value] {
        self.oracle.facts[name].as_array().unwrap()
    }

    fn clip(&self, name: &str) -> Vec<f32> {
        let path = auricle_tests::fixtures().join("../oracles/speech.flac");
        let speech = AudioStream::open(&path).unwrap().read_to_end().unwrap();
        let pieces = self.oracle.facts["clips"][name].as_array().unwrap().iter().map(numbers);
        pieces
            .flat_map(|piece| match piece[..] {
                [pause] => vec![0.0; pause as usize],
                [first, end] => speech[first as usize..end as usize].to_vec(),
                _ => panic!("a piece is a stretch or a pause"),
            })
            .collect()
    }

    /// Encoder frames of a clip from a mel frame on, as the class cuts them: what is missing is zero.
    fn frames(&self, clip: &str, seek: usize) -> Tensor<3> {
        let features = self.model.features(&[&self.clip(clip)]).unwrap();
        let [_, count, mels] = features.dims();
        let rest = features.narrow(1, seek, count - seek);
        self.model.encoder().forward(Tensor::cat(vec![rest, Tensor::zeros([1, seek, mels], &self.device)], 1))
    }

    /// The decode options that a prefix of tokens states.
    fn ask(&self, prefix: &[u32]) -> DecodeOptions {
        let special = &self.model.config().special;
        let start = prefix.iter().position(|token| *token == special.start).unwrap();
        let after = &prefix[start + 1..];
        let translate = special.translate.is_some_and(|task| after.contains(&task));
        DecodeOptions {
            language: after.first().copied().unwrap_or(0),
            task: if translate { Task::Translate } else { Task::Transcribe },
            previous: prefix[..start].iter().skip(1).copied().collect(),
            max_tokens: 448,
            frames: 1500,
            ..DecodeOptions::default()
        }
    }

    fn decode(&self, frames: &Tensor<3>, timestamps: bool, asks: Vec<DecodeOptions>) -> Vec<DecodedWindow> {
        let mut decoding = DecodingBatch::new(timestamps);
        let asks = asks.into_iter().enumerate().map(|(at, ask)| (at as u64, ask)).collect();
        let mut done: BTreeMap<u64, DecodedWindow> =
            decoding.add(&self.model, std::slice::from_ref(frames), asks).unwrap().into_iter().collect();
        while decoding.rows() > 0 {
            done.extend(decoding.step(&self.model).unwrap());
        }
        done.into_values().collect()
    }
}

fn check(what: &str, error: f32, tolerance: f32) {
    assert!(error <= tolerance, "{what}: relative error {error:.2e} is over {tolerance:.0e}");
}

#[test]
fn stages_are_those_of_the_class() {
    Case::each(|case| {
        let (name, model) = (case.name, &case.model);
        let (mel, frames) = (pairs(&case.oracle.facts["mel_frames"]), pairs(&case.oracle.facts["frames"]));
        let clips = ["short", "mixed"].map(|clip| case.clip(clip));
        let features = model.features(&[&clips[0], &clips[1]]).unwrap();
        let reference = case.tensor::<3>("features");
        check(&format!("{name} features"), error(kept(&features, 1, &mel).swap_dims(1, 2), reference), WHOLE);
        let embedded = model.encoder().embed(features.clone());
        check(&format!("{name} embedding"), error(kept(&embedded, 1, &frames), case.tensor("encoder_input")), WHOLE);
        let first = model.encoder().run(embedded, 0..1);
        check(&format!("{name} block"), error(kept(&first, 1, &frames), case.tensor("encoder_layer0")), WHOLE);
        let encoded = model.encoder().forward(features);
        check(&format!("{name} encoder"), error(kept(&encoded, 1, &frames), case.tensor("encoder")), WHOLE);

        // The decoder, all tokens at once and one after the other.
        let tokens: Vec<u32> = case.oracle.integers("decoder_tokens").iter().map(|id| *id as u32).collect();
        let mut steps = model.decoder().start(&encoded).unwrap();
        let rows = vec![tokens.clone(); 2];
        let (_, middle) = model.decoder().forward_through(&mut steps, &rows, 1).unwrap();
        check(
            &format!("{name} decoder block"),
            error(middle, case.tensor::<3>("decoder_layer0").flatten(0, 1)),
            10.0 * case.stage.max(WHOLE / 10.0),
        );
        let mut steps = model.decoder().start(&encoded).unwrap();
        let (logits, looked) = (case.tensor::<3>("logits"), case.tensor::<4>("cross_attention"));
        let seen = model.config().frames;
        for (at, token) in tokens.iter().enumerate() {
            let now = model.decoder().forward(&mut steps, &vec![vec![*token]; 2]).unwrap();
            let width = logits.dims()[2];
            let reference = logits.clone().narrow(1, at, 1).squeeze_dim::<2>(1);
            let tensor = |values: Vec<f32>, shape: [usize; 3]| {
                Tensor::<3>::from_data(TensorData::new(values, shape), &case.device)
            };
            let size = model.config().vocab_size;
            let scores = tensor(now.scores.read().unwrap(), [1, 2, size]).squeeze_dim::<2>(0);
            check(&format!("{name} token {at}"), error(scores.narrow(1, 0, width), reference), WHOLE);
            let weights = match now.weights.is_empty() {
                false => now.weights.concat(),
                // A GPU tells it afterwards.
                true => {
                    let back = |row| model.decoder().look_back(&steps, row, &tokens[..=at], at + 1, seen).unwrap();
                    [back(0), back(1)].concat()
                }
            };
            let weights = tensor(weights, [2, model.config().alignment_heads.len(), seen]);
            let reference = looked.clone().narrow(2, at, 1).squeeze_dim::<3>(2);
            check(&format!("{name} attention {at}"), error(kept(&weights, 2, &frames), reference), WHOLE);
        }
    });
}

#[test]
fn languages_are_found() {
    Case::each(|case| {
        let special = &case.model.config().special;
        if case.name == "english" {
            assert!(special.languages.is_empty());
            return;
        }
        let mut known: Vec<u32> = special.languages.values().copied().collect();
        known.sort_unstable();
        let chances = Oracle::values(case.tensor::<2>("languages"));
        for (clip, reference) in ["short", "mixed", "silence"].into_iter().zip(chances.chunks(known.len())) {
            let found = case.model.languages(&case.frames(clip, 0), &known).unwrap().remove(0);
            for (found, reference) in found.iter().zip(reference) {
                assert!((found - reference).abs() < 1e-4, "{} {clip}: {found} is not {reference}", case.name);
            }
            let best = (0..known.len()).max_by(|a, b| found[*a].total_cmp(&found[*b])).unwrap();
            assert_eq!(known[best], numbers(&Value::from(vec![case.oracle.facts["languages"][clip].clone()]))[0]);
        }
        assert_eq!(special.language(special.languages["de"]), Some("de"));
    });
}

#[test]
fn greedy_texts_are_those_of_the_class() {
    Case::each_on_cpu(|case| {
        for fact in case.facts("greedy") {
            let timestamps = fact["timestamps"] == true;
            for window in fact["windows"].as_array().unwrap() {
                let (prefix, expected) = (numbers(&window["prefix"]), numbers(&window["tokens"]));
                let frames = case.frames(fact["clip"].as_str().unwrap(), window["seek"].as_u64().unwrap() as usize);
                let max_tokens = fact["max_new_tokens"].as_u64().map_or(448 - prefix.len(), |most| most as usize);
                let said =
                    case.decode(&frames, timestamps, vec![DecodeOptions { max_tokens, ..case.ask(&prefix) }]).remove(0);
                assert_eq!(said.tokens, expected, "{} {fact}", case.name);
                assert_eq!(said.confidences.len(), said.tokens.len());
                assert!(said.confidences.iter().all(|sure| (0.0..=1.0).contains(sure)));
            }
            if !timestamps {
                let tokens = numbers(&fact["tokens"]);
                assert_eq!(case.model.vocabulary().text(&tokens), fact["text"].as_str().unwrap());
            }
        }
    });
}

/// Five beams, for one window alone and batched with another.
#[test]
fn beam_search_texts_are_those_of_the_class() {
    Case::each_on_cpu(|case| {
        let mut seen = 0;
        for fact in case.facts("beams").iter().filter(|fact| fact.get("early_stopping").is_none()) {
            for window in fact["windows"].as_array().unwrap() {
                let (prefix, expected) = (numbers(&window["prefix"]), numbers(&window["tokens"]));
                let frames = case.frames(fact["clip"].as_str().unwrap(), window["seek"].as_u64().unwrap() as usize);
                let max_tokens = fact["max_new_tokens"].as_u64().map_or(448 - prefix.len(), |most| most as usize);
                let length_penalty = fact.get("length_penalty").map_or(1.0, |penalty| penalty.as_f64().unwrap() as f32);
                let beams = fact["num_beams"].as_u64().unwrap() as usize;
                let ask = DecodeOptions { max_tokens, beams, length_penalty, ..case.ask(&prefix) };
                let beside = DecodeOptions { beams: 0, max_tokens: 7, ..ask.clone() };
                let frames = Tensor::cat(vec![frames.clone(), frames], 0);
                let said = case.decode(&frames, fact["timestamps"] == true, vec![ask, beside]);
                assert_eq!(said[0].tokens, expected, "{} {fact}", case.name);
                let columns = said[0].weights.len() / (expected.len() + 1);
                assert_eq!(said[0].weights.len(), columns * (expected.len() + 1));
                assert_eq!(said[0].confidences.len(), expected.len());
                seen += 1;
            }
        }
        assert!(seen >= 3, "{}: {seen}", case.name);
    });
}

/// Sequential windows: the prompt of each, the start of the next, and its text.
#[test]
fn sequential_windows_are_those_of_the_class() {
    Case::each_on_cpu(|case| {
        let config = case.model.config();
        let audio = case.clip("long");
        let front_end = LogMel::new(LogMelConfig::whisper(config.mels), &case.device).unwrap();
        let samples = Tensor::<1>::from_floats(audio.as_slice(), &case.device).unsqueeze::<2>();
        let features = front_end.forward(samples, &[audio.len()]).unwrap().mels;
        let ends = case.tensor::<2>("long_features").swap_dims(0, 1).unsqueeze::<3>();
        let count = features.dims()[1];
        let ours = Tensor::cat(vec![features.clone().narrow(1, 0, 16), features.clone().narrow(1, count - 16, 16)], 1);
        check("features of a long clip", error(ours, ends), WHOLE);
        for fact in case.facts("long") {
            let prompt: Vec<u32> = fact.get("prompt").map(numbers).unwrap_or_default().into_iter().skip(1).collect();
            let conditioned = fact["condition_on_prev_tokens"] == true;
            let mut previous = Previous::new(prompt.clone(), config.positions / 2 - 1);
            let (mut seek, mut said_so_far) = (0, Vec::new());
            for window in fact["windows"].as_array().unwrap() {
                let (prefix, expected) = (numbers(&window["prefix"]), numbers(&window["tokens"]));
                assert_eq!(seek, window["seek"].as_u64().unwrap() as usize, "{} {fact}", case.name);
                let previous_tokens = if conditioned { previous.tokens() } else { &prompt };
                assert_eq!(previous_tokens, case.ask(&prefix).previous, "{} at {seek}", case.name);
                let length = (count - seek).min(3000);
                let rest = Tensor::zeros([1, 3000 - length, config.mels], &case.device);
                let frames = Tensor::cat(vec![features.clone().narrow(1, seek, length), rest], 1);
                let frames = case.model.encoder().forward(frames);
                let ask = DecodeOptions { max_tokens: config.positions - prefix.len(), ..case.ask(&prefix) };
                let mut said = case.decode(&frames, true, vec![ask]).remove(0);
                assert_eq!(said.tokens, expected, "{} at {seek}", case.name);
                let (kept, covered) = config.special.accepted(&said.tokens);
                said.truncate(kept);
                previous.add(&said.tokens, 0.0);
                said_so_far.extend(said.tokens);
                seek += covered.map_or(length, |frames| 2 * frames);
            }
            assert!(seek >= count, "{}: it ends at {seek} of {count}", case.name);
            // The class leaves the time at which the next sentence begins on the last one of a window.
            let plain =
                |tokens: Vec<u32>| tokens.into_iter().filter(|t| !config.special.is_timestamp(*t)).collect::<Vec<_>>();
            let segments = fact["segments"].as_array().unwrap().iter().flat_map(|segment| numbers(&segment["tokens"]));
            assert_eq!(plain(said_so_far), plain(segments.collect()), "{} {fact}", case.name);
        }
    });
}

/// 8-bit and 4-bit weights: close to f32, and not equal.
#[test]
fn a_decoder_in_few_bits_is_close_to_full_precision() {
    Case::each_on_cpu(|case| {
        let frames = case.frames("short", 0);
        let tokens: Vec<u32> = case.oracle.integers("decoder_tokens").iter().map(|id| *id as u32).collect();
        let scores = |model: &Whisper| {
            let mut steps = model.decoder().start(&frames).unwrap();
            let scores =
                model.decoder().forward(&mut steps, std::slice::from_ref(&tokens)).unwrap().scores.read().unwrap();
            Tensor::<1>::from_floats(scores.as_slice(), &case.device)
        };
        let off = |precision| {
            let less = Whisper::load_with(&fixture(case.name), &case.device, precision).unwrap();
            error(scores(&less), scores(&case.model))
        };
        let [eight, four] = [Precision::Int8, Precision::Int4].map(off);
        assert!(eight > 1e-4 && eight < 0.05, "{}: {eight}", case.name);
        // Matrices whose inputs are no whole runs keep 8 bits.
        let in_runs = case.model.config().size.is_multiple_of(FourBitRun::WEIGHTS);
        assert!(four < 0.3 && (four > 2.0 * eight || !in_runs), "{}: {four}, {eight}", case.name);
    });
}

/// The same of the encoder, on a processor that multiplies bytes faster.
#[test]
fn an_eight_bit_encoder_is_close_to_full_precision() {
    Case::each_on_cpu(|case| {
        let less = Whisper::load_with(&fixture(case.name), &case.device, Precision::Int8).unwrap();
        let clip = case.clip("short");
        let [less, full] = [&less, &case.model].map(|model| model.encode(&[&clip]).unwrap());
        let off = error(less, full);
        assert!(off < 0.05 && (off > 1e-4 || !Int8Matrix::is_fast()), "{}: {off}", case.name);
    });
}

/// A window's text does not depend on what is decoded beside it, or when the others came.
#[test]
fn batched_windows_equal_single_windows() {
    Case::each_on_cpu(|case| {
        let facts: Vec<&Value> = case.facts("greedy").iter().filter(|fact| fact["timestamps"] == true).collect();
        let windows: Vec<(&str, &Value)> = facts
            .iter()
            .flat_map(|fact| fact["windows"].as_array().unwrap().iter().map(|w| (fact["clip"].as_str().unwrap(), w)))
            .filter(|(_, window)| window["tokens"].as_array().unwrap().len() > 5)
            .collect();
        let mut decoding = DecodingBatch::new(true);
        let mut done = BTreeMap::new();
        for (number, (clip, window)) in windows.iter().enumerate() {
            let frames = case.frames(clip, window["seek"].as_u64().unwrap() as usize);
            let ask = DecodeOptions { frames: 0, ..case.ask(&numbers(&window["prefix"])) };
            done.extend(decoding.add(&case.model, &[frames], vec![(number as u64, ask)]).unwrap());
            // They join in while others go on.
            for _ in 0..number % 4 {
                done.extend(decoding.step(&case.model).unwrap());
            }
        }
        while decoding.rows() > 0 {
            done.extend(decoding.step(&case.model).unwrap());
        }
        for (number, (clip, window)) in windows.iter().enumerate() {
            assert_eq!(done[&(number as u64)].tokens, numbers(&window["tokens"]), "{} {clip} {window}", case.name);
        }
    });
}

#[test]
fn token_masks_are_those_of_the_class() {
    let vectors = Oracle::open(&fixture("vectors"));
    let rules = &vectors.facts["rules"];
    let id = |name: &str| rules[name].as_u64().unwrap() as u32;
    let special = SpecialTokens {
        end: id("eos"),
        start: id("start"),
        transcribe: None,
        translate: None,
        previous: None,
        no_speech: id("no_timestamps") - 1,
        no_timestamps: id("no_timestamps"),
        languages: BTreeMap::new(),
    };
    let multi = Case::open("multi", &Device::flex(), true);
    for case in rules["cases"].as_array().unwrap() {
        let config = Config {
            vocab_size: id("size") as usize,
            special: special.clone(),
            suppressed: numbers(&rules["suppress_tokens"]),
            suppressed_first: numbers(&rules["begin_suppress_tokens"]),
            latest_first: case["max_initial_timestamp_index"].as_u64().map(|at| at as usize),
            ..multi.model.config().clone()
        };
        let prefix = numbers(&case["prefix"]);
        let begin = case["begin"].as_u64().unwrap() as usize;
        let mut scores = floats(&case["logits"]);
        let rules = TokenRules::new(&config, &Device::flex());
        rules.token_mask().apply(&mut scores, &rules.after(&prefix[begin..], true));
        let allowed: BTreeSet<usize> =
            pairs(&case["allowed"]).into_iter().flat_map(|[first, end]| first..end).collect();
        let found: BTreeSet<usize> = (0..scores.len()).filter(|at| scores[*at] > f32::NEG_INFINITY).collect();
        assert_eq!(found, allowed, "{case}");
        let best = (0..scores.len()).rev().max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
        assert_eq!(best as u64, case["best"].as_u64().unwrap(), "{case}");
    }
    // And on the scores of a checkpoint.
    let references = Oracle::values(multi.tensor::<2>("step_scores"));
    let frames = multi.frames("mixed", 0);
    let size = multi.model.config().vocab_size;
    for (fact, reference) in multi.facts("steps").iter().zip(references.chunks(size)) {
        if fact.get("seek").is_some_and(|seek| seek != 0) {
            continue;
        }
        let prefix = numbers(&fact["prefix"]);
        let mut steps = multi.model.decoder().start(&frames).unwrap();
        let looked = multi.model.decoder().forward(&mut steps, std::slice::from_ref(&prefix)).unwrap();
        let mut scores = looked.scores.read().unwrap();
        let rules = multi.model.rules();
        rules.token_mask().apply(&mut scores, &rules.after(&prefix[fact["begin"].as_u64().unwrap() as usize..], true));
        for (token, (score, reference)) in scores.iter().zip(reference).enumerate() {
            let same = score == reference || (score - reference).abs() < 1e-3;
            assert!(same, "{fact}: token {token}: {score} is not {reference}");
        }
    }
}

#[test]
fn temperature_fallback_criteria_are_those_of_the_class() {
    let vectors = Oracle::open(&fixture("vectors"));
    for case in vectors.facts["compression"].as_array().unwrap() {
        let ratio = compression_ratio(&numbers(&case["tokens"]), case["vocabulary"].as_u64().unwrap() as usize);
        let reference = case["ratio"].as_f64().unwrap() as f32;
        // Another implementation of the same format finds other matches.
        assert!((ratio - reference).abs() <= 0.06 * reference, "{ratio} is not {reference}: {case}");
    }
    Case::each_on_cpu(|case| {
        for fact in case.facts("fallback") {
            let (prefix, expected) = (numbers(&fact["prefix"]), numbers(&fact["tokens"]));
            let timestamps = fact["timestamps"] == true;
            let frames = case.frames(fact["clip"].as_str().unwrap(), 0);
            let ask = DecodeOptions { max_tokens: 448 - prefix.len(), frames: 0, ..case.ask(&prefix) };
            let said = case.decode(&frames, timestamps, vec![ask]).remove(0);
            let end = case.model.config().special.end;
            assert_eq!(said.tokens, expected.iter().copied().filter(|token| *token != end).collect::<Vec<_>>());
            let near = |found: f32, name: &str, tolerance: f32| {
                let reference = fact[name].as_f64().unwrap() as f32;
                assert!((found - reference).abs() <= tolerance, "{} {name}: {found} is not {reference}", case.name);
            };
            near(said.log_prob, "avg_logprob", 1e-3);
            near(said.no_speech, "no_speech_prob", 1e-4);
        }
    });
}

#[test]
fn alignment_is_that_of_the_class() {
    let vectors = Oracle::open(&fixture("vectors"));
    let flex = Device::flex();
    let input = Oracle::values(vectors.tensor::<3>("median_input", &flex));
    for (name, width, filter) in [("median_3", 24, 3), ("median_7", 24, 7)] {
        assert_eq!(median_filter(&input, width, filter), Oracle::values(vectors.tensor::<3>(name, &flex)), "{name}");
    }
    for width in [3, 4, 5] {
        let reference = Oracle::values(vectors.tensor::<3>(&format!("median_7_of_{width}"), &flex));
        let short: Vec<f32> = input.chunks(24).flat_map(|row| row[..width].to_vec()).collect();
        assert_eq!(median_filter(&short, width, 7), reference, "7 of {width}");
    }
    for name in ["dtw", "dtw_tied"] {
        let matrix = vectors.tensor::<2>(name, &flex);
        let [rows, columns] = matrix.dims();
        let costs: Vec<f64> = Oracle::values(matrix).into_iter().map(|looked| -f64::from(looked)).collect();
        let path = warp(&costs, rows, columns);
        let fact = &vectors.facts["dtw"][name];
        let expected: Vec<(usize, usize)> = numbers(&fact["text_indices"])
            .into_iter()
            .zip(numbers(&fact["time_indices"]))
            .map(|(row, column)| (row as usize, column as usize))
            .collect();
        assert_eq!(path, expected, "{name}");
    }
    Case::each_on_cpu(|case| {
        let weights = case.tensor::<3>("alignment");
        let [heads, rows, frames] = weights.dims();
        let by_row = Oracle::values(weights.swap_dims(0, 1));
        let fact = case.facts("words").iter().find(|fact| fact.get("text_indices").is_some()).unwrap();
        // The first column of each row.
        let path = numbers(&fact["text_indices"]).into_iter().zip(numbers(&fact["time_indices"])).rev();
        let mut expected = vec![0; rows];
        path.for_each(|(row, column)| expected[row as usize] = column as usize);
        assert_eq!(token_times(&by_row, rows, heads, frames, 7), expected, "{}", case.name);
    });
}

/// The class leaves out where the last prompt token looked, and so gives each token the time of the next one; with its rows,
/// its times come out.
#[test]
fn token_times_are_those_of_the_class() {
    Case::each_on_cpu(|case| {
        for fact in case.facts("words").iter().filter(|fact| fact.get("num_beams").is_none()) {
            if fact["timestamps"] == true || fact["num_frames"].is_null() {
                continue;
            }
            let window = &fact["windows"][0];
            let prefix = numbers(&window["prefix"]);
            let frames = fact["num_frames"].as_u64().unwrap() as usize / 2;
            let ask = DecodeOptions { max_tokens: 448 - prefix.len(), frames, ..case.ask(&prefix) };
            let encoded = case.frames(fact["clip"].as_str().unwrap(), 0);
            let said = case.decode(&encoded, false, vec![ask]).remove(0);
            assert_eq!(said.tokens, numbers(&window["tokens"]));
            let heads = case.model.config().alignment_heads.len();
            let columns = heads * frames;
            assert_eq!(said.weights.len(), (said.tokens.len() + 1) * columns);
            let rows = said.tokens.len();
            let times = token_times(&said.weights[columns..], rows, heads, frames, case.model.config().median_filter);
            let reference = floats(&fact["segments"][0]["token_timestamps"]);
            for (at, reference) in reference.iter().take(rows).enumerate() {
                assert!((times[at] as f32 * 0.02 - reference).abs() < 1e-3, "{} {at}: {times:?} {fact}", case.name);
            }
        }
    });
}

#[test]
fn texts_and_words_are_those_of_the_tokenizer() {
    Case::each_on_cpu(|case| {
        let (facts, vocabulary) = (&case.oracle.facts["tokenizer"], case.model.vocabulary());
        for fact in facts["encoded"].as_array().unwrap() {
            assert_eq!(vocabulary.encode(fact["text"].as_str().unwrap()).unwrap(), numbers(&fact["tokens"]), "{fact}");
        }
        let special = &case.model.config().special;
        for fact in facts["decoded"].as_array().unwrap() {
            // The class leaves out a prompt.
            if special.previous.is_some_and(|token| numbers(&fact["tokens"]).contains(&token)) {
                continue;
            }
            assert_eq!(vocabulary.text(&numbers(&fact["tokens"])), fact["without_special"].as_str().unwrap(), "{fact}");
        }
        let end = special.end;
        for fact in facts["words"].as_array().unwrap() {
            let tokens = numbers(&fact["tokens"]);
            // Special tokens are words of their own there, and none here.
            if tokens.iter().any(|token| *token >= end) {
                continue;
            }
            let words = fact["words"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned());
            let places = fact["indices"].as_array().unwrap().iter().map(numbers);
            // A mark within a word divides it there, and so does every token in languages without spaces, but no text is written so.
            let is_wide = |c: char| matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{3000}'..='\u{9fff}' | '\u{ff00}'..='\u{ffef}');
            let mut expected: Vec<(String, Vec<u32>)> = Vec::new();
            for (word, places) in words.zip(places).filter(|(word, _)| !word.trim().is_empty()) {
                match expected.last_mut() {
                    Some((before, at))
                        if !word.starts_with(' ') && !word.starts_with(is_wide) && !before.ends_with(is_wide) =>
                    {
                        *before += &word;
                        at.extend(places);
                    }
                    _ => expected.push((word, places)),
                }
            }
            // What to make of bytes that are no character is a matter of taste.
            let whole = |(word, _): &(String, Vec<u32>)| !word.contains('\u{fffd}');
            let expected: Vec<(String, Vec<u32>)> = expected.into_iter().take_while(whole).collect();
            let found: Vec<(String, Vec<u32>)> = vocabulary
                .words(&tokens)
                .into_iter()
                .map(|word| (word.text, word.tokens.iter().map(|at| *at as u32).collect()))
                .take_while(whole)
                .collect();
            assert_eq!(found, expected, "{} {fact}", case.name);
        }
    });
}

#[test]
fn a_checkpoint_that_does_not_fit_is_named() {
    let copy = |change: &dyn Fn(&std::path::Path)| {
        let folder = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(fixture("multi")).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
        }
        change(folder.path());
        let error = Whisper::load(folder.path(), &Device::flex()).err().expect("it does not load").to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    let edit = |folder: &std::path::Path, file: &str, key: &str, value: Value| {
        let path = folder.join(file);
        let mut json: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        json[key] = value;
        std::fs::write(path, json.to_string()).unwrap();
    };
    let cases: [(&str, &str, Value, &str); 6] = [
        ("config.json", "vocab_size", 1234.into(), "1501 timestamps"),
        ("config.json", "decoder_attention_heads", 7.into(), "do not divide"),
        ("config.json", "activation_function", "relu".into(), "gelu"),
        ("config.json", "decoder_layers", 9.into(), "decoder.layers"),
        ("generation_config.json", "alignment_heads", serde_json::json!([[7, 0]]), "alignment head"),
        ("preprocessor_config.json", "feature_size", 128.into(), "feature_size"),
    ];
    for (file, key, value, named) in cases {
        let error = copy(&|folder| edit(folder, file, key, value.clone()));
        assert!(error.contains(named), "{key}: {error}");
    }
    let error = copy(&|folder| std::fs::remove_file(folder.join("tokenizer.json")).unwrap());
    assert!(error.contains("tokenizer.json"), "{error}");
}

#[test]
fn a_window_too_long_is_refused_and_an_empty_one_is_silence() {
    let case = Case::open("multi", &Device::flex(), true);
    assert!(case.model.features(&[&vec![0.0; Whisper::WINDOW + 1]]).is_err());
    let frames = case.model.encode(&[&[], &[0.1]]).unwrap();
    assert_eq!(frames.dims()[..2], [2, 1500]);
    let info = device::devices();
    assert!(!info.is_empty());
}
