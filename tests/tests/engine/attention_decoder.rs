//! Recordings by Cohere Transcribe and Canary, with random weights: windows, languages, translation, and options that they lack.

use std::io::Cursor;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::Engine;
use auricle_engine::{
    DeviceChoice, EngineOptions, Error, Keyterm, LanguageModelChoice, Result, TranscribeOptions, Transcript,
};
use auricle_tests::{devices, fixtures, models_with, speech};

fn engine(device: DeviceChoice) -> Engine {
    Engine::open(EngineOptions::default().models(auricle_tests::models()).device(device)).unwrap()
}

fn options(name: &str, language: &str) -> TranscribeOptions {
    TranscribeOptions::default().checkpoint(fixtures().join("fastconformer").join(name)).language(language)
}

/// The sample so many times, with a pause after each.
fn transcribe(engine: &Engine, repeats: usize, options: &TranscribeOptions) -> Result<Transcript> {
    let mut samples = AudioStream::open(speech()).unwrap().read_to_end().unwrap();
    samples.resize(samples.len() + SAMPLE_RATE as usize / 2, 0.0);
    let pcm: Vec<u8> = samples.iter().flat_map(|s| ((s * 32_767.0) as i16).to_le_bytes()).collect();
    engine.transcribe(AudioStream::from_pcm_s16le(Cursor::new(pcm.repeat(repeats)), SAMPLE_RATE, 1)?, options)
}

#[test]
fn a_long_recording_is_read_in_windows_in_a_named_language() {
    let engine = engine(DeviceChoice::Cpu);
    for (name, languages) in [("cohere", ["en", "de"]), ("canary", ["en", "fr"])] {
        for language in languages {
            let heard = transcribe(&engine, 24, &options(name, language)).unwrap();
            assert_eq!(heard.language_code.as_deref(), Some(language));
            let end_ms = (heard.audio_duration_sec * 1000.0) as u64;
            assert!(end_ms > 60_000 && heard.words.last().unwrap().end > 40_000, "{name}: {heard:?}");
            assert!(heard.words.windows(2).all(|pair| pair[0].start <= pair[1].start), "{name}: times go back");
            assert!(heard.words.iter().all(|word| word.start <= word.end && word.end <= end_ms));
        }
    }
}

#[test]
fn a_model_of_the_catalog_warms_up_and_serves() {
    let models = models_with("cohere");
    let engine = Engine::open(EngineOptions::default().models(models.path()).device(DeviceChoice::Cpu)).unwrap();
    engine.load(&TranscribeOptions::default()).unwrap();
    engine.warm_up().unwrap();
    let heard = transcribe(&engine, 1, &TranscribeOptions::default().language("en")).unwrap();
    assert!(!heard.words.is_empty() && heard.model == "svc-best", "{heard:?}");
}

/// A batch of windows on a GPU has the words of one window after another on the CPU.
#[test]
fn a_gpu_writes_the_same() {
    let cpu = engine(DeviceChoice::Cpu);
    if devices().len() < 2 {
        return;
    }
    let gpu = engine(std::env::var("AURICLE_TESTS_GPU").map_or(DeviceChoice::Vulkan(0), |gpu| gpu.parse().unwrap()));
    for name in ["cohere", "canary"] {
        let texts = [&cpu, &gpu].map(|engine| transcribe(engine, 3, &options(name, "en")).unwrap().text);
        assert!(texts[0] == texts[1] && !texts[0].is_empty(), "{name}: {texts:?}");
    }
}

#[test]
fn canary_translates_to_english() {
    let engine = engine(DeviceChoice::Cpu);
    let codes = [false, true]
        .map(|translate| transcribe(&engine, 1, &options("canary", "fr").translate(translate)).unwrap().language_code);
    assert_eq!(codes.each_ref().map(Option::as_deref), [Some("fr"), Some("en")]);
    let refused = transcribe(&engine, 1, &options("cohere", "de").translate(true));
    assert!(matches!(&refused, Err(Error::InvalidOption(why)) if why.contains("translate")), "{refused:?}");
}

#[test]
fn options_that_it_lacks_are_refused_by_name() {
    let engine = engine(DeviceChoice::Cpu);
    let plain = || options("cohere", "en");
    let lm = fixtures().join("lm/small.arpa");
    for wrong in [
        plain().beam(4),
        plain().language_model(LanguageModelChoice::File(lm)),
        plain().sequential(true),
        plain().look_ahead_ms(560),
    ] {
        let refused = transcribe(&engine, 1, &wrong);
        assert!(matches!(refused, Err(Error::InvalidOption(_))), "{wrong:?}: {refused:?}");
    }
    for (language, named) in [(None, "name one of de, en, ja"), (Some("ko"), "no language ko; it has de, en, ja")] {
        let wrong = match language {
            Some(language) => options("cohere", language),
            None => TranscribeOptions::default().checkpoint(fixtures().join("fastconformer/cohere")),
        };
        let refused = transcribe(&engine, 1, &wrong);
        assert!(matches!(&refused, Err(Error::Language(why)) if why.contains(named)), "{refused:?}");
    }
    let several = TranscribeOptions::default().checkpoint(fixtures().join("fastconformer/cohere"));
    assert!(matches!(transcribe(&engine, 1, &several.clone().languages(["en", "de"])), Err(Error::Language(_))));
    assert!(transcribe(&engine, 1, &several.languages(["de"])).is_ok());
}

/// Random weights write other words where words are expected.
#[test]
fn keyterms_bias_the_text() {
    let engine = engine(DeviceChoice::Cpu);
    let plain = transcribe(&engine, 1, &options("cohere", "en")).unwrap().text;
    let terms = [Keyterm::from("he").weight(100.0)];
    let biased = transcribe(&engine, 1, &options("cohere", "en").keyterms(terms)).unwrap().text;
    assert!(!plain.contains("he") && biased.contains("he"), "{plain:?}, {biased:?}");
}
