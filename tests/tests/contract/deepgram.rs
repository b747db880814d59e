//! `/v1/listen` and `/v1/speak` in Deepgram's protocol, by hand and through the official packages of PyPI and npm, unchanged.

use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

use auricle_tests::{
    Account, Answer, Receiver, Reply, Service, Setup, eventually, http, silence, speech, spoken, wav_of,
};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::handshake::HandshakeError;
use tungstenite::{Error, Message, WebSocket};

use crate::openai::{node, python, run};
use crate::voice_agent::mulaw;

/// The longest wait for a frame.
const PATIENCE: Duration = Duration::from_secs(90);
/// The query of a session with PCM at 16 kHz.
const LIVE: &str = "/v1/listen?model=nova-3&encoding=linear16&sample_rate=16000";

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().starter().start())
}

fn recording() -> Vec<u8> {
    std::fs::read(speech()).unwrap()
}

fn post(account: &Account, path: &str, kind: &str, body: impl Into<reqwest::Body>) -> Answer {
    let request = http().request(Method::POST, format!("{}{path}", account.api));
    Answer::of(request.header(AUTHORIZATION, format!("Token {}", account.key)).header(CONTENT_TYPE, kind).body(body))
}

/// Transcribes bytes with a query.
fn listen(account: &Account, query: &str, body: impl Into<reqwest::Body>) -> Answer {
    post(account, &format!("/v1/listen?{query}"), "application/octet-stream", body)
}

/// The status and the code of an error, whose message has a text.
#[track_caller]
fn refused(answer: &Answer, text: &str) -> (u16, String) {
    let error = answer.json();
    assert!(error["err_msg"].as_str().is_some_and(|message| message.contains(text)), "{error}");
    assert_eq!(answer.header("dg-request-id"), error["request_id"].as_str());
    (answer.status, error["err_code"].as_str().unwrap().to_owned())
}

/// The transcript of an answer's channel.
fn said(answer: &Value, channel: usize) -> &str {
    answer["results"]["channels"][channel]["alternatives"][0]["transcript"].as_str().unwrap()
}

/// A session, whose frames are JSON or bytes.
pub struct Session(WebSocket<TcpStream>);

impl Session {
    /// Opens a session; the status of the answer and its error if there is none.
    fn connect(account: &Account, target: &str) -> Result<Self, (u16, String)> {
        let url = Url::parse(&format!("{}{target}", account.api.replacen("http", "ws", 1))).unwrap();
        let stream = TcpStream::connect(url.socket_addrs(|| None).unwrap()[0]).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = url.as_str().into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Token {}", account.key).parse().unwrap());
        match tungstenite::client(request, stream) {
            Ok((socket, answer)) => {
                assert!(answer.headers().contains_key("dg-request-id"));
                Ok(Self(socket))
            }
            Err(HandshakeError::Failure(Error::Http(answer))) => {
                let error = answer.headers().get("dg-error").map(|error| error.to_str().unwrap().to_owned());
                Err((answer.status().as_u16(), error.unwrap_or_default()))
            }
            Err(error) => panic!("no answer: {error}"),
        }
    }

    pub fn open(account: &Account, target: &str) -> Self {
        Self::connect(account, target).unwrap_or_else(|error| panic!("{error:?}"))
    }

    pub fn send(&mut self, kind: &str) {
        self.0.send(Message::text(json!({ "type": kind }).to_string())).unwrap();
    }

    pub fn audio(&mut self, audio: &[u8]) {
        for part in audio.chunks(3_200) {
            self.0.send(Message::binary(part.to_vec())).unwrap();
        }
    }

    /// The next frame, or the code and the reason of the close.
    fn read(&mut self) -> Result<Value, (u16, String)> {
        loop {
            match self.0.read().expect("a frame") {
                Message::Text(text) => return Ok(serde_json::from_str(text.as_str()).unwrap()),
                Message::Binary(bytes) => return Ok(json!({ "type": "audio", "bytes": bytes.len() })),
                Message::Close(close) => {
                    let close = close.expect("a code");
                    return Err((close.code.into(), close.reason.to_string()));
                }
                _ => {}
            }
        }
    }

