//! AssemblyAI's protocol, by hand and through the official packages of PyPI and npm, unchanged.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use auricle_engine::audio::AudioStream;
use auricle_tests::{
    Account, Answer, Frame, Live, Service, Setup, Verdict, eventually, http, pcm, silence, speech, spoken,
    turn_detector,
};
use reqwest::header::AUTHORIZATION;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::{Message, WebSocket};

use crate::openai::{node, printed, python};
use crate::voice_agent::mulaw;

/// The longest wait for a frame.
const PATIENCE: Duration = Duration::from_secs(90);

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().starter().start())
}

/// A service whose model is tiny.
fn quick() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().with("max_upload_bytes", 100_000).start())
}

/// A request as these clients send it: the key is the whole header.
fn ask(account: &Account, method: Method, path: &str, key: &str, body: impl Into<reqwest::Body>) -> Answer {
    let request = http().request(method, format!("{}{path}", account.api));
    Answer::of(request.header(AUTHORIZATION, key).header("content-type", "application/json").body(body))
}

fn get(account: &Account, path: &str) -> Answer {
    ask(account, Method::GET, path, &account.key, "")
}

fn create(account: &Account, body: &Value) -> Answer {
    ask(account, Method::POST, "/v2/transcript", &account.key, body.to_string())
}

fn upload(account: &Account, bytes: Vec<u8>) -> String {
    let answer = ask(account, Method::POST, "/v2/upload", &account.key, bytes);
    answer.ok()["upload_url"].as_str().unwrap().to_owned()
}

/// The message of an error of the protocol.
#[track_caller]
fn refused(answer: &Answer, status: u16) -> String {
    assert_eq!(answer.status, status, "{}", answer.text());
    answer.json()["error"].as_str().unwrap_or_else(|| panic!("no text: {}", answer.text())).to_owned()
}

fn finished(account: &Account, id: &str) -> Value {
    eventually("the end of a transcript", || {
        let body = get(account, &format!("/v2/transcript/{id}")).ok();
        matches!(body["status"].as_str(), Some("completed" | "error")).then_some(body)
    })
}

/// A program with the address and a key.
fn with_key(mut program: Command, account: &Account) -> Command {
    program.env("ASSEMBLYAI_BASE_URL", &account.api).env("ASSEMBLYAI_API_KEY", &account.key);
    program
}

/// The speech as raw PCM in a file.
fn raw_speech(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("speech.pcm");
    std::fs::write(&path, spoken_pcm()).unwrap();
    path
}

fn spoken_pcm() -> Vec<u8> {
    pcm(AudioStream::open(speech()).unwrap().read_to_end().unwrap())
}

/// The turns that have ended, formatted or not.
fn ended<'a>(frames: impl IntoIterator<Item = &'a Value>, formatted: bool) -> Vec<&'a Value> {
    let is_end = |frame: &&Value| frame["end_of_turn"] == true && frame["turn_is_formatted"] == formatted;
    frames.into_iter().filter(is_end).collect()
}

