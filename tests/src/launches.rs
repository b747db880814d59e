//! The steps whose kernel launches have budgets. The tests hold the budgets, and a load tool prints the counts.

use std::path::Path;

use auricle_engine::Precision;
use auricle_engine::audio::AudioStream;
use auricle_engine::unstable::decoding::Search;
use auricle_engine::unstable::models::fastconformer::{FastConformer, Stream};
use auricle_engine::unstable::models::kokoro::{self, Kokoro, Spoken};
use auricle_engine::unstable::models::pocket_tts::{PocketTts, SequenceOptions};
use auricle_engine::unstable::models::whisper::{DecodeOptions, DecodingBatch, Whisper};
use auricle_kernels::launches::{Launches, count};
use burn::tensor::{Device, Tensor};

use crate::{fixtures, repository};

/// What a log-mel of silence contains: the logarithm of its guard.
const SILENCE: f32 = -16.635_532;

fn silence(rows: usize, frames: usize, model: &FastConformer) -> Tensor<3> {
    Tensor::full([rows, frames, model.config().encoder.num_mel_bins], SILENCE, model.device())
}

fn starter(device: &Device) -> FastConformer {
    FastConformer::load(&repository().join("models/starter/asr-en"), device).unwrap()
}

/// One token of each of `windows` windows of the Whisper checkpoint in `folder`, the first of its shape and one that repeats a record,
/// and its layers. The checkpoint may not end its text within four tokens.
pub fn whisper_token(folder: &Path, device: &Device, windows: usize) -> ([Launches; 2], usize) {
    let model = Whisper::load(folder, device).unwrap();
    let sound = fixtures().join("whisper/taught/sounds/english.flac");
    let sound = AudioStream::open(&sound).unwrap().read_to_end().unwrap();
    let frames = model.encode(&vec![sound.as_slice(); windows]).unwrap();
    let language = model.config().special.languages["en"];
    let options = DecodeOptions { language, max_tokens: 60, ..DecodeOptions::default() };
    let mut decoding = DecodingBatch::new(false);
    let requests = (0..windows).map(|row| (row as u64, options.clone())).collect();
    assert!(decoding.add(&model, std::slice::from_ref(&frames), requests).unwrap().is_empty());
    // The second of three is recorded.
    let [first, _, repeated] = std::array::from_fn(|_| {
        let (done, launches) = count(|| decoding.step(&model).unwrap());
        assert!(done.is_empty());
        launches
    });
    ([first, repeated], model.config().decoder_layers)
}

/// One block of a Parakeet over a whole utterance: what two blocks launch beyond one.
pub fn conformer_block(device: &Device) -> Launches {
    let model = FastConformer::load(&fixtures().join("fastconformer/tdt"), device).unwrap();
    assert_eq!(model.config().encoder.num_hidden_layers, 2);
    let (features, lengths) = (silence(1, 320, &model), [320]);
    let encoder = model.encoder();
    // The relative keys of a length are computed once.
    encoder.forward(features.clone(), &lengths).unwrap();
    let (_, one) = count(|| encoder.stages(features.clone(), &lengths, None).unwrap());
    let (_, two) = count(|| encoder.forward(features.clone(), &lengths).unwrap());
    two.beyond(&one)
}

/// A step of 80 ms of silence of `rows` live streams of the starter, encoder and search: the first of its shape, and one that repeats a
/// record.
pub fn live_step(device: &Device, rows: usize) -> [Launches; 2] {
    let model = starter(device);
    let mut streams: Vec<Stream> = (0..rows).map(|_| model.stream(1, 0, 0).unwrap()).collect();
    let frames = model.config().encoder.subsampling_factor;
    let mut step = |first: usize| {
        let features = silence(rows, frames, &model);
        let mut streams: Vec<&mut Stream> = streams.iter_mut().collect();
        let (_, launches) = count(|| {
            let encoded = model.encode(&mut streams, features, &vec![first..frames; rows]).unwrap();
            model.search_together(&mut streams, &encoded, &vec![None; rows]).unwrap()
        });
        launches
    };
    step(model.encoder().lead());
    let first = step(0);
    // The second is recorded.
    step(0);
    [first, step(0)]
}

/// A step of 8.96 s of silence of a recording with the starter: encoder and search.
pub fn recording_step(device: &Device) -> Launches {
    let model = starter(device);
    let mut stream = model.stream(1, 13, 0).unwrap();
    let frames = 112 * model.config().encoder.subsampling_factor;
    let mut step = |first: usize| {
        let features = silence(1, frames, &model);
        let valid = first..frames;
        let valid = std::slice::from_ref(&valid);
        count(|| model.step(&mut stream, features, valid, Search::Greedy(None)).unwrap()).1
    };
    step(model.encoder().lead());
    step(0)
}

/// A clause of a folder of Kokoro's form, from its symbols to its samples.
pub fn kokoro_clause(folder: &Path, device: &Device) -> Launches {
    let model = Kokoro::load(folder, device, Precision::F32).unwrap();
    let symbols = [kokoro::SILENCE, model.symbols().gap(), model.symbols().gap(), kokoro::SILENCE];
    let (_, launches) = count(|| {
        let mut utterance = model.start(0, &symbols, 1.0).unwrap();
        while let Spoken::Unfinished(next) = model.advance(&utterance).unwrap() {
            utterance = next;
        }
    });
    launches
}

/// A frame of `streams` utterances of a folder of Pocket TTS's form, after their first: the first of its shape, and one that repeats a record.
pub fn pocket_frame(folder: &Path, device: &Device, streams: usize) -> [Launches; 2] {
    let model = PocketTts::load(folder, device, Precision::F32).unwrap();
    let options = SequenceOptions { seed: 1, greedy: false, frames_after_end: 1 << 10 };
    // One more begins with them, so that the step after has another shape.
    let mut utterances: Vec<_> = (0..=streams).map(|_| model.start(0, &[1, 2, 3], options).unwrap()).collect();
    let mut step = |count_of: usize| {
        let mut step: Vec<_> = utterances.iter_mut().take(count_of).collect();
        count(|| model.step(&mut step).unwrap()).1
    };
    step(streams + 1);
    let first = step(streams);
    // The second is recorded.
    step(streams);
    [first, step(streams)]
}
