//! `auricle transcribe --out`: files and folders, several formats, outputs that are there, a full disk.

use std::fs;
use std::path::{Path, PathBuf};

use auricle_tests::{SmallDisk, speech};

use super::place::{Place, json, messages};

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_file_has_the_format_of_its_ending() {
    let place = Place::new();
    let expected = |format: &str| place.transcribe(&["--format", format], &[&speech()]).stdout;
    for (name, args, format) in [
        ("talk.srt", &[][..], "srt"),
        ("talk.VTT", &[], "vtt"),
        ("talk.json", &["--format", "json"], "json"),
        ("notes.log", &["--format", "text"], "text"),
        ("notes.md", &[], "markdown"),
    ] {
        let path = place.path(name);
        let run = place.transcribe(&[args, &["-o", text(&path)]].concat(), &[&speech()]);
        assert_eq!((run.status, run.stdout.as_str()), (Some(0), ""), "{name}: {}", run.stderr);
        let [line] = messages(&run)[..] else { panic!("{}", run.stderr) };
        assert!(line.ends_with(&format!("wrote {}", path.display())), "{line}");
        assert_eq!(fs::read_to_string(&path).unwrap(), expected(format), "{name}");
    }
    assert_eq!(names(place.dir.path()), ["notes.log", "notes.md", "talk.VTT", "talk.json", "talk.srt"]);
    let piped = place.transcribe(&["--format", "srt", "-o", "-"], &[&speech()]);
    assert_eq!((piped.status, piped.stdout), (Some(0), expected("srt")), "{}", piped.stderr);
}

#[test]
fn an_out_that_does_not_fit_is_one_line_before_any_work() {
    let place = Place::new();
    let talk = place.speech("talk.txt");
    let sound = fs::read(&talk).unwrap();
    let speech = speech();
    let refused = |args: &[&str], files: &[&Path], status: i32, why: &str| {
        let run = place.transcribe(args, files);
        assert_eq!((run.status, run.stdout.as_str()), (Some(status), ""), "{args:?}: {}", run.stderr);
        assert!(messages(&run).len() == 1 && run.stderr.contains(why), "{args:?}: {}", run.stderr);
    };
    let at = |name: &str| text(&place.path(name)).to_owned();
    refused(&["--format", "json", "-o", &at("a.srt")], &[&speech], 2, "its ending is srt, and --format asks for json");
    refused(&["-o", &at("a.doc")], &[&speech], 2, "one of txt, json, srt, vtt");
    refused(&["-o", &at("a.srt")], &[&speech, &talk], 2, "one file for 2 inputs");
    refused(&["--format", "srt,json"], &[&speech], 2, "--out");
    refused(&["--format", "srt,json", "-o", &at("a.srt")], &[&speech], 2, "several files");
    refused(&["-o", &at("talk.txt")], &[&talk], 2, "the input itself");
    refused(&["-o", &at("none/a.srt")], &[&speech], 1, "none/a.srt");
    refused(&["-o", &at("talk.txt/")], &[&speech], 1, "talk.txt");
    if cfg!(target_os = "linux") {
        // Where not even root can make a file.
        refused(&["-o", "/proc/"], &[&speech], 1, "cannot write to /proc/");
        refused(&["-o", "/proc/talk.srt"], &[&speech], 1, "cannot write to /proc/talk.srt");
    }
    for option in [&["--max-line-width", "20"][..], &["--max-line-count", "1"], &["--highlight-words"]] {
        for format in [&[][..], &["--format", "json"], &["-o", &at("a.json")]] {
            refused(&[option, format].concat(), &[&speech], 2, &format!("{} is for subtitles", option[0]));
        }
    }
    let run = place.transcribe(&["--skip-existing"], &[&speech]);
    assert!(run.status == Some(2) && run.stderr.contains("--out"), "{}", run.stderr);
    assert_eq!(names(place.dir.path()), ["talk.txt"]);
    assert_eq!(fs::read(&talk).unwrap(), sound);
}

