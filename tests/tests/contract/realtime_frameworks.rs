//! `/v1/realtime` through frameworks for voice agents, unchanged: OpenAI's Agents SDK (npm), LiveKit Agents and Pipecat (PyPI).

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use auricle_tests::chat_replies::{COMPLETIONS, calls, says};
use auricle_tests::{Receiver, Service, Setup, skip, spoken};
use serde_json::{Value, json};

use crate::openai::{node, run};
use crate::voice_agent::{sentence, upstream};

const LONG: &str = "Once upon a time there was a mill by the lake, and in the mill there lived a man. ";
const ROME: &str = "It is sunny in Rome.";

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().starter().start())
}

/// A Python with the frameworks.
pub fn python() -> Option<Command> {
    let folder = std::env::var_os("AURICLE_FRAMEWORKS").map(PathBuf::from);
    let program = folder.map(|folder| folder.join("python")).filter(|python| python.is_file());
    if program.is_none() {
        skip(
            "LiveKit Agents and Pipecat (pip install livekit-plugins-openai pipecat-ai[openai], AURICLE_FRAMEWORKS=ENVIRONMENT/bin)",
        );
    }
    program.map(Command::new)
}

fn pcm(folder: &tempfile::TempDir, audio: &[u8]) -> String {
    let path = folder.path().join("speech.pcm");
    std::fs::write(&path, audio).unwrap();
    path.to_str().unwrap().to_owned()
}

fn texts(value: &Value) -> String {
    let all: Vec<&str> = value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    all.join(" ").to_lowercase()
}

#[track_caller]
fn assert_recognised(found: &Value) {
    let text = texts(&found["finals"]);
    let words = ["country", "ask", "for", "you", "what", "do"].into_iter().filter(|word| text.contains(word)).count();
    assert!(words >= 3, "{found}");
}

#[test]
fn livekit_transcribes_turns_that_either_side_ends() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = pcm(&folder, &spoken(24_000));
    let found = run(python, "frameworks.py", service(), &["livekit-listen", "gpt-4o-mini-transcribe", &path]);
    assert_recognised(&found);
    assert!(found["interim"].as_u64() > Some(0) && found["starts"].as_u64() >= Some(2), "{found}");
    // It ends the turns of these models itself.
    let program = self::python().unwrap();
    let found = run(program, "frameworks.py", service(), &["livekit-listen", "gpt-live-transcribe", &path]);
    assert_recognised(&found);
    assert_eq!(found["finals"].as_array().unwrap().len(), found["ends"].as_u64().unwrap() as usize, "{found}");
}

#[test]
fn pipecat_transcribes_the_turns_that_it_ends() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = pcm(&folder, &spoken(16_000));
    let found = run(python, "frameworks.py", service(), &["pipecat-listen", &path]);
    assert_recognised(&found);
    assert_eq!((&found["errors"], found["interim"].as_u64() > Some(0)), (&json!([]), true), "{found}");
    assert_eq!(found["finals"].as_array().unwrap().len(), found["turns"].as_u64().unwrap() as usize, "{found}");
}

/// A language model that calls a function, tells its result and a story, and says goodbye; a service with it.
fn desk() -> (Receiver, Service) {
    let replies =
        [calls("weather", r#"{"place":"Rome"}"#), says(&[ROME]), says(&[&LONG.repeat(8)]), says(&["Goodbye."])];
    let (receiver, service, _) = upstream(replies);
    (receiver, service)
}

#[test]
fn the_agents_sdk_talks_calls_and_is_interrupted() {
    let Some(node) = node("@openai/agents-realtime") else { return };
    let (_receiver, service) = desk();
    let folder = tempfile::tempdir().unwrap();
    let found = run(node, "openai_agents.mjs", &service, &[&pcm(&folder, &sentence())]);
    assert_eq!((&found["errors"], &found["asked"], &found["answer"]), (&json!([]), &json!(["Rome"]), &json!(ROME)));
    assert!(found["bytes"].as_u64() > Some(20_000), "{found}");
    assert_eq!((&found["interrupted"], &found["stopped"]), (&json!("turn_detected"), &json!(true)), "{found}");
    let history = found["history"].as_array().unwrap();
    let roles: Vec<&str> = history.iter().map(|item| item[0].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "function_call", "assistant", "user", "assistant", "user", "assistant"]);
    assert!(history[5][1].as_str().unwrap().to_lowercase().contains("you"), "{found}");
    let story = history[4][1].as_str().unwrap();
    assert!(LONG.starts_with(story) && !story.is_empty(), "{found}");
    assert_eq!(history[6][1], "Goodbye.");
}

#[test]
fn livekit_talks_calls_and_is_interrupted() {
    let Some(python) = python() else { return };
    let (receiver, service) = desk();
    let folder = tempfile::tempdir().unwrap();
    let found = run(python, "frameworks.py", &service, &["livekit-talk", &pcm(&folder, &sentence())]);
    assert_eq!((&found["errors"], &found["call"]), (&json!([]), &json!(["weather", { "place": "Rome" }])), "{found}");
    assert!(found["answer"] == ROME && found["samples"].as_u64() > Some(10_000), "{found}");
    assert!(texts(&found["heard"]).contains("you"), "{found}");
    let story = found["story"].as_str().unwrap();
    assert!(LONG.repeat(8).starts_with(story) && story.len() < 400, "{found}");
    assert_eq!(found["last"], "Goodbye.");
    // The history that was written at the beginning reaches the language model.
    let asked = receiver.deliveries(COMPLETIONS)[0].json()["messages"].clone();
    assert_eq!(asked[2]["content"], "Good morning, Ann.", "{asked}");
}

#[test]
fn pipecat_talks_calls_and_is_interrupted() {
    let Some(python) = python() else { return };
    let long = LONG.repeat(8);
    let call = || calls("weather", r#"{"place":"Rome"}"#);
    // A pause within the turn may take the first call back.
    let (_receiver, service, _) = upstream([says(&[&long]), call(), call(), says(&[ROME])]);
    let folder = tempfile::tempdir().unwrap();
    let found = run(python, "frameworks.py", &service, &["pipecat-talk", &pcm(&folder, &sentence())]);
    let asked = found["asked"].as_array().unwrap();
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked["place"] == "Rome"), "{found}");
    assert_eq!((&found["errors"], found["interruptions"].as_u64() > Some(0)), (&json!([]), true), "{found}");
    assert!(found["bytes"].as_u64() > Some(20_000), "{found}");
    let context = found["context"].as_array().unwrap();
    let story = context[1][1].as_str().unwrap();
    assert!(context[1][0] == "assistant" && long.starts_with(story) && story.len() < 400, "{found}");
    assert!(context[2][0] == "user" && context[2][1].as_str().unwrap().to_lowercase().contains("you"), "{found}");
}