#[test]
fn the_python_package_transcribes_files() {
    let Some(program) = python("assemblyai") else { return };
    let account = service().account();
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage.mp3");
    std::fs::write(&garbage, "no sound at all".repeat(100)).unwrap();
    let recording = speech();
    let args = ["files", recording.to_str().unwrap(), garbage.to_str().unwrap()];
    let found = printed(with_key(program, &account), "assemblyai_client.py", &args);

    let text = found["text"].as_str().unwrap();
    assert!(text.contains("can do for your country"), "{found}");
    let words = found["words"].as_array().unwrap();
    assert_eq!(words.len(), text.split_whitespace().count());
    let last = words.last().unwrap()[2].as_u64().unwrap();
    assert!((9_000..11_500).contains(&last), "milliseconds: {last}");
    assert_eq!(found["duration"], 11);
    assert!(found["confidence"].as_f64().unwrap() > 0.5);
    assert_eq!(found["utterances"], json!([["A", text, words.len()]]));
    assert_eq!(found["sentences"].as_array().unwrap().len(), found["sentiments"].as_array().unwrap().len());
    assert_eq!((&found["paragraphs"], &found["safety"]), (&json!([words.len()]), &json!("success")));
    assert_eq!(found["chapters"].as_array().unwrap().len(), 1);
    assert!(found["srt"].as_str().unwrap().starts_with("1\n00:00:00,"), "{found}");
    let narrow = found["narrow"].as_str().unwrap();
    let captions = narrow.split("\n\n").skip(1).map(|cue| cue.trim_end().split_once('\n').unwrap().1);
    for caption in captions {
        let text = caption.trim_start_matches("<v A>");
        assert!(!text.contains('\n') && text.len() <= 20, "{caption:?}");
    }
    assert_eq!((&found["matches"][0][0], &found["matches"][0][1]), (&json!("country"), &json!(2)));
    assert_eq!(found["matches"][1][1], 1);

    assert!(found["failed"][0] == "error" && found["failed"][1].as_str().unwrap().contains("decoded"), "{found}");
    assert!(found["refused"].as_str().unwrap().contains("`auto_highlights` is not supported"), "{found}");
    let (failed, done) = (&found["ids"][0], &found["ids"][1]);
    assert_eq!(found["newest"], json!([failed, "error"]));
    assert_eq!((&found["older"][0], &found["older"][1]), (done, &json!(1)));
    assert_eq!(
        (&found["older"][2], &found["newer"]),
        (&Value::Null, &json!([failed])),
        "the oldest, and those after it"
    );
    assert_eq!(found["deleted"], json!([done, null]));
    assert!(found["gone"].as_str().unwrap().contains("no such transcript"), "{found}");
    assert!(found["unauthorized"].as_str().unwrap().contains("unknown or revoked"), "{found}");
    assert_eq!(account.usage().len(), 1, "a transcript that failed is not billed");
}

#[test]
fn the_python_package_streams() {
    let Some(program) = python("assemblyai, websockets") else { return };
    let account = service().account();
    let folder = tempfile::tempdir().unwrap();
    let raw = raw_speech(&folder);
    let args = ["live", raw.to_str().unwrap()];
    let frames = printed(with_key(program, &account), "assemblyai_client.py", &args);
    let frames = frames.as_array().unwrap();
    assert_eq!(frames[0]["type"], "Begin");
    let last = frames.last().unwrap();
    assert_eq!((&last["type"], &last["audio_duration_seconds"]), (&json!("Termination"), &json!(22)));
    let starts: Vec<u64> = frames.iter().filter_map(|frame| frame["timestamp"].as_u64()).collect();
    assert!(starts[0] < 1_000 && starts.len() > 1, "{starts:?}");

    let (raw, formatted) = (ended(frames, false), ended(frames, true));
    assert!(raw.len() > 1, "the settings of the second half end turns sooner");
    assert_eq!(raw.len(), formatted.len());
    for (order, (raw, formatted)) in raw.iter().zip(&formatted).enumerate() {
        assert_eq!((&raw["turn_order"], &formatted["turn_order"]), (&json!(order), &json!(order)));
        assert!(raw["words"].as_array().unwrap().iter().all(|word| word["word_is_final"] == true));
    }
    let said: Vec<&str> = formatted.iter().map(|turn| turn["transcript"].as_str().unwrap()).collect();
    let said = said.join(" ");
    assert!(said.contains("Americans") && said.matches("country").count() > 1, "{said}");
    // Times count from the start of the session, also after its settings have changed.
    let words: Vec<u64> = raw
        .iter()
        .flat_map(|turn| turn["words"].as_array().unwrap())
        .map(|word| word["start"].as_u64().unwrap())
        .collect();
    assert!(words.is_sorted() && *words.last().unwrap() > 18_000, "{words:?}");
    assert!(frames.iter().any(|frame| frame["end_of_turn"] == false && frame["words"][0]["word_is_final"] == false));
    let bill = eventually("a bill", || account.usage().first().cloned());
    assert_eq!(bill["sku"], "svc-realtime-pro");
}

