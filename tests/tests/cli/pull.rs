//! `auricle models pull` from a hub on this machine, which serves a small checkpoint, cuts connections and states wrong
//! checksums.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use auricle_tests::hub::{Hub, HubFaults};
use auricle_tests::{Run, command, ended, fixtures, speech};
use tempfile::TempDir;

const WEIGHTS: &str = "model.safetensors";
const REPOSITORY: &str = "openai/whisper-large-v3-turbo";

/// A models folder with the catalog alone, and a hub.
struct Place {
    models: TempDir,
    hub: Hub,
}

impl Place {
    fn new() -> Self {
        Self::with(&fixtures().join("whisper/multi"))
    }

    /// A hub that has one checkpoint under another name.
    fn of(repository: &str) -> Self {
        Self { hub: Hub::serve(repository, &fixtures().join("whisper/multi")), ..Self::new() }
    }

    fn with(checkpoint: &std::path::Path) -> Self {
        let models = tempfile::tempdir().unwrap();
        let catalog = fixtures().join("../../models/catalog.toml");
        fs::copy(catalog, models.path().join("catalog.toml")).unwrap();
        Self { models, hub: Hub::serve(REPOSITORY, checkpoint) }
    }

    fn command(&self, name: &str) -> Command {
        let mut command = command();
        command.args(["models", "pull", name, "--hub", &self.hub.url(), "--models"]).arg(self.models.path());
        command.env_remove("HF_TOKEN").env_remove("HF_ENDPOINT");
        command
    }

    fn pull(&self, name: &str) -> Run {
        ended(self.command(name).stdin(Stdio::null()).output().unwrap())
    }

    fn folder(&self) -> PathBuf {
        self.models.path().join("whisper-large-v3-turbo")
    }

    fn part(&self) -> PathBuf {
        self.models.path().join(".pull/whisper-large-v3-turbo").join(format!("{WEIGHTS}.part"))
    }

    fn weights() -> Vec<u8> {
        fs::read(fixtures().join("whisper/multi").join(WEIGHTS)).unwrap()
    }
}

fn cuts(after: usize) -> HashMap<String, usize> {
    HashMap::from([(WEIGHTS.to_owned(), after)])
}

/// A turn detector is one file of a repository that has others.
#[test]
fn a_turn_detector_is_pulled_checked_and_listed() {
    let files = tempfile::tempdir().unwrap();
    let network = "smart-turn-v3.2-cpu.onnx";
    for name in [network, "smart-turn-v3.2-gpu.onnx"] {
        fs::copy(fixtures().join("smart_turn/quantized.onnx"), files.path().join(name)).unwrap();
    }
    let hub = Hub::serve("pipecat-ai/smart-turn-v3", files.path());
    let place = Place { hub, ..Place::new() };
    let run = place.pull("turn");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("the turn detector now runs on it"), "{}", run.stdout);
    let folder = place.models.path().join("smart-turn-v3");
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [network]);
    let of = |arguments: &[&str]| {
        let mut command = command();
        command.arg("models").args(arguments).arg("--models").arg(place.models.path());
        ended(command.output().unwrap()).stdout
    };
    let listed = of(&["list"]);
    assert!(listed.lines().any(|line| line.starts_with("turn ") && line.contains("published")), "{listed}");
    let checked = of(&["check"]);
    assert!(checked.contains("smart-turn-v3.2-cpu.onnx: good") && checked.contains("turn detector"), "{checked}");

    let whole = fs::read(fixtures().join("smart_turn/quantized.onnx")).unwrap();
    fs::write(files.path().join(network), &whole[..whole.len() / 2]).unwrap();
    let cut = Place { hub: Hub::serve("pipecat-ai/smart-turn-v3", files.path()), ..Place::new() };
    let run = cut.pull("turn");
    assert_eq!(run.status, Some(1), "{}", run.stdout);
    assert!(run.stderr.contains(network) && !cut.models.path().join("smart-turn-v3").exists(), "{}", run.stderr);
}

