//! Speech through the public API: the same alone, in company and from text in pieces; words and their times; text that cannot be said, voices
//! that are not there, and callers that leave. The voice has random weights and makes noise.

use std::path::Path;
use std::time::{Duration, Instant};

use auricle_engine::blocking::{Engine, Speech};
use auricle_engine::{
    DeviceChoice, EngineOptions, Error, Result, SPEECH_FRAME, SpeakOptions, SpeechFrame, SpeechInput, SpokenWord,
};
use auricle_tests::tiny_voice;

pub(super) const TEXT: &str = "Good morning, everyone. It costs $5 to see the lake and the mill. Is that too much? No!";

pub(super) fn engine() -> Engine {
    Engine::open(options()).unwrap()
}

pub(super) fn options() -> EngineOptions {
    EngineOptions::default().models(auricle_tests::models()).device(DeviceChoice::Cpu)
}

pub(super) fn of(voice: &Path) -> SpeakOptions {
    SpeakOptions::default().checkpoint(voice)
}

fn said(speech: Speech) -> Vec<SpeechFrame> {
    speech.collect::<Result<_>>().unwrap()
}

pub(super) fn say(engine: &Engine, text: &str, options: &SpeakOptions) -> Vec<SpeechFrame> {
    let (mut input, speech) = engine.speak(options).unwrap();
    input.push(text).unwrap();
    input.finish();
    said(speech)
}

pub(super) fn sound(frames: &[SpeechFrame]) -> Vec<f32> {
    frames.iter().flat_map(|frame| frame.samples.iter().copied()).collect()
}

pub(super) fn words(frames: &[SpeechFrame]) -> Vec<SpokenWord> {
    frames.iter().flat_map(|frame| frame.words.iter().cloned()).collect()
}

fn assert_same(ours: &[SpeechFrame], theirs: &[SpeechFrame]) {
    assert_eq!(words(ours), words(theirs));
    let (ours, theirs) = (sound(ours), sound(theirs));
    assert_eq!(ours.len(), theirs.len());
    for (at, (a, b)) in ours.iter().zip(&theirs).enumerate() {
        assert!((a - b).abs() < 1e-4, "sample {at}: {a} against {b}");
    }
}

/// Holds frames to their form, and their words to those of [`TEXT`].
pub(super) fn assert_text_is_said(frames: &[SpeechFrame]) {
    let (last, whole) = frames.split_last().unwrap();
    assert!(whole.iter().all(|frame| frame.samples.len() == SPEECH_FRAME));
    assert!((1..=SPEECH_FRAME).contains(&last.samples.len()));
    assert!(sound(frames).iter().all(|sample| (-1.0..=1.0).contains(sample)));
    for (at, frame) in whole.iter().enumerate() {
        assert!(frame.words.iter().all(|word| word.start_ms / 80 == at as u64), "{at}: {:?}", frame.words);
    }
    let words = words(frames);
    let written: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let expected = "Good morning everyone It costs $5 to see the lake and the mill Is that too much No";
    assert_eq!(written.join(" "), expected);
    assert!(words.iter().all(|word| word.start_ms <= word.end_ms));
    assert!(words.windows(2).all(|pair| pair[0].end_ms <= pair[1].start_ms), "{words:?}");
    assert!(words.last().unwrap().end_ms <= sound(frames).len() as u64 / 24);
}

#[test]
fn frames_hold_80_ms_and_the_words_that_begin_in_them() {
    let voice = tiny_voice();
    let frames = say(&engine(), TEXT, &of(voice.path()));
    assert_text_is_said(&frames);
}

#[test]
fn text_in_pieces_sounds_like_the_whole() {
    let (voice, engine) = (tiny_voice(), engine());
    let expected = say(&engine, TEXT, &of(voice.path()));
    for size in [1, 3, 17] {
        let (mut input, speech) = engine.speak(&of(voice.path())).unwrap();
        let letters: Vec<char> = TEXT.chars().collect();
        for piece in letters.chunks(size) {
            input.push(&piece.iter().collect::<String>()).unwrap();
        }
        input.finish();
        assert_same(&said(speech), &expected);
    }
}

#[test]
fn a_clause_is_said_before_the_text_ends() {
    let (voice, engine) = (tiny_voice(), engine());
    let (mut input, mut speech) = engine.speak(&of(voice.path())).unwrap();
    input.push("Good morning, everyone who has come to see the old mill by the lake today, ").unwrap();
    let frame = speech.next().unwrap().unwrap();
    assert_eq!(frame.samples.len(), SPEECH_FRAME);
    drop(input);
    // Frames that had been computed may still come; then none does.
    assert!(speech.all(|frame| frame.is_ok()));
}

