//! `auricle analyze`, and the same flags of `auricle transcribe`.

use std::io::Write as _;
use std::process::Stdio;

use auricle_tests::{Run, command, ended, fixtures, models, speech};
use serde_json::{Value, json};

fn analyze(args: &[&str], input: impl AsRef<[u8]>) -> Run {
    let mut child = command()
        .arg("analyze")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.as_ref().to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let run = ended(child.wait_with_output().unwrap());
    writer.join().unwrap();
    run
}

fn objects(run: &Run) -> Vec<Value> {
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_line_in_is_a_line_out() {
    let input = "The café  called: my name is Jo Smith.\n\ncall 415-555-0132 – now\r\nnothing here\n";
    let found = objects(&analyze(&["--pii", "--lines", "-"], input));
    assert_eq!(found.len(), 4);
    assert_eq!(found[0]["redacted"], "The café  called: my name is [PERSON_NAME].");
    assert_eq!(
        found[0]["entities"],
        json!([{"text": "Jo Smith", "label": "PERSON_NAME", "start_char": 29, "end_char": 37}])
    );
    assert_eq!(found[1], json!({"redacted": "", "entities": []}));
    assert_eq!(found[2]["redacted"], "call [PHONE_NUMBER] – now");
    assert_eq!(found[3], json!({"redacted": "nothing here", "entities": []}));
}

#[test]
fn entities_without_redaction_leave_the_text() {
    let found = objects(&analyze(&["--entities", "--format", "json"], "I paid 50 dollars to Maria Lopez."));
    assert_eq!(found[0]["redacted"], "I paid 50 dollars to Maria Lopez.");
    let labels: Vec<&str> =
        found[0]["entities"].as_array().unwrap().iter().map(|entity| entity["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["MONEY_AMOUNT", "PERSON_NAME"]);
}

#[test]
fn a_pass_that_lacks_the_language_is_left_out_with_a_warning() {
    let run = analyze(&["--sentiment", "--summary", "--language", "de"], "Das ist sehr gut.");
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("warning: sentiment analysis was left out: it cannot be done in de"), "{}", run.stderr);
    assert_eq!(analyze(&["--sentiment"], "This is very good.").stderr, "");
}

#[test]
fn text_shows_what_remains() {
    assert_eq!(
        analyze(&["--pii", "--profanity"], "Call me, you bastard:\n  415-555-0132\n").stdout,
        "Call me, you b******:\n  [PHONE_NUMBER]\n"
    );
    let all = analyze(&["--entities"], "I met Maria Lopez.\n");
    assert_eq!(all.stdout, "I met Maria Lopez.\n\n## Entities\n\nPERSON_NAME  Maria Lopez\n");
}

#[test]
fn spoken_numbers_are_written_in_digits_first() {
    let run = analyze(&["--itn"], "it costs twelve thousand dollars\nhundreds of people\n");
    assert_eq!(run.stdout, "it costs $12,000\nhundreds of people\n", "{}", run.stderr);
    let found = objects(&analyze(&["--itn", "--lines", "-"], "at nine forty\nhalf a million\n"));
    assert_eq!((&found[0]["redacted"], &found[1]["redacted"]), (&json!("at 9:40"), &json!("half a million")));
    let hidden = analyze(&["--itn", "--pii"], "call four one five five five five oh one three two now");
    assert_eq!(hidden.stdout, "call [PHONE_NUMBER] now\n", "{}", hidden.stderr);
}

#[test]
fn wrong_usage_is_refused() {
    let run = analyze(&["--itn", "--language", "ja"], "nothing");
    assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""));
    assert!(run.stderr.contains("ja"), "{}", run.stderr);
    let run = analyze(&["--pii", "--language", "fr"], "Je m'appelle Jean Dupont.");
    assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""));
    assert!(run.stderr.contains("fr"), "{}", run.stderr);
    let run = analyze(&["no-such-file.txt"], "");
    assert_eq!(run.status, Some(1));
    assert!(run.stderr.contains("no-such-file.txt"), "{}", run.stderr);
}

