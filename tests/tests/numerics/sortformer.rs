//! The diarizer against transformers' class: its stages, each stage of the speaker cache, and minutes of a recording.

use std::path::{Path, PathBuf};

use auricle_engine::unstable::models::sortformer::{
    CachePolicy, Chunking, Sortformer, SpeakerStream, Step, frames_moved, pool,
};
use auricle_engine::unstable::speakers::activity::ActiveSpans;
use auricle_tests::{Oracle, devices, relative_error, with_config};
use burn::tensor::Device;
use serde_json::json;

/// Mel frames of an encoder frame.
const FACTOR: usize = 8;
const MELS: usize = 16;
const SPEAKERS: usize = 3;

fn fixture() -> PathBuf {
    auricle_tests::fixtures().join("sortformer")
}

fn values<const D: usize>(oracle: &Oracle, name: &str) -> Vec<f32> {
    Oracle::values(oracle.tensor::<D>(name, &Device::flex()))
}

fn assert_close(what: &str, ours: &[f32], theirs: &[f32], tolerance: f32) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (at, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!(a == b || (a - b).abs() <= tolerance, "{what}, value {at}: {a} against {b}");
    }
}

#[test]
fn stages_equal_those_of_the_published_class() {
    let oracle = Oracle::open(&fixture());
    for (device, on_cpu) in devices() {
        let model = Sortformer::load(&fixture(), &device).unwrap();
        let tolerance = if on_cpu { 1e-5 } else { 2e-4 };
        let embedded = model.embed(oracle.tensor("window", &device));
        let encoded = model.encode(embedded.clone());
        let frames = [embedded.dims()[1]];
        for (ours, name) in [(embedded, "embedded"), (encoded.clone(), "encoded")] {
            let error = relative_error(ours, oracle.tensor(name, &device), &frames);
            assert!(error <= tolerance, "{name}: {error}");
        }
        let mut front_end = model.log_mels().unwrap();
        let mut mels = front_end.push(&values::<1>(&oracle, "audio"));
        mels.extend(front_end.finish());
        assert_close("mels", &mels, &values::<2>(&oracle, "mels"), 2e-3);
        let error = relative_error(model.classify(encoded), oracle.tensor("scored", &device), &[frames[0] * FACTOR]);
        assert!(error <= tolerance, "scored: {error}");
    }
}

/// The policy of the fixture's cache, of 25 frames and 3 speakers.
fn policy() -> CachePolicy {
    CachePolicy::new(&Sortformer::load(&fixture(), &Device::flex()).unwrap().config().cache, SPEAKERS)
}

/// The scores of each speaker, sorted: which of equal ones is boosted is open.
fn sorted(scores: &[f32]) -> Vec<f32> {
    let of = |speaker: usize| {
        let mut own: Vec<f32> = scores.iter().copied().skip(speaker).step_by(SPEAKERS).collect();
        own.sort_by(f32::total_cmp);
        own
    };
    (0..SPEAKERS).flat_map(of).collect()
}

#[test]
fn each_stage_of_the_speaker_cache_equals_the_published_one() {
    let (oracle, policy) = (Oracle::open(&fixture()), policy());
    let of = |stage: &str, case: &str| values::<2>(&oracle, &format!("{stage}_{case}"));
    let cases = oracle.facts["cases"].as_array().unwrap();
    assert!(cases.len() >= 10);
    for case in cases {
        let case = case.as_str().unwrap();
        let activity = of("activity", case);
        let mut scores = policy.scores(&activity);
        assert_close(&format!("scores, {case}"), &scores, &of("scores", case), 1e-5);
        policy.boost_latest(&mut scores);
        policy.boost_strongly(&mut scores);
        assert_close(&format!("strong, {case}"), &sorted(&scores), &sorted(&of("strong", case)), 1e-5);
        policy.boost_weakly(&mut scores);
        assert_close(&format!("weak, {case}"), &sorted(&scores), &sorted(&of("weak", case)), 1e-5);
        // The oracle tells a run of equal frames by its number, and silence by -1.
        let frames: Vec<&[f32]> = activity.chunks_exact(SPEAKERS).collect();
        let run = |frame: usize| frames[..=frame].windows(2).filter(|pair| pair[0] != pair[1]).count() as f32;
        let kept = policy.select(&scores);
        let runs: Vec<f32> = kept.iter().map(|frame| frame.map_or(-1.0, run)).collect();
        assert_eq!(runs, values::<1>(&oracle, &format!("kept_{case}")), "{case}");
        assert_eq!(kept, policy.keep(&activity), "{case}: the stages together");
        let silence = [0.0; SPEAKERS];
        let of_kept: Vec<f32> =
            kept.iter().flat_map(|frame| frame.map_or(&silence[..], |at| frames[at])).copied().collect();
        assert_eq!(of_kept, of("kept_activity", case), "{case}");
    }
    assert!(policy.keep(&of("activity", "silent")).iter().all(Option::is_none), "an all-silent cache is silence");
}

