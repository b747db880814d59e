//! Edits of transcripts: words, times, speakers and titles; versions; and what was recognised.

use std::time::Instant;

use auricle_tests::{Account, Answer, Service, Setup, Visitor, long_reading, two_readers};
use reqwest::Method;
use serde_json::{Value, json};

use crate::postgres;

pub(crate) fn patch(account: &Account, id: &str, body: &Value) -> Answer {
    let request = account.request(Method::PATCH, &format!("/v2/transcripts/{id}"));
    Answer::of(request.header("content-type", "application/json").body(body.to_string()))
}

pub(crate) fn edit(account: &Account, id: &str, version: i64, edits: Value) -> Answer {
    patch(account, id, &json!({ "version": version, "edits": edits }))
}

pub(crate) fn two_speakers(account: &Account) -> Value {
    let upload = account.upload("two.wav", two_readers());
    let id = account.create(&json!({ "upload_id": upload, "speaker_labels": true }));
    let done = account.finished(&id);
    assert_eq!((&done["status"], &done["version"]), (&json!("completed"), &json!(0)));
    done
}

fn texts(words: &Value) -> Vec<&str> {
    words.as_array().unwrap().iter().map(|word| word["text"].as_str().unwrap()).collect()
}

fn edits_are_kept(service: &Service) {
    let account = service.account();
    let first = two_speakers(&account);
    let id = first["id"].as_str().unwrap();
    let path = |rest: &str| format!("/v2/transcripts/{id}{rest}");
    let times = |words: &Value| words.as_array().unwrap().iter().map(|word| word["start"].clone()).collect::<Vec<_>>();

    // As many words keep their times, and what reads the words reads those that were edited.
    let answer = edit(&account, id, 0, json!([{ "from": 0, "to": 2, "text": " Zebra\n<b>crossing</b> " }])).ok();
    assert_eq!((&answer["version"], &answer["changes"][0]["from"]), (&json!(1), &json!(0)));
    let now = account.transcript(id);
    assert_eq!(now["version"], 1);
    assert_eq!(texts(&now["words"])[..2], ["Zebra", "<b>crossing</b>"]);
    assert_eq!(times(&now["words"]), times(&first["words"]));
    assert_eq!(texts(&now["words"])[2..], texts(&first["words"])[2..]);
    assert!(now["text"].as_str().unwrap().starts_with("Zebra <b>crossing</b> "));
    assert!(now["utterances"][0]["text"].as_str().unwrap().starts_with("Zebra <b>crossing</b> "));
    for rest in ["/srt", "/paragraphs", "/sentences"] {
        assert!(account.get(&path(rest)).text().contains("Zebra"), "{rest}");
    }
    assert!(account.get(&path("/vtt")).text().contains("Zebra &lt;b&gt;crossing&lt;/b&gt;"));
    assert_eq!(account.get(&path("/word-search?words=zebra")).ok()["total_count"], 1);

    // The recognised words stay.
    let original = account.get(&path("?original=true")).ok();
    for field in ["text", "words", "utterances"] {
        assert_eq!(original[field], first[field], "{field}");
    }
    for rest in ["/srt?original=true", "/vtt?original=true", "/paragraphs?original=true"] {
        assert!(!account.get(&path(rest)).text().contains("Zebra"), "{rest}");
    }
    assert_eq!(account.get(&path("/word-search?words=zebra&original=true")).ok()["total_count"], 0);
    account.get(&path("?original=maybe")).error(422, "validation_error");

    // More words share the time of one; words with their times undo that.
    let more = edit(&account, id, 1, json!([{ "from": 2, "to": 3, "text": "one two three" }])).ok();
    assert_eq!(texts(&more["changes"][0]["words"]), ["one", "two", "three"]);
    let old = &now["words"][2];
    assert_eq!(more["changes"][0]["words"][0]["start"], old["start"]);
    assert_eq!(more["changes"][0]["words"][2]["end"], old["end"]);
    edit(&account, id, 2, json!([{ "from": 2, "to": 5, "words": [old] }])).ok();
    assert_eq!(account.transcript(id)["words"], now["words"]);

    // Places are those after the edits before; a title goes with them.
    let edits = json!([{ "from": 0, "to": 1, "text": "" }, { "from": 0, "to": 1, "text": "crossing" }]);
    let answer = patch(&account, id, &json!({ "version": 3, "title": "Crossings", "edits": edits })).ok();
    assert_eq!((&answer["version"], &answer["title"]), (&json!(4), &json!("Crossings")));
    let now = account.transcript(id);
    assert_eq!((texts(&now["words"])[0], &now["title"]), ("crossing", &json!("Crossings")));

    // Speakers: a turn is another's, and all of one are another's.
    let count = now["words"].as_array().unwrap().len();
    edit(&account, id, 4, json!([{ "from": 0, "to": 2, "speaker": "C" }])).ok();
    let now = account.transcript(id);
    let speakers: Vec<&str> =
        now["utterances"].as_array().unwrap().iter().map(|one| one["speaker"].as_str().unwrap()).collect();
    assert_eq!(speakers[..2], ["C", "A"]);
    edit(&account, id, 5, json!([{ "of": "B", "speaker": "A" }, { "of": "C", "speaker": "A" }])).ok();
    let now = account.transcript(id);
    assert!(now["words"].as_array().unwrap().iter().all(|word| word["speaker"] == "A"));
    assert_eq!(account.get(&path("?original=true")).ok()["utterances"], first["utterances"]);

    // A wrong edit is refused by name and changes nothing.
    for (body, status, code, message) in [
        (json!({ "edits": [] }), 400, "invalid_request", "version"),
        (json!({ "version": 6 }), 400, "invalid_request", "no edit"),
        (json!({ "version": 6, "edit": [], "title": "x" }), 422, "validation_error", "did you mean `edits`?"),
        (json!({ "version": 6, "title": "a\u{202e}b" }), 422, "validation_error", "U+202E"),
        (json!({ "version": 6, "title": "x".repeat(501) }), 422, "validation_error", "501"),
        (
            json!({ "version": 6, "edits": [{ "from": 0, "to": count + 1, "text": "x" }] }),
            422,
            "validation_error",
            "edits[0]",
        ),
        (json!({ "version": 6, "edits": [{ "from": 0, "to": 0, "text": "x" }] }), 422, "validation_error", "less than"),
        (
            json!({ "version": 6, "edits": [{ "from": 0, "to": count, "text": " " }] }),
            422,
            "validation_error",
            "leave a word",
        ),
        (
            json!({ "version": 6, "edits": [{ "from": 0, "to": 1, "text": "a\u{200b}b" }] }),
            422,
            "validation_error",
            "U+200B",
        ),
        (
            json!({ "version": 6, "edits": [{ "from": 0, "to": 1, "text": "x".repeat(201) }] }),
            422,
            "validation_error",
            "201",
        ),
        (
            json!({ "version": 6, "edits": [{ "from": 0, "to": 1, "text": "x", "speaker": "B" }] }),
            400,
            "invalid_request",
            "one of",
        ),
        (
            json!({ "version": 6, "edits": [{ "from": 0, "to": 1, "speaker": "<b>" }] }),
            422,
            "validation_error",
            "A to ZZ",
        ),
        (json!({ "version": 6, "edits": [{ "of": "Q", "speaker": "A" }] }), 422, "validation_error", "of"),
        (
            json!({ "version": 6, "edits": [{ "from": 3, "to": 4, "words": [{ "text": "x", "start": 0, "end": 1, "confidence": 1 }] }] }),
            422,
            "validation_error",
            "order",
        ),
        (
            json!({ "version": 6, "edits": vec![json!({ "of": "A", "speaker": "A" }); 201] }),
            422,
            "validation_error",
            "201",
        ),
    ] {
        let said = patch(&account, id, &body).error(status, code);
        assert!(said.contains(message), "{said}");
    }
    assert_eq!(account.transcript(id), now);

    // Two edit at once: one is kept. An edit of an older version, and of a transcript that is gone, is not.
    let said = edit(&account, id, 5, json!([{ "from": 0, "to": 1, "text": "late" }])).error(409, "edit_conflict");
    assert!(said.contains("version 6"), "{said}");
    let racing: Vec<_> = ["one", "two", "three", "four"]
        .map(|text| {
            let (account, id) = (account.clone(), id.to_owned());
            std::thread::spawn(move || {
                (text, edit(&account, &id, 6, json!([{ "from": 0, "to": 1, "text": text }])).status)
            })
        })
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    let won: Vec<&str> = racing.iter().filter(|(_, status)| *status == 200).map(|(text, _)| *text).collect();
    assert_eq!((won.len(), racing.iter().filter(|(_, status)| *status == 409).count()), (1, 3), "{racing:?}");
    let now = account.transcript(id);
    assert_eq!((texts(&now["words"])[0], &now["version"]), (won[0], &json!(7)));
    edit(&service.account(), id, 7, json!([{ "from": 0, "to": 1, "text": "x" }])).error(404, "not_found");
    assert_eq!(account.delete(&path("")).status, 204);
    edit(&account, id, 7, json!([{ "from": 0, "to": 1, "text": "x" }])).error(404, "not_found");
}

