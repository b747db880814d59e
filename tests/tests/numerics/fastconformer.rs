//! The FastConformer family against the published classes: tiny checkpoints and the numbers that `transformers` computes
//! with them, stage by stage, on the CPU and on a Vulkan adapter.

use std::path::PathBuf;

use auricle_engine::Precision;
use auricle_engine::unstable::decoding::{Search, Token, TransducerNetwork};
use auricle_engine::unstable::device;
use auricle_engine::unstable::models::fastconformer::FastConformer;
use auricle_kernels::launches::count;
use auricle_kernels::product::int8::cpu::Int8Matrix;
use auricle_tests::{Oracle, devices, relative_error};
use burn::tensor::{DType, Device, Distribution, Tensor};
use serde_json::Value;

/// Tolerance of one stage and of the whole encoder: relative error, f32 on the CPU.
const STAGE: f32 = 1e-5;
const ENCODER: f32 = 1e-4;
/// Tolerance on other devices, which sum in another order.
const ELSEWHERE: f32 = 1e-4;

pub(crate) fn fixture(name: &str) -> PathBuf {
    auricle_tests::fixtures().join("fastconformer").join(name)
}

pub(crate) fn check(what: &str, error: f32, tolerance: f32) {
    assert!(error <= tolerance, "{what}: relative error {error:.2e} is over {tolerance:.0e}");
}

/// A causal checkpoint's features as one chunk: frames that are not real before them, zeros after, whole encoder frames.
fn as_chunk(features: Tensor<3>, lead: usize) -> Tensor<3> {
    let [batch, frames, mels] = features.dims();
    let device = features.device();
    let zeros = |count: usize| Tensor::<3>::zeros([batch, count, mels], &device);
    let after = (lead + frames).next_multiple_of(lead + 1) - lead - frames;
    Tensor::cat(vec![zeros(lead), features, zeros(after)], 1)
}

pub(crate) struct Case {
    pub(crate) model: FastConformer,
    pub(crate) oracle: Oracle,
    pub(crate) device: Device,
    pub(crate) stage: f32,
    pub(crate) encoder: f32,
    pub(crate) streaming: bool,
}

impl Case {
    pub(crate) fn open(name: &str, device: &Device, on_cpu: bool) -> Self {
        let model = FastConformer::load(&fixture(name), device).unwrap();
        let oracle = Oracle::open(&fixture(name));
        let streaming = model.config().class.is_streaming();
        let (stage, encoder) = if on_cpu { (STAGE, ENCODER) } else { (ELSEWHERE, ELSEWHERE) };
        Self { model, oracle, device: device.clone(), stage, encoder, streaming }
    }

    pub(crate) fn tensor<const D: usize>(&self, name: &str) -> Tensor<D> {
        self.oracle.tensor(name, &self.device)
    }

    /// The whole utterances through the encoder; `look_ahead` for a causal one.
    fn encode(&self, look_ahead: Option<usize>) -> (Tensor<3>, Vec<usize>) {
        let (features, lengths) = (self.tensor("features"), self.oracle.integers("feature_lengths"));
        let encoder = self.model.encoder();
        let Some(look_ahead) = look_ahead else { return encoder.forward(features, &lengths).unwrap() };
        let lead = encoder.lead();
        let mut state = encoder.start(lengths.len(), look_ahead, &self.device);
        let valid: Vec<_> = lengths.iter().map(|n| lead..lead + n).collect();
        let (out, valid) = encoder.forward_chunk(as_chunk(features, lead), &valid, &mut [&mut state]).unwrap();
        (out, valid.into_iter().map(|v| v.end).collect())
    }

    /// One utterance's features without padding: `[1, frames, mels]`.
    pub(crate) fn utterance(&self, row: usize) -> Tensor<3> {
        let length = self.oracle.integers("feature_lengths")[row];
        self.tensor::<3>("features").narrow(0, row, 1).narrow(1, 0, length)
    }

