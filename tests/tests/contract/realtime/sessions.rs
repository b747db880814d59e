//! Realtime sessions: interface section 6.2 and the limits of a session.

use std::sync::OnceLock;
use std::time::Duration;

use auricle_tests::{Frame, Live, Service, Setup, Turn, Verdict, eventually, spoken, text_of, turn_detector, turns};
use serde_json::json;
use tungstenite::Message;

/// 100 ms at 16 kHz.
const CHUNK: usize = 3200;

/// On the tiny checkpoint, whose words are nonsense.
fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::new().start())
}

/// The first pass alone, on the checkpoints that ship with the repository.
fn first_pass() -> Setup {
    Setup::new().starter().with("live_second_pass", "off")
}

/// On the checkpoints that ship with the repository.
fn starter() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| first_pass().start())
}

/// A session that is ready.
fn open(service: &Service) -> Live {
    let mut live = service.account().mint(&json!({})).open();
    live.ready();
    live
}

/// The length of PCM16 at 16 kHz.
fn ms(pcm: &[u8]) -> u64 {
    pcm.len() as u64 / 32
}

/// Asserts a normal end of a session: one `done`, as the last frame, then code 1000.
#[track_caller]
fn assert_done(frames: &[Frame]) {
    assert!(frames.ends_with(&[Frame::Done, Frame::Closed(1000)]), "{frames:?}");
    let rest = &frames[..frames.len() - 2];
    assert!(rest.iter().all(|frame| frame.transcript().is_some()), "nothing but transcripts before: {frames:?}");
}

/// The turns of a new session for the recording at a sample rate.
fn transcribed(service: &Service, model: &str, rate: u32) -> (Vec<Frame>, Vec<Turn>) {
    let pcm = spoken(rate);
    let mut live = service.account().mint(&json!({"model": model, "sample_rate": rate})).open();
    live.ready();
    live.send(&pcm, 2 * rate as usize / 10);
    live.stop();
    let frames = live.rest();
    assert_done(&frames);
    let turns = turns(&frames, pcm.len() as u64 * 500 / u64::from(rate));
    (frames, turns)
}

/// The turns of a sentence that is said twice, with a pause of 0.4 s between and silence after, and what was said.
fn said_twice(turn_detector: &str) -> (usize, String) {
    let setup = first_pass().with("turn_detector", turn_detector);
    let service = setup.with("turn_finished_silence_ms", 250).start();
    // Without the silence at its end.
    let sentence = &spoken(16_000)[8 * 32_000..336_000];
    let pcm = [sentence, &[0; 12_800], sentence, &[0; 64_000]].concat();
    let mut live = open(&service);
    live.send(&pcm, CHUNK);
    live.stop();
    let frames = live.rest();
    assert_done(&frames);
    let turns = turns(&frames, ms(&pcm));
    (turns.len(), text_of(&turns))
}

#[test]
fn a_turn_detector_ends_turns_of_speakers_who_have_finished() {
    let [finished, goes_on] = [Verdict::Finished, Verdict::Open].map(turn_detector);
    let [finished, goes_on] = [&finished, &goes_on].map(|folder| said_twice(folder.path().to_str().unwrap()));
    let without = said_twice("off");
    assert_eq!(goes_on, without, "silence alone ends a turn that goes on");
    assert!(finished.0 > without.0, "{finished:?} {without:?}");
}

#[test]
fn stop_without_audio_is_done() {
    let mut live = open(service());
    live.stop();
    assert_eq!(live.rest(), [Frame::Done, Frame::Closed(1000)]);
}

#[test]
fn a_turn_is_partials_then_its_final_then_its_formatted_form() {
    for model in ["svc-realtime-pro", "svc-realtime"] {
        let (frames, turns) = transcribed(starter(), model, 16000);
        assert!(!turns.is_empty(), "{model} hears something: {frames:?}");
        let first = frames.iter().position(|frame| frame.transcript().is_some_and(|heard| heard.end_of_turn)).unwrap();
        let partials = frames[..first].iter().filter_map(Frame::transcript);
        assert!(partials.filter(|partial| !partial.words.is_empty()).count() > 0, "{model}: {frames:?}");
        for Turn { raw, formatted } in &turns {
            let text = formatted.text.as_str();
            assert!(text.contains(char::is_uppercase), "casing: {raw:?} {formatted:?}");
            assert!(text.ends_with(['.', '?', '!']), "punctuation: {raw:?} {formatted:?}");
        }
    }
}

#[test]
fn the_language_model_can_be_left_out() {
    let said = |service: &Service| -> Vec<String> {
        transcribed(service, "svc-realtime", 16000).1.into_iter().map(|turn| turn.raw.text).collect()
    };
    let greedy = first_pass().with("live_language_model", false).start();
    assert_ne!(said(&greedy), said(starter()));
}