#[test]
fn an_edit_is_a_patch_of_a_version() {
    edits_are_kept(&Setup::local().starter().start());
}

#[test]
fn an_edit_is_a_patch_of_a_version_on_postgres() {
    let Some(server) = postgres() else { return };
    edits_are_kept(&Setup::local().starter().with("database_url", server.database()).start());
}

#[test]
fn a_transcript_without_speakers_or_words_is_edited_as_far_as_it_has_them() {
    let service = Setup::local().starter().start();
    let account = service.account();
    let id = account.transcribe("plain.wav", two_readers())["id"].as_str().unwrap().to_owned();
    let said = edit(&account, &id, 0, json!([{ "from": 0, "to": 1, "speaker": "A" }])).error(422, "validation_error");
    assert!(said.contains("speaker_labels"), "{said}");
    edit(&account, &id, 0, json!([{ "from": 0, "to": 1, "text": "Well" }])).ok();
    assert_eq!(account.transcript(&id)["utterances"], Value::Null);
    // A title needs no words.
    let silent = account.create(&json!({ "upload_id": account.upload("silence.wav", auricle_tests::silence(1.0)) }));
    account.finished(&silent);
    edit(&account, &silent, 0, json!([{ "from": 0, "to": 1, "text": "x" }])).error(409, "not_ready");
    patch(&account, &silent, &json!({ "version": 0, "title": "Silence" })).ok();
    patch(&account, &silent, &json!({ "version": 1, "title": null })).ok();
    assert_eq!(account.transcript(&silent)["title"], Value::Null);
}

