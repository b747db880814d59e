//! Speech of a model that says a clause at once, through the public API: the same alone, in company and from text in pieces; words by the
//! durations of their phones; voices of languages that are not read. The model has random weights and makes noise.

use auricle_engine::blocking::Engine;
use auricle_engine::{DeviceChoice, Error, Precision, Result, SpeakOptions, SpeechFrame, check_voice};
use auricle_tests::{devices, write_clause_voice};
use tempfile::TempDir;

use super::speech::{TEXT, assert_text_is_said, engine, of, options, say, sound, words};

fn voice() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_clause_voice(dir.path());
    dir
}

#[test]
fn frames_hold_80_ms_and_the_words_that_begin_in_them() {
    let voice = voice();
    let frames = say(&engine(), TEXT, &of(voice.path()));
    assert_text_is_said(&frames);
    assert!(sound(&frames).iter().any(|sample| sample.abs() > 0.01));
}

#[test]
fn text_in_pieces_and_streams_in_company_sound_like_the_whole_alone() {
    let (voice, engine) = (voice(), engine());
    let by = |id: &str, speed| of(voice.path()).voice(id).speed(speed);
    let kinds = [("af_ann", 1.0), ("bm_bob", 1.0), ("af_ann", 0.6)];
    let expected = kinds.map(|(id, speed)| say(&engine, TEXT, &by(id, speed)));
    assert_ne!(sound(&expected[0]), sound(&expected[1]));
    assert!(sound(&expected[2]).len() > sound(&expected[0]).len());
    let (mut input, speech) = engine.speak(&by("af_ann", 1.0)).unwrap();
    for piece in TEXT.as_bytes().chunks(3) {
        input.push(std::str::from_utf8(piece).unwrap()).unwrap();
    }
    input.finish();
    let frames: Vec<SpeechFrame> = speech.collect::<Result<_>>().unwrap();
    assert_eq!(frames, expected[0]);
    std::thread::scope(|scope| {
        let (engine, by) = (&engine, &by);
        let together: Vec<_> = (0..6)
            .map(|n| {
                let (id, speed) = kinds[n % 3];
                scope.spawn(move || say(engine, TEXT, &by(id, speed).paced(n.is_multiple_of(2))))
            })
            .collect();
        for (n, thread) in together.into_iter().enumerate() {
            assert_eq!(thread.join().unwrap(), expected[n % 3], "stream {n}");
        }
    });
}

#[test]
fn a_caller_that_leaves_makes_room_for_the_next() {
    let voice = voice();
    let engine = Engine::open(options().speech_streams(1)).unwrap();
    let expected = say(&engine, "A new one.", &of(voice.path()));
    for round in 0..2 {
        let (mut input, mut speech) = engine.speak(&of(voice.path())).unwrap();
        assert!(matches!(engine.speak(&of(voice.path())).unwrap_err(), Error::Busy(_)));
        input.push(TEXT).unwrap();
        if round == 1 {
            speech.next().unwrap().unwrap();
        }
        drop((input, speech));
    }
    // Nothing of the last is heard.
    assert_eq!(say(&engine, "A new one.", &of(voice.path())), expected);
}

#[test]
fn a_clause_of_more_symbols_than_there_are_places_is_said_in_several() {
    let (voice, engine) = (voice(), engine());
    // The model has 96 places.
    let text = "wonderful ".repeat(40);
    let frames = say(&engine, &text, &of(voice.path()));
    assert_eq!(words(&frames).len(), 40);
}

#[test]
fn voices_of_english_are_listed_and_those_of_other_languages_refused_by_name() {
    let (voice, engine) = (voice(), engine());
    let ids =
        || -> Vec<String> { engine.voices(&of(voice.path())).unwrap().into_iter().map(|voice| voice.id).collect() };
    assert_eq!(ids(), ["af_ann", "bm_bob"]);
    let error = |options: SpeakOptions| engine.speak(&options).map(drop).unwrap_err();
    let french = error(of(voice.path()).voice("ff_other"));
    assert!(matches!(french, Error::Language(_)), "{french}");
    assert!(french.to_string().contains("ff_other speaks French") && french.to_string().contains("af_ann"), "{french}");
    // One that is not there speaks nothing.
    let gone = error(of(voice.path()).voice("ff_gone"));
    assert!(!gone.to_string().contains("French") && gone.to_string().contains("bm_bob (en)"), "{gone}");
    let heart = voice.path().join("voices/af_heart.pt");
    std::fs::copy(voice.path().join("voices/bm_bob.pt"), heart).unwrap();
    assert_eq!(ids(), ["af_heart", "af_ann", "bm_bob"], "the best is the default");
    for id in ["af_ann", "af_heart", "bm_bob"] {
        std::fs::remove_file(voice.path().join(format!("voices/{id}.pt"))).unwrap();
    }
    let none = check_voice(voice.path()).unwrap_err().to_string();
    assert!(none.contains("no English voice"), "{none}");
}

#[test]
fn a_gpu_says_the_same_words_at_the_same_times() {
    if devices().len() < 2 {
        return;
    }
    let voice = voice();
    let gpu = Engine::open(options().device(DeviceChoice::Vulkan(0))).unwrap();
    let [there, here] = [gpu, engine()].map(|engine| say(&engine, TEXT, &of(voice.path())));
    assert_text_is_said(&there);
    assert_eq!(words(&there), words(&here));
    let (there, here) = (sound(&there), sound(&here));
    assert_eq!(there.len(), here.len());
    let square = |sound: &mut dyn Iterator<Item = f32>| sound.map(|sample| f64::from(sample).powi(2)).sum::<f64>();
    let off = square(&mut there.iter().zip(&here).map(|(a, b)| a - b)) / square(&mut here.iter().copied());
    // A phase of the excitation near half a turn may come out with the other sign.
    assert!(off.sqrt() < 0.1, "{}", off.sqrt());
}

#[test]
fn weights_in_8_bits_speak_too() {
    let voice = voice();
    let engine = Engine::open(options().precision(Precision::Int8)).unwrap();
    let frames = say(&engine, TEXT, &of(voice.path()));
    assert!(sound(&frames).iter().any(|sample| sample.abs() > 0.01));
}
