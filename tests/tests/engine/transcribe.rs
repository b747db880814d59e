//! Transcription through the engine's API: the same audio gives the same words in any blocks, alone and beside others.

use std::io::Cursor;
use std::ops::ControlFlow;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::Engine;
use auricle_engine::{
    DeviceChoice, EngineOptions, Error, LanguageModelChoice, ListenOptions, LiveEvent, Precision, SecondPass,
    TranscribeOptions, Transcript, Word,
};
use auricle_tests::{devices, fixtures, models_with, models_with_detector, speech, with_config};

fn engine(models: &std::path::Path) -> Engine {
    Engine::open(EngineOptions::default().models(models).device(DeviceChoice::Cpu)).unwrap()
}

/// The sample, `repeats` times over, as 16-bit samples.
fn samples(repeats: usize) -> Vec<u8> {
    let samples = AudioStream::open(speech()).unwrap().read_to_end().unwrap();
    let pcm: Vec<u8> = samples.iter().flat_map(|s| ((s * 32_767.0) as i16).to_le_bytes()).collect();
    pcm.repeat(repeats)
}

/// Transcribes samples that arrive in blocks of this many.
fn transcribe(engine: &Engine, pcm: &[u8], block: usize, options: &TranscribeOptions) -> Transcript {
    let audio = AudioStream::from_pcm_s16le(Cursor::new(pcm.to_vec()), SAMPLE_RATE, 1).unwrap().with_block(block);
    let mut reported = 0.0;
    let transcript = engine
        .transcribe_with(audio, options, |progress| {
            assert!(progress.audio_s >= reported, "progress goes back");
            reported = progress.audio_s;
            ControlFlow::Continue(())
        })
        .unwrap();
    let seconds = pcm.len() as f64 / 2.0 / f64::from(SAMPLE_RATE);
    assert!((transcript.audio_duration_sec - seconds).abs() < 1e-6);
    check_times(&transcript.words, (seconds * 1000.0).round() as u64);
    transcript
}

fn check_times(words: &[Word], end: u64) {
    for pair in words.windows(2) {
        assert!(pair[0].start <= pair[1].start, "{pair:?}");
    }
    for word in words {
        assert!(word.start <= word.end && word.end <= end, "{word:?}");
        assert!((0.0..=1.0).contains(&word.confidence), "{word:?}");
    }
}

/// The mean of such channels is silence.
#[test]
fn channels_of_opposite_polarity_are_transcribed() {
    let (engine, options) = (engine(&auricle_tests::models()), TranscribeOptions::default());
    let pcm = samples(1);
    let values = pcm.as_chunks::<2>().0.iter().map(|bytes| i16::from_le_bytes(*bytes));
    let stereo: Vec<u8> = values.flat_map(|value| [value, value.saturating_neg()]).flat_map(i16::to_le_bytes).collect();
    let audio = AudioStream::from_pcm_s16le(Cursor::new(stereo), SAMPLE_RATE, 2).unwrap();
    let heard = engine.transcribe(audio, &options).unwrap();
    assert_eq!(heard.text, transcribe(&engine, &pcm, pcm.len(), &options).text);
    assert!(heard.warnings.iter().any(|warning| warning.contains("opposite polarity")), "{:?}", heard.warnings);
}

#[test]
fn the_size_of_the_blocks_that_audio_comes_in_changes_nothing() {
    let tiny = ["streaming", "tdt", "../whisper/multi"];
    let tiny = tiny.map(|name| [models_with(name).keep(), models_with_detector(name).keep()]);
    for models in std::iter::once(auricle_tests::models()).chain(tiny.into_iter().flatten()) {
        let engine = engine(&models);
        let pcm = samples(4);
        let whole = transcribe(&engine, &pcm, pcm.len(), &TranscribeOptions::default());
        assert!(!whole.words.is_empty());
        for block in [SAMPLE_RATE as usize, 333, 7 * SAMPLE_RATE as usize + 1] {
            assert_eq!(transcribe(&engine, &pcm, block, &TranscribeOptions::default()), whole, "blocks of {block}");
        }
    }
}

