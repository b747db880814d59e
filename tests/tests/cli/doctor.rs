//! `auricle doctor` and `auricle config`: what is missing, what the settings are, and a file of them.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use auricle_tests::{Run, command, ended, models};
use serde_json::Value;

use super::place::json;

/// Variables of the environment and their values.
type Variables<'a> = &'a [(&'a str, &'a str)];

/// A folder without anything, in which the commands run with settings for addresses that are free.
fn run(folder: &Path, args: &[&str], variables: Variables<'_>) -> Run {
    let mut command = command();
    for name in ["LISTEN", "STORAGE_LISTEN", "DASHBOARD_LISTEN"] {
        command.env(format!("AURICLE_{name}"), "127.0.0.1:0");
    }
    command.env("AURICLE_MODELS", models()).env("AURICLE_DEVICE", "cpu").current_dir(folder);
    ended(command.envs(variables.iter().copied()).args(args).stdin(Stdio::null()).output().unwrap())
}

fn findings(run: &Run) -> Vec<Value> {
    run.stdout.lines().map(json).collect()
}

/// The findings of a check that are not good.
fn faults<'a>(findings: &'a [Value], check: &str) -> Vec<&'a Value> {
    findings.iter().filter(|finding| finding["check"] == check && finding["state"] != "ok").collect()
}

#[test]
fn a_machine_without_a_fault_passes_and_every_fault_has_its_command() {
    let folder = tempfile::tempdir().unwrap();
    let good = run(folder.path(), &["doctor", "--json"], &[]);
    assert_eq!((good.status, good.stderr.as_str()), (Some(0), ""), "{}", good.stdout);
    let all = findings(&good);
    for check in ["settings", "device", "ffmpeg", "models", "port", "disk", "open files"] {
        assert!(all.iter().any(|finding| finding["check"] == check), "{check}: {}", good.stdout);
    }
    assert!(all.iter().all(|finding| finding["state"] == "ok" || finding["mend"].is_string()), "{}", good.stdout);
    // The language model that is not pulled, and the command for it.
    let models = faults(&all, "models");
    assert!(models.iter().any(|finding| finding["mend"] == "auricle models pull chat"), "{}", good.stdout);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "it changes nothing");
    let text = run(folder.path(), &["doctor"], &[]);
    assert!(
        text.status == Some(0) && text.stdout.contains("\n                    auricle models pull chat\n"),
        "{}",
        text.stdout
    );
}

#[test]
fn what_is_broken_is_named_with_its_command_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let inside = file.join("data");
    let cases: [(&str, &[&str], Variables<'_>, &str, &str); 6] = [
        ("port", &["--listen", &address], &[], "taken by another program", "auricle serve --listen 127.0.0.1:"),
        ("disk", &["--data", inside.to_str().unwrap()], &[], "takes no files", "chown"),
        ("ffmpeg", &[], &[("AURICLE_FFMPEG", "/nowhere/ffmpeg")], "/nowhere/ffmpeg", "unset AURICLE_FFMPEG"),
        ("device", &["--device", "vulkan:77"], &[], "vulkan:77", "--device auto"),
        ("settings", &[], &[("AURICLE_JOB_WORKERS", "none")], "job_workers", "grep ^AURICLE_"),
        ("models", &["--models", "/nowhere"], &[], "/nowhere", "auricle"),
    ];
    for (check, args, variables, why, mend) in cases {
        let run = run(folder.path(), &[&["doctor", "--json"], args].concat(), variables);
        assert_eq!((run.status, run.stderr.as_str()), (Some(1), ""), "{check}: {}", run.stdout);
        let all = findings(&run);
        let broken = faults(&all, check).into_iter().find(|finding| finding["state"] == "broken");
        let broken = broken.unwrap_or_else(|| panic!("{check}: {}", run.stdout));
        assert!(broken["message"].as_str().unwrap().contains(why), "{broken}");
        assert!(broken["mend"].as_str().unwrap().contains(mend), "{broken}");
    }
    let run = run(folder.path(), &["doctor", "--json"], &[("AURICLE_JOB_WORKER", "3")]);
    assert_eq!(run.status, Some(0), "{}", run.stdout);
    let all = findings(&run);
    assert!(faults(&all, "settings")[0]["mend"].as_str().unwrap().contains("AURICLE_JOB_WORKERS"), "{}", run.stdout);
}

