//! `auricle speakers`, and `auricle transcribe --speakers --identify`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use auricle_engine::audio::SAMPLE_RATE;
use auricle_tests::{Run, command, ended, fixtures, models, models_with, pcm, readers, silence, wav};
use serde_json::Value;

/// A folder with a clip of the woman, and a conversation of the man and her of which nothing is in the clip.
fn recordings() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let [man, woman] = readers();
    let (clip, rest) = woman.split_at(woman.len() / 2);
    let write = |name: &str, samples: Vec<f32>| {
        let path = folder.path().join(name);
        std::fs::write(&path, wav(SAMPLE_RATE, 16, &pcm(samples))).unwrap();
        path
    };
    let talk = [&man[man.len() / 2..], &[0.0; 8000], rest].concat();
    let (clip, talk) = (write("clip.wav", clip.to_vec()), write("talk.wav", talk));
    (folder, clip, talk)
}

/// Runs the program on the data folder `data` beside the recordings.
fn run(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = command();
    command.env("AURICLE_DATA", folder.join("data")).env("AURICLE_MODELS", models());
    command.envs(variables.iter().copied()).args(args).stdin(Stdio::null());
    ended(command.output().unwrap())
}

#[test]
fn people_who_are_known_are_named() {
    let (folder, clip, talk) = recordings();
    let (clip, talk) = (clip.to_str().unwrap(), talk.to_str().unwrap());
    let auricle = |args: &[&str]| run(folder.path(), args, &[]);
    let transcribe = |more: &[&str]| auricle(&[&["transcribe", "--device", "cpu", "-q", talk][..], more].concat());
    let none = transcribe(&["--speakers", "--identify"]);
    assert!(none.status == Some(1) && none.stderr.contains("there is no service"), "{}", none.stderr);

    let added = auricle(&["speakers", "add", "Ada Lovelace", clip, "--device", "cpu"]);
    assert_eq!(added.status, Some(0), "{}", added.stderr);
    let id = added.stdout.trim();
    assert!(id.starts_with("spk_"), "{id}");
    let again = auricle(&["speakers", "add", "ada lovelace", clip, "--device", "cpu"]);
    assert!(again.status == Some(1) && again.stderr.contains("known already"), "{}", again.stderr);
    let list = auricle(&["speakers", "list"]);
    assert_eq!(auricle(&["speakers"]).stdout, list.stdout);
    let person: Value = serde_json::from_str(&auricle(&["speakers", "--json"]).stdout).unwrap();
    assert_eq!((&person["id"], &person["name"], &person["usable"]), (&id.into(), &"Ada Lovelace".into(), &true.into()));
    assert!(
        list.stdout.contains(id) && list.stdout.contains("Ada Lovelace") && list.stdout.contains("  yes"),
        "{}",
        list.stdout
    );

    let text = transcribe(&["--speakers", "--identify"]);
    assert_eq!(text.status, Some(0), "{}", text.stderr);
    assert!(text.stdout.starts_with("A: ") && text.stdout.contains("\nAda Lovelace: "), "{}", text.stdout);
    let json = transcribe(&["--speakers", "--identify", "--format", "json"]);
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    let last = document["words"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["speaker"], &last["speaker_name"]), (&"B".into(), &"Ada Lovelace".into()));
    assert!(document["words"][0].get("speaker_name").is_none(), "{document}");
    let srt = transcribe(&["--speakers", "--identify", "--format", "srt"]);
    assert!(srt.stdout.contains("\nAda Lovelace: "), "{}", srt.stdout);
    for more in [&["--speakers"][..], &["--speakers", "--identify", "--pii"]] {
        let run = transcribe(&[more, &["--format", "json"]].concat());
        assert!(run.status == Some(0) && !run.stdout.contains("Ada"), "{} {}", run.stdout, run.stderr);
    }

    let removed = auricle(&["speakers", "remove", "ADA lovelace"]);
    assert_eq!(removed.status, Some(0), "{}", removed.stderr);
    let removed = auricle(&["speakers", "remove", id]);
    assert!(removed.status == Some(1) && removed.stderr.contains("speakers list"), "{}", removed.stderr);
    let nobody = transcribe(&["--speakers", "--identify"]);
    assert!(nobody.status == Some(1) && nobody.stderr.contains("nobody can be named"), "{}", nobody.stderr);
}

#[test]
fn a_profile_of_another_model_or_key_is_not_usable() {
    let (folder, clip, talk) = recordings();
    let key = ("AURICLE_SPEAKER_KEY", "a key that is not in the database");
    let added = run(folder.path(), &["speakers", "add", "Ada", clip.to_str().unwrap(), "--device", "cpu"], &[key]);
    assert_eq!(added.status, Some(0), "{}", added.stderr);
    assert!(run(folder.path(), &["speakers", "list"], &[key]).stdout.contains("  yes"));
    // A models folder whose speaker embedding has other weights.
    let other = models_with("streaming");
    let catalog = other.path().join("catalog.toml");
    let entry = format!(
        "[diarizer]\npublished = \"somebody/something\"\nfolder = \"none\"\nstarter = {:?}\n",
        fixtures().join("voice")
    );
    std::fs::write(&catalog, std::fs::read_to_string(&catalog).unwrap() + &entry).unwrap();
    let model = ("AURICLE_MODELS", other.path().to_str().unwrap());
    for variables in [&[][..], &[key, model]] {
        let list = run(folder.path(), &["speakers", "list"], variables);
        assert!(list.stdout.contains("Ada") && list.stdout.contains("no: made by another model"), "{}", list.stdout);
    }
    let args = ["transcribe", "--device", "cpu", "-q", talk.to_str().unwrap(), "--speakers", "--identify"];
    let nobody = run(folder.path(), &args, &[]);
    assert!(nobody.status == Some(1) && nobody.stderr.contains("nobody can be named"), "{}", nobody.stderr);
}

#[test]
fn wrong_use_is_said() {
    let (folder, clip, talk) = recordings();
    let auricle = |args: &[&str]| run(folder.path(), args, &[]);
    let alone = auricle(&["transcribe", talk.to_str().unwrap(), "--identify"]);
    assert!(alone.status == Some(2) && alone.stderr.contains("--speakers"), "{}", alone.stderr);
    for name in ["", "Ada\nLovelace", &"x".repeat(101)] {
        let run = auricle(&["speakers", "add", name, clip.to_str().unwrap()]);
        assert!(run.status == Some(2) && run.stderr.contains("1 to 100"), "{}", run.stderr);
    }
    let quiet = folder.path().join("quiet.wav");
    std::fs::write(&quiet, silence(9.0)).unwrap();
    for (file, said) in [(quiet, "0.0 s of speech"), (folder.path().join("none.wav"), "no such file")] {
        let run = auricle(&["speakers", "add", "Ada", file.to_str().unwrap(), "--device", "cpu"]);
        assert!(run.status == Some(1) && run.stderr.contains(said), "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
    let list = auricle(&["speakers", "list"]);
    assert!(list.status == Some(1) && list.stderr.contains("there is no service"), "{}", list.stderr);
}