#[test]
fn a_checkpoint_that_states_a_map_has_its_words_confidences_mapped() {
    const MAP: &str = r#"{"slope": 0.5, "offset": -1.5}"#;
    let mapped = |raw: f32| {
        let raw = raw.clamp(1e-4, 1.0 - 1e-4);
        1.0 / (1.0 + (1.5 - 0.5 * (raw / (1.0 - raw)).ln()).exp())
    };
    let pcm = samples(1);
    let words = |checkpoint: &std::path::Path, is_live: bool| {
        let kind = if is_live { "realtime" } else { "prerecorded" };
        let models = tempfile::tempdir().unwrap();
        let catalog = format!(
            "[[model]]\nid = \"svc-x\"\nkind = {kind:?}\npublished = \"somebody/something\"\nfolder = \"none\"\nlanguages = [\"en\"]\n\
             starter = {checkpoint:?}\nstarter_languages = [\"en\"]\n"
        );
        std::fs::write(models.path().join("catalog.toml"), catalog).unwrap();
        let engine = engine(models.path());
        if !is_live {
            return transcribe(&engine, &pcm, pcm.len(), &TranscribeOptions::default().model("svc-x")).words;
        }
        let options = ListenOptions::default().model("svc-x").language("en").second_pass(SecondPass::Off);
        let (mut input, events) = engine.listen(&options).unwrap();
        input.push(&AudioStream::open(speech()).unwrap().read_to_end().unwrap()).unwrap();
        input.finish().unwrap();
        let finals = events.filter_map(|event| match event.unwrap() {
            LiveEvent::Final(caption) => Some(caption.words),
            _ => None,
        });
        finals.flatten().collect()
    };
    let starter = auricle_tests::models().join("starter/asr-en");
    let whisper = fixtures().join("whisper/taught");
    for (checkpoint, is_live) in [(&starter, false), (&starter, true), (&whisper, false)] {
        let copies = [with_config(checkpoint, |_| {}), with_config(checkpoint, |_| {})];
        let _ = std::fs::remove_file(copies[0].path().join("confidence.json"));
        std::fs::write(copies[1].path().join("confidence.json"), MAP).unwrap();
        let [raw, calibrated] = copies.map(|copy| words(copy.path(), is_live));
        assert!(!raw.is_empty() && raw.len() == calibrated.len(), "{checkpoint:?}");
        for (raw, calibrated) in raw.iter().zip(&calibrated) {
            assert!((mapped(raw.confidence) - calibrated.confidence).abs() < 1e-3, "{raw:?} {calibrated:?}");
        }
    }
}

#[test]
fn the_starter_transcribes_speech_and_writes_nothing_for_silence() {
    let engine = engine(&auricle_tests::models());
    let heard = transcribe(&engine, &samples(1), 8000, &TranscribeOptions::default());
    assert!(heard.words.len() >= 3 && heard.language_code.as_deref() == Some("en"), "{}", heard.text);
    let silence = transcribe(&engine, &vec![0; 2 * 20 * SAMPLE_RATE as usize], 8000, &TranscribeOptions::default());
    assert_eq!((silence.text.as_str(), silence.words.len(), silence.confidence), ("", 0, None));
}

#[test]
fn words_that_are_left_out_are_counted_in_a_warning() {
    // Random weights write words for any audio; audio below -65 dB counts as silence.
    for fixture in ["streaming", "tdt", "../whisper/english"] {
        let models = models_with(fixture);
        let engine = engine(models.path());
        let quiet: Vec<u8> =
            (0..4 * SAMPLE_RATE as usize).flat_map(|n| ((n * 7919 % 5) as i16).to_le_bytes()).collect();
        let heard = transcribe(&engine, &quiet, 8000, &TranscribeOptions::default());
        assert_eq!(heard.text, "", "{fixture}");
        assert!(heard.warnings.iter().any(|line| line.ends_with("left out")), "{fixture}: {:?}", heard.warnings);
    }
}

