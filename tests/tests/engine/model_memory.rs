//! Loaded models within their memory: those that nobody uses leave for others and come back, those in use stay.

use std::path::Path;
use std::time::{Duration, Instant};

use auricle_engine::audio::AudioStream;
use auricle_engine::blocking::Engine;
use auricle_engine::{
    DeviceChoice, EngineOptions, Error, ListenOptions, LiveEvent, SecondPass, SpeakOptions, TranscribeOptions,
};
use auricle_tests::{models, speech, tiny_voice};

fn options() -> EngineOptions {
    EngineOptions::default().models(models()).device(DeviceChoice::Cpu)
}

fn transcribe(engine: &Engine) -> String {
    engine.transcribe_file(speech(), &TranscribeOptions::default()).unwrap().text
}

fn speak(engine: &Engine, voice: &Path) -> Result<usize, Error> {
    let (mut input, speech) = engine.speak(&SpeakOptions::default().checkpoint(voice))?;
    input.push("Good morning.")?;
    input.finish();
    speech.map(|frame| frame.map(|frame| frame.samples.len())).sum()
}

/// Bytes of all loaded models.
fn bytes(engine: &Engine) -> u64 {
    engine.loaded_models().iter().map(|(_, bytes)| bytes).sum()
}

fn has(engine: &Engine, path: &Path) -> bool {
    let path = path.canonicalize().unwrap();
    engine.loaded_models().iter().any(|(loaded, _)| loaded.canonicalize().unwrap() == path)
}

/// Tries again while the worker has not yet seen the end of a stream before.
fn once_idle<T>(mut call: impl FnMut() -> Result<T, Error>) -> T {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match call() {
            Err(Error::Busy(_)) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            result => return result.unwrap(),
        }
    }
}

#[test]
fn models_that_nobody_uses_leave_for_others_and_come_back() {
    let voice = tiny_voice();
    let recogniser = models().join("starter/asr-multi");
    let unbounded = Engine::open(options()).unwrap();
    let text = transcribe(&unbounded);
    let heard = bytes(&unbounded);
    let said = speak(&unbounded, voice.path()).unwrap();
    assert!(has(&unbounded, &recogniser) && has(&unbounded, voice.path()), "all of it fits this machine");
    let weights = recogniser.join("model-00001-of-00002.gguf").metadata().unwrap().len();
    assert!(heard >= weights && bytes(&unbounded) > heard, "{heard} of a file of {weights}");

    let limit = bytes(&unbounded) - 1;
    let engine = Engine::open(options().model_memory(limit)).unwrap();
    for round in 0..3 {
        assert_eq!(once_idle(|| engine.transcribe_file(speech(), &TranscribeOptions::default())).text, text);
        assert!(has(&engine, &recogniser), "round {round}");
        assert_eq!(once_idle(|| speak(&engine, voice.path())), said);
        assert!(has(&engine, voice.path()), "round {round}");
        assert!(bytes(&engine) <= limit, "{} of {limit}", bytes(&engine));
    }
}

#[test]
fn a_model_in_use_stays() {
    let voice = tiny_voice();
    let recogniser = models().join("starter/asr-en");
    let engine = Engine::open(options()).unwrap();
    engine.load_live(&ListenOptions::default().second_pass(SecondPass::Off)).unwrap();
    let needed = bytes(&engine);
    speak(&engine, voice.path()).unwrap();
    let engine = Engine::open(options().model_memory(needed + 1000)).unwrap();
    let (mut input, events) = engine.listen(&ListenOptions::default().second_pass(SecondPass::Off)).unwrap();
    let samples = AudioStream::open(speech()).unwrap().read_to_end().unwrap();
    let (first, second) = samples.split_at(samples.len() / 2);
    input.push(first).unwrap();
    let refused = speak(&engine, voice.path());
    assert!(matches!(&refused, Err(Error::Busy(why)) if why.contains("models in use")), "{refused:?}");
    assert!(has(&engine, &recogniser));
    input.push(second).unwrap();
    input.finish().unwrap();
    let finals = events.filter_map(|event| match event.unwrap() {
        LiveEvent::Final(caption) => Some(caption.text),
        _ => None,
    });
    let words = finals.collect::<Vec<_>>().join(" ");
    assert!(words.split_whitespace().count() > 10, "{words}");
    drop(input);
    // Nobody uses it any more.
    assert!(once_idle(|| speak(&engine, voice.path())) > 0);
    assert!(!has(&engine, &recogniser));
}

#[test]
fn a_model_larger_than_the_limit_loads_alone() {
    let voice = tiny_voice();
    let engine = Engine::open(options().model_memory(1)).unwrap();
    assert!(speak(&engine, voice.path()).unwrap() > 0);
    assert!(has(&engine, voice.path()));
}