    /// All frames up to the close, and its code and reason.
    pub fn rest(&mut self) -> (Vec<Value>, (u16, String)) {
        let mut frames = Vec::new();
        loop {
            match self.read() {
                Ok(frame) => frames.push(frame),
                Err(close) => return (frames, close),
            }
        }
    }

    /// The next frame of a type.
    fn until(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.read().unwrap_or_else(|close| panic!("closed: {close:?}"));
            if frame["type"] == kind {
                return frame;
            }
        }
    }
}

fn of<'a>(frames: &'a [Value], kind: &str) -> Vec<&'a Value> {
    frames.iter().filter(|frame| frame["type"] == kind).collect()
}

/// The final text of frames.
fn text_of(frames: &[Value]) -> String {
    let finals = of(frames, "Results").into_iter().filter(|frame| frame["is_final"] == true);
    let texts = finals.map(|frame| frame["channel"]["alternatives"][0]["transcript"].as_str().unwrap());
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Final results follow one another without a gap, and their words lie within.
#[track_caller]
fn check_times(frames: &[Value]) {
    let mut from = 0.0;
    for frame in of(frames, "Results").into_iter().filter(|frame| frame["is_final"] == true) {
        let (start, duration) = (frame["start"].as_f64().unwrap(), frame["duration"].as_f64().unwrap());
        assert!((start - from).abs() < 1e-6, "{frame}");
        from = start + duration;
        for word in frame["channel"]["alternatives"][0]["words"].as_array().unwrap() {
            let (begin, end) = (word["start"].as_f64().unwrap(), word["end"].as_f64().unwrap());
            assert!(begin >= start - 0.5 && end <= from + 0.5 && begin <= end, "{word} of {start} to {from}");
            let confidence = word["confidence"].as_f64().unwrap();
            assert!((0.0..=1.0).contains(&confidence), "{word}");
        }
    }
}

#[test]
fn the_python_package_transcribes_files() {
    let Some(python) = python("deepgram") else { return };
    let found = run(python, "deepgram_client.py", service(), &["file", speech().to_str().unwrap()]);
    // Without options there are neither marks nor capitals.
    let plain = said(&found["plain"], 0);
    assert!(plain.contains("what your country can do for you") && plain.to_lowercase() == plain, "{plain}");
    let metadata = &found["plain"]["metadata"];
    let hash = data_encoding::HEXLOWER.encode(&<sha2::Sha256 as sha2::Digest>::digest(recording()));
    assert_eq!((&metadata["sha256"], &metadata["channels"]), (&json!(hash), &json!(1)));
    assert!((metadata["duration"].as_f64().unwrap() - 11.0).abs() < 0.1, "{metadata}");
    let uuid = metadata["models"][0].as_str().unwrap();
    assert_eq!(metadata["model_info"][uuid]["name"], "svc-best");
    let word = &found["plain"]["results"]["channels"][0]["alternatives"][0]["words"][0];
    assert!(word["confidence"].as_f64().unwrap() < 1.0 && word["punctuated_word"].is_null(), "{word}");

    let full = &found["full"];
    let best = &full["results"]["channels"][0]["alternatives"][0];
    assert!(said(full, 0).contains("my fellow Americans") && said(full, 0).ends_with('.'), "{}", said(full, 0));
    assert!(best["words"].as_array().unwrap().iter().all(|word| word["speaker"] == 0), "{best}");
    assert_eq!(
        best["words"][3]["word"],
        best["words"][3]["punctuated_word"].as_str().unwrap().trim_matches(',').to_lowercase()
    );
    assert!(best["paragraphs"]["transcript"].as_str().unwrap().starts_with("\nSpeaker 0: "), "{best}");
    let paragraphs = best["paragraphs"]["paragraphs"].as_array().unwrap();
    let counted: u64 = paragraphs.iter().map(|one| one["num_words"].as_u64().unwrap()).sum();
    assert_eq!(counted as usize, best["words"].as_array().unwrap().len());
    assert!(best["entities"].is_array() || best["entities"].is_null());
    let utterances = full["results"]["utterances"].as_array().unwrap();
    let together: Vec<&str> = utterances.iter().map(|one| one["transcript"].as_str().unwrap()).collect();
    assert!(utterances.len() > 1 && together.join(" ") == said(full, 0), "{together:?}");
    assert_eq!(
        (&full["results"]["summary"]["result"], &full["metadata"]["tags"]),
        (&json!("success"), &json!(["a", "b"]))
    );
    let sentiments = &full["results"]["sentiments"];
    let score = sentiments["average"]["sentiment_score"].as_f64().unwrap();
    assert!((-1.0..=1.0).contains(&score) && sentiments["segments"][0]["start_word"] == 0.0, "{sentiments}");
    assert_eq!(found["detected"]["results"]["channels"][0]["detected_language"], "en");

    let errors = &found["errors"];
    let is = |name: &str, status: u16, code: &str, text: &str| {
        let error = &errors[name];
        assert!(error[0] == status && error[1] == code && error[3] == 36, "{name}: {error}");
        assert!(error[2].as_str().unwrap().contains(text), "{name}: {error}");
    };
    is("topics", 400, "INVALID_QUERY_PARAMETER", "`topics`");
    is("model", 400, "Bad Request", "nebula-9");
    is("garbage", 400, "Bad Request", "failed");
    is("empty", 400, "Bad Request", "");
    is("url", 400, "Bad Request", "could not be fetched");
    is("key", 401, "INVALID_AUTH", "Invalid credentials.");
}

#[test]
fn the_python_package_transcribes_live() {
    let Some(python) = python("deepgram") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("speech.pcm");
    std::fs::write(&path, spoken(16_000)).unwrap();
    let found = run(python, "deepgram_client.py", service(), &["live", path.to_str().unwrap()]);
    let frames = |name: &str| found[name].as_array().unwrap().clone();
    let turns = frames("turns");
    assert!(text_of(&turns).contains("country"), "{}", text_of(&turns));
    check_times(&turns);
    let results = of(&turns, "Results");
    assert!(results.iter().any(|frame| frame["is_final"] == false), "interim results");
    let ends: Vec<_> = results.iter().filter(|frame| frame["speech_final"] == true).collect();
    assert!(ends.len() > 1 && ends.iter().all(|frame| frame["is_final"] == true), "{}", ends.len());
    assert!(!of(&turns, "SpeechStarted").is_empty());
    let last = results.iter().filter_map(|frame| frame["channel"]["alternatives"][0]["words"].as_array()?.last());
    let last_end = last.map(|word| word["end"].as_f64().unwrap()).fold(0.0, f64::max);
    let utterances = of(&turns, "UtteranceEnd");
    assert!((utterances.last().unwrap()["last_word_end"].as_f64().unwrap() - last_end).abs() < 0.3, "{utterances:?}");
    let metadata = turns.last().unwrap();
    assert_eq!((&metadata["type"], &metadata["duration"]), (&json!("Metadata"), &json!(12.5)));
    assert_eq!(metadata["request_id"], results[0]["metadata"]["request_id"]);
    let hash = data_encoding::HEXLOWER.encode(&<sha2::Sha256 as sha2::Digest>::digest(spoken(16_000)));
    assert_eq!(metadata["sha256"], hash);

    // Without endpointing nothing ends speech, and without marks all is lower case.
    let whole = frames("whole");
    assert!(of(&whole, "Results").iter().all(|frame| frame["is_final"] == true && frame["speech_final"] == false));
    let text = text_of(&whole);
    assert!(text.contains("country") && text.to_lowercase() == text, "{text}");
    let finalized = frames("finalized");
    let asked: Vec<_> = of(&finalized, "Results").into_iter().filter(|frame| frame["from_finalize"] == true).collect();
    assert!(asked.len() == 1 && asked[0]["is_final"] == true, "{asked:?}");
    assert!(text_of(&finalized).contains("country") && text_of(&finalized).ends_with('.'), "{}", text_of(&finalized));
    assert_eq!(found["errors"], json!([401, 400]));
}

#[test]
fn the_npm_package_transcribes() {
    let Some(node) = node("@deepgram/sdk") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("speech.pcm");
    std::fs::write(&path, spoken(16_000)).unwrap();
    let recording = speech();
    let args = [recording.to_str().unwrap(), path.to_str().unwrap()];
    let found = run(node, "deepgram_client.mjs", service(), &args);
    assert!(said(&found["answer"], 0).contains("my fellow Americans"), "{}", found["answer"]);
    assert!(!found["answer"]["results"]["utterances"].as_array().unwrap().is_empty());
    let errors = json!([["BadRequestError", 400, "INVALID_QUERY_PARAMETER"], ["DeepgramError", 401, "INVALID_AUTH"]]);
    assert_eq!(found["errors"], errors);
    let frames = found["frames"].as_array().unwrap();
    assert!(text_of(frames).contains("country"), "{}", text_of(frames));
    assert_eq!(frames.last().unwrap()["type"], "Metadata");
}

#[test]
fn the_python_package_speaks() {
    let Some(python) = python("deepgram") else { return };
    let service = Setup::local().voice().start();
    let found = run(python, "deepgram_client.py", &service, &["speak"]);
    assert_eq!((&found["riff"], &found["rate"]), (&json!("RIFF"), &json!(16_000)));
    assert!(found["wav"].as_u64() > Some(2_000) && found["mulaw"].as_u64() > Some(500), "{found}");
    let errors = &found["errors"];
    assert!(errors["model"][0] == 400 && errors["bit_rate"][2].as_str().unwrap().contains("`bit_rate`"), "{errors}");
    assert!(errors["nothing"][0] == 400, "{errors}");
    let kinds: Vec<&Value> = found["frames"].as_array().unwrap().iter().map(|frame| &frame["type"]).collect();
    assert_eq!(kinds, ["Metadata", "Flushed", "Flushed"]);
    assert!(found["audio"].as_u64() > Some(2_000), "{found}");
}

#[test]
fn audio_without_a_header_and_channels_are_read() {
    let account = service().account();
    let pcm = spoken(8_000);
    let raw = listen(&account, "encoding=linear16&sample_rate=8000", pcm.clone()).ok();
    let coded = listen(&account, "encoding=mulaw&sample_rate=8000", mulaw(&pcm)).ok();
    for answer in [&raw, &coded] {
        assert!(said(answer, 0).contains("what your country can do for you"), "{answer}");
        assert!((answer["metadata"]["duration"].as_f64().unwrap() - 12.5).abs() < 0.1, "{answer}");
    }
    // The second channel begins two seconds later.
    let mut later = vec![0; 32_000];
    later.extend(&pcm);
    let pairs = later.chunks(2).enumerate().flat_map(|(at, second)| {
        let first = pcm.chunks(2).nth(at).unwrap_or(&[0, 0]);
        [first[0], first[1], second[0], second[1]]
    });
    let stereo = wav_of(2, 8_000, 16, &pairs.collect::<Vec<u8>>());
    let both = listen(&account, "multichannel=true&punctuate=true&utterances=true", stereo).ok();
    assert_eq!(
        (both["metadata"]["channels"].as_u64(), both["results"]["channels"].as_array().unwrap().len()),
        (Some(2), 2)
    );
    let first =
        |channel: usize| both["results"]["channels"][channel]["alternatives"][0]["words"][0]["start"].as_f64().unwrap();
    assert!((first(1) - first(0) - 2.0).abs() < 0.3, "{} {}", first(0), first(1));
    let channels: Vec<&Value> =
        both["results"]["utterances"].as_array().unwrap().iter().map(|one| &one["channel"]).collect();
    assert!(channels.contains(&&json!(0)) && channels.contains(&&json!(1)), "{channels:?}");
    assert_eq!(account.usage().len(), 3, "each is an ordinary job");
}

#[test]
fn a_url_is_fetched() {
    let receiver = Receiver::new();
    receiver.answers("/a.flac", [Reply::Body(200, "audio/flac", recording().into())]);
    let account = service().account();
    let body = json!({ "url": receiver.url("/a.flac") }).to_string();
    let answer = post(&account, "/v1/listen?smart_format=true", "application/json", body).ok();
    assert!(said(&answer, 0).contains("my fellow Americans"), "{answer}");
    let missing = post(&account, "/v1/listen", "application/json", "{}");
    assert_eq!(refused(&missing, "`url`"), (400, "Bad Request".into()));
}

#[test]
fn errors_are_in_the_protocols_form() {
    let account = service().account();
    for (query, name) in [("search=ask", "search"), ("redact=numbers", "redact"), ("colour=blue", "colour")] {
        let code = (400, "INVALID_QUERY_PARAMETER".to_owned());
        assert_eq!(refused(&listen(&account, query, silence(0.5)), &format!("`{name}`")), code);
    }
    let none = http().request(Method::POST, format!("{}/v1/listen", account.api)).body(silence(0.5));
    assert_eq!(refused(&Answer::of(none), "Invalid credentials."), (401, "INVALID_AUTH".into()));
    let poor = Setup::local().with("free_credit_cents", 0).start();
    let poor = poor.account();
    assert_eq!(refused(&listen(&poor, "", silence(0.5)), "credit"), (402, "ASR_PAYMENT_REQUIRED".into()));
    assert_eq!(Session::connect(&poor, LIVE).err().unwrap().0, 402);
    for (query, name) in
        [("&diarize=true", "`diarize`"), ("&language=xx", "xx"), ("&multichannel=true&channels=2", "`multichannel`")]
    {
        let (status, error) = Session::connect(&account, &format!("{LIVE}{query}")).err().unwrap();
        assert!(status == 400 && error.contains(name), "{status} {error}");
    }
    let (status, error) = Session::connect(&account, "/v1/listen?model=nova-3").err().unwrap();
    assert!(status == 400 && error.contains("`encoding`"), "{error}");
    let plain = http().request(Method::GET, format!("{}{LIVE}", account.api));
    let plain = Answer::of(plain.header(AUTHORIZATION, format!("Token {}", account.key)));
    assert_eq!(plain.status, 426);
}

#[test]
fn a_session_is_metered_and_takes_any_frame() {
    let account = service().account();
    let mut session = Session::open(&account, &format!("{LIVE}&punctuate=true&endpointing=false"));
    for garbage in ["{", "null", r#"{"type":"Shout"}"#, &"x".repeat(5_000)] {
        session.0.send(Message::text(garbage)).unwrap();
        let error = session.until("Error");
        assert!(error["variant"] == "SchemaError" && error["message"].as_str().unwrap().len() <= 200, "{error}");
    }
    session.send("Configure");
    assert_eq!(session.until("ConfigureFailure")["code"], "CONFIGURE_KEYTERMS_NOT_SUPPORTED");
    let audio = spoken(16_000);
    // A sample is split between two messages.
    session.audio(&audio[..16_001]);
    session.audio(&audio[16_001..]);
    session.send("Finalize");
    let mut frames = Vec::new();
    while frames.last().is_none_or(|frame: &Value| frame["from_finalize"] != true) {
        frames.push(session.until("Results"));
    }
    assert!(text_of(&frames).contains("country"), "{}", text_of(&frames));
    // Nothing came since.
    session.send("Finalize");
    let empty = session.until("Results");
    assert!(empty["from_finalize"] == true && empty["channel"]["alternatives"][0]["transcript"] == "", "{empty}");
    session.send("CloseStream");
    let (rest, close) = session.rest();
    assert_eq!((rest.len(), close.0), (1, 1000), "{rest:?}");
    eventually("the bill", || account.usage().into_iter().find(|entry| entry["sku"] == "svc-realtime-pro"));
}

#[test]
fn companded_and_mixed_audio_is_transcribed() {
    let account = service().account();
    let pcm = spoken(8_000);
    let mut session = Session::open(&account, "/v1/listen?model=base&encoding=mulaw&sample_rate=8000&channels=2");
    // Both channels say the same.
    let stereo: Vec<u8> = mulaw(&pcm).into_iter().flat_map(|byte| [byte, byte]).collect();
    session.audio(&stereo);
    session.send("CloseStream");
    let (frames, close) = session.rest();
    let text = text_of(&frames);
    assert!(text.starts_with("and so") && text.split_whitespace().count() > 12, "{text}");
    check_times(&frames);
    assert_eq!((close.0, &frames.last().unwrap()["duration"]), (1000, &json!(12.5)));
    let uuid = frames.last().unwrap()["models"][0].as_str().unwrap().to_owned();
    assert_eq!(frames.last().unwrap()["model_info"][uuid]["name"], "svc-realtime");
}

#[test]
fn a_silent_client_is_disconnected_and_a_kept_one_is_not() {
    let service = Setup::local().starter().with("live_idle_seconds", 2).start();
    let account = service.account();
    let mut kept = Session::open(&account, LIVE);
    let mut silent = Session::open(&account, LIVE);
    for _ in 0..4 {
        kept.send("KeepAlive");
        std::thread::sleep(Duration::from_secs(1));
    }
    let (frames, (code, reason)) = silent.rest();
    assert!(frames.is_empty() && code == 1011 && reason.contains("NET-0001"), "{code} {reason}");
    kept.send("CloseStream");
    assert_eq!(kept.rest().1.0, 1000);
}

#[test]
fn a_stopping_service_sends_what_it_has() {
    let service = Setup::local().starter().start();
    let account = service.account();
    let mut session = Session::open(&account, &format!("{LIVE}&punctuate=true&endpointing=false"));
    session.audio(&spoken(16_000));
    session.send("Configure");
    session.until("ConfigureFailure");
    service.terminate();
    let (frames, (code, _)) = session.rest();
    assert!(text_of(&frames).contains("country"), "{}", text_of(&frames));
    assert_eq!((frames.last().unwrap()["type"].as_str(), code), (Some("Metadata"), 1001));
    assert!(service.wait().success());
}

#[test]
fn speech_over_a_socket_can_be_cleared() {
    let service = Setup::local().voice().start();
    let account = service.account();
    let mut session = Session::open(&account, "/v1/speak?model=aura-2-thalia-en&encoding=mulaw&sample_rate=8000");
    let metadata = session.until("Metadata");
    assert_eq!(metadata["model_name"], "aura-2-thalia-en");
    let speak = |session: &mut Session, text: &str| {
        session.0.send(Message::text(json!({ "type": "Speak", "text": text }).to_string())).unwrap();
    };
    session.send("Flush");
    assert_eq!(session.until("Flushed")["sequence_id"], 0);
    speak(&mut session, "Good morning, how are you?");
    session.send("Clear");
    assert_eq!(session.until("Cleared")["sequence_id"], 1);
    session.0.send(Message::text("{")).unwrap();
    assert_eq!(session.until("Warning")["code"], "DATA-0002");
    speak(&mut session, &"x".repeat(100_001));
    assert_eq!(session.until("Warning")["code"], "TEXT_LENGTH_LIMIT_EXCEEDED");
    speak(&mut session, "Good evening.");
    session.send("Close");
    let (frames, close) = session.rest();
    assert_eq!((frames.last().unwrap()["type"].as_str(), close.0), (Some("Flushed"), 1000), "{frames:?}");
    assert!(of(&frames, "audio").iter().map(|frame| frame["bytes"].as_u64().unwrap()).sum::<u64>() > 500, "{frames:?}");
    let (status, error) = Session::connect(&account, "/v1/speak?encoding=mp3").err().unwrap();
    assert!(status == 400 && error.contains("`encoding`"), "{error}");
}

#[test]
fn speech_and_utterance_may_end_at_once() {
    let account = service().account();
    let target = format!("{LIVE}&interim_results=true&endpointing=1000&utterance_end_ms=1000");
    let mut session = Session::open(&account, &target);
    session.audio(&spoken(16_000));
    let mut frames = vec![session.until("UtteranceEnd")];
    session.send("CloseStream");
    let (rest, close) = session.rest();
    frames.extend(rest);
    // The speaker pauses for a second after the first words, and is silent at the end.
    assert_eq!((of(&frames, "UtteranceEnd").len(), close.0), (2, 1000), "{frames:?}");
    assert_eq!(frames.last().unwrap()["type"], "Metadata");
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let account = service().account();
    let mut session = Session::open(&account, LIVE);
    session.0.get_ref().set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    // Each is answered by an error.
    let garbage = Message::text("x".repeat(200));
    let sent = (0..1_000_000).take_while(|_| session.0.send(garbage.clone()).is_ok()).count();
    assert!(sent < 1_000_000, "the service takes frames without end");
}
