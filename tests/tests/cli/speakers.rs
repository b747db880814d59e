//! `auricle transcribe --speakers`.

use std::path::Path;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};
use auricle_tests::{Run, auricle, fixtures, models, wav};
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

#[test]
fn a_wrong_number_is_wrong_usage() {
    for (number, said) in [("0", "1 to 20"), ("21", "1 to 20"), ("talk.mp3", "a file goes before it")] {
        let run = transcribe(Path::new("talk.mp3"), &["--speakers", number]);
        assert_eq!(run.status, Some(2));
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
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
