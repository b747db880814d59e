//! `auricle say` and `auricle talk` with the loudspeaker and the microphone of a real sound server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use auricle_tests::{Run, SoundServer, binary, command, ended, models, skip, spoken};

/// The text that is said. The recogniser of the starter hears most of it.
const TEXT: &str = "The birch canoe slid on the smooth planks. It is easy to tell the depth of a well.";

fn sound_server() -> Option<SoundServer> {
    let server = SoundServer::start();
    if server.is_none() {
        skip("pulseaudio and pulseaudio-utils");
    }
    server
}

/// `auricle` with a sound server at this address.
fn program(address: &str, args: &[&str]) -> Command {
    let mut command = command();
    command.args(args).args(["--device", "cpu", "--models"]).arg(models()).env("PULSE_SERVER", address);
    // No other server is found.
    command.env_remove("PULSE_RUNTIME_PATH").env_remove("XDG_RUNTIME_DIR").stdin(Stdio::null());
    command
}

fn run(address: &str, args: &[&str]) -> Run {
    ended(program(address, args).output().unwrap())
}

/// Seconds of 10 ms with sound in them in a mono WAV file of 16 bits.
fn sounding_s(path: &Path, rate: usize) -> f64 {
    let file = std::fs::read(path).unwrap();
    let samples: Vec<i16> = file[44..].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    let blocks = samples.chunks(rate / 100);
    blocks.filter(|block| block.iter().any(|sample| sample.abs() > 300)).count() as f64 / 100.0
}

/// Words of a text, in lower case.
fn words_of(text: &str) -> Vec<String> {
    let word = |word: &str| word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase();
    text.split_whitespace().map(word).collect()
}

fn transcript(path: &Path) -> String {
    let heard = run("unix:/nonexistent", &["transcribe", path.to_str().unwrap(), "--quiet"]);
    assert_eq!(heard.status, Some(0), "{}", heard.stderr);
    heard.stdout
}

#[test]
fn the_loudspeaker_says_all_of_a_text() {
    let Some(server) = sound_server() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (file, heard) = (dir.path().join("said.wav"), dir.path().join("heard.wav"));
    let written = run(&server.address(), &["say", TEXT, "-o", file.to_str().unwrap()]);
    assert_eq!(written.status, Some(0), "{}", written.stderr);
    let recording = server.record(&heard);
    let said = run(&server.address(), &["say", TEXT]);
    recording.stop();
    assert_eq!((said.status, said.stderr.as_str()), (Some(0), ""));
    // The same speech, without a gap, to the end.
    let (file_s, heard_s) = (sounding_s(&file, 24_000), sounding_s(&heard, 16_000));
    assert!((heard_s / file_s - 1.0).abs() < 0.05, "{heard_s} s of {file_s} s were heard");
    let (said, words) = (words_of(TEXT), words_of(&transcript(&heard)));
    let known = said.iter().filter(|word| words.contains(word)).count();
    assert!(known * 3 >= said.len() * 2, "{words:?} of {said:?}");
}

#[test]
fn a_call_goes_through_the_microphone_and_the_loudspeaker() {
    let Some(server) = sound_server() else { return };
    let dir = tempfile::tempdir().unwrap();
    let heard = dir.path().join("heard.wav");
    let recording = server.record(&heard);
    let mut command = program(&server.address(), &["talk", "--greeting", "Good morning."]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut until = |begin: &str| {
        let found = lines.find(|line| line.starts_with(begin));
        found.unwrap_or_else(|| panic!("no line begins with {begin:?}"))
    };
    until("agent  Good morning.");
    // The last part of the recording: one turn.
    let samples: Vec<i16> = spoken(16_000).chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    server.speak(&samples[8 * 16_000..]);
    let you = until("you    ");
    assert!(you.to_lowercase().contains("you "), "{you}");
    until("error  ");
    let reply = until("agent  I have no language model");
    assert!(reply.ends_with("s)"), "{reply}");
    // The line comes with the words; their sound takes some seconds more.
    let sounds = || sounding_s(&heard, 16_000);
    auricle_tests::eventually("greeting and reply sound", || (sounds() > 2.0).then_some(()));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    recording.stop();
}

#[test]
fn on_a_terminal_the_microphone_is_transcribed() {
    let Some(server) = sound_server() else { return };
    // `script` runs its command on a terminal, and gives it what comes on standard input: at the end Ctrl-C.
    let listen = format!("{} listen --device cpu --models {}", binary().display(), models().display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--flush", "--command", &listen, "/dev/null"]);
    command.env("PULSE_SERVER", server.address()).env("TERM", "xterm");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let (screen, mut stdout) = (Arc::new(Mutex::new(Vec::new())), child.stdout.take().unwrap());
    let seen = screen.clone();
    let reading = thread::spawn(move || {
        let mut bytes = [0; 4_096];
        while let Ok(read @ 1..) = stdout.read(&mut bytes) {
            seen.lock().unwrap().extend_from_slice(&bytes[..read]);
        }
    });
    let shows = |text: &str| String::from_utf8_lossy(&screen.lock().unwrap()).to_lowercase().contains(text);
    // The line about the checkpoint comes before the session. What is said before it begins is not heard.
    auricle_tests::eventually("the model's line", || shows("words wrong").then_some(()));
    let samples: Vec<i16> = spoken(16_000).chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    let said = (0..4).any(|_| {
        server.speak(&samples);
        shows("you ")
    });
    assert!(said, "{}", String::from_utf8_lossy(&screen.lock().unwrap()));
    child.stdin.take().unwrap().write_all(b"\x03").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    reading.join().unwrap();
}

#[test]
fn without_a_sound_server_the_advice_is_a_file_or_a_pipe() {
    let run_without = |args: &[&str]| {
        let run = run("unix:/nonexistent/socket", args);
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        run.stderr
    };
    let say = run_without(&["say", "Good morning."]);
    assert!(say.contains("loudspeaker") && say.contains("-o FILE.wav"), "{say}");
    let talk = run_without(&["talk"]);
    assert!(talk.contains("microphone") && talk.contains("--pipe"), "{talk}");
}

#[test]
fn a_sound_server_that_dies_ends_the_speech() {
    let Some(mut server) = sound_server() else { return };
    let dir = tempfile::tempdir().unwrap();
    let recording = server.record(&dir.path().join("heard.wav"));
    let mut command = program(&server.address(), &["say", &TEXT.repeat(20)]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    auricle_tests::eventually("it sounds", || (sounding_s(&dir.path().join("heard.wav"), 16_000) > 0.3).then_some(()));
    server.kill();
    let run = ended(child.wait_with_output().unwrap());
    recording.stop();
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(run.stderr.trim_end(), "auricle: the loudspeaker is gone");
}
