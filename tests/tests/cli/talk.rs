//! `auricle talk` and `auricle bench --talk`: callers of good agents, and of agents with planted faults.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;
use std::thread;

use auricle_tests::{
    Fault, FaultyAgent, Run, Service, Setup, auricle, command, ended, eventually, models, speech, spoken,
};
use serde_json::Value;

/// A service on the starters. It has no language model: its agents reply with the notice that there is none.
fn service() -> Service {
    Setup::new().starter().start()
}

/// The report of a caller who calls an agent with a fault. The faulty ones are called at once, as each call takes its time; the good one
/// before them, so that the machine is not busy. It is called again after a call with a fault, at most twice: on a busy machine the
/// words of an interruption may come after its reply has ended.
fn report(fault: Fault) -> &'static Value {
    static REPORTS: OnceLock<Vec<(Fault, Value)>> = OnceLock::new();
    let reports = REPORTS.get_or_init(|| {
        let service = service();
        let account = service.account();
        let mut good = call(&FaultyAgent::before(&account, Fault::None), &account.key);
        for _ in 0..2 {
            if is_flawless(&good) {
                break;
            }
            good = call(&FaultyAgent::before(&account, Fault::None), &account.key);
        }
        let faults = [Fault::Deaf, Fault::Echoing, Fault::Stuttering, Fault::Leaking, Fault::Stubborn, Fault::Hasty];
        thread::scope(|scope| {
            let calls = faults.map(|fault| {
                let account = &account;
                scope.spawn(move || (fault, call(&FaultyAgent::before(account, fault), &account.key)))
            });
            let calls = calls.map(|call| call.join().expect("a call"));
            calls.into_iter().chain([(Fault::None, good)]).collect()
        })
    });
    &reports.iter().find(|(of, _)| *of == fault).expect("every fault has a report").1
}

/// The report of a caller who calls this agent.
fn call(agent: &FaultyAgent, key: &str) -> Value {
    let models = models();
    let arguments = ["bench", "--talk", "--json", "--rounds", "1", "--turns", "2", "--device", "cpu", "--models"];
    let address = ["--url", agent.url(), "--key", key];
    let run = auricle(arguments.into_iter().chain([models.to_str().unwrap()]).chain(address));
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    document["report"].clone()
}

/// True if every turn has its answer, the interruption stops the reply, and nothing is wrong.
fn is_flawless(report: &Value) -> bool {
    let count = |times: &str| report[times].as_array().map(Vec::len);
    // An answer to the interruption and to each of two turns; the first one is the greeting.
    let is_whole = count("voice_to_voice_ms") == Some(3) && count("barge_in_ms") == Some(1);
    let faults = ["unanswered", "phantom_turns", "leaked_frames", "ignored_interruptions", "self_interruptions"];
    is_whole && faults.iter().all(|fault| report[fault] == 0)
}

#[test]
fn a_good_agent_answers_and_stops_when_it_is_interrupted() {
    let report = report(Fault::None);
    assert_eq!(report["calls"], 1);
    assert_eq!(report["errors"], serde_json::json!(["model_unavailable"]));
    assert!(is_flawless(report), "{report}");
}

#[test]
fn a_deaf_agent_is_caught() {
    let report = report(Fault::Deaf);
    assert!(report["unanswered"].as_u64() >= Some(3), "{report}");
    assert_eq!(report["ignored_interruptions"], 1, "{report}");
}

#[test]
fn an_agent_that_hears_itself_is_caught() {
    let report = report(Fault::Echoing);
    let faults = ["self_interruptions", "phantom_turns"].map(|fault| report[fault].as_u64().unwrap());
    assert!(faults.iter().sum::<u64>() >= 2, "{report}");
}

#[test]
fn an_agent_that_stutters_is_caught() {
    let report = report(Fault::Stuttering);
    assert!(report["late_frames"].as_u64() >= Some(3), "{report}");
}

#[test]
fn an_agent_that_speaks_after_its_reply_is_caught() {
    let report = report(Fault::Leaking);
    assert!(report["leaked_frames"].as_u64() >= Some(3), "{report}");
}

#[test]
fn an_agent_that_cannot_be_interrupted_is_caught() {
    let report = report(Fault::Stubborn);
    assert_eq!((&report["interruptions"], &report["ignored_interruptions"]), (&1.into(), &1.into()), "{report}");
}

#[test]
fn an_agent_that_answers_in_a_pause_is_caught() {
    let report = report(Fault::Hasty);
    assert_eq!((&report["pauses"], &report["cut_turns"]), (&1.into(), &1.into()), "{report}");
    assert_eq!(report["cut_sentences"][0], "I would like to go to the ... house beside the river.");
}

