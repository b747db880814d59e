//! `auricle chat`, and `auricle models` with language models: a tiny checkpoint with random weights, so that texts mean nothing.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use auricle_tests::hub::Hub;
use auricle_tests::{Run, auricle, command, ended, fixtures, tiny_models};
use tempfile::TempDir;

fn model() -> PathBuf {
    fixtures().join("decoder/llama_gguf/model.gguf")
}

fn chat(args: &[&str], input: Option<&str>) -> Run {
    let models = tiny_models();
    let mut command = command();
    command.args(["chat", "--device", "cpu", "--max-tokens", "12", "--models"]).arg(models.path()).args(args);
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if let Some(input) = input {
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    }
    ended(child.wait_with_output().unwrap())
}

#[test]
fn a_question_is_answered_on_standard_output() {
    let path = model();
    let one = chat(&["--model", path.to_str().unwrap(), "What", "now?"], None);
    assert_eq!((one.status, one.stderr.as_str()), (Some(0), ""));
    assert!(one.stdout.len() > 2 && one.stdout.ends_with('\n'), "{:?}", one.stdout);
    // A line of standard input is a question too; the second one is asked with the first in mind.
    let lines = chat(&["--model", path.to_str().unwrap()], Some("What now?\n\nWhat now?\n"));
    assert_eq!(lines.status, Some(0), "{}", lines.stderr);
    let (first, second) = lines.stdout.split_at(one.stdout.len());
    assert_eq!(first, one.stdout);
    assert!(!second.is_empty() && second != first, "{second:?}");
}

#[test]
fn a_transcript_is_part_of_the_conversation() {
    let dir = tempfile::tempdir().unwrap();
    // The tiny model, for a context that has room for the instructions.
    let key = b"llama.context_length";
    let mut bytes = fs::read(model()).unwrap();
    let value = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len() + 4;
    bytes[value..value + 4].copy_from_slice(&1024u32.to_le_bytes());
    let path = dir.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let ask = |file: &str| chat(&["--model", path.to_str().unwrap(), "--transcript", file, "Who?"], None);
    let text = ask(&file("talk.txt", "Ada spoke.\n"));
    assert_eq!(text.status, Some(0), "{}", text.stderr);
    // The end of the context shows that all of it is read.
    let long = ask(&file("long.txt", &"Ada spoke. ".repeat(400)));
    assert_eq!(long.status, Some(1));
    assert!(long.stderr.contains("the prompt has") && long.stderr.contains("context of 1024"), "{}", long.stderr);
    let json = ask(&file("talk.json", "{\"file\": \"talk.mp3\", \"text\": \"Ada spoke.\", \"words\": []}\n"));
    assert_eq!(json.stdout, text.stdout);
    assert_eq!(ask(&file("empty.txt", "\n")).status, Some(2));
    let missing = ask("nowhere.txt");
    assert!(missing.status == Some(1) && missing.stderr.contains("nowhere.txt"), "{}", missing.stderr);
}

/// A models folder with the shipped catalog, and a hub that has the catalog's language model, which is the tiny one.
fn place() -> (TempDir, TempDir, Hub) {
    let (models, repository) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::copy(fixtures().join("../../models/catalog.toml"), models.path().join("catalog.toml")).unwrap();
    fs::copy(model(), repository.path().join("Qwen3-0.6B-Q8_0.gguf")).unwrap();
    fs::write(repository.path().join("README.md"), "A card.\n").unwrap();
    fs::write(repository.path().join("other.gguf"), "another size").unwrap();
    let hub = Hub::serve("Qwen/Qwen3-0.6B-GGUF", repository.path());
    (models, repository, hub)
}

fn in_folder(command: &str, args: &[&str], models: &Path) -> Run {
    let args = command.split(' ').chain(args.iter().copied()).chain(["--models", models.to_str().unwrap()]);
    auricle(args.map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn a_language_model_is_pulled_checked_and_used() {
    let (models, _repository, hub) = place();
    let models = models.path();
    let before = in_folder("chat Hello", &[], models);
    assert_eq!(before.status, Some(1));
    assert!(before.stderr.contains("auricle models pull chat"), "{}", before.stderr);
    let listed = in_folder("models list", &[], models);
    assert!(
        listed.stdout.contains("language") && listed.stdout.contains("auricle models pull chat"),
        "{}",
        listed.stdout
    );

    let pulled = in_folder("models pull chat", &["--hub", &hub.url()], models);
    assert_eq!(pulled.status, Some(0), "{}", pulled.stderr);
    assert!(pulled.stdout.contains("chat now runs on it"), "{}", pulled.stdout);
    let mut names: Vec<_> =
        fs::read_dir(models.join("qwen3-0.6b")).unwrap().map(|at| at.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["Qwen3-0.6B-Q8_0.gguf", "README.md"]);
    assert!(in_folder("models pull chat", &["--hub", &hub.url()], models).stdout.contains("is there already"));

    let listed = in_folder("models list", &[], models);
    assert!(!listed.stdout.contains("auricle models pull chat"), "{}", listed.stdout);
    let checked = in_folder("models check", &[], models);
    assert_eq!(checked.status, Some(0), "{}", checked.stderr);
    assert!(
        checked.stdout.contains("LlamaForCausalLM") && checked.stdout.contains("2 layers of 256"),
        "{}",
        checked.stdout
    );
    let answer = in_folder("chat Hello --max-tokens 5 --device cpu", &[], models);
    assert_eq!((answer.status, answer.stderr.as_str()), (Some(0), ""));

    // A checkpoint that does not load is reported, by name.
    let file = models.join("qwen3-0.6b/Qwen3-0.6B-Q8_0.gguf");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 1000]).unwrap();
    let broken = in_folder("models check", &[], models);
    assert!(broken.status == Some(1) && broken.stderr.contains("truncated"), "{}", broken.stderr);
}