    /// One utterance through a stream, in steps of `frames[n]` encoder frames, the last repeated.
    fn stream(&self, features: Tensor<3>, look_ahead: usize, language: usize, frames: &[usize]) -> Vec<Token> {
        let lead = self.model.encoder().lead();
        let real = lead + features.dims()[1];
        let features = as_chunk(features, lead);
        let mut stream = self.model.stream(1, look_ahead, language).unwrap();
        let (mut at, mut tokens) = (0, Vec::new());
        for step in frames.iter().chain(std::iter::repeat(&frames[frames.len() - 1])) {
            let size = (step * (lead + 1)).min(features.dims()[1] - at);
            let chunk = features.clone().narrow(1, at, size);
            let valid = lead.saturating_sub(at)..(real - at).min(size);
            tokens.extend(self.model.step(&mut stream, chunk, &[valid], Search::Greedy(None)).unwrap().remove(0));
            at += size;
            if at == features.dims()[1] {
                break;
            }
        }
        tokens
    }
}

/// The encoder in 8 bits, on a processor that multiplies bytes faster: close to f32, and not equal.
#[test]
fn an_eight_bit_encoder_is_close_to_full_precision() {
    for name in ["ctc", "streaming"] {
        let full = Case::open(name, &Device::flex(), true);
        let model = FastConformer::load_with(&fixture(name), &full.device, Precision::Int8).unwrap();
        let less = Case { model, ..Case::open(name, &Device::flex(), true) };
        let look_ahead = full.streaming.then(|| full.oracle.facts["default_look_ahead"].as_u64().unwrap() as usize);
        let ((less, valid), (full, _)) = (less.encode(look_ahead), full.encode(look_ahead));
        let off = relative_error(less, full, &valid);
        assert!(off < 0.05 && (off > 1e-4 || !Int8Matrix::is_fast()), "{name}: {off}");
    }
}

/// Predictor and joint with weights of 16 bits on a GPU: close to the published class, and equal to f32 where the checkpoint has 16 bits.
#[test]
fn half_precision_of_the_transducer_is_close_to_the_published_class() {
    for (device, on_cpu) in devices() {
        if on_cpu || !device.supports_dtype(DType::F16) {
            continue;
        }
        for (name, has_16_bits) in [("tdt", false), ("streaming", true)] {
            let full = Case::open(name, &device, false);
            let model = FastConformer::load_with(&fixture(name), &device, Precision::F16).unwrap();
            let half = Case { model, stage: 1e-2, ..Case::open(name, &device, false) };
            check_transducer(&half);
            let [full, half] = [&full, &half].map(|case| {
                let transducer = case.model.transducer().unwrap();
                transducer.start(1, 0).output().unwrap()
            });
            assert_eq!(full == half, has_16_bits, "{name}");
        }
    }
}

/// The encoder in 16 bits on a GPU, whole and in chunks: close to f32, and not equal.
#[test]
fn half_precision_is_close_to_full_precision() {
    let has_half = |(device, on_cpu): &(Device, bool)| !on_cpu && device.supports_dtype(DType::F16);
    for (device, _) in devices().into_iter().filter(has_half) {
        for name in ["ctc", "streaming"] {
            let full = Case::open(name, &device, false);
            let model = FastConformer::load_with(&fixture(name), &device, Precision::F16).unwrap();
            let half = Case { model, ..Case::open(name, &device, false) };
            let look_ahead = full.streaming.then(|| full.oracle.facts["default_look_ahead"].as_u64().unwrap() as usize);
            let ((half, valid), (full, _)) = (half.encode(look_ahead), full.encode(look_ahead));
            let off = relative_error(half, full, &valid);
            assert!(off < 1e-2 && off > 1e-5, "{name}: {off}");
        }
        // No sound is so loud that 16 bits do not hold what becomes of it.
        let model = FastConformer::load_with(&fixture("ctc"), &device, Precision::F16).unwrap();
        let shape = [1, 160, model.config().encoder.num_mel_bins];
        let noise = Tensor::<3>::random(shape, Distribution::Normal(0.0, 30.0), &device);
        let (encoded, _) = model.encoder().forward(noise, &[160]).unwrap();
        assert!(Oracle::values(encoded).into_iter().all(f32::is_finite));
    }
}

pub(crate) fn numbers(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
}

