//! Speech of a model that gives one frame after another, through the public API: the same alone, in company and from text in pieces; words by
//! the voice's pace; callers that leave, and folders that are refused. The model has random weights and makes noise.

use std::path::Path;

use auricle_engine::blocking::Engine;
use auricle_engine::{DeviceChoice, Error, Precision, Result, SPEECH_FRAME, SpeakOptions, check_voice};
use auricle_tests::{devices, write_frame_voice};
use tempfile::TempDir;

use super::speech::{TEXT, engine, of, options, say, sound, words};

fn voice() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_frame_voice(dir.path());
    dir
}

#[test]
fn frames_hold_80_ms_and_all_words_in_their_order() {
    let voice = voice();
    let frames = say(&engine(), TEXT, &of(voice.path()));
    assert!(frames.iter().all(|frame| frame.samples.len() == SPEECH_FRAME));
    assert!(sound(&frames).iter().all(|sample| (-1.0..=1.0).contains(sample)));
    assert!(sound(&frames).iter().any(|sample| sample.abs() > 0.01));
    let words = words(&frames);
    let written: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let expected = "Good morning everyone It costs $5 to see the lake and the mill Is that too much No";
    assert_eq!(written.join(" "), expected);
    assert!(words.windows(2).all(|pair| pair[0].start_ms <= pair[1].start_ms), "{words:?}");
    // A word is reported in its frame, or with the last frame of a phrase that was shorter than its voice's pace.
    for (at, frame) in frames.iter().enumerate() {
        assert!(frame.words.iter().all(|word| word.start_ms <= 80 * (at as u64 + 1)), "{at}: {:?}", frame.words);
    }
    assert!(words.last().unwrap().end_ms <= 80 * frames.len() as u64);
}

#[test]
fn text_in_pieces_and_streams_in_company_sound_like_the_whole_alone() {
    let (voice, engine) = (voice(), engine());
    let by = |id: &str| of(voice.path()).voice(id);
    let expected = ["ann", "bob"].map(|id| say(&engine, TEXT, &by(id)));
    assert_ne!(sound(&expected[0]), sound(&expected[1]));
    let (mut input, speech) = engine.speak(&by("ann")).unwrap();
    for piece in TEXT.as_bytes().chunks(3) {
        input.push(std::str::from_utf8(piece).unwrap()).unwrap();
    }
    input.finish();
    assert_eq!(speech.collect::<Result<Vec<_>>>().unwrap(), expected[0]);
    std::thread::scope(|scope| {
        let (engine, by) = (&engine, &by);
        let together: Vec<_> = (0..6)
            .map(|n| scope.spawn(move || say(engine, TEXT, &by(["ann", "bob"][n % 2]).paced(n.is_multiple_of(3)))))
            .collect();
        for (n, thread) in together.into_iter().enumerate() {
            assert_eq!(thread.join().unwrap(), expected[n % 2], "stream {n}");
        }
    });
}

#[test]
fn a_caller_that_leaves_makes_room_for_the_next() {
    let voice = voice();
    let engine = Engine::open(options().speech_streams(1)).unwrap();
    let expected = say(&engine, "A new one.", &of(voice.path()));
    for round in 0..3 {
        let (mut input, mut speech) = engine.speak(&of(voice.path())).unwrap();
        assert!(matches!(engine.speak(&of(voice.path())).unwrap_err(), Error::Busy(_)));
        input.push(TEXT).unwrap();
        if round == 2 {
            speech.next().unwrap().unwrap();
        }
        match round {
            0 => drop(speech),
            1 => drop(input),
            _ => drop((input, speech)),
        }
    }
    // Nothing of the last is heard.
    assert_eq!(say(&engine, "A new one.", &of(voice.path())), expected);
}

#[test]
fn its_voices_have_one_speed_and_other_requests_are_refused_by_name() {
    let (voice, engine) = (voice(), engine());
    let listed: Vec<String> = engine.voices(&of(voice.path())).unwrap().into_iter().map(|voice| voice.id).collect();
    assert_eq!(listed, ["ann", "bob"]);
    let error = |options: SpeakOptions| engine.speak(&options).map(drop).unwrap_err();
    let fast = error(of(voice.path()).speed(1.5));
    assert!(matches!(fast, Error::InvalidOption(_)) && fast.to_string().contains("one speed"), "{fast}");
    let unknown = error(of(voice.path()).voice("siri"));
    assert!(matches!(unknown, Error::UnknownVoice(_)) && unknown.to_string().contains("ann (en)"), "{unknown}");
}

