//! Whisper decoding on a GPU, which samples the tokens, against the CPU: the same text, probabilities and timestamps,
//! greedy, with beam search, with a temperature, in 8 and 4 bits, and batched.

use auricle_engine::Precision;
use auricle_engine::audio::AudioStream;
use auricle_engine::unstable::models::whisper::{DecodeOptions, DecodedWindow, DecodingBatch, Whisper};
use auricle_kernels::launches::count;
use auricle_tests::{devices, fixtures};
use burn::tensor::Device;

fn decode(model: &Whisper, windows: &[&[f32]], asks: &[DecodeOptions], timestamps: bool) -> Vec<DecodedWindow> {
    let frames = model.encode(windows).unwrap();
    let mut decoding = DecodingBatch::new(timestamps);
    let asks = asks.iter().enumerate().map(|(at, ask)| (at as u64, ask.clone())).collect();
    let mut done = decoding.add(model, &[frames], asks).unwrap();
    while decoding.rows() > 0 {
        done.extend(decoding.step(model).unwrap());
    }
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, said)| said).collect()
}

#[test]
fn decoding_on_a_gpu_equals_the_cpu() {
    let folder = fixtures().join("whisper/taught");
    let sound = |name: &str| {
        let path = folder.join("sounds").join(name);
        AudioStream::open(&path).unwrap().read_to_end().unwrap()
    };
    let sounds = ["english.flac", "german.flac"].map(sound);
    let windows: Vec<&[f32]> = sounds.iter().map(Vec::as_slice).collect();
    let on = |device: &Device, precision| Whisper::load_with(&folder, device, precision).unwrap();
    let here = on(&Device::flex(), Precision::F32);
    let language = |code: &str| here.config().special.languages[code];
    let plain = |code: &str| DecodeOptions {
        language: language(code),
        max_tokens: 60,
        frames: 400,
        ..DecodeOptions::default()
    };
    let asks = [
        ("greedy", true, [plain("en"), plain("de")]),
        ("without timestamps", false, [plain("en"), DecodeOptions { frames: 0, ..plain("de") }]),
        ("beams", true, [DecodeOptions { beams: 3, ..plain("en") }, plain("de")]),
        (
            "by chance",
            true,
            [
                DecodeOptions { temperature: 0.4, seed: 5, ..plain("en") },
                DecodeOptions { temperature: 1.0, seed: 6, max_tokens: 12, ..plain("de") },
            ],
        ),
        ("after something", true, [DecodeOptions { previous: vec![300, 301, 302], ..plain("en") }, plain("de")]),
        ("cut off", true, [DecodeOptions { max_tokens: 3, ..plain("en") }, plain("de")]),
    ];
    if let Some((device, _)) = devices().into_iter().find(|(_, on_cpu)| !on_cpu) {
        let full = [(here, on(&device, Precision::F32), [2e-3, 2e-3])];
        // The CPU rounds the token embedding as well, what meets the encoder's weights, and what the decoder hears.
        let less = [Precision::Int8, Precision::Int4]
            .map(|precision| (on(&Device::flex(), precision), on(&device, precision), [5e-2, 0.1]));
        let all = full.iter().flat_map(|models| asks.iter().map(move |asked| (models, asked)));
        let few = less.iter().flat_map(|models| asks[..1].iter().map(move |asked| (models, asked)));
        for ((here, there, [log_prob, probability]), (what, timestamps, asks)) in all.chain(few) {
            let assert_near = |a: f32, b: f32, tolerance: f32| {
                assert!((a - b).abs() < tolerance, "{what}: {a} is not {b}");
            };
            let (ours, theirs) =
                (decode(here, &windows, asks, *timestamps), decode(there, &windows, asks, *timestamps));
            for (row, (a, b)) in theirs.iter().zip(&ours).enumerate() {
                assert_eq!(a.tokens, b.tokens, "{what}, window {row}");
                assert!(a.tokens.len() > 2, "{what}, window {row}: {:?}", a.tokens);
                assert_near(a.log_prob, b.log_prob, *log_prob);
                assert_near(a.no_speech, b.no_speech, *probability);
                a.confidences.iter().zip(&b.confidences).for_each(|(a, b)| assert_near(*a, *b, *probability));
                assert_eq!((a.confidences.len(), a.weights.len()), (b.confidences.len(), b.weights.len()));
                // The GPU alone returns attention weights for the end of a text that was cut off.
                let known = a.weights.len() / (a.tokens.len() + 1) * a.tokens.len();
                a.weights[..known].iter().zip(&b.weights).for_each(|(a, b)| assert_near(*a, *b, *probability));
            }
        }
    }
}