/// Tokens, their frames and, for TDT, their durations are those of the class.
fn assert_tokens(what: &str, tokens: &[Token], reference: &Value) {
    assert_eq!(
        tokens.iter().map(|t| t.id as usize).collect::<Vec<_>>(),
        numbers(&reference["tokens"]),
        "{what}: tokens"
    );
    let frames: Vec<usize> = tokens.iter().map(|t| t.frame).collect();
    assert_eq!(frames, numbers(&reference["timestamps"]), "{what}: frames");
    if let Some(durations) = reference.get("durations") {
        assert_eq!(tokens.iter().map(|t| t.span).collect::<Vec<_>>(), numbers(durations), "{what}: durations");
    }
    assert!(tokens.iter().all(|t| (0.0..=1.0).contains(&t.confidence)), "{what}: confidence");
}

/// The stages that all classes have: features, subsampling, a block, the encoder, its projection.
pub(crate) fn check_stages(case: &Case) {
    let samples = Oracle::values(case.tensor::<2>("audio"));
    let width = case.tensor::<2>("audio").dims()[1];
    let lengths = case.oracle.integers("audio_lengths");
    let rows: Vec<&[f32]> = samples.chunks(width).zip(&lengths).map(|(row, length)| &row[..*length]).collect();
    let (features, frames) = case.model.preprocessor().utterances(&rows, &case.device).unwrap();
    assert_eq!(frames, case.oracle.integers("feature_lengths"));
    // Single values near the logarithm's guard differ by more; numerics/features.rs looks at each.
    let reference = case.tensor::<3>("features");
    let features = features.narrow(1, 0, reference.dims()[1]);
    check("features", relative_error(features, reference, &frames), 1e-4);

    let look_ahead = case.streaming.then(|| case.oracle.facts["default_look_ahead"].as_u64().unwrap() as usize);
    let (encoded, valid) = case.encode(look_ahead);
    assert_eq!(valid, case.oracle.integers("encoder_lengths"));
    let features = match look_ahead {
        Some(_) => as_chunk(case.tensor("features"), case.model.encoder().lead()),
        None => case.tensor("features"),
    };
    let [subsampled, first] =
        case.model.encoder().stages(features, &case.oracle.integers("feature_lengths"), look_ahead).unwrap();
    check("subsampling", relative_error(subsampled, case.tensor("subsampling"), &valid), case.stage);
    check("first block", relative_error(first, case.tensor("layer0"), &valid), case.stage);
    check("encoder", relative_error(encoded, case.tensor("encoder"), &valid), case.encoder);
}

fn check_transducer(case: &Case) {
    let transducer = case.model.transducer().unwrap();
    let prefix: Vec<u32> = case.oracle.integers("predictor_tokens").into_iter().map(|t| t as u32).collect();
    let mut prediction = transducer.start(1, prefix[0]);
    let mut predicted = prediction.output().unwrap();
    for token in &prefix[1..] {
        transducer.step(&mut prediction, &[0], &[*token]);
        predicted.extend(prediction.output().unwrap());
    }
    let reference: Tensor<2> = case.tensor("predictor");
    let predicted = Tensor::<1>::from_floats(predicted.as_slice(), &case.device).reshape(reference.dims());
    let rows = [prefix.len()];
    check("predictor", relative_error(predicted.unsqueeze(), reference.clone().unsqueeze(), &rows), case.stage);

    let frames: Tensor<3> = case.tensor::<3>("encoder_projected").narrow(0, 0, 1).narrow(1, 0, 4);
    let joint: Tensor<3> = case.tensor("joint");
    let [count, prefix, vocabulary] = joint.dims();
    let frames = transducer.frames(frames).unwrap();
    let prediction = transducer.start(prefix, 0).with_output(reference).unwrap();
    let (at, rows): (Vec<usize>, Vec<usize>) = (0..count * prefix).map(|n| (n / prefix, n % prefix)).unzip();
    let (values, outputs) = transducer.joint(&frames, &at, &prediction, &rows).unwrap().into_values();
    let ours = Tensor::<1>::from_floats(values.as_slice(), &case.device).reshape([count, prefix, outputs]);
    let tokens = ours.clone().narrow(2, 0, vocabulary);
    check("joint", relative_error(tokens, joint, &vec![prefix; count]), case.stage);
    if !case.model.config().durations.is_empty() {
        let durations = ours.narrow(2, vocabulary, case.model.config().durations.len());
        check("durations", relative_error(durations, case.tensor("joint_durations"), &vec![prefix; count]), case.stage);
    }
}