#[test]
fn speech_is_the_same_in_company() {
    let (voice, engine) = (tiny_voice(), engine());
    let texts: Vec<String> = (0..6)
        .map(|n| format!("The {n} mills {} by the lake, and {}.", "stand ".repeat(1 + n), "wait ".repeat(9 - n)))
        .collect();
    let options = |n: usize| {
        let options = of(voice.path()).voice(["ann", "zed", "bob"][n % 3]).speed([1.0, 0.5, 1.7][n % 3]);
        if n.is_multiple_of(2) { options.paced(true) } else { options }
    };
    let alone: Vec<_> =
        texts.iter().enumerate().map(|(n, text)| say(&engine, text, &options(n).paced(false))).collect();
    assert_ne!(sound(&alone[0]).len(), sound(&alone[3]).len());
    std::thread::scope(|scope| {
        let (engine, options) = (&engine, &options);
        let together: Vec<_> =
            texts.iter().enumerate().map(|(n, text)| scope.spawn(move || say(engine, text, &options(n)))).collect();
        for (thread, expected) in together.into_iter().zip(&alone) {
            assert_same(&thread.join().unwrap(), expected);
        }
    });
}

#[test]
fn voices_and_speeds_differ() {
    let (voice, engine) = (tiny_voice(), engine());
    let listed: Vec<String> = engine.voices(&of(voice.path())).unwrap().into_iter().map(|voice| voice.id).collect();
    // In the order of the file, which gives them their numbers.
    assert_eq!(listed, ["ann", "zed", "bob"]);
    let by = |voice_id: &str, speed| sound(&say(&engine, TEXT, &of(voice.path()).voice(voice_id).speed(speed)));
    let first = sound(&say(&engine, TEXT, &of(voice.path())));
    assert_eq!(first, by("ann", 1.0));
    assert_ne!(first, by("zed", 1.0));
    assert_eq!(first, by("en", 1.0));
    assert_eq!(first, by("en-GB", 1.0));
    let (slow, fast) = (by("ann", 0.5), by("ann", 2.0));
    assert!(slow.len() > first.len() && first.len() > fast.len());
}

#[test]
fn phrases_meet_without_a_click() {
    let (voice, engine) = (tiny_voice(), engine());
    // Each sentence is a phrase; its ends fade.
    let frames = say(&engine, "One. Two. Three. Four.", &of(voice.path()));
    let sound = sound(&frames);
    let loudest = sound.iter().fold(0f32, |most, sample| most.max(sample.abs()));
    assert!(loudest > 0.1);
    assert!(sound[..4].iter().chain(&sound[sound.len() - 4..]).all(|sample| sample.abs() < 0.05 * loudest));
    for length in [1, 2, 3] {
        let text = ["One.", "Two.", "Three.", "Four."][..length].join(" ");
        // The first phrase is cut as it is alone.
        let join = say(&engine, &text, &of(voice.path())).iter().map(|frame| frame.samples.len()).sum::<usize>();
        let near = &sound[join - 3..(join + 3).min(sound.len())];
        assert!(near.iter().all(|sample| sample.abs() < 0.05 * loudest), "{near:?}");
    }
}

#[test]
fn paced_frames_do_not_come_all_at_once() {
    let (voice, engine) = (tiny_voice(), engine());
    let (mut input, speech) = engine.speak(&of(voice.path()).paced(true).speed(0.5)).unwrap();
    input.push(TEXT).unwrap();
    input.finish();
    let mut began = None;
    let mut given = Duration::ZERO;
    let mut frames = 0;
    for frame in speech {
        let frame = frame.unwrap();
        let began = *began.get_or_insert_with(Instant::now);
        given += Duration::from_secs_f64(frame.samples.len() as f64 / 24_000.0);
        let ahead = given.saturating_sub(began.elapsed());
        // Half a second, and what this thread sees too late; all of it at once would be more.
        assert!(ahead <= Duration::from_millis(750), "frame {frames} is {ahead:?} ahead");
        frames += 1;
    }
    assert!(frames > 10, "{frames} frames cannot show it");
}

#[test]
fn a_caller_that_leaves_makes_room_for_the_next() {
    let voice = tiny_voice();
    let engine = Engine::open(options().speech_streams(1)).unwrap();
    for round in 0..4 {
        let (mut input, speech) = engine.speak(&of(voice.path()).paced(round % 2 == 0)).unwrap();
        let busy = engine.speak(&of(voice.path())).unwrap_err();
        assert!(matches!(busy, Error::Busy(_)), "{busy}");
        input.push(TEXT).unwrap();
        match round {
            0 => drop(speech),
            1 => drop(input),
            2 => drop((input, speech)),
            _ => {
                input.finish();
                assert!(!said(speech).is_empty());
            }
        }
    }
    // Nothing of the last is heard.
    let expected = say(&self::engine(), "A new one.", &of(voice.path()));
    let again = |_| say(&engine, "A new one.", &of(voice.path()));
    assert_same(&(0..2).map(again).next_back().unwrap(), &expected);
}

