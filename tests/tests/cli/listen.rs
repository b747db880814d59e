//! `auricle listen`: a file and a pipe, as lines of text and of JSON.

use std::io::Write as _;
use std::process::Stdio;

use auricle_tests::{Run, auricle, command, ended, fixtures, repository, speech, spoken, wav_of};
use serde_json::Value;

/// Runs `auricle listen -` with this on its standard input.
fn piped(args: &[&str], pcm: &[u8]) -> Run {
    let mut process = command()
        .args(["listen", "-", "--device", "cpu"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("auricle starts");
    let mut stdin = process.stdin.take().expect("its standard input");
    let pcm = pcm.to_vec();
    let writer = std::thread::spawn(move || {
        // The program may have refused its arguments already.
        let _ = stdin.write_all(&pcm);
    });
    let run = ended(process.wait_with_output().expect("auricle ends"));
    writer.join().expect("all was written");
    run
}

#[test]
fn a_file_becomes_one_line_for_each_turn() {
    let speech = speech();
    let run = auricle(["listen", speech.to_str().unwrap(), "--fast", "--device", "cpu"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stdout.lines().count() > 1, "{}", run.stdout);
    for line in run.stdout.lines() {
        assert!(line.starts_with(char::is_uppercase) && line.ends_with(['.', '?', '!']), "{line}");
    }
}

#[test]
fn finished_turns_have_digits_unless_the_arguments_decline_them() {
    let file = fixtures().join("alignment/7312-92432-0003.opus");
    let listen = ["listen", file.to_str().unwrap(), "--fast", "--device", "cpu"];
    let greedy = ["--second-pass", "off", "--language", "en", "--lm", "off"];
    let text = |more: &[&str]| {
        let run = auricle([&listen[..], &greedy, more].concat());
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        run.stdout
    };
    let spoken = text(&["--format-numbers", "false"]);
    assert!(spoken.contains("thirteen thousand"), "{spoken}");
    assert_eq!(text(&[]), spoken.replace("thirteen thousand", "13,000"));
}

#[test]
fn channels_are_transcribed_apart_as_they_are_spoken() {
    // The first channel speaks from the start, the second one after three seconds.
    let (first, pause) = (spoken(16_000), vec![0; 3 * 32_000]);
    let (left, right) = ([&first[..], &pause].concat(), [&pause[..], &first].concat());
    let frames = left.chunks(2).zip(right.chunks(2)).flat_map(|(left, right)| [left, right].concat());
    let folder = tempfile::tempdir().unwrap();
    let call = folder.path().join("call.wav");
    std::fs::write(&call, wav_of(2, 16_000, 16, &frames.collect::<Vec<u8>>())).unwrap();
    let listen = ["listen", call.to_str().unwrap(), "--fast", "--device", "cpu", "--channels"];
    let greedy = ["--second-pass", "off", "--language", "en", "--lm", "off"];
    let run = auricle([&listen[..], &greedy].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let of = |label: &str| -> Vec<String> {
        run.stdout.lines().filter_map(|line| line.strip_prefix(label)).map(str::to_owned).collect()
    };
    let (one, two) = (of("1: "), of("2: "));
    assert!(!one.is_empty() && one.len() + two.len() == run.stdout.lines().count(), "{}", run.stdout);
    assert!([&one, &two].iter().all(|turns| turns[0].to_lowercase().contains("america")), "{}", run.stdout);
    assert!(run.stdout.starts_with("1: "), "{}", run.stdout);
    let run = auricle([&listen[..], &greedy, &["--format", "json"]].concat());
    let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let first_word = |channel: u64| {
        let turn = events.iter().find(|event| event["channel"] == channel && event["formatted"] == true);
        turn.expect("a turn")["words"][0]["start"].as_u64().unwrap()
    };
    assert!((2_500..=3_500).contains(&(first_word(2) - first_word(1))), "{}", run.stdout);
    let refused = piped(&["--channels"], &[0; 3_200]);
    assert!(refused.status == Some(2) && refused.stderr.contains("--channels is for files"), "{}", refused.stderr);
}

#[test]
fn a_pipe_of_pcm_becomes_events() {
    let run = piped(&["--format", "json", "--rate", "8000", "--model", "svc-realtime"], &spoken(8_000));
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let finals = events.iter().filter(|event| event["end_of_turn"] == true && event["formatted"] == false).count();
    let restated = events.iter().filter(|event| event["formatted"] == true).count();
    assert!(finals > 0 && finals == restated, "{}", run.stdout);
    for word in events.iter().flat_map(|event| event["words"].as_array().expect("words")) {
        assert!(word["start"].as_u64() <= word["end"].as_u64() && word["text"].is_string(), "{word}");
    }
}

#[test]
fn a_language_model_joins_unless_it_is_off() {
    let of = |lm: &[&str]| {
        let live = ["--model", "svc-realtime", "--language", "en", "--second-pass", "off"];
        let run = piped(&[&live, lm].concat(), &spoken(16_000));
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        run.stdout
    };
    let shipped = of(&[]);
    assert_ne!(of(&["--lm", "off"]), shipped);
    let models = repository().join("models/starter/lm-en/en.ngram");
    assert_eq!(of(&["--lm", models.to_str().unwrap()]), shipped);
    assert_ne!(of(&["--lm-weight", "2"]), shipped);
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_session_with_what_was_said() {
    use std::io::{BufRead as _, BufReader};

    let mut process = command()
        .args(["listen", "-", "--device", "cpu", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("auricle starts");
    let mut stdin = process.stdin.take().expect("its standard input");
    // In the middle of a word; more would follow.
    stdin.write_all(&spoken(16_000)[..2 * 32_000]).expect("it reads");
    let events = BufReader::new(process.stdout.take().expect("its standard output"));
    let mut events = events.lines().map(|line| serde_json::from_str::<Value>(&line.expect("a line")).expect("JSON"));
    assert_eq!(events.next().expect("a partial")["end_of_turn"], false);
    let sent = std::process::Command::new("kill").args(["-INT", &process.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(events.last().expect("more events")["formatted"], true);
    assert_eq!(process.wait().expect("it ends").code(), Some(130));
}

#[test]
fn empty_input_gives_no_output() {
    let run = piped(&[], &[]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(0), ""), "{}", run.stderr);
}

#[test]
fn errors_are_one_line() {
    for (args, named) in [
        (&["--rate", "4000"][..], "8000"),
        (&["--model", "svc-best-of-all"], "svc-best-of-all"),
        (&["--language", "tlh"], "tlh"),
        (&["--fast"], "--fast"),
    ] {
        let run = piped(args, &[0; 3_200]);
        assert_eq!(run.status, Some(2), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(named), "{args:?}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{args:?}: {}", run.stderr);
    }
    let run = piped(&["--lm", "/nowhere.arpa"], &[0; 3_200]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("/nowhere.arpa"), "{}", run.stderr);
    let run = auricle(["listen", "/nowhere.wav", "--device", "cpu"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("/nowhere.wav"), "{}", run.stderr);
}

#[test]
fn the_time_from_the_end_of_a_turn_to_its_text_is_measured() {
    let measured =
        |recordings: &str| auricle(["bench", "--commit", "--utterances", "2", "--device", "cpu", recordings]);
    let run = measured(speech().to_str().unwrap());
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    let row: Vec<&str> = run.stdout.lines().last().unwrap().split_whitespace().collect();
    let [turns, without_text, median, "ms", p95, "ms", longest, "ms"] = row[..] else { panic!("{}", run.stdout) };
    assert_eq!((turns, without_text), ("2", "0"));
    let times = [median, p95, longest].map(|time| time.parse::<u64>().unwrap());
    assert!(times.is_sorted() && times[2] < 30_000, "{times:?}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("references.tsv"), "jfk.flac\tAnd so").unwrap();
    let run = measured(folder.path().to_str().unwrap());
    assert!(run.status == Some(2) && run.stderr.contains("has no recordings"), "{}", run.stderr);
    std::fs::copy(speech(), folder.path().join("jfk.flac")).unwrap();
    assert_eq!(measured(folder.path().to_str().unwrap()).status, Some(0));
}