#[test]
fn transcripts_come_while_audio_goes_in_and_silence_ends_a_turn() {
    let mut live = open(starter());
    live.send(&spoken(16000), CHUNK);
    // No stop was sent: these frames come by themselves.
    let mut frames = Vec::new();
    while !frames.last().and_then(Frame::transcript).is_some_and(|heard| heard.formatted) {
        frames.push(Frame::Transcript(live.heard()));
    }
    live.stop();
    frames.extend(live.rest());
    assert_done(&frames);
    assert!(!turns(&frames, ms(&spoken(16000))).is_empty());
}

#[test]
fn stop_flushes_the_turn_that_is_being_spoken() {
    let mut live = open(starter());
    // In the middle of the speech.
    let pcm = &spoken(16000)[..10 * 32000];
    live.send(pcm, CHUNK);
    live.stop();
    let frames = live.rest();
    assert_done(&frames);
    let turns = turns(&frames, ms(pcm));
    let last = frames.iter().filter_map(Frame::transcript).next_back().unwrap();
    assert_eq!(last, &turns.last().unwrap().formatted, "nothing is left as a partial");
}

#[test]
fn every_sample_rate_is_transcribed() {
    for rate in [8000, 16000, 44100, 48000] {
        let (frames, turns) = transcribed(starter(), "svc-realtime-pro", rate);
        let last = turns.iter().flat_map(|turn| &turn.raw.words).next_back();
        // The speech lasts past the tenth second, so a wrong sample rate would show in its times.
        assert!(last.is_some_and(|word| word.end > 6500), "{rate} Hz: {frames:?}");
    }
}

#[test]
fn other_text_frames_are_ignored() {
    let mut live = open(starter());
    let pcm = spoken(16000);
    let others = [
        "",
        "stop",
        "\"stop\"",
        "{",
        "{}",
        "[]",
        "null",
        "5",
        "{\"type\":\"start\"}",
        "{\"type\":null}",
        "{\"type\":[\"stop\"]}",
        "{\"type\":\"STOP\"}",
        "{\"stop\":true}",
        "{\"data\":{\"type\":\"stop\"}}",
        "🎙",
        "{\"type\":\"session.update\",\"sample_rate\":8000,\"language_code\":\"pt\"}",
    ];
    let half = pcm.len() / 4 * 2;
    live.send(&pcm[..half], CHUNK);
    others.iter().for_each(|other| live.say(other));
    live.say(&format!("{{\"type\":\"note\",\"deep\":{}{}}}", "[".repeat(5000), "]".repeat(5000)));
    live.send(&pcm[half..], CHUNK);
    live.say(" { \"type\" : \"stop\" } ");
    let frames = live.rest();
    assert_done(&frames);
    // All audio was taken at the minted sample rate: the times of the second half are there.
    let turns = turns(&frames, ms(&pcm));
    assert!(turns.last().unwrap().raw.words.last().unwrap().end > 6500, "{}", text_of(&turns));
}

#[test]
fn audio_is_never_taken_for_a_command() {
    let mut live = open(service());
    live.send(b"{\"type\":\"stop\"}", CHUNK);
    live.ping(b"still there");
    live.stop();
    assert_done(&live.rest());
}

#[test]
fn audio_faster_than_real_time_is_buffered() {
    let mut live = open(starter());
    // More than 90 s, which is more than the buffer holds.
    let pcm = spoken(16000).repeat(8);
    live.send(&pcm, CHUNK);
    live.stop();
    let frames = live.rest();
    assert_done(&frames);
    let turns = turns(&frames, ms(&pcm));
    let last = turns.iter().flat_map(|turn| &turn.raw.words).next_back().unwrap();
    assert!(last.start > ms(&pcm) / 8 * 7, "the last of eight times is heard: {last:?}");
}

/// Silence gives no frames, and the rest of the audio is read all the same.
#[test]
fn silence_faster_than_real_time_is_read_to_its_end() {
    let mut live = open(starter());
    live.send(&vec![0; 150 * 32_000], 64_000);
    live.stop();
    assert_eq!(live.rest(), [Frame::Done, Frame::Closed(1000)]);
}

#[test]
fn sessions_do_not_mix() {
    let (mut silent, mut speaking) = (open(starter()), open(starter()));
    let pcm = spoken(16000);
    for part in pcm.chunks(CHUNK) {
        silent.send(&vec![0; part.len()], CHUNK);
        speaking.send(part, CHUNK);
    }
    silent.stop();
    speaking.stop();
    let (nothing, something) = (silent.rest(), speaking.rest());
    assert_done(&nothing);
    assert_done(&something);
    assert!(turns(&nothing, ms(&pcm)).is_empty(), "digital silence has no words: {nothing:?}");
    assert!(!turns(&something, ms(&pcm)).is_empty(), "{something:?}");
}