#[test]
fn text_without_words_is_silence_and_any_text_is_said() {
    let (voice, engine) = (tiny_voice(), engine());
    let options = of(voice.path());
    for text in [
        "",
        " \n\t ",
        "...",
        "\u{1F600}\u{1F680}",
        "\u{0}\u{7}\u{1b}",
        "<speak></speak>",
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd}",
    ] {
        assert!(words(&say(&engine, text, &options)).is_empty(), "{text:?}");
    }
    for (text, word) in [
        ("a", "a"),
        ("\u{202e}Good\u{202c} morning", "Good"),
        ("<speak>Good <break time=\"1s\"/> morning</speak>", "Good"),
        ("Good\u{0}morning", "Good"),
    ] {
        let frames = say(&engine, text, &options);
        assert!(words(&frames).iter().any(|spoken| spoken.text.contains(word)), "{text:?}: {:?}", words(&frames));
    }
}

#[test]
fn a_megabyte_of_text_is_taken_at_once_and_said_from_its_beginning() {
    let (voice, engine) = (tiny_voice(), engine());
    for text in ["word ".repeat(200_000), "x".repeat(1_000_000), "1".repeat(1_000_000)] {
        let (mut input, mut speech) = engine.speak(&of(voice.path()).speed(2.0)).unwrap();
        input.push(&text).unwrap();
        input.finish();
        assert!(speech.by_ref().take(50).all(|frame| frame.is_ok()));
    }
}

#[test]
fn a_writer_can_wait_for_its_reader() {
    let (voice, engine) = (tiny_voice(), engine());
    let (mut input, speech) = engine.speak(&of(voice.path())).unwrap();
    let writer = std::thread::spawn(move || {
        for n in 0..60 {
            input.push(&format!("Sentence {n} is here. ")).unwrap();
            input.blocking_caught_up();
        }
        input.finish();
    });
    let frames = said(speech);
    writer.join().unwrap();
    assert_eq!(words(&frames).iter().filter(|word| word.text == "Sentence").count(), 60);
    // A reader that leaves does not keep its writer.
    let (mut input, speech) = engine.speak(&of(voice.path())).unwrap();
    drop(speech);
    for _ in 0..60 {
        input.push("Sentence after sentence. ").unwrap();
        input.blocking_caught_up();
    }
}

fn error(engine: &Engine, options: &SpeakOptions) -> Error {
    let opened: Result<(SpeechInput, Speech)> = engine.speak(options);
    opened.map(drop).unwrap_err()
}

#[test]
fn voices_and_speeds_that_are_not_there_are_errors_that_say_what_is() {
    let (voice, engine) = (tiny_voice(), engine());
    let unknown = error(&engine, &of(voice.path()).voice("siri"));
    assert!(matches!(unknown, Error::UnknownVoice(_)), "{unknown}");
    assert!(unknown.to_string().contains("ann (en)") && unknown.to_string().contains("auricle voices list"));
    let language = error(&engine, &of(voice.path()).voice("de-DE"));
    assert!(matches!(language, Error::Language(_)) && language.to_string().contains("ann (en)"), "{language}");
    for speed in [0.4, 2.1, f32::NAN] {
        let error = error(&engine, &of(voice.path()).speed(speed));
        assert!(matches!(error, Error::InvalidOption(_)) && error.to_string().contains("0.5 to 2"), "{error}");
    }
    let nowhere = error(&engine, &of(Path::new("no-such-folder")));
    assert!(nowhere.to_string().contains("voices.json"), "{nowhere}");
    let none = tempfile::tempdir().unwrap();
    std::fs::write(none.path().join("catalog.toml"), "").unwrap();
    let engine = Engine::open(EngineOptions::default().models(none.path()).device(DeviceChoice::Cpu)).unwrap();
    assert!(matches!(error(&engine, &SpeakOptions::default()), Error::NotPulled(_)));
}

#[test]
fn a_voice_whose_parts_do_not_fit_is_refused_by_name() {
    let engine = engine();
    let change = |file: &str, from: &str, to: &str| {
        let voice = tiny_voice();
        let path = voice.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file}: {from}");
        std::fs::write(path, text.replacen(from, to, 1)).unwrap();
        error(&engine, &of(voice.path())).to_string()
    };
    let fewer = change("acoustic/voices.json", "\"zed\": {}, ", "");
    assert!(fewer.contains("2 voices are named, the model has 3"), "{fewer}");
    let symbol = change("acoustic/vocab.json", "\"ZH\"", "\"QQ\"");
    assert!(symbol.contains("symbol ZH is missing"), "{symbol}");
    let number = change("acoustic/vocab.json", "\"ZH\": 70", "\"ZH\": 700");
    assert!(number.contains("700"), "{number}");
    let list = change("acoustic/voices.json", "{\"ann\"", "[\"ann\"");
    assert!(list.contains("voices.json"), "{list}");
}

#[tokio::test]
async fn speech_is_a_stream_on_any_runtime() {
    let voice = tiny_voice();
    let engine = auricle_engine::Engine::from(engine());
    let (mut input, mut frames) = engine.speak(&of(voice.path()).paced(true)).await.unwrap();
    input.push("Good morning.").unwrap();
    let first = frames.next();
    input.finish();
    let mut count = usize::from(first.await.unwrap().is_ok());
    while let Some(frame) = frames.next().await {
        count += usize::from(frame.is_ok());
    }
    assert!(count > 0 && frames.next().await.is_none());
}
