//! Analysis of transcripts: interface sections 2.1 and 4.1.

use std::collections::HashSet;
use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::OnceLock;

use auricle_engine::audio::{AudioStream, OpenOptions};
use auricle_tests::{Account, Answer, Receiver, Service, Setup, fixtures};
use hyper::Method;
use serde_json::{Value, json};

const ANALYSES: [&str; 5] = ["summary", "chapters", "entities", "sentiment_results", "content_safety"];

/// The flag of each analysis.
const FLAGS: [(&str, &str); 5] = [
    ("summarization", "summary"),
    ("auto_chapters", "chapters"),
    ("entity_detection", "entities"),
    ("sentiment_analysis", "sentiment_results"),
    ("content_moderation", "content_safety"),
];

/// Words of the recording that name a person, a place or a birth.
const PERSONAL: [&str; 5] = ["john", "smith", "london", "mary", "1985"];

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().starter().start())
}

/// "My name is John Smith and I live in London. Her name is Mary, and she was born in nineteen eighty five (in digits, as it is heard). He
/// is a bastard and a liar."
fn personal() -> Vec<u8> {
    fs::read(fixtures().join("analysis/personal.flac")).unwrap()
}

fn analyzed(account: &Account, options: Value) -> Value {
    let mut body = options;
    body["upload_id"] = account.upload("talk.flac", personal()).into();
    let done = account.finished(&account.create(&body));
    assert_eq!(done["status"], "completed", "{done}");
    done
}

fn text(done: &Value) -> &str {
    done["text"].as_str().unwrap()
}

#[test]
fn a_transcript_without_flags_is_as_heard() {
    let done = analyzed(&service().account(), json!({}));
    let lower = text(&done).to_lowercase();
    for word in PERSONAL.iter().chain(&["bastard"]) {
        assert!(lower.contains(word), "the recording must be heard well: {lower}");
    }
    for analysis in ANALYSES {
        assert_eq!(done[analysis], Value::Null, "{analysis}");
    }
}

#[test]
fn each_flag_fills_its_field_alone() {
    let account = service().account();
    for (flag, field) in FLAGS {
        let done = analyzed(&account, json!({flag: true}));
        for analysis in ANALYSES {
            assert_eq!(done[analysis] != Value::Null, analysis == field, "{flag}: {analysis} is {}", done[analysis]);
        }
        assert!(text(&done).contains("John Smith"), "{}", text(&done));
    }
}

#[test]
fn an_analysis_that_lacks_the_language_is_left_out_with_a_warning() {
    let account = service().account();
    let left_out = |done: &Value| -> Vec<String> {
        let warnings = done["warnings"].as_array().unwrap().iter().filter_map(Value::as_str);
        warnings.filter(|warning| warning.contains("left out")).map(str::to_owned).collect()
    };
    let asked = json!({"language_code": "de", "sentiment_analysis": true, "auto_chapters": true});
    let done = analyzed(&account, asked);
    assert_eq!(done["sentiment_results"], Value::Null);
    assert_eq!(left_out(&done), ["sentiment analysis was left out: it cannot be done in de"]);
    assert_eq!(left_out(&analyzed(&account, json!({"sentiment_analysis": true}))), [""; 0]);
}

#[test]
fn all_flags_go_together() {
    let mut options = json!({"pii_redaction": true, "profanity_filter": true});
    for (flag, _) in FLAGS {
        options[flag] = true.into();
    }
    let done = analyzed(&service().account(), options);
    for (_, field) in FLAGS {
        assert_ne!(done[field], Value::Null, "{field}");
    }
    let all = done.to_string().to_lowercase().replace("summary", "");
    for word in PERSONAL.iter().chain(&["bastard"]) {
        assert!(!all.contains(word), "{word} in {all}");
    }
    assert!(text(&done).contains("[PERSON_NAME]") && text(&done).contains("b******"), "{}", text(&done));
}