/// Invented names and places, in sentences that no pattern knows.
#[test]
fn a_name_that_no_list_has_is_hidden_as_written_and_as_heard() {
    for (written, expected) in [
        (
            "Please give the parcel to Vrethin Oskalla before noon.",
            "Please give the parcel to [PERSON_NAME] before noon.",
        ),
        ("My name is Zorvith, I live in Thornwick Bay.", "My name is [PERSON_NAME], I live in [LOCATION]."),
        ("Ask Mwanzurike whether the boiler is fixed.", "Ask [PERSON_NAME] whether the boiler is fixed."),
    ] {
        assert_eq!(analyze(&["--pii"], written).stdout.trim_end(), expected);
        let heard = written.to_lowercase().replace([',', '.'], "");
        let hidden = analyze(&["--pii"], &heard).stdout.to_lowercase();
        assert_eq!(hidden.trim_end(), expected.to_lowercase().replace([',', '.'], ""));
        let off = analyze(&["--pii", "--tagger", "off"], &heard).stdout;
        assert_ne!(off.to_lowercase(), hidden, "the lists know these words");
    }
}

/// The tagger of the fixtures has random weights: it takes the whole line for a name.
#[test]
fn a_tagger_finds_what_no_list_has() {
    let (line, tagger) = ("in NASA we met mister van der Berg", fixtures().join("bert/words"));
    let with = |tagger: &str| analyze(&["--pii", "--tagger", tagger], line).stdout;
    assert_eq!(with(tagger.to_str().unwrap()), "[PERSON_NAME]\n");
    let off = with("off");
    assert!(off.starts_with("in NASA we met "), "{off}");
    let entities = ["--entities", "--format", "json", "--tagger", tagger.to_str().unwrap()];
    let found = objects(&analyze(&entities, line));
    assert_eq!(found[0]["entities"], json!([{"text": line, "label": "PERSON_NAME", "start_char": 0, "end_char": 34}]));
    // Nobody asked for names: it is not even looked for.
    assert_eq!(analyze(&["--profanity", "--tagger", "nowhere"], line).stdout, format!("{line}\n"));
}

#[test]
fn text_is_not_shown_where_its_tagger_cannot_be_loaded() {
    for (tagger, names) in [("nowhere", "nowhere/config.json"), ("../tests/fixtures/bert/tagger", "tokenizer.json")] {
        let run = analyze(&["--pii", "--tagger", tagger], "My name is Jo Smith.");
        assert_eq!((run.status, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
        assert!(run.stderr.contains(names), "{}", run.stderr);
    }
}

#[test]
fn input_that_is_no_text_is_refused_in_plain_words() {
    for lines in [&["--pii", "-"][..], &["--pii", "--lines", "-"]] {
        let run = analyze(lines, b"\xff\xfe");
        assert_eq!(
            (run.status, run.stderr.trim()),
            (Some(1), "auricle: cannot read standard input: it is not text in UTF-8")
        );
    }
}

#[test]
fn a_recording_is_transcribed_without_its_personal_words() {
    let run = ended(
        command()
            .args([
                "transcribe",
                "--device",
                "cpu",
                "--quiet",
                "--pii",
                "--profanity",
                "--entities",
                "--format",
                "json",
                "--models",
            ])
            .arg(models())
            .arg(fixtures().join("analysis/personal.flac"))
            .output()
            .unwrap(),
    );
    let found = objects(&run);
    let text = found[0]["text"].as_str().unwrap();
    assert!(text.starts_with("My name is [PERSON_NAME] and I live in [LOCATION]"), "{text}");
    let all = format!("{}{}", run.stdout, run.stderr).to_lowercase();
    for hidden in ["john", "smith", "london", "mary", "bastard"] {
        let shown = all.split(|c: char| !c.is_alphabetic()).any(|word| word == hidden);
        assert!(!shown, "{hidden} in {all}");
    }
    assert!(found[0]["entities"].as_array().unwrap().iter().any(|entity| entity["text"] == "[PERSON_NAME]"), "{all}");
}

#[test]
fn the_text_of_a_recording_is_followed_by_what_was_asked() {
    let transcribe = |format: &str| {
        let asked = ["--summary=gist", "--chapters", "--sentiment", "--format", format, "--models"];
        let mut command = command();
        command.args(["transcribe", "--device", "cpu", "--quiet"]).args(asked).arg(models());
        ended(command.arg(speech()).output().unwrap())
    };
    let text = transcribe("text");
    let (spoken, findings) = text.stdout.split_once("\n## Summary\n\n").unwrap_or_else(|| panic!("{}", text.stdout));
    assert_eq!(spoken.lines().count(), 1, "{spoken}");
    assert!(findings.contains("\n## Chapters\n\n0:00  ") && findings.contains("\n## Sentiment\n\n0:0"), "{findings}");
    let subtitles = transcribe("srt");
    assert!(
        !subtitles.stdout.contains("Summary") && subtitles.stderr.contains("--format json"),
        "{}",
        subtitles.stderr
    );
}