/// Streams of two voices, one paced: each says on a GPU what it says alone on the CPU.
#[test]
fn streams_in_company_on_a_gpu_say_the_same_words_at_the_same_times() {
    if devices().len() < 2 {
        return;
    }
    let voice = voice();
    let gpu = Engine::open(options().device(DeviceChoice::Vulkan(0))).unwrap();
    let by = |id: &str| of(voice.path()).voice(id);
    let text = "Good morning, it costs $5. No!";
    let expected = ["ann", "bob"].map(|id| say(&engine(), text, &by(id)));
    std::thread::scope(|scope| {
        let (gpu, by) = (&gpu, &by);
        let together: Vec<_> =
            (0..3).map(|n| scope.spawn(move || say(gpu, text, &by(["ann", "bob"][n % 2]).paced(n == 2)))).collect();
        for (n, thread) in together.into_iter().enumerate() {
            let (there, here) = (thread.join().unwrap(), &expected[n % 2]);
            assert_eq!(words(&there), words(here), "stream {n}");
            let (there, here) = (sound(&there), sound(here));
            assert_eq!(there.len(), here.len(), "stream {n}");
            let off = there.iter().zip(&here).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-3, "stream {n}: {off}");
        }
    });
}

#[test]
fn weights_in_8_bits_speak_too() {
    let voice = voice();
    let engine = Engine::open(options().precision(Precision::Int8)).unwrap();
    let frames = say(&engine, TEXT, &of(voice.path()));
    assert!(sound(&frames).iter().any(|sample| sample.abs() > 0.01));
    assert_ne!(sound(&frames), sound(&say(&self::engine(), TEXT, &of(voice.path()))));
}

#[test]
fn folders_whose_parts_do_not_fit_are_refused_by_name() {
    assert!(check_voice(voice().path()).unwrap() > 1_000);
    let refused = |change: &dyn Fn(&Path)| {
        let voice = voice();
        change(voice.path());
        check_voice(voice.path()).unwrap_err().to_string()
    };
    let without = refused(&|dir| std::fs::remove_dir_all(dir.join("voices")).unwrap());
    assert!(without.contains("voices"), "{without}");
    let empty = refused(&|dir| {
        for name in ["ann", "bob"] {
            std::fs::remove_file(dir.join(format!("voices/{name}.safetensors"))).unwrap();
        }
    });
    assert!(empty.contains("there is no voice"), "{empty}");
    let several = refused(&|dir| {
        std::fs::copy(dir.join("audio_tokenizer/model.safetensors"), dir.join("voices/ann.safetensors"))
            .map(drop)
            .unwrap();
    });
    assert!(several.contains("ann.safetensors") && several.contains("one is read"), "{several}");
    let codec = refused(&|dir| std::fs::remove_dir_all(dir.join("audio_tokenizer")).unwrap());
    assert!(codec.contains("audio_tokenizer"), "{codec}");
    let tokenizer = refused(&|dir| std::fs::write(dir.join("tokenizer.json"), "{}").unwrap());
    assert!(tokenizer.contains("tokenizer.json"), "{tokenizer}");
}

#[test]
fn weights_that_give_no_numbers_are_an_error() {
    let voice = voice();
    // The bias of the end's logit.
    let path = voice.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let names: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let offsets = &names["eos_head.bias"]["data_offsets"];
    let at = 8 + header + offsets[0].as_u64().unwrap() as usize;
    bytes[at..at + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
    let mut engines = vec![engine()];
    if devices().len() > 1 {
        engines.push(Engine::open(options().device(DeviceChoice::Vulkan(0))).unwrap());
    }
    for engine in engines {
        let error = engine.speak(&of(voice.path())).map(drop).unwrap_err();
        assert!(matches!(error, Error::Checkpoint { .. }) && error.to_string().contains("no numbers"), "{error}");
    }
}