/// Greedy tokens of the whole batch, and of each utterance by itself.
fn check_whole_utterances(case: &Case) {
    let lengths = case.oracle.integers("feature_lengths");
    let together = case.model.recognise(case.tensor("features"), &lengths, Search::Greedy(None)).unwrap();
    let references = case.oracle.facts["utterances"].as_array().unwrap();
    assert_eq!(together.len(), references.len());
    for (row, reference) in references.iter().enumerate() {
        assert_tokens(&format!("row {row} of the batch"), &together[row], reference);
        let alone = case.model.recognise(case.utterance(row), &lengths[row..=row], Search::Greedy(None)).unwrap();
        assert_tokens(&format!("row {row} alone"), &alone[0], reference);
        let spoken = case.model.vocabulary().words(&alone[0], case.model.frame_ms(), u64::MAX);
        assert_eq!(spoken.text, reference["text"].as_str().unwrap().trim(), "text of row {row}");
    }
}

/// Whole utterances at every look-ahead, and the same tokens from a stream whatever its steps.
fn check_streams(case: &Case, language: usize) {
    for (look_ahead, references) in case.oracle.facts["look_aheads"].as_object().unwrap() {
        let look_ahead: usize = look_ahead.parse().unwrap();
        let (encoded, valid) = case.encode(Some(look_ahead));
        let reference = case.tensor(&format!("encoder_la{look_ahead}"));
        check(&format!("look-ahead {look_ahead}"), relative_error(encoded, reference, &valid), case.encoder);
        let chunk = look_ahead + 1;
        for (row, reference) in references.as_array().unwrap().iter().enumerate() {
            for steps in [&[1][..], &[2, 1], &[5, 1, 3], &[1000]] {
                let steps: Vec<usize> = steps.iter().map(|n| n * chunk).collect();
                let tokens = case.stream(case.utterance(row), look_ahead, language, &steps);
                assert_tokens(&format!("look-ahead {look_ahead}, row {row}, steps {steps:?}"), &tokens, reference);
            }
        }
    }
    // The class's own streaming fills its last chunk up with frames of zeros, so the same is done here.
    for stream in case.oracle.facts["streams"].as_array().unwrap() {
        let row = stream["utterance"].as_u64().unwrap() as usize;
        let look_ahead = stream["look_ahead"].as_u64().unwrap() as usize;
        let features = case.utterance(row);
        let [_, _, mels] = features.dims();
        let filled = Tensor::zeros([1, stream["filled_mel_frames"].as_u64().unwrap() as usize, mels], &case.device);
        let features = Tensor::cat(vec![features, filled], 1);
        let tokens = case.stream(features, look_ahead, language, &[look_ahead + 1]);
        assert_tokens(&format!("the class's stream {row} at look-ahead {look_ahead}"), &tokens, stream);
    }
}

#[test]
fn parakeet_ctc_equals_the_published_class() {
    for (device, on_cpu) in devices() {
        let case = Case::open("ctc", &device, on_cpu);
        check_stages(&case);
        let (frames, valid) = case.encode(None);
        let logits = case.model.head_input(frames, 0);
        check("logits", relative_error(logits, case.tensor("logits"), &valid), case.encoder);
        check_whole_utterances(&case);
    }
}

#[test]
fn parakeet_rnnt_equals_the_published_class() {
    for (device, on_cpu) in devices() {
        let case = Case::open("rnnt", &device, on_cpu);
        check_stages(&case);
        check_transducer(&case);
        check_whole_utterances(&case);
    }
}

#[test]
fn parakeet_tdt_equals_the_published_class() {
    for (device, on_cpu) in devices() {
        let case = Case::open("tdt", &device, on_cpu);
        check_stages(&case);
        check_transducer(&case);
        check_whole_utterances(&case);
    }
}

