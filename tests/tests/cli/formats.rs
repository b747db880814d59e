//! The formats of `auricle transcribe`, a part of a recording, and progress for programs.

use std::fs;
use std::path::Path;

use auricle_tests::{Run, speech, spoken, wav};
use serde_json::Value;

use super::place::{Place, json, messages};

const SPOKEN_HZ: u32 = 16_000;

/// The objects on standard error.
fn events(run: &Run) -> Vec<Value> {
    run.stderr.lines().map(json).collect()
}

fn of<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

/// `0:07` as seconds.
fn seconds(clock: &str) -> u64 {
    clock.split(':').fold(0, |sum, part| sum * 60 + part.parse::<u64>().unwrap())
}

#[test]
fn tables_have_a_row_for_each_sentence_with_its_times_in_ms() {
    let place = Place::new();
    let words = json(&place.transcribe(&["--format", "json"], &[&speech()]).stdout)["words"].clone();
    let (first, last) = (&words[0], words.as_array().unwrap().last().unwrap());
    let spoken = words.as_array().unwrap().iter().map(|word| word["text"].as_str().unwrap());
    let spoken: Vec<&str> = spoken.collect();
    for (format, mark) in [("tsv", '\t'), ("csv", ',')] {
        let run = place.transcribe(&["--format", format], &[&speech()]);
        assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
        let mut rows = run.stdout.lines();
        assert_eq!(rows.next().unwrap(), ["start", "end", "text"].join(&mark.to_string()));
        let rows: Vec<Vec<&str>> = rows.map(|row| row.splitn(3, mark).collect()).collect();
        assert_eq!(rows[0][0], first["start"].to_string());
        assert_eq!(rows.last().unwrap()[1], last["end"].to_string());
        let text: Vec<&str> = rows.iter().flat_map(|row| row[2].split_whitespace()).collect();
        assert_eq!(text.join(" ").replace('"', ""), spoken.join(" ").replace('"', ""), "{format}");
    }
    let apart = place.transcribe(&["--format", "csv", "--channels"], &[&speech()]).stdout;
    assert!(apart.starts_with("start,end,speaker,text\n") && apart.lines().nth(1).unwrap().contains(",A,"), "{apart}");
}

