//! The Wyoming protocol, with the package that Home Assistant uses, and bytes that it does not send.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use auricle_tests::{Account, Service, Setup, ended, eventually, pcm, readers, repository, spoken, wire::read_to_end};
use serde_json::{Value, json};

use crate::openai::python;

fn address(service: &Service) -> String {
    eventually("the address of the protocol", || service.line("wyoming "))
}

fn connect(service: &Service) -> TcpStream {
    let stream = TcpStream::connect(address(service).trim_start_matches("tcp://")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// The account of the first start.
fn first(service: &Service) -> Account {
    let key = service.line("key ").unwrap();
    Account { api: service.api(), key, email: "admin@localhost".into() }
}

fn event(kind: &str, data: &Value, payload: &[u8]) -> Vec<u8> {
    let head = json!({ "type": kind, "data": data, "payload_length": payload.len() });
    [format!("{head}\n").as_bytes(), payload].concat()
}

fn audio(kind: &str, samples: &[u8]) -> Vec<u8> {
    event(kind, &json!({ "rate": 16_000, "width": 2, "channels": 1 }), samples)
}

/// The next event that the service sends: its type and its data.
fn next(from: &mut BufReader<TcpStream>) -> (String, Value) {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    let head: Value = serde_json::from_str(&line).unwrap();
    let mut bytes = |name: &str| {
        let mut bytes = vec![0; head[name].as_u64().unwrap_or_default() as usize];
        from.read_exact(&mut bytes).unwrap();
        bytes
    };
    let data = bytes("data_length");
    bytes("payload_length");
    let data = if data.is_empty() { Value::Null } else { serde_json::from_slice(&data).unwrap() };
    (head["type"].as_str().unwrap().to_owned(), data)
}

/// Sends bytes and expects an error with this code, then the end of the connection.
#[track_caller]
fn refused(service: &Service, bytes: &[u8], code: &str) {
    let mut stream = connect(service);
    stream.write_all(bytes).unwrap();
    let answer = read_to_end(&mut stream);
    assert!(answer.contains("\"error\"") && answer.contains(&format!("\"code\":\"{code}\"")), "{code}: {answer}");
}

#[test]
fn the_package_of_home_assistant_recognises_and_speaks() {
    let Some(mut python) = python("wyoming") else { return };
    let service = Setup::local().starter().with("wyoming", "127.0.0.1:0").start();
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("recording.pcm");
    std::fs::write(&recording, spoken(16_000)).unwrap();
    python.arg(repository().join("tests/clients/wyoming_client.py")).arg(address(&service)).arg(&recording);
    let run = ended(python.output().unwrap());
    assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
    let found: Value = serde_json::from_str(&run.stdout).unwrap();

    assert_eq!(found["pong"], "hello");
    assert_eq!(found["models"], json!([["svc-best", true, true], ["svc-fast", true, true]]));
    assert_eq!(found["streams"], json!([false, true]));
    assert!(found["voices"].as_array().unwrap().iter().all(|voice| voice[1] == json!(["en"])), "{found}");
    let said = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    let first_said = found["first"][0].as_str().unwrap();
    for text in [first_said, &said("second"), &said("eight")] {
        assert!(text.contains("country"), "{found}");
    }
    assert!(found["first"][1] == "en" && said("second").contains("can do for your country"), "{found}");
    assert_eq!(found["nothing"], "");

    assert_eq!(found["whole"], json!(["audio-start", "audio-chunk", "audio-stop"]));
    assert!(found["streamed"] == found["whole"] && found["stopped"] == true, "{found}");
    assert!(found["seconds"].as_array().unwrap().iter().all(|s| (1.0..8.0).contains(&s.as_f64().unwrap())), "{found}");
    let back = said("read_back").to_lowercase();
    let words = ["good", "morning", "weather", "fine", "today"].iter().filter(|word| back.contains(**word)).count();
    assert!(words >= 3, "{back}");

    let ends = |code: &str| json!([code, true]);
    assert_eq!(
        found["errors"],
        json!({
            "model": ends("unknown_model"), "language": ends("unsupported_option"), "program": ends("not_found"),
            "voice": ends("validation_error"), "speaker": ends("unsupported_option"), "ssml": ends("unsupported_option"),
            "stereo": ends("unsupported_option"), "order": ends("invalid_request"),
            "text_in_audio": ends("invalid_request"), "chunk": ends("invalid_request"), "long": ends("validation_error"),
        })
    );
    // Each recording with sound is an ordinary job of the first account.
    assert_eq!(first(&service).usage().len(), 4);
}

#[test]
fn bytes_that_are_no_events_end_their_connection_alone() {
    let service = Setup::local().with("wyoming", "127.0.0.1:0").start();
    refused(&service, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "invalid_request");
    refused(&service, b"{\"type\": 7}\n", "invalid_request");
    refused(&service, &vec![b'a'; 100_000], "payload_too_large");
    refused(&service, b"{\"type\": \"audio-chunk\", \"payload_length\": 99999999999}\n", "payload_too_large");
    refused(&service, b"{\"type\": \"synthesize\", \"data_length\": 600000}\n", "payload_too_large");
    refused(&service, &event("audio-start", &json!({ "rate": "fast" }), b""), "invalid_request");
    refused(&service, &[audio("audio-start", b""), audio("audio-start", b"")].concat(), "invalid_request");
    let changed = event("audio-chunk", &json!({ "rate": 8_000, "width": 2, "channels": 1 }), b"ab");
    refused(&service, &[audio("audio-start", b""), changed].concat(), "invalid_request");
    // Another client is served, and what it does not know is passed over.
    let mut stream = connect(&service);
    stream
        .write_all(&[event("detect", &json!({}), b"xyz"), event("ping", &json!({ "text": "a" }), b"")].concat())
        .unwrap();
    assert_eq!(next(&mut BufReader::new(stream)), ("pong".into(), json!({ "text": "a" })));
    // A recording that is cut off leaves nothing behind.
    let mut stream = connect(&service);
    stream.write_all(&[audio("audio-start", b""), audio("audio-chunk", &[0; 32_000])].concat()).unwrap();
    eventually("the recording is stored", || {
        (service.metric("auricle_connections{listener=\"wyoming\"}") > 0.0).then_some(())
    });
    drop(stream);
    eventually("the connection ends", || {
        (service.metric("auricle_connections{listener=\"wyoming\"}") == 0.0).then_some(())
    });
    assert_eq!(first(&service).get("/v2/transcripts").ok()["total"], 0);
}

#[test]
fn recordings_and_silent_clients_have_an_end() {
    let service = Setup::local()
        .with("wyoming", "127.0.0.1:0")
        .with("head_timeout_seconds", 1)
        .with("idle_timeout_seconds", 2)
        .with("live_session_seconds", 3)
        .with("request_limit", 9)
        .start();
    refused(&service, b"", "timeout");
    refused(&service, b"{\"type\": \"describe\"", "timeout");
    refused(&service, &audio("audio-start", b""), "timeout");
    // A client without end: by its audio, and by the time.
    let long: Vec<u8> = (0..13).flat_map(|_| audio("audio-chunk", &[0; 8_000])).collect();
    refused(&service, &long, "payload_too_large");
    let mut stream = connect(&service);
    let empty = audio("audio-chunk", b"");
    let mut copy = stream.try_clone().unwrap();
    let endless = std::thread::spawn(move || {
        while copy.write_all(&empty).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(read_to_end(&mut stream).contains("payload_too_large"));
    endless.join().unwrap();
    // The requests of the account are counted.
    for _ in 0..6 {
        let mut stream = connect(&service);
        stream.write_all(&[audio("audio-start", b""), event("audio-stop", &json!({}), b"")].concat()).unwrap();
        assert_eq!(next(&mut BufReader::new(stream)).0, "transcript");
    }
    refused(&service, &audio("audio-start", b""), "rate_limited");
}

#[test]
fn a_stopping_service_says_what_it_has_begun() {
    let service = Setup::local().voice().with("wyoming", "127.0.0.1:0").start();
    let (mut idle, mut recording, mut speech) = (connect(&service), connect(&service), connect(&service));
    let ping = event("ping", &json!({ "text": "a" }), b"");
    recording.write_all(&[audio("audio-start", b""), ping.clone()].concat()).unwrap();
    let mut from = BufReader::new(speech.try_clone().unwrap());
    speech.write_all(&[event("synthesize-start", &json!({}), b""), ping].concat()).unwrap();
    assert_eq!(next(&mut from).0, "pong");
    assert_eq!(next(&mut BufReader::new(recording.try_clone().unwrap())).0, "pong");
    service.terminate();
    assert_eq!(read_to_end(&mut idle), "");
    assert!(read_to_end(&mut recording).contains("\"code\":\"unavailable\""));
    let text = event("synthesize-chunk", &json!({ "text": "Good morning, everyone." }), b"");
    speech.write_all(&[text, event("synthesize-stop", &json!({}), b"")].concat()).unwrap();
    let mut kinds = vec![next(&mut from).0];
    while kinds.last().is_some_and(|kind| kind != "synthesize-stopped") {
        kinds.push(next(&mut from).0);
    }
    kinds.dedup();
    assert_eq!(kinds, ["audio-start", "audio-chunk", "audio-stop", "synthesize-stopped"]);
    assert!(service.wait().success());
}

#[test]
fn a_named_account_pays_and_may_be_reached_from_elsewhere() {
    let service = Setup::local().with("wyoming", "0.0.0.0:0").with("wyoming_account", "House@example.org").prepare();
    let other = service.key("other@example.org");
    let house = service.key("house@example.org");
    service.start();
    let address = address(&service).replace("tcp://0.0.0.0", "127.0.0.1");
    let mut stream = TcpStream::connect(address).unwrap();
    let speech = pcm(readers()[0][..16_000].iter().copied());
    stream.write_all(&[audio("audio-chunk", &speech), event("audio-stop", &json!({}), b"")].concat()).unwrap();
    assert_eq!(next(&mut BufReader::new(stream)).0, "transcript");
    let billed = |key: &str| Account { api: service.api(), key: key.to_owned(), email: String::new() }.usage().len();
    assert_eq!((billed(&house), billed(&other)), (1, 0));
}

#[test]
fn an_account_that_there_is_not_stops_the_start() {
    let service =
        Setup::local().with("wyoming", "127.0.0.1:0").with("wyoming_account", "missing@example.org").prepare();
    service.spawn();
    eventually("the start fails", || service.ended());
    assert!(service.log().contains("`auricle keys create --account missing@example.org`"), "{}", service.log());
    assert_eq!(service.lines(), Vec::<String>::new(), "no key was made and lost");
}

/// A process that ends with this value.
struct Browsing(Child);

impl Drop for Browsing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_local_network_finds_it_by_the_same_name_after_a_restart() {
    let Some(mut python) = python("zeroconf") else { return };
    let service = Setup::local()
        .with("wyoming", "0.0.0.0:0")
        .with("wyoming_account", "admin@localhost")
        .with("wyoming_zeroconf", "true")
        .prepare();
    let mut browsing =
        python.arg(repository().join("tests/clients/zeroconf_client.py")).stdout(Stdio::piped()).spawn().unwrap();
    let (found, lines) = mpsc::channel();
    let out = BufReader::new(browsing.stdout.take().unwrap());
    let _browsing = Browsing(browsing);
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| found.send(line)));
    // Other services of the network may be found, too.
    let wait_for = |what: &str, is_wanted: &dyn Fn(&Value) -> bool| {
        eventually(what, || {
            lines.try_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap()).find(|line| is_wanted(line))
        })
    };
    let mut names = Vec::new();
    for _ in 0..2 {
        service.start();
        let port: u16 = address(&service).rsplit(':').next().unwrap().parse().unwrap();
        let came = wait_for("it is found", &|line| line["port"] == port);
        assert!(!came["addresses"].as_array().unwrap().is_empty(), "{came}");
        names.push(came["came"].clone());
        service.terminate();
        assert!(service.wait().success());
        wait_for("it leaves", &|line| line["left"] == came["came"]);
    }
    assert!(names[0] == names[1] && names[0].as_str().unwrap().starts_with("auricle-"), "{names:?}");
}
