//! `/v1/realtime`, by hand and through the official package of PyPI, unchanged.

use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

use auricle_tests::{Account, Clock, Service, Setup, eventually, http, spoken};
use data_encoding::BASE64;
use reqwest::Url;
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::handshake::HandshakeError;
use tungstenite::http::header::SEC_WEBSOCKET_PROTOCOL;
use tungstenite::{Error, Message, WebSocket};

use crate::openai::{python, run};
use crate::voice_agent::mulaw;

pub const SECRETS: &str = "/v1/realtime/client_secrets";
/// The longest wait for an event.
const PATIENCE: Duration = Duration::from_secs(90);
/// Bytes of 100 ms of PCM16 at 24 kHz.
pub const TENTH: usize = 4_800;

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().starter().start())
}

/// A session, whose events are JSON.
pub struct Session(pub WebSocket<TcpStream>);

impl Session {
    /// Opens a session with these headers; the status of the answer if there is none.
    pub fn connect(
        service: &Service,
        query: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<(Self, Option<String>), u16> {
        let url = Url::parse(&format!("{}/v1/realtime{query}", service.api().replacen("http", "ws", 1))).unwrap();
        let stream = TcpStream::connect(url.socket_addrs(|| None).unwrap()[0]).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = url.as_str().into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match tungstenite::client(request, stream) {
            Ok((socket, answer)) => {
                let chosen = answer.headers().get(SEC_WEBSOCKET_PROTOCOL).map(|name| name.to_str().unwrap().to_owned());
                Ok((Self(socket), chosen))
            }
            Err(HandshakeError::Failure(Error::Http(answer))) => Err(answer.status().as_u16()),
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// A session of an account, which has sent its first event.
    fn open(account: &Account) -> Self {
        let bearer = format!("Bearer {}", account.key);
        let (mut session, _) =
            Self::connect(service(), "?intent=transcription", &[("authorization", &bearer)]).unwrap();
        let created = session.next();
        assert_eq!(
            (&created["type"], &created["session"]["type"]),
            (&json!("session.created"), &json!("transcription"))
        );
        session
    }

    /// The same, in which only commits end turns.
    fn manual(account: &Account) -> Self {
        let mut session = Self::open(account);
        let updated = session.update(&json!({ "turn_detection": null }));
        assert!(updated["session"]["audio"]["input"]["turn_detection"].is_null(), "{updated}");
        session
    }

    pub fn send(&mut self, event: &Value) {
        self.0.send(Message::text(event.to_string())).unwrap();
    }

    fn update(&mut self, input: &Value) -> Value {
        self.send(
            &json!({ "type": "session.update", "session": { "type": "transcription", "audio": { "input": input } } }),
        );
        self.until("session.updated")
    }

    pub fn append(&mut self, audio: &[u8]) {
        for part in audio.chunks(TENTH) {
            self.send(&json!({ "type": "input_audio_buffer.append", "audio": BASE64.encode(part) }));
        }
    }

    pub fn commit(&mut self) {
        self.send(&json!({ "type": "input_audio_buffer.commit", "event_id": "commit" }));
    }

    /// The next event.
    #[track_caller]
    pub fn next(&mut self) -> Value {
        self.read().unwrap_or_else(|code| panic!("closed with {code}"))
    }

    /// The next event, or the code of the close.
    pub fn read(&mut self) -> Result<Value, u16> {
        loop {
            match self.0.read().expect("an event") {
                Message::Text(text) => {
                    let event: Value = serde_json::from_str(text.as_str()).unwrap();
                    assert!(event["event_id"].as_str().is_some_and(|id| id.starts_with("event_")), "{event}");
                    return Ok(event);
                }
                Message::Close(close) => return Err(close.map_or(1005, |close| close.code.into())),
                _ => {}
            }
        }
    }

    /// Reads until an event of this type.
    #[track_caller]
    pub fn until(&mut self, kind: &str) -> Value {
        self.all_until(kind).pop().unwrap()
    }

    /// All events up to one of this type.
    #[track_caller]
    pub fn all_until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.next();
            assert!(event["type"] != "error" || kind == "error", "{event}");
            let is_last = event["type"] == kind;
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    /// The code, parameter and client's event of an error, which is the next event.
    #[track_caller]
    pub fn fault(&mut self) -> (String, Value, Value) {
        let event = self.next();
        assert_eq!(event["type"], "error", "{event}");
        assert!(!event["error"]["message"].as_str().unwrap().is_empty() && event["error"]["type"].is_string());
        let code = event["error"]["code"].as_str().unwrap().to_owned();
        (code, event["error"]["param"].clone(), event["error"]["event_id"].clone())
    }
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let kinds = events.iter().map(|event| event["type"].as_str().unwrap());
    kinds.map(|kind| kind.trim_start_matches("conversation.item.").trim_start_matches("input_audio_")).collect()
}

/// Asserts that a text has words of the recording, of which the starter models recognise some.
#[track_caller]
fn assert_recognised(text: &str) {
    let text = text.to_lowercase();
    let heard = ["country", "ask", "for", "you", "what", "do"].into_iter().filter(|word| text.contains(word)).count();
    assert!(heard >= 3, "{text}");
}

#[test]
fn a_commit_ends_a_turn_at_once_where_none_is_detected() {
    let mut session = Session::manual(&service().account());
    let speech = spoken(24_000);
    let seconds = speech.len() as f64 / 48_000.0;
    session.append(&speech);
    session.commit();
    let events = session.all_until("conversation.item.input_audio_transcription.completed");
    let found: Vec<&str> = kinds(&events).into_iter().filter(|kind| *kind != "transcription.delta").collect();
    assert_eq!(found, ["buffer.committed", "added", "done", "transcription.completed"]);
    let completed = events.last().unwrap();
    assert_recognised(completed["transcript"].as_str().unwrap());
    assert_eq!((&completed["content_index"], &completed["logprobs"]), (&json!(0), &Value::Null));
    let usage = &completed["usage"];
    assert!(usage["type"] == "duration" && (usage["seconds"].as_f64().unwrap() - seconds).abs() < 0.1, "{usage}");
    assert!(events.iter().any(|event| event["type"].as_str().unwrap().ends_with("delta")), "{:?}", kinds(&events));
    let committed = events.iter().find(|event| event["type"] == "input_audio_buffer.committed").unwrap();
    let id = &committed["item_id"];
    assert!(committed["previous_item_id"].is_null());
    for event in &events {
        let named = event.get("item_id").unwrap_or(&event["item"]["id"]);
        assert_eq!(named, id, "{event}");
    }
    let added = events.iter().find(|event| event["type"] == "conversation.item.added").unwrap();
    assert_eq!((&added["item"]["role"], &added["item"]["content"][0]["type"]), (&json!("user"), &json!("input_audio")));
    // Nothing is left in the buffer.
    session.commit();
    assert_eq!(session.fault(), ("input_audio_buffer_commit_empty".into(), Value::Null, json!("commit")));
    session.append(&speech[..2 * TENTH]);
    session.commit();
    let next = session.until("input_audio_buffer.committed");
    assert_eq!((&next["previous_item_id"], next["item_id"] == *id), (id, false));
    session.until("conversation.item.input_audio_transcription.completed");
}

#[test]
fn what_is_cleared_is_in_no_turn() {
    let mut session = Session::manual(&service().account());
    let speech = spoken(24_000);
    session.append(&speech);
    session.send(&json!({ "type": "input_audio_buffer.clear" }));
    session.until("input_audio_buffer.cleared");
    session.commit();
    assert_eq!(session.fault().0, "input_audio_buffer_commit_empty");
    session.append(&vec![0; 5 * TENTH]);
    session.commit();
    let completed = session.until("conversation.item.input_audio_transcription.completed");
    assert_eq!(completed["transcript"], "");
    let seconds = completed["usage"]["seconds"].as_f64().unwrap();
    assert!((seconds - 0.5).abs() < 0.002, "{seconds}");
}

#[test]
fn detected_turns_come_in_order_with_their_times() {
    for detection in [
        json!({ "type": "server_vad", "silence_duration_ms": 300, "prefix_padding_ms": 200 }),
        json!({ "type": "semantic_vad", "eagerness": "high" }),
    ] {
        let mut session = Session::open(&service().account());
        let updated = session.update(&json!({ "turn_detection": detection }));
        assert_eq!(updated["session"]["audio"]["input"]["turn_detection"]["type"], detection["type"]);
        session.append(&spoken(24_000));
        // Its fault comes when all audio before it is followed.
        session.send(&json!({ "type": "response.create", "event_id": "beyond" }));
        let mut events = session.all_until("error");
        assert_eq!(events.pop().unwrap()["error"]["event_id"], "beyond");
        let committed = |events: &[Value]| kinds(events).iter().filter(|kind| **kind == "buffer.committed").count();
        let completed = |events: &[Value]| kinds(events).iter().filter(|kind| kind.ends_with("completed")).count();
        while completed(&events) < committed(&events) {
            events.push(session.next());
        }
        let turns = committed(&events);
        assert!(turns >= 2, "the speaker pauses: {:?}", kinds(&events));
        let of = |kind: &str| -> Vec<&Value> { events.iter().filter(|event| event["type"] == kind).collect() };
        let (started, stopped) = (of("input_audio_buffer.speech_started"), of("input_audio_buffer.speech_stopped"));
        let mut before = (0, Value::Null);
        let mut text = String::new();
        for turn in 0..turns {
            let id = &started[turn]["item_id"];
            let (from, to) = (&started[turn]["audio_start_ms"], &stopped[turn]["audio_end_ms"]);
            let (from, to) = (from.as_u64().unwrap(), to.as_u64().unwrap());
            assert!(before.0 <= from && from + 64 < to && to <= 12_600, "{from} {to}");
            let own: Vec<Value> =
                events.iter().filter(|event| event["item_id"] == *id || event["item"]["id"] == *id).cloned().collect();
            let order: Vec<&str> = kinds(&own).into_iter().filter(|kind| *kind != "transcription.delta").collect();
            let wanted = ["buffer.speech_started", "buffer.speech_stopped", "buffer.committed", "added", "done"];
            assert_eq!(order, [wanted.as_slice(), &["transcription.completed"]].concat());
            for event in own.iter().filter(|event| event.get("previous_item_id").is_some()) {
                assert_eq!(event["previous_item_id"], before.1);
            }
            let completed = own.last().unwrap();
            assert_eq!(completed["usage"]["seconds"], json!((to - from) as f64 / 1e3));
            text += completed["transcript"].as_str().unwrap();
            text.push(' ');
            before = (to, id.clone());
        }
        assert_recognised(&text);
    }
}

#[test]
fn faults_name_their_event_and_the_session_lives() {
    let mut session = Session::manual(&service().account());
    session.0.send(Message::text("{")).unwrap();
    assert_eq!(session.fault(), ("invalid_json".into(), Value::Null, Value::Null));
    session.0.send(Message::binary(vec![0; 10])).unwrap();
    assert_eq!(session.fault().0, "invalid_event");
    let update = |session: Value| json!({ "type": "session.update", "session": session });
    let input = |input: Value| update(json!({ "type": "transcription", "audio": { "input": input } }));
    for (mut event, code, param) in [
        (json!({ "type": "conversation.item.create", "item": {} }), "invalid_value", json!("type")),
        (json!({ "no": "type" }), "missing_required_parameter", json!("type")),
        (json!({ "type": "input_audio_buffer.append" }), "missing_required_parameter", json!("audio")),
        (json!({ "type": "input_audio_buffer.append", "audio": 5 }), "invalid_type", Value::Null),
        (json!({ "type": "input_audio_buffer.append", "audio": "no base64!" }), "invalid_value", json!("audio")),
        (json!({ "type": "input_audio_buffer.commit" }), "input_audio_buffer_commit_empty", Value::Null),
        (update(json!({ "type": "realtime" })), "invalid_value", json!("session")),
        (input(json!({ "transcription": { "model": "gpt-9" } })), "model_not_found", json!("session")),
        (input(json!({ "transcription": { "language": "xx" } })), "invalid_value", json!("session")),
        (input(json!({ "format": { "type": "audio/pcmu", "rate": 16_000 } })), "invalid_value", json!("session")),
        (input(json!({ "turn_detection": { "threshold": 2 } })), "invalid_value", json!("session")),
        (update(json!({ "include": ["everything"] })), "invalid_value", json!("session")),
    ] {
        event["event_id"] = json!("mine");
        session.send(&event);
        assert_eq!(session.fault(), (code.to_owned(), param, json!("mine")), "{event}");
    }
    let long = "A".repeat(21 << 20);
    session.send(&json!({ "type": "input_audio_buffer.append", "audio": long, "event_id": "long" }));
    assert_eq!(session.fault(), ("string_above_max_length".into(), json!("audio"), json!("long")));
    let updated = session.update(&json!({ "noise_reduction": { "type": "near_field" } }));
    assert!(updated["session"]["audio"]["input"]["noise_reduction"].is_null());
    session.append(&spoken(24_000)[..10 * TENTH]);
    session.commit();
    session.until("conversation.item.input_audio_transcription.completed");
}

#[test]
fn other_formats_and_an_update_amid_a_turn_keep_all_words() {
    let account = service().account();
    let mut session = Session::manual(&account);
    session.update(&json!({ "format": { "type": "audio/pcmu" } }));
    let speech = spoken(8_000);
    let half = speech.len() / 4 * 2;
    session.append(&mulaw(&speech[..half]));
    session.update(&json!({ "format": { "type": "audio/pcm", "rate": 16_000 } }));
    session.append(&spoken(16_000)[2 * half..]);
    session.commit();
    let completed = session.until("conversation.item.input_audio_transcription.completed");
    assert_recognised(completed["transcript"].as_str().unwrap());
    let seconds = completed["usage"]["seconds"].as_f64().unwrap();
    assert!((seconds - speech.len() as f64 / 16_000.0).abs() < 0.1, "{seconds}");
}

#[test]
fn logarithms_of_confidences_come_where_they_are_asked_for() {
    let mut session = Session::manual(&service().account());
    let include = json!(["item.input_audio_transcription.logprobs"]);
    session.send(&json!({ "type": "session.update", "session": { "type": "transcription", "include": include } }));
    assert_eq!(session.until("session.updated")["session"]["include"], include);
    session.append(&spoken(24_000));
    session.commit();
    let completed = session.until("conversation.item.input_audio_transcription.completed");
    let logprobs = completed["logprobs"].as_array().unwrap();
    let words: Vec<&str> = logprobs.iter().map(|entry| entry["token"].as_str().unwrap()).collect();
    assert_eq!(words.join(" "), completed["transcript"].as_str().unwrap());
    assert!(logprobs.iter().all(|entry| entry["logprob"].as_f64().is_some_and(|value| value <= 0.0)), "{completed}");
}

#[test]
fn a_session_is_billed_by_the_model_of_its_first_audio() {
    let account = service().account();
    let mut session = Session::manual(&account);
    session.update(&json!({ "transcription": { "model": "gpt-4o-mini-transcribe" } }));
    session.append(&spoken(24_000)[..2 * TENTH]);
    session.commit();
    session.until("conversation.item.input_audio_transcription.completed");
    let other = json!({ "audio": { "input": { "transcription": { "model": "gpt-4o-transcribe" } } } });
    session.send(&json!({ "type": "session.update", "session": other }));
    assert_eq!(session.fault().0, "model_change_not_allowed");
    session.0.close(None).unwrap();
    eventually("it is billed", || (account.usage().len() == 1).then_some(()));
    assert_eq!(account.usage()[0]["sku"], "svc-realtime");
}

#[test]
fn a_client_secret_opens_sessions_with_its_settings_and_expires() {
    let Some(clock) = Clock::new() else { return };
    let service = Setup::new().environment(clock.environment()).start();
    let account = service.account();
    let turns = json!({ "type": "server_vad", "threshold": 0.7, "prefix_padding_ms": 100, "silence_duration_ms": 900 });
    let body = json!({
        "expires_after": { "anchor": "created_at", "seconds": 60 },
        "session": { "type": "transcription", "audio": { "input": {
            "turn_detection": turns, "transcription": { "model": "whisper-1", "language": "en" } } } },
    });
    let made = account.post(SECRETS, &body).ok();
    let secret = made["value"].as_str().unwrap();
    assert!(secret.starts_with("ek_") && made["session"]["audio"]["input"]["turn_detection"] == turns, "{made}");
    let offered = format!("realtime, openai-insecure-api-key.{secret}");
    let by_subprotocol = [("sec-websocket-protocol", offered.as_str())];
    let bearer = format!("Bearer {secret}");
    let (mut session, chosen) = Session::connect(&service, "", &by_subprotocol).unwrap();
    assert_eq!(chosen.as_deref(), Some("realtime"));
    let input = session.next()["session"]["audio"]["input"].clone();
    assert_eq!((&input["turn_detection"], &input["transcription"]["language"]), (&turns, &json!("en")));
    let (mut session, chosen) = Session::connect(&service, "", &[("authorization", &bearer)]).unwrap();
    assert_eq!((session.next()["type"].clone(), chosen), (json!("session.created"), None));
    // A page must not hold a key, and a secret makes no secrets.
    let key = format!("realtime, openai-insecure-api-key.{}", account.key);
    assert_eq!(
        Session::connect(&service, "?intent=transcription", &[("sec-websocket-protocol", &key)]).err(),
        Some(401)
    );
    assert_eq!(Session::connect(&service, "?intent=transcription", &[]).err(), Some(401));
    let again = http().post(format!("{}{SECRETS}", service.api())).header("authorization", &bearer);
    assert_eq!(auricle_tests::Answer::of(again).status, 401);
    clock.set("+2m");
    assert_eq!(Session::connect(&service, "", &by_subprotocol).err(), Some(401));
    assert_eq!(Session::connect(&service, "", &[("authorization", &bearer)]).err(), Some(401));
}

#[test]
fn secrets_are_made_for_what_is_served() {
    let account = service().account();
    let of = |session: Value| account.post(SECRETS, &json!({ "session": session }));
    of(json!({ "audio": { "input": { "transcription": { "model": "gpt-9" } } } })).error(404, "model_not_found");
    of(json!({ "audio": { "input": { "transcription": { "prompt": "é".repeat(2_000) } } } })).ok();
    let keywords = vec!["ž".repeat(100); 100];
    of(json!({ "audio": { "input": { "transcription": { "keywords": keywords } } } })).error(422, "validation_error");
    account.post(SECRETS, &json!({ "expires_after": { "seconds": 9 } })).error(422, "validation_error");
    assert_eq!(account.post_empty(SECRETS).ok()["session"]["object"], "realtime.transcription_session");
    let flat = json!({
        "input_audio_format": "g711_ulaw", "turn_detection": null,
        "input_audio_transcription": { "model": "gpt-4o-mini-transcribe" },
    });
    let made = account.post("/v1/realtime/transcription_sessions", &flat).ok();
    assert_eq!((&made["input_audio_format"], &made["turn_detection"]), (&json!("g711_ulaw"), &Value::Null));
    let bearer = format!("Bearer {}", made["client_secret"]["value"].as_str().unwrap());
    let (mut session, _) = Session::connect(service(), "", &[("authorization", &bearer)]).unwrap();
    assert_eq!(session.next()["session"]["audio"]["input"]["format"], json!({ "type": "audio/pcmu" }));
}

#[test]
fn sessions_of_no_kind_and_unknown_models_are_refused_in_words() {
    let bearer = format!("Bearer {}", service().account().key);
    for (query, code) in [
        ("", "invalid_value"),
        ("?model=gpt-9", "model_not_found"),
        ("?intent=transcription&model=gpt-9", "model_not_found"),
        ("?intent=transcription&model=gpt-realtime", "model_not_found"),
    ] {
        let (mut session, _) = Session::connect(service(), query, &[("authorization", &bearer)]).unwrap();
        assert_eq!(session.fault().0, code, "{query}");
        assert_eq!(session.read(), Err(4400), "{query}");
    }
    let (mut session, _) = Session::connect(service(), "?model=whisper-1", &[("authorization", &bearer)]).unwrap();
    assert_eq!(session.next()["session"]["audio"]["input"]["transcription"]["model"], "whisper-1");
    // The clients of this one end their turns.
    let (mut session, _) =
        Session::connect(service(), "?model=gpt-live-transcribe", &[("authorization", &bearer)]).unwrap();
    assert!(session.next()["session"]["audio"]["input"]["turn_detection"].is_null());
    let mut session = Session::open(&service().account());
    let named = |model: &str| json!({ "transcription": { "model": model } });
    let detection = |updated: Value| updated["session"]["audio"]["input"]["turn_detection"]["type"].clone();
    assert_eq!(detection(session.update(&named("gpt-realtime-whisper"))), Value::Null);
    let mut asked = named("gpt-live-transcribe");
    asked["turn_detection"] = json!({ "type": "semantic_vad" });
    assert_eq!(detection(session.update(&asked)), "semantic_vad");
    assert_eq!(detection(session.update(&named("gpt-live-transcribe"))), "semantic_vad");
}

#[test]
fn a_service_that_stops_sends_the_turn_first() {
    let service = Setup::local().starter().start();
    let bearer = format!("Bearer {}", service.account().key);
    let (mut session, _) = Session::connect(&service, "?intent=transcription", &[("authorization", &bearer)]).unwrap();
    session.update(&json!({ "turn_detection": null }));
    session.append(&spoken(24_000)[..30 * TENTH]);
    // The audio before it is followed.
    session.update(&json!({}));
    service.terminate();
    let mut events = Vec::new();
    let code = loop {
        match session.read() {
            Ok(event) => events.push(event),
            Err(code) => break code,
        }
    };
    let found: Vec<&str> = kinds(&events).into_iter().filter(|kind| *kind != "transcription.delta").collect();
    assert_eq!(found, ["error", "buffer.committed", "added", "done", "transcription.completed"]);
    let fault = events.iter().find(|event| event["type"] == "error").unwrap();
    assert_eq!((&fault["error"]["code"], code), (&json!("service_stopping"), 1001));
}

#[test]
fn the_python_package_transcribes_live() {
    let Some(python) = python("openai, websockets") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("speech.pcm");
    std::fs::write(&path, spoken(24_000)).unwrap();
    let found = run(python, "openai_client.py", service(), &["listen", path.to_str().unwrap()]);
    assert_eq!((&found["first"], &found["session"]), (&json!("session.created"), &json!("transcription")), "{found}");
    assert_recognised(
        &found["transcripts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect::<String>(),
    );
    assert!(found["transcripts"].as_array().unwrap().len() >= 2 && found["deltas"].as_u64() > Some(0), "{found}");
    assert_recognised(found["by_secret"].as_str().unwrap());
    assert_eq!((&found["logprobs"], &found["seconds"]), (&json!(true), &json!(true)));
    assert_eq!(
        found["kinds"],
        json!([
            "conversation.item.added",
            "conversation.item.done",
            "conversation.item.input_audio_transcription.completed",
            "conversation.item.input_audio_transcription.delta",
            "error",
            "input_audio_buffer.committed",
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "session.updated",
        ])
    );
    assert_eq!(
        found["errors"],
        json!({ "beyond": ["beyond", "invalid_value"], "secret": 401, "model": "model_not_found" })
    );
}