#[test]
fn several_formats_of_several_inputs_are_files_of_a_folder() {
    let place = Place::new();
    let (one, two) = (place.speech("a/one.flac"), place.speech("b/one.flac"));
    // A slash makes a folder of any name.
    let out = place.path("out.srt");
    let run = place.transcribe(&["--format", "srt,json,srt", "--out", &format!("{}/", out.display())], &[&one, &two]);
    assert_eq!((run.status, run.stdout.as_str(), messages(&run).len()), (Some(0), "", 4), "{}", run.stderr);
    assert_eq!(names(&out), ["one-2.json", "one-2.srt", "one.json", "one.srt"]);
    let document = json(&fs::read_to_string(out.join("one-2.json")).unwrap());
    assert_eq!(document["file"], text(&two));
    let srt = place.transcribe(&["--format", "srt"], &[&one]).stdout;
    assert_eq!(fs::read_to_string(out.join("one.srt")).unwrap(), srt);
    // It is there now, so that it is a folder without the slash, too.
    let run = place.transcribe(&["--quiet", "--out", text(&out)], &[&one]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    assert!(out.join("one.txt").is_file());
}

#[test]
fn subtitles_have_the_lines_that_are_asked_for() {
    let place = Place::new();
    let run = |args: &[&str]| place.transcribe(args, &[&speech()]);
    let spoken = |subtitles: &str| {
        let lines = subtitles.lines().filter(|line| !line.contains("-->") && line.parse::<u32>().is_err());
        lines.collect::<Vec<_>>().join(" ").split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let words = spoken(&run(&[]).stdout);
    let narrow = run(&["--format", "srt", "--max-line-width", "14", "--max-line-count", "1"]).stdout;
    assert_eq!(spoken(&narrow), words);
    for block in narrow.trim_end().split("\n\n") {
        let lines: Vec<&str> = block.lines().skip(2).collect();
        assert!(lines.len() == 1 && (lines[0].len() <= 14 || !lines[0].contains(' ')), "{block}");
    }
    for format in ["srt", "vtt"] {
        let highlighted = run(&["--format", format, "--highlight-words"]).stdout;
        let frames: Vec<&str> = highlighted.split("\n\n").filter(|block| block.contains("-->")).collect();
        let marked = frames.iter().map(|frame| {
            let (_, rest) = frame.split_once("<u>").expect("an underlined word");
            let (word, rest) = rest.split_once("</u>").expect("its end");
            assert!(!rest.contains("<u>"), "{frame}");
            word.to_owned()
        });
        assert_eq!(marked.collect::<Vec<_>>(), words, "{format}");
    }
    for (option, value) in [
        ("--max-line-width", "0"),
        ("--max-line-width", "1001"),
        ("--max-line-width", "wide"),
        ("--max-line-count", "0"),
        ("--max-line-count", "11"),
        ("--max-line-count", "1.5"),
    ] {
        let run = run(&["--format", "srt", option, value]);
        assert!(run.status == Some(2) && run.stderr.contains(option), "{option} {value}: {}", run.stderr);
    }
}

#[test]
fn outputs_that_are_there_stay_if_asked() {
    let place = Place::new();
    let (one, two) = (place.speech("one.flac"), place.speech("two.flac"));
    let out = place.path("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("one.srt"), "edited by hand").unwrap();
    let skip = |formats: &str, files: &[&Path]| {
        place.transcribe(&["--skip-existing", "--format", formats, "--out", text(&out)], files)
    };
    let run = skip("srt", &[&one, &two]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let [first, second] = messages(&run)[..] else { panic!("{}", run.stderr) };
    assert!(first.contains("one.flac: left out") && second.contains("wrote"), "{}", run.stderr);
    assert_eq!(names(&out), ["one.srt", "two.srt"]);
    // The format that is missing is made, the other one stays.
    let run = skip("srt,json", &[&one]);
    assert_eq!((run.status, messages(&run).len()), (Some(0), 1), "{}", run.stderr);
    assert_eq!(names(&out), ["one.json", "one.srt", "two.srt"]);
    assert_eq!(fs::read_to_string(out.join("one.srt")).unwrap(), "edited by hand");
    // A file that is not there any more does not matter if its output is.
    fs::remove_file(&one).unwrap();
    assert_eq!(skip("srt", &[&one]).status, Some(0));
    // Of two inputs with one name it is not known whose output is there.
    let other = place.speech("other/TWO.flac");
    let run = skip("srt", &[&two, &other]);
    assert_eq!((run.status, messages(&run).len()), (Some(2), 1), "{}", run.stderr);
    assert!(run.stderr.contains(text(&two)) && run.stderr.contains(text(&other)), "{}", run.stderr);
    // A single file, too.
    let file = out.join("one.srt");
    let run = place.transcribe(&["--skip-existing", "--quiet", "-o", text(&file)], &[&two]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    assert_eq!(fs::read_to_string(&file).unwrap(), "edited by hand");
    let run = place.transcribe(&["--quiet", "-o", text(&file)], &[&two]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_ne!(fs::read_to_string(&file).unwrap(), "edited by hand");
}

#[test]
fn a_full_disk_costs_no_earlier_result() {
    let place = Place::new();
    let mounted = place.path("disk");
    fs::create_dir(&mounted).unwrap();
    let Some(disk) = SmallDisk::mount(&mounted, 1) else { return };
    let out: PathBuf = mounted.join("talk.json");
    fs::write(&out, "the earlier result").unwrap();
    disk.fill();
    for to in [text(&out), text(&mounted)] {
        let talk = place.speech("talk.flac");
        let run = place.transcribe(&["--format", "json", "-o", to], &[&talk]);
        assert_eq!((run.status, messages(&run).len()), (Some(1), 1), "{}", run.stderr);
        assert!(run.stderr.contains(&format!("cannot write {}", out.display())), "{}", run.stderr);
        assert_eq!(fs::read_to_string(&out).unwrap(), "the earlier result");
        assert_eq!(names(&mounted), ["ballast", "talk.json"]);
    }
    disk.free();
    let run = place.transcribe(&["-o", text(&out)], &[&speech()]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(json(&fs::read_to_string(&out).unwrap())["file"], text(&speech()));
    assert_eq!(names(&mounted), ["talk.json"]);
}
