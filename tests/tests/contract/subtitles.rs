//! Views of a completed transcript: subtitles, sentences, paragraphs, word search (section 4.1).

use std::sync::OnceLock;

use auricle_tests::{Account, Gate, Receiver, Reply, Service, Setup, silence, speech};
use serde_json::{Value, json};

const PARTS: [&str; 5] = ["srt", "vtt", "sentences", "paragraphs", "word-search?words=a"];

/// The real starter: its words have sentences to find.
fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().starter().start())
}

/// One transcript of real speech that all tests read.
fn spoken() -> &'static (Account, Value) {
    static SPOKEN: OnceLock<(Account, Value)> = OnceLock::new();
    SPOKEN.get_or_init(|| {
        let account = service().account();
        let done = account.transcribe("jfk.flac", std::fs::read(speech()).unwrap());
        (account, done)
    })
}

fn path(part: &str) -> String {
    format!("/v2/transcripts/{}/{part}", spoken().1["id"].as_str().unwrap())
}

#[derive(Debug)]
struct Cue {
    start: u64,
    end: u64,
    lines: Vec<String>,
}

/// `00:00:01,250` or `00:00:01.250` in milliseconds.
fn clock(text: &str, point: char) -> u64 {
    let (seconds, millis) = text.split_once(point).unwrap_or_else(|| panic!("no {point:?}: {text}"));
    assert_eq!(millis.len(), 3, "{text}");
    seconds.split(':').fold(0, |sum, part| sum * 60 + part.parse::<u64>().unwrap()) * 1000
        + millis.parse::<u64>().unwrap()
}

fn cue(lines: &[&str], point: char) -> Cue {
    let (start, end) = lines[0].split_once(" --> ").unwrap_or_else(|| panic!("no times: {lines:?}"));
    let lines = lines[1..].iter().map(|line| (*line).to_owned()).collect();
    Cue { start: clock(start, point), end: clock(end, point), lines }
}

fn srt(text: &str) -> Vec<Cue> {
    let text = text.replace("\r\n", "\n");
    let blocks = text.trim_end().split("\n\n").enumerate();
    blocks
        .map(|(at, block)| {
            let lines: Vec<&str> = block.lines().collect();
            assert_eq!(lines[0], (at + 1).to_string(), "numbered from one");
            cue(&lines[1..], ',')
        })
        .collect()
}

fn vtt(text: &str) -> Vec<Cue> {
    let text = text.replace("\r\n", "\n");
    let rest = text.strip_prefix("WEBVTT\n\n").unwrap_or_else(|| panic!("no header with a blank line: {text:?}"));
    let blocks = rest.trim_end().split("\n\n");
    blocks.map(|block| cue(&block.lines().skip_while(|line| !line.contains("-->")).collect::<Vec<_>>(), '.')).collect()
}

#[track_caller]
fn assert_cues(cues: &[Cue], width: usize) {
    let mut last = 0;
    for cue in cues {
        assert!(last <= cue.start && cue.start < cue.end, "cues overlap or run backwards: {cue:?}");
        assert!(cue.end - cue.start <= 7000, "longer than 7 s: {cue:?}");
        assert!((1..=2).contains(&cue.lines.len()), "at most two lines: {cue:?}");
        for line in &cue.lines {
            assert!(line.chars().count() <= width || !line.contains(' '), "over {width} characters: {line:?}");
        }
        last = cue.end;
    }
    let said: Vec<&str> = cues.iter().flat_map(|cue| &cue.lines).flat_map(|line| line.split_whitespace()).collect();
    assert_eq!(said.join(" "), spoken().1["text"].as_str().unwrap(), "every word, once");
}

#[test]
fn srt_is_subrip() {
    let answer = spoken().0.get(&path("srt"));
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").unwrap().starts_with("application/x-subrip"));
    assert_cues(&srt(answer.text()), 42);
}

#[test]
fn vtt_is_webvtt() {
    let answer = spoken().0.get(&path("vtt"));
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").unwrap().starts_with("text/vtt"));
    assert_cues(&vtt(answer.text()), 42);
}

