//! Recordings by Qwen3-ASR, with random weights: windows, languages, context, and options that it lacks.

use std::io::Cursor;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::{Engine, check_model};
use auricle_engine::{
    DeviceChoice, EngineOptions, Error, Keyterm, LanguageModelChoice, ListenOptions, Result, SecondPass,
    TranscribeOptions, Transcript,
};
use auricle_tests::{devices, fixtures, models_with, speech, with_json};

fn engine(device: DeviceChoice) -> Engine {
    Engine::open(EngineOptions::default().models(auricle_tests::models()).device(device)).unwrap()
}

fn options(name: &str) -> TranscribeOptions {
    TranscribeOptions::default().checkpoint(fixtures().join("qwen3_asr").join(name))
}

/// The sample so many times, with a pause after each.
fn transcribe(engine: &Engine, repeats: usize, options: &TranscribeOptions) -> Result<Transcript> {
    let mut samples = AudioStream::open(speech()).unwrap().read_to_end().unwrap();
    samples.resize(samples.len() + SAMPLE_RATE as usize / 2, 0.0);
    let pcm: Vec<u8> = samples.iter().flat_map(|s| ((s * 32_767.0) as i16).to_le_bytes()).collect();
    engine.transcribe(AudioStream::from_pcm_s16le(Cursor::new(pcm.repeat(repeats)), SAMPLE_RATE, 1)?, options)
}

fn warned(heard: &Transcript, about: &str) -> bool {
    heard.warnings.iter().any(|warning| warning.contains(about))
}

#[test]
fn a_long_recording_is_read_in_windows_side_by_side() {
    let engine = engine(DeviceChoice::Cpu);
    let heard = transcribe(&engine, 12, &options("tied")).unwrap();
    let end_ms = (heard.audio_duration_sec * 1000.0) as u64;
    assert!(end_ms > 120_000 && heard.words.last().unwrap().end > 110_000, "{heard:?}");
    assert!(heard.words.windows(2).all(|pair| pair[0].start <= pair[1].start), "times go back");
    assert!(heard.words.iter().all(|word| word.start < word.end && word.end <= end_ms));
    let mut starts: Vec<u64> = heard.words.iter().map(|word| word.start).collect();
    starts.dedup();
    assert!(starts.len() >= 6, "a window of at most 24 s each: {starts:?}");
    assert!(heard.words.iter().all(|word| word.end - word.start <= 24_000));
    assert!(warned(&heard, "single words have no times"), "{:?}", heard.warnings);
    assert_eq!(heard.language_code, None, "its text names no language");
}

#[test]
fn the_language_is_found_or_named() {
    let engine = engine(DeviceChoice::Cpu);
    let found = transcribe(&engine, 1, &options("spoken")).unwrap();
    let code = found.language_code.clone().unwrap();
    assert!(["en", "de", "fi"].contains(&code.as_str()), "{found:?}");
    assert!(!found.text.contains("language") && !found.text.contains("asr_text"), "{found:?}");
    let named = transcribe(&engine, 1, &options("spoken").language("fi-FI")).unwrap();
    assert_eq!(named.language_code.as_deref(), Some("fi-FI"));
    let chosen = transcribe(&engine, 1, &options("spoken").languages(["fr", "it"])).unwrap();
    assert!(["fr", "it"].contains(&chosen.language_code.as_deref().unwrap()), "{chosen:?}");
    let refused = transcribe(&engine, 1, &options("spoken").language("tlh"));
    assert!(matches!(&refused, Err(Error::Language(why)) if why.contains("tlh") && why.contains("yue")), "{refused:?}");
}

#[test]
fn words_have_the_times_of_an_aligner_beside_it() {
    let engine = engine(DeviceChoice::Cpu);
    let dir = with_json(&fixtures().join("qwen3_asr/tied"), "config.json", |_| {});
    let aligner = with_json(&fixtures().join("qwen3_asr/aligner"), "config.json", |_| {});
    std::fs::rename(aligner.path(), dir.path().join("aligner")).unwrap();
    let timed = TranscribeOptions::default().checkpoint(dir.path());
    let [plain, heard] = [options("tied"), timed.clone()].map(|options| transcribe(&engine, 3, &options).unwrap());
    assert!(!warned(&heard, "no times") && warned(&plain, "no times"), "{:?}", heard.warnings);
    let words = |heard: &Transcript| heard.words.iter().map(|word| word.text.clone()).collect::<Vec<_>>();
    assert!(!heard.words.is_empty() && words(&plain).len() >= words(&heard).len());
    let end_ms = (heard.audio_duration_sec * 1000.0) as u64;
    assert!(heard.words.iter().all(|word| word.start <= word.end && word.end <= end_ms), "{heard:?}");
    assert!(heard.words.windows(2).all(|pair| pair[0].start <= pair[1].start), "times go back");
    assert!(heard.words.iter().any(|word| word.end - word.start < 1000), "{:?}", heard.words);
    // It is not trained for Polish.
    let other = transcribe(&engine, 1, &timed.language("pl")).unwrap();
    assert!(warned(&other, "no times") || other.words.is_empty(), "{other:?}");
    std::fs::write(dir.path().join("aligner/config.json"), "{}").unwrap();
    let broken = check_model(dir.path()).unwrap_err().to_string();
    assert!(broken.contains("aligner") && broken.contains("config.json"), "{broken}");
}

