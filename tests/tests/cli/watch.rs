//! `auricle transcribe --watch`: recordings that come, that are half written, that cannot be read, that change.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use auricle_tests::speech;

use super::place::Place;

/// A watch, which a test ends.
struct Watched {
    process: Child,
    out: PathBuf,
}

impl Watched {
    fn new(place: &Place, args: &[&str]) -> Self {
        let (inbox, out) = (place.path("inbox"), place.path("out"));
        fs::create_dir_all(&inbox).unwrap();
        let mut command = place.command(&[&["--watch", inbox.to_str().unwrap()][..], args].concat(), &[]);
        command.args(["--out", out.to_str().unwrap()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Self { process: command.spawn().unwrap(), out }
    }

    /// Waits for an output, and reads it.
    fn output(&self, name: &str) -> String {
        let path = self.out.join(name);
        until(|| path.is_file(), name);
        fs::read_to_string(path).unwrap()
    }

    /// Ends the watch by Ctrl-C and gives its messages.
    fn end(mut self) -> Vec<String> {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let mut messages = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        assert_eq!(self.process.wait().unwrap().code(), Some(130), "{messages}");
        messages.lines().map(str::to_owned).collect()
    }
}

fn until(mut is_so: impl FnMut() -> bool, what: &str) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(90), "not within 90 s: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn about<'a>(messages: &'a [String], name: &str) -> Vec<&'a String> {
    messages.iter().filter(|line| line.contains(name)).collect()
}

#[test]
fn recordings_are_transcribed_once_they_are_whole() {
    let place = Place::new();
    let inbox = place.path("inbox");
    place.speech("inbox/first.flac");
    place.speech("inbox/done.flac");
    fs::create_dir_all(place.path("out")).unwrap();
    fs::write(place.path("out/done.txt"), "edited by hand").unwrap();
    place.text("inbox/diary.mp3");
    fs::write(inbox.join("empty.flac"), "").unwrap();
    fs::write(inbox.join("notes.txt"), "no recording").unwrap();
    let expected = place.transcribe(&[], &[&speech()]).stdout;

    let watched = Watched::new(&place, &[]);
    assert_eq!(watched.output("first.txt"), expected);
    // One that is written slowly has no transcript before its end.
    let sound = fs::read(speech()).unwrap();
    let slow = inbox.join("slow.flac");
    let pieces = 6;
    for piece in 1..=pieces {
        fs::write(&slow, &sound[..sound.len() * piece / pieces]).unwrap();
        thread::sleep(Duration::from_millis(900));
        assert!(piece == pieces || !watched.out.join("slow.txt").exists(), "after {piece} of {pieces}");
    }
    assert_eq!(watched.output("slow.txt"), expected);
    // One that is moved here, below other names that are no recordings yet.
    fs::write(inbox.join("moved.flac.part"), &sound).unwrap();
    fs::rename(inbox.join("moved.flac.part"), inbox.join("moved.flac")).unwrap();
    assert_eq!(watched.output("moved.txt"), expected);

    let messages = watched.end();
    let names = ["first.flac", "slow.flac", "moved.flac"];
    assert!(names.iter().all(|name| about(&messages, name).len() == 1), "{messages:#?}");
    let [diary] = about(&messages, "diary.mp3")[..] else { panic!("{messages:#?}") };
    assert!(!diary.contains("wrote"), "{diary}");
    assert!(about(&messages, "empty.flac").is_empty() && about(&messages, "notes.txt").is_empty(), "{messages:#?}");
    assert_eq!(fs::read_to_string(place.path("out/done.txt")).unwrap(), "edited by hand");
    assert!(!place.path("out/diary.txt").exists() && !place.path("out/empty.txt").exists());
}

#[test]
fn a_recording_that_changes_is_transcribed_again() {
    let place = Place::new();
    let watched = Watched::new(&place, &["--recursive", "--format", "text,json"]);
    let half = {
        let sound = fs::read(speech()).unwrap();
        sound[..sound.len() / 2].to_vec()
    };
    // A writer that pauses for long leaves a recording that ends early, or one that cannot be read.
    let path = place.path("inbox/calls/one.flac");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, &half).unwrap();
    let early = watched.output("calls/one.txt");
    watched.output("calls/one.json");
    place.text("inbox/two.mp3");
    fs::write(place.path("inbox/one.wav"), "not in the folder of the other").unwrap();
    thread::sleep(Duration::from_secs(4));
    fs::copy(speech(), &path).unwrap();
    fs::copy(speech(), place.path("inbox/two.mp3")).unwrap();
    let expected = place.transcribe(&[], &[&speech()]).stdout;
    assert_ne!(early, expected);
    until(|| watched.output("calls/one.txt") == expected, "the later text");
    assert_eq!(watched.output("two.txt"), expected);
    // Another of its name would replace its outputs.
    let other = place.speech("inbox/calls/ONE.ogg");
    thread::sleep(Duration::from_secs(4));
    fs::remove_file(&path).unwrap();
    let messages = watched.end();
    let clash: Vec<_> = about(&messages, other.to_str().unwrap());
    assert!(clash.len() == 1 && clash[0].contains("rename it"), "{messages:#?}");
    let faults = about(&messages, "two.mp3").iter().filter(|line| !line.contains("wrote")).count();
    assert_eq!(faults, 1, "{messages:#?}");
}

#[test]
fn a_folder_that_goes_and_comes_back_is_watched_on() {
    let place = Place::new();
    let watched = Watched::new(&place, &["--progress", "json"]);
    place.speech("inbox/one.flac");
    watched.output("one.txt");
    fs::rename(place.path("inbox"), place.path("away")).unwrap();
    thread::sleep(Duration::from_secs(4));
    fs::rename(place.path("away"), place.path("inbox")).unwrap();
    place.speech("inbox/two.flac");
    watched.output("two.txt");
    let messages = watched.end();
    let failed = about(&messages, "\"failed\"");
    assert!(failed.len() == 1 && failed[0].contains("inbox"), "{messages:#?}");
    assert_eq!(about(&messages, "\"done\"").len(), 2, "{messages:#?}");
}

#[test]
fn a_watch_that_cannot_work_is_refused() {
    let place = Place::new();
    fs::create_dir(place.path("inbox")).unwrap();
    let (inbox, file) = (place.path("inbox"), place.speech("talk.flac"));
    let (inbox, file, out) = (inbox.to_str().unwrap(), file.to_str().unwrap(), place.path("out"));
    let out = out.to_str().unwrap();
    let cases: [(&[&str], &[&Path], &str); 6] = [
        (&["--watch", inbox], &[], "--out"),
        (&["--watch", inbox, "--out", "-"], &[], "--out"),
        (&["--watch", inbox, "--out", "all.txt"], &[], "it is one file"),
        (&["--watch", inbox, "--out", out], &[Path::new(file)], "cannot be used with"),
        (&["--watch", file, "--out", out], &[], "it is not a folder"),
        (&["--watch", "/nowhere", "--out", out], &[], "/nowhere"),
    ];
    for (args, files, why) in cases {
        let run = place.transcribe(args, files);
        assert!(run.status == Some(2) && run.stderr.contains(why), "{args:?}: {}", run.stderr);
    }
}