#[test]
fn chars_per_caption_sets_the_lines_length() {
    let account = &spoken().0;
    let narrow = account.get(&path("srt?chars_per_caption=12"));
    let wide = account.get(&path("vtt?chars_per_caption=80"));
    let (narrow, wide) = (srt(narrow.text()), vtt(wide.text()));
    assert_cues(&narrow, 12);
    assert_cues(&wide, 80);
    assert!(narrow.len() > wide.len());
    for bad in ["0", "-1", "many"] {
        account.get(&path(&format!("srt?chars_per_caption={bad}"))).error(422, "validation_error");
    }
}

#[test]
fn max_line_width_is_another_name_of_chars_per_caption() {
    let account = &spoken().0;
    let text = |query: &str| account.get(&path(&format!("srt?{query}"))).text().to_owned();
    assert_eq!(text("max_line_width=12"), text("chars_per_caption=12"));
    assert_eq!(text("max_line_width=12&chars_per_caption=12"), text("chars_per_caption=12"));
    account.get(&path("srt?max_line_width=12&chars_per_caption=13")).error(422, "validation_error");
    for bad in ["0", "1001", "-1", "many"] {
        account.get(&path(&format!("vtt?max_line_width={bad}"))).error(422, "validation_error");
    }
}

#[test]
fn max_line_count_sets_the_lines_of_a_cue() {
    let account = &spoken().0;
    let most = |count: usize| {
        let answer = account.get(&path(&format!("srt?chars_per_caption=12&max_line_count={count}")));
        srt(answer.text()).iter().map(|cue| cue.lines.len()).max()
    };
    assert_eq!((most(1), most(2), most(3)), (Some(1), Some(2), Some(3)));
    for bad in ["0", "11", "two"] {
        account.get(&path(&format!("srt?max_line_count={bad}"))).error(422, "validation_error");
    }
}

#[test]
fn highlight_words_underlines_each_word_in_turn() {
    let account = &spoken().0;
    let words: Vec<&str> = spoken().1["text"].as_str().unwrap().split_whitespace().collect();
    let (srt, vtt) = (account.get(&path("srt?highlight_words=true")), account.get(&path("vtt?highlight_words=True")));
    for cues in [self::srt(srt.text()), self::vtt(vtt.text())] {
        let marked = cues.iter().map(|cue| {
            let text = cue.lines.join(" ");
            let (_, rest) = text.split_once("<u>").unwrap_or_else(|| panic!("no underlined word: {text}"));
            rest.split_once("</u>").unwrap().0.to_owned()
        });
        assert_eq!(marked.collect::<Vec<_>>(), words);
        assert!(cues.windows(2).all(|pair| pair[0].end <= pair[1].start), "{cues:?}");
    }
    let plain = account.get(&path("srt"));
    assert_eq!(account.get(&path("srt?highlight_words=false")).text(), plain.text());
    account.get(&path("srt?highlight_words=some")).error(422, "validation_error");
}

#[track_caller]
fn assert_segments(part: &str) {
    let (account, transcript) = spoken();
    let answer = account.get(&path(part)).ok();
    for field in ["id", "confidence", "audio_duration_sec"] {
        assert_eq!(answer[field], transcript[field], "{field}");
    }
    let segments = answer[part].as_array().unwrap_or_else(|| panic!("no {part}: {answer}"));
    assert!(!segments.is_empty());
    let mut words = Vec::new();
    for segment in segments {
        let own = segment["words"].as_array().unwrap();
        assert!(!own.is_empty());
        assert_eq!((&segment["start"], &segment["end"]), (&own[0]["start"], &own[own.len() - 1]["end"]));
        assert!((0.0..=1.0).contains(&segment["confidence"].as_f64().unwrap()));
        let text: Vec<&str> = own.iter().map(|word| word["text"].as_str().unwrap()).collect();
        assert_eq!(segment["text"], text.join(" "));
        assert!(segment.get("speaker").is_some(), "speaker is there, null without speaker labels: {segment}");
        words.extend(own.iter().cloned());
    }
    assert_eq!(words, *transcript["words"].as_array().unwrap(), "every word, once, in order, to the last digit");
    // A 32-bit number has 9 digits at most.
    let long = |value: &Value| value.to_string().len() > "0.123456789".len();
    assert!(!long(&transcript["confidence"]) && !segments.iter().any(|segment| long(&segment["confidence"])));
}

