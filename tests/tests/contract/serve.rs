//! `auricle serve` as a program: what it prints, its settings, its end.

use std::process::{Command, Stdio};

use auricle_tests::{
    Answer, Gate, Receiver, Reply, Run, Setup, command, ended, eventually, fixtures, http, models, silence, skip,
    tiny_models,
};
use serde_json::{Value, json};

/// Asserts that a start fails with one line that names the reason.
#[track_caller]
fn assert_refused(configure: impl FnOnce(&mut Command), names: &str) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command();
    command.args(["serve", "--device", "cpu", "--listen", "127.0.0.1:0", "--storage-listen", "127.0.0.1:0"]);
    command.args(["--dashboard-listen", "127.0.0.1:0", "--data"]).arg(dir.path());
    configure(&mut command);
    let run = ended(command.stdin(Stdio::null()).output().unwrap());
    assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""), "{names}: {}", run.stderr);
    assert_eq!(run.stderr.trim_end().lines().count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains(names), "{names}: {}", run.stderr);
    run
}

#[test]
fn the_first_start_prints_addresses_a_key_and_a_line_that_works() {
    let service = Setup::new().start();
    let curl = eventually("a curl line", || service.line("curl "));
    let lines = service.lines();
    let names: Vec<&str> = lines.iter().take(5).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["api", "storage", "dashboard", "sign-in", "key"], "{lines:?}");
    for name in ["api", "storage", "dashboard"] {
        assert!(service.line(name).unwrap().starts_with("http://127.0.0.1:"), "{lines:?}");
    }
    let key = service.line("key ").unwrap();
    assert!(key.starts_with("svc_"), "{key}");
    Answer::of(http().get(format!("{}/v2/models", service.api())).bearer_auth(key)).ok();
    assert_eq!(lines[5], "", "{lines:?}");
    match Command::new("sh").args(["-c", &format!("curl -sS --fail-with-body {curl}")]).output() {
        Ok(output) if output.status.code() == Some(127) => skip("no curl found (Debian: apt-get install curl)"),
        output => {
            let output = output.unwrap();
            let answer = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{curl}: {answer} {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn the_line_of_the_first_start_transcribes_the_sample() {
    let service = Setup::new().starter().start();
    let curl = eventually("a curl line", || service.line("curl "));
    match Command::new("sh").args(["-c", &format!("curl -sS --fail-with-body {curl}")]).output() {
        Ok(output) if output.status.code() == Some(127) => skip("no curl found (Debian: apt-get install curl)"),
        output => {
            let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
            assert!(text.contains("what you can do for your country"), "{curl}: {text}");
        }
    }
}

#[test]
fn the_first_output_ends_with_the_model_at_work_and_the_command_for_a_better_one() {
    let service = Setup::new().starter().start();
    let line = eventually("the line about the model", || service.line("svc-best runs on "));
    let catalog = auricle_engine::Catalog::read(models()).unwrap();
    let rate = catalog.choose("svc-best").unwrap().word_error_rate().unwrap().percent;
    assert!(line.starts_with(&format!("the small starter checkpoint, {rate} % of words wrong on ")), "{line}");
    assert!(line.contains("auricle models pull svc-fast --recommended"), "{line}");
    assert_eq!(service.lines().last().unwrap(), &format!("svc-best runs on {line}"));
}

/// Redaction has all that it needs before the first transcript is accepted, or the service does not start.
#[test]
fn a_tagger_that_cannot_be_loaded_stops_the_start() {
    let (dir, models) = (tempfile::tempdir().unwrap(), tiny_models());
    let mut command = command();
    command.args(["serve", "--device", "cpu", "--listen", "127.0.0.1:0", "--storage-listen", "127.0.0.1:0"]);
    command.args(["--dashboard-listen", "127.0.0.1:0", "--data"]).arg(dir.path()).arg("--models").arg(models.path());
    command.env("AURICLE_TAGGER", fixtures().join("bert/tagger"));
    let run = ended(command.stdin(Stdio::null()).output().unwrap());
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
    assert!(run.stderr.contains("bert/tagger/tokenizer.json"), "{}", run.stderr);
}

#[test]
fn a_turn_detector_that_cannot_be_loaded_stops_the_start() {
    let (dir, models) = (tempfile::tempdir().unwrap(), tiny_models());
    let network = dir.path().join("cut.onnx");
    let whole = std::fs::read(fixtures().join("smart_turn/quantized.onnx")).unwrap();
    std::fs::write(&network, &whole[..whole.len() / 2]).unwrap();
    let mut command = command();
    command.args(["serve", "--device", "cpu", "--listen", "127.0.0.1:0", "--storage-listen", "127.0.0.1:0"]);
    command.args(["--dashboard-listen", "127.0.0.1:0", "--data"]).arg(dir.path()).arg("--models").arg(models.path());
    let run = ended(command.env("AURICLE_TURN_DETECTOR", &network).stdin(Stdio::null()).output().unwrap());
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
    assert!(run.stderr.contains("cut.onnx"), "{}", run.stderr);
}

#[test]
fn a_later_start_has_the_same_data_and_prints_no_key() {
    let service = Setup::new().start();
    let first = service.line("key ").unwrap();
    let account = service.account();
    let done = account.transcribe("a.wav", silence(1.0));
    let signed = account.sign("b.wav", "audio/wav");
    service.terminate();
    assert!(service.wait().success(), "SIGTERM is an orderly end");
    service.start();
    assert_eq!(service.line("key "), None);
    Answer::of(http().get(format!("{}/v2/models", service.api())).bearer_auth(first)).ok();
    assert_eq!(account.transcript(done["id"].as_str().unwrap()), done);
    assert_eq!(account.usage().len(), 1);
    assert_eq!(signed.put(silence(1.0)).status, 200, "a URL that was signed before still works");
}

#[test]
fn an_unknown_setting_and_a_bad_value_are_refused_by_name() {
    let file = |text: &str| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("auricle.toml"), text).unwrap();
        dir
    };
    for (text, names) in [
        ("no_such_key = 1\n", "no_such_key"),
        ("request_limit = \"many\"\n", "request_limit"),
        ("listen = \"nowhere\"\n", "listen"),
        ("role = \"captain\"\n", "role"),
        ("job_lease_seconds = -1\n", "job_lease_seconds"),
        ("webhook_retry_seconds = 10\n", "webhook_retry_seconds"),
        ("billing_provider = \"barter\"\n", "billing_provider"),
        ("wyoming = \"0.0.0.0:0\"\n", "wyoming_account"),
    ] {
        let dir = file(text);
        // The flag would win over the file.
        let configure = |command: &mut Command| {
            if names == "listen" {
                *command = auricle_tests::command();
                command.args(["serve", "--data"]).arg(dir.path().join("data"));
            }
            command.arg("--config").arg(dir.path().join("auricle.toml"));
        };
        assert_refused(configure, names);
    }
    for (name, value) in
        [("AURICLE_REQUEST_LIMIT", "many"), ("AURICLE_MAX_UPLOAD_BYTES", "-1"), ("AURICLE_ALLOW_PRIVATE_HOSTS", "[1")]
    {
        let key = name.trim_start_matches("AURICLE_").to_lowercase();
        let run = assert_refused(|command| _ = command.env(name, value), "");
        assert!(run.stderr.to_lowercase().contains(&key), "{key}: {}", run.stderr);
    }
    assert_refused(|command| _ = command.args(["--config", "/nowhere/auricle.toml"]), "/nowhere/auricle.toml");
}

#[test]
fn a_setting_in_the_environment_wins_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("auricle.toml");
    std::fs::write(&path, "request_limit = 77\nfree_credit_cents = 5\n").unwrap();
    let service = Setup::new().with("request_limit", 88).config(&path).start();
    let account = service.account();
    assert_eq!(account.get("/v2/models").header("x-ratelimit-limit"), Some("88"));
    // `keys create` was not given the file, so this is the account of the first start.
    let key = service.line("key ").unwrap();
    let credits = Answer::of(http().get(format!("{}/v2/credits", service.api())).bearer_auth(key)).ok();
    assert_eq!(credits["free_credit_cents"], 5);
}

