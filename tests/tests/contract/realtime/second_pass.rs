//! Second passes of realtime sessions, and the languages that they bring.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use auricle_engine::audio::AudioStream;
use auricle_tests::{
    Account, Frame, Live, Service, Setup, Turn, eventually, fixtures, models, pcm, skip, text_of, turns,
};
use serde_json::json;
use tempfile::TempDir;

/// 100 ms at 16 kHz.
const CHUNK: usize = 3200;
const ENGLISH: &str = "The old harbor lies quiet, but the boats are ready.";
const GERMAN: &str = "Die Züge fahren heute später, sagte der Schaffner.";

/// A models folder whose files model is this Whisper, and whose live model the starter.
fn write_models(whisper: &Path, languages: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let entry = |id: &str, kind: &str, starter: &Path, languages: &str| {
        format!(
            "[[model]]\nid = {id:?}\nkind = {kind:?}\npublished = \"somebody/something\"\nfolder = \"none\"\n\
             languages = [\"en\"]\nstarter = {starter:?}\nstarter_languages = {languages}\n"
        )
    };
    let live = models().join("starter/asr-en");
    let catalog = [
        entry("svc-best", "prerecorded", whisper, languages),
        entry("svc-fast", "prerecorded", whisper, languages),
        entry("svc-realtime-pro", "realtime", &live, "[\"en\"]") + "look_ahead_ms = 160\n",
        entry("svc-realtime", "realtime", &live, "[\"en\"]") + "look_ahead_ms = 1120\n",
        format!(
            "[detector]\npublished = \"somebody/something\"\nfolder = \"none\"\nstarter = {:?}\n",
            models().join("starter/vad")
        ),
    ];
    std::fs::write(dir.path().join("catalog.toml"), catalog.concat()).unwrap();
    dir
}

/// A service on the tiny Whisper of the fixtures, which was taught a few sentences.
fn service() -> &'static Service {
    static SERVICE: OnceLock<(TempDir, Service)> = OnceLock::new();
    let start = || {
        let models = write_models(&fixtures().join("whisper/taught"), "[\"en\", \"de\"]");
        let service = Setup::new().on(models.path()).start();
        (models, service)
    };
    &SERVICE.get_or_init(start).1
}

/// A taught sentence between silence, at 16 kHz.
fn sentence(name: &str) -> Vec<u8> {
    let path = fixtures().join("whisper/taught/sounds").join(name);
    let sound = AudioStream::open(path).unwrap().read_to_end().unwrap();
    [vec![0; 32_000], pcm(sound), vec![0; 64_000]].concat()
}

