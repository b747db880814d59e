//! Speaker labels by a diarizer, through the engine's API. That of the fixtures has random weights and three speakers: its labels are
//! nonsense, but they are its own.

use std::io::Cursor;
use std::path::Path;
use std::time::{Duration, Instant};

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::Engine;
use auricle_engine::unstable::models::sortformer::Sortformer;
use auricle_engine::unstable::speakers::activity::ActiveSpans;
use auricle_engine::unstable::speakers::clustering::in_order;
use auricle_engine::unstable::speakers::sentences::move_changes;
use auricle_engine::unstable::speakers::words;
use auricle_engine::{
    DeviceChoice, EngineOptions, Error, SpeakerLabels, TranscribeOptions, Transcript, check_diarizer,
};
use auricle_tests::{fixtures, models_with_diarizer, pcm, readers, with_config};
use burn::tensor::Device;

fn engine(diarizer: &Path) -> Engine {
    let models = models_with_diarizer(diarizer);
    Engine::open(EngineOptions::default().models(models.path()).device(DeviceChoice::Cpu)).unwrap()
}

fn label(engine: &Engine, samples: &[f32], speakers: SpeakerLabels) -> Result<Transcript, Error> {
    let pcm = pcm(samples.iter().copied());
    let audio = AudioStream::from_pcm_s16le(Cursor::new(pcm), SAMPLE_RATE, 1).unwrap();
    engine.transcribe(audio, &TranscribeOptions::default().speakers(speakers))
}

fn speakers(labelled: &Transcript) -> Vec<&str> {
    labelled.words.iter().map(|word| word.speaker.as_deref().unwrap()).collect()
}

/// Two readers, each twice.
fn conversation() -> Vec<f32> {
    let [his, hers] = readers();
    [his.clone(), hers.clone(), his, hers].concat()
}

/// The labels of a transcript's words by the diarizer itself.
fn labels_by(diarizer: &Path, samples: &[f32], labelled: &Transcript) -> Vec<String> {
    let model = Sortformer::load(diarizer, &Device::flex()).unwrap();
    let (mut front_end, mut stream) = (model.log_mels().unwrap(), model.stream(model.config().offline()));
    let samples: Vec<u8> = pcm(samples.iter().copied());
    let mut heard = AudioStream::from_pcm_s16le(Cursor::new(samples), SAMPLE_RATE, 1).unwrap();
    stream.push(&front_end.push(&heard.read_to_end().unwrap()));
    stream.push(&front_end.finish());
    stream.finish();
    let mut spans = ActiveSpans::new(model.speakers(), model.frame_ms());
    while let Some(step) = stream.next_step() {
        let scored = model.step(&[(stream.kept(), stream.heard(step))]).unwrap();
        spans.push(&stream.advance(step, &scored[0]));
    }
    let spoken: Vec<_> = labelled.words.iter().map(|word| word.start..word.end).collect();
    let texts: Vec<&str> = labelled.words.iter().map(|word| word.text.as_str()).collect();
    let activity = spans.finish();
    let mut speakers = words::assign(&spoken, &activity);
    move_changes(&texts, &spoken, &activity, &mut speakers);
    in_order(&speakers).into_iter().map(words::label).collect()
}

#[test]
fn words_have_the_speakers_that_the_diarizer_hears() {
    let (diarizer, samples) = (fixtures().join("sortformer"), conversation());
    assert!(samples.len() > 30 * SAMPLE_RATE as usize, "longer than many chunks of 2.7 s");
    let engine = engine(&diarizer);
    let labelled = label(&engine, &samples, SpeakerLabels::Found).unwrap();
    let found = speakers(&labelled);
    assert!(found.len() > 40 && found.contains(&"B"), "{found:?}");
    assert_eq!(found, labels_by(&diarizer, &samples, &labelled));
    // A hint that it can follow changes nothing; several recordings at once are heard as if alone.
    let at_once: Vec<Transcript> = std::thread::scope(|scope| {
        let one = || scope.spawn(|| label(&engine, &samples, SpeakerLabels::Expected(3)).unwrap());
        let threads: Vec<_> = (0..2).map(|_| one()).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(at_once.iter().all(|one| speakers(one) == found));
    for silence in [0, 5 * SAMPLE_RATE as usize] {
        let silence = label(&engine, &vec![0.0; silence], SpeakerLabels::Found).unwrap();
        assert_eq!((silence.words.len(), silence.utterances.as_deref()), (0, Some(&[][..])));
    }
}

#[test]
fn more_speakers_than_the_diarizer_has_are_clustered() {
    let samples = conversation();
    let diarized = engine(&fixtures().join("sortformer"));
    let clustered = engine(Path::new("none"));
    let speakers_of = |engine: &Engine| {
        let labelled = label(engine, &samples, SpeakerLabels::Expected(4)).unwrap();
        speakers(&labelled).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let found = speakers_of(&diarized);
    assert_eq!(found, speakers_of(&clustered));
    assert_ne!(
        found,
        labels_by(
            &fixtures().join("sortformer"),
            &samples,
            &label(&clustered, &samples, SpeakerLabels::Found).unwrap()
        )
    );
}

#[test]
fn a_checkpoint_of_another_shape_is_one_clear_error() {
    let short = &conversation()[..SAMPLE_RATE as usize];
    let error = |diarizer: &Path| {
        let error = label(&engine(diarizer), short, SpeakerLabels::Found).unwrap_err().to_string();
        assert_eq!(error, check_diarizer(diarizer).unwrap_err().to_string());
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    let other = error(&fixtures().join("whisper/multi"));
    assert!(other.contains("config.json: model_type whisper tells no speakers apart"), "{other}");
    let wider = with_config(&fixtures().join("sortformer"), |config| config["head_config"]["hidden_size"] = 16.into());
    assert!(error(wider.path()).contains("model.proj.weight"), "{}", error(wider.path()));
}

/// The published size has 31 blocks; a step of fewer says the same of the shapes, in less time.
#[test]
fn the_published_size_loads_and_labels() {
    let dir = tempfile::tempdir().unwrap();
    auricle_tests::write_diarizer_size(dir.path(), 3).unwrap();
    let blocks = auricle_tests::DIARIZER_BLOCKS;
    let per_block = 4 * 512 * 512 + 512 + 2 * 512 * 2048 + 2048 + 512 + 4 * 512;
    assert_eq!(check_diarizer(dir.path()).unwrap() + (blocks - 3) * per_block, 99_226_504);
    let engine = engine(dir.path());
    let began = Instant::now();
    let labelled = label(&engine, &conversation(), SpeakerLabels::Expected(8)).unwrap();
    assert!(speakers(&labelled).len() > 40 && began.elapsed() < Duration::from_secs(120));
}