/// Random weights write words for any audio, so only the starter, which has a detector, can be held to none.
#[test]
fn audio_shorter_than_a_frame_has_no_words() {
    let starter = auricle_tests::models();
    let random = ["streaming", "ctc", "tdt", "../whisper/large"].map(|fixture| models_with(fixture).keep());
    for models in std::iter::once(&starter).chain(&random) {
        let engine = engine(models);
        for count in [0, 1, 159, 160, 161, 1279] {
            let transcript = transcribe(&engine, &vec![1; 2 * count], 8000, &TranscribeOptions::default());
            assert!(transcript.words.is_empty() || *models != starter, "{count} samples: {}", transcript.text);
            let duration_s = count as f64 / f64::from(SAMPLE_RATE);
            assert!((transcript.audio_duration_sec - duration_s).abs() < 1e-9, "{count} samples");
        }
    }
}

/// On a GPU recordings share batches; on the CPU they take turns.
#[test]
fn concurrent_recordings_equal_single_ones() {
    let devices = [DeviceChoice::Cpu].into_iter().chain((devices().len() > 1).then_some(DeviceChoice::Vulkan(0)));
    for (device, fixture) in devices.flat_map(|device| ["streaming", "tdt", "ctc"].map(|name| (device, name))) {
        let models = models_with(fixture);
        let options = EngineOptions::default().models(models.path()).device(device);
        let engine = Engine::open(options).unwrap();
        let clips: Vec<Vec<u8>> = (1..5).map(|n| samples(1)[n * 20_000..].to_vec()).collect();
        // Each recording has its own keyterms.
        let with =
            |n: usize| TranscribeOptions::default().keyterms(if n == 2 { vec!["there", "time"] } else { Vec::new() });
        let hear = |n: usize| {
            let transcript = transcribe(&engine, &clips[n], 8000, &with(n));
            // Another order of sums may change a confidence's last digits.
            transcript.words.into_iter().map(|word| (word.text, word.start, word.end)).collect::<Vec<_>>()
        };
        let alone: Vec<_> = (0..clips.len()).map(hear).collect();
        assert!(alone.iter().all(|words| !words.is_empty()), "{fixture}");
        std::thread::scope(|scope| {
            for (n, alone) in alone.iter().enumerate() {
                let hear = &hear;
                scope.spawn(move || assert_eq!(&hear(n), alone, "{fixture}, clip {n}, {device}"));
            }
        });
    }
}

const READINGS: [&str; 3] = ["1737-146161-0000.opus", "32-21631-0002.opus", "669-129074-0012.opus"];

/// The first four seconds of a recording, as a software GPU is slow.
fn beginning(name: &str) -> Vec<u8> {
    let mut audio = AudioStream::open(fixtures().join("alignment").join(name)).unwrap().read_to_end().unwrap();
    audio.truncate(4 * SAMPLE_RATE as usize);
    audio.iter().flat_map(|s| ((s * 32_767.0) as i16).to_le_bytes()).collect()
}

#[test]
fn the_starter_of_svc_best_has_five_beams_on_a_cpu() {
    let options = EngineOptions::default().models(auricle_tests::models()).device(DeviceChoice::Cpu);
    let engine = Engine::open(options).unwrap();
    let [unsaid, five, one] = [None, Some(5), Some(1)].map(|beam| {
        let mut options = TranscribeOptions::default();
        options.beam = beam;
        READINGS.map(|name| transcribe(&engine, &beginning(name), 8000, &options).text)
    });
    assert_eq!(unsaid, five);
    assert_ne!(five, one);
}