#[test]
fn activities_and_the_overflow_of_the_queue_equal_the_published_ones() {
    let oracle = Oracle::open(&fixture());
    let pooled = pool(&values::<2>(&oracle, "pooled_logits"), SPEAKERS, FACTOR);
    assert_close("pooled", &pooled, &values::<2>(&oracle, "pooled"), 1e-6);
    for (lengths, theirs) in oracle.facts["moved"].as_object().unwrap() {
        let (queue, moved) = lengths.split_once('/').unwrap();
        let (queue, moved) = (queue.parse().unwrap(), moved.parse().unwrap());
        let ours: Vec<usize> = (0..400).map(|frames| frames_moved(frames, queue, moved)).collect();
        assert_eq!(json!(ours), *theirs, "{lengths}");
    }
}

/// The mel frames of the fixture's recording.
fn recording(oracle: &Oracle) -> Vec<f32> {
    let pool = values::<3>(oracle, "pool");
    let order: Vec<usize> = serde_json::from_value(oracle.facts["order"].clone()).unwrap();
    let group = FACTOR * MELS;
    let mut mels: Vec<f32> = order.iter().flat_map(|at| pool[at * group..(at + 1) * group].iter().copied()).collect();
    mels.truncate(oracle.facts["frames"].as_u64().unwrap() as usize * MELS);
    mels
}

fn run(model: &Sortformer, stream: &mut SpeakerStream, most: usize) -> (Vec<f32>, Vec<Step>) {
    let (mut logits, mut steps) = (Vec::new(), Vec::new());
    while let Some(step) = stream.next_step().filter(|_| steps.len() < most) {
        let scored = model.step(&[(stream.kept(), stream.heard(step))]).unwrap();
        logits.extend(stream.advance(step, &scored[0]));
        steps.push(step);
    }
    (logits, steps)
}

/// The logits of a recording that comes in pieces of so many mel frames, its steps, and the stream at its end.
fn diarize(model: &Sortformer, chunking: Chunking, mels: &[f32], piece: usize) -> (Vec<f32>, Vec<Step>, SpeakerStream) {
    let mut stream = model.stream(chunking);
    let (mut logits, mut steps) = (Vec::new(), Vec::new());
    for piece in mels.chunks(piece * MELS) {
        stream.push(piece);
        let (found, done) = run(model, &mut stream, usize::MAX);
        logits.extend(found);
        steps.extend(done);
    }
    stream.finish();
    let (found, done) = run(model, &mut stream, usize::MAX);
    logits.extend(found);
    steps.extend(done);
    (logits, steps, stream)
}

#[test]
fn minutes_of_a_recording_equal_those_of_the_published_class() {
    let oracle = Oracle::open(&fixture());
    let mels = recording(&oracle);
    assert!(mels.len() / MELS > 3 * 60 * 100);
    assert!(oracle.facts["smallest_margin"].as_f64().unwrap() > 2e-5, "rounding decides nothing");
    for (device, on_cpu) in devices() {
        let model = Sortformer::load(&fixture(), &device).unwrap();
        let tolerance = if on_cpu { 1e-3 } else { 1e-2 };
        let offline = model.config().offline();
        let (ours, steps, _) = diarize(&model, offline, &mels, 997);
        assert_close("offline", &ours, &values::<3>(&oracle, "offline"), tolerance);
        assert!(steps.iter().filter(|step| step.cache == 25).count() > 60, "the cache overflows again and again");
        assert!(steps[1..].iter().all(|step| step.look_back == 2), "{steps:?}");
        let known = oracle.facts["told"].as_u64().unwrap() as usize;
        let theirs: Vec<(f64, f64, usize)> = serde_json::from_value(oracle.facts["segments"].clone()).unwrap();
        if on_cpu {
            let mut spans = ActiveSpans::new(SPEAKERS, model.frame_ms());
            spans.push(&ours[..known * SPEAKERS]);
            let ours = spans.finish().into_iter();
            let seconds = |ms: u64| ms as f64 / 1000.0;
            let ours = ours.map(|one| (seconds(one.span.start), seconds(one.span.end), one.speaker));
            assert_eq!(ours.collect::<Vec<_>>(), theirs);
        }
        for frames in oracle.facts["short"].as_array().unwrap() {
            let frames = frames.as_u64().unwrap() as usize;
            let (ours, ..) = diarize(&model, offline, &mels[..frames * MELS], frames);
            assert_close(
                &format!("{frames} frames"),
                &ours,
                &values::<3>(&oracle, &format!("offline_{frames}")),
                tolerance,
            );
        }
        assert_eq!(diarize(&model, offline, &[], 1).0, [0f32; 0], "no audio, no activity");
        if !on_cpu {
            // A stream's many short steps take a software adapter minutes, and compute nothing else.
            continue;
        }
        let [chunk, look_ahead]: [usize; 2] = serde_json::from_value(oracle.facts["live"].clone()).unwrap();
        let (ours, steps, stream) = diarize(&model, model.config().live(chunk, look_ahead), &mels, 10);
        assert_close("live", &ours, &values::<3>(&oracle, "live"), tolerance);
        assert!(steps.len() > 200 && steps[0].chunk == chunk && steps[0].look_ahead == look_ahead, "{:?}", steps[0]);
        for (ours, name) in stream.state().into_iter().zip(["live_cache", "live_cache_activity", "live_queue"]) {
            assert_close(name, ours, &values::<2>(&oracle, name), tolerance);
        }
    }
}