#[test]
fn nemotron_streaming_equals_the_published_class() {
    for (device, on_cpu) in devices() {
        let case = Case::open("streaming", &device, on_cpu);
        check_stages(&case);
        check_transducer(&case);
        check_streams(&case, 0);
    }
}

#[test]
fn nemotron_with_language_prompts_equals_the_published_class() {
    for (device, on_cpu) in devices() {
        let case = Case::open("prompt", &device, on_cpu);
        check_stages(&case);
        check_transducer(&case);
        let look_ahead = case.oracle.facts["default_look_ahead"].as_u64().unwrap() as usize;
        for (language, facts) in case.oracle.facts["languages"].as_object().unwrap() {
            let slot = facts["prompt_id"].as_u64().unwrap() as usize;
            for (row, reference) in facts["utterances"].as_array().unwrap().iter().enumerate() {
                let tokens = case.stream(case.utterance(row), look_ahead, slot, &[look_ahead + 1]);
                assert_tokens(&format!("{language}, row {row}"), &tokens, reference);
                let spoken = case.model.vocabulary().words(&tokens, case.model.frame_ms(), u64::MAX);
                assert_eq!(spoken.text, reference["text"].as_str().unwrap().trim());
                let tagged = reference["text_with_tags"].as_str().unwrap();
                let tag = spoken.language.map(|language| format!("<{language}>"));
                assert_eq!(tag.is_some(), tagged.contains('<'), "a language tag in {tagged:?}");
                assert!(tag.is_none_or(|tag| tagged.contains(&tag)));
            }
        }
    }
}

#[test]
fn batched_streams_equal_single_streams() {
    let (device, _) = devices().remove(0);
    let case = Case::open("streaming", &device, true);
    let look_ahead = 3;
    let rows = case.oracle.integers("feature_lengths");
    let lead = case.model.encoder().lead();
    // Both utterances side by side in one stream of two rows; the shorter one ends first.
    let features = as_chunk(case.tensor("features"), lead);
    let total = features.dims()[1];
    let mut stream = case.model.stream(rows.len(), look_ahead, 0).unwrap();
    let mut together = vec![Vec::new(); rows.len()];
    for at in (0..total).step_by(8 * (look_ahead + 1)) {
        let size = (8 * (look_ahead + 1)).min(total - at);
        let valid: Vec<_> = rows
            .iter()
            .map(|n| lead.saturating_sub(at)..(lead + n).saturating_sub(at).min(size).max(lead.saturating_sub(at)))
            .collect();
        let tokens =
            case.model.step(&mut stream, features.clone().narrow(1, at, size), &valid, Search::Greedy(None)).unwrap();
        together.iter_mut().zip(tokens).for_each(|(all, new)| all.extend(new));
    }
    for (row, together) in together.iter().enumerate() {
        let alone = case.stream(case.utterance(row), look_ahead, 0, &[look_ahead + 1]);
        let ids = |tokens: &[Token]| tokens.iter().map(|t| (t.id, t.frame)).collect::<Vec<_>>();
        assert_eq!(ids(together), ids(&alone), "row {row}");
    }
}