#[test]
fn sentences_are_timed_segments() {
    assert_segments("sentences");
}

#[test]
fn paragraphs_are_timed_segments() {
    assert_segments("paragraphs");
}

fn letters(word: &Value) -> String {
    word["text"].as_str().unwrap().chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[test]
fn word_search_finds_words_and_phrases() {
    let (account, transcript) = spoken();
    let words = transcript["words"].as_array().unwrap();
    let first = letters(&words[0]);
    let phrase = format!("{}%20{}", letters(&words[1]), letters(&words[2]));
    let answer = account.get(&path(&format!("word-search?words={},{phrase}", first.to_uppercase()))).ok();
    assert_eq!(answer["id"], transcript["id"]);
    let matches = answer["matches"].as_array().unwrap();
    assert_eq!(matches.len(), 2, "{answer}");
    let expected: Vec<usize> = (0..words.len()).filter(|at| letters(&words[*at]) == first).collect();
    assert_eq!(matches[0]["count"], expected.len(), "case does not matter: {answer}");
    assert_eq!(matches[0]["indexes"], json!(expected));
    let times: Vec<Value> = expected.iter().map(|at| json!([words[*at]["start"], words[*at]["end"]])).collect();
    assert_eq!(matches[0]["timestamps"], json!(times));
    assert_eq!(matches[1]["timestamps"][0], json!([words[1]["start"], words[2]["end"]]), "a phrase spans its words");
    let total: u64 = matches.iter().map(|found| found["count"].as_u64().unwrap()).sum();
    assert_eq!(answer["total_count"], total);
}

#[test]
fn word_search_ignores_punctuation() {
    let (account, transcript) = spoken();
    let word = letters(&transcript["words"][0]);
    let plain = account.get(&path(&format!("word-search?words={word}"))).ok();
    let marked = account.get(&path(&format!("word-search?words={word}!"))).ok();
    assert_eq!(plain["total_count"], marked["total_count"]);
    assert!(plain["total_count"].as_u64().unwrap() >= 1);
}

#[test]
fn word_search_without_a_match_is_empty() {
    let answer = spoken().0.get(&path("word-search?words=xylophone")).ok();
    assert_eq!(answer["total_count"], 0);
    assert!(answer["matches"].as_array().unwrap().iter().all(|found| found["count"] == 0), "{answer}");
}

#[test]
fn word_search_takes_phrases_of_up_to_five_words() {
    let account = &spoken().0;
    account.get(&path("word-search?words=one%20two%20three%20four%20five")).ok();
    account.get(&path("word-search?words=one%20two%20three%20four%20five%20six")).error(400, "invalid_request");
    account.get(&path("word-search")).error(400, "invalid_request");
    account.get(&path("word-search?words=")).error(400, "invalid_request");
}

#[test]
fn nothing_is_ready_before_completion() {
    let account = service().account();
    let (receiver, gate) = (Receiver::new(), Gate::new());
    let url = receiver.answers("/held.wav", [Reply::Held(silence(1.0).into(), gate.clone())]);
    let id = account.create(&json!({"audio_url": url}));
    for part in PARTS {
        account.get(&format!("/v2/transcripts/{id}/{part}")).error(409, "not_ready");
    }
    gate.open();
}

#[test]
fn nothing_is_ready_of_a_failed_transcript() {
    let account = service().account();
    let id = account.create(&json!({"upload_id": account.upload("text.wav", "no sound at all")}));
    assert_eq!(account.finished(&id)["status"], "error");
    for part in PARTS {
        account.get(&format!("/v2/transcripts/{id}/{part}")).error(409, "not_ready");
    }
}

#[test]
fn nothing_is_ready_of_a_transcript_without_text() {
    let account = service().account();
    let done = account.transcribe("silence.wav", silence(1.0));
    for part in PARTS {
        account.get(&format!("/v2/transcripts/{}/{part}", done["id"].as_str().unwrap())).error(409, "not_ready");
    }
}