/// The encoder in 16 bits: the same tokens.
#[test]
fn half_precision_hears_the_same() {
    let folder = fixtures().join("whisper/taught");
    let sound = AudioStream::open(folder.join("sounds/english.flac")).unwrap().read_to_end().unwrap();
    if let Some((device, _)) = devices().into_iter().find(|(_, on_cpu)| !on_cpu) {
        let [full, half] =
            [Precision::F32, Precision::F16].map(|precision| Whisper::load_with(&folder, &device, precision).unwrap());
        let ask = DecodeOptions {
            language: full.config().special.languages["en"],
            max_tokens: 60,
            frames: 400,
            ..DecodeOptions::default()
        };
        let [full, half] =
            [full, half].map(|model| decode(&model, &[&sound], std::slice::from_ref(&ask), true).remove(0));
        assert!(full.tokens.len() > 2, "{:?}", full.tokens);
        assert_eq!(half.tokens, full.tokens);
        assert!((half.log_prob - full.log_prob).abs() < 1e-2, "{} and {}", half.log_prob, full.log_prob);
    }
}

/// Past the columns that are allocated at first, and with rows that end: the scores of the CPU, and hardly a launch for most tokens.
#[test]
fn tokens_that_are_recorded_give_the_scores_of_the_cpu_without_launches() {
    let folder = fixtures().join("whisper/taught");
    let sound = AudioStream::open(folder.join("sounds/english.flac")).unwrap().read_to_end().unwrap();
    let on = |device: &Device| {
        let model = Whisper::load_with(&folder, device, Precision::F32).unwrap();
        let windows: [&[f32]; 3] = [&sound, &sound[3000..], &sound[..20_000]];
        let frames = model.encode(&windows).unwrap();
        (model.decoder().start(&frames).unwrap(), model)
    };
    let Some((device, _)) = devices().into_iter().find(|(_, on_cpu)| !on_cpu) else { return };
    let ((mut steps, here), (mut theirs, there)) = (on(&Device::flex()), on(&device));
    // Tokens at a time: several at once make the cache grow, too.
    let at_once = |at: u32| if at == 62 { 3 } else { 1 };
    let (mut rows, mut repeated) = (3, 0);
    for at in 0..90u32 {
        if at == 75 {
            rows = 2;
            (steps, theirs) = (steps.keep(&[0, 2]), theirs.keep(&[0, 2]));
        }
        let tokens: Vec<Vec<u32>> =
            (0..rows).map(|row| (0..at_once(at)).map(|next| (7 + 31 * at + 5 * row + next) % 250).collect()).collect();
        let wanted = here.decoder().forward(&mut steps, &tokens).unwrap().scores.read().unwrap();
        let (found, launches) = count(|| there.decoder().forward(&mut theirs, &tokens).unwrap());
        repeated += usize::from(launches.total() == 0);
        let found = found.scores.read().unwrap();
        assert_eq!(found.len(), wanted.len());
        for (place, (a, b)) in found.iter().zip(&wanted).enumerate() {
            assert!((a - b).abs() < 5e-3 * (1.0 + b.abs()), "token {at}, score {place}: {a} is not {b}");
        }
    }
    // Three times tensors are others, and then a token is launched and the next one recorded; and several tokens are no record.
    assert_eq!(repeated, 90 - 3 * 2 - 1, "tokens without a launch");
}