/// The frames of a session in a language for this sound, which is sent as fast as it is spoken.
fn session(account: &Account, language: Option<&str>, sound: &[u8]) -> Vec<Frame> {
    let mut live = account.mint(&json!({"language_code": language})).open();
    live.ready();
    for piece in sound.chunks(CHUNK) {
        live.send(piece, CHUNK);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    live.stop();
    live.rest()
}

fn turns_of(frames: &[Frame], sound: &[u8]) -> Vec<Turn> {
    assert!(frames.ends_with(&[Frame::Done, Frame::Closed(1000)]), "{frames:?}");
    turns(frames, sound.len() as u64 / 32)
}

/// Second passes by their result.
fn counted(service: &Service, result: &str) -> f64 {
    service.metric(&format!("auricle_second_passes_total{{result=\"{result}\"}}"))
}

#[test]
fn the_formatted_frame_has_the_offline_models_text_and_is_counted() {
    let before = counted(service(), "done") + counted(service(), "missed");
    let sound = sentence("english.flac");
    // A busy machine may miss a deadline.
    let text = eventually("a second pass is in time", || {
        let turns = turns_of(&session(&service().account(), Some("en"), &sound), &sound);
        assert_eq!(turns.len(), 1, "{turns:?}");
        assert_ne!(turns[0].raw.text, ENGLISH);
        (turns[0].formatted.text == ENGLISH).then(|| turns[0].formatted.text.clone())
    });
    assert_eq!(text, ENGLISH);
    assert!(counted(service(), "done") > 0.0);
    assert!(counted(service(), "done") + counted(service(), "missed") > before);
}

#[test]
fn without_a_second_pass_the_first_ones_text_is_formatted() {
    let folder = write_models(&fixtures().join("whisper/taught"), "[\"en\", \"de\"]");
    let service = Setup::new().on(folder.path()).with("live_second_pass", "off").start();
    let sound = sentence("english.flac");
    let turns = turns_of(&session(&service.account(), Some("en"), &sound), &sound);
    assert_ne!(turns[0].formatted.text, ENGLISH);
    assert_eq!(counted(&service, "done") + counted(&service, "missed"), 0.0);
    let refused = service.account().ask_for_token(&json!({"language_code": "de"}));
    assert_eq!(refused.status, 422, "German came with the second pass");
}

#[test]
fn german_and_automatic_sessions_are_written_by_the_offline_model() {
    let sound = sentence("german.flac");
    for language in [Some("de"), None] {
        let turns = turns_of(&session(&service().account(), language, &sound), &sound);
        assert_eq!(text_of(&turns), GERMAN, "{language:?}");
        assert_eq!(turns[0].formatted.text, GERMAN);
    }
    let refused = service().account().ask_for_token(&json!({"language_code": "fr"}));
    assert_eq!(refused.status, 422);
    let listed = service().account().get("/v2/models").ok();
    let live = listed["data"].as_array().unwrap().iter().find(|model| model["id"] == "svc-realtime-pro").unwrap();
    assert_eq!(live["languages"], json!(["en", "de"]));
}

#[test]
fn clients_that_leave_within_a_second_pass_leave_no_place_taken() {
    let folder = write_models(&fixtures().join("whisper/taught"), "[\"en\", \"de\"]");
    let service = Setup::new().on(folder.path()).with("max_live_sessions", 2).start();
    let account = service.account();
    let sound = sentence("german.flac");
    for _ in 0..6 {
        let token = account.mint(&json!({"language_code": "de"}));
        let mut live: Live = eventually("there is room", || {
            let mut live = token.open();
            (live.read() == Frame::Ready).then_some(live)
        });
        live.send(&sound, CHUNK);
        drop(live);
    }
    let text = eventually("a session goes through", || {
        let mut live = account.mint(&json!({"language_code": "de"})).open();
        (live.read() == Frame::Ready).then(|| {
            live.send(&sound, CHUNK);
            live.stop();
            text_of(&turns_of(&live.rest(), &sound))
        })
    });
    assert_eq!(text, GERMAN);
    let events = eventually("each session is billed", || {
        let usage = account.get("/v2/usage?limit=100").ok();
        let events = usage["data"].as_array().unwrap().clone();
        (events.len() >= 7).then_some(events)
    });
    let mut sessions: Vec<&str> = events.iter().map(|event| event["session_id"].as_str().unwrap()).collect();
    sessions.sort_unstable();
    let all = sessions.len();
    sessions.dedup();
    assert_eq!(sessions.len(), all, "none is billed twice");
}

/// A sound file between silence, at 16 kHz.
fn between_silence(file: &Path) -> Vec<u8> {
    let sound = AudioStream::open(file).unwrap().read_to_end().unwrap();
    [vec![0; 32_000], pcm(sound), vec![0; 64_000]].concat()
}

/// Asserts that the starters write most of these words, with the language and without.
#[track_caller]
fn assert_written(language: &str, sound: &[u8], words: [&str; 3]) {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    let service = SERVICE.get_or_init(|| Setup::new().starter().start());
    for given in [Some(language), None] {
        let said = text_of(&turns_of(&session(&service.account(), given, sound), sound)).to_lowercase();
        let found = words.iter().filter(|word| said.contains(**word)).count();
        assert!(found >= 2, "{language}, given {given:?}: {said}");
    }
}

#[test]
fn spoken_german_is_written_by_the_starters() {
    assert_written("de", &between_silence(&fixtures().join("german/fraud.opus")), ["nützen", "ausmaß", "betrug"]);
}

#[test]
fn spoken_spanish_is_written_by_the_starters() {
    let text = "Buenos días, mañana vamos a la playa con toda la familia.";
    let Ok(output) = Command::new("espeak-ng").args(["-v", "es", "-s", "140", "--stdout", text]).output() else {
        return skip("no espeak-ng (Debian: apt-get install espeak-ng)");
    };
    let file = tempfile::Builder::new().suffix(".wav").tempfile().unwrap();
    std::fs::write(file.path(), output.stdout).unwrap();
    assert_written("es", &between_silence(file.path()), ["días", "mañana", "playa"]);
}