#[test]
fn the_python_package_learns_why_a_session_is_refused() {
    let Some(program) = python("assemblyai, websockets") else { return };
    let found = printed(with_key(program, &quick().account()), "assemblyai_client.py", &["live-refused"]);
    assert_eq!((&found["wrong"][0]["code"], &found["refused"][0]["code"]), (&json!(4001), &json!(3006)), "{found}");
    assert!(found["refused"][0]["error"].as_str().unwrap().contains("`speaker_labels`"), "{found}");
}

#[test]
fn the_npm_package_transcribes_and_streams() {
    let Some(program) = node("assemblyai") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (recording, raw) = (speech(), raw_speech(&folder));
    let args = [recording.to_str().unwrap(), raw.to_str().unwrap()];
    let found = printed(with_key(program, &service().account()), "assemblyai_client.mjs", &args);
    let file = &found["file"];
    assert!(
        file["status"] == "completed" && file["text"].as_str().unwrap().contains("can do for your country"),
        "{file}"
    );
    assert_eq!((&file["utterances"], &file["matches"]), (&json!(1), &json!(2)));
    assert!(
        file["srt"].as_str().unwrap().starts_with("1\n") && file["gone"].as_str().unwrap().contains("no such"),
        "{file}"
    );
    assert_eq!((&file["listed"], &file["resource"]), (&json!([true, true]), &json!(true)));
    let live = &found["live"];
    assert_eq!((&live["errors"], &live["begin"][0]), (&json!([]), &json!("string")));
    let lasts = live["begin"][1].as_f64().unwrap();
    assert!((590.0..=601.0).contains(&lasts), "the token's longest duration: {lasts}");
    let turns = live["turns"].as_array().unwrap();
    assert!(ended(turns, true)[0]["transcript"].as_str().unwrap().contains("country"), "{live}");
    assert_eq!(live["wrong"], json!(["This API key is unknown or revoked.", 4001]));
}

#[test]
fn parameters_stand_for_those_of_the_service_or_are_refused_by_name() {
    let account = quick().account();
    let url = upload(&account, silence(1.0));
    let with = |fields: &Value| {
        let mut body = json!({ "audio_url": url });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        create(&account, &body)
    };
    let all = json!({
        "punctuate": true, "format_text": true, "speaker_labels": false, "redact_pii": true, "redact_pii_policies": ["person_name"],
        "filter_profanity": true, "word_boost": ["a"], "keyterms_prompt": ["b"], "speech_models": ["later", "nano"],
        "temperature": 0, "custom_spelling": [], "auto_highlights": false, "prompt": null, "multichannel": false, "dual_channel": true,
    });
    let created = with(&all).ok();
    assert_eq!(created["status"], "queued");
    for (name, value) in [
        ("redact_pii_policies", json!(["person_name"])),
        ("redact_pii_sub", json!("hash")),
        ("filter_profanity", json!(true)),
        ("multichannel", json!(true)),
        ("keyterms_prompt", json!(["b", "a"])),
        ("speech_model_used", json!("svc-fast")),
        ("language_code", json!("en_us")),
        ("audio_url", json!(url)),
    ] {
        assert_eq!(created[name], value, "{name}");
    }
    let done = finished(&account, created["id"].as_str().unwrap());
    assert_eq!((&done["status"], &done["audio_duration"]), (&json!("completed"), &json!(1)));
    // Our own paths serve it too, in our names.
    let ours = account.transcript(done["id"].as_str().unwrap());
    assert_eq!((&ours["model"], &ours["audio_duration_sec"]), (&json!("svc-fast"), &json!(1.0)));

    for (fields, name) in [
        (json!({ "punctuate": false }), "punctuate"),
        (json!({ "auto_highlights": true }), "auto_highlights"),
        (json!({ "iab_categories": true }), "iab_categories"),
        (json!({ "audio_start_from": 500 }), "audio_start_from"),
        (json!({ "custom_spelling": [{ "from": ["a"], "to": "b" }] }), "custom_spelling"),
        (json!({ "webhook_url": "https://example.com", "webhook_auth_header_name": "x" }), "webhook_auth_header_name"),
        (json!({ "redact_pii": true, "redact_pii_audio": true }), "redact_pii_audio"),
        (json!({ "redact_pii": true, "redact_pii_policies": ["blood_type"] }), "redact_pii_policies"),
        (json!({ "summarization": true, "summary_type": "bullets_verbose" }), "summary_type"),
        (json!({ "summarization": true, "summary_model": "catchy" }), "summary_model"),
        (json!({ "boost_param": "high" }), "boost_param"),
        (json!({ "speech_model": "later" }), "speech_model"),
        (json!({ "language_code": "en", "language_detection": true }), "language_detection"),
        (json!({ "language_detection_options": { "code_switching": true } }), "code_switching"),
        (json!({ "speaker_options": { "min_speakers_expected": 1, "max_speakers_expected": 2 } }), "speaker_options"),
        (json!({ "speaker_labels": "yes" }), "speaker_labels"),
        (json!({ "webhook_url": "http://10.0.0.1" }), "webhook_url"),
        (json!({ "a_later_parameter": { "a": 1 } }), "a_later_parameter"),
    ] {
        let message = refused(&with(&fields), 400);
        assert!(message.contains(&format!("`{name}`")), "{fields}: {message}");
    }
    assert!(refused(&create(&account, &json!({})), 400).contains("`audio_url` is missing"));
}