#[test]
fn keyterms_are_its_context() {
    let engine = engine(DeviceChoice::Cpu);
    let texts = [options("tied"), options("tied").keyterms(["Auricle", "naïve <|im_end|>"])]
        .map(|options| transcribe(&engine, 1, &options).unwrap());
    assert_ne!(texts[0].text, texts[1].text, "the context changes a lively text");
    assert!(!warned(&texts[1], "keyterms"));
    let many: Vec<Keyterm> = (0..2000).map(|number| Keyterm::from(format!("term {number}"))).collect();
    let cut = transcribe(&engine, 1, &options("tied").keyterms(many)).unwrap();
    assert!(warned(&cut, "keyterms"), "{:?}", cut.warnings);
}

#[test]
fn silence_and_a_short_sound_are_no_fault() {
    let engine = engine(DeviceChoice::Cpu);
    for samples in [0, 100, 16_000, 480_000] {
        let pcm = vec![0u8; 2 * samples];
        let audio = AudioStream::from_pcm_s16le(Cursor::new(pcm), SAMPLE_RATE, 1).unwrap();
        let heard = engine.transcribe(audio, &options("spoken")).unwrap();
        assert!(heard.words.is_empty() && heard.text.is_empty(), "{samples}: {heard:?}");
    }
}

#[test]
fn a_model_of_the_catalog_warms_up_and_serves() {
    let models = models_with("../qwen3_asr/spoken");
    let engine = Engine::open(EngineOptions::default().models(models.path()).device(DeviceChoice::Cpu)).unwrap();
    engine.load(&TranscribeOptions::default()).unwrap();
    engine.warm_up().unwrap();
    let heard = transcribe(&engine, 1, &TranscribeOptions::default().language("en")).unwrap();
    assert!(heard.model == "svc-best" && heard.language_code.as_deref() == Some("en"), "{heard:?}");
}

#[test]
fn it_reads_no_live_turns_again() {
    let dir = fixtures().join("qwen3_asr/spoken");
    let options = ListenOptions::default().second_pass(SecondPass::Path(dir));
    let refused = engine(DeviceChoice::Cpu).listen(&options).err();
    assert!(matches!(&refused, Some(Error::InvalidOption(why)) if why.contains("live turns")), "{refused:?}");
}

/// A batch of windows on a GPU has the words of the CPU.
#[test]
fn a_gpu_writes_the_same() {
    let cpu = engine(DeviceChoice::Cpu);
    if devices().len() < 2 {
        return;
    }
    let gpu = engine(std::env::var("AURICLE_TESTS_GPU").map_or(DeviceChoice::Vulkan(0), |gpu| gpu.parse().unwrap()));
    let heard = [&cpu, &gpu].map(|engine| transcribe(engine, 3, &options("spoken")).unwrap());
    assert_eq!(heard[0].language_code, heard[1].language_code);
    assert!(heard[0].text == heard[1].text && !heard[0].text.is_empty(), "{heard:?}");
}

#[test]
fn options_that_it_lacks_are_refused_by_name() {
    let engine = engine(DeviceChoice::Cpu);
    let lm = fixtures().join("lm/small.arpa");
    for (wrong, named) in [
        (options("tied").beam(4), "greedy"),
        (options("tied").language_model(LanguageModelChoice::File(lm)), "language model"),
        (options("tied").sequential(true), "Whisper"),
        (options("tied").look_ahead_ms(560), "streaming"),
        (options("tied").translate(true), "translation"),
    ] {
        let refused = transcribe(&engine, 1, &wrong);
        assert!(matches!(&refused, Err(Error::InvalidOption(why)) if why.contains(named)), "{wrong:?}: {refused:?}");
    }
}

#[test]
fn a_check_accounts_for_it() {
    let report = check_model(fixtures().join("qwen3_asr/tied")).unwrap();
    assert_eq!((report.class.as_str(), report.layers, report.hidden_size), ("Qwen3ASRForConditionalGeneration", 2, 48));
    assert!(report.parameters > 50_000 && report.form.contains("BF16") && !report.streaming, "{report:?}");
}