#[test]
fn a_broken_checkpoint_is_found_with_the_command_that_mends_it() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("models");
    let published = own.join("whisper-base");
    fs::create_dir_all(&published).unwrap();
    fs::copy(models().join("catalog.toml"), own.join("catalog.toml")).unwrap();
    fs::write(published.join("config.json"), "{\"model_type\": \"whisper\"}").unwrap();
    fs::write(published.join("model.safetensors"), "not a checkpoint").unwrap();
    let run = run(folder.path(), &["doctor", "--json", "--models", own.to_str().unwrap()], &[]);
    assert_eq!(run.status, Some(1), "{}", run.stdout);
    let all = findings(&run);
    let broken = faults(&all, "models").into_iter().find(|finding| finding["state"] == "broken");
    let broken = broken.unwrap_or_else(|| panic!("{}", run.stdout));
    assert!(broken["message"].as_str().unwrap().contains("whisper-base"), "{broken}");
    assert_eq!(broken["mend"], "auricle models pull openai/whisper-base --force");
}

#[test]
fn settings_are_shown_with_the_place_that_they_come_from_and_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    fs::write(&file, "job_workers = 7\nrequest_limit = 70\nlanguage_key = \"a secret of the file\"\n").unwrap();
    let variables = [
        ("AURICLE_REQUEST_LIMIT", "71"),
        ("AURICLE_MAX_CHATS", "5"),
        ("AURICLE_DATABASE_URL", "postgres://auricle:hidden-too@db/auricle"),
    ];
    let args = ["config", "show", "--config", "own.toml", "--precision", "half"];
    let as_json = run(folder.path(), &[&args[..], &["--json"]].concat(), &variables);
    assert_eq!((as_json.status, as_json.stderr.as_str()), (Some(0), ""));
    let all = findings(&as_json);
    let of = |key: &str| {
        let setting = all.iter().find(|setting| setting["key"] == key).unwrap_or_else(|| panic!("{key}"));
        (setting["value"].clone(), setting["from"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("job_workers"), (7.into(), "file".into()));
    assert_eq!(of("request_limit"), (71.into(), "environment".into()));
    assert_eq!(of("max_chats"), (5.into(), "environment".into()));
    assert_eq!(of("precision"), ("half".into(), "flag".into()));
    assert_eq!(of("poll_seconds"), (1.into(), "default".into()));
    assert_eq!(of("sign_up"), (Value::Null, "default".into()));
    assert_eq!(of("language_key"), ("(hidden)".into(), "file".into()));
    assert_eq!(of("database_url").0, "postgres://auricle:***@db/auricle");
    let text = run(folder.path(), &args, &variables);
    for line in ["own.toml", "AURICLE_MAX_CHATS", "--precision"] {
        assert!(text.stdout.contains(line), "{line}: {}", text.stdout);
    }
    for output in [&as_json.stdout, &text.stdout] {
        assert!(!output.contains("a secret of the file") && !output.contains("hidden-too"), "{output}");
    }
    fs::write(&file, "job_wokers = 7\n").unwrap();
    let wrong = run(folder.path(), &args, &[]);
    assert!(wrong.status == Some(2) && wrong.stderr.contains("job_wokers"), "{}", wrong.stderr);
}

#[test]
fn a_file_of_all_settings_is_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = run(folder.path(), &["config", "init"], &[]);
    assert_eq!((first.status, first.stderr.as_str()), (Some(0), ""));
    assert!(first.stdout.contains("auricle serve --config auricle.toml"), "{}", first.stdout);
    let path = folder.path().join("auricle.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\n# Address of the API.\n#listen = \"127.0.0.1:8080\"\n"), "{text}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    fs::write(&path, text.replace("#job_workers = 2", "job_workers = 3")).unwrap();
    let again = run(folder.path(), &["config", "init"], &[]);
    assert_eq!((again.status, again.stdout.as_str()), (Some(2), ""));
    assert!(again.stderr.contains("is there already"), "{}", again.stderr);
    let shown = run(folder.path(), &["config", "show", "--config", "auricle.toml", "--json"], &[]);
    let all = findings(&shown);
    let from_file: Vec<_> = all.iter().filter(|setting| setting["from"] == "file").collect();
    assert!(from_file.len() == 1 && from_file[0]["value"] == 3, "{from_file:?}");
    let nowhere = run(folder.path(), &["config", "init", "none/own.toml"], &[]);
    assert!(nowhere.status == Some(1) && nowhere.stderr.contains("none/own.toml"), "{}", nowhere.stderr);
}