#[test]
fn uploads_and_transcripts_are_their_accounts_alone() {
    let (account, other) = (quick().account(), quick().account());
    let url = upload(&account, silence(0.5));
    assert!(refused(&create(&other, &json!({ "audio_url": url })), 404).contains("no upload"));
    let id = create(&account, &json!({ "audio_url": url })).ok()["id"].as_str().unwrap().to_owned();
    finished(&account, &id);
    for path in ["", "/sentences", "/paragraphs", "/word-search?words=a", "/srt", "/vtt"] {
        refused(&get(&other, &format!("/v2/transcript/{id}{path}")), 404);
    }
    refused(&ask(&other, Method::DELETE, &format!("/v2/transcript/{id}"), &other.key, ""), 404);
    assert_eq!(get(&other, "/v2/transcript").ok()["transcripts"], json!([]));
    refused(&get(&other, &format!("/v2/transcript?before_id={id}")), 400);
    refused(&get(&account, "/v2/transcript?limit=201"), 400);
    refused(&get(&account, "/v2/transcript?created_on=yesterday"), 400);
    assert_eq!(get(&account, "/v2/transcript?created_on=2001-01-01").ok()["page_details"]["result_count"], 0);
    let page = get(&account, "/v2/transcript?status=completed").ok();
    assert_eq!(page["transcripts"][0]["id"], json!(id));
    refused(&ask(&account, Method::POST, "/v2/upload", "svc_wrong", "a"), 401);
    refused(&ask(&account, Method::GET, "/v2/transcript", "", ""), 401);
    // The limit of the service: 100,000 bytes.
    refused(&ask(&account, Method::POST, "/v2/upload", &account.key, vec![0; 100_001]), 413);
}

/// A session by hand.
struct Session(WebSocket<std::net::TcpStream>);

impl Session {
    fn open(service: &Service, query: &str, key: Option<&str>) -> Self {
        let url = Url::parse(&format!("{}/v3/ws?{query}", service.api().replacen("http", "ws", 1))).unwrap();
        let stream = std::net::TcpStream::connect(url.socket_addrs(|| None).unwrap()[0]).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = url.as_str().into_client_request().unwrap();
        if let Some(key) = key {
            request.headers_mut().insert("authorization", key.parse().unwrap());
        }
        Self(tungstenite::client(request, stream).unwrap().0)
    }

    fn send(&mut self, frame: &Value) {
        self.0.send(Message::text(frame.to_string())).unwrap();
    }

