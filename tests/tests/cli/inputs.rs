//! The inputs of `auricle transcribe`: folders, and addresses of a server on this machine.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use auricle_tests::{Receiver, Reply, ended, speech};

use super::place::{Place, json, messages};

/// The inputs of a run with JSON on standard output, in its order.
fn files(stdout: &str) -> Vec<String> {
    stdout.lines().map(|line| json(line)["file"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_folder_is_its_audio_and_video_files_in_name_order() {
    let place = Place::new();
    let names = ["recordings/a.flac", "recordings/aa/c.FLAC", "recordings/b.flac"];
    let [a, c, b] = names.map(|name| place.speech(name).to_str().unwrap().to_owned());
    place.speech("recordings/.hidden.flac");
    place.speech("recordings/.trash/d.flac");
    place.text("recordings/notes.txt");
    #[cfg(unix)]
    std::os::unix::fs::symlink(place.path("recordings"), place.path("recordings/back")).unwrap();
    let folder = place.path("recordings");
    let run = place.transcribe(&["--format", "json"], &[&folder]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    assert_eq!(files(&run.stdout), [a.clone(), b.clone()]);
    let first = place.speech("first.flac");
    let run = place.transcribe(&["--format", "json", "--recursive"], &[&first, &folder]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    assert_eq!(files(&run.stdout), [first.to_str().unwrap().to_owned(), a, c, b]);

    let out = place.path("out");
    let into = ["--recursive", "--quiet", "--skip-existing", "--format", "srt", "--out", out.to_str().unwrap()];
    let run = place.transcribe(&into, &[&folder]);
    assert_eq!((run.status, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "", ""));
    let outputs = ["a.srt", "aa/c.srt", "b.srt"].map(|name| out.join(name));
    assert!(outputs.iter().all(|output| output.is_file()), "{:?}", fs::read_dir(&out).unwrap().collect::<Vec<_>>());
    // A second run makes what is missing alone.
    outputs[..2].iter().for_each(|output| fs::write(output, "edited by hand").unwrap());
    fs::remove_file(&outputs[2]).unwrap();
    assert_eq!(place.transcribe(&into, &[&folder]).status, Some(0));
    assert!(outputs[..2].iter().all(|output| fs::read_to_string(output).unwrap() == "edited by hand"));
    assert!(fs::read_to_string(&outputs[2]).unwrap().contains(" --> "));
}

#[test]
fn a_folder_without_recordings_is_one_line_and_the_others_are_done() {
    let place = Place::new();
    place.speech("outer/inner/talk.flac");
    let (outer, notes) = (place.path("outer"), place.path("notes"));
    fs::create_dir(&notes).unwrap();
    fs::write(notes.join("diary.txt"), "no recording").unwrap();
    let good = place.speech("good.flac");
    let run = place.transcribe(&["--format", "json"], &[&outer, &good, &notes]);
    assert_eq!(run.status, Some(1));
    assert_eq!(files(&run.stdout), [good.to_str().unwrap()]);
    let [first, second] = messages(&run)[..] else { panic!("{}", run.stderr) };
    assert!(first.starts_with(&format!("auricle: {}: ", outer.display())), "{first}");
    assert!(second.starts_with(&format!("auricle: {}: ", notes.display())), "{second}");
    assert!(first.contains("no audio or video file") && first.contains("--recursive"), "{first}");
    let run = place.transcribe(&["--recursive"], &[&notes]);
    assert_eq!((run.status, run.stdout.as_str(), messages(&run).len()), (Some(1), "", 1), "{}", run.stderr);
    assert!(!run.stderr.contains("--recursive"), "{}", run.stderr);
    // A file that is named is read, whatever its ending.
    let odd = place.speech("talk.xyz");
    assert_eq!(place.transcribe(&[], &[&odd]).status, Some(0));
}

#[test]
fn an_address_is_fetched_and_names_its_output() {
    let place = Place::new();
    let server = Receiver::new();
    let recording = Reply::Body(200, "audio/flac", fs::read(speech()).unwrap().into());
    let talk = server.answers("/talks/key%20note.flac", [recording]);
    let moved = server.answers("/moved.flac", [Reply::Redirect(talk.clone())]);
    // Nothing stays in the folder for temporary files.
    let scratch = place.path("scratch");
    fs::create_dir(&scratch).unwrap();
    let transcribe = |args: &[&str], addresses: &[&str]| {
        let addresses: Vec<&Path> = addresses.iter().map(Path::new).collect();
        let mut command = place.command(args, &addresses);
        let run = ended(command.env("TMPDIR", &scratch).stdin(Stdio::null()).output().unwrap());
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
        run
    };
    let run = transcribe(&["--format", "json"], &[&talk, &moved]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    assert_eq!(files(&run.stdout), [talk.clone(), moved.clone()]);
    let words = &json(&place.transcribe(&["--format", "json"], &[&speech()]).stdout)["words"];
    assert!(run.stdout.lines().all(|line| json(line)["words"] == *words));
    let apart = transcribe(&["--format", "json", "--channels"], &[&talk]);
    assert_eq!(apart.status, Some(0), "{}", apart.stderr);

    let out = place.path("out");
    let args = ["--quiet", "--skip-existing", "--out", out.to_str().unwrap()];
    let run = transcribe(&args, &[&format!("{talk}?token=1/2.x"), &moved]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    assert!(out.join("key note.txt").is_file() && out.join("moved.txt").is_file());
    // What is there is not fetched again.
    let before = server.deliveries("/moved.flac").len();
    assert_eq!(transcribe(&args, &[&moved]).status, Some(0));
    assert_eq!(server.deliveries("/moved.flac").len(), before);
}

#[test]
fn an_address_without_a_recording_is_one_line_and_the_others_are_done() {
    let place = Place::new();
    let server = Receiver::new();
    let page = Reply::Body(200, "text/html", "<!doctype html><html><body>Please sign in.</body></html>".into());
    let gone = Receiver::new();
    let gone_url = gone.url("/talk.mp3");
    gone.stop();
    let loop_url = server.url("/loop.mp3");
    for (address, why) in [
        (server.answers("/missing.mp3", [Reply::Status(404)]), "404"),
        (server.answers("/broken.mp3", [Reply::Status(500)]), "500"),
        (server.answers("/page.mp3", [page]), "the file"),
        (server.answers("/empty.mp3", [Reply::Status(200)]), "the file"),
        (server.answers("/loop.mp3", [Reply::Redirect(loop_url)]), "redirect"),
        (server.answers("/cut.mp3", [Reply::Disconnect]), "cannot be fetched"),
        (sends(&format!("content-length: {}\r\n\r\nRIFF", 6_u64 << 30)), "larger than 5 GiB"),
        (sends("content-length: 1000\r\n\r\nRIFF"), "cannot be fetched"),
        (gone_url, "cannot be fetched"),
        ("http://".into(), "the address is not valid"),
    ] {
        let run = place.transcribe(&["--format", "json"], &[Path::new(&address), &speech()]);
        assert_eq!((run.status, files(&run.stdout).len()), (Some(1), 1), "{address}: {}", run.stderr);
        let [line] = messages(&run)[..] else { panic!("{address}: {}", run.stderr) };
        assert!(line.starts_with(&format!("auricle: {address}: ")) && line.contains(why), "{line}");
    }
}

/// The address of a server that answers with these headers and this body, then closes the connection.
fn sends(rest: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/talk.wav", listener.local_addr().unwrap());
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\n{rest}");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // The request ends with a blank line; it has no body.
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                request.push(byte[0]);
            }
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[cfg(unix)]
#[test]
fn an_interrupted_fetch_leaves_nothing() {
    let place = Place::new();
    let server = Receiver::new();
    let (address, _gate) = server.held();
    let scratch = place.path("scratch");
    fs::create_dir(&scratch).unwrap();
    let mut command = place.command(&[], &[Path::new(&address)]);
    let mut child = command.env("TMPDIR", &scratch).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    while fs::read_dir(&scratch).unwrap().count() == 0 {
        assert!(begin.elapsed() < Duration::from_secs(30), "nothing is fetched");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
}