#[test]
fn lrc_and_markdown_have_the_words_in_order() {
    let place = Place::new();
    let text = place.transcribe(&[], &[&speech()]).stdout;
    let first = text.split_whitespace().next().unwrap();
    let lrc = place.transcribe(&["--format", "lrc"], &[&speech()]).stdout;
    let mut times = Vec::new();
    for line in lrc.lines() {
        let (time, _) = line.strip_prefix('[').and_then(|line| line.split_once(']')).expect("a time");
        let (minutes, rest) = time.split_once(':').expect("minutes");
        times.push(minutes.parse::<f64>().unwrap() * 60.0 + rest.parse::<f64>().unwrap());
    }
    assert!(times.len() > 1 && times.is_sorted() && lrc.contains(first), "{lrc}");
    let timed = place.transcribe(&["--format", "lrc", "--highlight-words"], &[&speech()]).stdout;
    assert!(timed.matches('<').count() > times.len(), "{timed}");
    for name in ["markdown", "md"] {
        let markdown = place.transcribe(&["--format", name, "--summary"], &[&speech()]).stdout;
        assert!(markdown.starts_with("# jfk.flac\n\n") && markdown.contains(first), "{markdown}");
    }
    let run = place.transcribe(&["--format", "csv", "--entities", "--pii"], &[&speech()]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    // A file with its ending, and the same as one of several.
    let out = place.path("out");
    let formats = ["md", "tsv", "csv", "lrc", "txt"];
    let run =
        place.transcribe(&["--quiet", "--format", "md,tsv,csv,lrc,text", "--out", out.to_str().unwrap()], &[&speech()]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    assert!(formats.iter().all(|ending| out.join(format!("jfk.{ending}")).is_file()));
    let alone = place.path("talk.md");
    assert_eq!(place.transcribe(&["--quiet", "-o", alone.to_str().unwrap()], &[&speech()]).status, Some(0));
    assert_eq!(fs::read(alone).unwrap(), fs::read(out.join("jfk.md")).unwrap());
}

#[test]
fn text_and_markdown_begin_with_times_if_asked() {
    let place = Place::new();
    let text = place.transcribe(&["--timestamps"], &[&speech()]).stdout;
    let lines = text.lines().map(|line| line.strip_prefix('[').and_then(|line| line.split_once("] ")).expect("a time"));
    let (times, texts): (Vec<u64>, Vec<&str>) = lines.map(|(time, text)| (seconds(time), text)).unzip();
    assert!(times.is_sorted() && times.last() <= Some(&11), "{text}");
    assert_eq!(texts.join(" ").trim(), place.transcribe(&[], &[&speech()]).stdout.trim());
    let markdown = place.transcribe(&["--timestamps", "--format", "markdown"], &[&speech()]).stdout;
    assert!(markdown.lines().nth(2).unwrap().starts_with("`0:0"), "{markdown}");
    let named = place.transcribe(&["--timestamps", "--channels"], &[&speech()]).stdout;
    assert!(named.lines().all(|line| line.contains("] A: ") || line.contains("] B: ")), "{named}");
    let run = place.transcribe(&["--timestamps", "--format", "json"], &[&speech()]);
    assert_eq!((run.status, messages(&run).len()), (Some(2), 1), "{}", run.stderr);
}

#[test]
fn a_part_of_a_recording_keeps_its_times() {
    let place = Place::new();
    let pcm = spoken(SPOKEN_HZ);
    let bytes = |second: usize| second * SPOKEN_HZ as usize * 2;
    let whole = place.path("whole.wav");
    fs::write(&whole, wav(SPOKEN_HZ, 16, &pcm)).unwrap();
    let cut = place.path("cut.wav");
    fs::write(&cut, wav(SPOKEN_HZ, 16, &pcm[bytes(3)..bytes(7)])).unwrap();
    let document = |args: &[&str], path: &Path| {
        let run = place.transcribe(&[&["--format", "json"][..], args].concat(), &[path]);
        assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""), "{args:?}");
        json(&run.stdout)
    };
    let mut expected = document(&[], &cut);
    for word in expected["words"].as_array_mut().unwrap() {
        for time in ["start", "end"] {
            word[time] = (word[time].as_u64().unwrap() + 3_000).into();
        }
    }
    for args in [&["--start", "3", "--duration", "4"][..], &["--start", "0:03.0", "--duration=0:04"]] {
        let part = document(args, &whole);
        assert_eq!((&part["words"], &part["audio_duration_sec"]), (&expected["words"], &4.0.into()), "{args:?}");
    }
    assert!(!expected["words"].as_array().unwrap().is_empty());
    assert_eq!(document(&["--duration", "1:00:00"], &whole)["words"], document(&[], &whole)["words"]);
    let apart = document(&["--start", "3", "--duration", "4", "--channels"], &whole);
    assert_eq!(apart["utterances"][0]["start"], expected["words"][0]["start"]);
    let srt = place.transcribe(&["--format", "srt", "--start", "3", "--duration", "4"], &[&whole]).stdout;
    assert!(srt.lines().nth(1).unwrap().starts_with("00:00:0") && !srt.contains("00:00:00,"), "{srt}");

    // A recording that is over before is its own fault, and the others are done.
    let run = place.transcribe(&["--format", "json", "--start", "6"], &[&cut, &whole]);
    assert_eq!((run.status, run.stdout.lines().count()), (Some(1), 1), "{}", run.stderr);
    let [line] = messages(&run)[..] else { panic!("{}", run.stderr) };
    assert!(line.contains("cut.wav: the recording ends before the start that is asked for, 6 s"), "{line}");
    for (option, value) in [("--start", "-1"), ("--start", "soon"), ("--start", "1:75"), ("--duration", "0")] {
        let run = place.transcribe(&[&format!("{option}={value}")], &[&whole]);
        assert!(run.status == Some(2) && run.stderr.contains(option), "{option} {value}: {}", run.stderr);
    }
}

#[test]
fn programs_read_progress_as_json() {
    let place = Place::new();
    let (good, bad) = (place.speech("good.flac"), place.text("bad.mp3"));
    let out = place.path("out");
    let run = place
        .transcribe(&["--progress", "json", "--format", "srt,json", "--out", out.to_str().unwrap()], &[&good, &bad]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
    let all = events(&run);
    let good = good.to_str().unwrap();
    let progress = of(&all, "progress");
    assert!(!progress.is_empty() && progress.iter().all(|event| event["file"] == good), "{}", run.stderr);
    for event in &progress {
        assert!((0.0..=100.0).contains(&event["percent"].as_f64().unwrap()), "{event}");
        assert!((10.9..=11.1).contains(&event["total_sec"].as_f64().unwrap()), "{event}");
        assert!(event["eta_sec"].is_null() || event["eta_sec"].as_f64().unwrap() >= 0.0, "{event}");
    }
    assert!(of(&all, "loading")[0]["file"] == good);
    let [done] = of(&all, "done")[..] else { panic!("{}", run.stderr) };
    let outputs: Vec<&str> = done["outputs"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert!(outputs.len() == 2 && outputs.iter().all(|path| Path::new(path).is_file()), "{done}");
    let [failed] = of(&all, "failed")[..] else { panic!("{}", run.stderr) };
    assert!(failed["file"] == bad.to_str().unwrap() && !failed["message"].as_str().unwrap().is_empty(), "{failed}");

    let run = place.transcribe(
        &["--progress=json", "--skip-existing", "--format", "srt", "--out", out.to_str().unwrap()],
        &[Path::new(good)],
    );
    assert_eq!((run.status, of(&events(&run), "skipped").len()), (Some(0), 1), "{}", run.stderr);
    // The failure of the whole command is an object, too.
    let run = place.transcribe(&["--progress", "json", "--model", "svc-worst"], &[Path::new(good)]);
    assert_eq!(run.status, Some(2));
    assert!(of(&events(&run), "message")[0]["message"].as_str().unwrap().contains("svc-worst"), "{}", run.stderr);
    let run = place.transcribe(&["--progress", "json", "--quiet"], &[Path::new(good)]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
}