    fn say(&mut self, audio: &[u8]) {
        for part in audio.chunks(3_200) {
            self.0.send(Message::binary(part.to_vec())).unwrap();
        }
    }

    /// All frames to the close, and its code.
    fn rest(&mut self) -> (Vec<Value>, u16) {
        let mut frames = Vec::new();
        loop {
            match self.0.read().expect("a frame") {
                Message::Text(text) => frames.push(serde_json::from_str(text.as_str()).unwrap()),
                Message::Close(close) => return (frames, close.map_or(1005, |close| close.code.into())),
                _ => {}
            }
        }
    }
}

/// The code of the error that a session ends with, and its close.
#[track_caller]
fn error(session: &mut Session) -> (u64, u16, String) {
    let (frames, close) = session.rest();
    let last = frames.last().expect("an error");
    assert_eq!(last["type"], "Error", "{last}");
    (last["error_code"].as_u64().unwrap(), close, last["error"].as_str().unwrap().to_owned())
}

#[test]
fn faults_of_a_session_have_their_codes() {
    let account = quick().account();
    let open = |query: &str| Session::open(quick(), query, Some(&account.key));
    for (query, name) in [
        ("sample_rate=1", "sample_rate"),
        ("sample_rate=16000&encoding=opus", "encoding"),
        ("sample_rate=16000&speech_model=later", "speech_model"),
        ("sample_rate=16000&format_turns=perhaps", "format_turns"),
        ("sample_rate=16000&vad_threshold=0.4", "vad_threshold"),
        ("sample_rate=16000&redact_pii=True", "redact_pii"),
        ("sample_rate=16000&keyterms_prompt=a", "keyterms_prompt"),
        ("sample_rate=16000&max_turn_silence=-1", "max_turn_silence"),
    ] {
        let (code, close, message) = error(&mut open(query));
        assert!(code == 3006 && close == 3006 && message.contains(&format!("`{name}`")), "{query}: {message}");
    }
    // What asks for nothing is no fault.
    let mut off = open("sample_rate=16000&speaker_labels=False&redact_pii=false&format_turns=True");
    off.send(&json!({ "type": "Terminate" }));
    let (frames, close) = off.rest();
    assert_eq!((close, &frames[1]["type"]), (1000, &json!("Termination")));

    for frame in [json!("hello"), json!({ "type": "Sing" }), json!({ "type": "UpdateConfiguration", "prompt": "a" })] {
        let mut session = open("sample_rate=16000");
        session.send(&frame);
        assert_eq!(error(&mut session).0, 3006, "{frame}");
    }
    let mut text = open("sample_rate=16000");
    text.0.send(Message::text("this is no audio")).unwrap();
    assert!(error(&mut text).2.contains("binary frames"));
}

#[test]
fn a_session_takes_a_key_or_a_token_of_its_kind() {
    let account = quick().account();
    let minted = |query: &str| get(&account, &format!("/v3/token?{query}"));
    for wrong in ["", "expires_in_seconds=0", "expires_in_seconds=60&max_session_duration_seconds=5"] {
        refused(&minted(wrong), 400);
    }
    let token = minted("expires_in_seconds=60").ok();
    assert_eq!(token["expires_in_seconds"], 60);
    let token = token["token"].as_str().unwrap();
    let v2 = account.mint(&json!({}));
    for (query, header, is_good) in [
        (format!("token={token}"), None, true),
        (String::new(), Some(token), true),
        (String::new(), Some(account.key.as_str()), true),
        (String::new(), None, false),
        (format!("token={}", v2.secret()), None, false),
        (format!("token={token}x"), None, false),
        (format!("token={}", account.key), None, false),
    ] {
        let mut session = Session::open(quick(), &format!("sample_rate=16000&{query}"), header);
        if is_good {
            session.send(&json!({ "type": "Terminate" }));
            assert_eq!(session.rest().1, 1000, "{query}");
        } else {
            let (code, close, _) = error(&mut session);
            assert_eq!((code, close), (4001, 4001), "{query}");
        }
    }
    // Nor is it a token of another kind.
    assert_eq!(Live::open(&v2.with_secret(token).address(&[])).rest(), [Frame::Closed(4401)]);
}

