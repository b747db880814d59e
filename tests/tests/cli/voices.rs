//! `auricle voices add` and `rm`: the model that speaks has random weights, the one that tells people apart is a starter.

use std::fs;
use std::path::{Path, PathBuf};

use auricle_engine::audio::SAMPLE_RATE;
use auricle_tests::{
    Run, auricle, models_with_diarizer, pcm, readers, silence, two_readers, wav, without_tensors, write_frame_voice,
};
use tempfile::TempDir;

const CONSENT: &str = "I, the reader, agree that my voice is copied.";

/// A German voice whose model makes voices.
fn models() -> TempDir {
    let models = models_with_diarizer(Path::new("none"));
    write_frame_voice(&models.path().join("frames"));
    let catalog = models.path().join("catalog.toml");
    let entry = "\n[[voice]]\nid = \"frames\"\nstarter = \"frames\"\nlanguage = \"de\"\n";
    fs::write(&catalog, fs::read_to_string(&catalog).unwrap() + entry).unwrap();
    models
}

fn clip(models: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = models.path().join("clip.wav");
    fs::write(&path, bytes).unwrap();
    path
}

/// So many seconds of a man who reads.
fn reading(seconds: usize) -> Vec<u8> {
    let [man, _] = readers();
    wav(SAMPLE_RATE, 16, &pcm(man.into_iter().cycle().take(seconds * SAMPLE_RATE as usize)))
}

fn voices(models: &TempDir, args: &[&str]) -> Run {
    auricle([&["voices"][..], args, &["--models", models.path().to_str().unwrap()]].concat())
}

fn add(models: &TempDir, name: &str, clip: &Path, more: &[&str]) -> Run {
    let args = ["add", name, clip.to_str().unwrap(), "--device", "cpu", "--consent", CONSENT];
    voices(models, &[&args[..], more].concat())
}

fn said(models: &TempDir, voice: &str) -> Vec<u8> {
    let path = models.path().join("said.wav");
    let (models, to) = (models.path().to_str().unwrap(), path.to_str().unwrap());
    let run = auricle(["say", "--device", "cpu", "--models", models, "Guten Morgen.", "--voice", voice, "-o", to]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    fs::read(path).unwrap()
}

#[test]
fn a_clip_becomes_a_voice_that_speaks_until_it_is_removed() {
    let models = models();
    let clip = clip(&models, &reading(12));
    let run = add(&models, "ada", &clip, &["--language", "de"]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(0), "ada  de  frames\n"), "{}", run.stderr);
    assert_eq!(voices(&models, &["list"]).stdout, "ann  de  frames\nbob  de  frames\nada  de  frames\n");
    let file = models.path().join("frames/voices/ada.safetensors");
    let bytes = fs::read(&file).unwrap();
    assert!(bytes.windows(CONSENT.len()).any(|part| part == CONSENT.as_bytes()), "the consent is kept");
    assert_ne!(said(&models, "ada"), said(&models, "bob"));
    let again = add(&models, "ada", &clip, &[]);
    assert_eq!(again.status, Some(1));
    assert!(again.stderr.contains("a voice ada already"), "{}", again.stderr);
    assert_eq!(voices(&models, &["rm", "ada"]).status, Some(0));
    assert!(!file.exists());
    let gone = voices(&models, &["rm", "ada"]);
    assert!(gone.status != Some(0) && gone.stderr.contains("unknown voice"), "{}", gone.stderr);
    // Voices of the model stay.
    let own = voices(&models, &["rm", "ann"]);
    assert_eq!(own.status, Some(1));
    assert!(own.stderr.contains("ann came with its model"), "{}", own.stderr);
    assert_eq!(voices(&models, &["list"]).stdout, "ann  de  frames\nbob  de  frames\n");
}

#[test]
fn a_clip_or_a_request_that_makes_no_voice_is_refused_with_the_reason() {
    let models = models();
    let both = {
        let [man, woman] = readers();
        let half = 8 * SAMPLE_RATE as usize;
        wav(SAMPLE_RATE, 16, &pcm(man.into_iter().take(half).chain(woman.into_iter().take(half))))
    };
    for (bytes, reason) in [
        (silence(10.0), "0.0 s of speech"),
        (both, "more than one person"),
        (reading(1), "the clip has 1.0 s; 5 to 20 s"),
        (two_readers(), "longer than 20 s"),
        (wav(8_000, 16, &vec![0; 3600 * 16_000]), "longer than 20 s"),
        (b"no audio".to_vec(), "clip"),
    ] {
        let run = add(&models, "ada", &clip(&models, &bytes), &[]);
        assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
        assert!(run.stderr.contains(reason), "{}, not {reason}", run.stderr);
    }
    let clip = clip(&models, &reading(12));
    let french = add(&models, "ada", &clip, &["--language", "fr"]);
    assert!(french.status != Some(0) && french.stderr.contains("speak de, not fr"), "{}", french.stderr);
    for name in ["../ada", "a b", ""] {
        assert_eq!(add(&models, name, &clip, &[]).status, Some(2), "{name:?}");
    }
    let path = clip.to_str().unwrap();
    let silent = voices(&models, &["add", "ada", path]);
    assert_eq!(silent.status, Some(2));
    assert!(silent.stderr.contains("--consent"), "{}", silent.stderr);
    let short = voices(&models, &["add", "ada", path, "--consent", "yes"]);
    assert_eq!(short.status, Some(2));
    assert!(short.stderr.contains("10 to 1000 characters"), "{}", short.stderr);
    without_tensors(&models.path().join("frames/audio_tokenizer/model.safetensors"), "encoder.");
    let without = add(&models, "ada", &clip, &[]);
    assert!(without.status != Some(0) && without.stderr.contains("it has no encoder"), "{}", without.stderr);
    assert_eq!(voices(&models, &["list"]).stdout, "ann  de  frames\nbob  de  frames\n");
    fs::remove_dir_all(models.path().join("frames")).unwrap();
    let none = add(&models, "ada", &clip, &[]);
    assert!(none.status != Some(0) && none.stderr.contains("no model here makes voices"), "{}", none.stderr);
}
