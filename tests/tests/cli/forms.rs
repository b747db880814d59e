//! Checkpoints by their paths: `auricle models check PATH`, `auricle transcribe --model PATH`, and the models folder with a file of
//! whisper.cpp in it. The weights are random, so that texts mean nothing; they are the same in each form.

use std::fs;
use std::path::{Path, PathBuf};

use auricle_tests::{Run, command, ended, fixtures, speech, tiny_models};
use serde_json::Value;

fn form(name: &str) -> PathBuf {
    fixtures().join("whisper_forms").join(name)
}

fn run(models: &Path, command_line: &[&str], path: &Path) -> Run {
    ended(command().args(command_line).arg(path).env("AURICLE_MODELS", models).output().unwrap())
}

/// The transcript of the speech sample that a checkpoint writes.
fn transcript(models: &Path, checkpoint: &Path) -> Value {
    let checkpoint = checkpoint.to_str().unwrap();
    let options =
        ["transcribe", "--quiet", "--device", "cpu", "--format", "json", "--language", "en", "--model", checkpoint];
    let run = run(models, &options, &speech());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn models_check_accounts_for_every_form() {
    let models = tiny_models();
    let check = |path: &Path| run(models.path(), &["models", "check"], path);
    for (name, read_from) in [
        ("ggml-mixed.bin", "read from whisper.cpp, F16 and F32 and Q4_0 and Q4_1 and Q5_0 and Q5_1 and Q8_0"),
        ("ct2-int8", "read from CTranslate2, F16 and I8"),
        ("published", "read from safetensors, F16"),
    ] {
        let run = check(&form(name));
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        assert!(
            run.stdout.contains("WhisperForConditionalGeneration") && run.stdout.contains(read_from),
            "{}",
            run.stdout
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("ggml-cut.bin");
    let bytes = fs::read(form("ggml-f16.bin")).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
    let run = check(&cut);
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""));
    assert!(run.stderr.contains("ggml-cut.bin") && run.stderr.contains("truncated"), "{}", run.stderr);
}

#[test]
fn a_path_names_the_model_of_a_transcription() {
    let models = tiny_models();
    let text = |name: &str| {
        let transcript = transcript(models.path(), &form(name));
        assert_eq!(transcript["model"], name);
        transcript["text"].as_str().unwrap().to_owned()
    };
    let published = text("published");
    assert!(!published.is_empty());
    assert_eq!([text("ggml-f16.bin"), text("ct2-f16")], [published.clone(), published]);
    let missing = run(models.path(), &["transcribe", "--device", "cpu", "--model", "ggml-none.bin"], &speech());
    assert_ne!(missing.status, Some(0));
    assert!(missing.stderr.contains("unknown model ggml-none.bin"), "{}", missing.stderr);
    let missing = run(models.path(), &["transcribe", "--device", "cpu", "--model", "./ggml-none.bin"], &speech());
    assert_ne!(missing.status, Some(0));
    assert!(missing.stderr.contains("./ggml-none.bin: no such file or folder"), "{}", missing.stderr);
}

#[test]
fn models_list_names_the_forms() {
    let models = tiny_models();
    let listed = ended(command().args(["models", "list", "--models"]).arg(models.path()).output().unwrap());
    for form in ["model.gguf", "ggml-*.bin", "CTranslate2", "auricle transcribe --model PATH"] {
        assert!(listed.stdout.contains(form), "{form}: {}", listed.stdout);
    }
}