#[test]
fn a_session_ends_at_the_cap_with_its_transcripts() {
    const CAP: u64 = 4;
    let service = first_pass().with("live_session_seconds", CAP).start();
    let mut live = open(&service);
    let pcm = &spoken(16000)[..10 * 32000];
    live.send(pcm, CHUNK);
    let frames = live.rest();
    assert!(live.asked().elapsed() >= Duration::from_secs(CAP), "not before its time");
    assert!(frames.ends_with(&[Frame::Done, Frame::Closed(1000)]), "{frames:?}");
    let reconnects = frames.iter().filter(|frame| matches!(frame, Frame::Reconnect(_))).count();
    assert_eq!(reconnects, 1, "{frames:?}");
    assert!(!turns(&frames, ms(pcm)).is_empty(), "{frames:?}");
    let last = frames.iter().filter_map(Frame::transcript).next_back().unwrap();
    assert!(last.formatted, "nothing is left as a partial: {last:?}");
}

#[test]
fn a_session_without_audio_times_out() {
    const IDLE: u64 = 2;
    let service = Setup::new().with("live_idle_seconds", IDLE).start();
    let timed_out = [Frame::Error("Session timed out.".into()), Frame::Closed(1000)];
    let mut live = open(&service);
    assert_eq!(live.rest(), timed_out);
    assert!(live.asked().elapsed() >= Duration::from_secs(IDLE), "not before its time");
    // Text frames do not count as audio.
    let mut live = open(&service);
    let frame = eventually("it times out", || {
        live.try_send(Message::text("{\"type\":\"still there\"}"));
        live.read_within(Duration::from_millis(100))
    });
    assert_eq!(frame, timed_out[0]);
}

#[test]
fn audio_keeps_a_session_alive() {
    const IDLE: u64 = 4;
    let service = Setup::new().with("live_idle_seconds", IDLE).start();
    let mut live = open(&service);
    let mut heard = Vec::new();
    while live.at_least() < Duration::from_secs(2 * IDLE + 1) {
        live.send(&[0; CHUNK], CHUNK);
        heard.extend(live.read_within(Duration::from_millis(100)));
    }
    live.stop();
    heard.extend(live.rest());
    assert_done(&heard);
}

#[test]
fn sessions_beyond_the_limit_are_refused() {
    let service = Setup::new().with("max_live_sessions", 2).start();
    let (mut one, mut two) = (open(&service), open(&service));
    let token = service.account().mint(&json!({}));
    let unavailable = Frame::Error("Realtime transcription is unavailable.".into());
    assert_eq!(token.open().rest(), [unavailable.clone(), Frame::Closed(1013)]);
    two.ping(b"not for want of me");
    one.stop();
    assert_done(&one.rest());
    let mut three = eventually("there is room again", || {
        let mut live = token.open();
        match live.read() {
            Frame::Ready => Some(live),
            turned_away => {
                assert_eq!(turned_away, unavailable);
                None
            }
        }
    });
    for live in [&mut two, &mut three] {
        live.stop();
        assert_done(&live.rest());
    }
}

#[test]
fn a_stopping_service_finishes_its_sessions() {
    let service = first_pass().start();
    let pcm = &spoken(16000)[..10 * 32000];
    let (mut silent, mut live) = (open(&service), open(&service));
    live.send(pcm, CHUNK);
    let mut frames = vec![Frame::Transcript(live.heard())];
    service.terminate();
    frames.extend(live.rest());
    assert_eq!(frames.last(), Some(&Frame::Closed(1001)), "{frames:?}");
    assert_eq!(frames.iter().filter(|frame| matches!(frame, Frame::Reconnect(_))).count(), 1, "{frames:?}");
    assert!(!frames.iter().any(|frame| matches!(frame, Frame::Error(_))), "{frames:?}");
    assert!(!turns(&frames, ms(pcm)).is_empty(), "{frames:?}");
    let frames = silent.rest();
    assert!(matches!(frames[0], Frame::Reconnect(_)), "{frames:?}");
    assert_eq!(frames.last(), Some(&Frame::Closed(1001)), "{frames:?}");
    assert!(service.wait().success());
}

#[test]
fn a_session_hides_words_and_shows_none_before_the_end_of_their_turn() {
    let service = Setup::new().starter().start();
    let account = service.account();
    let line = json!({
        "model": "tts-1", "voice": "alloy", "response_format": "pcm",
        "input": "My name is Michael Johnson, and I live in Chicago.",
    });
    let pcm = account.post("/v1/audio/speech", &line).body;
    let mut live = account.mint(&json!({ "language_code": "en", "sample_rate": 24_000, "pii_redaction": true })).open();
    live.ready();
    live.send(&pcm, CHUNK);
    live.stop();
    let frames = live.rest();
    assert_done(&frames);
    let transcripts: Vec<_> = frames.iter().filter_map(Frame::transcript).collect();
    assert!(transcripts.iter().all(|frame| frame.end_of_turn), "{transcripts:?}");
    let (raw, formatted): (Vec<_>, Vec<_>) = transcripts.iter().partition(|frame| !frame.formatted);
    let texts =
        |frames: &[&&auricle_tests::TranscriptFrame]| frames.iter().map(|frame| frame.text.clone()).collect::<Vec<_>>();
    assert_eq!(texts(&raw), texts(&formatted));
    let text = texts(&formatted).join(" ");
    assert!(text.contains("[PERSON_NAME]"), "{text}");
    assert!(!text.contains("Michael") && !text.contains("Johnson"), "{text}");
}
