//! Live turns that an offline model reads again: the tiny Whisper of the fixtures, which was taught a few sentences, beside or in place of
//! the starter.

use std::path::Path;
use std::sync::OnceLock;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_engine::blocking::{Engine, Events};
use auricle_engine::{
    Caption, DeviceChoice, EndpointingRules, EngineOptions, Error, LanguageModelChoice, ListenOptions, LiveEvent,
    LiveInput, LiveOutput, SecondPass,
};
use auricle_tests::{eventually, fixtures, models, readers, speech};
use tempfile::TempDir;

const SECOND: usize = SAMPLE_RATE as usize;
const ENGLISH: &str = "The old harbor lies quiet, but the boats are ready.";
const GERMAN: &str = "Die Züge fahren heute später, sagte der Schaffner.";

/// A models folder whose files model is the taught Whisper, and whose live model the starter.
fn write_models(taught_languages: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let entry = |id: &str, kind: &str, starter: &Path, languages: &str| {
        format!(
            "[[model]]\nid = {id:?}\nkind = {kind:?}\npublished = \"somebody/something\"\nfolder = \"none\"\n\
             languages = [\"en\"]\nstarter = {starter:?}\nstarter_languages = {languages}\n"
        )
    };
    let catalog = [
        entry("svc-best", "prerecorded", &fixtures().join("whisper/taught"), taught_languages),
        entry("svc-realtime-pro", "realtime", &models().join("starter/asr-en"), "[\"en\"]") + "look_ahead_ms = 160\n",
        format!(
            "[detector]\npublished = \"somebody/something\"\nfolder = \"none\"\nstarter = {:?}\n",
            models().join("starter/vad")
        ),
    ];
    std::fs::write(dir.path().join("catalog.toml"), catalog.concat()).unwrap();
    dir
}

fn open(models: &Path, live_streams: usize) -> Engine {
    let options = EngineOptions::default().models(models).device(DeviceChoice::Cpu).live_streams(live_streams);
    Engine::open(options).unwrap()
}

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<(TempDir, Engine)> = OnceLock::new();
    let made = || {
        let models = write_models("[\"en\", \"de\"]");
        let engine = open(models.path(), 64);
        (models, engine)
    };
    &ENGINE.get_or_init(made).1
}

/// Options of an English session in which a second pass has all the time that it takes.
fn patient() -> ListenOptions {
    ListenOptions::default().language("en").language_model(LanguageModelChoice::Off).formatted_within_ms(60_000)
}

/// A sentence that the tiny Whisper was taught, after a second of silence, and silence after it.
fn sentence(name: &str) -> Vec<f32> {
    let path = fixtures().join("whisper/taught/sounds").join(name);
    let mut samples = vec![0.0; SECOND];
    samples.extend(AudioStream::open(path).unwrap().read_to_end().unwrap());
    samples.resize(samples.len() + 2 * SECOND, 0.0);
    samples
}

fn all(events: Events) -> Vec<LiveEvent> {
    events.map(Result::unwrap).collect()
}

fn heard(engine: &Engine, options: &ListenOptions, samples: &[f32]) -> Vec<LiveEvent> {
    let (mut input, events) = engine.listen(options).unwrap();
    let reader = std::thread::spawn(move || all(events));
    for piece in samples.chunks(SECOND / 10) {
        input.blocking_send(piece).unwrap();
    }
    input.finish().unwrap();
    reader.join().unwrap()
}

/// The finals, each with its formatted form. Asserts that nothing comes between the two.
fn turns(events: &[LiveEvent]) -> Vec<(Caption, Caption)> {
    let mut turns: Vec<(Caption, Caption)> = Vec::new();
    let mut open: Option<Caption> = None;
    for event in events {
        match (event, open.take()) {
            (LiveEvent::Final(caption), None) => open = Some(caption.clone()),
            (LiveEvent::Formatted(caption), Some(raw)) => turns.push((raw, caption.clone())),
            (LiveEvent::Partial(_), None) => {}
            (event, open) => panic!("{event:?} after {open:?}"),
        }
    }
    assert_eq!(open, None, "each final is restated");
    turns
}

