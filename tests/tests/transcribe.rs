//! The engine as a library: the same audio gives the same words however it arrives, alone or beside others.

use std::io::Cursor;
use std::ops::ControlFlow;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::{DeviceChoice, Engine, EngineOptions, Error, TranscribeOptions, Transcript, Word, models_dir};
use auricle_tests::{models_with, models_with_detector, speech};

fn engine(models: &std::path::Path) -> Engine {
    Engine::open(EngineOptions { models: models.into(), device: DeviceChoice::Cpu, ..EngineOptions::default() })
        .unwrap()
}

/// The sample, `repeats` times over, as 16-bit samples.
fn samples(repeats: usize) -> Vec<u8> {
    let samples = AudioStream::open(&speech()).unwrap().read_to_end().unwrap();
    let pcm: Vec<u8> = samples.iter().flat_map(|s| ((s * 32_767.0) as i16).to_le_bytes()).collect();
    pcm.repeat(repeats)
}

/// Transcribes samples that arrive in blocks of this many.
fn transcribe(engine: &Engine, pcm: &[u8], block: usize, options: &TranscribeOptions) -> Transcript {
    let audio = AudioStream::from_pcm_s16le(Cursor::new(pcm.to_vec()), SAMPLE_RATE, 1).unwrap().with_block(block);
    let mut reported = 0.0;
    let transcript = engine
        .transcribe(audio, options, &mut |progress| {
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

#[test]
fn audio_cut_at_every_second_loses_and_doubles_no_word() {
    let tiny = ["streaming", "tdt"].map(|name| [models_with(name).keep(), models_with_detector(name).keep()]);
    for models in std::iter::once(models_dir()).chain(tiny.into_iter().flatten()) {
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
fn the_starter_hears_speech_and_nothing_in_silence() {
    let engine = engine(&models_dir());
    let heard = transcribe(&engine, &samples(1), 8000, &TranscribeOptions::default());
    assert!(heard.words.len() >= 3 && heard.language_code.as_deref() == Some("en"), "{}", heard.text);
    let silence = transcribe(&engine, &vec![0; 2 * 20 * SAMPLE_RATE as usize], 8000, &TranscribeOptions::default());
    assert_eq!((silence.text.as_str(), silence.words.len(), silence.confidence), ("", 0, None));
}

#[test]
fn words_that_are_left_out_are_counted_in_a_warning() {
    // Random weights write words whatever they hear; by level, nothing counts below -65 dB.
    for fixture in ["streaming", "tdt"] {
        let models = models_with(fixture);
        let engine = engine(models.path());
        let quiet: Vec<u8> =
            (0..4 * SAMPLE_RATE as usize).flat_map(|n| ((n * 7919 % 5) as i16).to_le_bytes()).collect();
        let heard = transcribe(&engine, &quiet, 8000, &TranscribeOptions::default());
        assert_eq!(heard.text, "", "{fixture}");
        assert!(heard.warnings.iter().any(|line| line.ends_with("left out")), "{fixture}: {:?}", heard.warnings);
    }
}

#[test]
fn audio_shorter_than_a_frame_has_no_words() {
    for models in [models_with("streaming"), models_with("ctc"), models_with("tdt")] {
        let engine = engine(models.path());
        for count in [0, 1, 159, 160, 161, 1279] {
            let transcript = transcribe(&engine, &vec![1; 2 * count], 8000, &TranscribeOptions::default());
            assert!(transcript.words.len() <= 20, "{count} samples: {}", transcript.text);
        }
    }
}

#[test]
fn threads_share_an_engine_and_hear_what_each_hears_alone() {
    let models = models_with("streaming");
    let engine = engine(models.path());
    let clips: Vec<Vec<u8>> = (1..5).map(|n| samples(1)[n * 20_000..].to_vec()).collect();
    let alone: Vec<_> = clips.iter().map(|c| transcribe(&engine, c, 8000, &TranscribeOptions::default())).collect();
    std::thread::scope(|scope| {
        for (clip, alone) in clips.iter().zip(&alone) {
            let engine = &engine;
            scope.spawn(move || {
                assert_eq!(&transcribe(engine, clip, 8000, &TranscribeOptions::default()), alone);
            });
        }
    });
}

#[test]
fn a_shorter_look_ahead_is_taken_and_an_impossible_one_refused() {
    let models = models_with("streaming");
    let engine = engine(models.path());
    let with = |ms| TranscribeOptions { look_ahead_ms: Some(ms), ..TranscribeOptions::default() };
    transcribe(&engine, &samples(1), 8000, &with(100));
    let audio = AudioStream::open(&speech()).unwrap();
    assert!(matches!(
        engine.transcribe(audio, &with(50), &mut |_| ControlFlow::Continue(())),
        Err(Error::InvalidOption(_))
    ));
}

#[test]
fn keyterms_are_heard_more_often() {
    // With random weights every token is close to some other, so leaning towards a few must show.
    let models = models_with("streaming");
    let engine = engine(models.path());
    let terms = ["there", "time", "and", "the"];
    let count = |keyterms: &[&str]| {
        let keyterms = keyterms.iter().map(ToString::to_string).collect();
        let options = TranscribeOptions { keyterms, ..TranscribeOptions::default() };
        let text = transcribe(&engine, &samples(1), 8000, &options).text.to_lowercase();
        terms.iter().map(|term| text.matches(term).count()).sum::<usize>()
    };
    let (plain, leaning) = (count(&[]), count(&terms));
    assert!(leaning > plain, "{plain} without, {leaning} with");
}