#[test]
fn streams_that_share_a_step_are_heard_as_if_alone() {
    let mels = recording(&Oracle::open(&fixture()));
    let rest = &mels[5000 * MELS..];
    for (device, _) in devices() {
        let model = Sortformer::load(&fixture(), &device).unwrap();
        let offline = model.config().offline();
        let mut streams = [&mels[..], rest].map(|mels| {
            let mut stream = model.stream(offline);
            stream.push(mels);
            stream
        });
        let mut alone = streams.clone();
        for _ in 0..6 {
            let step = streams[0].next_step().unwrap();
            let rows: Vec<_> = streams.iter().map(|stream| (stream.kept(), stream.heard(step))).collect();
            let scored = model.step(&rows).unwrap();
            for ((stream, scored), alone) in streams.iter_mut().zip(&scored).zip(&mut alone) {
                let ours = stream.advance(step, scored);
                assert_close("shared", &ours, &run(&model, alone, 1).0, 1e-3);
            }
        }
        let kept = streams[0].kept();
        let step = streams[0].next_step().unwrap();
        let uneven = [(kept.clone(), streams[0].heard(step)), (kept[..32].to_vec(), streams[1].heard(step))];
        assert!(model.step(&uneven).is_err());
        assert_eq!(model.step(&[]).unwrap(), []);
    }
}

fn load_error(dir: &Path) -> String {
    Sortformer::load(dir, &Device::flex()).unwrap_err().to_string()
}

#[test]
fn a_checkpoint_of_another_shape_is_refused_by_name() {
    let check = |change: &dyn Fn(&mut serde_json::Value), said: &str| {
        let dir = with_config(&fixture(), change);
        let error = load_error(dir.path());
        assert!(error.contains(said), "{error}: should say {said}");
    };
    check(&|config| config["audio_config"]["intermediate_size"] = 44.into(), "mlp.fc1");
    check(&|config| config["audio_config"]["num_hidden_layers"] = 2.into(), "layers.2");
    check(&|config| config["audio_config"]["hidden_size"] = 40.into(), "audio_hidden_size");
    check(&|config| config["audio_config"]["num_attention_heads"] = 5.into(), "divide");
    check(&|config| config["audio_config"]["num_key_value_heads"] = 2.into(), "heads of keys");
    check(&|config| config["audio_config"]["hidden_act"] = "relu".into(), "gelu");
    check(&|config| config["audio_config"]["hidden_size"] = (1u64 << 40).into(), "widths");
    check(&|config| config["audio_config"]["rope_parameters"]["rope_type"] = "yarn".into(), "yarn");
    check(&|config| config["audio_config"]["subsampling_factor"] = 4.into(), "subsampling_factor");
    check(&|config| config["head_config"]["audio_hidden_size"] = 16.into(), "audio_hidden_size");
    check(&|config| config["head_config"]["num_speakers"] = 4.into(), "num_speakers");
    check(&|config| config["streaming_config"]["speaker_cache_length"] = 5.into(), "speaker_cache_length");
    check(&|config| config["streaming_config"]["fifo_length"] = 0.into(), "lengths");
    check(&|config| config["chunk_right_context"] = 34.into(), "chunk_right_context");
    check(&|config| config["model_type"] = "ecapa_tdnn".into(), "nemotron3_diarization");
    assert!(load_error(tempfile::tempdir().unwrap().path()).contains("config.json"));
    let other = with_config(&fixture(), |_| ());
    let processor = r#"{"feature_extractor": {"feature_size": 80}}"#;
    std::fs::write(other.path().join("processor_config.json"), processor).unwrap();
    assert!(load_error(other.path()).contains("16 mel bins"), "{}", load_error(other.path()));
}