fn formatted(events: &[LiveEvent]) -> Vec<String> {
    turns(events).into_iter().map(|(_, formatted)| formatted.text).collect()
}

#[test]
fn the_formatted_text_is_the_offline_models_with_its_own_words_and_times() {
    let samples = sentence("english.flac");
    let events = heard(engine(), &patient(), &samples);
    let [(raw, formatted)] = turns(&events).try_into().unwrap();
    assert_eq!(formatted.text, ENGLISH);
    assert_ne!(raw.text, ENGLISH, "the final is the first pass's");
    let without = turns(&heard(engine(), &patient().second_pass(SecondPass::Off), &samples));
    assert_eq!((&without[0].0.text, without.len()), (&raw.text, 1), "the first pass is the same");
    let words: Vec<&str> = formatted.words.iter().map(|word| word.text.as_str()).collect();
    assert_eq!(words.join(" "), ENGLISH);
    let (first, last) = (&formatted.words[0], &formatted.words[words.len() - 1]);
    assert!((800..2_000).contains(&first.start), "times count from the session's first sample: {first:?}");
    assert!((3_000..5_000).contains(&last.end), "{last:?}");
    assert!(formatted.words.windows(2).all(|pair| pair[0].start <= pair[1].start));
}

#[test]
fn turns_keep_their_order_and_times() {
    let samples = [sentence("english.flac"), sentence("english.flac"), sentence("english.flac")].concat();
    let turns = turns(&heard(engine(), &patient(), &samples));
    assert_eq!(turns.len(), 3, "{turns:?}");
    let mut end = 0;
    for (raw, formatted) in &turns {
        assert_eq!(formatted.text, ENGLISH);
        assert!(formatted.words[0].start >= end && raw.words[0].start >= end);
        end = formatted.words.last().unwrap().end;
    }
    assert!(end > 12_000, "{end}");
}

#[test]
fn a_second_pass_that_would_be_late_is_not_waited_for() {
    let samples = sentence("english.flac");
    let off = formatted(&heard(engine(), &patient().second_pass(SecondPass::Off), &samples));
    // All audio comes at once, so that nothing can be read before the turn ends.
    let (mut input, events) = engine().listen(&patient().formatted_within_ms(0)).unwrap();
    input.push(&samples).unwrap();
    input.finish().unwrap();
    assert_eq!(formatted(&all(events)), off, "the first pass's text stands");
}

#[test]
fn a_language_that_the_live_model_lacks_is_written_by_the_offline_model_alone() {
    let german = || patient().language("de");
    let events = heard(engine(), &german(), &sentence("german.flac"));
    let [(raw, formatted)] = turns(&events).try_into().unwrap();
    assert_eq!((raw.text.as_str(), formatted.text.as_str()), (GERMAN, GERMAN));
    assert!((800..2_000).contains(&formatted.words[0].start), "{formatted:?}");
    assert!(formatted.words.last().unwrap().end < 5_000);
    let refused = |options: ListenOptions| engine().listen(&options).err().unwrap();
    assert!(matches!(refused(patient().language("fr")), Error::Language(_)));
    assert!(matches!(refused(german().second_pass(SecondPass::Off)), Error::Language(_)));
}

#[test]
fn a_session_without_a_language_finds_that_of_each_turn() {
    let mut automatic = patient();
    automatic.language = None;
    let (german, english) = (sentence("german.flac"), sentence("english.flac"));
    let samples = [german.clone(), english.clone(), english, german].concat();
    let first_pass = turns(&heard(engine(), &patient().second_pass(SecondPass::Off), &samples));
    let raw = |turn: usize| &*first_pass[turn].0.text;
    let found = turns(&heard(engine(), &automatic, &samples));
    let texts: Vec<(&str, &str)> = found.iter().map(|(raw, formatted)| (&*raw.text, &*formatted.text)).collect();
    let english = [(raw(1), ENGLISH), (raw(2), ENGLISH)];
    assert_eq!((texts[0], &texts[1..3]), ((GERMAN, GERMAN), &english[..]), "English finals are the live model's");
    // Its final may be out before its language is known.
    assert_eq!((texts[3].1, texts.len()), (GERMAN, 4));
    assert_ne!(raw(0), GERMAN);
}