#[test]
fn a_pulled_checkpoint_serves_at_once() {
    let place = Place::new();
    let run = place.pull("svc-fast");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("svc-fast now runs on it"), "{}", run.stdout);
    assert!(run.stderr.contains("model.safetensors: 1.0 MB"), "{}", run.stderr);
    assert_eq!(fs::read(place.folder().join(WEIGHTS)).unwrap(), Place::weights());
    let mut names: Vec<_> = fs::read_dir(place.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert!(
        !names.iter().any(|name| name.to_string_lossy().contains("oracle")),
        "not what it does not need: {names:?}"
    );
    assert!(!place.part().exists() && !place.part().parent().unwrap().exists());

    let vad = place.models.path().join("starter/vad");
    fs::create_dir_all(&vad).unwrap();
    fs::copy(fixtures().join("../../models/starter/vad").join(WEIGHTS), vad.join(WEIGHTS)).unwrap();
    let mut transcribe = command();
    transcribe.args(["transcribe", "--device", "cpu", "--model", "svc-fast", "--language", "de", "--models"]);
    let run = ended(transcribe.arg(place.models.path()).arg(speech()).output().unwrap());
    assert_eq!(run.status, Some(0), "{}", run.stderr);

    place.hub.behave(HubFaults { status: Some(500), ..HubFaults::default() });
    let again = place.pull(REPOSITORY);
    assert_eq!((again.status, again.stdout.contains("is there already")), (Some(0), true), "{}", again.stderr);
}

#[test]
fn a_size_is_pulled_into_its_own_folder_and_serves_until_a_better_one_is_there() {
    let place = Place::of("openai/whisper-base");
    let run = ended(place.command("svc-fast").args(["--size", "base"]).output().unwrap());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("svc-fast now runs on it"), "{}", run.stdout);
    assert!(run.stderr.contains("openai/whisper-base: 1 MB in"), "{}", run.stderr);
    let folder = place.models.path().join("whisper-base");
    assert_eq!(fs::read(folder.join(WEIGHTS)).unwrap(), Place::weights());
    assert!(!place.folder().exists());
    let list = || {
        let mut command = command();
        ended(command.args(["models", "list", "--languages", "--models"]).arg(place.models.path()).output().unwrap())
            .stdout
    };
    let row = |list: &str| list.lines().find(|line| line.starts_with("svc-fast")).unwrap().to_owned();
    assert!(row(&list()).contains("whisper-base") && row(&list()).contains("published"), "{}", list());
    assert!(!row(&list()).contains("yue") && row(&list()).contains("haw"), "{}", list());

    let turbo = Place::new();
    assert_eq!(turbo.pull("svc-fast").status, Some(0));
    fs::rename(turbo.folder(), place.folder()).unwrap();
    assert!(row(&list()).contains("whisper-large-v3-turbo") && row(&list()).contains("yue"), "{}", list());
    let mut again = place.command("openai/whisper-base");
    let run = ended(again.arg("--force").output().unwrap());
    assert!(run.stdout.contains("svc-fast still runs on openai/whisper-large-v3-turbo"), "{}", run.stdout);
}