#[test]
fn the_starter_writes_the_same_on_a_gpu() {
    if devices().len() < 2 {
        return;
    }
    let written = |device: DeviceChoice| {
        let options = EngineOptions::default().models(auricle_tests::models()).device(device).precision(Precision::F32);
        let engine = Engine::open(options).unwrap();
        let write = |name: &str| {
            // On a CPU it has five beams otherwise.
            transcribe(&engine, &beginning(name), 8000, &TranscribeOptions::default().beam(1)).words
        };
        // On a GPU their windows share the steps.
        std::thread::scope(|scope| {
            let running = READINGS.map(|name| scope.spawn(move || write(name)));
            running.map(|thread| thread.join().unwrap())
        })
    };
    let here = written(DeviceChoice::Cpu);
    assert!(here.iter().all(|words| words.len() > 4), "{here:?}");
    for (there, here) in written(DeviceChoice::Vulkan(0)).iter().zip(&here) {
        let texts = [there, here].map(|words| words.iter().map(|word| &*word.text).collect::<Vec<_>>());
        assert_eq!(texts[0], texts[1]);
        let near = |(a, b): (&Word, &Word)| a.start.abs_diff(b.start) <= 40 && a.end.abs_diff(b.end) <= 40;
        assert!(there.iter().zip(here).all(near), "{there:?} {here:?}");
    }
}

/// A Whisper checkpoint behind a service model: recordings share the decoder, and each gets the text that it gets alone.
#[test]
fn windows_of_several_recordings_share_a_batch() {
    let models = models_with("../whisper/multi");
    let engine = engine(models.path());
    let clips: Vec<Vec<u8>> = (0..4).map(|n| samples(1 + n)[n * 20_000..].to_vec()).collect();
    let hear = |n: usize| {
        // Each recording has its own keyterms and languages.
        let options = TranscribeOptions::default()
            .keyterms(if n == 1 { vec!["country", "do"] } else { Vec::new() })
            .languages(if n == 2 { vec!["de", "fr"] } else { Vec::new() });
        transcribe(&engine, &clips[n], 8000, &options)
    };
    let alone: Vec<Transcript> = (0..clips.len()).map(hear).collect();
    let words: Vec<usize> = alone.iter().map(|transcript| transcript.words.len()).collect();
    // The no-speech probability of random weights may drop some windows.
    assert!(words.iter().filter(|words| **words > 0).count() >= 3, "{words:?}");
    assert!(["de", "fr"].contains(&alone[2].language_code.as_deref().unwrap()), "{:?}", alone[2].language_code);
    std::thread::scope(|scope| {
        for (n, alone) in alone.iter().enumerate() {
            let hear = &hear;
            scope.spawn(move || {
                let beside = hear(n);
                assert_eq!(beside.text, alone.text, "clip {n}");
                assert_eq!(beside.language_code, alone.language_code);
                assert_eq!(beside.words.len(), alone.words.len());
            });
        }
    });
}

#[test]
fn a_whisper_checkpoint_names_unsupported_options() {
    let models = models_with("../whisper/multi");
    let engine = engine(models.path());
    let with = |options: TranscribeOptions| {
        let audio = AudioStream::open(speech()).unwrap();
        engine.transcribe(audio, &options)
    };
    let look_ahead = TranscribeOptions::default().look_ahead_ms(560);
    assert!(matches!(with(look_ahead), Err(Error::InvalidOption(_))));
    let unknown = TranscribeOptions::default().languages(["tlh"]);
    assert!(matches!(with(unknown), Err(Error::Language(_))));
    let lm = auricle_tests::fixtures().join("lm/small.arpa");
    let fused = TranscribeOptions::default().language_model(LanguageModelChoice::File(lm));
    assert!(matches!(with(fused), Err(Error::InvalidOption(_))));
    let live = ListenOptions::default().model("svc-best");
    assert!(matches!(engine.listen(&live).err(), Some(Error::InvalidOption(_))));
}