#[test]
fn a_taken_port_is_a_clear_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let models = tiny_models();
    let mut command = command();
    command.args(["serve", "--device", "cpu", "--listen", &address, "--storage-listen", "127.0.0.1:0"]);
    command.args(["--dashboard-listen", "127.0.0.1:0", "--models"]).arg(models.path()).arg("--data").arg(dir.path());
    let run = ended(command.output().unwrap());
    assert!(run.status.is_some_and(|status| status != 0));
    assert!(run.stderr.contains(&address), "{}", run.stderr);
    assert_eq!(run.stdout, "");
    // The failed start printed no key, so the next one does.
    let keys = auricle_tests::auricle(["keys", "list", "--data", dir.path().to_str().unwrap()]);
    assert_eq!((keys.status, keys.stdout.lines().count()), (Some(0), 1), "{} {}", keys.stdout, keys.stderr);
}

#[test]
fn sigterm_lets_a_job_finish() {
    let service = Setup::local().start();
    let (receiver, gate, account) = (Receiver::new(), Gate::new(), service.account());
    let url = receiver.answers("/held.wav", [Reply::Held(silence(1.0).into(), gate.clone())]);
    let id = account.create(&json!({"audio_url": url}));
    receiver.wait("/held.wav", 1);
    service.terminate();
    eventually("no new connections are taken", || {
        Answer::try_of(http().get(format!("{}/v2/models", service.api()))).is_none().then_some(())
    });
    gate.open();
    assert!(service.wait().success());
    service.start();
    assert_eq!(account.finished(&id)["status"], "completed");
    assert_eq!(account.bills(&id).len(), 1);
}

#[test]
fn a_job_that_outlasts_the_drain_goes_back() {
    let service = Setup::local().with("drain_seconds", 1).start();
    let (receiver, account) = (Receiver::new(), service.account());
    let held = Reply::Held(silence(1.0).into(), Gate::new());
    let url = receiver.answers("/held.wav", [held, Reply::audio(silence(1.0))]);
    let id = account.create(&json!({"audio_url": url}));
    receiver.wait("/held.wav", 1);
    service.terminate();
    assert!(service.wait().success());
    service.start();
    let done = account.finished(&id);
    assert_eq!((&done["status"], &done["error"]), (&json!("completed"), &Value::Null));
    assert_eq!(account.bills(&id).len(), 1);
}