#[test]
fn a_client_that_never_sends_is_let_go_and_one_that_keeps_alive_is_not() {
    let service = Setup::local().with("live_idle_seconds", 2).start();
    let account = service.account();
    let began = Instant::now();
    let (code, close, _) = error(&mut Session::open(&service, "sample_rate=16000", Some(&account.key)));
    assert_eq!((code, close), (4031, 4031));
    let waited = began.elapsed();
    let mut session = Session::open(&service, "sample_rate=16000", Some(&account.key));
    let opened = Instant::now();
    while opened.elapsed() < waited + Duration::from_secs(1) {
        session.send(&json!({ "type": "KeepAlive" }));
        std::thread::sleep(Duration::from_millis(200));
    }
    session.send(&json!({ "type": "Terminate" }));
    let (frames, close) = session.rest();
    assert_eq!((close, &frames.last().unwrap()["type"]), (1000, &json!("Termination")));
}

#[test]
fn a_session_ends_with_its_service_and_is_billed() {
    let service = Setup::local().starter().start();
    let account = service.account();
    let mut session = Session::open(&service, "sample_rate=16000&encoding=pcm_mulaw", Some(&account.key));
    session.say(&mulaw(&spoken_pcm()));
    // The first turn is under way.
    let mut frames = Vec::new();
    while frames.last().is_none_or(|frame: &Value| frame["type"] != "Turn") {
        let Message::Text(text) = session.0.read().unwrap() else { continue };
        frames.push(serde_json::from_str(text.as_str()).unwrap());
    }
    service.terminate();
    let (rest, close) = session.rest();
    assert_eq!((close, &rest.last().unwrap()["type"]), (1001, &json!("Error")));
    assert_eq!(ended(frames.iter().chain(&rest), false).len(), 1, "the turn is completed: {rest:?}");
    assert!(ended(frames.iter().chain(&rest), true).is_empty(), "no formatted turns were asked for");
    assert!(service.wait().success());
}

/// The end of the turn that has a pause of 0.7 s, in a session with this query: silence alone would not end it.
fn turn_in_a_pause(detector: Verdict, query: &str) -> Value {
    let folder = turn_detector(detector);
    let setup = Setup::local().starter().with("live_second_pass", "off");
    let service = setup.with("turn_detector", folder.path().to_str().unwrap()).start();
    let key = service.account().key;
    let mut session = Session::open(&service, &format!("sample_rate=16000&max_turn_silence=10000&{query}"), Some(&key));
    // Without the silence at its end.
    session.say(&[&spoken(16_000)[8 * 32_000..336_000], &[0; 22_400]].concat());
    loop {
        let Message::Text(text) = session.0.read().expect("a frame") else { continue };
        let frame: Value = serde_json::from_str(text.as_str()).unwrap();
        if frame["end_of_turn"] == true {
            return frame;
        }
    }
}

#[test]
fn a_turn_detector_ends_turns_by_its_confidence() {
    let finished = turn_in_a_pause(Verdict::Finished, "end_of_turn_confidence_threshold=0.9");
    assert!(finished["end_of_turn_confidence"].as_f64().unwrap() > 0.9, "{finished}");
    let unsure = turn_in_a_pause(Verdict::Open, "end_of_turn_confidence_threshold=0");
    assert!(unsure["end_of_turn_confidence"].as_f64().unwrap() < 0.1, "{unsure}");
}

#[test]
fn without_credit_nothing_begins() {
    let service = Setup::local().with("free_credit_cents", 0).start();
    let account = service.account();
    let url = upload(&account, silence(0.5));
    refused(&create(&account, &json!({ "audio_url": url })), 402);
    refused(&get(&account, "/v3/token?expires_in_seconds=60"), 402);
    let (code, close, _) = error(&mut Session::open(&service, "sample_rate=16000", Some(&account.key)));
    assert_eq!((code, close), (4002, 4402));
}