#[test]
fn a_recording_beyond_the_limit_is_refused_and_fits_later() {
    let models = models_with("streaming");
    let options =
        EngineOptions::default().models(models.path()).device(DeviceChoice::Cpu).recordings(1).live_streams(1);
    let engine = Engine::open(options).unwrap();
    let pcm = samples(6);
    let open = || AudioStream::from_pcm_s16le(Cursor::new(pcm.clone()), SAMPLE_RATE, 1).unwrap();
    let mut tried = None;
    engine
        .transcribe_with(open(), &TranscribeOptions::default(), |_| {
            let second = || engine.transcribe(open(), &TranscribeOptions::default());
            tried.get_or_insert_with(second);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(matches!(tried, Some(Err(Error::Busy(_)))), "{tried:?}");
    // The slot is free once the worker has seen the end of the recording.
    let began = std::time::Instant::now();
    loop {
        match engine.transcribe(open(), &TranscribeOptions::default()) {
            Ok(_) => break,
            Err(Error::Busy(_)) if began.elapsed().as_secs() < 60 => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_canceled_transcription_gets_no_more_progress() {
    let models = models_with("streaming");
    let engine = engine(models.path());
    let audio = AudioStream::from_pcm_s16le(Cursor::new(samples(6)), SAMPLE_RATE, 1).unwrap();
    let mut steps = 0;
    let result = engine.transcribe_with(audio, &TranscribeOptions::default(), |_| {
        steps += 1;
        if steps == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(result, Err(Error::Canceled)) && steps == 2, "{steps} steps");
}

/// `transcribe` blocks. On a thread of an asynchronous runtime it blocks that thread alone.
#[test]
fn transcribe_works_on_a_thread_of_an_asynchronous_runtime() {
    let models = models_with("streaming");
    let engine = engine(models.path());
    let heard =
        auricle_tests::block_on(async { transcribe(&engine, &samples(1), 8000, &TranscribeOptions::default()) });
    assert!(!heard.words.is_empty());
}

#[test]
fn a_shorter_look_ahead_is_taken_and_an_impossible_one_refused() {
    let models = models_with("streaming");
    let engine = engine(models.path());
    let with = |ms| TranscribeOptions::default().look_ahead_ms(ms);
    transcribe(&engine, &samples(1), 8000, &with(100));
    let audio = AudioStream::open(speech()).unwrap();
    assert!(matches!(engine.transcribe(audio, &with(50)), Err(Error::InvalidOption(_))));
}

#[test]
fn a_keyterm_outside_the_vocabulary_gets_a_warning() {
    let engine = engine(&auricle_tests::models());
    let streaming = TranscribeOptions::default().checkpoint(auricle_tests::models().join("starter/asr-en"));
    let options = streaming.keyterms(["caf\u{e9}", "O\u{2019}Brien", "country"]);
    let audio = AudioStream::open(speech()).unwrap();
    let warnings = engine.transcribe(audio, &options).unwrap().warnings;
    assert_eq!(warnings, ["the model cannot write the keyterm \"caf\u{e9}\": left out"]);
}

#[test]
fn numbers_are_in_digits_unless_words_are_asked_for() {
    let engine = engine(&auricle_tests::models());
    let options = TranscribeOptions::default().checkpoint(auricle_tests::models().join("starter/asr-en"));
    let file = fixtures().join("alignment/7312-92432-0003.opus");
    let written = engine.transcribe_file(&file, &options).unwrap();
    let spoken = engine.transcribe_file(&file, &options.format_numbers(false)).unwrap();
    assert!(spoken.text.contains("thirteen thousand"), "{}", spoken.text);
    assert_eq!(written.text, spoken.text.replace("thirteen thousand", "13,000"));
    assert_eq!(written.words.len() + 1, spoken.words.len());
    assert_ne!(written.confidence, spoken.confidence);
}

#[test]
fn keyterms_are_written_more_often() {
    // With random weights every token is close to some other, so leaning towards a few must show.
    let models = models_with("streaming");
    let engine = engine(models.path());
    let terms = ["there", "time", "and", "the"];
    let count = |keyterms: &[&str]| {
        let options = TranscribeOptions::default().keyterms(keyterms.iter().copied());
        let text = transcribe(&engine, &samples(1), 8000, &options).text.to_lowercase();
        terms.iter().map(|term| text.matches(term).count()).sum::<usize>()
    };
    let (plain, leaning) = (count(&[]), count(&terms));
    assert!(leaning > plain, "{plain} without, {leaning} with");
}
