//! `auricle transcribe --model OWNER/NAME` with a hub on this machine. The checkpoint has random weights.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use auricle_tests::hub::{Hub, HubFaults};
use auricle_tests::{Run, binary, ended, fixtures, skip, speech};

use super::place::{Place, json, messages};

const NAME: &str = "somebody/whisper-own";

fn hub() -> Hub {
    Hub::serve(NAME, &fixtures().join("whisper/multi"))
}

/// Runs a transcription without a terminal, in the folder of the test.
fn transcribe(place: &Place, hub: &Hub, args: &[&str], files: &[&Path]) -> Run {
    let mut command = place.command(&["--language", "en", "--format", "json"], &[]);
    command.args(args).args(files).current_dir(place.dir.path()).stdin(Stdio::null());
    ended(command.env("HF_ENDPOINT", hub.url()).env_remove("HF_TOKEN").output().unwrap())
}

#[test]
fn a_name_of_the_hub_is_fetched_once_and_never_unasked() {
    let (place, hub, speech) = (Place::new(), hub(), speech());
    let folder = place.models.path().join("whisper-own");
    let run = transcribe(&place, &hub, &["--model", NAME], &[&speech]);
    assert_eq!((run.status, run.stdout.as_str(), messages(&run).len()), (Some(1), "", 1), "{}", run.stderr);
    for words in [&format!("auricle models pull {NAME}"), "--pull", "no file or folder somebody/whisper-own"] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
    assert!(hub.asked("config.json").is_empty() && !folder.exists());

    // A recording that is not there costs no download.
    let run = transcribe(&place, &hub, &["--model", NAME, "--pull"], &[Path::new("missing.mp3")]);
    assert_eq!((run.status, messages(&run).len()), (Some(1), 1), "{}", run.stderr);
    assert!(hub.asked("config.json").is_empty() && !folder.exists());

    let run = transcribe(&place, &hub, &["--model", NAME, "--pull"], &[&speech, &speech]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains(&format!("{NAME} is in {}", folder.display())), "{}", run.stderr);
    assert_eq!(hub.asked("config.json").len(), 1);
    let fetched: Vec<_> = run.stdout.lines().map(json).collect();
    assert_eq!((fetched.len(), &fetched[0]["model"]), (2, &"whisper-own".into()));

    hub.behave(HubFaults { status: Some(500), ..HubFaults::default() });
    let run = transcribe(&place, &hub, &["--model", NAME], &[&speech]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(json(&run.stdout)["text"], fetched[0]["text"]);
}

#[test]
fn a_folder_of_the_name_comes_first() {
    let (place, hub) = (Place::new(), hub());
    hub.behave(HubFaults { status: Some(500), ..HubFaults::default() });
    let folder = place.path(NAME);
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(fixtures().join("whisper_forms/published")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    let run = transcribe(&place, &hub, &["--model", NAME], &[&speech()]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(json(&run.stdout)["model"], "whisper-own");
}

#[test]
fn a_name_that_cannot_serve_is_one_line() {
    let (place, hub, speech) = (Place::new(), hub(), speech());
    let run = transcribe(&place, &hub, &["--model", "somebody/nothing", "--pull"], &[&speech]);
    assert_eq!((run.status, messages(&run).len()), (Some(1), 1), "{}", run.stderr);
    assert!(run.stderr.contains("has no somebody/nothing"), "{}", run.stderr);
    // More parts, or hidden ones, are a path.
    for path in ["a/b/c", "../b", "./b"] {
        let run = transcribe(&place, &hub, &["--model", path, "--pull"], &[&speech]);
        assert_eq!((run.status, messages(&run).len()), (Some(1), 1), "{path}: {}", run.stderr);
        assert!(run.stderr.contains(&format!("{path}: no such file or folder")), "{}", run.stderr);
    }
    hub.behave(HubFaults { lies: vec!["config.json".into()], ..HubFaults::default() });
    let run = transcribe(&place, &hub, &["--model", NAME, "--pull"], &[&speech]);
    assert!(run.status == Some(1) && run.stderr.contains("config.json"), "{}", run.stderr);
    assert!(run.stdout.is_empty() && !place.models.path().join("whisper-own").exists());

    fs::copy(fixtures().join("../../models/catalog.toml"), place.models.path().join("catalog.toml")).unwrap();
    for (name, purpose) in [("hexgrad/Kokoro-82M", "voice-en"), ("Qwen/Qwen3-0.6B-GGUF", "chat")] {
        let run = transcribe(&place, &hub, &["--model", name, "--pull"], &[&speech]);
        assert_eq!((run.status, messages(&run).len()), (Some(2), 1), "{name}: {}", run.stderr);
        assert!(run.stderr.contains(&format!("{name} transcribes nothing: it is for {purpose}")), "{}", run.stderr);
    }
}

#[test]
fn a_terminal_asks_before_it_fetches() {
    let (place, hub) = (Place::new(), hub());
    let folder = place.models.path().join("whisper-own");
    let line = r#""$PROGRAM" transcribe --device cpu --language en --models "$MODELS" --model "$NAME" "$RECORDING""#;
    // Answers the question on a terminal, which `script` makes. None without `script`.
    let answer = |word: &str| -> Option<Run> {
        let mut terminal = Command::new("script");
        terminal.args(["-q", "-e", "-c", line, "/dev/null"]).env("PROGRAM", binary()).env("NAME", NAME);
        terminal.env("MODELS", place.models.path()).env("RECORDING", speech()).env("TERM", "xterm");
        terminal.env("HF_ENDPOINT", hub.url()).env_remove("HF_TOKEN");
        let spawned = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let Ok(mut child) = spawned else {
            skip("no `script` found (Debian: apt-get install bsdutils)");
            return None;
        };
        // Open until the end: its end would be that of the terminal's input.
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(word.as_bytes()).unwrap();
        stdin.flush().unwrap();
        Some(ended(child.wait_with_output().unwrap()))
    };
    let question = format!("{NAME} is not here. Fetch 1 MB from {}? [Y/n]", hub.url());
    let Some(no) = answer("n\n") else { return };
    assert!(no.status == Some(1) && no.stdout.contains(&question), "{}", no.stdout);
    assert!(no.stdout.contains(&format!("{NAME} is not fetched")) && !folder.exists(), "{}", no.stdout);
    let yes = answer("y\n").unwrap();
    assert!(yes.status == Some(0) && yes.stdout.contains(&question) && folder.is_dir(), "{}", yes.stdout);
    let again = answer("").unwrap();
    assert!(again.status == Some(0) && !again.stdout.contains("[Y/n]"), "{}", again.stdout);
}