/// The page sends its edits as the API takes them, with the visitor's token, and its downloads have both editions.
#[test]
fn a_page_edits_with_its_token() {
    let service = Setup::local().starter().start();
    let mut visitor = Visitor::signed_up(&service);
    let account = Account { api: service.api(), key: visitor.key("k"), email: String::new() };
    let id = two_speakers(&account)["id"].as_str().unwrap().to_owned();
    let body = json!({ "version": 0, "edits": [{ "from": 0, "to": 1, "text": "<script>alert(1)</script>" }] });
    let send = |visitor: &mut Visitor, token: &str| {
        let request = visitor.request(Method::PATCH, &format!("/data/transcripts/{id}")).header("x-form-token", token);
        visitor.send(request.header("content-type", "application/json").body(body.to_string()))
    };
    assert_eq!(send(&mut visitor, "").status, 403);
    let token = visitor.token.clone();
    send(&mut visitor, &token).ok();
    for format in ["txt", "srt", "json"] {
        let path = format!("/transcripts/{id}/download/{format}");
        assert!(visitor.get(&path).text().contains("<script>alert(1)</script>"), "{format}");
        assert!(!visitor.get(&format!("{path}?original=true")).text().contains("alert"), "{format}");
    }
    let page = visitor.get(&format!("/transcripts/{id}"));
    assert!(!page.text().contains("<script>alert") && page.text().contains("?original=true"));
    assert!(visitor.get(&format!("/transcripts/{id}?original=true")).text().contains("before any edit"));
}

/// Edits of a long transcript, whose words are read in parts, take as long as the words take to be written.
#[test]
fn a_long_transcript_is_edited_by_patches() {
    let service = Setup::local().starter().start();
    let account = service.account();
    let first = account.transcribe("long.wav", long_reading(3));
    let id = first["id"].as_str().unwrap();
    // A hundred thousand words, as of ten hours.
    let given = first["words"].as_array().unwrap();
    let (mut version, mut end) = (0, given.len());
    let last = given.last().unwrap()["start"].as_u64().unwrap();
    while end < 100_000 {
        let block: Vec<Value> = (0..5_000.min(100_000 - end))
            .map(|at| json!({ "text": format!("word{at}"), "start": last, "end": last + 200, "confidence": 0.9 }))
            .collect();
        version = edit(&account, id, version, json!([{ "from": end, "to": end, "words": block }])).ok()["version"]
            .as_i64()
            .unwrap();
        end += block.len();
    }
    let began = Instant::now();
    edit(&account, id, version, json!([{ "from": 50_000, "to": 50_001, "text": "Zanzibar" }])).ok();
    let took = began.elapsed();
    println!("an edit of 100,000 words took {took:?}");
    assert!(took.as_secs() < 5, "{took:?}");
    let now = account.transcript(id);
    assert_eq!((now["words"].as_array().unwrap().len(), texts(&now["words"])[50_000]), (100_000, "Zanzibar"));
    assert_eq!(account.get(&format!("/v2/transcripts/{id}?original=true")).ok()["words"], first["words"]);
}