#[test]
fn entities_have_their_times_and_labels() {
    let done = analyzed(&service().account(), json!({"entity_detection": true}));
    let entities = done["entities"].as_array().unwrap();
    let of = |label: &str| {
        entities.iter().find(|entity| entity["label"] == label).unwrap_or_else(|| panic!("no {label}: {entities:?}"))
    };
    let name = of("PERSON_NAME");
    assert_eq!((&name["text"], &name["entity_type"]), (&json!("John Smith"), &json!("PERSON_NAME")));
    let words = done["words"].as_array().unwrap();
    let at = words.iter().position(|word| word["text"] == "John").unwrap();
    assert_eq!((&name["start"], &name["end"]), (&words[at]["start"], &words[at + 1]["end"]));
    of("LOCATION");
    of("DATE_OF_BIRTH");
}

#[test]
fn a_hidden_run_is_one_word_with_the_times_of_the_run() {
    let account = service().account();
    let (open, hidden) = (analyzed(&account, json!({})), analyzed(&account, json!({"pii_redaction": true})));
    let word = |done: &Value, text: &str| {
        let words = done["words"].as_array().unwrap().clone();
        words
            .into_iter()
            .find(|word| word["text"].as_str().unwrap().starts_with(text))
            .unwrap_or_else(|| panic!("no {text}"))
    };
    let mask = word(&hidden, "[PERSON_NAME]");
    assert_eq!((&mask["start"], &mask["end"]), (&word(&open, "John")["start"], &word(&open, "Smith")["end"]));
    assert_eq!(word(&hidden, "live"), word(&open, "live"));
}

#[test]
fn utterances_hold_no_hidden_word() {
    let done = analyzed(&service().account(), json!({"pii_redaction": true, "speaker_labels": true}));
    let utterances = done["utterances"].as_array().unwrap();
    let said: Vec<&str> = utterances.iter().map(|utterance| utterance["text"].as_str().unwrap()).collect();
    assert_eq!(said.join(" "), text(&done));
    let lower = said.join(" ").to_lowercase();
    assert!(lower.contains("[person_name]") && lower.contains("[location]"), "{lower}");
    for word in PERSONAL {
        assert!(!lower.contains(word), "{word} in {lower}");
    }
    let words = done["words"].as_array().unwrap();
    assert!(words.iter().all(|word| word["speaker"].is_string()), "{words:?}");
}

#[test]
fn the_redacted_recording_has_a_cover_in_place_of_the_hidden_words() {
    let account = service().account();
    let done = analyzed(&account, json!({"pii_redaction": true, "redact_audio": "silence"}));
    let path = format!("/v2/transcripts/{}/redacted-audio", done["id"].as_str().unwrap());
    let answer = account.get(&path);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("audio/ogg")));
    let decode = |bytes: Vec<u8>| {
        AudioStream::from_source(Cursor::new(bytes), &OpenOptions::default()).unwrap().read_to_end().unwrap()
    };
    let (before, after) = (decode(personal()), decode(answer.body.to_vec()));
    assert_eq!(before.len(), after.len());
    let loudest = |samples: &[f32], word: &Value| {
        let at = |field: &str| word[field].as_u64().unwrap() as usize * 16;
        samples[at("start")..at("end").min(samples.len())].iter().fold(0f32, |most, sample| most.max(sample.abs()))
    };
    let words = done["words"].as_array().unwrap();
    let (hidden, open): (Vec<_>, Vec<_>) =
        words.iter().partition(|word| word["text"].as_str().unwrap().starts_with('['));
    assert!(hidden.len() >= 3, "{words:?}");
    for word in hidden {
        assert!(loudest(&after, word) < 0.02 && loudest(&before, word) > 0.05, "{word}");
    }
    // Words beside a hidden one lose their edges.
    let clear = open.iter().filter(|word| loudest(&after, word) > loudest(&before, word) / 2.0).count();
    assert!(clear + 3 >= open.len(), "{clear} of {} words are heard", open.len());
    // Nobody and nothing hears the names in it, and a player may read a part of it.
    let heard = text(&account.transcribe("redacted.ogg", answer.body.to_vec())).to_lowercase();
    assert!(PERSONAL.iter().all(|word| !heard.contains(word)) && heard.contains("my name is"), "{heard}");
    let part = Answer::of(account.request(Method::GET, &path).header("range", "bytes=0-3"));
    assert_eq!((part.status, &part.body[..]), (206, &b"OggS"[..]));
    assert_eq!(account.delete(&format!("/v2/transcripts/{}", done["id"].as_str().unwrap())).status, 204);
    account.get(&path).error(404, "not_found");
}

