//! `auricle transcribe --speakers`.

use std::path::Path;
use std::process::{Command, Stdio};

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_tests::{Run, auricle, binary, fixtures, models, models_with_diarizer, skip, wav, with_config};
use serde_json::Value;

/// A man reads, then a woman.
fn two_readers(folder: &Path) -> std::path::PathBuf {
    let read = |name: &str| {
        let path = fixtures().join("alignment").join(name);
        AudioStream::open(path).unwrap().read_to_end().unwrap()
    };
    let samples = [read("669-129074-0012.opus"), vec![0.0; 8000], read("7312-92432-0003.opus")].concat();
    let data: Vec<u8> = samples.iter().flat_map(|s| ((s * 32_767.0) as i16).to_le_bytes()).collect();
    let path = folder.join("two.wav");
    std::fs::write(&path, wav(SAMPLE_RATE, 16, &data)).unwrap();
    path
}

fn transcribe(file: &Path, args: &[&str]) -> Run {
    let models = models();
    let fixed = ["transcribe", "--device", "cpu", "--quiet", "--models", models.to_str().unwrap()];
    auricle(fixed.iter().copied().chain([file.to_str().unwrap()]).chain(args.iter().copied()))
}

#[test]
fn turns_are_printed_with_who_speaks() {
    let folder = tempfile::tempdir().unwrap();
    let file = two_readers(folder.path());
    let run = transcribe(&file, &["--speakers"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[0].starts_with("A: ") && lines.iter().any(|line| line.starts_with("B: ")), "{lines:?}");
    let run = transcribe(&file, &["--speakers", "--format", "json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(document["utterances"].as_array().unwrap().len(), lines.len());
    assert_eq!(document["words"][0]["speaker"], "A");
    let run = transcribe(&file, &["--speakers", "2", "--format", "srt"]);
    assert!(run.stdout.contains("\nA: ") && run.stdout.contains("\nB: "), "{}", run.stdout);
    let run = transcribe(&file, &["--format", "json"]);
    assert!(!run.stdout.contains("speaker") && !run.stdout.contains("utterances"), "{}", run.stdout);
}

/// The terminal is that of `script` of util-linux.
#[cfg(target_os = "linux")]
#[test]
fn speakers_have_colours_on_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let [program, models] = [binary().to_owned(), models()].map(|path| format!("'{}'", path.display()));
    let file = two_readers(folder.path());
    let line = format!("{program} transcribe --device cpu --quiet --models {models} '{}' --speakers", file.display());
    let shown = |name: &str, value: &str| {
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).stdin(Stdio::null());
        script.env_remove("NO_COLOR").env(name, value).output()
    };
    let Ok(coloured) = shown("TERM", "xterm") else {
        return skip("script not found (Debian: apt-get install bsdutils)");
    };
    let coloured = String::from_utf8(coloured.stdout).unwrap();
    assert!(coloured.starts_with("\x1b[1;36mA\x1b[0m: ") && coloured.contains("\x1b[1;33mB\x1b[0m: "), "{coloured:?}");
    let plain = String::from_utf8(shown("NO_COLOR", "1").unwrap().stdout).unwrap();
    assert!(plain.starts_with("A: ") && plain.contains("\nB: ") && !plain.contains('\x1b'), "{plain:?}");
}

#[test]
fn a_wrong_number_is_wrong_usage() {
    for (number, said) in [("0", "1 to 20"), ("21", "1 to 20"), ("talk.mp3", "a file goes before it")] {
        let run = transcribe(Path::new("talk.mp3"), &["--speakers", number]);
        assert_eq!(run.status, Some(2));
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
}

#[test]
fn a_speaker_checkpoint_of_another_shape_is_one_clear_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = two_readers(folder.path());
    let wider = with_config(&models().join("starter/voice"), |config| config["channels"] = 512.into());
    let models = models_with_diarizer(wider.path());
    let said = |args: &[&str]| {
        let fixed = ["transcribe", "--device", "cpu", "--quiet", "--models", models.path().to_str().unwrap()];
        auricle(fixed.into_iter().chain([file.to_str().unwrap()]).chain(args.iter().copied()))
    };
    let run = said(&["--speakers"]);
    assert_eq!((run.status, run.stderr.lines().count()), (Some(1), 1), "{}", run.stderr);
    assert!(run.stderr.contains("front.weight") && run.stderr.contains("[512, 80, 5]"), "{}", run.stderr);
    assert!(run.stdout.is_empty(), "{}", run.stdout);
    // Recognition alone does not need it.
    assert_eq!(said(&[]).status, Some(0));
}

#[test]
fn channels_are_speakers() {
    let folder = tempfile::tempdir().unwrap();
    let file = two_readers(folder.path());
    let run = transcribe(&file, &["--channels"]);
    assert!(run.status == Some(0) && run.stdout.starts_with("A: "), "{} {}", run.stdout, run.stderr);
    let run = transcribe(&file, &["--channels", "--format", "json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&document["words"][0]["channel"], &document["words"][0]["speaker"]), (&1.into(), &"A".into()));
    let run = transcribe(Path::new("-"), &["--channels"]);
    assert!(run.status == Some(2) && run.stderr.contains("--channels"), "{}", run.stderr);
    assert_eq!(transcribe(&file, &["--channels", "--speakers"]).status, Some(2));
}
