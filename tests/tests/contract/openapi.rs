//! The documents of the API, checked by independent programs: they are valid, and the service conforms to them.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use auricle_tests::{Account, Answer, Service, Setup, http, pcm, readers, repository, silence, skip, spoken};
use serde_json::{Value, json};

use crate::deepgram;
use crate::realtime_openai::Session;
use crate::telephony;

/// A program of a Python environment that AURICLE_PYTHON_TOOLS names, else of PATH.
fn tool(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("AURICLE_PYTHON_TOOLS").map(|folder| PathBuf::from(folder).join(name));
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let found = named.into_iter().chain(std::env::split_paths(&on_path).map(|folder| folder.join(name)));
    let found = found.into_iter().find(|program| program.is_file());
    if found.is_none() {
        skip(&format!(
            "{name} (pip install schemathesis openapi-spec-validator, AURICLE_PYTHON_TOOLS=ENVIRONMENT/bin)"
        ));
    }
    found
}

#[test]
fn the_document_is_valid_openapi() {
    let Some(validator) = tool("openapi-spec-validator") else { return };
    let service = Setup::new().start();
    let document = Answer::of(http().get(format!("{}/openapi.json", service.api())));
    assert!(document.json()["openapi"].as_str().unwrap().starts_with("3.1"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, &document.body).unwrap();
    let judged = Command::new(validator).arg(&file).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&judged.stdout), String::from_utf8_lossy(&judged.stderr));
    assert!(judged.status.success(), "{said}");
}

#[test]
fn the_service_conforms_to_its_document() {
    let Some(schemathesis) = tool("st") else { return };
    let service = Setup::local().voice().with("request_limit", 1_000_000).start();
    let account = service.account();
    // A transcript for the examples to find.
    account.transcribe("a.wav", silence(1.0));
    let run = Command::new(schemathesis)
        .args(["run", &format!("{}/openapi.json", service.api())])
        .args(["-H", &format!("Authorization: Bearer {}", account.key)])
        .args([
            "--seed",
            "1",
            "--max-examples",
            "15",
            "--generation-database",
            "none",
            "--phases",
            "examples,coverage,fuzzing",
        ])
        // WebSockets: without one the answer is 426 whatever the query says.
        .args(["--exclude-path", "/v2/realtime/ws", "--exclude-path", "/v2/voice-agent/ws"])
        .args(["--exclude-path", "/v1/realtime"])
        .args(["--exclude-operation-id", "get_v1_listen", "--exclude-operation-id", "get_v1_speak"])
        // Another test covers unknown keys; a positive example may name an upload that does not exist.
        .args(["--exclude-checks", "ignored_auth,positive_data_acceptance"])
        .current_dir(service.data())
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{said}");
}

/// The text frames of a session of live recognition, to its end.
fn live_frames(account: &Account) -> Vec<Value> {
    let mut live = account.mint(&json!({ "sample_rate": 16_000 })).open();
    live.ready();
    live.send(&pcm(readers()[0].iter().copied()), 3_200);
    live.stop();
    live.rest();
    live.frames
}

/// The events of a conversation whose response fails, for want of a language model.
fn conversation_frames(service: &Service, account: &Account) -> Vec<Value> {
    let bearer = format!("Bearer {}", account.key);
    let (mut session, _) = Session::connect(service, "?model=svc-agent", &[("authorization", &bearer)]).unwrap();
    let item = json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "Hello." }] });
    session.send(&json!({ "type": "session.update", "session": { "output_modalities": ["text"] } }));
    session.send(&json!({ "type": "conversation.item.create", "item": item }));
    session.send(&json!({ "type": "response.create" }));
    let mut events = session.all_until("response.done");
    session.send(&json!({ "type": "conversation.item.delete", "item_id": "none" }));
    events.push(session.next());
    events
}

/// The text frames of a live session in Deepgram's protocol.
fn listen_frames(account: &Account) -> Vec<Value> {
    let target =
        "/v1/listen?encoding=linear16&sample_rate=16000&vad_events=true&interim_results=true&utterance_end_ms=1000";
    let mut session = deepgram::Session::open(account, target);
    session.send("Shout");
    session.send("Configure");
    session.audio(&spoken(16_000));
    session.send("CloseStream");
    session.rest().0
}

/// The text frames of a session that says nothing.
fn speak_frames(account: &Account) -> Vec<Value> {
    let mut session = deepgram::Session::open(account, "/v1/speak");
    for kind in ["Flush", "Clear", "Shout", "Close"] {
        session.send(kind);
    }
    session.rest().0
}

#[test]
fn frames_of_sessions_fit_the_asyncapi_document() {
    let Some(python) = tool("python") else { return };
    let service = Setup::local().starter().start();
    let account = service.account();
    let document = Answer::of(http().get(format!("{}/asyncapi.json", service.api()))).json();
    assert_eq!(document["asyncapi"], "3.0.0");
    let mut call = account.call(&json!({ "greeting": "Good morning." }));
    call.reply();
    call.update(&json!({ "output": { "voice": 5 } }));
    call.until("session.error");
    call.end();
    let frames = json!({
        "realtime": live_frames(&account), "voiceAgent": call.frames, "conversation": conversation_frames(&service, &account),
        "listen": listen_frames(&account), "speak": speak_frames(&account),
        "twilio": telephony::frames(&account, "twilio"), "telnyx": telephony::frames(&account, "telnyx"),
        "plivo": telephony::frames(&account, "plivo"),
    });
    let mut check = Command::new(python)
        .arg(repository().join("tests/clients/asyncapi_frames.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    check
        .stdin
        .take()
        .unwrap()
        .write_all(json!({ "document": document, "frames": frames }).to_string().as_bytes())
        .unwrap();
    let checked = check.wait_with_output().unwrap();
    let found = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{found}");
    for frame in [
        "transcript",
        "done",
        "sessionReady",
        "replyAudio",
        "agentTranscript",
        "sessionError",
        "sessionEnded",
        "conversationSessionCreated",
        "conversationItemAdded",
        "conversationResponseDone",
        "conversationError",
        "listenResults",
        "listenSpeechStarted",
        "listenUtteranceEnd",
        "listenMetadata",
        "listenConfigureFailure",
        "listenError",
        "speakMetadata",
        "speakFlushed",
        "speakCleared",
        "speakWarning",
        "twilioAudio",
        "twilioClear",
        "telnyxMark",
        "plivoAudio",
        "plivoMark",
        "plivoClear",
    ] {
        assert!(found.lines().any(|line| line == frame), "{frame}: {found}");
    }
}