#[test]
fn a_checkpoint_that_was_pulled_is_deleted_and_the_next_best_serves() {
    let place = Place::new();
    let remove = |args: &[&str]| {
        let mut command = command();
        command.args(["models", "rm"]).args(args).arg("--models").arg(place.models.path());
        ended(command.stdin(Stdio::null()).output().unwrap())
    };
    let none = remove(&["svc-fast"]);
    assert_eq!((none.status, none.stdout.as_str()), (Some(1), ""));
    assert!(none.stderr.contains("no checkpoint of svc-fast"), "{}", none.stderr);
    assert_eq!(remove(&["svc-none"]).status, Some(2));
    assert_eq!(place.pull("svc-fast").status, Some(0));
    let base = place.models.path().join("whisper-base");
    fs::create_dir(&base).unwrap();
    for file in fs::read_dir(place.folder()).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), base.join(file.file_name())).unwrap();
    }
    let run = remove(&["svc-fast", "--size", "turbo"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains(&format!("{} is deleted, 1 MB are free", place.folder().display())), "{}", run.stdout);
    assert!(run.stdout.contains("svc-fast runs on openai/whisper-base now"), "{}", run.stdout);
    assert!(!place.folder().exists() && base.is_dir());
    // Without a size all are deleted; one that lies elsewhere stays there.
    assert_eq!(place.pull("svc-fast").status, Some(0));
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(&base, elsewhere.path().join("own")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(elsewhere.path().join("own"), &base).unwrap();
    let run = remove(&["svc-fast"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("svc-fast has no checkpoint now"), "{}", run.stdout);
    assert!(!place.folder().exists() && !base.exists() && elsewhere.path().join("own").join(WEIGHTS).is_file());
    // Starters are no checkpoint that was pulled.
    let starter = place.models.path().join("starter/asr-en");
    fs::create_dir_all(&starter).unwrap();
    fs::write(starter.join("config.json"), "{}").unwrap();
    for name in ["starter/asr-en", "../starter", "starter"] {
        assert_ne!(remove(&[name]).status, Some(0), "{name}");
    }
    assert!(starter.join("config.json").is_file());
}

#[test]
fn what_a_killed_pull_left_does_not_stop_the_next() {
    let place = Place::new();
    assert_eq!(place.pull(REPOSITORY).status, Some(0));
    // It was killed when the new checkpoint was in its place.
    let name = place.folder().file_name().unwrap().to_str().unwrap().to_owned();
    let old = place.models.path().join(".pull").join(format!("{name}.old"));
    fs::create_dir_all(&old).unwrap();
    fs::write(old.join(WEIGHTS), "old").unwrap();
    let run = ended(place.command(REPOSITORY).arg("--force").output().unwrap());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(!old.exists() && fs::read(place.folder().join(WEIGHTS)).unwrap() == Place::weights());
    assert!(!place.folder().join(".commit").exists());
}

#[test]
fn the_diarizer_is_pulled_checked_and_listed() {
    const DIARIZER: &str = "nvidia/Nemotron-3-Diarization";
    let other = Place::of(DIARIZER);
    let run = other.pull("diarizer");
    assert_eq!(run.status, Some(1), "{}", run.stdout);
    assert!(run.stderr.contains("model_type whisper tells no speakers apart"), "{}", run.stderr);

    let place = Place { hub: Hub::serve(DIARIZER, &fixtures().join("sortformer")), ..Place::new() };
    let models = |command: &str| {
        let mut models = auricle_tests::command();
        ended(models.args(["models", command, "--models"]).arg(place.models.path()).output().unwrap()).stdout
    };
    let row = |list: &str| list.lines().find(|line| line.starts_with("diarizer")).unwrap().to_owned();
    let before = row(&models("list"));
    assert!(before.contains("starter/voice") && before.contains("missing"), "{before}");
    let run = place.pull("diarizer");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("the diarizer now runs on it"), "{}", run.stdout);
    let after = row(&models("list"));
    assert!(after.contains("nemotron-3-diarization") && after.contains("published"), "{after}");
    assert!(
        models("check").contains("nemotron-3-diarization: good\n  diarizer, 0.0 M parameters"),
        "{}",
        models("check")
    );
    let again = place.pull(DIARIZER);
    assert!(again.stdout.contains("is there already"), "{} {}", again.stdout, again.stderr);
}

#[test]
fn voices_are_pulled_checked_listed_and_speak() {
    const VOICES: &str = "hexgrad/Kokoro-82M";
    let refused = Place::of(VOICES).pull("voice-en");
    assert_eq!(refused.status, Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("has no weights as a .pth file"), "{}", refused.stderr);

    let place = Place { hub: Hub::serve(VOICES, &fixtures().join("kokoro")), ..Place::new() };
    auricle_tests::write_tiny_voice(&place.models.path().join("starter/voice-en"));
    let run = |args: &[&str]| {
        let mut command = auricle_tests::command();
        ended(command.args(args).arg("--models").arg(place.models.path()).output().unwrap())
    };
    let row = || run(&["models", "list"]).stdout.lines().find(|line| line.starts_with("voice-en")).unwrap().to_owned();
    assert!(row().contains("starter/voice-en") && row().contains(" starter "), "{}", row());
    assert!(run(&["models", "list"]).stdout.contains("auricle models pull voice-en"));
    let pulled = place.pull("voice-en");
    assert_eq!(pulled.status, Some(0), "{}", pulled.stderr);
    assert!(pulled.stdout.contains("voice-en now runs on it"), "{}", pulled.stdout);
    let mut names: Vec<_> = fs::read_dir(place.models.path().join("kokoro-82m/voices")).unwrap().collect();
    names.sort_by_key(|name| name.as_ref().unwrap().file_name());
    let names: Vec<_> = names.into_iter().map(|name| name.unwrap().file_name()).collect();
    assert_eq!(names, ["af_ann.pt", "bm_bob.pt"], "the voices that can read");
    assert!(row().contains("kokoro-82m") && row().contains("published"), "{}", row());
    let check = run(&["models", "check"]).stdout;
    assert!(check.contains("kokoro-82m: good\n  voice, 0.0 M parameters"), "{check}");
    // The starter's voices stay, behind the new ones.
    let listed = run(&["voices", "list"]).stdout;
    let at = |id: &str| listed.find(id).unwrap_or_else(|| panic!("{id}: {listed}"));
    assert!(at("af_ann") < at("bm_bob") && at("bm_bob") < at("zed"), "{listed}");
    let said = place.models.path().join("said.wav");
    let of = said.to_str().unwrap();
    let spoken = run(&["say", "--device", "cpu", "Good morning.", "-o", of]);
    assert_eq!((spoken.status, spoken.stderr.as_str()), (Some(0), ""));
    let default = fs::read(&said).unwrap();
    assert_eq!(run(&["say", "--device", "cpu", "Good morning.", "--voice", "af_ann", "-o", of]).status, Some(0));
    assert_eq!(fs::read(&said).unwrap(), default);
    assert_eq!(
        run(&["say", "--device", "cpu", "Good morning.", "--voice", "zed", "--speed", "2", "-o", of]).status,
        Some(0)
    );
    let again = place.pull(VOICES);
    assert!(again.stdout.contains("is there already"), "{} {}", again.stdout, again.stderr);
}

#[test]
fn a_recommended_size_is_pulled_with_its_reason() {
    let place = Place::of("openai/whisper-base");
    let mut command = command();
    command.args(["models", "pull", "--recommended", "--hub", &place.hub.url(), "--models"]).arg(place.models.path());
    let run = ended(command.env_remove("HF_TOKEN").output().unwrap());
    let reason = run.stderr.lines().next().unwrap();
    let size = ["base", "small", "turbo"].into_iter().find(|size| reason.starts_with(&format!("auricle: {size}: ")));
    assert!(reason.contains(" computes, ") && reason.contains("memory") && reason.contains("needs"), "{reason}");
    // The hub has the smallest alone; the machine decides.
    match size.expect(reason) {
        "base" => assert_eq!(run.status, Some(0), "{}", run.stderr),
        "small" => assert!(run.stderr.contains("has no openai/whisper-small"), "{}", run.stderr),
        _ => assert!(run.stderr.contains("has no openai/whisper-large-v3-turbo"), "{}", run.stderr),
    }
}

#[test]
fn a_size_that_does_not_exist_is_wrong_usage() {
    let place = Place::new();
    for (args, words) in [
        (
            &["svc-fast", "--size", "giant"][..],
            &["no size giant", "base (290 MB)", "small (967 MB)", "turbo (1.6 GB)"][..],
        ),
        (&["svc-best", "--size", "base"], &["svc-best comes in one size"]),
        (&["detector", "--recommended"], &["detector comes in one size"]),
        (&["svc-fast", "--size", "base", "--recommended"], &["--recommended"]),
        (&[], &["<NAME>"]),
    ] {
        let mut command = command();
        command.args(["models", "pull", "--hub", &place.hub.url(), "--models"]).arg(place.models.path()).args(args);
        let run = ended(command.output().unwrap());
        assert_eq!(run.status, Some(2), "{args:?}: {}", run.stderr);
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_cut_connection_resumes_at_its_offset() {
    let place = Place::new();
    place.hub.behave(HubFaults { cuts: cuts(300_000), times: Some(2), ..HubFaults::default() });
    let run = place.pull("svc-fast");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let asked = place.hub.asked(WEIGHTS);
    assert_eq!(asked.iter().map(|asked| asked.from).collect::<Vec<_>>(), [0, 300_000, 600_000]);
    assert_eq!(asked.iter().map(|asked| asked.sent).sum::<usize>(), Place::weights().len());
    assert_eq!(fs::read(place.folder().join(WEIGHTS)).unwrap(), Place::weights());
}

#[test]
fn a_killed_pull_resumes_and_a_running_one_is_locked() {
    let place = Place::new();
    place.hub.behave(HubFaults { cuts: cuts(400_000), slow: true, ..HubFaults::default() });
    let mut first = place.command("svc-fast").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    while fs::metadata(place.part()).map_or(0, |part| part.len()) < 400_000 {
        assert!(begin.elapsed() < Duration::from_secs(30), "nothing arrives");
        std::thread::sleep(Duration::from_millis(20));
    }
    let second = place.pull("svc-fast");
    assert_eq!(second.status, Some(1));
    assert!(second.stderr.contains("is being pulled already"), "{}", second.stderr);
    first.kill().unwrap();
    first.wait().unwrap();
    place.hub.behave(HubFaults::default());
    let run = place.pull("svc-fast");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(place.hub.asked(WEIGHTS)[0].from, 400_000);
    assert_eq!(fs::read(place.folder().join(WEIGHTS)).unwrap(), Place::weights());
}

#[test]
fn a_hub_without_ranges_starts_again() {
    let place = Place::new();
    place.hub.behave(HubFaults { cuts: cuts(500_000), times: Some(1), no_ranges: true, ..HubFaults::default() });
    let run = place.pull("svc-fast");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(place.hub.asked(WEIGHTS).iter().map(|asked| asked.from).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(fs::read(place.folder().join(WEIGHTS)).unwrap(), Place::weights());
}

#[test]
fn a_file_with_a_wrong_checksum_is_not_kept() {
    for (name, kind) in [(WEIGHTS, "SHA-256"), ("config.json", "git blob id")] {
        let place = Place::new();
        place.hub.behave(HubFaults { lies: vec![name.into()], ..HubFaults::default() });
        let run = place.pull("svc-fast");
        assert_eq!(run.status, Some(1), "{}", run.stdout);
        assert!(run.stderr.contains(name) && run.stderr.contains(kind), "{}", run.stderr);
        assert!(!place.folder().exists() && !place.part().exists());
        place.hub.behave(HubFaults::default());
        assert_eq!(place.pull("svc-fast").status, Some(0));
    }
}

#[test]
fn a_checkpoint_that_does_not_load_replaces_nothing() {
    let broken = tempfile::tempdir().unwrap();
    for name in ["config.json", "generation_config.json", "tokenizer.json"] {
        fs::copy(fixtures().join("whisper/multi").join(name), broken.path().join(name)).unwrap();
    }
    fs::copy(fixtures().join("whisper/english").join(WEIGHTS), broken.path().join(WEIGHTS)).unwrap();
    let place = Place::with(broken.path());
    let run = place.pull("svc-fast");
    assert_eq!(run.status, Some(1), "{}", run.stdout);
    assert!(
        run.stderr.contains("embed") || run.stderr.contains("shape") || run.stderr.contains("conv"),
        "{}",
        run.stderr
    );
    assert!(!place.folder().exists());
}

#[test]
fn a_folder_that_is_not_a_checkpoint_stays() {
    let place = Place::new();
    let mine = place.folder().join("mine.txt");
    fs::create_dir(place.folder()).unwrap();
    fs::write(&mine, "notes").unwrap();
    let run = place.pull("svc-fast");
    assert_eq!(run.status, Some(2), "{}", run.stdout);
    assert!(run.stderr.contains("whisper-large-v3-turbo is there"), "{}", run.stderr);
    assert_eq!(fs::read_to_string(&mine).unwrap(), "notes");
    fs::remove_file(&mine).unwrap();
    assert_eq!(place.pull("svc-fast").status, Some(0), "an empty one is no matter");
}

#[test]
fn refusals_of_the_hub_are_clear_errors() {
    let place = Place::new();
    let says = |name: &str, status: i32, words: &[&str]| {
        let run = place.pull(name);
        assert_eq!(run.status, Some(status), "{}", run.stderr);
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{words:?}: {}", run.stderr);
    };
    says("openai/whisper-of-nowhere", 1, &["has no openai/whisper-of-nowhere"]);
    says(
        "svc-slow",
        2,
        &["svc-slow is no service model", "svc-fast", "none of chat, voice-en, detector, diarizer, turn"],
    );
    says("../secrets", 2, &["no OWNER/NAME"]);
    place.hub.behave(HubFaults { token: Some("hf_secret".into()), ..HubFaults::default() });
    says("svc-fast", 1, &["HF_TOKEN", REPOSITORY]);
    let run = ended(place.command("svc-fast").env("HF_TOKEN", "hf_secret").output().unwrap());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let nowhere = Place::new();
    nowhere.hub.behave(HubFaults { status: Some(503), ..HubFaults::default() });
    let run = nowhere.pull("svc-fast");
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.contains("503") && run.stderr.contains("goes on from here"), "{}", run.stderr);
}
