//! `auricle` and `auricle transcribe`: arguments, files, standard streams, exit status.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use auricle_tests::{auricle, binary, command, command_of, ended, fixtures, models_with, speech};
use serde_json::Value;

use super::place::{Place, json, messages};

/// Seconds of the speech sample.
const SPEECH_S: f64 = 11.0;

#[test]
fn shells_and_man_get_the_commands_and_their_options() {
    for shell in ["bash", "zsh", "fish"] {
        let run = auricle(["completions", shell]);
        assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
        for word in ["transcribe", "keys", "revoke", "look-ahead"] {
            assert!(run.stdout.contains(word), "{shell} lacks {word}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let run = auricle(["man", folder.path().to_str().unwrap()]);
    assert_eq!((run.status, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "", ""));
    let page = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(page("auricle.1").contains("auricle\\-transcribe(1)"));
    assert!(page("auricle-transcribe.1").contains("keyterm"));
    assert!(page("auricle-keys-revoke.1").contains(".TH"));

    let file = folder.path().join("auricle.1");
    let run = auricle(["man", file.to_str().unwrap()]);
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.contains("cannot write pages into"), "{}", run.stderr);
}

#[test]
fn help_names_the_commands_and_every_option_of_transcribe() {
    let run = auricle(["--help"]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    for word in ["transcribe", "devices", "models", "bench", "Examples:", "AURICLE_MODELS"] {
        assert!(run.stdout.contains(word), "{word}: {}", run.stdout);
    }
    let run = auricle(["transcribe", "--help"]);
    assert_eq!(run.status, Some(0));
    for option in [
        "--model",
        "--language",
        "--format",
        "--out",
        "--device",
        "--models",
        "--keyterm",
        "--format-numbers",
        "--look-ahead",
        "--lm",
        "--lm-weight",
        "--recursive",
        "--pull",
        "--skip-existing",
    ] {
        assert!(run.stdout.contains(option), "{option}: {}", run.stdout);
    }
}

#[test]
fn version_is_one_line() {
    let run = auricle(["--version"]);
    assert_eq!(run.status, Some(0));
    assert_eq!(run.stdout, format!("auricle {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn numbers_are_in_digits_unless_the_arguments_decline_them() {
    let place = Place { models: models_with("../../../models/starter/asr-en"), ..Place::new() };
    let sound = fixtures().join("alignment/7312-92432-0003.opus");
    let text = |args: &[&str]| {
        let run = place.transcribe(args, &[&sound]);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        run.stdout
    };
    let spoken = text(&["--format-numbers", "false"]);
    assert!(spoken.contains("thirteen thousand"), "{spoken}");
    assert_eq!(text(&[]), spoken.replace("thirteen thousand", "13,000"));
    assert_eq!(text(&["--format-numbers=true"]), text(&[]));
    let run = place.transcribe(&["--format-numbers", "no"], &[&sound]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("--format-numbers") && run.stderr.contains("true, false"), "{}", run.stderr);
}

/// A checkpoint that knows its sentence well says it with the weights of its decoder in 8 and in 4 bits too.
#[test]
fn every_precision_transcribes() {
    let place = Place { models: models_with("../whisper/taught"), ..Place::new() };
    let sound = fixtures().join("whisper/taught/sounds/english.flac");
    let [full, eight, four] = ["full", "int8", "int4"].map(|precision| {
        let run = place.transcribe(&["--precision", precision, "--language", "en"], &[&sound]);
        assert_eq!(run.status, Some(0), "{precision}: {}", run.stderr);
        run.stdout
    });
    assert!(full.split_whitespace().count() > 3, "{full}");
    assert_eq!([&eight, &four], [&full, &full]);
}

#[test]
fn wrong_usage_is_status_2_and_says_what_is_wrong() {
    let cases: [(&[&str], &str); 8] = [
        (&["keys"], "Usage: auricle keys"),
        (&["transcribble"], "transcribble"),
        (&["transcribe"], "<FILE>"),
        (&["transcribe", "--loud", "a.wav"], "--loud"),
        (&["transcribe", "--format", "doc", "a.wav"], "doc"),
        (&["transcribe", "--device", "abacus", "a.wav"], "abacus"),
        (&["transcribe", "--look-ahead", "soon", "a.wav"], "soon"),
        (&["transcribe", "--precision", "quarter", "a.wav"], "full, half, int8 or int4"),
    ];
    for (args, hint) in cases {
        let run = auricle(args);
        assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert!(run.stderr.contains(hint), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn an_unknown_model_or_language_is_wrong_usage_that_names_what_there_is() {
    let place = Place::new();
    let run = place.transcribe(&["--model", "svc-worst"], &[&speech()]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(messages(&run)[0].contains("svc-worst") && run.stderr.contains("svc-best"), "{}", run.stderr);
    for option in ["--language", "--languages"] {
        let run = place.transcribe(&[option, "tlh"], &[&speech()]);
        assert_eq!(run.status, Some(2), "{}", run.stderr);
        assert!(messages(&run)[0].contains("tlh"), "{}", run.stderr);
    }
}

#[test]
fn an_unreadable_file_is_one_line_with_its_name() {
    let place = Place::new();
    let (missing, folder, text) = (place.path("missing.mp3"), place.path("folder"), place.text("diary.wav"));
    fs::create_dir(&folder).unwrap();
    let empty = place.path("empty.flac");
    fs::write(&empty, "").unwrap();
    for file in [&missing, &folder, &text, &empty] {
        let run = place.transcribe(&[], &[file]);
        assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""), "{file:?}");
        let [line] = messages(&run)[..] else { panic!("{}", run.stderr) };
        assert!(line.starts_with(&format!("auricle: {}: ", file.display())), "{line}");
        assert_eq!(line.matches(&file.display().to_string()).count(), 1, "{line}");
    }
}

#[test]
fn a_bad_file_does_not_keep_the_good_ones_from_being_done() {
    let place = Place::new();
    let (good, bad) = (place.speech("good.flac"), place.text("bad.wav"));
    let run = place.transcribe(&["--format", "json"], &[&bad, &good]);
    assert_eq!(run.status, Some(1));
    assert_eq!(json(&run.stdout)["file"], good.to_str().unwrap());
    assert_eq!(messages(&run).len(), 1, "{}", run.stderr);
}

#[test]
fn json_has_every_field_and_words_within_the_audio() {
    let place = Place::new();
    let run = place.transcribe(&["--format", "json"], &[&speech()]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    assert_eq!(run.stdout.lines().count(), 1);
    check_document(&json(&run.stdout));
}

/// Asserts that the document of the speech sample is complete and consistent.
fn check_document(document: &Value) {
    let mut keys: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let expected = ["audio_duration_sec", "confidence", "file", "language_code", "model", "text", "warnings", "words"];
    assert_eq!(keys, expected);
    assert_eq!((&document["model"], &document["language_code"]), (&"svc-best".into(), &"en".into()));
    assert_eq!(document["warnings"], serde_json::json!([]));
    let seconds = document["audio_duration_sec"].as_f64().unwrap();
    assert!((seconds - SPEECH_S).abs() < 0.05, "{seconds}");
    let words = document["words"].as_array().unwrap();
    assert!(!words.is_empty());
    let texts: Vec<&str> = words.iter().map(|word| word["text"].as_str().unwrap()).collect();
    assert_eq!(document["text"], texts.join(" "));
    let mut before = 0;
    for word in words {
        let (start, end) = (word["start"].as_u64().unwrap(), word["end"].as_u64().unwrap());
        assert!(before <= start && start <= end && end as f64 <= seconds * 1e3, "{word}");
        assert!((0.0..=1.0).contains(&word["confidence"].as_f64().unwrap()), "{word}");
        before = start;
    }
    let confidences = words.iter().map(|word| word["confidence"].as_f64().unwrap());
    let mean = confidences.sum::<f64>() / words.len() as f64;
    assert!((document["confidence"].as_f64().unwrap() - mean).abs() < 1e-3, "{mean}");
}

#[test]
fn all_formats_hold_the_same_words() {
    let place = Place::new();
    let run = |format| place.transcribe(&["--format", format], &[&speech()]).stdout;
    let text = json(&run("json"))["text"].as_str().unwrap().to_owned();
    assert_eq!(run("text"), format!("{text}\n"));
    assert_eq!(cues(&run("srt"), ',').join(" "), text);
    let vtt = run("vtt");
    let body = vtt.strip_prefix("WEBVTT\n\n").expect("the header and a blank line");
    let unescaped = cues(body, '.').join(" ").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    assert_eq!(unescaped, text);
}

/// The captions of a subtitle file whose times are checked: in order, apart, at most 7 s each.
fn cues(body: &str, mark: char) -> Vec<String> {
    let mut before = 0;
    let blocks = body.trim_end().split("\n\n").enumerate();
    let texts = blocks.map(|(index, block)| {
        let mut lines = block.lines();
        if mark == ',' {
            assert_eq!(lines.next(), Some((index + 1).to_string().as_str()), "{block}");
        }
        let (start, end) = lines.next().and_then(|times| times.split_once(" --> ")).expect("a line of times");
        let (start, end) = (milliseconds(start, mark), milliseconds(end, mark));
        assert!(before <= start && start < end && end - start <= 7_000, "{block}");
        assert!(end as f64 <= SPEECH_S * 1e3 + 50.0, "{block}");
        before = end;
        let lines: Vec<&str> = lines.collect();
        assert!((1..=2).contains(&lines.len()), "{block}");
        lines.join(" ")
    });
    texts.collect()
}

/// `01:02:03,004`.
fn milliseconds(time: &str, mark: char) -> u64 {
    let numbers: Vec<u64> = time.split([':', mark]).map(|number| number.parse().unwrap()).collect();
    let [hours, minutes, seconds, rest] = numbers[..] else { panic!("{time}") };
    assert_eq!(time.len(), "00:00:00,000".len());
    ((hours * 60 + minutes) * 60 + seconds) * 1_000 + rest
}

#[test]
fn several_files_get_a_heading_each_as_text_and_a_line_each_as_json() {
    let place = Place::new();
    let (one, two) = (place.speech("one.flac"), place.speech("two.flac"));
    let run = place.transcribe(&[], &[&one, &two]);
    assert!(run.stdout.starts_with("==> ") && run.stdout.contains("\n\n==> "), "{}", run.stdout);
    let headings: Vec<&str> = run.stdout.lines().filter(|line| line.starts_with("==> ")).collect();
    assert_eq!(headings, [format!("==> {} <==", one.display()), format!("==> {} <==", two.display())]);
    let run = place.transcribe(&["--format", "json"], &[&one, &two]);
    let files: Vec<Value> = run.stdout.lines().map(|line| json(line)["file"].clone()).collect();
    assert_eq!(files, [one.to_str().unwrap(), two.to_str().unwrap()]);
}

#[test]
fn out_writes_a_file_for_each_and_says_where() {
    let place = Place::new();
    let (one, other) = (place.speech("a/talk.flac"), place.speech("b/talk.flac"));
    let out = place.path("new/folder");
    for (format, extension) in [("text", "txt"), ("json", "json"), ("srt", "srt"), ("vtt", "vtt")] {
        let args = ["--format", format, "--out", out.to_str().unwrap()];
        let run = place.transcribe(&args, &[&one, &other]);
        assert_eq!((run.status, run.stdout.as_str()), (Some(0), ""), "{}", run.stderr);
        // Two inputs of one stem: the second must not replace the first.
        for (line, name) in messages(&run).iter().zip(["talk", "talk-2"]) {
            let path = out.join(name).with_extension(extension);
            assert!(line.contains(path.to_str().unwrap()), "{line}");
            assert!(!fs::read_to_string(path).unwrap().is_empty());
        }
        assert_eq!(messages(&run).len(), 2);
    }
    let [first, second] = ["talk.json", "talk-2.json"].map(|name| json(&fs::read_to_string(out.join(name)).unwrap()));
    assert_eq!((&first["file"], &second["file"]), (&one.to_str().into(), &other.to_str().into()));
}

#[test]
fn out_under_a_file_is_one_clear_line() {
    let place = Place::new();
    let file = place.text("file");
    let run = place.transcribe(&["--out", file.to_str().unwrap()], &[&speech()]);
    assert_eq!((run.status, messages(&run).len()), (Some(1), 1), "{}", run.stderr);
    assert!(run.stderr.contains(file.to_str().unwrap()), "{}", run.stderr);
}

#[test]
fn a_dash_reads_a_file_from_standard_input() {
    let place = Place::new();
    let mut piped = place.command(&["--format", "json"], &[Path::new("-")]);
    let run = ended(piped.stdin(fs::File::open(speech()).unwrap()).output().unwrap());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let (from_pipe, from_file) = (json(&run.stdout), place.transcribe(&["--format", "json"], &[&speech()]));
    assert_eq!(from_pipe["file"], "-");
    assert_eq!(from_pipe["words"], json(&from_file.stdout)["words"]);
    let run = place.transcribe(&[], &[Path::new("-"), Path::new("-")]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    let run = place.transcribe(&[], &[Path::new("-")]);
    assert_eq!((run.status, messages(&run).len()), (Some(1), 1), "{}", run.stderr);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    let files = vec![speech(); 3];
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let mut command = place.command(&["--format", "json"], &files);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_reader_that_goes_away_hides_no_failure() {
    let place = Place::new();
    let (nowhere, speech) = (PathBuf::from("nowhere.wav"), speech());
    let mut command = place.command(&["--format", "json"], &[&nowhere, &speech]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_cut_off_file_is_transcribed_with_a_warning() {
    let place = Place::new();
    let whole = fs::read(speech()).unwrap();
    let cut = place.path("cut.flac");
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let run = place.transcribe(&["--format", "json", "--quiet"], &[&cut]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let document = json(&run.stdout);
    let seconds = document["audio_duration_sec"].as_f64().unwrap();
    assert!((3.0..8.0).contains(&seconds), "{seconds}");
    let warnings = document["warnings"].as_array().unwrap();
    assert!(!warnings.is_empty());
    for (line, warning) in messages(&run).iter().zip(warnings) {
        assert_eq!(*line, format!("auricle: {}: warning: {}", cut.display(), warning.as_str().unwrap()));
    }
}

#[test]
fn keyterms_and_look_ahead_are_taken() {
    let place = Place::new();
    let args = ["--keyterm", "americans", "--keyterm", "fellow", "--look-ahead", "560", "--format", "json"];
    let run = place.transcribe(&args, &[&speech()]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(json(&run.stdout)["words"].as_array().is_some_and(|words| !words.is_empty()));
    let run = place.transcribe(&["--look-ahead", "1"], &[&speech()]);
    assert_eq!((run.status, messages(&run).len()), (Some(2), 1), "{}", run.stderr);
}

#[test]
fn a_models_folder_that_is_none_is_one_clear_line() {
    let place = Place::new();
    let empty = place.path("empty");
    fs::create_dir(&empty).unwrap();
    let mut command = command();
    command.arg("transcribe").arg(speech()).env("AURICLE_MODELS", &empty);
    let run = ended(command.output().unwrap());
    assert_eq!((run.status, messages(&run).len()), (Some(1), 1), "{}", run.stderr);
    assert!(run.stderr.contains(empty.to_str().unwrap()) && run.stderr.contains("--models"), "{}", run.stderr);
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_with_status_130() {
    use std::io::Write as _;

    let place = Place::new();
    let mut command = place.command(&[], &[Path::new("-")]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // More than a pipe holds: once it is written, the program reads, and listens for signals since before that. Its
    // standard input stays open, so it would wait for more.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&vec![0; 1 << 20]).unwrap();
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn devices_lists_the_cpu_and_marks_the_one_that_auto_takes() {
    let run = auricle(["devices"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let stars = run.stdout.lines().filter(|line| line.starts_with('*')).count();
    assert_eq!(stars, 1, "{}", run.stdout);
    let run = auricle(["devices", "--json"]);
    let ids: Vec<Value> = run.stdout.lines().map(|line| json(line)["id"].clone()).collect();
    assert_eq!(ids.first(), Some(&"cpu".into()), "{}", run.stdout);
}

#[test]
fn models_list_names_the_checkpoint_of_each_model() {
    let place = Place::new();
    let run = auricle(["models", "list", "--models", place.models.path().to_str().unwrap()]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    for word in ["svc-best", "prerecorded", "starter", "somebody/something"] {
        assert!(run.stdout.contains(word), "{word}: {}", run.stdout);
    }
    // The catalog of the repository itself is found by itself.
    let run = auricle(["models", "list"]);
    assert!(run.stdout.contains("svc-realtime-pro"), "{}{}", run.stdout, run.stderr);
    assert!(!run.stdout.contains("stand-in") && run.stdout.lines().all(|line| line.len() < 140), "{}", run.stdout);
    let heading = run.stdout.lines().nth(2).unwrap().to_owned();
    for column in ["size", "word error rate", "languages"] {
        assert!(heading.contains(column), "{heading}");
    }
    let row = |list: &str| list.lines().find(|line| line.starts_with("svc-best")).unwrap().to_owned();
    assert!(row(&run.stdout).contains(" MB  ") && row(&run.stdout).contains(" %  "), "{}", run.stdout);
    let codes = auricle(["models", "list", "--languages"]).stdout;
    assert!(row(&codes).contains(" en ") || row(&codes).contains("en de"), "{codes}");
    let objects: Vec<Value> = auricle(["models", "list", "--json"]).stdout.lines().map(json).collect();
    let best = objects.iter().find(|object| object["model"] == "svc-best").unwrap();
    assert!(best["bytes"].as_u64().unwrap() > 1_000_000 && best["languages"].is_array(), "{best}");
    assert!(best["word_error_rate"]["percent"].is_f64() && best["state"] == "starter", "{best}");
}

#[test]
fn models_check_accepts_a_whole_checkpoint_and_names_what_is_wrong_with_a_broken_one() {
    let place = Place::new();
    let whole = auricle_tests::fixtures().join("fastconformer/streaming");
    let run = auricle(["models", "check", whole.to_str().unwrap()]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("good") && run.stdout.contains("parameters"), "{}", run.stdout);
    let run = auricle(["models", "check", "--models", place.models.path().to_str().unwrap()]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);

    let broken = place.path("broken");
    fs::create_dir(&broken).unwrap();
    let check = || {
        let run = auricle(["models", "check", broken.to_str().unwrap()]);
        assert_eq!((run.status, run.stdout.as_str(), messages(&run).len()), (Some(1), "", 1), "{}", run.stderr);
        assert!(run.stderr.contains(broken.to_str().unwrap()), "{}", run.stderr);
        run.stderr
    };
    assert!(check().contains("config.json"));
    for entry in fs::read_dir(&whole).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), broken.join(entry.file_name())).unwrap();
    }
    // The config names one layer more than the weights have.
    let config = fs::read_to_string(whole.join("config.json")).unwrap();
    let mut config = json(&config);
    let layers = config["encoder_config"]["num_hidden_layers"].as_u64().unwrap();
    config["encoder_config"]["num_hidden_layers"] = (layers + 1).into();
    fs::write(broken.join("config.json"), config.to_string()).unwrap();
    assert!(check().contains(&format!("layers.{layers}.")));
    // The weights are truncated.
    fs::copy(whole.join("config.json"), broken.join("config.json")).unwrap();
    let weights = fs::read(whole.join("model.safetensors")).unwrap();
    fs::write(broken.join("model.safetensors"), &weights[..weights.len() / 2]).unwrap();
    check();
}

#[test]
fn a_program_far_from_its_models_carries_its_starters() {
    let place = Place::new();
    let home = place.dir.path().join("home");
    // Above its own place it finds the models of the repository.
    let program = place.path("auricle");
    std::fs::copy(binary(), &program).unwrap();
    let transcribe = || {
        let mut command = command_of(&program);
        command.args(["transcribe", "--format", "json"]).arg(speech());
        ended(command.current_dir(place.dir.path()).env("XDG_DATA_HOME", &home).output().unwrap())
    };
    let run = transcribe();
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    check_document(&json(&run.stdout));
    // A starter that was damaged is mended; what was fetched beside it stays.
    let models = home.join("auricle/models");
    let weights = models.join("starter/asr-multi/model-00001-of-00002.gguf");
    let whole = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &whole[..whole.len() / 2]).unwrap();
    std::fs::create_dir(models.join("mine")).unwrap();
    let again = transcribe();
    assert_eq!((again.status, &again.stdout), (Some(0), &run.stdout), "{}", again.stderr);
    assert!(models.join("mine").is_dir() && std::fs::read(&weights).unwrap() == whole);
    // A folder that cannot be written is said.
    std::fs::remove_dir_all(&home).unwrap();
    std::fs::write(&home, "a file").unwrap();
    let run = transcribe();
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.lines().count() == 1 && run.stderr.contains("--models"), "{}", run.stderr);
}

#[test]
fn a_plan_for_a_card_needs_no_card() {
    let plan = |adapter: &str| auricle(["bench", "--gpu-plan", adapter]);
    let [h100, small] = ["h100", "m3 max"].map(|adapter| {
        let run = plan(adapter);
        assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""), "{adapter}");
        run.stdout
    });
    // The time of the arithmetic of a row, ms.
    let arithmetic = |plan: &str, row: &str| -> f64 {
        let line = plan.lines().find(|line| line.contains(row)).unwrap_or_else(|| panic!("{row}: {plan}"));
        let times = line.split_whitespace().collect::<Vec<_>>();
        let at = times.iter().position(|word| *word == "ms").unwrap_or_default();
        times[at - 1].parse().unwrap()
    };
    for row in
        ["Parakeet 0.6B, windows of 30 s: 32", "live streams, 0.6B, 80 ms: 240", "live streams, 0.6B, 1120 ms: 2400"]
    {
        assert!(
            h100.contains("keeps up") && arithmetic(&h100, row) * 4.0 < arithmetic(&small, row),
            "{row}: {h100}{small}"
        );
    }
    let unknown = plan("voodoo 2");
    assert_eq!(unknown.status, Some(2));
    assert!(unknown.stderr.contains("voodoo 2") && unknown.stderr.contains("h100"), "{}", unknown.stderr);
    assert_eq!(unknown.stderr.lines().count(), 1, "{}", unknown.stderr);
}