#[test]
fn recorded_callers_interrupt_too() {
    let lines = tempfile::tempdir().unwrap();
    let interruptions = lines.path().join("interruptions");
    std::fs::create_dir(&interruptions).unwrap();
    std::fs::copy(speech(), interruptions.join("jfk.flac")).unwrap();
    let run = bench_with_lines(lines.path(), &["--json"]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    let report = &document["report"];
    assert_eq!((&report["interruptions"], &report["ignored_lines"]), (&1.into(), &serde_json::json!([])), "{report}");
    assert_eq!(report["barge_in_ms"].as_array().map(Vec::len), Some(1), "{report}");
}

#[test]
fn lines_that_cannot_be_said_are_named() {
    let lines = tempfile::tempdir().unwrap();
    let path = lines.path().display().to_string();
    let run = bench_with_lines(lines.path(), &[]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains(&path) && run.stderr.contains("backchannels"), "{}", run.stderr);
    let backchannels = lines.path().join("backchannels");
    std::fs::create_dir(&backchannels).unwrap();
    std::fs::write(backchannels.join("yeah.wav"), "no sound").unwrap();
    let run = bench_with_lines(lines.path(), &[]);
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.contains("yeah.wav") && run.stderr.lines().count() == 1, "{}", run.stderr);
}

/// One call by callers whose lines are in this folder.
fn bench_with_lines(lines: &Path, more: &[&str]) -> Run {
    let (lines, models) = (lines.to_str().unwrap(), models());
    let arguments =
        ["bench", "--talk", "--rounds", "1", "--turns", "0", "--device", "cpu", "--lines", lines, "--models"];
    auricle(arguments.iter().chain([&models.to_str().unwrap()]).chain(more))
}

#[test]
fn a_call_goes_through_pipes() {
    let mut command = command();
    command.args(["talk", "--pipe", "--device", "cpu", "--greeting", "Good morning.", "--models"]).arg(models());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    // The last part of the recording, one turn, once the greeting is over; then silence. The call ends after the reply.
    let speaking = thread::spawn(move || {
        let silence = vec![0; 48_000];
        for piece in [&silence.repeat(4)[..], &spoken(24_000)[8 * 48_000..], &silence.repeat(2)] {
            stdin.write_all(piece).unwrap();
        }
    });
    let mut played = Vec::new();
    stdout.read_to_end(&mut played).unwrap();
    speaking.join().unwrap();
    let run = ended(child.wait_with_output().unwrap());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let samples: Vec<i16> = played.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    let sounding = samples.iter().filter(|sample| sample.abs() > 300).count();
    assert!(sounding > 24_000, "greeting and reply sound: {sounding} samples of {}", samples.len());
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert!(lines.iter().any(|line| line.starts_with("agent  Good morning.")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("you    ") && line.to_lowercase().contains("you ")), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.starts_with("error  ") && line.contains("auricle models pull chat")),
        "{lines:?}"
    );
    // The reply's line says how long it took.
    assert!(
        lines.iter().any(|line| line.starts_with("agent  I have no language model") && line.ends_with("s)")),
        "{lines:?}"
    );
}

/// A call with its service, once the greeting sounds: the command, and the process of the service.
#[cfg(target_os = "linux")]
fn greeted() -> (std::process::Child, std::path::PathBuf) {
    let mut command = command();
    command.args(["talk", "--pipe", "--device", "cpu", "--models"]).arg(models());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut greeting = vec![0; 9_600];
    while greeting.iter().all(|byte| *byte == 0) {
        child.stdout.as_mut().unwrap().read_exact(&mut greeting).unwrap();
    }
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let service = std::fs::read_to_string(children).unwrap();
    let service = std::path::Path::new("/proc").join(service.trim());
    assert!(service.join("stat").exists(), "{service:?}");
    (child, service)
}

#[test]
#[cfg(target_os = "linux")]
fn the_service_of_a_call_ends_with_it() {
    // The loudspeaker is gone.
    let (mut child, service) = greeted();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!service.exists());
    // A signal.
    let (mut child, service) = greeted();
    let killed = std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    eventually("the service ends", || (!service.exists()).then_some(()));
}

#[test]
fn a_call_that_cannot_be_made_says_why() {
    let talk = |more: &[&str]| auricle(["talk", "--pipe"].iter().chain(more));
    let run = talk(&["--url", "http://127.0.0.1:9", "--key", "k"]);
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.contains("http://127.0.0.1:9/") && run.stderr.lines().count() == 1, "{}", run.stderr);
    let service = service();
    let run = talk(&["--url", &service.api(), "--key", "wrong"]);
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.contains("key") && run.stderr.lines().count() == 1, "{}", run.stderr);
    let run = talk(&["--url", &service.api(), "--key", &service.account().key, "--voice", "nobody"]);
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.contains("nobody") && run.stderr.lines().count() == 1, "{}", run.stderr);
    // A key is needed for another's service.
    assert_eq!(talk(&["--url", &service.api()]).status, Some(2));
}

#[test]
fn the_language_model_of_an_agent_is_chosen() {
    let talk = |args: &[&str]| {
        let mut talk = command();
        talk.args(["talk", "--pipe", "--device", "cpu", "--models"]).arg(models()).args(args);
        ended(talk.stdin(Stdio::null()).output().unwrap())
    };
    let missing = talk(&["--model", "no-such-model.gguf"]);
    assert_eq!(missing.status, Some(1), "{}", missing.stderr);
    assert!(missing.stderr.contains("\"no-such-model.gguf\" is no file or folder"), "{}", missing.stderr);
    let running = talk(&["--model", "chat", "--url", "http://127.0.0.1:1", "--key", "k"]);
    assert!(running.status == Some(2) && running.stderr.contains("--url"), "{}", running.stderr);
    let precise = talk(&["--precision", "quarter"]);
    assert!(precise.status == Some(2) && precise.stderr.contains("int8"), "{}", precise.stderr);
}
