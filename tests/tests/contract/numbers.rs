//! Spoken numbers in digits, in files and in live sessions: the option `format_numbers`.

use std::sync::OnceLock;

use auricle_engine::audio::SAMPLE_RATE;
use auricle_tests::{Account, Frame, Live, Service, Setup, models, pcm, readers, text_of, turns, wav};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The end of what the woman reads, as the starter for live sessions writes it.
const SPOKEN: &str = "thirteen thousand";
const WRITTEN: &str = "13,000";

/// A service whose files, too, are read by the starter for live sessions, which writes numbers in words.
fn service() -> &'static Service {
    static SERVICE: OnceLock<(TempDir, Service)> = OnceLock::new();
    let start = || {
        let dir = tempfile::tempdir().unwrap();
        let entry = |id: &str, kind: &str| {
            format!(
                "[[model]]\nid = {id:?}\nkind = {kind:?}\npublished = \"somebody/something\"\nfolder = \"none\"\n\
                 languages = [\"en\"]\nstarter = {:?}\nstarter_languages = [\"en\"]\n",
                models().join("starter/asr-en")
            )
        };
        let detector = format!(
            "[detector]\npublished = \"somebody/something\"\nfolder = \"none\"\nstarter = {:?}\n",
            models().join("starter/vad")
        );
        let catalog = [entry("svc-best", "prerecorded"), entry("svc-realtime-pro", "realtime"), detector];
        std::fs::write(dir.path().join("catalog.toml"), catalog.concat()).unwrap();
        let service = Setup::local().on(dir.path()).start();
        (dir, service)
    };
    &SERVICE.get_or_init(start).1
}

fn sound() -> Vec<u8> {
    let [_, woman] = readers();
    pcm(woman)
}

fn transcribed(account: &Account, options: Value) -> Value {
    let mut body = options;
    body["upload_id"] = account.upload("reader.wav", wav(SAMPLE_RATE, 16, &sound())).into();
    let done = account.finished(&account.create(&body));
    assert_eq!(done["status"], "completed", "{done}");
    done
}

fn words(done: &Value) -> &Vec<Value> {
    done["words"].as_array().unwrap()
}

fn place(words: &[Value], text: &str) -> usize {
    words.iter().position(|word| word["text"] == text).unwrap_or_else(|| panic!("no {text}: {words:?}"))
}

#[test]
fn a_file_has_digits_unless_the_request_declines_them() {
    let account = service().account();
    let spoken = transcribed(&account, json!({"format_numbers": false}));
    let text = spoken["text"].as_str().unwrap();
    assert!(text.contains(SPOKEN), "{text}");
    let written = transcribed(&account, json!({}));
    assert_eq!(written["text"], text.replace(SPOKEN, WRITTEN));
    for same in [json!({"format_numbers": true}), json!({"format_numbers": null})] {
        assert_eq!(transcribed(&account, same)["words"], written["words"]);
    }
    // The number has the times of both words and the lower confidence, and the others are as they were.
    let (spoken, written) = (words(&spoken), words(&written));
    let (at, number) = (place(spoken, "thirteen"), &written[place(written, WRITTEN)]);
    assert_eq!((&number["start"], &number["end"]), (&spoken[at]["start"], &spoken[at + 1]["end"]));
    let confidence = |word: &Value| word["confidence"].as_f64().unwrap();
    assert_eq!(confidence(number), confidence(&spoken[at]).min(confidence(&spoken[at + 1])));
    assert_eq!((&written[..at], &written[at + 1..]), (&spoken[..at], &spoken[at + 2..]));
}

#[test]
fn all_that_is_made_of_the_words_has_the_digits() {
    let account = service().account();
    for (options, has, lacks) in
        [(json!({}), WRITTEN, "thirteen"), (json!({"format_numbers": false}), "thirteen", WRITTEN)]
    {
        let mut asked = options;
        asked["auto_chapters"] = true.into();
        let done = transcribed(&account, asked);
        assert!(done["chapters"].to_string().contains(has), "{done}");
        let id = done["id"].as_str().unwrap();
        for part in ["srt", "vtt", "sentences", "paragraphs"] {
            let answer = account.get(&format!("/v2/transcripts/{id}/{part}"));
            let text = answer.text();
            assert!(text.contains(has) && !text.contains(lacks), "{part}: {text}");
        }
        let found = account.get(&format!("/v2/transcripts/{id}/word-search?words={}", has.replace(',', ""))).ok();
        assert_eq!(found["total_count"], 1, "{found}");
    }
}

#[test]
fn a_form_declines_digits_as_json_does() {
    let account = service().account();
    let part = |name: &str, value: &[u8]| {
        let file = if name == "file" { "; filename=\"reader.wav\"" } else { "" };
        let head = format!("--boundary\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        [head.as_bytes(), value, b"\r\n"].concat()
    };
    let file = part("file", &wav(SAMPLE_RATE, 16, &sound()));
    for (value, expected) in [("false", SPOKEN), ("true", WRITTEN)] {
        let form = [file.clone(), part("format_numbers", value.as_bytes()), b"--boundary--\r\n".to_vec()].concat();
        let made = account.post_raw("/v2/transcripts", "multipart/form-data; boundary=boundary", form).ok();
        let done = account.finished(made["id"].as_str().unwrap());
        assert!(done["text"].as_str().unwrap().contains(expected), "{value}: {done}");
    }
}

/// The formatted text of a session, and what the model wrote.
fn heard(mut live: Live) -> (String, String) {
    let pcm = [sound(), vec![0; 64_000]].concat();
    live.ready();
    live.send(&pcm, 3_200);
    live.stop();
    let frames = live.rest();
    assert!(frames.ends_with(&[Frame::Done, Frame::Closed(1000)]), "{frames:?}");
    let turns = turns(&frames, pcm.len() as u64 / 32);
    let raw: Vec<&str> = turns.iter().map(|turn| turn.raw.text.as_str()).collect();
    (text_of(&turns), raw.join(" "))
}

#[test]
fn a_live_session_has_digits_unless_its_token_or_its_address_declines_them() {
    let account = service().account();
    let (formatted, raw) = heard(account.mint(&json!({})).open());
    assert!(raw.contains(SPOKEN) && formatted.contains(WRITTEN), "{raw} {formatted}");
    let declined = account.mint(&json!({"format_numbers": false}));
    let by_address = account.mint(&json!({})).open_with(&[("format_numbers", "False")]);
    for live in [declined.open(), by_address] {
        let (formatted, raw) = heard(live);
        assert!(raw.contains(SPOKEN) && formatted.contains(SPOKEN), "{raw} {formatted}");
        assert!(formatted.starts_with(char::is_uppercase) && formatted.ends_with('.'), "{formatted}");
    }
    let closed = |mut live: Live| assert_eq!(live.rest(), [Frame::Closed(4400)]);
    for other in ["true", "1", "no", ""] {
        closed(declined.open_with(&[("format_numbers", other)]));
    }
    closed(account.mint(&json!({})).open_with(&[("format_numbers", "no")]));
}