#[test]
fn a_redacted_recording_is_made_only_where_it_was_asked_for() {
    let account = service().account();
    let done = analyzed(&account, json!({"pii_redaction": true}));
    let path = format!("/v2/transcripts/{}/redacted-audio", done["id"].as_str().unwrap());
    assert!(account.get(&path).error(404, "not_found").contains("redact_audio"));
    service().account().get(&path).error(404, "not_found");
}

#[test]
fn policies_and_substitution_are_obeyed() {
    let account = service().account();
    let names = analyzed(&account, json!({"pii_redaction": true, "pii_policies": ["person_name"]}));
    assert!(!text(&names).contains("John") && text(&names).contains("London"), "{}", text(&names));
    let hashed = analyzed(&account, json!({"pii_redaction": true, "pii_substitution": "hash"}));
    assert!(text(&hashed).contains("My name is #########") && !text(&hashed).contains('['), "{}", text(&hashed));
}

#[test]
fn redaction_that_cannot_be_done_is_refused_and_never_looks_done() {
    // Its `svc-fast` claims Portuguese, too.
    let service = Setup::local().start();
    let account = service.account();
    for languages in [json!({"language_code": "pt"}), json!({"language_codes": ["en", "pt"]})] {
        let mut body = languages;
        body["model"] = "svc-fast".into();
        body["upload_id"] = account.upload("talk.flac", personal()).into();
        account.create(&body);
        body["pii_redaction"] = true.into();
        let message = account.post("/v2/transcripts", &body).error(400, "unsupported_option");
        assert!(message.contains("pii_redaction"), "{message}");
    }
}

/// Every file below a folder whose bytes hold one of the words, whatever their case.
fn files_with(folder: &Path, words: &[&str], found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_with(&path, words, found);
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).to_lowercase();
        // Chance makes short words out of audio.
        let leaked = words.iter().filter(|word| word.len() > 4 && text.contains(**word));
        found.extend(leaked.map(|word| format!("{word} in {}", path.display())));
    }
}

#[test]
fn no_hidden_word_is_returned_sent_stored_or_logged() {
    let log = [("AURICLE_LOG", "trace".to_owned())];
    let service = Setup::local().starter().environment(log).start();
    let receiver = Receiver::new();
    let account = service.account();
    let done = analyzed(
        &account,
        json!({
            "pii_redaction": true, "profanity_filter": true, "entity_detection": true,
            "webhook_url": receiver.url("/hook"),
        }),
    );
    let id = done["id"].as_str().unwrap();
    let mut returned = done.to_string();
    for part in ["", "/srt", "/vtt", "/sentences", "/paragraphs"] {
        returned.push_str(account.get(&format!("/v2/transcripts/{id}{part}")).text());
    }
    // The answer repeats the words of the search.
    let search = account.get(&format!("/v2/transcripts/{id}/word-search?words=john,smith,mary,london")).ok();
    assert_eq!(search["total_count"], 0);
    returned.push_str(account.get("/v2/transcripts").text());
    for delivery in receiver.wait("/hook", 1) {
        returned.push_str(&delivery.json().to_string());
    }
    returned.push_str(&service.log());
    // The log may hold the address of the search.
    let returned = returned.to_lowercase().replace("words=john,smith,mary,london", "");
    // Whole words: the log has PRIMARY keys.
    let shown: HashSet<&str> = returned.split(|c: char| !c.is_alphabetic()).collect();
    for word in PERSONAL.iter().chain(&["bastard"]) {
        assert!(!shown.contains(word), "{word} was returned, sent or logged");
    }
    let mut found = Vec::new();
    files_with(&service.data(), &["smith", "london", "1985", "bastard"], &mut found);
    assert!(found.is_empty(), "{found:?}");
}