/// Streams come and go, so that steps have 11, 10 and 13 rows, of which the first two are filled up to the same number; slots are given to
/// others, the tensors grow, and another thread goes on.
#[test]
fn steps_that_are_recorded_give_the_frames_of_the_cpu() {
    let Some((gpu, _)) = devices().into_iter().find(|(_, on_cpu)| !on_cpu) else { return };
    let (cpu, look_ahead) = (Device::flex(), 1);
    let load = |device: &Device, precision| FastConformer::load_with(&fixture("streaming"), device, precision).unwrap();
    let on_cpu = load(&cpu, Precision::F32);
    let config = &on_cpu.config().encoder;
    let chunk = (look_ahead + 1) * config.subsampling_factor;
    let features: Vec<Tensor<3>> = (0..24)
        .map(|_| Tensor::random([20, chunk, config.num_mel_bins], Distribution::Normal(0.0, 1.0), &cpu))
        .collect();
    let frames = |model: &FastConformer, device: &Device| {
        let encoder = model.encoder();
        let start = |count: usize| -> Vec<_> { (0..count).map(|_| encoder.start(1, look_ahead, device)).collect() };
        let mut states = start(11);
        let (mut frames, mut without_encoder) = (Vec::new(), 0);
        let mut steps = |range: std::ops::Range<usize>| {
            for step in range {
                match step {
                    6 => drop(states.remove(3)),
                    12 => states.extend(start(3)),
                    _ => {}
                }
                let rows = states.len();
                let features = Tensor::from_data(features[step].clone().narrow(0, 0, rows).into_data(), device);
                let mut states: Vec<_> = states.iter_mut().collect();
                let run = || encoder.forward_chunk(features, &vec![0..chunk; rows], &mut states).unwrap().0;
                let (output, launches) = count(run);
                without_encoder += usize::from(launches.total() <= 2);
                frames.push(output.into_data().try_to_vec::<f32>().unwrap());
            }
        };
        steps(0..16);
        std::thread::scope(|scope| scope.spawn(|| steps(16..20)).join().unwrap());
        steps(20..24);
        (frames, without_encoder)
    };
    let (expected, _) = frames(&on_cpu, &cpu);
    for (precision, tolerance) in [(Precision::F32, 1e-3), (Precision::F16, 0.1)] {
        let (ours, without_encoder) = frames(&load(&gpu, precision), &gpu);
        for (step, (ours, expected)) in ours.iter().zip(&expected).enumerate() {
            let off = ours.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(ours.len() == expected.len() && off < tolerance, "{precision:?}, step {step}: {off:e}");
        }
        assert!(without_encoder >= 12, "{precision:?}: {without_encoder} of 24 steps launch no more than their inputs");
    }
}

/// `docs/service.md` states this bound for a live session of any length.
#[test]
fn a_streams_state_has_a_bound() {
    for (device, on_cpu) in devices() {
        let model = FastConformer::load(&auricle_tests::models().join("starter/asr-en"), &device).unwrap();
        let config = &model.config().encoder;
        // A stream that is behind catches up in long steps.
        for (look_ahead, chunks) in [(1, [1, 1]), (13, [1, 8])] {
            let mut stream = model.stream(1, look_ahead, 0).unwrap();
            let steps = if on_cpu { 200 } else { 8 };
            let mut most = [0, 0];
            for step in 0..steps {
                let frames = chunks[step % 2] * (look_ahead + 1) * config.subsampling_factor;
                let features = Tensor::<3>::zeros([1, frames, config.num_mel_bins], &device);
                let valid = if step == 0 { model.encoder().lead()..frames } else { 0..frames };
                model.step(&mut stream, features, &[valid], Search::Greedy(None)).unwrap();
                let half = &mut most[2 * step / steps];
                *half = stream.encoder_bytes().max(*half);
            }
            assert!(most[1] <= most[0] && (500_000..1_700_000).contains(&most[0]), "{look_ahead}: {most:?} bytes");
        }
    }
}

#[test]
fn the_device_list_has_the_cpu_first() {
    let devices = device::devices();
    assert_eq!(devices[0].id, "cpu");
    for (number, device) in devices[1..].iter().enumerate() {
        assert_eq!(device.id, format!("vulkan:{number}"));
    }
}

#[test]
fn the_published_size_loads_and_runs() {
    let dir = tempfile::tempdir().unwrap();
    auricle_tests::write_published_size(dir.path(), 0.0).unwrap();
    let device = Device::flex();
    let model = FastConformer::load(dir.path(), &device).unwrap();
    assert!((600_000_000..640_000_000).contains(&model.parameters()), "{} parameters", model.parameters());
    let samples: Vec<f32> = (0..16_000 * 2).map(|n| ((n * n % 7919) as f32 / 7919.0 - 0.5) * 0.2).collect();
    let (features, lengths) = model.preprocessor().utterances(&[&samples], &device).unwrap();
    let (frames, valid) = model.encoder().forward(features.clone(), &lengths).unwrap();
    assert_eq!((frames.dims(), valid), ([1, 26, 1024], vec![25]));
    assert!(Oracle::values(frames).iter().all(|v| v.is_finite()));
    let tokens = model.recognise(features, &lengths, Search::Greedy(None)).unwrap();
    assert!(tokens[0].iter().all(|t| t.frame < 25 && (t.id as usize) < 8192));
}