#[test]
fn partials_come_before_the_language_is_known() {
    let mut automatic = patient();
    automatic.language = None;
    let (mut input, mut events) = engine().listen(&automatic).unwrap();
    // No second reading can agree with the first.
    input.push(&sentence("english.flac")[..3 * SECOND]).unwrap();
    assert!(matches!(events.next().unwrap().unwrap(), LiveEvent::Partial(caption) if !caption.text.is_empty()));
}

#[test]
fn partials_of_the_offline_model_alone_only_grow() {
    let (mut input, events) = engine().listen(&patient().language("de")).unwrap();
    let reader = std::thread::spawn(move || all(events));
    // A sentence three times in one breath, at a pace that leaves time between its seconds.
    let sound = &sentence("german.flac")[SECOND..];
    let sound = &sound[..sound.len() - 2 * SECOND];
    for piece in sound.repeat(3).chunks(SECOND / 10).chain(vec![0.0; 2 * SECOND].chunks(SECOND / 10)) {
        input.blocking_send(piece).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    input.finish().unwrap();
    let (mut shown, mut partials) = (Vec::new(), 0);
    for event in reader.join().unwrap() {
        match event {
            LiveEvent::Partial(caption) if !caption.words.is_empty() => {
                let words: Vec<String> = caption.words.into_iter().map(|word| word.text).collect();
                assert!(words.starts_with(&shown), "{words:?} after {shown:?}");
                (shown, partials) = (words, partials + 1);
            }
            _ => shown.clear(),
        }
    }
    assert!(partials > 0, "two readings agree on something");
}

#[test]
fn silence_and_noise_have_no_turns() {
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let samples: Vec<f32> = (0..20 * SECOND).map(|at| if at < 10 * SECOND { 0.0 } else { noise() * 0.1 }).collect();
    for options in [patient(), patient().language("de")] {
        assert_eq!(turns(&heard(engine(), &options, &samples)), []);
    }
}

/// The starter reads as an offline model too, and a turn that never pauses for long is cut into windows as it goes.
/// Two people at once: the turns are those of the louder sound, each restated, and all words lie within the audio.
#[test]
fn two_people_at_once_are_turns_like_others() {
    let (one, two) = (sentence("english.flac"), sentence("german.flac"));
    for options in [patient(), patient().language("de"), ListenOptions::default().formatted_within_ms(60_000)] {
        for shift in [0, SECOND / 2] {
            let mut both = one.clone();
            both.resize(one.len().max(two.len() + shift), 0.0);
            both[shift..].iter_mut().zip(&two).for_each(|(sum, other)| *sum += other);
            let turns = turns(&heard(engine(), &options, &both));
            assert!(!turns.is_empty(), "{options:?}");
            let end_ms = (both.len() * 1000 / SECOND) as u64;
            for (raw, formatted) in &turns {
                let words = raw.words.iter().chain(&formatted.words);
                assert!(!raw.words.is_empty() && !formatted.words.is_empty());
                words.for_each(|word| assert!(word.start <= word.end && word.end <= end_ms, "{word:?}"));
            }
        }
    }
}

/// The starter once more, as another checkpoint than the live one.
fn starter_again() -> TempDir {
    let starter = tempfile::tempdir().unwrap();
    let files = std::fs::read_dir(models().join("starter/asr-en")).unwrap().map(Result::unwrap);
    for file in files.filter(|file| file.path().is_file()) {
        std::fs::copy(file.path(), starter.path().join(file.file_name())).unwrap();
    }
    starter
}

#[test]
fn numbers_of_the_second_pass_are_written_as_those_of_the_first() {
    let starter = starter_again();
    let [_, woman] = readers();
    let samples = [woman, vec![0.0; 2 * SECOND]].concat();
    for second_pass in [SecondPass::Path(starter.path().into()), SecondPass::Off] {
        let options = patient().second_pass(second_pass);
        let written = formatted(&heard(engine(), &options, &samples)).concat();
        assert!(written.contains("13,000") && !written.contains("thirteen"), "{options:?}: {written}");
        let spoken = formatted(&heard(engine(), &options.format_numbers(false), &samples)).concat();
        assert_eq!(spoken.replace("thirteen thousand", "13,000"), written);
    }
}

#[test]
fn a_long_turn_is_read_in_parts() {
    let starter = starter_again();
    let rules = EndpointingRules::default().silence_ms(10_000).blank_ms(10_000).longest_ms(3_300_000);
    let options = patient().second_pass(SecondPass::Path(starter.path().into())).turns(rules);
    let spoken = AudioStream::open(speech()).unwrap().read_to_end().unwrap();
    let [(raw, formatted)] = turns(&heard(engine(), &options, &spoken.repeat(6))).try_into().unwrap();
    let long_ms = (spoken.len() * 6 / 16) as u64;
    assert!(long_ms > 60_000 && formatted.words.last().unwrap().end > long_ms - 8_000, "{formatted:?}");
    let (many, few) = (raw.words.len().max(formatted.words.len()), raw.words.len().min(formatted.words.len()));
    assert!(
        few * 10 > many * 8,
        "{} words of the first pass, {} of the second",
        raw.words.len(),
        formatted.words.len()
    );
    assert!(formatted.words.windows(2).all(|pair| pair[0].start <= pair[1].start));
    assert_ne!(raw.text.to_lowercase(), formatted.text.to_lowercase(), "it is read anew");
}

/// Sessions that are left before their second pass is done leave no place taken.
#[test]
fn a_session_that_is_left_frees_its_places() {
    let folder = write_models("[\"en\", \"de\"]");
    let engine = open(folder.path(), 1);
    let samples = sentence("english.flac");
    let listen = |options: &ListenOptions| -> (LiveInput, Events) {
        eventually("a place is free", || match engine.listen(options) {
            Ok(opened) => Some(opened),
            Err(Error::Busy(_)) => None,
            Err(error) => panic!("{error}"),
        })
    };
    for options in [patient(), patient().language("de")].iter().cycle().take(12) {
        let (mut input, mut events) = listen(options);
        input.push(&samples).unwrap();
        // The second pass of its turn is on the way, or the turn itself.
        if options.language.as_deref() == Some("en") {
            assert!(events.any(|event| matches!(event.unwrap(), LiveEvent::Final(_))));
        }
    }
    let (mut input, events) = listen(&patient());
    input.push(&samples).unwrap();
    input.finish().unwrap();
    assert_eq!(formatted(&all(events)), [ENGLISH]);
}

#[tokio::test]
async fn the_mark_of_an_ended_turn_follows_its_formatted_text() {
    let folder = write_models("[\"en\", \"de\"]");
    let options = EngineOptions::default().models(folder.path()).device(DeviceChoice::Cpu);
    let engine = auricle_engine::Engine::open(options).unwrap();
    for (options, text) in [(patient(), ENGLISH), (patient().language("de"), GERMAN)] {
        let name = if text == ENGLISH { "english.flac" } else { "german.flac" };
        let (mut input, mut events) = engine.listen(&options).await.unwrap();
        let sound = sentence(name);
        // The turn ends by the caller's wish, long before silence would end it.
        input.push(&sound[..sound.len() - 2 * SECOND + SECOND / 5]).unwrap();
        input.end_turn();
        let mut formatted = Vec::new();
        loop {
            match events.next_output().await.unwrap().unwrap() {
                LiveOutput::Event(LiveEvent::Formatted(caption)) => formatted.push(caption.text),
                LiveOutput::Settled => break,
                _ => {}
            }
        }
        assert_eq!(formatted, [text]);
    }
}
